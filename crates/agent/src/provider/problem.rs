//! From what a provider says is wrong to an error with a hint. Its words are cut, and are never trusted.

use std::time::{Duration, SystemTime};

use cabana_types::Secret;
use http::HeaderMap;
use serde_json::Value;

use crate::model::{ModelError, ModelErrorCode as Code};
use crate::text::one_line;

/// Characters of a provider's own words that people see.
const MAX_WORDS: usize = 300;
/// The longest time that a provider may ask to wait, so that sums stay sums.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Words by which providers say that a conversation is too long.
const TOO_LONG: [&str; 14] = [
    "context_length_exceeded",
    "exceed_context_size",
    "request_too_large",
    "context length",
    "context window",
    "context size",
    "context limit",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "too many input tokens",
    "reduce the length",
    "string_above_max_length",
];
/// Words by which they say that nobody paid.
const NO_MONEY: [&str; 4] =
    ["insufficient_quota", "credit balance is too low", "billing_error", "insufficient balance"];

/// What a provider says is wrong.
#[derive(Debug, Default)]
pub(super) struct Problem {
    /// The HTTP status; `None` inside a stream.
    pub(super) status: Option<u16>,
    /// Its words for programs, such as `overloaded_error`.
    words: String,
    message: String,
}

impl Problem {
    /// Reads the error in a body, or in an event, of any form that is in use.
    pub(super) fn read(status: Option<u16>, body: &Value) -> Self {
        let error = match body.get("error") {
            Some(error) if !error.is_null() => error,
            _ => body,
        };
        let field = |name: &str| match error.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let message = match error {
            Value::String(text) => text.clone(),
            _ => [field("message"), field("detail")].into_iter().find(|text| !text.is_empty()).unwrap_or_default(),
        };
        // Some put a status into the code of an error inside the stream.
        let inner = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
        let status = status.or_else(|| inner.and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400));
        Self { status, words: format!("{} {}", field("type"), field("code")), message }
    }

    /// Reads the body of a response.
    pub(super) fn of_body(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<Value>(body) {
            Ok(body) => Self::read(Some(status), &body),
            Err(_) => {
                let text = String::from_utf8_lossy(body);
                // The page of a proxy helps nobody.
                let message = if text.trim_start().starts_with('<') { String::new() } else { text.into_owned() };
                Self { status: Some(status), words: String::new(), message }
            }
        }
    }

    fn code(&self) -> Code {
        let said = format!("{} {}", self.words, self.message).to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let kind = |words: &[&str]| words.iter().any(|word| self.words.contains(word));
        match self.status {
            Some(413) => Code::ContextTooLong,
            Some(400 | 422 | 429) if says(&NO_MONEY) => Code::KeyRefused,
            Some(400 | 422) if says(&TOO_LONG) => Code::ContextTooLong,
            Some(400) if kind(&["model_not_found"]) => Code::NotFound,
            Some(401..=403) => Code::KeyRefused,
            Some(404) => Code::NotFound,
            Some(429 | 529) => Code::Overloaded,
            Some(408 | 500..) => Code::Unavailable,
            Some(_) => Code::Rejected,
            None if says(&NO_MONEY) || kind(&["authentication", "permission", "invalid_api_key"]) => Code::KeyRefused,
            None if says(&TOO_LONG) => Code::ContextTooLong,
            None if kind(&["overloaded", "rate_limit", "too_many_requests"]) => Code::Overloaded,
            None if kind(&["not_found"]) => Code::NotFound,
            None if kind(&["invalid_request"]) => Code::Rejected,
            None => Code::Unavailable,
        }
    }

    /// The error, in words for a person. `host` is the provider's, `model` the one that was asked.
    pub(super) fn into_error(self, host: &str, model: &str, key: Option<&Secret>) -> ModelError {
        let code = self.code();
        let model = one_line(model, 100);
        let mut message = match code {
            Code::KeyRefused => format!("{host} does not accept the key"),
            Code::NotFound => format!("{host} has no model {model:?}"),
            Code::ContextTooLong => format!("the conversation is longer than {model} can read"),
            Code::Overloaded => format!("{host} has too much to do, or limits how often it may be asked"),
            Code::Rejected => format!("{host} does not accept the request"),
            _ => format!("{host} has a failure of its own"),
        };
        if let Some(status) = self.status {
            message.push_str(&format!(" (status {status})"));
        }
        let words = one_line(&without_key(&self.message, key), MAX_WORDS);
        if !words.is_empty() {
            message.push_str(&format!("; it says: {words}"));
        }
        ModelError { code, message, hint: hint(code).to_owned(), retry_after: None }
    }
}

/// An error of our own words, with the usual hint.
pub(super) fn error(code: Code, message: impl Into<String>) -> ModelError {
    ModelError { code, message: message.into(), hint: hint(code).to_owned(), retry_after: None }
}

