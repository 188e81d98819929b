//! The one HTTP client under everything: REST, files and the guest's Connect calls go through the same connections.

use std::time::Duration;

use bytes::Bytes;
use cabana_types::ErrorCode;
use connectrpc::ConnectError;
use connectrpc::client::{BoxFuture, ClientBody, ClientTransport};
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::ServerName;
use serde::Deserialize;

use crate::error::{Cause, Error, Result, root_cause};
use crate::trust::Trust;

/// Body of a request.
pub(crate) type SendBody = UnsyncBoxBody<Bytes, Cause>;

/// How long a call may take that answers once.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// After this much silence the kernel asks whether the other side is still there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// Largest error answer that is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Connections to one server.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: legacy::Client<HttpsConnector<HttpConnector>, SendBody>,
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
            return Err(invalid("it names no host"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it must not contain a user or password"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it must not contain `?` or `#`"));
        }
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_keepalive(Some(TCP_KEEPALIVE));
        connector.enforce_http(false);
        let config = if secure { trust.config()? } else { Trust::nobody()? };
        let mut builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        if let Some(name) = &trust.server_name {
            let name = ServerName::try_from(name.clone()).map_err(|e| invalid(&format!("{name:?}: {e}")))?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = builder.enable_http1().wrap_connector(connector);
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, base: url.as_str().trim_end_matches('/').to_owned() })
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The address of a path with its query.
    pub(crate) fn uri(&self, path: &str) -> Result<Uri> {
        let text = format!("{}{path}", self.base);
        text.parse()
            .map_err(|_| Error::InvalidUrl { url: text, reason: "it is too long or not well formed".to_owned() })
    }

    /// Sends a request and returns its answer if it is a success; an error answer becomes [`Error::Api`].
    pub(crate) async fn send(&self, action: &'static str, request: Request<SendBody>) -> Result<Response<Incoming>> {
        let response = self.client.request(request).await.map_err(|e| self.transport_error(action, e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let refusal = Refusal::read(response).await;
        Err(refusal.into_error(action))
    }

    fn transport_error(&self, action: &'static str, error: legacy::Error) -> Error {
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
            if let Some(transport) = cause.downcast_ref::<legacy::Error>() {
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

fn find_io(error: &legacy::Error) -> Option<std::io::Error> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(SourceFailed(source)) = inner.downcast_ref::<SourceFailed>() {
            return Some(std::io::Error::new(source.kind(), source.to_string()));
        }
        cause = inner.source();
    }
    None
}

/// An error answer, from the API, the edge or the guest.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
struct Refusal {
    status: u16,
    message: String,
    code: Option<ErrorCode>,
    rpc_code: Option<connectrpc::ErrorCode>,
}

impl Refusal {
    /// Reads it within bounds; whatever the body is, there is an answer.
    async fn read(response: Response<Incoming>) -> Self {
        let status = response.status();
        let body =
            tokio::time::timeout(CALL_TIMEOUT, Limited::new(response.into_body(), MAX_ERROR_BYTES).collect()).await;
        let bytes = body.ok().and_then(|r| r.ok()).map(|b| b.to_bytes()).unwrap_or_default();
        Self::parse(status, &bytes)
    }

    /// All three forms have `message`; `code` is a number in two of them and a word in Connect's.
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
                format!("the server answered {status}")
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
    type ResponseBody = Incoming;
    type Error = ConnectError;

    fn send(
        &self,
        request: Request<ClientBody>,
    ) -> BoxFuture<'static, std::result::Result<Response<Incoming>, ConnectError>> {
        let client = self.client.clone();
        Box::pin(async move {
            let request = request.map(|body| body.map_err(Cause::from).boxed_unsync());
            let response = client
                .request(request)
                .await
                .map_err(|e| ConnectError::unavailable_from_transport("request failed", e))?;
            if response.status().is_success() {
                return Ok(response);
            }
            // Read here, because the edge's answers are not in Connect's form and the library would drop their message.
            let refusal = Refusal::read(response).await;
            let code = refusal.rpc_code.unwrap_or(connectrpc::ErrorCode::Unavailable);
            Err(ConnectError::new(code, refusal.message.clone()).with_source(refusal))
        })
    }
}

/// Reads a whole answer within a bound.
pub(crate) async fn collect(action: &'static str, response: Response<Incoming>, limit: usize) -> Result<Bytes> {
    match Limited::new(response.into_body(), limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(e) if e.is::<http_body_util::LengthLimitError>() => {
            Err(Error::Answer { action, reason: format!("it is larger than {limit} bytes") })
        }
        Err(source) => Err(Error::Connection { action, source: root_cause(&*source).into() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_http_urls_are_taken() {
        let http = |url| Http::new(url, &Trust::default());
        assert_eq!(http("http://127.0.0.1:3000/").expect("valid").base(), "http://127.0.0.1:3000");
        assert_eq!(http("http://host/prefix/").expect("valid").base(), "http://host/prefix");
        for wrong in ["ftp://host", "https://", "127.0.0.1:3000", "", "http://", "http://u:p@host", "http://h/?a=b"] {
            assert!(http(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_form_of_error_answer_keeps_its_message() {
        let parse = |status: u16, text: &str| {
            Refusal::parse(http::StatusCode::from_u16(status).expect("status"), text.as_bytes()).into_error("x")
        };
        let api = parse(404, r#"{"code":404,"message":"no such sandbox","error_code":"sandbox_not_found"}"#);
        assert!(
            matches!(api, Error::Api { status: 404, ref message, code: Some(ErrorCode::SandboxNotFound), .. } if message == "no such sandbox")
        );
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
