//! The chains of the packet filter that hold what policies decide. Sandboxes whose policies decide the same share one:
//! the kernel takes milliseconds for a thousand entries, and agents of one kind have the same policy. A large chain
//! stays for a while after its last sandbox, because the next one of that kind is likely.

use std::collections::BTreeMap;

use crate::ranges::Decided;

/// Entries of a chain that is worth keeping without a sandbox; the kernel makes smaller ones in less than a millisecond.
pub(crate) const LARGE: usize = 64;
/// Chains that are kept without a sandbox.
const SPARE: usize = 8;

/// Chains by their number.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    known: BTreeMap<u32, Chain>,
    /// The last number that was given.
    last: u32,
    /// Counts departures, to order them.
    departures: u64,
}

#[derive(Debug)]
struct Chain {
    decided: Decided,
    users: usize,
    /// When its last sandbox left.
    left: u64,
}

impl Chains {
    /// The chain that decides the same.
    pub(crate) fn find(&self, decided: &Decided) -> Option<u32> {
        self.known.iter().find(|(_, chain)| chain.decided == *decided).map(|(number, _)| *number)
    }

    /// A number that no chain has.
    pub(crate) fn unused(&self) -> u32 {
        let mut number = self.last.wrapping_add(1);
        while self.known.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        number
    }

    /// A sandbox begins to use a chain, which may be new.
    pub(crate) fn join(&mut self, number: u32, decided: Decided) {
        self.last = if self.known.contains_key(&number) { self.last } else { number };
        self.known.entry(number).or_insert(Chain { decided, users: 0, left: 0 }).users += 1;
    }

    /// Sandboxes stop using chains, and those of [`Chains::surplus`] are gone.
    pub(crate) fn leave(&mut self, leaving: &[u32], gone: &[u32]) {
        for number in leaving {
            self.departures += 1;
            if let Some(chain) = self.known.get_mut(number) {
                chain.users = chain.users.saturating_sub(1);
                chain.left = self.departures;
            }
        }
        self.known.retain(|number, _| !gone.contains(number));
    }

    /// The chains to delete when sandboxes leave theirs, one number for each, and one joins another.
    pub(crate) fn surplus(&self, leaving: &[u32], joining: Option<u32>) -> Vec<u32> {
        let users = |number: &u32, chain: &Chain| {
            chain.users.saturating_sub(leaving.iter().filter(|other| *other == number).count())
        };
        let is_unused = |number: &u32, chain: &Chain| joining != Some(*number) && users(number, chain) == 0;
        let unused = self.known.iter().filter(|(number, chain)| is_unused(number, chain));
        let (mut large, small): (Vec<_>, Vec<_>) = unused.partition(|(_, chain)| chain.decided.len() > LARGE);
        // The last to leave are the first to stay.
        large.sort_by_key(|(number, chain)| (leaving.contains(*number), chain.left));
        let most = large.len().saturating_sub(SPARE);
        small.iter().chain(&large[..most]).map(|(number, _)| **number).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn decided(first: u32, length: u32) -> Decided {
        let single = (first..first + length).map(|n| (Ipv4Addr::from_bits(n), 7)).collect();
        Decided { single, ..Decided::default() }
    }

    fn add(chains: &mut Chains, decided: Decided) -> u32 {
        let number = chains.find(&decided).unwrap_or_else(|| chains.unused());
        chains.join(number, decided);
        number
    }

    fn remove(chains: &mut Chains, number: u32) -> Vec<u32> {
        let gone = chains.surplus(&[number], None);
        chains.leave(&[number], &gone);
        gone
    }

    #[test]
    fn equal_ones_are_shared_and_small_ones_not_kept() {
        let mut chains = Chains::default();
        let first = add(&mut chains, decided(1, 2));
        assert_eq!(add(&mut chains, decided(1, 2)), first);
        assert_ne!(add(&mut chains, decided(1, 3)), first);
        assert!(remove(&mut chains, first).is_empty(), "another sandbox uses it");
        assert_eq!(remove(&mut chains, first), [first]);
        assert_eq!(chains.find(&decided(1, 2)), None);
        assert_eq!(chains.surplus(&[2, 2], Some(2)), [] as [u32; 0], "a sandbox goes on to use it");
    }

    #[test]
    fn some_large_ones_are_kept() {
        let mut chains = Chains::default();
        let numbers: Vec<u32> = (0..12).map(|n| add(&mut chains, decided(1000 * (n + 1), 500))).collect();
        let gone: Vec<u32> = numbers.iter().flat_map(|number| remove(&mut chains, *number)).collect();
        assert_eq!(gone, numbers[..12 - SPARE], "the oldest go first");
        assert_eq!(chains.find(&decided(12_000, 500)), Some(numbers[11]));
        assert_eq!(add(&mut chains, decided(12_000, 500)), numbers[11]);
        assert!(!numbers.contains(&add(&mut chains, decided(1, 1))), "numbers are not used twice");
    }

    #[test]
    fn several_leave_at_once() {
        let mut chains = Chains::default();
        let (one, two) = (add(&mut chains, decided(1, 1)), add(&mut chains, decided(2, 1)));
        chains.join(one, decided(1, 1));
        assert_eq!(chains.surplus(&[one, two], None), [two]);
        assert_eq!(chains.surplus(&[one, one, two], None), [one, two]);
    }
}
