//! Emails as names of accounts.

/// Bytes of an email, as mail servers take them.
const MAX_BYTES: usize = 254;

/// An email in the form in which accounts have it; `None` if the text is none.
pub fn normalize(text: &str) -> Option<String> {
    let text = text.trim();
    let (name, host) = text.rsplit_once('@')?;
    let plain = |part: &str| !part.is_empty() && !part.chars().any(|c| c.is_whitespace() || c.is_control() || c == '@');
    let host_fits =
        host.split('.').all(|label| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-'));
    let fits = text.len() <= MAX_BYTES && name.len() <= 64 && plain(name) && plain(host) && host_fits;
    fits.then(|| text.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emails_are_recognised() {
        assert_eq!(normalize(" Ada.Lovelace+x@Example.COM ").as_deref(), Some("ada.lovelace+x@example.com"));
        assert_eq!(normalize("root@localhost").as_deref(), Some("root@localhost"));
        for wrong in ["", "@", "a@", "@b", "a b@c", "a@b@c", "a@b..c", "a@b c", "a@b/c", "a\n@b"] {
            assert_eq!(normalize(wrong), None, "{wrong:?}");
        }
        assert_eq!(normalize(&format!("{}@b", "a".repeat(300))), None);
    }
}
