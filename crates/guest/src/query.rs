//! Decoding of URL queries.

const MAX_PAIRS: usize = 64;

/// Decoded pairs in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `a=b&c=d`; `None` if a value is not UTF-8 or there are too many pairs.
    pub(crate) fn parse(text: Option<&str>) -> Option<Self> {
        let mut pairs = Vec::new();
        for pair in text.unwrap_or_default().split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if pairs.len() == MAX_PAIRS {
                return None;
            }
            pairs.push((decode(key)?, decode(value)?));
        }
        Some(Self(pairs))
    }

    /// The first value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let hex = |i: usize| bytes.get(i).and_then(|b| char::from(*b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high << 4 | low);
                at += 2;
            }
            (b'+', ..) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
        at += 1;
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pairs() {
        let query = Query::parse(Some("path=%2Fa%20b+c&username=&flag&path=second&bad=%zz%4")).unwrap();
        assert_eq!(query.get("path"), Some("/a b c"));
        assert_eq!(query.get("username"), Some(""));
        assert_eq!(query.get("flag"), Some(""));
        assert_eq!(query.get("bad"), Some("%zz%4"));
        assert_eq!(query.get("none"), None);
        assert!(Query::parse(Some("a=%ff")).is_none());
        assert!(Query::parse(Some(&"a&".repeat(65))).is_none());
        assert!(Query::parse(None).is_some());
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(text in "\\PC{0,40}") {
            let encoded: String = text.bytes().map(|b| format!("%{b:02x}")).collect();
            prop_assert_eq!(decode(&encoded), Some(text));
        }

        #[test]
        fn any_text_never_panics(text in "\\PC{0,80}") {
            let _ = Query::parse(Some(&text));
        }
    }
}
