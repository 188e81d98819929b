//! How long the phases of creations take, as histograms.

use std::fmt::{self, Write as _};
use std::time::Instant;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

/// Bounds in seconds: a creation takes some milliseconds, one that waits for its ready command up to minutes.
const BOUNDS: [f64; 14] = [0.001, 0.002, 0.004, 0.006, 0.008, 0.012, 0.016, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0, 60.0];

/// A part of a creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Reserve capacity, and write the row.
    Admit,
    /// Launch it: network, disk, namespaces, guest.
    Launch,
    /// Wait for the template's start and ready commands.
    Ready,
    /// Write that it runs.
    Commit,
    /// All of it.
    Total,
}

impl EncodeLabelValue for Phase {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        encoder.write_str(match self {
            Self::Admit => "admit",
            Self::Launch => "launch",
            Self::Ready => "ready",
            Self::Commit => "commit",
            Self::Total => "total",
        })
    }
}

/// The label of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PhaseLabel {
    phase: Phase,
}

/// Histograms by phase, and how many creations failed.
#[derive(Debug, Clone)]
pub struct CreationTimes {
    pub phases: Family<PhaseLabel, Histogram, fn() -> Histogram>,
    pub failures: Counter,
}

impl Default for CreationTimes {
    fn default() -> Self {
        Self { phases: Family::new_with_constructor(|| Histogram::new(BOUNDS)), failures: Counter::default() }
    }
}

impl CreationTimes {
    /// Adds a phase that began at `begin` and ends now.
    pub fn observe(&self, phase: Phase, begin: Instant) {
        self.phases.get_or_create(&PhaseLabel { phase }).observe(begin.elapsed().as_secs_f64());
    }
}
