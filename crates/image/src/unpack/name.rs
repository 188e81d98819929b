//! Names of entries: relative, without `..`, bounded, split into the directory and the last part.

use cabana_archive::Kind;

use crate::error::{Error, Result};

const MAX_PART: usize = 255;

/// A name without `..` and without a leading slash. Links on its path are checked by the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name(Vec<u8>);

impl Name {
    /// The name of an entry. Some builders write directories as `/nix`, which means the same in every runtime; for
    /// anything with content a leading slash is refused.
    pub(super) fn entry(raw: &[u8], kind: Kind, depth: usize) -> Result<Self> {
        if raw.starts_with(b"/") && kind != Kind::Directory {
            return Err(Error::refused(raw, "its path is absolute"));
        }
        Self::parse(raw, depth)
    }

    /// The name that a hard link gives. A leading slash means the root of the image: some builders write it.
    pub(super) fn target(raw: &[u8], depth: usize) -> Result<Self> {
        Self::parse(raw, depth)
    }

    fn parse(raw: &[u8], depth: usize) -> Result<Self> {
        let mut parts = Vec::new();
        for part in raw.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return Err(Error::refused(raw, "there is .. in its path")),
                _ if part.contains(&0) => return Err(Error::refused(raw, "there is a NUL in its path")),
                _ if part.len() > MAX_PART => return Err(Error::refused(raw, "a part of its path is too long")),
                _ => parts.push(part),
            }
        }
        if parts.len() > depth {
            return Err(Error::refused(raw, format!("it is nested deeper than {depth} directories")));
        }
        Ok(Self(parts.join(&b'/')))
    }

    pub(super) fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The directory (empty for the root) and the last part.
    pub(super) fn split(&self) -> (&[u8], &[u8]) {
        match self.0.iter().rposition(|b| *b == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[], &self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_cleaned_or_refused() {
        let name = |raw: &[u8], kind| Name::entry(raw, kind, 8).map(|name| name.0);
        assert_eq!(name(b"./a//b/./c", Kind::File).unwrap(), b"a/b/c");
        assert_eq!(name(b"./", Kind::Directory).unwrap(), b"");
        assert_eq!(name(b"/nix/", Kind::Directory).unwrap(), b"nix");
        assert_eq!(name(b"...", Kind::File).unwrap(), b"...");
        for bad in [&b"/etc/passwd"[..], b"..", b"a/../b", b"a/..", b"a\0b", b"1/2/3/4/5/6/7/8/9"] {
            assert!(name(bad, Kind::File).is_err(), "{}", bad.escape_ascii());
        }
        assert!(name(&[b'x'; 256], Kind::File).is_err());
    }

    proptest! {
        #[test]
        fn what_is_taken_stays_below(raw in "[a./\\x00\n]{0,20}") {
            for kind in [Kind::File, Kind::Directory] {
                if let Ok(name) = Name::entry(raw.as_bytes(), kind, 100) {
                    let (directory, last) = name.split();
                    prop_assert!(!name.bytes().starts_with(b"/") && !last.contains(&b'/') && !last.contains(&0));
                    prop_assert!(directory.split(|b| *b == b'/').all(|part| part != b".." && part != b"."));
                    prop_assert!(last != b".." && last != b".");
                }
            }
        }
    }
}
