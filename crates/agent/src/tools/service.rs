//! `sandbox_start_service` and `sandbox_service`: the server does the work.

use async_trait::async_trait;
use serde_json::Value;

use super::specs;
use super::{Spec, Tool};
use crate::call::{Context, Failure, Success};

/// A tool for services.
pub(super) struct Services(&'static Spec);

pub(super) static START: Services = Services(&specs::START_SERVICE);
pub(super) static MANAGE: Services = Services(&specs::MANAGE_SERVICE);

#[async_trait]
impl Tool for Services {
    fn spec(&self) -> &'static Spec {
        self.0
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let sandbox = context.computer()?.sandbox_id().to_owned();
        let done = context.call.computers.service(&sandbox, self.0.name, arguments).await?;
        Ok(Success { output: done.output, data: done.data, ..Success::default() })
    }
}
