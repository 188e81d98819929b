//! Errors of the network.

use cabana_types::error::chain;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error of the network layer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting is invalid.
    #[error("invalid network setting: {0}")]
    InvalidConfig(String),
    /// An operation on a file failed.
    #[error("{action} {path}")]
    Path {
        /// The operation (`create`, `mount`, …).
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A system call without a path failed.
    #[error("{action}")]
    Io {
        /// The operation.
        action: &'static str,
        #[source]
        source: io::Error,
    },
    /// The kernel refused a change to links, addresses or routes.
    #[error("{action} {subject}")]
    Netlink {
        /// The operation.
        action: &'static str,
        /// The link, address or route.
        subject: String,
        #[source]
        source: Box<rtnetlink::Error>,
    },
    /// `nft` refused the rules or could not be run.
    #[error("nft: {0}")]
    Nft(String),
    /// The address of the DNS forwarder cannot be bound.
    #[error("bind the DNS forwarder to {address}; is another name server listening on port 53 of all addresses?")]
    DnsBind {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// Every slot is in use.
    #[error("all {limit} network slots are in use")]
    Full {
        /// Number of slots.
        limit: u32,
    },
    /// No address block is free on this machine.
    #[error("no free address block in 100.96.0.0/12: all are taken by other servers or by routes of this machine")]
    NoBlock,
    /// The network was closed.
    #[error("the network is closed")]
    Closed,
    /// The builder thread failed and is being restarted.
    #[error("the thread that creates network slots failed and is being restarted")]
    Interrupted,
    /// Several errors of a cleanup.
    #[error("cleaning up the network: {}", .0.iter().map(|e| chain(e)).collect::<Vec<_>>().join("; "))]
    Teardown(Vec<Error>),
}

impl Error {
    pub(crate) fn path(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Path { action, path, source }
    }

    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io { action, source }
    }

    /// Combines errors into one.
    pub(crate) fn collect(mut errors: Vec<Error>) -> Result<(), Error> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Teardown(errors)),
        }
    }
}
