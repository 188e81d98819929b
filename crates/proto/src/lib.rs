//! The guest's Connect contract (`proto/` at the root of the repository), generated and checked in.
//! Regenerate with `cargo xtask codegen`; nothing here is written by hand.

#[allow(unreachable_pub, clippy::all, clippy::pedantic, clippy::restriction)]
mod generated {
    include!("generated/services.rs");
}

pub use generated::{filesystem, process};
