//! The lines of an execution as clients read them: one JSON object each, in ASCII, because clients split at any line separator of Unicode
//! and decode each piece that arrives by itself.

use std::io;

use bytes::Bytes;
use serde::Serialize;
use serde_json::ser::Formatter;
use serde_json::{Map, Value, json};

use crate::clock;
use crate::event::{Bundle, Failure};

/// The field for a MIME type; all others go into `extra`.
const FIELDS: [(&str, &str); 11] = [
    ("text/plain", "text"),
    ("text/html", "html"),
    ("text/markdown", "markdown"),
    ("image/svg+xml", "svg"),
    ("image/png", "png"),
    ("image/jpeg", "jpeg"),
    ("application/pdf", "pdf"),
    ("text/latex", "latex"),
    ("application/json", "json"),
    ("application/javascript", "javascript"),
    ("e2b/data", "data"),
];
const CHART: &str = "e2b/chart";

pub(crate) fn count(n: u64) -> Bytes {
    line(&json!({ "type": "number_of_executions", "execution_count": n }))
}

pub(crate) fn stream(stderr: bool, text: &str) -> Bytes {
    let name = if stderr { "stderr" } else { "stdout" };
    line(&json!({ "type": name, "text": text, "timestamp": clock::now() }))
}

pub(crate) fn error(failure: &Failure) -> Bytes {
    let Failure { name, value, traceback } = failure;
    line(&json!({ "type": "error", "name": name, "value": value, "traceback": traceback }))
}

pub(crate) fn keepalive() -> Bytes {
    line(&json!({ "type": "keepalive" }))
}

pub(crate) fn end() -> Bytes {
    line(&json!({ "type": "end_of_execution" }))
}

pub(crate) fn result(main: bool, data: Bundle) -> Bytes {
    let mut extra = Map::new();
    let mut fields = Map::new();
    fields.insert("type".into(), "result".into());
    fields.insert("is_main_result".into(), main.into());
    for (mime, value) in data {
        if mime == CHART {
            if value.as_object().is_some_and(|chart| !chart.is_empty()) {
                fields.insert("chart".into(), value);
            }
        } else if let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == mime) {
            fields.insert((*field).into(), shown(field, value));
        } else {
            extra.insert(mime, value);
        }
    }
    fields.insert("extra".into(), extra.into());
    line(&Value::Object(fields))
}

fn shown(field: &str, value: Value) -> Value {
    match (field, value) {
        ("text", Value::String(text)) => Value::String(unquoted(text)),
        ("png" | "jpeg" | "pdf", Value::String(text)) if text.contains(['\n', '\r']) => {
            Value::String(text.replace(['\n', '\r'], ""))
        }
        (_, value) => value,
    }
}

/// A quoted string is shown without its quotes.
fn unquoted(text: String) -> String {
    for quote in ['\'', '"'] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.to_owned();
        }
    }
    text
}

/// One line. Writing a value into memory does not fail.
fn line(value: &Value) -> Bytes {
    let mut out = Vec::with_capacity(256);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, Ascii);
    if value.serialize(&mut serializer).is_err() {
        out.clear();
        out.extend_from_slice(br#"{"type":"keepalive"}"#);
    }
    out.push(b'\n');
    Bytes::from(out)
}

struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|c: char| !c.is_ascii()) {
            let (plain, other) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut chars = other.chars();
            if let Some(c) = chars.next() {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = chars.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &Bytes) -> Value {
        let text = std::str::from_utf8(line).expect("text");
        assert!(text.is_ascii() && text.ends_with('\n') && !text[..text.len() - 1].contains('\n'), "{text}");
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn lines_are_ascii_and_mean_the_same() {
        for text in ["", "a\nb\r\u{b}\u{c}\u{1c}", "ü€\u{2028}\u{2029}\u{85}😀", "\\\"\u{7f}"] {
            assert_eq!(parsed(&stream(false, text))["text"], text);
        }
        assert!(String::from_utf8(stream(true, "😀").to_vec()).expect("text").contains("\\ud83d\\ude00"));
    }

    #[test]
    fn representations_have_their_fields() {
        let data = json!({
            "text/plain": "'it''s'", "image/png": "aa\nbb\n", "application/json": [1.0, 2], "e2b/chart": {},
            "e2b/data": { "a": [1] }, "application/x-other": "x",
        });
        let line = parsed(&result(true, data.as_object().expect("object").clone()));
        let wanted = json!({
            "type": "result", "is_main_result": true, "text": "it''s", "png": "aabb", "json": [1.0, 2],
            "data": { "a": [1] }, "extra": { "application/x-other": "x" },
        });
        assert_eq!(line, wanted);
        assert_eq!(line["json"].to_string(), "[1.0,2]");
        assert_eq!(unquoted("'".to_owned()), "'");
        assert_eq!(unquoted("\"a'".to_owned()), "\"a'");
    }
}
