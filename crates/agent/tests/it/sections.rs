//! The `*** Begin Patch` form against a simple model.

use cabana_agent::patch::{Patch, PatchError, apply};
use proptest::collection::vec;
use proptest::prelude::*;

/// One hunk: where it is taken from, lines of context, removed and added.
#[derive(Debug, Clone)]
struct Chunk {
    skip: usize,
    before: usize,
    remove: usize,
    add: Vec<u8>,
    after: usize,
    at_end: bool,
}

fn chunk() -> impl Strategy<Value = Chunk> {
    (0_usize..6, 0_usize..4, 0_usize..3, vec(0_u8..5, 0..3), 0_usize..3, prop::bool::weighted(0.1))
        .prop_map(|(skip, before, remove, add, after, at_end)| Chunk { skip, before, remove, add, after, at_end })
}

fn text(line: u8) -> String {
    format!("line {line}")
}

/// What becomes of a file: lines, and whether the last one ends as the last one did; or the number of the hunk that is refused.
fn model(old: &[u8], chunks: &[(Vec<(char, u8)>, bool)]) -> Result<(Vec<u8>, bool), usize> {
    let mut new = Vec::new();
    let mut next = 0;
    for (number, (lines, at_end)) in chunks.iter().enumerate() {
        let wanted: Vec<u8> = lines.iter().filter(|(sign, _)| *sign != '+').map(|(_, line)| *line).collect();
        let mut places: Vec<usize> = (next..=old.len()).filter(|at| old[*at..].starts_with(&wanted)).collect();
        if *at_end {
            places.retain(|at| at + wanted.len() == old.len());
        } else if wanted.is_empty() && !old.is_empty() {
            places.clear();
        }
        let [at] = places.as_slice() else { return Err(number + 1) };
        new.extend_from_slice(&old[next..*at]);
        new.extend(lines.iter().filter(|(sign, _)| *sign != '-').map(|(_, line)| *line));
        next = at + wanted.len();
    }
    new.extend_from_slice(&old[next..]);
    // A line before the last one, of which nothing is left, has an end.
    let last = chunks.last().map(|(lines, _)| lines.as_slice()).unwrap_or_default();
    let kept = last.iter().rposition(|(sign, _)| *sign != '-');
    let removed_after = kept.is_none_or(|kept| last[kept].0 == ' ' && kept + 1 < last.len());
    Ok((new, next < old.len() || !removed_after))
}

/// The number of the hunk that an error is about.
fn hunk_of(error: &PatchError) -> Option<usize> {
    match error {
        PatchError::NotFound { hunk, .. }
        | PatchError::Ambiguous { hunk, .. }
        | PatchError::OutOfOrder { hunk, .. }
        | PatchError::NoContext { hunk, .. } => Some(*hunk),
        _ => None,
    }
}

proptest! {
    #![proptest_config(crate::config(2000))]

    #[test]
    fn hunks_are_placed_as_the_model_says(
        old in vec(0_u8..5, 0..25), chunks in vec(chunk(), 1..4), changed in vec((any::<prop::sample::Index>(), 0_u8..5), 0..2),
        crlf: bool, newline: bool, blanks: bool,
    ) {
        let mut at = 0;
        let mut written: Vec<(Vec<(char, u8)>, bool)> = Vec::new();
        for chunk in &chunks {
            let from = (at + chunk.skip).min(old.len());
            let (removed, after) = (from + chunk.before, from + chunk.before + chunk.remove);
            at = (after + chunk.after).min(old.len());
            let sign = |index: usize| if (removed..after).contains(&index) { '-' } else { ' ' };
            let mut lines: Vec<(char, u8)> = (from..at).map(|index| (sign(index), old[index])).collect();
            let middle = (after - from).min(lines.len());
            lines.splice(middle..middle, chunk.add.iter().map(|line| ('+', *line)));
            if !lines.is_empty() {
                written.push((lines, chunk.at_end));
            }
        }
        prop_assume!(!written.is_empty());
        let mut file = old.clone();
        for (index, line) in changed.iter().filter(|_| !old.is_empty()) {
            let index = index.index(file.len());
            file[index] = *line;
        }
        let mut patch = "*** Begin Patch\n*** Update File: x\n".to_owned();
        for (lines, at_end) in &written {
            patch += "@@\n";
            lines.iter().for_each(|(sign, line)| patch += &format!("{sign}{}\n", text(*line)));
            patch += if *at_end { "*** End of File\n" } else { "" };
        }
        patch += "*** End Patch";
        // The file may differ in what does not count.
        let end = if crlf { "\r\n" } else { "\n" };
        let blank = if blanks { " \t" } else { "" };
        let mut content = file.iter().map(|line| text(*line) + blank).collect::<Vec<_>>().join(end);
        let ends = newline && !file.is_empty();
        content += if ends { end } else { "" };
        let parsed = Patch::parse(&patch).unwrap();
        let found = apply(&parsed.changes[0], Some(content.as_bytes()));
        match (model(&file, &written), found) {
            (Ok((expected, ends_alike)), Ok(found)) => {
                let found = String::from_utf8(found).unwrap();
                let lines: Vec<&str> = found.lines().map(|line| line.trim_end()).collect();
                prop_assert_eq!(&lines, &expected.iter().map(|line| text(*line)).collect::<Vec<_>>(), "{}", patch);
                if !file.is_empty() {
                    let returns = if crlf && content.contains('\n') { found.matches('\n').count() } else { 0 };
                    prop_assert_eq!(found.matches("\r\n").count(), returns);
                    let newline = !found.is_empty() && (!ends_alike || ends);
                    prop_assert_eq!(found.ends_with('\n'), newline, "{:?} {}", found, patch);
                }
            }
            (Err(hunk), Err(error)) => prop_assert_eq!(hunk_of(&error), Some(hunk), "{}\n{}", error, patch),
            (expected, found) => prop_assert!(false, "{expected:?} {found:?}\n{patch}\n{content:?}"),
        }
    }
}
