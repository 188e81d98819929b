//! The host's requests for agent tools.

use std::io;

use bytes::Bytes;
use cabana_types::guest::tools::{ListeningPort, PORTS_PATH, Refusal};
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{GuestLink, Port};

/// Limit of an answer, bytes: a file of 5 MiB in base64, and what is said about it.
const MAX_ANSWER: usize = 16 << 20;

/// Why a request of a tool has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ToolCallError {
    /// The guest refused it; nothing was changed.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The guest was launched by an earlier version and has no such operation.
    #[error("the guest is older than this operation")]
    TooOld,
    /// The guest does not respond, or not as it should.
    #[error("the guest does not respond as it should")]
    Io(#[from] io::Error),
}

impl GuestLink {
    /// Sends a request of a tool to the control port. The caller limits the time: a guest stops when the connection is closed.
    pub async fn tool<T: Serialize + Sync, R: DeserializeOwned>(
        &self,
        path: &str,
        body: &T,
    ) -> Result<R, ToolCallError> {
        let body = serde_json::to_vec(body).map_err(io::Error::other)?;
        let request = Request::post(path)
            .header(HOST, "guest")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(io::Error::other)?;
        self.tool_answer(request).await
    }

    /// The sockets that listen inside.
    pub async fn ports(&self) -> Result<Vec<ListeningPort>, ToolCallError> {
        let request = Request::get(PORTS_PATH).header(HOST, "guest").body(Full::default()).map_err(io::Error::other)?;
        self.tool_answer(request).await
    }

    async fn tool_answer<R: DeserializeOwned>(&self, request: Request<Full<Bytes>>) -> Result<R, ToolCallError> {
        let response = self.request(Port::Control, request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(io::Error::other)?.to_bytes();
        match status {
            StatusCode::OK => Ok(serde_json::from_slice(&body).map_err(io::Error::other)?),
            StatusCode::UNPROCESSABLE_ENTITY => {
                Err(ToolCallError::Refused(serde_json::from_slice(&body).map_err(io::Error::other)?))
            }
            StatusCode::NOT_FOUND | StatusCode::UNAUTHORIZED => Err(ToolCallError::TooOld),
            status => Err(io::Error::other(format!("status {status}")).into()),
        }
    }
}
