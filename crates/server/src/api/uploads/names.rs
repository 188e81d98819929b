//! Names of uploaded files: relative paths that stay below the directory of uploads.

use cabana_types::limits::MAX_PATH_BYTES;

/// Bytes of a name in a directory.
const MAX_COMPONENT: usize = 255;
/// Directories in a name, and the name itself.
const MAX_DEPTH: usize = 64;

/// Checks the name of a file, and drops `.` from it.
pub(in crate::api) fn check(name: &str) -> Result<String, &'static str> {
    if name.is_empty() {
        return Err("it has no file name");
    }
    if name.len() > MAX_PATH_BYTES {
        return Err("its name is longer than 1024 bytes");
    }
    if name.starts_with('/') {
        return Err("its name is an absolute path; send a relative one");
    }
    if name.contains(char::is_control) {
        return Err("its name has control characters");
    }
    let mut components = Vec::new();
    for component in name.split('/') {
        match component {
            "" => return Err("its name has an empty component"),
            "." => {}
            ".." => return Err("its name contains .."),
            long if long.len() > MAX_COMPONENT => return Err("its name has a component of more than 255 bytes"),
            component => components.push(component),
        }
    }
    match components.len() {
        0 => Err("it has no file name"),
        depth if depth > MAX_DEPTH => Err("its name has more than 63 directories"),
        _ => Ok(components.join("/")),
    }
}

/// The name for the `number`th file of this name: from 2 on with the number before the extension.
pub(super) fn numbered(name: &str, number: usize) -> String {
    if number < 2 {
        return name.to_owned();
    }
    let (directory, base) = match name.rsplit_once('/') {
        Some((directory, base)) => (format!("{directory}/"), base),
        None => (String::new(), name),
    };
    let (stem, extension) = split_extension(base);
    let suffix = format!(" ({number})");
    let mut end = stem.len().min(MAX_COMPONENT.saturating_sub(suffix.len() + extension.len()));
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{directory}{}{suffix}{extension}", stem.get(..end).unwrap_or_default())
}

/// The extension begins with its dot; that of a packed tar archive has two.
fn split_extension(base: &str) -> (&str, &str) {
    // A dot at the beginning hides a file. An extension is short.
    let dot = |text: &str| text.rfind('.').filter(|at| *at > 0 && text.len() - at <= 32);
    let Some(mut at) = dot(base) else { return (base, "") };
    if let Some(inner) = dot(base.get(..at).unwrap_or_default())
        && base.get(inner..at).is_some_and(|middle| middle.eq_ignore_ascii_case(".tar"))
    {
        at = inner;
    }
    base.split_at(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_stay_below_the_directory() {
        for (name, kept) in
            [("a.txt", "a.txt"), ("dir/a b.txt", "dir/a b.txt"), ("./x/./y", "x/y"), ("...", "..."), ("C:\\x", "C:\\x")]
        {
            assert_eq!(check(name).as_deref(), Ok(kept));
        }
        let long = "é".repeat(128);
        let deep = "a/".repeat(64) + "a";
        assert!(check(&deep[2..]).is_ok());
        for name in
            ["", "/", "/etc/passwd", "..", "a/../b", "a//b", "a/", ".", "./", "a\0", "a\nb", "\u{7f}", &long, &deep]
        {
            assert!(check(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn numbers_are_before_the_extension() {
        for (name, second) in [
            ("a.txt", "a (2).txt"),
            ("a", "a (2)"),
            (".bashrc", ".bashrc (2)"),
            ("d.d/a", "d.d/a (2)"),
            ("x/a.tar.gz", "x/a (2).tar.gz"),
            ("a.b.c", "a.b (2).c"),
            (".tar.gz", ".tar (2).gz"),
        ] {
            assert_eq!(numbered(name, 2), second);
            assert_eq!(numbered(name, 1), name);
        }
        let long = format!("{}.txt", "é".repeat(125));
        let named = numbered(&long, 1000);
        assert!(named.len() <= 255 && named.ends_with(" (1000).txt"), "{named}");
    }

    proptest! {
        #[test]
        fn numbered_names_are_names(name in "\\PC{1,300}", number in 1usize..2000) {
            if let Ok(checked) = check(&name) {
                let next = numbered(&checked, number);
                prop_assert_eq!(check(&next), Ok(next.clone()));
            }
        }
    }
}
