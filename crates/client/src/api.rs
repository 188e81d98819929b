//! The REST API, one method for each call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cabana_http::Trust;
use cabana_types::routing::API_KEY_HEADER;
use cabana_types::wire::{
    ApiKey, ArchiveRequest, Check, CommitRequest, Event, ForkRequest, ForkResult, KeyRequest, ListedSandbox,
    NetworkRequest, NetworkStatus, NewApiKey, NewSandbox, PauseRequest, ResizeRequest, Sandbox, SandboxDetail,
    SandboxLogs, SandboxState, ServerStatus, SignInCode, SnapshotInfo, SnapshotRequest, Template, TimeoutRequest,
};
use cabana_types::{KeyId, SandboxId, Secret};
use http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::http::{CALL_TIMEOUT, Http, SendBody, collect};
use crate::query::{self, EventQuery, ListQuery, Page};
use crate::sandbox::SandboxHandle;

/// Largest response of the API that is read.
const MAX_ANSWER_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of pages that [`Client::list_all`] reads.
pub(crate) const MAX_PAGES: usize = 10_000;
/// Where the next page begins.
const NEXT_TOKEN_HEADER: &str = "x-next-token";

/// A client for one server. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: Http,
    key: Arc<HeaderValue>,
}

impl Client {
    /// A client for the server at `base_url` that authenticates with `api_key` and trusts the system's certificate
    /// authorities. Connects when it is first used.
    pub fn new(base_url: &str, api_key: &Secret) -> Result<Self> {
        Self::with_trust(base_url, api_key, &Trust::default())
    }

    /// The same, with further certificate authorities.
    pub fn with_trust(base_url: &str, api_key: &Secret, trust: &Trust) -> Result<Self> {
        let mut key = HeaderValue::from_str(api_key.expose())
            .map_err(|_| Error::InvalidInput("the API key contains invalid characters".to_owned()))?;
        key.set_sensitive(true);
        Ok(Self { http: Http::new(base_url, trust)?, key: Arc::new(key) })
    }

    /// The base URL, without the last slash.
    pub fn base_url(&self) -> &str {
        self.http.base()
    }

    pub(crate) fn http(&self) -> &Http {
        &self.http
    }

    /// Creates a sandbox and returns when it runs. Repeated with the same idempotency key, it returns the same sandbox.
    pub async fn create(&self, new: &NewSandbox, idempotency_key: Option<&str>) -> Result<Sandbox> {
        let action = "create a sandbox";
        let mut request = self.request(Method::POST, "/v2/sandboxes", Some(to_json(action, new)?))?;
        if let Some(key) = idempotency_key {
            let value = HeaderValue::from_str(key).map_err(|_| {
                Error::InvalidInput("the idempotency key has characters other than a-z, 0-9 and -".to_owned())
            })?;
            request.headers_mut().insert("idempotency-key", value);
        }
        self.call(action, request).await
    }

    /// Returns one sandbox.
    pub async fn get(&self, id: &SandboxId) -> Result<SandboxDetail> {
        self.fetch("get the sandbox", &format!("/sandboxes/{id}")).await
    }

    /// One page of sandboxes.
    pub async fn list(&self, query: &ListQuery) -> Result<Page<ListedSandbox>> {
        let action = "list sandboxes";
        let request = self.request(Method::GET, &format!("/v2/sandboxes{}", query.encode()), None)?;
        let (items, next) = self.call_with_next(action, request).await?;
        Ok(Page { items, next_token: next })
    }

