//! One socket of a terminal, from the upgrade to its end.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use cabana_edge::Route;
use cabana_edge::directory::InFlightGuard;
use cabana_store::Sandbox;
use cabana_types::SandboxId;
use connectrpc::ErrorCode as Code;
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use serde::Serialize;
use tokio::time::interval;

use super::ending::{self, Ending};
use super::keyboard;
use super::shell::{self, Shell, ShellEvent, Size};
use crate::api::App;
use crate::auth::Caller;
use crate::live::{self, Goodbye, PING_EVERY, Peer, Sender};
use crate::terminals::{MAX_TERMINALS, MAX_VIEWERS, Viewer};

const DEFAULT_SIZE: Size = Size { cols: 80, rows: 24 };

/// What the client wants.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The terminal to connect to; a new one if unset.
    pub(super) pid: Option<u32>,
    pub(super) size: Option<Size>,
    pub(super) cwd: Option<String>,
}

/// Serves a socket to its end.
pub(super) async fn serve(app: Arc<App>, caller: Caller, id: SandboxId, wanted: Wanted, peer: Peer, socket: WebSocket) {
    let (sink, mut stream) = socket.split();
    let mut sender = Sender { sink, peer: &peer };
    let opened = tokio::select! {
        opened = open(&app, &caller, &id, wanted) => opened,
        goodbye = peer.ended() => Err(goodbye.into()),
    };
    let ending = match opened {
        Ok(session) => session.run(&app, &mut sender, &mut stream).await,
        Err(ending) => ending,
    };
    tracing::debug!(sandbox = %id, ?ending, "a socket of a terminal ends");
    if let Some(frame) = ending.frame() {
        // The client may have left.
        let _ = sender.send(frame).await;
    }
    live::close(sender.sink, stream, ending.goodbye).await;
}

/// A terminal and a socket that shows it. The sandbox is not idle as long as this exists.
struct Session {
    route: Arc<Route>,
    shell: Shell,
    replay: bool,
    _viewer: Viewer,
    _in_flight: InFlightGuard,
}

async fn open(app: &Arc<App>, caller: &Caller, id: &SandboxId, wanted: Wanted) -> Result<Session, Ending> {
    let row = app.find_usable(&caller.reach, id).await?;
    let entered = app.enter(&row).await?;
    let (route, in_flight) = (entered.route, entered.in_flight);
    let visit = app.terminals.visit(id);
    let replay = wanted.pid.is_some();
    let opened = async {
        match wanted.pid {
            Some(pid) => {
                let shell = shell::connect(&route.link, pid).await;
                if let (Ok(_), Some(size)) = (&shell, wanted.size) {
                    // It may have ended.
                    let _ = shell::resize(&route.link, pid, size).await;
                }
                shell.map(Some)
            }
            None => {
                let _starting = visit.starting().await;
                if shell::count(&route.link).await? >= MAX_TERMINALS {
                    return Ok(None);
                }
                let size = wanted.size.unwrap_or(DEFAULT_SIZE);
                shell::start(&route.link, size, wanted.cwd, environment(&row)).await.map(Some)
            }
        }
    };
    let opened = tokio::select! {
        biased;
        opened = opened => opened,
        () = route.gone.cancelled() => return Err(ending::gone(app, id).await),
    };
    let shell = match (opened, wanted.pid) {
        (Ok(Some(shell)), _) => shell,
        (Ok(None), _) => {
            let text = format!("the sandbox has {MAX_TERMINALS} terminals, which is the most; end some first");
            return Err(Ending::too_many(text));
        }
        (Err(error), Some(pid)) if error.code == Code::NotFound => return Err(Ending::unknown(pid)),
        (Err(error), _) => return Err(ending::refused(app, &route, Some(error)).await),
    };
    let viewer = visit.view(shell.pid).ok_or_else(|| {
        Ending::too_many(format!("{MAX_VIEWERS} sockets show this terminal, which is the most; close some first"))
    })?;
    Ok(Session { route, shell, replay, _viewer: viewer, _in_flight: in_flight })
}

/// Variables that programs with a screen expect. What the sandbox sets itself stays.
fn environment(row: &Sandbox) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("TERM".to_owned(), "xterm-256color".to_owned())]);
    let is_set = |name: &str| row.env_vars.contains_key(name) || row.boot.env.contains_key(name);
    if !["LANG", "LC_ALL", "LC_CTYPE"].into_iter().any(is_set) {
        env.insert("LANG".to_owned(), "C.UTF-8".to_owned());
    }
    env
}

impl Session {
    /// Runs until either side ends. Output and input do not wait for each other: a client that does not read can still interrupt.
    async fn run(mut self, app: &App, sender: &mut Sender<'_>, stream: &mut SplitStream<WebSocket>) -> Ending {
        let route = Arc::clone(&self.route);
        let (pid, peer) = (self.shell.pid, sender.peer);
        tokio::select! {
            biased;
            goodbye = peer.ended() => goodbye.into(),
            () = route.gone.cancelled() => ending::gone(app, &route.id).await,
            ending = self.show(app, sender) => ending,
            goodbye = keyboard::serve(stream, &route.link, pid) => goodbye.into(),
        }
    }

    /// Sends the output until the shell ends.
    async fn show(&mut self, app: &App, sender: &mut Sender<'_>) -> Ending {
        match self.send_output(sender).await {
            Ok(how) => Ending::exited(how),
            Err(Interrupted::Goodbye(goodbye)) => goodbye.into(),
            Err(Interrupted::Guest(error)) => ending::refused(app, &self.route, error).await,
        }
    }

    async fn send_output(&mut self, sender: &mut Sender<'_>) -> Result<Result<i32, String>, Interrupted> {
        sender.send(started(&self.shell, self.replay)).await?;
        let mut ping = interval(PING_EVERY);
        ping.reset();
        loop {
            let event = {
                // One message at a time: what the client does not read, the guest does not send, and the program waits.
                let mut next = pin!(self.shell.next());
                loop {
                    tokio::select! {
                        biased;
                        event = next.as_mut() => break event,
                        _ = ping.tick() => {
                            if !sender.peer.is_allowed() {
                                return Err(Goodbye::SIGNED_OUT.into());
                            }
                            sender.send(Message::Ping(Bytes::new())).await?;
                        }
                    }
                }
            };
            match event {
                Ok(Some(ShellEvent::Output(bytes))) => sender.send(Message::Binary(bytes)).await?,
                Ok(Some(ShellEvent::Ended(how))) => return Ok(how),
                Ok(None) => return Err(Interrupted::Guest(None)),
                Err(error) => return Err(Interrupted::Guest(Some(error))),
            }
        }
    }
}

/// Why there is no more output to send.
enum Interrupted {
    Goodbye(Goodbye),
    Guest(Option<connectrpc::ConnectError>),
}

impl From<Goodbye> for Interrupted {
    fn from(goodbye: Goodbye) -> Self {
        Self::Goodbye(goodbye)
    }
}

fn started(shell: &Shell, replay: bool) -> Message {
    #[derive(Serialize)]
    struct Frame {
        started: Started,
    }
    #[derive(Serialize)]
    struct Started {
        pid: u32,
        replay: bool,
        dropped: bool,
    }
    let started = Started { pid: shell.pid, replay, dropped: shell.dropped > 0 };
    Message::Text(serde_json::to_string(&Frame { started }).unwrap_or_default().into())
}
