//! Request routing. The control socket has its own routes; everywhere else the token is checked first, then a service
//! or file handler is chosen by path.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cabana_body_drain::TrackedBody;
use cabana_proto::filesystem::{FILESYSTEM_SERVICE_NAME, FilesystemServer};
use cabana_proto::process::{PROCESS_SERVICE_NAME, ProcessServer};
use cabana_types::guest::services::{END_PATH, LISTENING_PATH, OUTPUT_PATH};
use cabana_types::guest::tools::{
    DIRECTORY_PATH, DOWNLOAD_PATH, EDIT_PATH, FIND_PATH, GREP_PATH, LIST_PATH, MOVE_PATH, PORTS_PATH, READ_PATH,
    STAT_PATH,
};
use cabana_types::guest::{
    ACTIVITY_PATH, BRIDGE_PATH, HEALTH_PATH, INIT_PATH, JOURNAL_PATH, READY_PATH, STOP_PATH, TRUST_PATH, Trust,
};
use connectrpc::{ConnectError, ConnectRpcService, Limits};
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderValue, ORIGIN,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;
use tower::ServiceExt as _;

use crate::auth::{self, Token};
use crate::error::Problem;
use crate::filesystem_service::FilesystemService;
use crate::guest::Guest;
use crate::process_service::ProcessService;
use crate::query::Query;
use crate::reply::{self, Body};
use crate::signature::{self, Operation};
use crate::upload::Upload;
use crate::users::{self, Account};
use crate::{blocking, bridge, compose, download, init, metrics, path, services, stop, tools};

/// Limit on one RPC message; larger data goes through `/files`.
const MAX_MESSAGE: usize = 8 << 20;
/// Limit on the body of `/init` and `/files/compose`.
const MAX_JSON: usize = 2 << 20;
/// Limit on the body of `/edit`: files of some 16 MiB together.
const MAX_EDIT: usize = 24 << 20;
const BODY_PATIENCE: Duration = Duration::from_secs(30);
const REFUSED: &str = "unauthorized access, please provide a valid access token or method signing if supported";

/// The listener that a request arrived on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The control socket, used by the host itself.
    Control,
    /// The traffic socket: a client, through the host's edge.
    Traffic,
    /// TCP: a program inside the sandbox.
    Inside,
}

/// The request handler.
pub(crate) struct Routes {
    guest: Arc<Guest>,
    process: ConnectRpcService<ProcessServer<ProcessService>>,
    /// The same for the host, which may ask for more.
    host_process: ConnectRpcService<ProcessServer<ProcessService>>,
    filesystem: ConnectRpcService<FilesystemServer<FilesystemService>>,
}

impl Routes {
    pub(crate) fn new(guest: Arc<Guest>) -> Self {
        let limits = Limits::default().with_max_request_body_size(MAX_MESSAGE).with_max_message_size(MAX_MESSAGE);
        let process = ProcessServer::new(ProcessService::new(Arc::clone(&guest)));
        let host_process = ProcessServer::new(ProcessService::for_host(Arc::clone(&guest)));
        let filesystem = FilesystemServer::new(FilesystemService::new(Arc::clone(&guest)));
        Self {
            guest,
            process: ConnectRpcService::new(process).with_limits(limits),
            host_process: ConnectRpcService::new(host_process).with_limits(limits),
            filesystem: ConnectRpcService::new(filesystem).with_limits(limits),
        }
    }

    /// Handles one request.
    pub(crate) async fn answer(&self, request: Request<TrackedBody>, origin: Origin) -> Response<Body> {
        let from_browser = request.headers().contains_key(ORIGIN);
        let mut response = match *request.method() {
            Method::OPTIONS if from_browser => preflight(),
            _ => self.dispatch(request, origin).await.unwrap_or_else(|problem| reply::problem(&problem)),
        };
        if from_browser {
            let headers = response.headers_mut();
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        }
        response
    }

    async fn dispatch(&self, request: Request<TrackedBody>, origin: Origin) -> Result<Response<Body>, Problem> {
        if origin == Origin::Control {
            return self.control(request).await;
        }
        let path = request.uri().path();
        let service = service_of(path);
        let is_rpc = [PROCESS_SERVICE_NAME, FILESYSTEM_SERVICE_NAME].contains(&service);
        if let Err(problem) = self.authorize(&request) {
            if !is_rpc {
                return Err(problem);
            }
            let refusal = ConnectError::unauthenticated(problem.message);
            return Ok(refusal.into_http_response(request.headers()).map(rpc_body));
        }
        if service == PROCESS_SERVICE_NAME {
            return Ok(call(&self.process, request).await);
        }
        if service == FILESYSTEM_SERVICE_NAME {
            return Ok(self.filesystem.clone().oneshot(request).await.map_or_else(|e| match e {}, |r| r.map(rpc_body)));
        }
        match (request.method().as_str(), path) {
            ("GET" | "HEAD", HEALTH_PATH) => Ok(reply::empty(StatusCode::NO_CONTENT)),
            ("GET" | "HEAD", "/files") => self.download(&request).await,
            ("POST", "/files") => self.upload(request).await,
            ("POST", "/files/compose") => self.compose(request).await,
            ("GET", "/envs") => Ok(reply::json(StatusCode::OK, &self.guest.settings().env)),
            ("GET", "/metrics") => self.metrics(&request, origin).await,
            (_, HEALTH_PATH | "/files" | "/files/compose" | "/envs" | "/metrics") => {
                Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed"))
            }
            _ => Err(no_route()),
        }
    }

