//! Settings of outgoing connections: the operator's bounds, and the presets.

mod registries;

use std::sync::Arc;

use cabana_types::egress::preset::CUSTOM;
use cabana_types::egress::{Bounds, EgressPolicy, Preset, Target};

use crate::config;

/// Where sandboxes may connect on this server.
#[derive(Debug, Clone)]
pub struct Egress {
    /// What no policy can widen.
    pub bounds: Bounds,
    /// The preset for sandboxes that ask for none.
    pub default: Preset,
    /// What [`Preset::Registries`] allows.
    pub registries: Vec<Target>,
}

impl Egress {
    /// From the configuration, and from this machine's own if that is asked for.
    pub fn new(config: &config::Egress) -> Self {
        let mut registries = config.registries.clone();
        if config.own_registries {
            let own = registries::of_this_machine().into_iter().filter(|target| !config.registries.contains(target));
            registries.extend(own.collect::<Vec<_>>());
        }
        Self { bounds: config.bounds(), default: config.default, registries }
    }

    /// The policy of a preset; an error says what to do.
    pub fn preset(&self, preset: Preset) -> Result<EgressPolicy, String> {
        if preset == Preset::Registries && self.registries.is_empty() {
            return Err("this server knows no package registries; its operator sets them in egress.registries".into());
        }
        Ok(preset.policy(&self.registries))
    }

    /// The policy of a sandbox that asks for none. Without registries, that preset allows nothing.
    pub fn default_policy(&self, of_template: Option<Preset>) -> Arc<EgressPolicy> {
        Arc::new(of_template.unwrap_or(self.default).policy(&self.registries))
    }

    /// The name of a policy.
    pub fn name(&self, policy: &EgressPolicy) -> &'static str {
        Preset::of(policy, &self.registries).map_or(CUSTOM, Preset::as_str)
    }
}
