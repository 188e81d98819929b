//! Connects `object_store` to our HTTP client. A request fails when nothing moves for a while, however long it takes as a whole.

use std::time::Duration;

use async_trait::async_trait;
use cabana_http::{AddressPolicy, Client, Config, Error as Failure, Kind, Limits, Timeouts, Trust};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpResponseBody,
    HttpService,
};

use super::download::PIECE;
use crate::Error;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// The largest response that we ask for is a piece of an archive; lists and errors are far smaller.
const LARGEST: u64 = 2 * PIECE;
/// Large enough to keep a fast connection busy.
const BUFFER: usize = 400 << 10;

/// Gives `object_store` its client.
#[derive(Debug)]
pub(super) struct Connector {
    service: Service,
}

impl Connector {
    /// `stall`: how long a request may make no progress.
    pub(super) fn new(secure: bool, stall: Duration) -> Result<Self, Error> {
        let client = Client::new(Config {
            trust: Trust::default(),
            // The operator chose the store; it often is in the private network.
            addresses: AddressPolicy::Any,
            timeouts: Timeouts { connect: CONNECT.min(stall), head: Some(stall), stall: Some(stall) },
            limits: Limits { head_bytes: BUFFER, body_bytes: Some(LARGEST), ..Limits::default() },
            pooled: true,
        });
        if secure {
            client.load_trust().map_err(|error| Error::Unsupported(error.to_string()))?;
        }
        Ok(Self { service: Service(client) })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.service.clone()))
    }
}

#[derive(Debug, Clone)]
struct Service(Client<HttpRequestBody>);

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let response = self.0.send(request).await.map_err(classify)?;
        Ok(response.map(|body| HttpResponseBody::new(body.map_err(classify))))
    }
}

/// The kind decides whether `object_store` tries again.
fn classify(error: Failure) -> HttpError {
    let kind = match error.kind {
        Kind::HeadTimeout | Kind::Stalled => HttpErrorKind::Timeout,
        Kind::TooLarge(_) | Kind::Informational => HttpErrorKind::Decode,
        _ if error.is_malformed() => HttpErrorKind::Decode,
        _ if error.is_connect() => HttpErrorKind::Connect,
        _ => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, error)
}
