//! Output of commands as text.

/// Turns chunks of bytes into text: a character may be split between two.
#[derive(Default)]
pub(crate) struct Decoder {
    rest: Vec<u8>,
}

impl Decoder {
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        // Nothing is kept unless the end may be the beginning of a character.
        let keep = match self.rest.utf8_chunks().last() {
            Some(chunk) if chunk.invalid().len() < 4 && is_beginning(chunk.invalid()) => chunk.invalid().len(),
            _ => 0,
        };
        let rest = self.rest.split_off(self.rest.len() - keep);
        let text = String::from_utf8_lossy(&self.rest).into_owned();
        self.rest = rest;
        text
    }
}

/// Whether bytes could be completed to one character.
fn is_beginning(bytes: &[u8]) -> bool {
    let needed = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return false,
    };
    bytes.len() < needed && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_survive_any_split() {
        let text = "aä€🦀\u{fffd}z".as_bytes();
        for at in 0..text.len() {
            for then in at..text.len() {
                let mut decoder = Decoder::default();
                let parts = [&text[..at], &text[at..then], &text[then..]];
                let whole: String = parts.iter().map(|part| decoder.decode(part)).collect();
                assert_eq!(whole.as_bytes(), text, "{at} {then}");
            }
        }
        let mut decoder = Decoder::default();
        assert_eq!(decoder.decode(b"\xff\xf0x\xe2\x82"), "\u{fffd}\u{fffd}x");
        assert_eq!(decoder.decode(b"!"), "\u{fffd}!");
    }
}
