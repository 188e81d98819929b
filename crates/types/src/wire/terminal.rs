//! Terminals of sandboxes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A terminal whose shell runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Terminal {
    /// The process of its shell, which names the terminal.
    pub pid: u32,
    /// The shell, as it was started.
    pub command: String,
    /// When it was started, if that is known.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<Timestamp>,
}
