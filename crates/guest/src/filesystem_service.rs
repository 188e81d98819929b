//! The Connect service `filesystem.Filesystem`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cabana_proto::filesystem::__buffa::oneof::watch_dir_response::Event;
use cabana_proto::filesystem::{
    CreateWatcherRequest, CreateWatcherResponse, EntryInfo, Filesystem, GetWatcherEventsRequest,
    GetWatcherEventsResponse, ListDirRequest, ListDirResponse, MakeDirRequest, MakeDirResponse, MoveRequest,
    MoveResponse, RemoveRequest, RemoveResponse, RemoveWatcherRequest, RemoveWatcherResponse, StatRequest,
    StatResponse, WatchDirRequest, WatchDirResponse, watch_dir_response,
};
use connectrpc::{ConnectError, Encodable, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream};
use http::HeaderMap;
use tokio::time::{Instant, sleep_until};

use crate::error::rpc_io;
use crate::events::keepalive_interval;
use crate::guest::Guest;
use crate::users::{Account, Names};
use crate::watch::{Watch, WatchRequest};
use crate::watchers::Permit;
use crate::{auth, blocking, directory, entry, path, removal};

pub(crate) struct FilesystemService {
    guest: Arc<Guest>,
}

impl FilesystemService {
    pub(crate) fn new(guest: Arc<Guest>) -> Self {
        Self { guest }
    }

    /// Resolves a path to its absolute form, and the request's user.
    fn resolve(&self, headers: &HeaderMap, text: &str) -> Result<(PathBuf, Account), ConnectError> {
        let account = auth::account(&self.guest, headers)?;
        let workdir = self.guest.settings().default_workdir.clone();
        let path = path::resolve(text, &account, workdir.as_deref())
            .map_err(|e| ConnectError::invalid_argument(e.to_string()))?;
        Ok((path, account))
    }
}

