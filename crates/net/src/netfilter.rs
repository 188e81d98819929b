//! The netfilter messages that are sent per sandbox, without running a program: conntrack entries, and what the tables
//! of the packet filter hold for a slot.

mod conntrack;
mod message;
mod tables;

pub(crate) use conntrack::{cut_flows, forget_flows};
pub(crate) use tables::{Batch, Verdict, changes, counters, deletes_table, has_table, remove, remove_counters};
