//! Files and programs of the host: opening files below a directory that somebody else controls, replacing files atomically, finding
//! programs, and the space budget of a disk.

#![forbid(unsafe_code)]

pub mod atomic;
pub mod beneath;
pub mod program;
pub mod space;
