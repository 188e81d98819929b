//! Progress of the build, from the output of `mmdebstrap`, `apt` and `dpkg`.

use std::fmt;

/// Phase of the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Fetching package lists and packages.
    Downloading,
    /// Writing files.
    Unpacking,
    /// Running the packages' configuration scripts.
    Configuring,
    /// Our own configuration, and the final sync.
    Finishing,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Downloading => "downloading",
            Self::Unpacking => "unpacking",
            Self::Configuring => "configuring",
            Self::Finishing => "finishing",
        })
    }
}

/// Progress of the build.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// The current phase.
    pub phase: Phase,
    /// The fraction that is done, 0 to 1; never decreases.
    pub fraction: f32,
}

/// Smaller steps are not reported.
const STEP: f32 = 0.005;

/// The fraction at which each stage begins, from measured durations.
const EXTRACT: f32 = 0.06;
const ESSENTIAL: f32 = 0.10;
const REST: f32 = 0.18;
const FETCHED: f32 = 0.33;
const UNPACKED: f32 = 0.75;
const CONFIGURED: f32 = 0.92;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Lists,
    Extract,
    Essential,
    Rest,
}

/// Tracks a build line by line.
#[derive(Debug)]
pub(super) struct Follower {
    stage: Stage,
    packages: f32,
    fetched: f32,
    unpacked: f32,
    configured: f32,
    last: Progress,
}

impl Follower {
    pub(super) fn new() -> Self {
        Self {
            stage: Stage::Lists,
            packages: 500.0,
            fetched: 0.0,
            unpacked: 0.0,
            configured: 0.0,
            last: Progress { phase: Phase::Downloading, fraction: 0.0 },
        }
    }

    /// Reads a line; returns the progress if it changed noticeably.
    pub(super) fn line(&mut self, line: &str) -> Option<Progress> {
        let phase = self.phase_of(line)?;
        self.report(phase)
    }

    /// All packages are installed.
    pub(super) fn finishing(&mut self) -> Progress {
        self.last = Progress { phase: Phase::Finishing, fraction: CONFIGURED.max(self.last.fraction) };
        self.last
    }

    fn phase_of(&mut self, line: &str) -> Option<Phase> {
        if let Some(message) = line.strip_prefix("I: ") {
            return self.enter(message);
        }
        if let Some((count, _)) =
            line.split_once(" newly installed").and_then(|(l, _)| l.rsplit_once(' ').map(|(_, n)| (n, ())))
        {
            self.packages = f32::from(count.parse::<u16>().ok()?).max(1.0);
            return None;
        }
        if line.starts_with("Get:") {
            self.fetched += 1.0;
            return Some(Phase::Downloading);
        }
        // A package that mmdebstrap unpacks before the first stage.
        if self.stage == Stage::Lists {
            return None;
        }
        if line.starts_with("Unpacking ") {
            self.unpacked += 1.0;
            return Some(Phase::Unpacking);
        }
        if line.starts_with("Setting up ") {
            self.configured += 1.0;
            // Some packages are configured while others are still being unpacked.
            let all = self.unpacked + 0.5 >= self.packages;
            return Some(if all { Phase::Configuring } else { Phase::Unpacking });
        }
        None
    }

    fn enter(&mut self, message: &str) -> Option<Phase> {
        let (stage, phase) = if message.starts_with("extracting archives") {
            (Stage::Extract, Phase::Unpacking)
        } else if message.starts_with("installing essential") {
            (Stage::Essential, Phase::Unpacking)
        } else if message.starts_with("installing remaining") {
            (Stage::Rest, Phase::Downloading)
        } else {
            return None;
        };
        self.stage = stage;
        (self.fetched, self.unpacked, self.configured) = (0.0, 0.0, 0.0);
        Some(phase)
    }

    fn report(&mut self, phase: Phase) -> Option<Progress> {
        let part = |done: f32| (done / self.packages).min(1.0);
        let within = |from: f32, to: f32, done: f32| from + (to - from) * done;
        let fraction = match self.stage {
            Stage::Lists => within(0.0, EXTRACT, part(self.fetched)),
            Stage::Extract => EXTRACT,
            Stage::Essential => within(ESSENTIAL, REST, part((self.unpacked + self.configured) / 2.0)),
            Stage::Rest => {
                within(REST, FETCHED, part(self.fetched)).max(if self.unpacked > 0.0 { FETCHED } else { 0.0 })
                    + (UNPACKED - FETCHED) * part(self.unpacked)
                    + (CONFIGURED - UNPACKED) * part(self.configured)
            }
        };
        let fraction = fraction.clamp(self.last.fraction, CONFIGURED);
        if phase == self.last.phase && fraction - self.last.fraction < STEP {
            return None;
        }
        self.last = Progress { phase, fraction };
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<String> {
        let mut lines = vec!["I: running apt-get update...".to_owned(), "Get:1 http://m/debian x [1 kB]".to_owned()];
        lines.push("0 upgraded, 60 newly installed, 0 to remove and 0 not upgraded.".to_owned());
        lines.push("I: extracting archives...".to_owned());
        lines.push("I: installing essential packages...".to_owned());
        for verb in ["Unpacking", "Setting up"] {
            lines.extend((0..60).map(|n| format!("{verb} essential{n} (1) ...")));
        }
        lines.push("I: installing remaining packages inside the chroot...".to_owned());
        lines.push("0 upgraded, 500 newly installed, 0 to remove and 0 not upgraded.".to_owned());
        lines.extend((0..500).map(|n| format!("Get:{n} http://m/debian p{n} [1 kB]")));
        for verb in ["Unpacking", "Setting up"] {
            lines.extend((0..500).map(|n| format!("{verb} p{n} (1) ...")));
        }
        lines
    }

    #[test]
    fn a_build_moves_forward_through_its_phases() {
        let mut follower = Follower::new();
        let seen: Vec<Progress> = lines().iter().filter_map(|l| follower.line(l)).collect();
        assert!(seen.windows(2).all(|w| w[0].fraction <= w[1].fraction), "it went back");
        assert!((50..250).contains(&seen.len()), "{} reports", seen.len());
        let last = seen.last().expect("some");
        assert_eq!(last.phase, Phase::Configuring);
        assert!((last.fraction - CONFIGURED).abs() < 0.01, "{last:?}");
        assert_eq!(follower.finishing().phase, Phase::Finishing);
    }

    proptest::proptest! {
        #[test]
        fn any_text_gives_valid_progress(
            lines in proptest::collection::vec(
                "(I: |Get:|Unpacking |Setting up |[0-9]{0,9} newly installed|\\PC){0,3}",
                0..20,
            )
        ) {
            let mut follower = Follower::new();
            let mut last = 0.0;
            for progress in lines.iter().filter_map(|l| follower.line(l)) {
                proptest::prop_assert!(progress.fraction >= last && progress.fraction <= 1.0);
                last = progress.fraction;
            }
        }
    }
}
