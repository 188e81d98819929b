//! Responses of registries that are not what was asked for.

use bytes::Bytes;
use cabana_http::{Kind, Refusal, ResponseBody};
use http::Response;

use crate::error::{Error, Result};

const MAX_MESSAGE: u64 = 16 << 10;
const MAX_MESSAGE_CHARS: usize = 300;

/// The whole body, if it is no longer than `limit`. `what` names it in errors.
pub(super) async fn read(response: Response<ResponseBody>, what: &str, limit: u64) -> Result<Bytes> {
    cabana_http::read(response, limit).await.map_err(|error| match error.kind {
        Kind::TooLarge(limit) => Error::TooLarge { what: what.to_owned(), limit },
        _ => error.into(),
    })
}

/// What the body of an error response says, for people.
pub(super) async fn message(response: Response<ResponseBody>) -> String {
    let bytes = cabana_http::read(response, MAX_MESSAGE).await.unwrap_or_default();
    let parsed: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
    let fields = ["/errors/0/message", "/message", "/details", "/error"];
    let said = parsed.as_ref().and_then(|value| fields.iter().find_map(|field| value.pointer(field)));
    let text = match said.and_then(serde_json::Value::as_str) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(&bytes).into_owned(),
    };
    text.chars().filter(|c| !c.is_control()).take(MAX_MESSAGE_CHARS).collect::<String>().trim().to_owned()
}

/// An error response as an error.
pub(super) async fn status_error(response: Response<ResponseBody>) -> Error {
    let (host, status) = (response.body().host().to_owned(), response.status().as_u16());
    Error::Status { host, status, message: message(response).await }
}

impl From<cabana_http::Error> for Error {
    fn from(error: cabana_http::Error) -> Self {
        let distrusted = match &error.kind {
            // The message does not reveal the address: names may resolve inside the operator's network.
            Kind::Refused { reason: Refusal::Forbidden, .. } => {
                Some("its address is not public, and cannot be allowed even as an internal host".to_owned())
            }
            Kind::Refused { .. } => {
                Some("its address is not public; the operator can allow it as an internal host".to_owned())
            }
            Kind::Url(_) | Kind::Redirect(_) | Kind::Trust(_) | Kind::Certificate(_) => Some(error.to_string()),
            _ => None,
        };
        let reason = cabana_types::error::chain(&error);
        let host = error.host;
        match distrusted {
            Some(reason) => Self::Distrusted { host, reason },
            None => Self::Unreachable { host, reason },
        }
    }
}
