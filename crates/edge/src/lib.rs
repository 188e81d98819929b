//! The edge: one listener, plain or TLS, that passes each request to the API or to a port of a sandbox.
//!
//! The crate knows nothing about how sandboxes are created, stored or run. The server publishes a [`Route`] for each running sandbox in a
//! [`Directory`], and implements [`AutoResume`] for the others, and [`preview::Previews`] for what people see of services.
//!
//! A request passes `listener` (accept, TLS, HTTP version), `guard` (strict HTTP/1 framing), `edge` (which sandbox, resume
//! it if it is paused),
//! `forward` (send it and stream the response back). Requests for services take the way through `preview`.
//! `early_reply` says how responses are handled that come before their request was read.

#![forbid(unsafe_code)]

mod address;
mod clients;
mod connection;
mod cuts;
mod dial;
pub mod directory;
mod early_reply;
mod edge;
mod forward;
mod guard;
mod headers;
mod hold;
mod hosts;
mod in_flight;
pub mod limits;
pub mod listener;
mod patience;
pub mod preview;
pub mod rates;
mod response;
mod signature;
pub mod tls;
mod traffic;
mod tunnel;
mod upstream;

pub use connection::{ClientAddress, HeldConnection, Peer, Upgrading};
pub use directory::{Directory, Route};
pub use edge::{AutoResume, DiskUsed, Edge, IsKey, ResumeError};
