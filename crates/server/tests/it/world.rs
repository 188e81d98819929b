//! The fake backend that all tests use.

pub(crate) use cabana_runtime::fake::{Fake, Fault, World};
