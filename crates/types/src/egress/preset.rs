//! Policies with a name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{EgressPolicy, Target};
use crate::address::Prefix;

/// A policy with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Nothing.
    None,
    /// The package registries that the operator lists.
    Registries,
    /// Everything that the operator's bounds allow.
    Internet,
}

/// The name of a policy that is no preset.
pub const CUSTOM: &str = "custom";

/// A text is not the name of a preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not one of none, registries, internet")]
pub struct InvalidPreset;

impl Preset {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Registries, Self::Internet];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Registries => "registries",
            Self::Internet => "internet",
        }
    }

    /// The policy; without any registry, [`Preset::Registries`] allows nothing.
    pub fn policy(self, registries: &[Target]) -> EgressPolicy {
        match self {
            Self::None => EgressPolicy::offline(),
            Self::Registries => EgressPolicy {
                allow_out: registries.to_vec(),
                deny_out: vec![Prefix::ALL_V4],
                ..EgressPolicy::default()
            },
            Self::Internet => EgressPolicy::default(),
        }
    }

    /// The preset that a policy is the same as, whatever its placeholders.
    pub fn of(policy: &EgressPolicy, registries: &[Target]) -> Option<Self> {
        let same = |preset: &Self| {
            EgressPolicy { placeholders: policy.placeholders.clone(), ..preset.policy(registries) } == *policy
        };
        Self::ALL.into_iter().find(same)
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Preset {
    type Err = InvalidPreset;

    fn from_str(text: &str) -> Result<Self, InvalidPreset> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == text).ok_or(InvalidPreset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_tells_its_preset() {
        let registries = ["packages.example.org".parse().expect("target")];
        for preset in Preset::ALL {
            assert_eq!(preset.as_str().parse(), Ok(preset));
            assert_eq!(Preset::of(&preset.policy(&registries), &registries), Some(preset));
        }
        // Without registries, the two presets are the same policy.
        assert_eq!(Preset::of(&Preset::Registries.policy(&[]), &[]), Some(Preset::None));
        let mut custom = Preset::Registries.policy(&registries);
        custom.allow_out.push("9.9.9.9".parse().expect("target"));
        assert_eq!(Preset::of(&custom, &registries), None);
        assert_eq!("Internet".parse::<Preset>(), Err(InvalidPreset));
    }
}
