//! The egress proxy: TCP connections of sandboxes whose policy names hosts, sets headers or has a SOCKS5 proxy. The packet
//! filter redirects them here; the proxy reads the name from the first bytes, asks the policy, and connects on its own.
//!
//! What a sandbox sends decides nothing but the name: a connection that is allowed by name goes to the name's own
//! addresses, never to the address that the sandbox connected to.

#![forbid(unsafe_code)]

pub mod authority;
pub mod config;
pub mod credentials;

pub use authority::{Authority, AuthorityError};
pub use config::{Limits, ProxyConfig, TrustError};
pub use credentials::{CredentialError, Credentials};
