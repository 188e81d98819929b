//! What a model is told about a hunk that has no place: the line that is missing, and the lines that are there instead.

use super::error::SHOWN_LINES;
use super::place::{Finder, Level, Nowhere};
use super::{Hunk, Line, PatchError, Shown};
use crate::text::most_similar;

/// Lines shown before the one that differs.
const BEFORE: usize = 3;

/// Describes why a hunk of a file was refused.
pub(super) fn describe(path: &str, hunk: &Hunk, finder: &mut Finder<'_>, nowhere: Nowhere) -> PatchError {
    let path = path.to_owned();
    let number = hunk.number;
    match nowhere {
        Nowhere::NotFound { near } => not_found(&path, hunk, finder, near),
        Nowhere::Ambiguous { places } => {
            PatchError::Ambiguous { path, hunk: number, places: places.into_iter().map(|at| at + 1).collect() }
        }
        Nowhere::OutOfOrder { at } => PatchError::OutOfOrder { path, hunk: number, line: at + 1 },
        Nowhere::NoContext => PatchError::NoContext { path, hunk: number },
        Nowhere::NoAnchor { anchor } => {
            let similar = most_similar(finder.lines.iter().map(|line| line.text), anchor.as_bytes());
            let there = similar.map(|(at, text)| Shown::new(at + 1, text)).into_iter().collect();
            let anchor = crate::text::shorten(&anchor, 200);
            PatchError::NoAnchor { path, hunk: number, anchor, there }
        }
        Nowhere::TooComplex => PatchError::TooComplex { path },
    }
}

fn not_found(path: &str, hunk: &Hunk, finder: &mut Finder<'_>, near: Option<usize>) -> PatchError {
    let old = hunk.old_lines();
    let Some((at, matched)) = best(hunk, &old, finder, near) else {
        return PatchError::TooComplex { path: path.to_owned() };
    };
    let differs = at + matched;
    let wanted = old.get(matched).map_or(&[][..], |line| line.text.as_bytes());
    PatchError::not_found(path, hunk.number, wanted, matched, differs + 1, around(finder, differs))
}

/// Where most lines of the hunk fit, and how many; `None` if looking takes too long.
fn best(hunk: &Hunk, old: &[&Line], finder: &mut Finder<'_>, near: Option<usize>) -> Option<(usize, usize)> {
    let near = near.map(|near| near.min(finder.lines.len()));
    let mut best: Option<(usize, usize)> = None;
    if hunk.at_end
        && let Some(at) = near
    {
        return Some((at, finder.matching(at, old, Level::Blanks).ok()?));
    }
    for at in 0..finder.lines.len() {
        let matched = finder.matching(at, old, Level::Blanks).ok()?;
        let distance = |at: usize| near.map_or(0, |near| near.abs_diff(at));
        let better =
            best.is_none_or(|(other, most)| matched > most || (matched == most && distance(at) < distance(other)));
        if matched > 0 && better {
            best = Some((at, matched));
        }
    }
    // A whole hunk that fits and still has no place: it was looked for elsewhere.
    if let Some(best) = best.filter(|(_, matched)| *matched < old.len()) {
        return Some(best);
    }
    let wanted = old.iter().map(|line| line.text.as_bytes()).find(|text| !text.trim_ascii().is_empty());
    let similar = most_similar(finder.lines.iter().map(|line| line.text), wanted.unwrap_or_default());
    Some((near.or_else(|| similar.map(|(at, _)| at)).unwrap_or(0), 0))
}

/// The lines of the file around one.
fn around(finder: &Finder<'_>, at: usize) -> Vec<Shown> {
    let first = at.saturating_sub(BEFORE);
    let lines = finder.lines.iter().enumerate().skip(first).take(SHOWN_LINES);
    lines.map(|(index, line)| Shown::new(index + 1, line.text)).collect()
}