    /// All sandboxes that match, page by page.
    pub async fn list_all(&self, query: &ListQuery) -> Result<Vec<ListedSandbox>> {
        let mut query = query.clone();
        let mut all = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = self.list(&query).await?;
            all.extend(page.items);
            match page.next_token {
                Some(token) => query.next_token = Some(token),
                None => return Ok(all),
            }
        }
        Err(Error::Answer { action: "list sandboxes", reason: "the listing does not end".to_owned() })
    }

    /// Kills a sandbox.
    pub async fn kill(&self, id: &SandboxId) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/sandboxes/{id}"), None)?;
        self.call_empty("kill the sandbox", request).await
    }

    /// Makes a sandbox expire `seconds` from now.
    pub async fn set_timeout(&self, id: &SandboxId, seconds: i64) -> Result<()> {
        let action = "set the timeout";
        let body = to_json(action, &TimeoutRequest { timeout: Some(seconds) })?;
        let request = self.request(Method::POST, &format!("/sandboxes/{id}/timeout"), Some(body))?;
        self.call_empty(action, request).await
    }

    /// Resumes a sandbox if it is paused, and extends its timeout to at least `seconds` from now.
    pub async fn connect(&self, id: &SandboxId, seconds: Option<i64>) -> Result<Sandbox> {
        let action = "connect to the sandbox";
        let body = to_json(action, &TimeoutRequest { timeout: seconds })?;
        let request = self.request(Method::POST, &format!("/v2/sandboxes/{id}/connect"), Some(body))?;
        self.call(action, request).await
    }

    /// Pauses a sandbox and keeps its memory, or its disk only.
    pub async fn pause(&self, id: &SandboxId, memory: bool) -> Result<()> {
        let action = "pause the sandbox";
        let body = to_json(action, &PauseRequest { memory: Some(memory), require_healthy_guest: None })?;
        self.call_empty(action, self.request(Method::POST, &format!("/sandboxes/{id}/pause"), Some(body))?).await
    }

    /// Recovers a sandbox: makes it usable again from a failed or paused state.
    pub async fn recover(&self, id: &SandboxId) -> Result<Sandbox> {
        let request = self.request(Method::POST, &format!("/sandboxes/{id}/recover"), None)?;
        self.call("recover the sandbox", request).await
    }

    /// Archives a sandbox's disk in cold storage; with `recycle`, only the marked paths are kept.
    pub async fn archive(&self, id: &SandboxId, recycle: bool) -> Result<()> {
        let action = "archive the sandbox";
        let body = to_json(action, &ArchiveRequest { recycle: Some(recycle) })?;
        self.call_empty(action, self.request(Method::POST, &format!("/sandboxes/{id}/archive"), Some(body))?).await
    }

    /// Changes a sandbox's resources.
    pub async fn resize(&self, id: &SandboxId, wanted: &ResizeRequest) -> Result<ListedSandbox> {
        let action = "resize the sandbox";
        let body = to_json(action, wanted)?;
        self.call(action, self.request(Method::POST, &format!("/sandboxes/{id}/resize"), Some(body))?).await
    }

    /// Where a sandbox may connect, and what was denied.
    pub async fn network(&self, id: &SandboxId) -> Result<NetworkStatus> {
        self.call("read the sandbox's network", self.request(Method::GET, &format!("/sandboxes/{id}/network"), None)?)
            .await
    }

    /// Replaces where a sandbox may connect.
    pub async fn set_network(&self, id: &SandboxId, wanted: &NetworkRequest) -> Result<()> {
        let action = "change the sandbox's network";
        let body = to_json(action, wanted)?;
        self.call_empty(action, self.request(Method::PUT, &format!("/sandboxes/{id}/network"), Some(body))?).await
    }

    /// Forks a sandbox: creates sandboxes with copies of its disk.
    pub async fn fork(&self, id: &SandboxId, wanted: &ForkRequest) -> Result<Vec<ForkResult>> {
        let action = "fork the sandbox";
        let body = to_json(action, wanted)?;
        self.call(action, self.request(Method::POST, &format!("/sandboxes/{id}/fork"), Some(body))?).await
    }

    /// Commits a sandbox: creates a template from it, and returns when it is ready.
    pub async fn commit(&self, id: &SandboxId, wanted: &CommitRequest) -> Result<Template> {
        let action = "create a template from the sandbox";
        let body = to_json(action, wanted)?;
        self.call(action, self.request(Method::POST, &format!("/sandboxes/{id}/commit"), Some(body))?).await
    }

    /// Takes a snapshot of a sandbox's disk.
    pub async fn take_snapshot(&self, id: &SandboxId, name: Option<&str>) -> Result<SnapshotInfo> {
        let action = "take a snapshot";
        let body = to_json(action, &SnapshotRequest { name: name.map(str::to_owned), memory: None })?;
        self.call(action, self.request(Method::POST, &format!("/sandboxes/{id}/snapshots"), Some(body))?).await
    }

    /// All snapshots, or those of one sandbox, newest first.
    pub async fn snapshots(&self, of: Option<&SandboxId>) -> Result<Vec<SnapshotInfo>> {
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut pairs = Vec::new();
            pairs.extend(of.map(|id| ("sandboxID", id.to_string())));
            pairs.extend(token.take().map(|token| ("nextToken", token)));
            let request = self.request(Method::GET, &format!("/snapshots{}", query::encode(&pairs)), None)?;
            let (page, next): (Vec<SnapshotInfo>, _) = self.call_with_next("list snapshots", request).await?;
            all.extend(page);
            match next {
                None => return Ok(all),
                next => token = next,
            }
        }
        Err(Error::Answer { action: "list snapshots", reason: "the listing does not end".to_owned() })
    }

    /// Deletes a snapshot by its id or name.
    pub async fn delete_snapshot(&self, name: &str) -> Result<()> {
        let name: String = url::form_urlencoded::byte_serialize(name.as_bytes()).collect();
        let request = self.request(Method::DELETE, &format!("/templates/{name}"), None)?;
        self.call_empty("delete the snapshot", request).await
    }

    /// Differences between the host's state and the server's records.
    pub async fn check(&self) -> Result<Vec<String>> {
        Ok(self.fetch::<Check>("check the server", "/status/check").await?.differences)
    }

    /// Log of a sandbox's events since `start` (milliseconds since 1970).
    pub async fn logs(&self, id: &SandboxId, start: Option<i64>, limit: Option<u32>) -> Result<SandboxLogs> {
        let mut pairs = Vec::new();
        pairs.extend(start.map(|n| ("start", n.to_string())));
        pairs.extend(limit.map(|n| ("limit", n.to_string())));
        self.fetch("read the logs", &format!("/sandboxes/{id}/logs{}", query::encode(&pairs))).await
    }

    /// Events of all sandboxes, or of one.
    pub async fn events(&self, id: Option<&SandboxId>, query: &EventQuery) -> Result<Vec<Event>> {
        let one = id.map(|id| format!("/{id}")).unwrap_or_default();
        self.fetch("list events", &format!("/events/sandboxes{one}{}", query.encode())).await
    }

    /// The team's API keys, without the keys themselves.
    pub async fn keys(&self) -> Result<Vec<ApiKey>> {
        self.fetch("list API keys", "/api-keys").await
    }

    /// Creates an API key. Only this response contains it.
    pub async fn create_key(&self, key: &KeyRequest) -> Result<NewApiKey> {
        let action = "create an API key";
        let body = to_json(action, key)?;
        self.call(action, self.request(Method::POST, "/api-keys", Some(body))?).await
    }

    /// Makes a link that signs in to the console once.
    pub async fn sign_in_code(&self) -> Result<SignInCode> {
        let action = "make a link for signing in";
        self.call(action, self.request(Method::POST, "/auth/codes", None)?).await
    }

    /// Deletes an API key.
    pub async fn delete_key(&self, id: &KeyId) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/api-keys/{id}"), None)?;
        self.call_empty("delete the API key", request).await
    }

    /// Status of the server.
    pub async fn status(&self) -> Result<ServerStatus> {
        self.fetch("get the server's status", "/status").await
    }

    /// The OpenAPI document.
    pub async fn openapi(&self) -> Result<serde_json::Value> {
        self.fetch("get the API description", "/openapi.json").await
    }

    /// A handle to a sandbox's commands and files.
    pub async fn sandbox(&self, id: &SandboxId) -> Result<SandboxHandle> {
        let detail = self.get(id).await?;
        if detail.listed.state == SandboxState::Paused {
            // Connecting resumes a paused sandbox.
            return self.handle(&self.connect(id, None).await?);
        }
        SandboxHandle::new(self.clone(), id.clone(), detail.envd_access_token.as_ref())
    }

    /// A handle to a sandbox that was just created or connected to.
    pub fn handle(&self, sandbox: &Sandbox) -> Result<SandboxHandle> {
        SandboxHandle::new(self.clone(), sandbox.sandbox_id.clone(), sandbox.envd_access_token.as_ref())
    }

    pub(crate) fn request(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Request<SendBody>> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.http.uri(path)?)
            .body(
                Full::new(Bytes::from(body.clone().unwrap_or_default())).map_err(|never| match never {}).boxed_unsync(),
            )
            .map_err(|e| Error::InvalidInput(e.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(API_KEY_HEADER, (*self.key).clone());
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        if body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        Ok(request)
    }

    pub(crate) async fn fetch<T: DeserializeOwned>(&self, action: &'static str, path: &str) -> Result<T> {
        let request = self.request(Method::GET, path, None)?;
        self.call(action, request).await
    }

    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        action: &'static str,
        request: Request<SendBody>,
    ) -> Result<T> {
        Ok(self.call_with_next(action, request).await?.0)
    }

    pub(crate) async fn call_with_next<T: DeserializeOwned>(
        &self,
        action: &'static str,
        request: Request<SendBody>,
    ) -> Result<(T, Option<String>)> {
        within(action, self.answer(action, request)).await
    }

    /// The same for a call that the server answers after a while.
    pub(crate) async fn call_waiting<T: DeserializeOwned>(
        &self,
        action: &'static str,
        request: Request<SendBody>,
        wait: Duration,
    ) -> Result<T> {
        Ok(within_time(wait + CALL_TIMEOUT, action, self.answer(action, request)).await?.0)
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        action: &'static str,
        request: Request<SendBody>,
    ) -> Result<(T, Option<String>)> {
        let response = self.http.send(action, request).await?;
        let next = response.headers().get(NEXT_TOKEN_HEADER).and_then(|v| v.to_str().ok());
        let next = next.filter(|t| !t.is_empty()).map(str::to_owned);
        let bytes = collect(action, response, MAX_ANSWER_BYTES).await?;
        let value = serde_json::from_slice(&bytes).map_err(|e| Error::Answer { action, reason: e.to_string() })?;
        Ok((value, next))
    }

    pub(crate) async fn call_empty(&self, action: &'static str, request: Request<SendBody>) -> Result<()> {
        within(action, async {
            let response = self.http.send(action, request).await?;
            collect(action, response, MAX_ANSWER_BYTES).await.map(drop)
        })
        .await
    }
}

/// Headers of every request.
pub(crate) const USER_AGENT: &str = concat!("cabana/", env!("CARGO_PKG_VERSION"));

pub(crate) fn to_json(action: &'static str, value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|e| Error::InvalidInput(format!("cannot {action}: {e}")))
}

/// Applies the timeout of unary calls.
pub(crate) fn within<T>(
    action: &'static str,
    call: impl Future<Output = Result<T>>,
) -> impl Future<Output = Result<T>> {
    within_time(CALL_TIMEOUT, action, call)
}

fn within_time<T>(
    time: Duration,
    action: &'static str,
    call: impl Future<Output = Result<T>>,
) -> impl Future<Output = Result<T>> {
    // On the heap: the futures of calls are large, and each that contains one would have room for it several times.
    let timed = tokio::time::timeout(time, Box::pin(call));
    async move { timed.await.unwrap_or(Err(Error::TimedOut { action, seconds: time.as_secs() })) }
}
