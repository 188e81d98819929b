//! The egress proxy: TCP connections of sandboxes whose policy names hosts, sets headers or has a SOCKS5 proxy. The packet
//! filter redirects them here; the proxy reads the name from the first bytes, asks the policy, and connects on its own.
//!
//! What a sandbox sends decides nothing but the name: a connection that is allowed by name goes to the name's own
//! addresses, never to the address that the sandbox connected to.

#![forbid(unsafe_code)]

pub mod authority;
pub mod config;
pub mod credentials;
mod dial;
mod hello;
mod http;
mod intercept;
mod proxy;
mod quota;
mod session;
mod socks;
mod stream;
mod wire;

pub use authority::{Authority, AuthorityError};
use cabana_net::{Egress, ResolveError, Source};
pub use config::{Limits, ProxyConfig, TrustError};
pub use credentials::{CredentialError, Credentials};
pub use proxy::{StartError, start, start_with};
pub use wire::{Kernel, Wire};
