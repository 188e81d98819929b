//! The service on port 49999: routes, bodies and streams.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, CONTENT_TYPE,
};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::context::Context;
use crate::contexts::Contexts;
use crate::error::Error;
use crate::execution::{self, Cell, Lines};
use crate::line;

const PORT: u16 = 49999;
/// A line that means nothing is sent after this time without one.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// Maximum size of a request.
const MAX_BODY: usize = 100 << 20;
/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 1024;
/// How many bytes of lines that are there already are sent at once.
const BATCH: usize = 64 << 10;
/// Delay after a failed accept, which usually means that descriptors are exhausted.
const PAUSE: Duration = Duration::from_millis(50);

type Body = UnsyncBoxBody<Bytes, Infallible>;

#[derive(Debug, Deserialize)]
struct Execute {
    code: String,
    context_id: Option<String>,
    language: Option<String>,
    env_vars: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
struct NewContext {
    language: Option<String>,
    cwd: Option<String>,
}

/// Serves for ever.
pub(crate) async fn serve(contexts: Arc<Contexts>) -> Result<(), Error> {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).await.map_err(|error| Error::Listen(PORT, error))?;
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return Ok(()) };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let contexts = Arc::clone(&contexts);
        tokio::spawn(async move {
            connection(stream, contexts).await;
            drop(permit);
        });
    }
}

async fn connection(stream: TcpStream, contexts: Arc<Contexts>) {
    // Best effort: lines are small and latency matters.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let contexts = Arc::clone(&contexts);
        async move {
            let mut response = answer(request, contexts).await;
            let headers = response.headers_mut();
            for name in [ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_HEADERS] {
                headers.insert(name, HeaderValue::from_static("*"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    // An error of a connection affects only its client.
    let _ = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>, contexts: Arc<Contexts>) -> Response<Body> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let done = match (&method, &parts[..]) {
        (&Method::OPTIONS, _) => return reply(StatusCode::OK, "", "text/plain"),
        (&Method::GET, ["health"]) => Ok(json!("OK")),
        (&Method::POST, ["execute"]) => {
            return match execute(request, &contexts).await {
                Ok(lines) => streamed(lines),
                Err(refused) => refused,
            };
        }
        (&Method::GET, ["contexts"]) => Ok(contexts.list().iter().map(|context| shown(context)).collect()),
        (&Method::POST, ["contexts"]) => {
            let new: NewContext = match read(request).await {
                Ok(new) => new,
                Err(refused) => return refused,
            };
            contexts.create(new.language.as_deref(), new.cwd.as_deref()).await.map(|context| shown(&context))
        }
        (&Method::POST, ["contexts", id, "restart"]) => match contexts.get(id) {
            Ok(context) => context.restart().await.map(|()| Value::Null),
            Err(error) => Err(error),
        },
        (&Method::DELETE, ["contexts", id]) => contexts.remove(id).await.map(|()| Value::Null),
        _ => return reply(StatusCode::NOT_FOUND, "Not Found", "text/plain"),
    };
    match done {
        Ok(value) => reply(StatusCode::OK, value.to_string(), "application/json"),
        Err(error) => failed(&error),
    }
}

async fn execute(request: Request<Incoming>, contexts: &Contexts) -> Result<Lines, Response<Body>> {
    let request: Execute = read(request).await?;
    let (id, language) = (request.context_id.as_deref(), request.language.as_deref());
    if id.is_some() && language.is_some() {
        let text = "Only one of context_id or language can be provided";
        return Err(reply(StatusCode::BAD_REQUEST, text, "text/plain"));
    }
    let context = contexts.of_cell(id, language).map_err(|error| failed(&error))?;
    let mut environment = request.env_vars.unwrap_or_default();
    // No program can have such variables.
    environment.retain(|name, value| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0'));
    Ok(execution::start(context, Cell { code: request.code, environment }))
}

/// A body of JSON; an empty one is an empty object.
async fn read<T: for<'a> Deserialize<'a>>(request: Request<Incoming>) -> Result<T, Response<Body>> {
    let refused = |text: String| reply(StatusCode::UNPROCESSABLE_ENTITY, text, "text/plain");
    let body = Limited::new(request.into_body(), MAX_BODY).collect().await;
    let body = body.map_err(|error| refused(format!("The body could not be read: {error}")))?.to_bytes();
    let text: &[u8] = if body.is_empty() { b"{}" } else { &body };
    serde_json::from_slice(text).map_err(|error| refused(format!("The body is not valid: {error}")))
}

fn shown(context: &Context) -> Value {
    json!({ "id": context.id, "language": context.language.name, "cwd": context.directory })
}

fn failed(error: &Error) -> Response<Body> {
    let status = match error {
        Error::NoContext(_) => StatusCode::NOT_FOUND,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    reply(status, error.to_string(), "text/plain")
}

fn reply(status: StatusCode, text: impl Into<Bytes>, kind: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The lines as they come. When the client leaves, they are dropped, and the cell is interrupted.
fn streamed(lines: Lines) -> Response<Body> {
    let frames = stream::unfold(lines, |mut lines| async move {
        let mut batch = match timeout(KEEPALIVE, lines.next()).await {
            Ok(Some(line)) => BytesMut::from(line),
            Ok(None) => return None,
            Err(_) => BytesMut::from(line::keepalive()),
        };
        while batch.len() < BATCH
            && let Some(Some(line)) = futures_util::FutureExt::now_or_never(lines.next())
        {
            batch.extend_from_slice(&line);
        }
        Some((Ok(Frame::data(batch.freeze())), lines))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    response
}