    /// Checks the token, or on `/files` the signature that may replace it.
    fn authorize(&self, request: &Request<TrackedBody>) -> Result<(), Problem> {
        let Some(expected) = self.guest.settings().access_token.clone() else { return Ok(()) };
        let path = request.uri().path();
        if path == HEALTH_PATH && *request.method() == Method::GET {
            return Ok(());
        }
        let operation = match (request.method().as_str(), path) {
            ("GET" | "HEAD", "/files") => Some(Operation::Read),
            ("POST", "/files") => Some(Operation::Write),
            _ => None,
        };
        match (auth::token(request.headers(), &expected), operation) {
            (Token::Right, _) => Ok(()),
            (Token::Wrong, Some(_)) => Err(Problem::unauthorized("access token present in header but does not match")),
            (Token::Absent, Some(operation)) => signature::check(&query(request)?, operation, &expected, now())
                .map_err(|refused| Problem::unauthorized(refused.to_string())),
            (_, None) => Err(Problem::unauthorized(REFUSED)),
        }
    }

    /// Routes of the control socket. They need no token: only the host can connect.
    async fn control(&self, request: Request<TrackedBody>) -> Result<Response<Body>, Problem> {
        if service_of(request.uri().path()) == PROCESS_SERVICE_NAME {
            return Ok(call(&self.host_process, request).await);
        }
        match (request.method().as_str(), request.uri().path()) {
            ("GET", HEALTH_PATH) => Ok(reply::empty(StatusCode::NO_CONTENT)),
            ("POST", INIT_PATH) => {
                let change: init::Request = json_body(request, true).await?;
                change.apply(&mut self.guest.settings());
                Ok(reply::empty(StatusCode::NO_CONTENT))
            }
            ("GET", JOURNAL_PATH) => {
                let last = query(&request)?.get("last").and_then(|last| last.parse().ok()).unwrap_or(usize::MAX);
                Ok(reply::json(StatusCode::OK, &self.guest.commands.journal.last(last)))
            }
            ("GET", BRIDGE_PATH) => {
                let query = query(&request)?;
                bridge::serve(request, &query).await
            }
            ("GET", ACTIVITY_PATH) => Ok(reply::json(StatusCode::OK, &self.guest.commands.activity())),
            ("GET", READY_PATH) => {
                let query = query(&request)?;
                let seconds = query.get("seconds").map_or(Ok(u64::MAX), str::parse);
                let seconds = seconds.map_err(|_| Problem::bad_request("seconds must be a number"))?;
                let readiness = self.guest.preparation.decided_within(Duration::from_secs(seconds)).await;
                Ok(reply::json(StatusCode::OK, &readiness))
            }
            ("POST", TRUST_PATH) => {
                let trust: Trust = json_body(request, false).await?;
                let guest = Arc::clone(&self.guest);
                let installed =
                    blocking::run(move || Ok::<_, Problem>(guest.trust(trust.certificate.as_deref()))).await?;
                match installed {
                    true => Ok(reply::empty(StatusCode::NO_CONTENT)),
                    false => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the certificate was not installed")),
                }
            }
            ("GET", PORTS_PATH) => Ok(tools::answer_ports(&self.guest).await),
            ("GET", OUTPUT_PATH) => services::answer_output(&self.guest, &query(&request)?).await,
            ("GET", LISTENING_PATH) => services::answer_listening(&self.guest, &query(&request)?).await,
            ("POST", END_PATH) => services::answer_end(&self.guest, &query(&request)?).await,
            ("POST", READ_PATH) => self.tool(tools::Request::Read(json_body(request, false).await?)).await,
            ("POST", STAT_PATH) => self.tool(tools::Request::Stat(json_body(request, false).await?)).await,
            ("GET", DOWNLOAD_PATH) => {
                let query = query(&request)?;
                let (path, archive) = (query.get("path").unwrap_or_default(), query.get("archive") == Some("true"));
                let digest = query.get("digest").and_then(|most| most.parse().ok());
                tools::answer_download(&self.guest, path, archive, digest, request.headers()).await
            }
            ("POST", LIST_PATH) => self.tool(tools::Request::List(json_body(request, false).await?)).await,
            ("POST", GREP_PATH) => self.tool(tools::Request::Grep(json_body(request, false).await?)).await,
            ("POST", FIND_PATH) => self.tool(tools::Request::Find(json_body(request, false).await?)).await,
            ("POST", MOVE_PATH) => self.tool(tools::Request::Move(json_body(request, false).await?)).await,
            ("POST", DIRECTORY_PATH) => self.tool(tools::Request::NewDirectory(json_body(request, false).await?)).await,
            ("POST", EDIT_PATH) => self.tool(tools::Request::Edit(json_up_to(request, false, MAX_EDIT).await?)).await,
            ("POST", STOP_PATH) => {
                self.guest.preparation.give_up();
                stop::all_processes().await;
                Ok(reply::empty(StatusCode::NO_CONTENT))
            }
            _ => Err(no_route()),
        }
    }