/// What a person can do.
pub(super) fn hint(code: Code) -> &'static str {
    match code {
        Code::Overloaded => "wait a little and send the message again, or choose another model",
        Code::Unavailable => {
            "try again in a minute; if it goes on, look at the provider's status page, or choose another model"
        }
        Code::KeyRefused => "check the key in Settings → Models, and the credit of its account at the provider",
        Code::NotFound => "choose another model, or check the name of the model and the address in Settings → Models",
        Code::ContextTooLong => "start a new chat, or choose a model that reads more",
        Code::Rejected => "choose another model, or check the address of the provider in Settings → Models",
        Code::CutOff | Code::Silent => "send the message again; if it goes on, choose another model",
        Code::Garbled => "check that the address in Settings → Models is that of an API of this kind",
        Code::TooLarge => "ask for less at once, for example for one file at a time",
    }
}

/// When the provider wants to be asked again.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    let millis = text("retry-after-ms").and_then(number).map(|millis| millis / 1000.0);
    let after = text("retry-after");
    let seconds = millis.or_else(|| after.and_then(number));
    let wait = match seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds.min(MAX_WAIT.as_secs_f64())).ok()?,
        None => httpdate::parse_http_date(after?).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(MAX_WAIT))
}

/// Providers repeat keys, whole or with stars in the middle.
fn without_key(text: &str, key: Option<&Secret>) -> String {
    let key = key.map(|key| key.expose().trim()).filter(|key| !key.is_empty());
    let text = match key {
        Some(key) => text.replace(key, "<key>"),
        None => text.to_owned(),
    };
    let masked = |word: &&str| word.contains("***") || word.contains("…") && word.starts_with("sk-");
    match text.split_whitespace().any(|word| masked(&word)) {
        true => {
            text.split_whitespace().map(|word| if masked(&word) { "<key>" } else { word }).collect::<Vec<_>>().join(" ")
        }
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(status: u16, body: &str) -> Code {
        Problem::of_body(status, body.as_bytes()).into_error("host", "m", None).code
    }

    #[test]
    fn statuses_and_words_become_codes() {
        let long = r#"{"error":{"message":"This model's maximum context length is 8192 tokens","code":"context_length_exceeded"}}"#;
        for (status, body, expected) in [
            (401, "", Code::KeyRefused),
            (402, "", Code::KeyRefused),
            (403, "<html>", Code::KeyRefused),
            (404, r#"{"error":"model \"x\" not found, try pulling it first"}"#, Code::NotFound),
            (400, "", Code::Rejected),
            (400, long, Code::ContextTooLong),
            (
                400,
                r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 1 > 2"}}"#,
                Code::ContextTooLong,
            ),
            (400, r#"{"error":{"code":"model_not_found","message":"no"}}"#, Code::NotFound),
            (400, r#"{"error":{"message":"Your credit balance is too low"}}"#, Code::KeyRefused),
            (413, "", Code::ContextTooLong),
            (429, "", Code::Overloaded),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, Code::KeyRefused),
            (529, "", Code::Overloaded),
            (408, "", Code::Unavailable),
            (500, "", Code::Unavailable),
            (503, long, Code::Unavailable),
            (302, "", Code::Rejected),
            (418, "[1]", Code::Rejected),
        ] {
            assert_eq!(code(status, body), expected, "{status} {body}");
        }
        for (event, expected) in [
            (json!({"error": {"type": "overloaded_error"}}), Code::Overloaded),
            (json!({"error": {"type": "rate_limit_error"}}), Code::Overloaded),
            (json!({"error": {"type": "api_error"}}), Code::Unavailable),
            (json!({"error": {"type": "authentication_error"}}), Code::KeyRefused),
            (json!({"error": {"type": "invalid_request_error"}}), Code::Rejected),
            (json!({"error": {"code": 429, "message": "slow"}}), Code::Overloaded),
            (json!({"error": {"code": 7}}), Code::Unavailable),
            (json!({"error": null, "message": "context window"}), Code::ContextTooLong),
            (json!("x"), Code::Unavailable),
        ] {
            assert_eq!(Problem::read(None, &event).code(), expected, "{event}");
        }
    }

    #[test]
    fn words_are_cut_and_keys_are_left_out() {
        let key = Secret::new("sk-very-secret ");
        let body = json!({"error": {"message": format!("bad\u{202e}\n\u{7}key sk-very-secret, or sk-ve***ret {}", "x".repeat(400))}});
        let error = Problem::read(Some(401), &body).into_error("api.test", "m", Some(&key));
        let begin = "api.test does not accept the key (status 401); it says: bad key <key>, or <key> xxx";
        assert!(error.message.starts_with(begin), "{}", error.message);
        assert!(error.message.chars().count() < 380 && error.message.ends_with('…'));
        assert!(error.hint.contains("Settings → Models"));
        let page = Problem::of_body(502, b" <!doctype html>").into_error("api.test", "m", None);
        assert_eq!(page.message, "api.test has a failure of its own (status 502)");
    }

    #[test]
    fn waiting_times_are_read() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        for (name, text, expected) in [
            ("retry-after", "7", Some(7000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after-ms", "250", Some(250)),
            ("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT", Some(30_000)),
            ("retry-after", "Wed, 21 Oct 2015 07:27:30 GMT", Some(0)),
            ("retry-after", "1e300", Some(86_400_000)),
            ("retry-after", "-1", None),
            ("retry-after", "NaN", None),
            ("retry-after", "soon", None),
            ("other", "1", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, text.parse().unwrap());
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_millis), "{name}: {text}");
        }
    }
}
