//! The other end of a WebSocket: how long it may be silent or slow, when its socket has to end, and how it is told.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use cabana_edge::{HeldConnection, Upgrading};
use cabana_types::Secret;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use http::Extensions;
use tokio::time::{sleep, timeout};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::session_end::SessionEnd;
use crate::api::App;
use crate::auth::Caller;

/// How often the client has to show that it is there.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(15);
/// How long it may say nothing.
pub(crate) const MAX_SILENCE: Duration = Duration::from_secs(45);
/// How long it may take to read a frame.
const MAX_SEND: Duration = Duration::from_secs(20);
/// How long it may take to read that the socket is closed, and to confirm it.
const MAX_CLOSE: Duration = Duration::from_secs(2);
/// Bytes of the reason in a closing frame.
const MAX_REASON: usize = 120;

/// Why a socket ends, as the client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goodbye {
    /// The client is told by this code and reason.
    Close { code: u16, reason: Cow<'static, str> },
    /// The client has left, or cannot be told.
    Gone,
}

impl Goodbye {
    pub(crate) const RESTART: Self = Self::new(1012, "the server restarts");
    pub(crate) const SIGNED_OUT: Self = Self::new(4401, "signed out");
    pub(crate) const TOO_SLOW: Self = Self::new(4408, "the client reads too slowly");
    pub(crate) const SILENT: Self = Self::new(4408, "the client does not answer");
    pub(crate) const TOO_LARGE: Self = Self::new(1009, "the message is too large or not well formed");

    /// A code and a short reason.
    pub(crate) const fn new(code: u16, reason: &'static str) -> Self {
        Self::Close { code, reason: Cow::Borrowed(reason) }
    }
}

/// What ends a socket from our side.
pub(crate) struct Peer {
    app: Arc<App>,
    /// The API key of a caller without a session.
    key: Option<Secret>,
    session: Option<SessionEnd>,
    connection: Option<HeldConnection>,
    /// A stopping server waits until the socket was closed.
    _task: TaskTrackerToken,
}

impl Peer {
    /// The client of a request that asks for an upgrade.
    pub(crate) fn new(app: &Arc<App>, caller: &Caller, request: &Extensions) -> Self {
        let session = request.get::<SessionEnd>().cloned();
        Self {
            app: Arc::clone(app),
            key: caller.secret.clone(),
            session,
            connection: request.get::<Upgrading>().map(Upgrading::hold),
            _task: app.tasks.token(),
        }
    }

    /// Resolves when the socket has to be closed.
    pub(crate) async fn ended(&self) -> Goodbye {
        let session = async {
            match &self.session {
                Some(session) => session.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let connection = async {
            match &self.connection {
                Some(connection) => connection.closing().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.app.live.stopping().cancelled() => Goodbye::RESTART,
            () = session => Goodbye::SIGNED_OUT,
            () = connection => Goodbye::Gone,
        }
    }

    /// Whether the key of the caller still exists and has not expired. To be asked from time to time.
    pub(crate) fn is_allowed(&self) -> bool {
        self.key.as_ref().is_none_or(|key| self.app.keys.is_usable(key.expose()))
    }
}

/// The sending half of a socket.
pub(crate) struct Sender<'a> {
    pub(crate) sink: SplitSink<WebSocket, Message>,
    pub(crate) peer: &'a Peer,
}

impl Sender<'_> {
    /// Sends one message; the error says how to end.
    pub(crate) async fn send(&mut self, message: Message) -> Result<(), Goodbye> {
        tokio::select! {
            biased;
            sent = self.sink.send(message) => sent.map_err(|_| Goodbye::Gone),
            goodbye = self.peer.ended() => Err(goodbye),
            () = sleep(MAX_SEND) => Err(Goodbye::TOO_SLOW),
        }
    }
}

/// Closes a socket, and waits until the client has read that: a connection that is closed with unread bytes may lose it.
pub(crate) async fn close(
    mut sink: SplitSink<WebSocket, Message>,
    mut stream: SplitStream<WebSocket>,
    goodbye: Goodbye,
) {
    let Goodbye::Close { code, reason } = goodbye else {
        // If the client closes the socket, it waits for the answer.
        let _ = timeout(MAX_CLOSE, sink.close()).await;
        return;
    };
    let reason = reason[..reason.floor_char_boundary(MAX_REASON)].to_owned();
    let closing = async {
        if sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await.is_ok() {
            while let Some(Ok(_)) = stream.next().await {}
        }
    };
    let _ = timeout(MAX_CLOSE, closing).await;
}
