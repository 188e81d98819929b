//! Network slots for sandboxes: a network namespace with a veth pair and addresses, the packet filter that isolates
//! sandboxes from each other, from the host and from private networks, and the DNS forwarder.

#![forbid(unsafe_code)]

mod addressing;
mod block;
mod builder;
mod chains;
mod config;
mod dns;
mod egress;
mod error;
mod facts;
mod filter;
mod ledger;
mod links;
mod namespace;
mod netfilter;
mod network;
mod nft;
mod on_link;
mod ranges;
mod reaper;
mod rules;
mod sentry;
mod slot;
mod stock;
mod tenant;

pub use block::{BlockLease, claim_block};
pub use config::NetworkConfig;
pub use egress::{Egress, ResolveError, Source};
pub use error::Error;
pub use facts::{Fact, facts};
pub use network::{Counts, InUse, Network};
pub use slot::Slot;
