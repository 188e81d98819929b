//! Answers in OpenAI's form: completions, chunks and errors.

use axum::Json;
use axum::response::{IntoResponse, Response};
use cabana_types::TurnId;
use cabana_types::chat::Usage;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::reader::Said;
use crate::error::{ApiError, status};

/// An error. It has the members of this API's errors too.
#[derive(Debug)]
pub(in crate::api) enum OpenAiError {
    Api(ApiError),
    /// The turn ended without an answer.
    Turn {
        status: StatusCode,
        code: String,
        message: String,
    },
}

impl OpenAiError {
    /// The turn failed, or waits.
    pub(super) fn of_turn(code: String, message: String) -> Self {
        let status = match code.as_str() {
            "turn_waiting" => StatusCode::CONFLICT,
            "model_not_found" | "model_rejected_request" | "context_too_long" => StatusCode::BAD_REQUEST,
            "model_overloaded" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_GATEWAY,
        };
        Self::Turn { status, code, message }
    }

    /// The answer cannot be read on.
    pub(super) fn unavailable(message: String) -> Self {
        Self::Turn { status: StatusCode::SERVICE_UNAVAILABLE, code: "service_unavailable".into(), message }
    }

    pub(super) fn code(&self) -> &str {
        match self {
            Self::Api(error) => error.code().as_str(),
            Self::Turn { code, .. } => code,
        }
    }

    pub(super) fn message(&self) -> &str {
        match self {
            Self::Api(error) => error.message(),
            Self::Turn { message, .. } => message,
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Api(error) => status(error.code()),
            Self::Turn { status, .. } => *status,
        }
    }

    /// OpenAI's member `error`.
    fn described(&self) -> Value {
        let kind = match self.status() {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_client_error() => "invalid_request_error",
            _ => "server_error",
        };
        json!({"message": self.message(), "type": kind, "param": null, "code": self.code()})
    }
}

impl From<ApiError> for OpenAiError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<cabana_store::Error> for OpenAiError {
    fn from(error: cabana_store::Error) -> Self {
        Self::Api(error.into())
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let (status, error) = (self.status(), self.described());
        let body = json!({
            "error": error, "code": status.as_u16(), "message": self.message(), "error_code": self.code(),
        });
        let mut response = (status, Json(body)).into_response();
        if let Self::Api(error) = self {
            // What clients are told about trying again.
            for (name, value) in error.into_response().headers() {
                if !response.headers().contains_key(name) {
                    response.headers_mut().insert(name, value.clone());
                }
            }
        }
        response
    }
}

/// What all parts of an answer have.
#[derive(Debug)]
pub(super) struct Form {
    id: String,
    model: String,
    created: i64,
    include_usage: bool,
}

impl Form {
    pub(super) fn new(turn: &TurnId, model: &str, include_usage: bool) -> Self {
        let id = format!("chatcmpl-{}", turn.as_str().trim_start_matches("turn_"));
        Self { id, model: model.to_owned(), created: Timestamp::now().as_second(), include_usage }
    }

    /// A whole completion.
    pub(super) fn whole(&self, text: &str, reasoning: &str, reason: &str, usage: Usage) -> Value {
        let mut message = json!({"role": "assistant", "content": text, "refusal": null});
        if let (false, Value::Object(members)) = (reasoning.is_empty(), &mut message) {
            members.insert("reasoning_content".into(), reasoning.into());
        }
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": reason}],
            "usage": counts(usage),
        })
    }

    /// The chunk that says whose words follow.
    pub(super) fn first(&self) -> String {
        self.chunk(&json!({"role": "assistant", "content": ""}), None)
    }

    /// The chunks of a piece; after the last one the stream is over.
    pub(super) fn piece(&self, said: Said) -> String {
        match said {
            Said::Text(text) => self.chunk(&json!({"content": text}), None),
            Said::Reasoning(text) => self.chunk(&json!({"reasoning_content": text}), None),
            Said::End { reason, usage } => {
                let mut text = self.chunk(&json!({}), Some(reason));
                if self.include_usage {
                    text.push_str(&line(&self.object(&json!([]), counts(usage))));
                }
                text + "data: [DONE]\n\n"
            }
            Said::Failed(error) => line(&json!({"error": error.described()})) + "data: [DONE]\n\n",
        }
    }

    fn chunk(&self, delta: &Value, reason: Option<&str>) -> String {
        let choices = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]);
        line(&self.object(&choices, Value::Null))
    }

    fn object(&self, choices: &Value, usage: Value) -> Value {
        let mut object = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if let (true, Value::Object(members)) = (self.include_usage, &mut object) {
            members.insert("usage".into(), usage);
        }
        object
    }
}

fn line(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn counts(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens.saturating_add(usage.output_tokens),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}
