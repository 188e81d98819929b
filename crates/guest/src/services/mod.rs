//! Requests of the host for services, on the control socket: their output, whether they listen, and their end.

mod census;
mod end;
mod environment;
mod listening;
mod output;

use std::sync::Arc;
use std::time::Duration;

use cabana_types::guest::SERVICE_TAG;
use cabana_types::guest::services::{MAX_OUTPUT, MAX_WAIT};
use http::{Response, StatusCode};
use tokio::sync::Semaphore;

use crate::error::Problem;
use crate::guest::Guest;
use crate::query::Query;
use crate::reply::{self, Body};
pub(crate) use census::Census;

/// Longest tag of a command.
pub(crate) const MAX_TAG: usize = 256;
/// Looks at processes at the same time: they share threads with file operations.
const MAX_LOOKS: usize = 4;

static LOOKS: Semaphore = Semaphore::const_new(MAX_LOOKS);

/// Answers `GET /output`.
pub(crate) async fn answer_output(guest: &Guest, query: &Query) -> Result<Response<Body>, Problem> {
    let wanted = output::Wanted {
        after: number(query, "after", u64::MAX)?,
        max: number(query, "max", MAX_OUTPUT)?.unwrap_or(MAX_OUTPUT),
        wait: seconds(query, "wait")?,
        end_only: flag(query, "end")?,
    };
    let tag = tag(query)?.ok_or_else(|| Problem::bad_request("tag is required"))?;
    Ok(reply::json(StatusCode::OK, &output::read(guest, tag, &wanted).await))
}

/// Answers `GET /listening`.
pub(crate) async fn answer_listening(guest: &Guest, query: &Query) -> Result<Response<Body>, Problem> {
    let (port, tag) = (number(query, "port", u16::MAX)?, tag(query)?);
    if port == Some(0) {
        return Err(Problem::bad_request("port must be a number from 1 to 65535"));
    }
    if port.is_none() && tag.is_none() {
        return Err(Problem::bad_request("port or tag is required"));
    }
    let found = listening::wait(guest, port, tag, seconds(query, "wait")?).await?;
    Ok(reply::json(StatusCode::OK, &found))
}

/// Answers `POST /end`.
pub(crate) async fn answer_end(guest: &Guest, query: &Query) -> Result<Response<Body>, Problem> {
    let tag = tag(query)?.ok_or_else(|| Problem::bad_request("tag is required"))?;
    end::all_of(Arc::clone(&guest.commands), tag.to_owned(), seconds(query, "seconds")?).await?;
    Ok(reply::empty(StatusCode::NO_CONTENT))
}

/// Looks at processes on a thread that may block.
async fn blocking<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    // The semaphore is never closed.
    let permit = LOOKS.acquire().await.map_err(|_| Problem::internal("the operation was interrupted"))?;
    crate::blocking::run(move || {
        let _permit = permit;
        Ok(look())
    })
    .await
}

fn tag(query: &Query) -> Result<Option<&str>, Problem> {
    match query.get("tag") {
        Some(tag) if !tag.starts_with(SERVICE_TAG) => {
            Err(Problem::bad_request(format!("tag must begin with '{SERVICE_TAG}'")))
        }
        Some(tag) if tag.len() > MAX_TAG || tag.contains(char::is_control) => {
            Err(Problem::bad_request(format!("tag must have at most {MAX_TAG} bytes and no control characters")))
        }
        tag => Ok(tag),
    }
}

fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display>(
    query: &Query,
    key: &str,
    most: T,
) -> Result<Option<T>, Problem> {
    let Some(text) = query.get(key) else { return Ok(None) };
    match text.parse() {
        Ok(number) if number <= most => Ok(Some(number)),
        _ => Err(Problem::bad_request(format!("{key} must be a whole number up to {most}"))),
    }
}

/// Seconds, also parts of them.
fn seconds(query: &Query, key: &str) -> Result<Duration, Problem> {
    let Some(text) = query.get(key) else { return Ok(Duration::ZERO) };
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .filter(|seconds| *seconds <= Duration::from_secs(MAX_WAIT))
        .ok_or_else(|| Problem::bad_request(format!("{key} must be a number of seconds up to {MAX_WAIT}")))
}

fn flag(query: &Query, key: &str) -> Result<bool, Problem> {
    match query.get(key) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::bad_request(format!("{key} must be true or false"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_limited() {
        let query = |text: &str| Query::parse(Some(text)).unwrap();
        for wrong in ["wait=61", "wait=-1", "wait=x", "wait=NaN", "wait=inf", "wait="] {
            assert!(seconds(&query(wrong), "wait").is_err(), "{wrong}");
        }
        assert_eq!(seconds(&query("wait=1.5"), "wait").unwrap(), Duration::from_millis(1500));
        assert_eq!(seconds(&query(""), "wait").unwrap(), Duration::ZERO);
        for wrong in ["port=65536", "port=-1", "port=", "port=1.0"] {
            assert!(number(&query(wrong), "port", u16::MAX).is_err(), "{wrong}");
        }
        assert!(number(&query("max=1048577"), "max", MAX_OUTPUT).is_err());
        assert_eq!(number(&query("max=0"), "max", MAX_OUTPUT).unwrap(), Some(0));
        assert!(flag(&query("end=1"), "end").is_err());
        let long = format!("tag=service:{}", "x".repeat(MAX_TAG));
        for wrong in ["tag=terminal:1", "tag=", "tag=service%3a%00", long.as_str()] {
            assert!(tag(&query(wrong)).is_err(), "{wrong}");
        }
        assert_eq!(tag(&query("tag=service%3Asvc_1/2")).unwrap(), Some("service:svc_1/2"));
    }
}
