//! Quotas: how much of each kind a team may use, and the decision whether more fits. Who counts, and when, is up to the store.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::code_enum::code_enum;

code_enum! {
    /// What is limited.
    #[derive(PartialOrd, Ord)]
    QuotaKind, "What is limited.", {
        /// Sandboxes that have not ended: also paused and failed ones.
        Instances => "instances",
        /// Virtual CPUs of sandboxes that run, start, resume or are being paused.
        Vcpu => "vcpu",
        /// Memory of the same sandboxes, MiB.
        MemoryMb => "memory_mb",
        /// Disks of sandboxes that have not ended, MiB.
        DiskMb => "disk_mb",
        /// Snapshots that are kept.
        Snapshots => "snapshots",
        /// Templates.
        Templates => "templates",
        /// Seconds that one sandbox may run at a stretch, from its start or resume to its timeout.
        LifetimeSeconds => "lifetime_seconds",
        /// Turns of chats that run at the same time; further ones wait.
        Turns => "turns",
    }
}

/// The largest limit. Programs that read numbers as floats get it exactly.
pub const MAX_LIMIT: u64 = 1_000_000_000_000;

impl QuotaKind {
    /// Number of kinds.
    const COUNT: usize = Self::ALL.len();

    /// The kind of a text on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }

    /// Whether a project can have a limit of its own.
    pub fn is_of_projects(self) -> bool {
        !matches!(self, QuotaKind::LifetimeSeconds | QuotaKind::Turns)
    }

    /// What is counted, as in "12 of 20 …".
    pub fn noun(self) -> &'static str {
        match self {
            QuotaKind::Instances => "sandboxes",
            QuotaKind::Vcpu => "vCPUs of running sandboxes",
            QuotaKind::MemoryMb => "MiB of memory of running sandboxes",
            QuotaKind::DiskMb => "MiB of disk",
            QuotaKind::Snapshots => "snapshots",
            QuotaKind::Templates => "templates",
            QuotaKind::LifetimeSeconds => "seconds that a sandbox may run",
            QuotaKind::Turns => "turns that run",
        }
    }

    /// What a team can do to get below its limit.
    pub fn remedy(self) -> &'static str {
        match self {
            QuotaKind::Instances | QuotaKind::DiskMb => "kill sandboxes that are not needed",
            QuotaKind::Vcpu | QuotaKind::MemoryMb => {
                "pause or kill sandboxes that are not in use, or ask for a smaller one"
            }
            QuotaKind::Snapshots => "delete snapshots that are not needed",
            QuotaKind::Templates => "delete templates that are not needed",
            QuotaKind::LifetimeSeconds => "ask for a shorter timeout",
            QuotaKind::Turns => "wait until a turn has ended",
        }
    }

    /// The least that a limit may be: a turn that waits must be able to begin at some time.
    pub fn least(self) -> u64 {
        u64::from(matches!(self, QuotaKind::Turns | QuotaKind::LifetimeSeconds))
    }

    /// A limit of this kind, if it is in its range.
    pub fn limit(self, value: i64) -> Result<u64, InvalidLimit> {
        let invalid = InvalidLimit { kind: self, value, least: self.least() };
        u64::try_from(value).ok().filter(|value| (self.least()..=MAX_LIMIT).contains(value)).ok_or(invalid)
    }
}

/// A limit that is out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit of {kind} must be between {least} and {MAX_LIMIT}, not {value}")]
pub struct InvalidLimit {
    pub kind: QuotaKind,
    pub value: i64,
    pub least: u64,
}

/// A limit per kind; where there is none, there is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<QuotaKind, u64>", into = "BTreeMap<QuotaKind, u64>")]
pub struct Limits([Option<u64>; QuotaKind::COUNT]);

impl Limits {
    /// The limit of a kind.
    pub fn get(&self, kind: QuotaKind) -> Option<u64> {
        self.0[kind as usize]
    }

    /// No limits.
    pub const NONE: Self = Self([None; QuotaKind::COUNT]);

    /// The same with a limit of a kind, or without.
    #[must_use]
    pub const fn with(mut self, kind: QuotaKind, limit: Option<u64>) -> Self {
        self.0[kind as usize] = limit;
        self
    }

    /// These limits, and where there is none, the other ones.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|kind| self.0[kind].or(other.0[kind])))
    }

    /// Every limit that there is.
    pub fn iter(&self) -> impl Iterator<Item = (QuotaKind, u64)> + '_ {
        QuotaKind::ALL.iter().filter_map(|kind| Some((*kind, self.get(*kind)?)))
    }
}

impl From<BTreeMap<QuotaKind, u64>> for Limits {
    fn from(map: BTreeMap<QuotaKind, u64>) -> Self {
        map.into_iter().fold(Self::default(), |limits, (kind, limit)| limits.with(kind, Some(limit)))
    }
}

impl From<Limits> for BTreeMap<QuotaKind, u64> {
    fn from(limits: Limits) -> Self {
        limits.iter().collect()
    }
}

/// An amount per kind: what is used, or what a request would add.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts([u64; QuotaKind::COUNT]);

impl Amounts {
    /// The amount of a kind.
    pub fn get(&self, kind: QuotaKind) -> u64 {
        self.0[kind as usize]
    }

    /// The same with another amount of a kind.
    #[must_use]
    pub fn with(mut self, kind: QuotaKind, amount: u64) -> Self {
        self.0[kind as usize] = amount;
        self
    }
}

/// A limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    pub kind: QuotaKind,
    pub used: u64,
    pub wanted: u64,
    pub limit: u64,
}

/// Whether what is wanted fits. A kind of which nothing is wanted always fits, also where a limit was lowered below what is used.
pub fn check(used: &Amounts, wanted: &Amounts, limits: &Limits) -> Result<(), Exceeded> {
    let exceeded = limits.iter().find_map(|(kind, limit)| {
        let (used, wanted) = (used.get(kind), wanted.get(kind));
        (wanted > 0 && used.saturating_add(wanted) > limit).then_some(Exceeded { kind, used, wanted, limit })
    });
    exceeded.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
