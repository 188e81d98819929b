//! Tools that models call: their schemas, limits and wording, and what they do with a sandbox; and the models themselves, of providers
//! and of the demo. The crate reaches sandboxes through the trait [`computer::Computer`] only; it serves no HTTP and knows no SQL.

#![forbid(unsafe_code)]

pub mod call;
pub mod computer;
pub mod context;
pub mod diff;
pub mod format;
mod hint;
pub mod model;
pub mod output;
pub mod patch;
pub mod prompt;
pub mod provider;
pub mod replace;
mod schema;
mod text;
pub mod title;
pub mod tools;
