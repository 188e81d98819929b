//! Kinds of files: by their first bytes, else by their names.

/// The kind of everything else.
const OTHER: &str = "application/octet-stream";

/// The media type of a file. It is an image or a PDF only if its first bytes say so.
pub(in crate::api) fn of(head: &[u8], name: &str) -> &'static str {
    by_content(head).unwrap_or_else(|| by_name(name))
}

fn by_content(head: &[u8]) -> Option<&'static str> {
    match head {
        head if head.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        head if head.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        head if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Some("image/gif"),
        head if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") => Some("image/webp"),
        head if head.starts_with(b"%PDF-") => Some("application/pdf"),
        _ => None,
    }
}

fn by_name(name: &str) -> &'static str {
    let extension = name.rsplit('/').next().and_then(|base| base.rsplit_once('.')).map(|(_, extension)| extension);
    match extension.unwrap_or_default().to_ascii_lowercase().as_str() {
        "txt" | "log" | "text" => "text/plain",
        "md" | "markdown" => "text/markdown",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" | "mjs" | "cjs" => "text/javascript",
        "ts" | "tsx" | "jsx" | "py" | "rs" | "go" | "java" | "c" | "h" | "cpp" | "hpp" | "cs" | "rb" | "php" | "sh"
        | "sql" | "toml" | "ini" | "conf" | "swift" | "kt" | "lua" | "r" | "pl" | "vue" | "svelte" | "diff"
        | "patch" => "text/plain",
        "yaml" | "yml" => "application/yaml",
        "json" | "ipynb" => "application/json",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        "webm" => "video/webm",
        "parquet" => "application/vnd.apache.parquet",
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_before_names() {
        for (head, name, expected) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], "a.txt", "image/png"),
            (b"\xff\xd8\xff\xe0", "a", "image/jpeg"),
            (b"GIF89a", "a.html", "image/gif"),
            (b"RIFF\0\0\0\0WEBPVP8 ", "a.html", "image/webp"),
            (b"RIFF\0\0\0\0WAVE", "a.wav", "audio/wav"),
            (b"%PDF-1.7", "a", "application/pdf"),
            (b"<script>", "a.png", OTHER),
            (b"<script>", "a.pdf", OTHER),
            (b"a,b", "dir.x/data.CSV", "text/csv"),
            (b"a,b", "dir.csv/data", OTHER),
            (b"", "", OTHER),
        ] {
            assert_eq!(of(head, name), expected, "{name}");
        }
    }
}
