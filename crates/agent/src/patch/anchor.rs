//! Hunks that a `@@` line places: they stand after a line of the file.

use super::place::{Finder, LISTED, Nowhere, Place, without_return};
use super::{Hunk, Line};

/// Leaves out what does not count.
type Trim = fn(&[u8]) -> &[u8];

impl Finder<'_> {
    /// Hunks after lines that `@@` names: the first place after them, which must be the same for all places of the first such line.
    pub(super) fn after_anchors(&mut self, hunk: &Hunk, old: &[&Line]) -> Result<Place, Nowhere> {
        let Some(last) = self.lines.len().checked_sub(old.len()) else {
            return Err(Nowhere::NotFound { near: None });
        };
        let mut near = None;
        for &level in self.form.levels() {
            let mut fitting = self.fits(self.free()..=last, old, level)?;
            if hunk.at_end {
                fitting.retain(|at| *at == last);
            }
            // The line after `@@` may be the first line of the hunk, too.
            let places = self.anchored(hunk, |_, from| {
                near.get_or_insert(from);
                let next = fitting.partition_point(|at| *at + 1 < from);
                Ok(fitting.get(next).copied())
            })?;
            match places.as_slice() {
                [] => {}
                [at] => return Ok(Place { at: *at, level }),
                _ => return Err(Nowhere::Ambiguous { places: places.into_iter().take(LISTED).collect() }),
            }
        }
        Err(Nowhere::NotFound { near })
    }

    /// What `find` returns for the line after each place of the anchors, without repetitions.
    pub(super) fn anchored(
        &mut self,
        hunk: &Hunk,
        mut find: impl FnMut(&mut Self, usize) -> Result<Option<usize>, Nowhere>,
    ) -> Result<Vec<usize>, Nowhere> {
        let [first, rest @ ..] = hunk.anchors.as_slice() else { return Ok(Vec::new()) };
        let mut found: Vec<usize> = Vec::new();
        let starts = self.all_like(first)?;
        let mut further = Vec::new();
        for anchor in rest {
            further.push(self.all_like(anchor)?);
        }
        self.spend(starts.len() * (1 + further.len()))?;
        for start in starts {
            // One that precedes no further anchor leads nowhere.
            let Some(at) = chain(start, &further) else { continue };
            let place = find(self, at + 1)?;
            found.extend(place.filter(|place| !found.contains(place)));
            if found.len() > LISTED {
                break;
            }
        }
        Ok(found)
    }

    /// The lines that equal an anchor: exactly, without blanks at the end, without blanks on both sides.
    fn all_like(&mut self, anchor: &str) -> Result<Vec<usize>, Nowhere> {
        let trims: [Trim; 3] = [without_return, <[u8]>::trim_ascii_end, <[u8]>::trim_ascii];
        for trim in trims {
            let wanted = trim(anchor.as_bytes());
            self.spend(self.lines.len() + self.bytes / 32)?;
            let lines = self.lines.iter().enumerate();
            let found: Vec<usize> = lines.filter(|(_, line)| trim(line.text) == wanted).map(|(at, _)| at).collect();
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Err(Nowhere::NoAnchor { anchor: anchor.to_owned() })
    }
}

/// The last of a chain of anchors: each is the first one after that before it.
fn chain(start: usize, further: &[Vec<usize>]) -> Option<usize> {
    further.iter().try_fold(start, |at, places| places.get(places.partition_point(|place| *place <= at)).copied())
}
