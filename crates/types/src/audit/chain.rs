//! Verifying chains of entries: what is changed, missing or in another place is found and named.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AuditEntry, AuditHash};
use crate::TeamId;
use crate::code_enum::code_enum;

/// Problems that a report names at most.
pub const MAX_PROBLEMS: usize = 100;

/// Where a chain begins and ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Chain {
    /// Its team; none for the server's.
    #[serde(rename = "teamID", default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamId>,
    /// Number of the last entry that was removed because of its age; 0 if none was.
    pub pruned_seq: u64,
    /// Its hash.
    pub pruned_hash: AuditHash,
    /// Number of the newest entry.
    pub last_seq: u64,
    /// Its hash.
    pub last_hash: AuditHash,
}

code_enum! {
    /// What is wrong with an entry.
    ProblemKind, "What is wrong with an entry: its content was `changed`, it is `missing`, it is in another place (`moved`), it \
        does not follow the one before it (`unlinked`), or it cannot be read (`unreadable`).", {
        Changed => "changed",
        Missing => "missing",
        Moved => "moved",
        Unlinked => "unlinked",
        Unreadable => "unreadable",
    }
}

/// Something that is wrong with a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The team of the chain; none for the server's.
    #[serde(rename = "teamID", default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamId>,
    /// Number of the entry.
    pub seq: u64,
    pub kind: ProblemKind,
    /// In words.
    pub message: String,
}

/// What verifying has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    /// Entries that were read.
    pub entries: u64,
    /// Where the chains begin and end. Whoever notes an end elsewhere can tell later that nothing before it was changed.
    pub chains: Vec<Chain>,
    /// What is wrong; at most 100.
    pub problems: Vec<Problem>,
}

/// Verifies any number of chains, entry by entry.
#[derive(Debug, Default)]
pub struct Chains {
    chains: BTreeMap<Option<TeamId>, Progress>,
    entries: u64,
    problems: Vec<Problem>,
}

/// What is known of one chain so far.
#[derive(Debug)]
struct Progress {
    /// Where it should begin and end, if that is known.
    expected: Option<Chain>,
    /// Number and hash of the entry before the first one.
    first: (u64, AuditHash),
    /// Those of the newest entry.
    last: (u64, AuditHash),
    /// What the newest entry about removed ones says.
    checkpoint: Option<(u64, AuditHash)>,
}

impl Chains {
    /// Says where a chain begins and ends. Without it, the first entry is believed.
    pub fn expect(&mut self, chain: Chain) {
        let first = (chain.pruned_seq, chain.pruned_hash);
        let progress = Progress { first, last: first, checkpoint: None, expected: Some(chain) };
        self.chains.insert(progress.expected.as_ref().and_then(|chain| chain.team.clone()), progress);
    }

    /// The next entry of its chain.
    pub fn entry(&mut self, entry: &AuditEntry) {
        self.entries += 1;
        let before = (entry.seq.saturating_sub(1), entry.previous_hash);
        let progress = self.chains.entry(entry.team.clone()).or_insert(Progress {
            expected: None,
            first: before,
            last: before,
            checkpoint: None,
        });
        let mut found = Vec::new();
        let (last, last_hash) = progress.last;
        if entry.hash != entry.computed_hash() {
            found.push((entry.seq, ProblemKind::Changed, format!("entry {} was changed", entry.seq)));
        }
        if entry.seq <= last {
            found.push((entry.seq, ProblemKind::Moved, format!("entry {} comes after entry {last}", entry.seq)));
        } else {
            if entry.seq > last + 1 {
                found.push(missing(last + 1, entry.seq - 1));
            } else if entry.previous_hash != last_hash {
                let text = format!("entry {} does not follow entry {last}: one of them was replaced", entry.seq);
                found.push((entry.seq, ProblemKind::Unlinked, text));
            }
            progress.last = (entry.seq, entry.hash);
            progress.checkpoint = entry.checkpoint().or(progress.checkpoint);
        }
        for (seq, kind, message) in found {
            self.problem(entry.team.clone(), seq, kind, message);
        }
    }

    /// An entry that cannot be read. What can be known of it is its number.
    pub fn unreadable(&mut self, team: Option<TeamId>, seq: u64, why: &str) {
        self.problem(team, seq, ProblemKind::Unreadable, format!("entry {seq} cannot be read: {why}"));
    }

