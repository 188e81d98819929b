//! Agent tools in sandboxes: `computer` is a sandbox as tools see it, `calls` are the calls in progress and their results.

mod calls;
mod computer;
mod decoder;
mod places;
mod process;
pub(crate) mod program;

pub(crate) use calls::{CallError, Calls, Handle, NewCall};
pub(crate) use computer::{DownloadLinks, SandboxComputer, unavailable};
pub(crate) use decoder::Decoder;
pub(crate) use places::{Place, Places};
