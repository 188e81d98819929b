//! Samples over time in bounded memory: all of the last hour, then the peaks of minutes, then the peaks of hours.

use std::collections::VecDeque;

use jiff::Timestamp;

/// A measurement.
pub(super) trait Sample: Copy {
    fn at(&self) -> Timestamp;
    /// The peaks of two samples, at the time of the later one.
    fn peak(self, later: Self) -> Self;
}

/// Width in seconds and number of the buckets of each level.
const LEVELS: [(i64, usize); 3] = [(0, 720), (60, 360), (3600, 744)];

/// Samples, oldest first.
#[derive(Debug)]
pub(super) struct History<T> {
    /// The finest level first. It holds the newest samples; what it drops goes to the next level.
    levels: [VecDeque<T>; 3],
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { levels: [VecDeque::new(), VecDeque::new(), VecDeque::new()] }
    }
}

impl<T: Sample> History<T> {
    pub(super) fn push(&mut self, sample: T) {
        let mut carried = Some(sample);
        for (level, (width, most)) in self.levels.iter_mut().zip(LEVELS) {
            let Some(sample) = carried.take() else { return };
            let bucket = |sample: &T| (width > 0).then(|| sample.at().as_second().div_euclid(width));
            match level.back_mut() {
                Some(last) if width > 0 && bucket(last) == bucket(&sample) => *last = last.peak(sample),
                _ => level.push_back(sample),
            }
            if level.len() > most {
                carried = level.pop_front();
            }
        }
    }

    /// The newest sample.
    pub(super) fn last(&self) -> Option<T> {
        self.levels[0].back().copied()
    }

    /// The samples within a range, oldest first.
    pub(super) fn between(&self, range: Range) -> impl Iterator<Item = T> {
        let all = self.levels.iter().rev().flatten().copied();
        all.filter(move |sample| range.contains(sample.at()))
    }
}

/// A range of Unix times in seconds, both ends included.
#[derive(Debug, Clone, Copy, Default)]
pub struct Range {
    /// First second; open if absent.
    pub start: Option<i64>,
    /// Last second; open if absent.
    pub end: Option<i64>,
}

impl Range {
    /// Whether a time is in the range.
    pub fn contains(&self, at: Timestamp) -> bool {
        let at = at.as_second();
        self.start.is_none_or(|start| start <= at) && self.end.is_none_or(|end| at <= end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Number(i64, u32);

    impl Sample for Number {
        fn at(&self) -> Timestamp {
            Timestamp::from_second(self.0).expect("a time")
        }

        fn peak(self, later: Self) -> Self {
            Self(later.0, self.1.max(later.1))
        }
    }

    fn filled(steps: &[(i64, u32)]) -> (History<Number>, Vec<Number>) {
        let (mut history, mut all, mut at) = (History::default(), vec![], 0);
        for (step, value) in steps {
            at += step;
            history.push(Number(at, *value));
            all.push(Number(at, *value));
        }
        (history, all)
    }

    proptest! {
        #[test]
        fn it_is_bounded_ordered_and_keeps_peaks(steps in prop::collection::vec((1i64..400, any::<u32>()), 1..4000)) {
            let (history, all) = filled(&steps);
            let kept: Vec<Number> = history.between(Range::default()).collect();
            prop_assert!(kept.len() <= LEVELS.iter().map(|l| l.1).sum());
            prop_assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
            prop_assert_eq!(history.last(), all.last().copied());
            let recent = all.len().min(LEVELS[0].1);
            prop_assert_eq!(&kept[kept.len() - recent..], &all[all.len() - recent..]);
            // At most 18 days: nothing has fallen out of the last level.
            prop_assert_eq!(kept.iter().map(|n| n.1).max(), all.iter().map(|n| n.1).max());
        }

        #[test]
        fn ranges_include_their_ends(steps in prop::collection::vec((1i64..10, any::<u32>()), 1..100), a in 0i64..500, b in 0i64..500) {
            let (history, all) = filled(&steps);
            let range = Range { start: Some(a), end: Some(b) };
            let wanted: Vec<Number> = all.into_iter().filter(|n| a <= n.0 && n.0 <= b).collect();
            prop_assert_eq!(history.between(range).collect::<Vec<_>>(), wanted);
        }
    }

    #[test]
    fn a_month_fits() {
        let (mut history, day) = (History::default(), 24 * 3600);
        for at in (0..30 * day).step_by(5) {
            history.push(Number(at, 1));
        }
        let kept: Vec<Number> = history.between(Range::default()).collect();
        assert!(kept[0].0 < 3600 && kept.len() < 1824, "{:?} {}", kept[0], kept.len());
    }

    #[test]
    fn a_clock_that_is_set_back_is_harmless() {
        let mut history = History::default();
        for n in 0..10_000 {
            history.push(Number((n * 7919) % 100_000, 1));
        }
        assert!(history.between(Range::default()).count() <= 1824);
    }
}
