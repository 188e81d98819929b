//! Agent tools: requests of the host on the control socket. Each is done with the permissions of one account, on a thread of its own that
//! ends with it, and stops soon when the host closes the connection.

mod arrange;
mod edit;
mod find;
mod fuzzy;
mod grep;
mod identity;
mod lines;
mod list;
pub(crate) mod media;
pub(crate) mod output_file;
pub(crate) mod owners;
mod pack;
mod place;
pub(crate) mod ports;
mod read;
mod refuse;
mod rules;
mod stat;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cabana_types::guest::tools::{Edit, Find, Grep, List, Move, NewDirectory, Read, Stat};
use cabana_types::tool::ToolErrorCode as Code;
use http::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tokio::sync::{Semaphore, oneshot};

use crate::error::Problem;
use crate::guest::Guest;
use crate::reply::{self, Body};
use crate::services::Census;
use crate::{download, open, users};
use identity::Identity;
use place::Place;
pub(crate) use read::sha256;
use refuse::{Refused, cancelled, plain};

/// Tools that work at the same time. The host allows fewer; what it has given up on may still be stopping.
const MAX_RUNNING: usize = 32;

static RUNNING: Semaphore = Semaphore::const_new(MAX_RUNNING);

/// Set when nobody waits for the result any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// For loops.
    pub(crate) fn check(&self) -> Result<(), Refused> {
        if self.is_set() { Err(cancelled()) } else { Ok(()) }
    }
}

/// Sets a [`Cancel`] when the request is dropped.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// A request for a tool.
pub(crate) enum Request {
    Read(Read),
    Stat(Stat),
    List(List),
    Edit(Edit),
    Grep(Grep),
    Find(Find),
    Move(Move),
    NewDirectory(NewDirectory),
}

impl Request {
    fn user(&self) -> Option<&str> {
        match self {
            Self::Read(Read { user, .. })
            | Self::Stat(Stat { user, .. })
            | Self::List(List { user, .. })
            | Self::Edit(Edit { user, .. })
            | Self::Grep(Grep { user, .. })
            | Self::Find(Find { user, .. })
            | Self::Move(Move { user, .. })
            | Self::NewDirectory(NewDirectory { user, .. }) => user.as_deref(),
        }
    }

    /// Does the work; the result is JSON already.
    fn run(self, place: &Place, cancel: &Cancel) -> Result<Vec<u8>, Refused> {
        match self {
            Self::Read(read) => json(&read::read(&read, place, cancel)?),
            Self::Stat(stat) => json(&stat::stat(&stat, place, cancel)?),
            Self::List(list) => json(&list::list(&list, place, cancel)?),
            Self::Edit(edit) => json(&edit::edit(edit, place, cancel)?),
            Self::Grep(grep) => json(&grep::grep(&grep, place, cancel)?),
            Self::Find(find) => json(&find::find(&find, place, cancel)?),
            Self::Move(wanted) => json(&arrange::relocate(&wanted, place, cancel)?),
            Self::NewDirectory(wanted) => json(&arrange::make_directory(&wanted, place)?),
        }
    }
}

fn json(answer: &impl Serialize) -> Result<Vec<u8>, Refused> {
    serde_json::to_vec(answer).map_err(|e| plain(Code::Interrupted, format!("the result cannot be sent: {e}")))
}

/// Answers a request.
pub(crate) async fn answer(guest: &Guest, request: Request) -> Response<Body> {
    let settings = guest.settings().clone();
    let account = match request.user().filter(|name| !name.is_empty()) {
        None => users::find_or_root(&settings.default_user),
        Some(name) => match users::find(name) {
            Some(account) => account,
            None => {
                let name = crate::auth::truncated(name);
                return refusal(&plain(Code::InvalidArguments, format!("the image has no user '{name}'")));
            }
        },
    };
    let identity = Identity::of(&account);
    let done = on_thread(identity, move |cancel| {
        let place = Place::new(account, settings.default_workdir.as_deref());
        request.run(&place, cancel)
    });
    reply_with(done.await)
}

