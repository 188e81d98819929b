//! Tools that create and change sandboxes: the server does the work.

use async_trait::async_trait;
use serde_json::Value;

use super::specs;
use super::{Spec, Tool};
use crate::call::{Context, Failure, Success};

/// A lifecycle tool.
pub(super) struct Lifecycle(&'static Spec);

pub(super) static CREATE: Lifecycle = Lifecycle(&specs::CREATE);
pub(super) static LIST: Lifecycle = Lifecycle(&specs::LIST);
pub(super) static INFO: Lifecycle = Lifecycle(&specs::INFO);
pub(super) static PAUSE: Lifecycle = Lifecycle(&specs::PAUSE);
pub(super) static RESUME: Lifecycle = Lifecycle(&specs::RESUME);
pub(super) static KILL: Lifecycle = Lifecycle(&specs::KILL);
pub(super) static SNAPSHOT: Lifecycle = Lifecycle(&specs::SNAPSHOT);
pub(super) static FORK: Lifecycle = Lifecycle(&specs::FORK);

#[async_trait]
impl Tool for Lifecycle {
    fn spec(&self) -> &'static Spec {
        self.0
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let done = context.call.computers.lifecycle(self.0.name, arguments).await?;
        Ok(Success { output: done.output, data: done.data, ..Success::default() })
    }
}
