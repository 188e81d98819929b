//! Sends a request to a provider and reads what comes back, within time and size.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cabana_http::{AddressPolicy, Client, Config, Error, Kind, Limits, ResponseBody, Timeouts, Trust};
use cabana_types::Secret;
use futures_util::FutureExt;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use serde_json::Value;
use tokio::sync::mpsc;

use super::problem::{Problem, error, retry_after};
use super::reader::{Decoder, Fault, Reader, cut_off};
use crate::model::{Answer, ModelError, ModelErrorCode as Code, Piece};

/// Silence of a provider that is a failure. Local models read a long conversation for minutes before they write.
pub const SILENCE: Duration = Duration::from_secs(120);
/// How long counts and the end of a stream may take after the model has said why it stopped.
const STOPPED: Duration = Duration::from_secs(10);
/// Bytes of a response. A stream has some hundred bytes around each word.
const MAX_RESPONSE: u64 = 512 << 20;
/// Bytes of an error's body that are read.
const MAX_ERROR: usize = 64 << 10;
/// How long it may take to arrive.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// The HTTP client of providers. Clones share connections.
pub type HttpClient = Client<Full<Bytes>>;

/// An HTTP client for providers. `addresses`: where they may be; `silence`: the time after which a provider that sends nothing is given
/// up, usually [`SILENCE`].
pub fn http_client(trust: Trust, addresses: AddressPolicy, silence: Duration) -> HttpClient {
    Client::new(Config {
        trust,
        addresses,
        timeouts: Timeouts { connect: Duration::from_secs(10), head: Some(silence), stall: Some(silence) },
        limits: Limits { body_bytes: Some(MAX_RESPONSE), ..Limits::default() },
        pooled: true,
    })
}

/// Where a provider is and how it is asked.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Without the path of the operation, such as `https://api.openai.com/v1`.
    pub base_url: String,
    pub key: Option<Secret>,
    pub http: HttpClient,
}

impl ProviderConfig {
    /// The provider's host, for words to people.
    pub(super) fn host(&self) -> String {
        let host = url::Url::parse(&self.base_url).ok().and_then(|url| url.host_str().map(str::to_owned));
        host.unwrap_or_else(|| "the provider".into())
    }
}

/// Asks a provider and reads its answer. `headers`: with the key.
pub(super) async fn ask<D: Decoder>(
    config: &ProviderConfig,
    path: &str,
    headers: &[(HeaderName, String)],
    body: &Value,
    pieces: &mpsc::Sender<Piece>,
) -> Result<Answer, ModelError> {
    let (host, model) = (config.host(), body.get("model").and_then(Value::as_str).unwrap_or_default());
    let problem = |problem: Problem| problem.into_error(&host, model, config.key.as_ref());
    let request = request(config, path, headers, body)?;
    let response = config.http.send(request).await.map_err(|failed| failure(&failed, &host))?;
    if !response.status().is_success() {
        let (status, after) = (response.status().as_u16(), retry_after(response.headers(), SystemTime::now()));
        let body = beginning(response).await;
        return Err(ModelError { retry_after: after, ..problem(Problem::of_body(status, &body)) });
    }
    let mut reader = Reader::<D>::default();
    let read = read(&mut reader, response.into_body(), &host, pieces).await;
    forward(&mut reader, pieces).await;
    match read {
        Ok(()) => {}
        Err(Fault::Problem(said)) => return Err(problem(said)),
        Err(Fault::Error(failed)) => return Err(failed),
    }
    let mut answer = reader.answer()?;
    for call in &mut answer.calls {
        if call.id.is_empty() {
            call.id = format!("call_{:016x}", rand::random::<u64>());
        }
    }
    Ok(answer)
}

async fn read<D: Decoder>(
    reader: &mut Reader<D>,
    mut body: ResponseBody,
    host: &str,
    pieces: &mpsc::Sender<Piece>,
) -> Result<(), Fault> {
    while !reader.is_done() {
        let next = match reader.is_stopped() {
            // All of the answer is there; it is not given up for the sake of its counts.
            true => tokio::time::timeout(STOPPED, body.piece()).await.unwrap_or(Ok(None)).or(Ok(None)),
            false => body.piece().await,
        };
        match next {
            Ok(Some(bytes)) => {
                let pushed = reader.push(&bytes);
                forward(reader, pieces).await;
                pushed?;
            }
            Ok(None) => return reader.end(),
            Err(failed) => return Err(failure(&failed, host).into()),
        }
    }
    // A connection whose response was read to its end is used again.
    let _ = body.piece().now_or_never();
    Ok(())
}

async fn forward<D: Decoder>(reader: &mut Reader<D>, pieces: &mpsc::Sender<Piece>) {
    for piece in reader.pieces.take() {
        // A caller who wants no pieces still gets the answer.
        let _ = pieces.send(piece).await;
    }
}

/// What there is of an error's body.
async fn beginning(response: Response<ResponseBody>) -> Vec<u8> {
    let (mut body, mut read) = (response.into_body(), Vec::new());
    let reading = async {
        while let Ok(Some(bytes)) = body.piece().await {
            let room = MAX_ERROR - read.len();
            read.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
            if read.len() >= MAX_ERROR {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(ERROR_TIME, reading).await;
    read
}

fn request(
    config: &ProviderConfig,
    path: &str,
    headers: &[(HeaderName, String)],
    body: &Value,
) -> Result<Request<Full<Bytes>>, ModelError> {
    let bytes = serde_json::to_vec(body).map_err(|_| error(Code::Rejected, "the request cannot be written as JSON"))?;
    let url = format!("{}{path}", config.base_url.trim().trim_end_matches('/'));
    let mut request = Request::post(url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream, application/json")
        .body(Full::new(Bytes::from(bytes)))
        .map_err(|_| error(Code::Rejected, "the address of the provider is not a URL"))?;
    for (name, value) in headers {
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| error(Code::KeyRefused, "the key has characters that no key can have"))?;
        value.set_sensitive(true);
        request.headers_mut().insert(name.clone(), value);
    }
    Ok(request)
}

/// A request that failed before or while the response came. Addresses are left out: not everybody may know those of the network.
fn failure(failed: &Error, host: &str) -> ModelError {
    let unreachable = |cause: &dyn std::fmt::Display| format!("{host} cannot be reached: {cause}");
    match &failed.kind {
        Kind::HeadTimeout | Kind::Stalled => error(Code::Silent, format!("{host} sent nothing for too long")),
        Kind::Body(_) => cut_off(),
        Kind::TooLarge(_) => error(Code::TooLarge, "the response of the provider is too large"),
        Kind::Refused { .. } => ModelError {
            hint: "providers in private networks are set in the server's configuration file, not in the console".into(),
            ..error(Code::Rejected, unreachable(&"its address is not public"))
        },
        Kind::Url(_) | Kind::Redirect(_) => error(Code::Rejected, unreachable(failed)),
        Kind::Informational => error(Code::Garbled, unreachable(failed)),
        Kind::Connect { source, .. } => error(Code::Unavailable, unreachable(source)),
        _ if failed.is_malformed() => error(Code::Garbled, format!("{host} does not speak HTTP as expected")),
        _ => error(Code::Unavailable, unreachable(failed)),
    }
}