    /// What was found.
    pub fn finish(mut self) -> Report {
        let mut chains = Vec::new();
        for (team, progress) in std::mem::take(&mut self.chains) {
            let (last, last_hash) = progress.last;
            if let Some(expected) = &progress.expected {
                if expected.last_seq > last {
                    let (seq, kind, message) = missing(last + 1, expected.last_seq);
                    self.problem(team.clone(), seq, kind, message);
                } else if (expected.last_seq, expected.last_hash) != progress.last {
                    let text =
                        format!("entry {last} is not the one that the log ends with (entry {})", expected.last_seq);
                    self.problem(team.clone(), last, ProblemKind::Unlinked, text);
                }
                // The entry that says so is in the chain, so the place cannot be moved without changing that entry.
                if expected.pruned_seq > 0 && progress.checkpoint != Some(progress.first) {
                    let text = format!("no entry says that entries up to {} were removed", expected.pruned_seq);
                    self.problem(team.clone(), expected.pruned_seq, ProblemKind::Missing, text);
                }
            }
            let (pruned_seq, pruned_hash) = progress.first;
            chains.push(Chain { team, pruned_seq, pruned_hash, last_seq: last, last_hash });
        }
        Report { entries: self.entries, chains, problems: self.problems }
    }

    fn problem(&mut self, team: Option<TeamId>, seq: u64, kind: ProblemKind, message: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { team, seq, kind, message });
        }
    }
}

fn missing(from: u64, to: u64) -> (u64, ProblemKind, String) {
    let text =
        if from == to { format!("entry {from} is missing") } else { format!("entries {from} to {to} are missing") };
    (from, ProblemKind::Missing, text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::entry;
    use super::super::{PRUNED, THROUGH, THROUGH_HASH};
    use super::*;

    fn chain(length: u64) -> (Vec<AuditEntry>, Chain) {
        let mut entries: Vec<AuditEntry> = Vec::new();
        for seq in 1..=length {
            entries.push(entry(seq, entries.last().map_or(AuditHash::START, |last| last.hash)));
        }
        let end = entries.last().map_or(AuditHash::START, |last| last.hash);
        let team = Some("default".parse().expect("id"));
        (entries, Chain { team, pruned_seq: 0, pruned_hash: AuditHash::START, last_seq: length, last_hash: end })
    }

    fn verify(entries: &[AuditEntry], chain: &Chain) -> Vec<(u64, ProblemKind)> {
        let mut chains = Chains::default();
        chains.expect(chain.clone());
        entries.iter().for_each(|entry| chains.entry(entry));
        chains.finish().problems.into_iter().map(|problem| (problem.seq, problem.kind)).collect()
    }

    proptest! {
        #[test]
        fn every_change_is_found_and_named(length in 2u64..12, at in 0usize..12, kind in 0u8..6) {
            let (mut entries, chain) = chain(length);
            prop_assert_eq!(verify(&entries, &chain), vec![]);
            let at = at % entries.len();
            let seq = entries[at].seq;
            match kind {
                0 => entries[at].actor = Some("somebody else".into()),
                // A careful forger computes the hash again.
                1 => {
                    entries[at].actor = Some("somebody else".into());
                    entries[at].hash = entries[at].computed_hash();
                }
                2 => drop(entries.remove(at)),
                3 => entries.truncate(at),
                4 => drop(entries.drain(..=at)),
                _ => {
                    let other = (at + 1) % entries.len();
                    entries.swap(at, other);
                }
            }
            let found = verify(&entries, &chain);
            prop_assert!(!found.is_empty());
            match kind {
                0 => prop_assert_eq!(found, vec![(seq, ProblemKind::Changed)]),
                1 => prop_assert_eq!(found, vec![((seq + 1).min(length), ProblemKind::Unlinked)]),
                2 => prop_assert_eq!(found, vec![(seq, ProblemKind::Missing)]),
                3 => prop_assert_eq!(found, vec![(seq, ProblemKind::Missing)]),
                4 => prop_assert_eq!(found[0], (1, ProblemKind::Missing)),
                _ => prop_assert!(found.iter().any(|(_, kind)| *kind == ProblemKind::Moved)),
            }
        }
    }

    #[test]
    fn a_checkpoint_needs_an_entry_that_says_so() {
        let (mut entries, mut whole) = chain(4);
        let mut pruned = entry(5, entries[3].hash);
        pruned.action = PRUNED.into();
        pruned.details =
            [(THROUGH.to_owned(), "2".to_owned()), (THROUGH_HASH.to_owned(), entries[1].hash.to_string())].into();
        pruned.hash = pruned.computed_hash();
        (whole.pruned_seq, whole.pruned_hash) = (2, entries[1].hash);
        (whole.last_seq, whole.last_hash) = (5, pruned.hash);
        entries.push(pruned);
        assert_eq!(verify(&entries[2..], &whole), []);
        // Somebody removes one more and moves the checkpoint.
        (whole.pruned_seq, whole.pruned_hash) = (3, entries[2].hash);
        assert_eq!(verify(&entries[3..], &whole), [(3, ProblemKind::Missing)]);
    }

    #[test]
    fn a_part_of_a_chain_is_verified_as_far_as_it_goes() {
        let (entries, _) = chain(6);
        let mut chains = Chains::default();
        entries[2..5].iter().for_each(|entry| chains.entry(entry));
        let report = chains.finish();
        assert_eq!((report.entries, report.problems), (3, vec![]));
        assert_eq!((report.chains[0].pruned_seq, report.chains[0].last_seq), (2, 5));
    }
}
