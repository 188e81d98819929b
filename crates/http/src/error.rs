//! Errors of requests.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

use hyper_util::client::legacy;

use crate::{Refusal, TrustError};

/// A request that failed.
#[derive(Debug)]
pub struct Error {
    /// The last host, with its port unless it is the scheme's default.
    pub host: String,
    /// What went wrong.
    pub kind: Kind,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

/// Cause of a failure. The texts continue a sentence about the host.
#[derive(Debug, thiserror::Error)]
pub enum Kind {
    /// The URL is not an HTTP URL.
    #[error("its URL cannot be used: {0}")]
    Url(String),
    /// The name could not be resolved.
    #[error("its name cannot be resolved")]
    Resolve(#[source] io::Error),
    /// The name has no address.
    #[error("its name has no address")]
    NoAddress,
    /// None of its addresses is allowed.
    #[error("its address {address} {reason}")]
    Refused { address: IpAddr, reason: Refusal },
    /// No connection could be made.
    #[error("connect to {address}")]
    Connect {
        /// The last address.
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    /// The certificate authorities could not be read.
    #[error(transparent)]
    Trust(TrustError),
    /// The certificate is not accepted.
    #[error("its certificate is not accepted: {0}")]
    Certificate(rustls::Error),
    /// The TLS handshake failed.
    #[error("TLS")]
    Tls(#[source] io::Error),
    /// The head of the response did not come in time.
    #[error("it does not answer in time")]
    HeadTimeout,
    /// There are more informational responses than allowed.
    #[error("it sends informational responses without end")]
    Informational,
    /// A redirect that is not followed.
    #[error("{0}")]
    Redirect(&'static str),
    /// The exchange of request and response failed.
    #[error("send the request")]
    Exchange(#[source] legacy::Error),
    /// The body of the response broke off.
    #[error("the response broke off")]
    Body(#[source] hyper::Error),
    /// The body stalled.
    #[error("it stopped sending")]
    Stalled,
    /// The body of the response is longer than allowed.
    #[error("the response is larger than {0} bytes")]
    TooLarge(u64),
}

impl Error {
    /// Whether no connection was established, so that nothing was sent.
    pub fn is_connect(&self) -> bool {
        match &self.kind {
            Kind::Url(_)
            | Kind::Resolve(_)
            | Kind::NoAddress
            | Kind::Refused { .. }
            | Kind::Connect { .. }
            | Kind::Trust(_)
            | Kind::Certificate(_)
            | Kind::Tls(_) => true,
            Kind::Exchange(error) => error.is_connect(),
            _ => false,
        }
    }

    /// Whether the server speaks something other than HTTP, or the request cannot be expressed in it.
    pub fn is_malformed(&self) -> bool {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&self.kind);
        while let Some(inner) = cause {
            if inner.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_parse() || error.is_user()) {
                return true;
            }
            cause = inner.source();
        }
        false
    }
}