impl Filesystem for FilesystemService {
    async fn stat<'a>(
        &'a self,
        ctx: RequestContext,
        request: ServiceRequest<'_, StatRequest>,
    ) -> ServiceResult<impl Encodable<StatResponse> + Send + use<'a>> {
        let (path, _) = self.resolve(ctx.headers(), request.path)?;
        let entry = blocking::run(move || entry_at(&path)).await?;
        Response::ok(StatResponse { entry: entry.into(), ..Default::default() })
    }

    async fn make_dir<'a>(
        &'a self,
        ctx: RequestContext,
        request: ServiceRequest<'_, MakeDirRequest>,
    ) -> ServiceResult<impl Encodable<MakeDirResponse> + Send + use<'a>> {
        let (path, account) = self.resolve(ctx.headers(), request.path)?;
        let entry = blocking::run(move || {
            match std::fs::metadata(&path) {
                Ok(found) if found.is_dir() => {
                    let message = format!("directory already exists: {}", path.display());
                    return Err(ConnectError::already_exists(message));
                }
                Ok(_) => {
                    let message = format!("path already exists but it is not a directory: {}", path.display());
                    return Err(ConnectError::invalid_argument(message));
                }
                Err(_) => {}
            }
            directory::make(&path, &account).map_err(|e| rpc_io("make directory", &path, &e))?;
            entry_at(&path)
        });
        Response::ok(MakeDirResponse { entry: entry.await?.into(), ..Default::default() })
    }

    async fn r#move<'a>(
        &'a self,
        ctx: RequestContext,
        request: ServiceRequest<'_, MoveRequest>,
    ) -> ServiceResult<impl Encodable<MoveResponse> + Send + use<'a>> {
        let (source, account) = self.resolve(ctx.headers(), request.source)?;
        let (destination, _) = self.resolve(ctx.headers(), request.destination)?;
        let entry = blocking::run(move || {
            std::fs::symlink_metadata(&source).map_err(|e| rpc_io("move", &source, &e))?;
            if let Some(parent) = destination.parent() {
                directory::make(parent, &account).map_err(|e| rpc_io("make directory", parent, &e))?;
            }
            directory::relocate(&source, &destination).map_err(|e| rpc_io("move", &source, &e))?;
            entry_at(&destination)
        });
        Response::ok(MoveResponse { entry: entry.await?.into(), ..Default::default() })
    }

    async fn list_dir<'a>(
        &'a self,
        ctx: RequestContext,
        request: ServiceRequest<'_, ListDirRequest>,
    ) -> ServiceResult<impl Encodable<ListDirResponse> + Send + use<'a>> {
        let (path, _) = self.resolve(ctx.headers(), request.path)?;
        let depth = request.depth;
        let entries = blocking::run(move || {
            let found = std::fs::metadata(&path).map_err(|e| rpc_io("list", &path, &e))?;
            if !found.is_dir() {
                let message = format!("path is not a directory: {}", path.display());
                return Err(ConnectError::invalid_argument(message));
            }
            directory::list(&path, depth)
        });
        Response::ok(ListDirResponse { entries: entries.await?, ..Default::default() })
    }

    async fn remove<'a>(
        &'a self,
        ctx: RequestContext,
        request: ServiceRequest<'_, RemoveRequest>,
    ) -> ServiceResult<impl Encodable<RemoveResponse> + Send + use<'a>> {
        let (path, _) = self.resolve(ctx.headers(), request.path)?;
        if path == Path::new("/") {
            return Err(ConnectError::invalid_argument("the root directory cannot be removed"));
        }
        blocking::run(move || removal::remove(&path).map_err(|e| rpc_io("remove", &path, &e))).await?;
        Response::ok(RemoveResponse::default())
    }

    async fn watch_dir(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<WatchDirResponse> + Send + use<>>> {
        let (path, _) = self.resolve(ctx.headers(), request.path)?;
        let watch_request = WatchRequest { path, recursive: request.recursive, include_entry: request.include_entry };
        let permit = self.guest.watchers.permit()?;
        let watch = Watch::start(watch_request).await?;
        let stream = WatchStream {
            watch,
            _permit: permit,
            keepalive: keepalive_interval(ctx.headers()),
            deadline: ctx.deadline().map(Instant::from_std),
            state: StreamState::Starting,
        };
        Response::ok(stream.into_stream())
    }

    async fn create_watcher<'a>(
        &'a self,
        ctx: RequestContext,
        request: ServiceRequest<'_, CreateWatcherRequest>,
    ) -> ServiceResult<impl Encodable<CreateWatcherResponse> + Send + use<'a>> {
        let (path, _) = self.resolve(ctx.headers(), request.path)?;
        let watch_request = WatchRequest { path, recursive: request.recursive, include_entry: request.include_entry };
        let permit = self.guest.watchers.permit()?;
        let watch = Watch::start(watch_request).await?;
        let watcher_id = self.guest.watchers.add(watch, permit);
        Response::ok(CreateWatcherResponse { watcher_id, ..Default::default() })
    }

    async fn get_watcher_events<'a>(
        &'a self,
        _ctx: RequestContext,
        request: ServiceRequest<'_, GetWatcherEventsRequest>,
    ) -> ServiceResult<impl Encodable<GetWatcherEventsResponse> + Send + use<'a>> {
        let events = self.guest.watchers.take(request.watcher_id)?;
        Response::ok(GetWatcherEventsResponse { events, ..Default::default() })
    }

    async fn remove_watcher<'a>(
        &'a self,
        _ctx: RequestContext,
        request: ServiceRequest<'_, RemoveWatcherRequest>,
    ) -> ServiceResult<impl Encodable<RemoveWatcherResponse> + Send + use<'a>> {
        self.guest.watchers.remove(request.watcher_id)?;
        Response::ok(RemoveWatcherResponse::default())
    }
}

fn entry_at(path: &Path) -> Result<EntryInfo, ConnectError> {
    entry::stat(path, &Names::read()).map_err(|e| rpc_io("find", path, &e))
}

enum StreamState {
    Starting,
    Running,
    Ended,
}

/// The stream of `WatchDir`. It reads from the kernel only when the client reads; the kernel's queue is bounded.
struct WatchStream {
    watch: Watch,
    _permit: Permit,
    keepalive: Duration,
    deadline: Option<Instant>,
    state: StreamState,
}

impl WatchStream {
    fn into_stream(self) -> ServiceStream<WatchDirResponse> {
        Box::pin(futures_util::stream::unfold(self, |mut stream| async move {
            let item = stream.next().await?;
            Some((item, stream))
        }))
    }

    async fn next(&mut self) -> Option<Result<WatchDirResponse, ConnectError>> {
        let event: Result<Event, ConnectError> = match self.state {
            StreamState::Ended => return None,
            StreamState::Starting => {
                self.state = StreamState::Running;
                Ok(watch_dir_response::StartEvent::default().into())
            }
            StreamState::Running => {
                let silent_until = Instant::now() + self.keepalive;
                let (deadline, limited) = (self.deadline.unwrap_or(silent_until), self.deadline.is_some());
                tokio::select! {
                    biased;
                    () = sleep_until(deadline), if limited => {
                        Err(ConnectError::deadline_exceeded("the watch exceeded its timeout"))
                    }
                    event = self.watch.next() => event.map(Event::from),
                    () = sleep_until(silent_until) => Ok(watch_dir_response::KeepAlive::default().into()),
                }
            }
        };
        if event.is_err() {
            self.state = StreamState::Ended;
        }
        Some(event.map(|event| WatchDirResponse { event: Some(event), ..Default::default() }))
    }
}
