//! Paths of the guest that only the host may call, recognised in any spelling that some router might take for them.

use cabana_types::guest::HOST_ONLY_PATHS;

/// Whether a request path leads to one of them.
pub(super) fn is_host_only(path: &str) -> bool {
    let decoded = decode(path);
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in decoded.split(|b| *b == b'/' || *b == b'\\') {
        match segment {
            b"" | b"." => {}
            b".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let Some(first) = segments.first() else { return false };
    HOST_ONLY_PATHS.iter().any(|path| path.as_bytes()[1..].eq_ignore_ascii_case(first))
}

/// Undoes percent-encoding, twice over: a second router could undo it again.
fn decode(path: &str) -> Vec<u8> {
    let mut bytes = path.as_bytes().to_vec();
    for _ in 0..2 {
        if !bytes.contains(&b'%') {
            break;
        }
        let mut out = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while at < bytes.len() {
            let hex = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
            match hex.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                Some(byte) => {
                    out.push(byte);
                    at += 3;
                }
                None => {
                    out.push(bytes[at]);
                    at += 1;
                }
            }
        }
        bytes = out;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_recognised() {
        for path in [
            "/init",
            "/init/",
            "//init",
            "/./init",
            "/x/../init",
            "/%69nit",
            "/%2569nit",
            "/INIT",
            "/bridge",
            "/bridge/x",
            "/x/%2e%2e/freeze",
            "/%5cfsthaw",
            "/collapse",
            "/unfreeze",
            "/fsfreeze",
            "/journal",
        ] {
            assert!(is_host_only(path), "{path}");
        }
        for path in ["/", "/health", "/files", "/initial", "/x/init", "/process.Process/Start", "/%", "/%zz", "*", ""] {
            assert!(!is_host_only(path), "{path}");
        }
    }
}
