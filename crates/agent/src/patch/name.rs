//! Names of files in patches: git's quoting, prefixes and timestamps.

use super::{MAX_PATH, PatchError};

/// A name as a header has it: decoded, with its prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    /// A timestamp follows that says that the file does not exist.
    pub(super) never: bool,
}

impl Name {
    /// Reads the name after `--- ` or `+++ `.
    pub(super) fn parse(text: &str, line: usize) -> Result<Self, PatchError> {
        let (text, rest) = if text.starts_with('"') {
            unquote(text, line)?
        } else {
            let (name, rest) = text.split_once('\t').unwrap_or((text, ""));
            (name.trim_end_matches('\r').to_owned(), rest)
        };
        Ok(Self { never: text == "/dev/null" || is_epoch(rest.trim()), text })
    }

    pub(super) fn is_null(&self) -> bool {
        self.text == "/dev/null"
    }
}

/// A name that may be quoted, and nothing after it.
pub(super) fn whole(text: &str, line: usize) -> Result<String, PatchError> {
    if !text.starts_with('"') {
        return Ok(text.to_owned());
    }
    match unquote(text, line)? {
        (name, "") => Ok(name),
        _ => Err(PatchError::malformed(line, text, "text after the closing quote of a name:")),
    }
}

/// Decodes a name that git quoted; returns what follows it.
pub(super) fn unquote(text: &str, line: usize) -> Result<(String, &str), PatchError> {
    let malformed = |reason| PatchError::malformed(line, text, reason);
    let bytes = text.as_bytes();
    let mut name = Vec::new();
    let mut at = 1;
    loop {
        let byte = *bytes.get(at).ok_or_else(|| malformed("a quoted name without its closing quote:"))?;
        at += 1;
        match byte {
            b'"' => break,
            b'\\' => {
                let escaped = *bytes.get(at).ok_or_else(|| malformed("a quoted name without its closing quote:"))?;
                at += 1;
                match escaped {
                    b'a' => name.push(7),
                    b'b' => name.push(8),
                    b't' => name.push(b'\t'),
                    b'n' => name.push(b'\n'),
                    b'v' => name.push(11),
                    b'f' => name.push(12),
                    b'r' => name.push(b'\r'),
                    b'"' | b'\\' => name.push(escaped),
                    b'0'..=b'3' => {
                        let digits = bytes.get(at - 1..at + 2).unwrap_or_default();
                        let octal = digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) && digits.len() == 3;
                        if !octal {
                            return Err(malformed("a quoted name with a bad escape:"));
                        }
                        name.push(digits.iter().fold(0_u8, |value, digit| value * 8 + (digit - b'0')));
                        at += 2;
                    }
                    _ => return Err(malformed("a quoted name with a bad escape:")),
                }
            }
            _ => name.push(byte),
        }
    }
    let name = String::from_utf8(name).map_err(|_| malformed("a name that is not UTF-8:"))?;
    Ok((name, &text[at..]))
}

/// The two names of `diff --git`, without their prefixes, if the line alone tells that they are the same.
pub(super) fn of_git_header(text: &str, line: usize) -> Result<Option<String>, PatchError> {
    let (old, new) = if text.starts_with('"') {
        let (old, rest) = unquote(text, line)?;
        let Some(rest) = rest.strip_prefix(' ') else { return Ok(None) };
        (old, whole(rest, line)?)
    } else if let Some(quote) = text.find(" \"").filter(|_| text.ends_with('"')) {
        (text[..quote].to_owned(), whole(&text[quote + 1..], line)?)
    } else {
        // Names may contain blanks; the same name twice has its blank in the middle.
        let middle = text.len() / 2;
        if text.len().is_multiple_of(2) || text.as_bytes().get(middle) != Some(&b' ') {
            return Ok(None);
        }
        (text[..middle].to_owned(), text[middle + 1..].to_owned())
    };
    let (old, new) = without_prefixes(&old, &new);
    Ok((old == new).then(|| old.to_owned()))
}

/// Removes the prefixes that git puts before names: `a/` and `b/`, or those of `diff.mnemonicPrefix`.
pub(super) fn without_prefixes<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str) {
    const PAIRS: [(&str, &str); 5] = [("i", "w"), ("c", "i"), ("c", "w"), ("o", "w"), ("1", "2")];
    if let (Some((first, old_rest)), Some((second, new_rest))) = (old.split_once('/'), new.split_once('/')) {
        let usual = ["a", "b"].contains(&first) && ["a", "b"].contains(&second);
        if usual || PAIRS.contains(&(first, second)) || PAIRS.contains(&(second, first)) {
            return (old_rest, new_rest);
        }
    }
    (old, new)
}

/// Removes the prefix of a name whose other side is `/dev/null`.
pub(super) fn without_prefix(name: &str) -> &str {
    name.split_once('/')
        .filter(|(first, _)| ["a", "b", "i", "w", "c", "o"].contains(first))
        .map_or(name, |(_, rest)| rest)
}

/// Checks a path and removes `.` and empty components.
pub(super) fn path(text: &str, line: usize) -> Result<String, PatchError> {
    let refuse = |reason| Err(PatchError::path_of(line, text, reason));
    if text.len() > MAX_PATH {
        return refuse("is too long");
    }
    if text.contains(['\0', '\n', '\r']) {
        return refuse("contains a control character");
    }
    if text.ends_with('/') {
        return refuse("names a directory");
    }
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() {
        return refuse("names no file");
    }
    if parts.contains(&"..") {
        return refuse("contains `..`");
    }
    Ok(if text.starts_with('/') { "/" } else { "" }.to_owned() + &parts.join("/"))
}

/// Whether a timestamp is the beginning of 1970, by which `diff -N` says that a file does not exist.
fn is_epoch(text: &str) -> bool {
    let mut parts = text.split(' ');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let zone = parts.next().unwrap_or("+0000");
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let minutes = |hours: Option<&str>, minutes: Option<&str>| -> Option<i32> {
        Some(i32::from(hours?.parse::<u8>().ok()?) * 60 + i32::from(minutes?.parse::<u8>().ok()?))
    };
    let days = match date {
        "1970-01-01" => 0,
        "1969-12-31" => -1,
        _ => return false,
    };
    let offset =
        minutes(zone.get(1..3), zone.get(3..5)).map(|value| if zone.starts_with('-') { -value } else { value });
    let local = minutes(clock.get(0..2), clock.get(3..5)).map(|value| days * 24 * 60 + value);
    fraction.bytes().all(|digit| digit == b'0') && clock.get(5..) == Some(":00") && local.is_some() && local == offset
}
