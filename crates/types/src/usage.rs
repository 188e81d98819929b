//! What is metered.

use crate::code_enum::code_enum;

code_enum! {
    /// What is metered.
    #[derive(PartialOrd, Ord)]
    UsageKind, "What is metered. Times are in the unit of the kind times seconds.", {
        /// Virtual CPUs of sandboxes that run.
        Vcpu => "vcpu",
        /// Memory of sandboxes that run, MiB.
        MemoryMib => "memory_mib",
        /// Memory of sandboxes that are paused with it in RAM, MiB.
        PausedMemoryMib => "paused_memory_mib",
        /// Used space of sandboxes' disks, MiB.
        DiskMib => "disk_mib",
        /// Archives and snapshots, MiB.
        ColdMib => "cold_mib",
        /// Calls of models; their cost is here.
        ModelCalls => "model_calls",
        /// Tokens that models read.
        InputTokens => "input_tokens",
        /// Those among them that the provider had in its cache.
        CachedTokens => "cached_tokens",
        /// Tokens that models wrote.
        OutputTokens => "output_tokens",
    }
}

code_enum! {
    /// What used it.
    UsageSubject, "What used it.", {
        Sandbox => "sandbox",
        Snapshot => "snapshot",
        /// The calls of models of a chat.
        Chat => "chat",
    }
}

impl UsageKind {
    /// The kind of a text on the wire.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }

    /// Whether it is a quantity over time, and not a count.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Vcpu | Self::MemoryMib | Self::PausedMemoryMib | Self::DiskMib | Self::ColdMib)
    }

    /// What its amounts are in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Vcpu => "vCPU-seconds",
            Self::MemoryMib | Self::PausedMemoryMib | Self::DiskMib | Self::ColdMib => "MiB-seconds",
            Self::ModelCalls => "calls",
            Self::InputTokens | Self::CachedTokens | Self::OutputTokens => "tokens",
        }
    }

    /// What its price is for; models have prices of their own.
    pub fn priced_unit(self) -> Option<&'static str> {
        match self {
            Self::Vcpu => Some("vCPU-hour"),
            Self::MemoryMib | Self::PausedMemoryMib | Self::DiskMib | Self::ColdMib => Some("GiB-hour"),
            Self::ModelCalls | Self::InputTokens | Self::CachedTokens | Self::OutputTokens => None,
        }
    }
}

impl UsageSubject {
    /// The subject of a text in the store.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}