    async fn tool(&self, request: tools::Request) -> Result<Response<Body>, Problem> {
        Ok(tools::answer(&self.guest, request).await)
    }

    async fn download(&self, request: &Request<TrackedBody>) -> Result<Response<Body>, Problem> {
        let query = query(request)?;
        let account = self.account(query.get("username"))?;
        let workdir = self.guest.settings().default_workdir.clone();
        let path = path::resolve(query.get("path").unwrap_or_default(), &account, workdir.as_deref())
            .map_err(|e| Problem::bad_request(e.to_string()))?;
        download::serve(path, request.headers()).await
    }

    async fn upload(&self, request: Request<TrackedBody>) -> Result<Response<Body>, Problem> {
        let query = query(&request)?;
        let account = self.account(query.get("username"))?;
        let workdir = self.guest.settings().default_workdir.clone();
        let upload = Upload { account, workdir, path: query.get("path").map(str::to_owned) };
        let (parts, body) = request.into_parts();
        Box::pin(upload.receive(&parts.headers, body)).await
    }

    async fn compose(&self, request: Request<TrackedBody>) -> Result<Response<Body>, Problem> {
        let wanted: compose::Request = json_body(request, false).await?;
        let account = self.account(wanted.username.as_deref())?;
        let workdir = self.guest.settings().default_workdir.clone();
        let written = blocking::run(move || compose::compose(&wanted, &account, workdir.as_deref())).await?;
        Ok(reply::json(StatusCode::OK, &written))
    }

    async fn metrics(&self, request: &Request<TrackedBody>, origin: Origin) -> Result<Response<Body>, Problem> {
        let guest = Arc::clone(&self.guest);
        // A program inside the sandbox could forge the host's header.
        let host_headers = (origin == Origin::Traffic).then(|| request.headers().clone());
        let measured = blocking::run(move || Ok::<_, Problem>(metrics::measure(&guest, host_headers.as_ref()))).await?;
        Ok(reply::json(StatusCode::OK, &measured))
    }

    /// The account for a file request: the one it names, or the default.
    fn account(&self, name: Option<&str>) -> Result<Account, Problem> {
        match name.filter(|n| !n.is_empty()) {
            None => Ok(users::find_or_root(&self.guest.settings().default_user)),
            Some(name) => users::find(name)
                .ok_or_else(|| Problem::unauthorized(format!("invalid username: '{}'", auth::truncated(name)))),
        }
    }
}

/// The service that a path names, if it is one of an RPC.
fn service_of(path: &str) -> &str {
    path.strip_prefix('/').and_then(|p| p.split_once('/')).map_or("", |(service, _)| service)
}

async fn call(
    process: &ConnectRpcService<ProcessServer<ProcessService>>,
    request: Request<TrackedBody>,
) -> Response<Body> {
    process.clone().oneshot(request).await.map_or_else(|e| match e {}, |r| r.map(rpc_body))
}

fn rpc_body(body: connectrpc::service::ConnectRpcBody) -> Body {
    body.map_err(|never| match never {}).boxed_unsync()
}

fn preflight() -> Response<Body> {
    let mut response = reply::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE"));
    // `*` does not include Authorization.
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, Authorization"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    response
}

fn no_route() -> Problem {
    Problem::not_found("path not found")
}

fn query(request: &Request<TrackedBody>) -> Result<Query, Problem> {
    Query::parse(request.uri().query()).ok_or_else(|| Problem::bad_request("malformed query"))
}

async fn json_body<T: DeserializeOwned + Default>(
    request: Request<TrackedBody>,
    may_be_empty: bool,
) -> Result<T, Problem> {
    json_up_to(request, may_be_empty, MAX_JSON).await
}

async fn json_up_to<T: DeserializeOwned + Default>(
    request: Request<TrackedBody>,
    may_be_empty: bool,
    limit: usize,
) -> Result<T, Problem> {
    let body = tokio::time::timeout(BODY_PATIENCE, Limited::new(request.into_body(), limit).collect()).await;
    let body = body.map_err(|_| Problem::new(StatusCode::REQUEST_TIMEOUT, "timed out reading the request body"))?;
    let bytes: Bytes = body
        .map_err(|cause| match cause.downcast::<http_body_util::LengthLimitError>() {
            Ok(_) => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {limit} bytes")),
            Err(cause) => Problem::bad_request(format!("the request body is incomplete: {cause}")),
        })?
        .to_bytes();
    if bytes.is_empty() && may_be_empty {
        return Ok(T::default());
    }
    serde_json::from_slice(&bytes).map_err(|e| Problem::bad_request(format!("invalid request body: {e}")))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
