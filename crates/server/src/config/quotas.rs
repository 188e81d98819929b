//! The limits of teams that have none of their own, from the configuration.

use cabana_types::chat::MAX_RUNNING;
use cabana_types::limits::MAX_TEMPLATES;
use cabana_types::quota::{Limits, QuotaKind};

use super::Config;

impl Config {
    /// What a team may use where neither its quotas nor its plan say otherwise.
    pub fn quotas(&self) -> Limits {
        Limits::NONE
            .with(QuotaKind::Instances, Some(self.limits.max_team_sandboxes.into()))
            .with(QuotaKind::Snapshots, Some(self.limits.max_team_snapshots.into()))
            .with(QuotaKind::Templates, Some(MAX_TEMPLATES.into()))
            .with(QuotaKind::Turns, Some(MAX_RUNNING))
    }
}
