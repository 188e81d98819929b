//! The demo.

use std::sync::Arc;

use cabana_agent::model::Model;
use cabana_agent::provider::demo::{Demo, SUGGESTIONS};

pub(super) fn model() -> Arc<dyn Model> {
    Arc::new(Demo::default())
}

/// What a person can ask it for.
pub(super) fn suggestions() -> Vec<String> {
    SUGGESTIONS.iter().map(|&text| text.to_owned()).collect()
}
