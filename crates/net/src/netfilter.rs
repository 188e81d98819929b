//! The netfilter messages that are sent per sandbox, without running a program: conntrack entries, and what the tables
//! of the packet filter hold for a slot.

mod conntrack;
mod message;
mod tables;

pub(crate) use message::Session;
pub(crate) use tables::{Batch, Verdict, changes, deletes_table};
