//! The server: API, edge, lifecycle, auth.

#![forbid(unsafe_code)]

pub mod directory;
pub mod edge;
