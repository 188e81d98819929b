//! The program of the code interpreter's template: embedded in released programs, a file in development.

use std::borrow::Cow;

/// Set by `build.rs` if it is embedded.
#[cfg(embedded_interpreter)]
static EMBEDDED: Option<&[u8]> = Some(include_bytes!(env!("CABANA_EMBEDDED_INTERPRETER")));
#[cfg(not(embedded_interpreter))]
static EMBEDDED: Option<&[u8]> = None;

/// File name next to `cabana`.
const NAME: &str = "cabana-interpreter";

/// The program, if there is one: without it, the template of the code interpreter cannot be built.
pub(crate) fn read() -> Option<Cow<'static, [u8]>> {
    let beside = || std::fs::read(std::env::current_exe().ok()?.with_file_name(NAME)).ok();
    EMBEDDED.map(Cow::Borrowed).or_else(|| beside().map(Cow::Owned))
}
