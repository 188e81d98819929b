//! Certificate authorities that the host trusts and Debian does not ship: behind a proxy that intercepts TLS, a sandbox without
//! them cannot connect to anything.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
const MAX_BUNDLE_BYTES: u64 = 8 << 20;
const MAX_CERTIFICATE_BYTES: usize = 64 << 10;
const MAX_CERTIFICATES: usize = 500;
const MAX_FILES: usize = 2000;

/// The bundle of a Debian-like host, and the part of it that came from packages. Those packages may be older than the new root
/// filesystem's, and an authority that Debian has dropped since must not come back.
const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
const PACKAGED: &str = "/usr/share/ca-certificates";

/// Directories for an administrator's own certificates, by distribution.
const ADDED: [&str; 4] = [
    "/usr/local/share/ca-certificates",
    "/etc/pki/ca-trust/source/anchors",
    "/etc/ca-certificates/trust-source/anchors",
    "/etc/pki/trust/anchors",
];

/// The authorities that the host trusts beyond `known` (the text of a bundle), each as PEM.
pub(super) fn beyond(known: &str) -> Vec<String> {
    let mut known = known.to_owned();
    let mut found: Vec<PathBuf> = ADDED.iter().flat_map(|directory| files(Path::new(directory), 3)).collect();
    let packaged = files(Path::new(PACKAGED), 3);
    if !packaged.is_empty() {
        known.extend(packaged.iter().map(|file| read(file)));
        found.push(PathBuf::from(BUNDLE));
    }
    difference(&known, found.iter().map(|file| read(file)))
}

/// The files below a directory, sorted.
fn files(directory: &Path, depth: u32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let inner = |path: PathBuf| match path.is_dir() {
        true if depth > 0 => files(&path, depth - 1),
        true => Vec::new(),
        false => vec![path],
    };
    paths.into_iter().flat_map(inner).take(MAX_FILES).collect()
}

fn read(path: &Path) -> String {
    let mut text = Vec::new();
    // An unreadable file counts as empty.
    let _ = std::fs::File::open(path).and_then(|file| file.take(MAX_BUNDLE_BYTES).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

fn difference(known: &str, texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: BTreeSet<String> = bodies(known).collect();
    let mut more = Vec::new();
    for text in texts {
        for body in bodies(&text) {
            if more.len() < MAX_CERTIFICATES && seen.insert(body.clone()) {
                more.push(pem(&body));
            }
        }
    }
    more
}

/// The certificates of a text as base64 without line breaks, to compare them.
fn bodies(text: &str) -> impl Iterator<Item = String> {
    text.split(BEGIN).skip(1).filter_map(|part| {
        let body: String = part.split_once(END)?.0.split_whitespace().collect();
        let base64 = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/' || b == b'=';
        (!body.is_empty() && body.len() <= MAX_CERTIFICATE_BYTES && body.bytes().all(base64)).then_some(body)
    })
}

fn pem(body: &str) -> String {
    let mut text = format!("{BEGIN}\n");
    for line in body.as_bytes().chunks(64) {
        text.push_str(&String::from_utf8_lossy(line));
        text.push('\n');
    }
    text.push_str(END);
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_certificates_are_added_once() {
        let (a, b) = (pem(&"QUFB".repeat(40)), pem("QkJC"));
        let known = format!("# a remark\n{a}");
        let windows = a.replace('\n', "\r\n");
        let texts = [
            windows,
            format!("{b}{b}"),
            "-----BEGIN CERTIFICATE-----\n$(reboot)\n-----END CERTIFICATE-----".to_owned(),
        ];
        assert_eq!(difference(&known, texts.into_iter()), [b]);
    }

    #[test]
    fn lines_are_short() {
        assert!(pem(&"QUFB".repeat(40)).lines().all(|l| l.len() <= 64));
    }
}
