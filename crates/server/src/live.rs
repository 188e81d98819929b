//! Live updates: WebSockets to which the server sends what has changed, without being asked.
//!
//! `hub` listens to the store's changes while at least one socket is open, and puts frames into the `outbox` of every socket
//! that subscribed to their `topic`: bounded, and written once per team. `peer` is what both kinds of WebSocket have in common,
//! these and terminals. The routes and what clients may say are in `api/live.rs`.

mod frame;
mod hub;
mod outbox;
mod peer;
pub(crate) mod session_end;
mod topic;

pub(crate) use frame::{build_log, build_status, error, lagged, ping, server_status, subscribed, unsubscribed};
pub(crate) use hub::{Live, Member};
pub(crate) use outbox::{Next, Subscribed};
pub(crate) use peer::{Goodbye, MAX_SILENCE, PING_EVERY, Peer, Sender, close};
pub(crate) use topic::Topic;
