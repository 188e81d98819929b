//! How the host reaches the guest of one sandbox: [`GuestLink::connect`] to its control or its traffic port, [`GuestLink::connect_tcp`] to any
//! other port, and a small HTTP client over the control port. Everything else on the host uses this crate and knows no transport.

#![forbid(unsafe_code)]

mod control;
mod http1;
mod legacy;
mod link;
mod stream;

pub use control::bridge;
pub use http1::handshake;
pub use link::{GuestLink, Port};
pub use stream::Stream;
