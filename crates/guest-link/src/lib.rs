//! How the host reaches the guest of one sandbox: [`GuestLink::connect`] to its control or its traffic port,
//! [`GuestLink::connect_tcp`] to any other port, and a small HTTP client over the control port. The rest of the host
//! uses this crate and does not know the transport.

#![forbid(unsafe_code)]

mod control;
mod http1;
mod legacy;
mod link;
mod services;
mod stream;
mod tools;

pub use control::bridge;
pub use link::{GuestLink, Port};
pub use services::OutputQuery;
pub use stream::Stream;
pub use tools::ToolCallError;
