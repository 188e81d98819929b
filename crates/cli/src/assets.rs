//! The web console's files: those that this program contains, or a directory while one works on them.

use std::borrow::Cow;
use std::sync::Arc;

use cabana_server::{Assets, AssetsDirectory};
use cabana_types::env;

use crate::connection::variable;

/// The files to serve.
pub(crate) fn console() -> Arc<dyn Assets> {
    match variable(env::CONSOLE_DIR) {
        Some(directory) => Arc::new(AssetsDirectory(directory.into())),
        None => Arc::new(Embedded),
    }
}

#[derive(Debug)]
struct Embedded;

impl Assets for Embedded {
    fn get(&self, path: &str) -> Option<Cow<'static, [u8]>> {
        cabana_console::file(path).map(Cow::Borrowed)
    }
}
