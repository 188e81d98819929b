//! Responses that come before their request was read to its end (wrong token, disk full, route not found), and responses
//! that are cut short.
//!
//! HTTP/1 allows a server to respond early and to close. Four places need care so that the response reaches the client,
//! each because hyper alone would lose it or leave the connection in doubt:
//!
//! 1. *Sandbox → edge*: a server that responds early closes without reading the rest of a large body. hyper's client
//!    then reports the failed write (EPIPE, ECONNRESET) although the response is in the socket's buffer. [`ReplyStream`]
//!    delays that error until the response was read.
//! 2. *Edge or guest → client, connection stays open*: hyper's server closes a connection whose request body was not
//!    read, without `connection: close`, and the client's next request on it is lost. `cabana_body_drain` reads a
//!    bounded rest of the body, or adds the header. [`PeerStoppedReading`] on a response says that the sandbox will not
//!    read the rest, so there is nothing to wait for.
//! 3. *Edge or guest → client, connection closes*: closing a socket with unread bytes resets it, and the response may
//!    be lost with it. The write side is closed first and the rest read for a bounded time: `guard`'s `poll_shutdown`,
//!    `tls::refuse_plain`, and the guest's `linger`.
//! 4. *A sandbox that ends in the middle of a response*: hyper polls the body only while the client reads, and an
//!    orderly end would make a cut stream look complete. [`CutWhenGone`] makes the listener drop the connection at
//!    once.

pub(crate) use cabana_body_drain::ReplyStream;

use crate::cuts::Cuts;

/// On a response: the peer that sent it reads no more of the request.
#[derive(Clone, Copy)]
pub(crate) struct PeerStoppedReading;

/// On a response: its connection must be cut if one of these fires before the body was sent.
#[derive(Clone)]
pub(crate) struct CutWhenGone(pub(crate) Cuts);
