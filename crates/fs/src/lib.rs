//! Files and programs of the host: opening files below a directory that somebody else controls, replacing files atomically, and finding
//! programs.

#![forbid(unsafe_code)]

pub mod atomic;
pub mod beneath;
pub mod program;
