//! Where a hunk belongs: by its lines, never by a guess.

use super::{Form, Hunk, Line, Op};

/// Comparisons of lines for one file, each counted with 1 and one more for every 32 bytes.
const WORK: u64 = 30_000_000;
/// Places that an error lists at most.
pub(super) const LISTED: usize = 20;

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileLine<'a> {
    /// Without `\n`; a `\r` before it is part of the text.
    pub(super) text: &'a [u8],
    /// Whether a `\n` follows: false at most for the last line.
    pub(super) newline: bool,
}

/// The lines of a file.
pub(super) fn split(content: &[u8]) -> Vec<FileLine<'_>> {
    let lines = content.split_inclusive(|byte| *byte == b'\n');
    lines
        .map(|line| match line.strip_suffix(b"\n") {
            Some(text) => FileLine { text, newline: true },
            None => FileLine { text: line, newline: false },
        })
        .collect()
}

/// How closely lines must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Exact,
    /// A `\r` before the end does not count.
    LineEnds,
    /// Blanks at the end do not count, nor does the newline at the end of the file.
    Blanks,
}

impl Form {
    /// The levels that are tried, in this order. Hunks without line numbers never tell line ends apart.
    pub(super) fn levels(self) -> &'static [Level] {
        match self {
            Self::Unified => &[Level::Exact, Level::LineEnds, Level::Blanks],
            Self::Sections => &[Level::LineEnds, Level::Blanks],
        }
    }
}

/// Where a hunk belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Index of the first line.
    pub(super) at: usize,
    pub(super) level: Level,
}

/// Why a hunk has no place. Indexes of lines are from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Nowhere {
    NotFound { near: Option<usize> },
    Ambiguous { places: Vec<usize> },
    OutOfOrder { at: usize },
    NoContext,
    NoAnchor { anchor: String },
    TooComplex,
}

/// A hunk that has its place.
#[derive(Debug, Clone, Copy)]
struct Done {
    start: usize,
    end: usize,
    /// Lines that the file has more after it than before, through this hunk and those before it.
    delta: i64,
}

/// Finds the places of the hunks of one file, in order.
#[derive(Debug)]
pub(super) struct Finder<'a> {
    pub(super) lines: &'a [FileLine<'a>],
    pub(super) form: Form,
    /// All bytes of `lines`.
    pub(super) bytes: usize,
    done: Vec<Done>,
    /// How far the hunk before was from where its line number says.
    drift: i64,
    work: u64,
}

