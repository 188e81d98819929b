//! Files and programs of the host.

#![forbid(unsafe_code)]

pub mod inside;
pub mod program;
