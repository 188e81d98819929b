//! JSON request bodies, with errors in the API's form. The content type is ignored: clients differ.

use std::time::Duration;

use axum::extract::{FromRequest, Request};
use cabana_types::ErrorCode;
use cabana_types::limits::MAX_API_BODY_BYTES;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::error::ApiError;

/// How long a body may take to arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A required body.
#[derive(Debug)]
pub(super) struct Body<T>(pub(super) T);

/// A body that may be empty, for the defaults.
#[derive(Debug)]
pub(super) struct OptionalBody<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let bytes = read(request).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(ApiError::invalid("The body is empty; send a JSON object"));
        }
        parse(&bytes).map(Self)
    }
}

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let bytes = read(request).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(T::default()));
        }
        parse(&bytes).map(Self)
    }
}

/// Parses a JSON object.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // serde would accept an array as a struct's fields in order.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return Err(ApiError::invalid("The body is not what this route takes: send a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|e| ApiError::invalid(format!("The body is not what this route takes: {e}")))
}

/// A body of any JSON, up to a size; `null` for an empty one.
pub(super) async fn value(request: Request, most: usize) -> Result<serde_json::Value, ApiError> {
    let bytes = bytes(request, most).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(serde_json::Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|e| ApiError::invalid(format!("The body is not JSON: {e}")))
}

async fn read(request: Request) -> Result<bytes::Bytes, ApiError> {
    bytes(request, MAX_API_BODY_BYTES).await
}

/// A body of at most so many bytes.
pub(super) async fn bytes(request: Request, most: usize) -> Result<bytes::Bytes, ApiError> {
    let body = Limited::new(request.into_body(), most).collect();
    let body = tokio::time::timeout(READ_TIMEOUT, body)
        .await
        .map_err(|_| ApiError::invalid(format!("The body did not arrive within {} s", READ_TIMEOUT.as_secs())))?;
    match body {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(ApiError::new(ErrorCode::BodyTooLarge, format!("The body is larger than {} MiB", most / 1024 / 1024)))
        }
        Err(_) => Err(ApiError::invalid("The body could not be read")),
    }
}