impl<'a> Finder<'a> {
    pub(super) fn new(lines: &'a [FileLine<'a>], form: Form) -> Self {
        let bytes = lines.iter().map(|line| line.text.len()).sum();
        Self { lines, form, bytes, done: Vec::new(), drift: 0, work: WORK }
    }

    /// Finds the place of the next hunk.
    pub(super) fn place(&mut self, hunk: &Hunk) -> Result<Place, Nowhere> {
        let old = hunk.old_lines();
        let place = if old.is_empty() {
            self.without_lines(hunk)
        } else if !hunk.anchors.is_empty() && hunk.range.is_none() {
            match self.after_anchors(hunk, &old) {
                // Lines that fit in one place alone need no anchor.
                Err(Nowhere::NoAnchor { anchor }) => {
                    self.by_lines(hunk, &old).map_err(|_| Nowhere::NoAnchor { anchor })
                }
                place => place,
            }
        } else if self.form == Form::Unified && hunk.range.is_some() {
            self.as_git(hunk, &old)
        } else {
            self.by_lines(hunk, &old)
        }?;
        let added = hunk.lines.iter().filter(|line| line.op != Op::Remove).count();
        let delta = self.delta() + signed(added) - signed(old.len());
        self.drift = self.nominal(hunk).map_or(0, |nominal| signed(place.at) - nominal);
        self.done.push(Done { start: place.at, end: place.at + old.len(), delta });
        Ok(place)
    }

    /// The index of the first line that no hunk has taken.
    pub(super) fn free(&self) -> usize {
        self.done.last().map_or(0, |done| done.end)
    }

    fn delta(&self) -> i64 {
        self.done.last().map_or(0, |done| done.delta)
    }

    /// The index where the hunk should be by its line number, if all hunks before it are where they were found.
    fn nominal(&self, hunk: &Hunk) -> Option<i64> {
        let range = hunk.range?;
        let length = signed(self.lines.len());
        let nominal = match self.form {
            Form::Unified => signed(range.new.saturating_sub(1)) - self.delta(),
            Form::Sections => signed(range.old.saturating_sub(1)),
        };
        Some(nominal.clamp(0, length))
    }

    /// A hunk that only adds lines.
    fn without_lines(&mut self, hunk: &Hunk) -> Result<Place, Nowhere> {
        let end = self.lines.len();
        let at = |at| Ok(Place { at, level: Level::Exact });
        if end == 0 || (self.form == Form::Sections && hunk.at_end) {
            return at(end);
        }
        if !hunk.anchors.is_empty() {
            let mut places = self.anchored(hunk, |finder, from| Ok(Some(from.max(finder.free()))))?;
            return if places.len() == 1 { at(places.remove(0)) } else { Err(Nowhere::Ambiguous { places }) };
        }
        // git puts such hunks at the end, wherever the line number says they belong.
        let appends = hunk.range.is_some_and(|range| range.old > 1) && self.nominal(hunk) == Some(signed(end));
        if appends { at(end) } else { Err(Nowhere::NoContext) }
    }

    /// Hunks with line numbers. Git lets a hunk that begins at line 1 fit at the beginning only, and one without context at its end at the
    /// end only; others fit nearest to their line number.
    fn as_git(&mut self, hunk: &Hunk, old: &[&Line]) -> Result<Place, Nowhere> {
        let near = self.nominal(hunk).and_then(|near| usize::try_from(near).ok());
        let Some(last) = self.lines.len().checked_sub(old.len()) else { return Err(Nowhere::NotFound { near }) };
        let at_begin = hunk.range.is_some_and(|range| range.old <= 1);
        let at_end = hunk.at_end || hunk.lines.last().is_some_and(|line| line.op != Op::Context);
        for &level in self.form.levels() {
            if !at_begin && !at_end {
                let places = self.fits(0..=last, old, level)?;
                if let Some(at) = self.nearest(hunk, old.len(), &places)? {
                    return Ok(Place { at, level });
                }
                continue;
            }
            let at = if at_begin { 0 } else { last };
            let possible = at >= self.free() && (!at_end || at == last);
            if !possible || !self.fits_at(at, old, level)? {
                continue;
            }
            if let Some(other) = self.nearer_without_newline(hunk, old, at, near)? {
                return Err(Nowhere::Ambiguous { places: vec![other, at] });
            }
            // Where the line number says something else, and the hunk fits there too, git's choice is a guess.
            if let Some(other) = near.filter(|near| *near != at && *near >= self.free() && *near <= last)
                && self.fits_at(other, old, level)?
            {
                return Err(Nowhere::Ambiguous { places: vec![at.min(other), at.max(other)] });
            }
            return Ok(Place { at, level });
        }
        if hunk.at_end {
            return Err(Nowhere::NotFound { near: Some(last) });
        }
        if !at_begin && !at_end {
            return Err(Nowhere::NotFound { near });
        }
        self.by_lines(hunk, old)
    }

    /// A place nearer to the line number than the end, where a hunk fits whose context ends with the file without a newline, but for that
    /// newline: git would take it.
    fn nearer_without_newline(
        &mut self,
        hunk: &Hunk,
        old: &[&Line],
        end: usize,
        near: Option<usize>,
    ) -> Result<Option<usize>, Nowhere> {
        let Some((last, before)) = old.split_last().filter(|_| hunk.at_end) else { return Ok(None) };
        let near = near.unwrap_or(end);
        let distance = near.abs_diff(end);
        for at in near.saturating_sub(distance).max(self.free())..end.min(near + distance + 1) {
            let fits = self.fits_at(at, before, Level::Exact)?;
            if fits && self.lines[at + before.len()].text == last.text.as_bytes() {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// The place nearest to the line number: as git counts, and with the drift of the hunk before. Both must name the same place.
    fn nearest(&self, hunk: &Hunk, length: usize, places: &[usize]) -> Result<Option<usize>, Nowhere> {
        // Hunks are in order, so that those before a line can be found by bisection.
        let before = |at: usize| self.done.partition_point(|done| done.end <= at);
        let free = |at: &usize| self.done.get(before(*at)).is_none_or(|done| at + length <= done.start);
        let places: Vec<usize> = places.iter().copied().filter(free).collect();
        let Some(nominal) = self.nominal(hunk) else { return Ok(None) };
        let wanted = nominal + self.delta();
        // Distances count in the file as it is after the hunks before.
        let now = |at: usize| signed(at) + before(at).checked_sub(1).map_or(0, |index| self.done[index].delta);
        let closest = |wanted: i64| {
            let least = places.iter().map(|at| (now(*at) - wanted).abs()).min();
            places.iter().copied().filter(move |at| Some((now(*at) - wanted).abs()) == least).collect::<Vec<_>>()
        };
        let (by_line, by_drift) = (closest(wanted), closest(wanted + self.drift));
        match by_line.as_slice() {
            [] => Ok(None),
            [at] if by_drift != by_line => {
                let mut places = by_drift;
                places.push(*at);
                places.sort_unstable();
                places.dedup();
                Err(Nowhere::Ambiguous { places })
            }
            [at] if *at < self.free() => Err(Nowhere::OutOfOrder { at: *at }),
            [at] => Ok(Some(*at)),
            several => Err(Nowhere::Ambiguous { places: several.to_vec() }),
        }
    }

    /// Hunks that only their lines place: they must fit in one place.
    fn by_lines(&mut self, hunk: &Hunk, old: &[&Line]) -> Result<Place, Nowhere> {
        let near = self.nominal(hunk).and_then(|near| usize::try_from(near).ok());
        let Some(last) = self.lines.len().checked_sub(old.len()) else { return Err(Nowhere::NotFound { near }) };
        let mut earlier = None;
        for &level in self.form.levels() {
            if hunk.at_end {
                if last >= self.free() && self.fits_at(last, old, level)? {
                    return Ok(Place { at: last, level });
                }
                continue;
            }
            let mut places = self.fits(0..=last, old, level)?;
            if self.form == Form::Sections {
                // Hunks come in order: what lies before belongs to no later hunk.
                earlier = earlier.or_else(|| places.first().copied());
                places.retain(|at| *at >= self.free());
                if hunk.range.is_some()
                    && let Some(at) = self.nearest(hunk, old.len(), &places)?
                {
                    return Ok(Place { at, level });
                }
            }
            match places.as_slice() {
                [] => {}
                [at] if *at < self.free() => return Err(Nowhere::OutOfOrder { at: *at }),
                [at] => return Ok(Place { at: *at, level }),
                // The line number says which, unless the hunk before was not where its number says.
                several => {
                    match near.filter(|near| self.drift == 0 && *near >= self.free() && several.contains(near)) {
                        Some(at) => return Ok(Place { at, level }),
                        None => return Err(Nowhere::Ambiguous { places: places.into_iter().take(LISTED).collect() }),
                    }
                }
            }
        }
        match earlier {
            Some(at) => Err(Nowhere::OutOfOrder { at }),
            None => Err(Nowhere::NotFound { near: if hunk.at_end { Some(last) } else { near } }),
        }
    }

    /// All places in a range where the lines fit.
    pub(super) fn fits(
        &mut self,
        range: std::ops::RangeInclusive<usize>,
        old: &[&Line],
        level: Level,
    ) -> Result<Vec<usize>, Nowhere> {
        let mut places = Vec::new();
        for at in range {
            if self.fits_at(at, old, level)? {
                places.push(at);
            }
        }
        Ok(places)
    }

    fn fits_at(&mut self, at: usize, old: &[&Line], level: Level) -> Result<bool, Nowhere> {
        Ok(self.matching(at, old, level)? == old.len())
    }

    /// How many of the lines fit from a place on.
    pub(super) fn matching(&mut self, at: usize, old: &[&Line], level: Level) -> Result<usize, Nowhere> {
        let mut matched = 0;
        for (line, there) in old.iter().zip(self.lines.get(at..).unwrap_or_default()) {
            // Removing blanks looks at both lines, comparing at most at the shorter one.
            let (wanted, found) = (line.text.len(), there.text.len());
            let bytes = if level == Level::Blanks { wanted + found } else { wanted.min(found) };
            self.spend(1 + bytes / 32)?;
            if !equal(there, line, level, self.form) {
                break;
            }
            matched += 1;
        }
        Ok(matched)
    }

    pub(super) fn spend(&mut self, work: usize) -> Result<(), Nowhere> {
        let left = self.work.checked_sub(work.try_into().unwrap_or(u64::MAX));
        self.work = left.ok_or(Nowhere::TooComplex)?;
        Ok(())
    }
}

fn equal(there: &FileLine<'_>, line: &Line, level: Level, form: Form) -> bool {
    let text = line.text.as_bytes();
    // What a diff says of a missing newline must be so; what it does not say is a difference in blanks.
    let newline = match (level, form) {
        (_, Form::Sections) => true,
        (Level::Blanks, Form::Unified) => line.newline || !there.newline,
        (_, Form::Unified) => there.newline == line.newline,
    };
    newline
        && match level {
            Level::Exact => there.text == text,
            Level::LineEnds => without_return(there.text) == without_return(text),
            Level::Blanks => there.text.trim_ascii_end() == text.trim_ascii_end(),
        }
}

/// A line without the `\r` at its end.
pub(super) fn without_return(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r").unwrap_or(text)
}

fn signed(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
