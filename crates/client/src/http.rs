//! The transport: REST, files and the guest's Connect calls share one HTTP client and its connections.

use std::time::Duration;

use bytes::Bytes;
use cabana_http::{AddressPolicy, Client, Config, Kind, Limits, ResponseBody, Timeouts, Trust};
use cabana_types::ErrorCode;
use connectrpc::ConnectError;
use connectrpc::client::{BoxFuture, ClientBody, ClientTransport};
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use serde::Deserialize;

use crate::error::{Cause, Error, Result, root_cause};

/// Body of a request.
pub(crate) type SendBody = UnsyncBoxBody<Bytes, Cause>;

/// Timeout of unary calls.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Buffer of a connection: large enough for fast transfers of files.
const BUFFER: usize = 400 << 10;
/// Largest error response that is read.
const MAX_ERROR_BYTES: u64 = 64 * 1024;

/// Connections to one server.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: Client<SendBody>,
    /// Scheme, authority and path prefix without the last slash.
    base: String,
}

impl Http {
    pub(crate) fn new(base_url: &str, trust: &Trust) -> Result<Self> {
        let invalid = |reason: &str| Error::InvalidUrl { url: base_url.to_owned(), reason: reason.to_owned() };
        let url = url::Url::parse(base_url).map_err(|e| invalid(&e.to_string()))?;
        let secure = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(invalid("it must start with http:// or https://")),
        };
        if url.host_str().is_none_or(str::is_empty) {
            return Err(invalid("it has no host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it must not contain a user or password"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it must not contain `?` or `#`"));
        }
        let client = Client::new(Config {
            trust: trust.clone(),
            addresses: AddressPolicy::Any,
            // Unary calls have a timeout of their own; streams and uploads have none.
            timeouts: Timeouts { head: None, stall: None, ..Timeouts::default() },
            limits: Limits { head_bytes: BUFFER, ..Limits::default() },
            pooled: true,
        });
        if secure {
            client.load_trust().map_err(|e| Error::InvalidInput(e.to_string()))?;
        }
        Ok(Self { client, base: url.as_str().trim_end_matches('/').to_owned() })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The URI of a path with its query.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri> {
        let text = format!("{}{path}", self.base);
        text.parse()
            .map_err(|_| Error::InvalidUrl { url: text, reason: "it is too long or not well formed".to_owned() })
    }

    /// Sends a request and returns its response if it is a success; an error response becomes [`Error::Api`].
    pub(crate) async fn send(
        &self,
        action: &'static str,
        request: Request<SendBody>,
    ) -> Result<Response<ResponseBody>> {
        let response = self.exchange(action, request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let refusal = Refusal::read(response).await;
        Err(refusal.into_error(action))
    }

    /// Sends a request and returns its response, whatever its status.
    pub(crate) async fn exchange(
        &self,
        action: &'static str,
        request: Request<SendBody>,
    ) -> Result<Response<ResponseBody>> {
        self.client.send(request).await.map_err(|e| self.transport_error(action, e))
    }

    fn transport_error(&self, action: &'static str, error: cabana_http::Error) -> Error {
        if error.is_connect() {
            return Error::Unreachable { url: self.base.clone(), source: root_cause(&error).into() };
        }
        // A failing source of an upload surfaces as an error of the request's body.
        match find_io(&error) {
            Some(source) => Error::Source { action, source },
            None => Error::Connection { action, source: root_cause(&error).into() },
        }
    }

    /// Translates an error of a Connect call.
    pub(crate) fn rpc_error(&self, action: &'static str, error: ConnectError) -> Error {
        if let Some(cause) = error.source_arc() {
            if let Some(refusal) = cause.downcast_ref::<Refusal>() {
                return refusal.clone().into_error(action);
            }
            if let Some(transport) = cause.downcast_ref::<cabana_http::Error>() {
                return if transport.is_connect() {
                    Error::Unreachable { url: self.base.clone(), source: root_cause(transport).into() }
                } else {
                    Error::Connection { action, source: root_cause(transport).into() }
                };
            }
        }
        let message = error.message.unwrap_or_else(|| error.code.as_str().to_owned());
        Error::Guest { action, code: error.code, message }
    }
}

/// A local read error inside an error of the request's body; see [`crate::files`].
#[derive(Debug, thiserror::Error)]
#[error("reading the data to send")]
pub(crate) struct SourceFailed(#[source] pub(crate) std::io::Error);

fn find_io(error: &cabana_http::Error) -> Option<std::io::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(SourceFailed(source)) = inner.downcast_ref::<SourceFailed>() {
            return Some(std::io::Error::new(source.kind(), source.to_string()));
        }
        cause = inner.source();
    }
    None
}

/// An error response of the API, the edge or the guest.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
struct Refusal {
    status: u16,
    message: String,
    code: Option<ErrorCode>,
    rpc_code: Option<connectrpc::ErrorCode>,
}

impl Refusal {
    /// Reads it; a body that is too long or malformed is replaced by a generic message.
    async fn read(response: Response<ResponseBody>) -> Self {
        let status = response.status();
        let body = tokio::time::timeout(CALL_TIMEOUT, cabana_http::read(response, MAX_ERROR_BYTES)).await;
        let bytes = body.ok().and_then(std::result::Result::ok).unwrap_or_default();
        Self::parse(status, &bytes)
    }

    /// All three forms have `message`; `code` is a number in two of them and a string in Connect's.
    fn parse(status: http::StatusCode, bytes: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Body {
            code: serde_json::Value,
            message: String,
            error_code: serde_json::Value,
        }
        let body: Body = serde_json::from_slice(bytes).unwrap_or_default();
        let message = if !body.message.is_empty() {
            body.message
        } else {
            let text = String::from_utf8_lossy(bytes);
            let first = text.lines().next().unwrap_or_default().trim();
            let is_markup = first.starts_with(['<', '{', '[']);
            if first.is_empty() || is_markup || first.len() > 500 {
                format!("the server returned {status}")
            } else {
                first.to_owned()
            }
        };
        Self {
            status: status.as_u16(),
            message,
            code: serde_json::from_value(body.error_code).ok(),
            rpc_code: body.code.as_str().and_then(|word| word.parse().ok()),
        }
    }

    fn into_error(self, action: &'static str) -> Error {
        match self.rpc_code {
            Some(code) => Error::Guest { action, code, message: self.message },
            None => Error::Api { action, status: self.status, message: self.message, code: self.code },
        }
    }
}

impl ClientTransport for Http {
    type ResponseBody = ResponseBody;
    type Error = ConnectError;

    fn send(
        &self,
        request: Request<ClientBody>,
    ) -> BoxFuture<'static, std::result::Result<Response<ResponseBody>, ConnectError>> {
        let client = self.client.clone();
        Box::pin(async move {
            let request = request.map(|body| body.map_err(Cause::from).boxed_unsync());
            let response = client
                .send(request)
                .await
                .map_err(|e| ConnectError::unavailable_from_transport("request failed", e))?;
            if response.status().is_success() {
                return Ok(response);
            }
            // Read here, because the edge's errors are not in Connect's form and the library would drop their message.
            let refusal = Refusal::read(response).await;
            let code = refusal.rpc_code.unwrap_or(connectrpc::ErrorCode::Unavailable);
            Err(ConnectError::new(code, refusal.message.clone()).with_source(refusal))
        })
    }
}

/// The error that a response with this body stands for.
pub(crate) fn refused(action: &'static str, status: http::StatusCode, bytes: &[u8]) -> Error {
    Refusal::parse(status, bytes).into_error(action)
}

/// Reads a whole response of at most `limit` bytes.
pub(crate) async fn collect(action: &'static str, response: Response<ResponseBody>, limit: u64) -> Result<Bytes> {
    cabana_http::read(response, limit).await.map_err(|error| match error.kind {
        Kind::TooLarge(limit) => Error::Answer { action, reason: format!("it is larger than {limit} bytes") },
        _ => Error::Connection { action, source: root_cause(&error).into() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_urls_are_accepted() {
        let http = |url| Http::new(url, &Trust::default());
        assert_eq!(http("http://127.0.0.1:3000/").expect("valid").base(), "http://127.0.0.1:3000");
        assert_eq!(http("http://host/prefix/").expect("valid").base(), "http://host/prefix");
        for wrong in ["ftp://host", "https://", "127.0.0.1:3000", "", "http://", "http://u:p@host", "http://h/?a=b"] {
            assert!(http(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_error_format_keeps_its_message() {
        let parse = |status: u16, text: &str| {
            Refusal::parse(http::StatusCode::from_u16(status).expect("status"), text.as_bytes()).into_error("x")
        };
        let api = parse(404, r#"{"code":404,"message":"no such sandbox","error_code":"sandbox_not_found"}"#);
        assert!(matches!(
            api,
            Error::Api { status: 404, ref message, code: Some(ErrorCode::SandboxNotFound), .. }
                if message == "no such sandbox"
        ));
        let newer = parse(409, r#"{"code":409,"message":"m","error_code":"from_the_future"}"#);
        assert!(matches!(newer, Error::Api { status: 409, code: None, .. }));
        let guest = parse(404, r#"{"code":"not_found","message":"no process"}"#);
        assert!(matches!(guest, Error::Guest { code: connectrpc::ErrorCode::NotFound, .. }));
        let plain = parse(400, "Invalid host\n");
        assert!(matches!(plain, Error::Api { ref message, .. } if message == "Invalid host"));
        let page = parse(502, "<html>");
        assert!(matches!(page, Error::Api { ref message, .. } if message.contains("502")));
    }
}
