//! Media types by magic numbers: images that models see, and names for the files that they cannot read.

/// Prefixes, and what they stand for.
const PREFIXES: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\x01\0", "image/x-icon"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\0", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/vnd.microsoft.portable-executable"),
    (b"\0asm", "application/wasm"),
    (b"\xca\xfe\xba\xbe", "application/java-vm"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "application/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/x-matroska"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\0\x01\0\0\0", "font/ttf"),
    (b"OTTO", "font/otf"),
    (b"\xff\xfe", "text/plain; charset=utf-16le"),
    (b"\xfe\xff", "text/plain; charset=utf-16be"),
];
/// Images that models see.
const SEEN: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The media type of a file that is not a text, by its first bytes.
pub(crate) fn of(head: &[u8]) -> &'static str {
    let at = |start: usize, mark: &[u8]| head.get(start..).is_some_and(|rest| rest.starts_with(mark));
    if let Some((_, name)) = PREFIXES.iter().find(|(prefix, _)| head.starts_with(prefix)) {
        return name;
    }
    match () {
        () if at(0, b"RIFF") && at(8, b"WEBP") => "image/webp",
        () if at(0, b"RIFF") && at(8, b"WAVE") => "audio/wav",
        () if at(0, b"RIFF") && at(8, b"AVI ") => "video/x-msvideo",
        () if at(4, b"ftyp") => "video/mp4",
        () if at(257, b"ustar") => "application/x-tar",
        () => "application/octet-stream",
    }
}

/// The media type, if the bytes begin an image that models see. A text that happens to begin like one is a text.
pub(crate) fn image(head: &[u8]) -> Option<&'static str> {
    let name = SEEN.into_iter().find(|name| *name == of(head))?;
    let is_text = !head.contains(&0) && std::str::from_utf8(head).is_ok();
    (!is_text).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let mut tar = vec![b'a'; 257];
        tar.extend_from_slice(b"ustar\0");
        for (head, name) in [
            (&b"\x89PNG\r\n\x1a\n\0\0"[..], "image/png"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
            (b"\0\0\0\x18ftypmp42", "video/mp4"),
            (b"\x7fELF\x02", "application/x-executable"),
            (b"", "application/octet-stream"),
            (b"\0\0\0", "application/octet-stream"),
            (&tar, "application/x-tar"),
        ] {
            assert_eq!(of(head), name);
        }
        assert_eq!(image(b"GIF89a\x01\0"), Some("image/gif"));
        assert_eq!(image(b"GIF89a is a format"), None);
        assert_eq!(image(b"%PDF-\0"), None);
    }
}