/// Answers `GET /download`: a file, or a directory as an archive.
pub(crate) async fn answer_download(
    guest: &Guest,
    path: &str,
    archive: bool,
    digest: Option<u64>,
    headers: &HeaderMap,
) -> Result<Response<Body>, Problem> {
    let settings = guest.settings().clone();
    let account = users::find_or_root(&settings.default_user);
    let identity = Identity::of(&account);
    let place = Place::new(account, settings.default_workdir.as_deref());
    let resolved = match place.resolve(path) {
        Ok(resolved) => resolved,
        Err(refused) => return Ok(refusal(&refused)),
    };
    if archive {
        return Ok(send_archive(identity, resolved).await);
    }
    let file = resolved.clone();
    let opened =
        on_thread(identity, move |_| open::readable(&file).map_err(|cause| refuse::not_readable(&file, &cause)));
    match opened.await {
        Ok(readable) => download::serve_opened(readable, resolved, headers, digest).await,
        Err(refused) => Ok(refusal(&refused)),
    }
}

/// Packs a directory on a thread of its own while the response is sent.
async fn send_archive(identity: Identity, root: PathBuf) -> Response<Body> {
    let Ok(permit) = RUNNING.try_acquire() else { return refusal(&no_room()) };
    let (sink, mut pieces) = pack::channel();
    let (sender, checked) = oneshot::channel();
    let cancel = Cancel::default();
    let guard = CancelOnDrop(cancel.clone());
    let started = identity.run(
        move || {
            let _permit = permit;
            let can_be_packed = pack::check(&root);
            let packs = can_be_packed.is_ok();
            // Nobody waits for it if the client is gone; packing then ends at once.
            let _ = sender.send(can_be_packed);
            if packs {
                pack::pack(&root, sink, &cancel);
            }
        },
        drop,
    );
    if let Err(cause) = started {
        return refusal(&plain(Code::NoRoom, format!("cannot start a thread: {cause}")));
    }
    match checked.await {
        Ok(Ok(())) => {
            let body = futures_util::stream::poll_fn(move |cx| {
                let _until_the_end = &guard;
                pieces.poll_recv(cx)
            });
            let mut response = reply::empty(StatusCode::OK);
            *response.body_mut() = reply::stream(body);
            response
        }
        Ok(Err(refused)) => refusal(&refused),
        Err(_) => refusal(&plain(Code::PermissionDenied, "cannot act as the user")),
    }
}

/// Answers `GET /ports`.
pub(crate) async fn answer_ports(guest: &Guest) -> Response<Body> {
    let commands = Arc::clone(&guest.commands);
    let list = move |cancel: &Cancel| {
        json(&ports::listening(cancel, || {
            let census = Census::take(&commands);
            Box::new(move |pid| census.service_of(pid).map(str::to_owned))
        })?)
    };
    reply_with(on_thread(Identity::plain(0, 0), list).await)
}

fn reply_with(done: Result<Vec<u8>, Refused>) -> Response<Body> {
    match done {
        Ok(text) => reply::json_text(StatusCode::OK, text),
        Err(refused) => refusal(&refused),
    }
}

fn refusal(refused: &Refused) -> Response<Body> {
    reply::json(StatusCode::UNPROCESSABLE_ENTITY, refused)
}

fn no_room() -> Refused {
    plain(Code::NoRoom, format!("{MAX_RUNNING} tools are at work in this sandbox; try again later"))
}

/// Runs `work` on its own thread; dropping the future cancels it.
async fn on_thread<T: Send + 'static>(
    identity: Identity,
    work: impl FnOnce(&Cancel) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    let Ok(permit) = RUNNING.try_acquire() else {
        return Err(no_room());
    };
    let cancel = Cancel::default();
    let guard = CancelOnDrop(cancel.clone());
    let (sender, receiver) = oneshot::channel();
    let started = identity.run(
        move || {
            let _permit = permit;
            work(&cancel)
        },
        move |done| {
            // Nobody waits for it if it was cancelled.
            let _ = sender.send(done);
        },
    );
    let failed = |cause| plain(Code::PermissionDenied, format!("cannot act as the user: {cause}"));
    started.map_err(|cause| plain(Code::NoRoom, format!("cannot start a thread: {cause}")))?;
    let done = receiver.await;
    drop(guard);
    match done {
        Ok(done) => done.map_err(failed)?,
        Err(_) => Err(plain(Code::Interrupted, "the operation failed inside the daemon")),
    }
}
