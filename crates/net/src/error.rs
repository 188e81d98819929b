//! What can go wrong with the network.

use cabana_types::error::chain;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error of the network layer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting cannot work.
    #[error("invalid network setting: {0}")]
    InvalidConfig(String),
    /// An operation on a file failed.
    #[error("{action} {path}")]
    Path {
        /// What was tried (`create`, `mount`, …).
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A system call without a path failed.
    #[error("{action}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The kernel refused a change to links, addresses or routes.
    #[error("{action} {subject}")]
    Netlink {
        /// What was tried.
        action: &'static str,
        /// The link, address or route.
        subject: String,
        /// Why not.
        #[source]
        source: Box<rtnetlink::Error>,
    },
    /// `nft` refused the rules or could not be run.
    #[error("nft: {0}")]
    Nft(String),
    /// The address of the DNS forwarder cannot be bound.
    #[error("bind the DNS forwarder to {address}; is another name server listening on port 53 of all addresses?")]
    DnsBind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Every slot is in use.
    #[error("all {limit} network slots are in use")]
    Full {
        /// How many there are.
        limit: u32,
    },
    /// No address block is free on this machine.
    #[error("no free address block in 100.96.0.0/12: all 16 are taken by other servers or by routes of this machine")]
    NoBlock,
    /// The network was closed.
    #[error("the network is closed")]
    Closed,
    /// The thread that was at work failed and is being restarted.
    #[error("the thread that makes network slots failed and is being restarted")]
    Interrupted,
    /// Several things went wrong while cleaning up.
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

    /// One error of many, or none.
    pub(crate) fn collect(mut errors: Vec<Error>) -> Result<(), Error> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Teardown(errors)),
        }
    }
}
