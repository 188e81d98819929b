//! Query parameters, with errors that name the parameter.

use axum::extract::FromRequestParts;
use http::request::Parts;
use jiff::Timestamp;
use std::ops::RangeInclusive;
use url::form_urlencoded;

use crate::error::{ApiError, short};
use crate::lifecycle::Range;

/// Maximum number of parameters in one request.
const MAX_PARAMETERS: usize = 256;
/// Latest accepted time, in seconds since 1970 (the year 9999).
pub(super) const MAX_SECONDS: i64 = 253_402_300_799;
/// Maximum number of skipped rows.
pub(super) const MAX_OFFSET: i64 = 1_000_000;
/// Maximum page number.
pub(super) const MAX_PAGE: i64 = 1_000_000;

/// The decoded parameters.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let text = parts.uri.query().unwrap_or_default();
        let pairs: Vec<_> = form_urlencoded::parse(text.as_bytes()).into_owned().take(MAX_PARAMETERS + 1).collect();
        if pairs.len() > MAX_PARAMETERS {
            return Err(ApiError::invalid(format!("There are more than {MAX_PARAMETERS} query parameters")));
        }
        Ok(Self(pairs))
    }
}

impl Query {
    /// A parameter, if it is present and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str())
    }

    /// A list: comma-separated, repeated, or both.
    pub(super) fn list(&self, name: &str) -> Vec<&str> {
        let values = self.0.iter().filter(|(n, _)| n == name || n.strip_suffix("[]") == Some(name));
        values.flat_map(|(_, v)| v.split(',')).map(str::trim).filter(|v| !v.is_empty()).collect()
    }

    /// A whole number within a range.
    pub(super) fn number(&self, name: &'static str, range: RangeInclusive<i64>) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value =
            text.parse().map_err(|_| ApiError::invalid(format!("{name} must be a number, not {:?}", short(text))))?;
        Ok(Some(cabana_types::limits::within(name, value, range)?))
    }

    /// The number of rows to return, from the parameter `limit`.
    pub(super) fn limit(&self, default: u32, most: u32) -> Result<u32, ApiError> {
        self.limit_of("limit", default, most)
    }

    /// The number of rows to return, from another parameter.
    pub(super) fn limit_of(&self, name: &'static str, default: u32, most: u32) -> Result<u32, ApiError> {
        let value = self.number(name, 1..=i64::from(most))?;
        Ok(value.and_then(|v| u32::try_from(v).ok()).unwrap_or(default))
    }

    /// A flag.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => Err(ApiError::invalid(format!("{name} must be true or false, not {:?}", short(other)))),
        }
    }

    /// A moment in RFC 3339.
    pub(super) fn time(&self, name: &'static str) -> Result<Option<Timestamp>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| {
            ApiError::invalid(format!("{name} must be a time like 2026-01-31T12:00:00Z, not {:?}", short(text)))
        })
    }

    /// From `start` to `end` in seconds since 1970.
    pub(super) fn range(&self) -> Result<Range, ApiError> {
        let range = Range { start: self.number("start", 0..=MAX_SECONDS)?, end: self.number("end", 0..=MAX_SECONDS)? };
        match range {
            Range { start: Some(start), end: Some(end) } if start > end => {
                Err(ApiError::invalid("start must not be after end"))
            }
            range => Ok(range),
        }
    }

    /// A moment in milliseconds since 1970.
    pub(super) fn millis(&self, name: &'static str) -> Result<Option<Timestamp>, ApiError> {
        let Some(value) = self.number(name, 0..=MAX_SECONDS * 1000 + 999)? else { return Ok(None) };
        Timestamp::from_millisecond(value).map(Some).map_err(|_| ApiError::invalid(format!("{name} is out of range")))
    }
}
