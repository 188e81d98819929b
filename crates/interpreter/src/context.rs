//! A context: the state that cells share. Its kernel is replaced when it ends, under the same id.

use std::sync::{Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::kernel::Kernel;
use crate::language::Language;
use crate::process::Process;

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) id: String,
    pub(crate) language: Language,
    pub(crate) directory: String,
    /// Held while a cell runs, in the order of the requests. `None` until the first one needs it.
    kernel: tokio::sync::Mutex<Option<Kernel>>,
    process: Mutex<Option<Process>>,
    pub(crate) removed: CancellationToken,
}

/// The kernel of a context, in use.
pub(crate) type Held<'a> = tokio::sync::MutexGuard<'a, Option<Kernel>>;

impl Context {
    /// A context whose kernel starts when it is needed.
    pub(crate) fn new(id: String, language: Language, directory: String) -> Self {
        Self {
            id,
            language,
            directory,
            kernel: Default::default(),
            process: Mutex::default(),
            removed: CancellationToken::new(),
        }
    }

    /// Waits for earlier cells.
    pub(crate) async fn hold(&self) -> Held<'_> {
        self.kernel.lock().await
    }

    /// The kernel, started if there is none.
    pub(crate) async fn running<'a>(&self, held: &'a mut Held<'_>) -> Result<&'a mut Kernel, Error> {
        if held.as_ref().is_some_and(Kernel::has_ended) {
            held.take();
        }
        let kernel = match held.take() {
            Some(kernel) => kernel,
            None => Kernel::start(&self.language, &self.directory).await?,
        };
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(kernel.process());
        if self.removed.is_cancelled() {
            return Err(Error::NoContext(self.id.clone()));
        }
        Ok(held.insert(kernel))
    }

    /// Ends the kernel, also while it runs a cell.
    pub(crate) fn kill(&self) {
        if let Some(process) = self.process.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            process.kill();
        }
    }

    /// Replaces the kernel by a new one.
    pub(crate) async fn restart(&self) -> Result<(), Error> {
        self.kill();
        let mut held = self.hold().await;
        if held.as_ref().is_some_and(Kernel::is_used) {
            held.take();
        }
        self.running(&mut held).await.map(drop)
    }

    /// Ends the context.
    pub(crate) async fn remove(&self) {
        self.removed.cancel();
        self.kill();
        self.hold().await.take();
    }
}
