//! The mark in the environment of a service's processes. Environments belong to the processes: they may be large, and say anything.

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

use cabana_types::guest::SERVICE_TAG;
use cabana_types::guest::services::MARK;

use super::MAX_TAG;
use crate::tools::owners;

/// How much is read of one process: more than the kernel lets a command of the host have.
const MAX_EACH: usize = 2 << 20;
/// How much is read of all together, until less is read of each.
const MAX_ALL: usize = 64 << 20;
/// How much is read of each from then on.
const MAX_LATER: usize = 16 << 10;
const PIECE: usize = 16 << 10;

/// Marks of processes that have one.
pub(super) fn marks(pids: impl Iterator<Item = u32>) -> Vec<(u32, String)> {
    let read_of_all = AtomicUsize::new(0);
    owners::look(pids, |pids| {
        let mut marks = Vec::new();
        for pid in pids {
            let limit = if read_of_all.load(Ordering::Relaxed) < MAX_ALL { MAX_EACH } else { MAX_LATER };
            // A process may end or be protected meanwhile.
            let Ok(environment) = File::open(format!("/proc/{pid}/environ")) else { continue };
            let (mark, read) = find(environment, limit);
            read_of_all.fetch_add(read, Ordering::Relaxed);
            marks.extend(mark.map(|mark| (*pid, mark)));
        }
        marks
    })
}

/// The first mark, and how many bytes were read.
fn find(mut environment: impl Read, limit: usize) -> (Option<String>, usize) {
    let mut piece = [0; PIECE];
    // Begin of the variable that is being read: no more than a mark has.
    let mut variable = Vec::with_capacity(MARK.len() + 1 + MAX_TAG + 1);
    let mut read = 0;
    while read < limit {
        let Ok(count @ 1..) = environment.read(&mut piece) else { break };
        read += count;
        let mut variables = piece.get(..count).unwrap_or_default().split(|byte| *byte == 0).peekable();
        while let Some(part) = variables.next() {
            variable.extend(part.iter().take(variable.capacity() - variable.len()));
            if variables.peek().is_some() {
                if let Some(mark) = parse(&variable) {
                    return (Some(mark), read);
                }
                variable.clear();
            }
        }
    }
    (parse(&variable), read)
}

/// The tag in `CABANA_SERVICE=TAG`.
fn parse(variable: &[u8]) -> Option<String> {
    let tag = variable.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
    let tag = std::str::from_utf8(tag).ok().filter(|tag| tag.len() <= MAX_TAG && tag.starts_with(SERVICE_TAG))?;
    (!tag.contains(char::is_control)).then(|| tag.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARKED: &[u8] = b"CABANA_SERVICE=service:a/1";

    fn found(environment: &[u8]) -> Option<String> {
        find(environment, MAX_EACH).0
    }

    #[test]
    fn finds_the_mark() {
        let mark = Some("service:a/1".to_owned());
        assert_eq!(found(MARKED), mark);
        assert_eq!(found(b"A=1\0CABANA_SERVICE=service:a/1\0B=2\0"), mark);
        assert_eq!(found(b"A=CABANA_SERVICE=service:a/1\0XCABANA_SERVICE=service:a/1\0"), None);
        assert_eq!(found(b"CABANA_SERVICE=other\0CABANA_SERVICE\0CABANA_SERVICE=service:\n\0"), None);
        let long = format!("CABANA_SERVICE=service:{}\0", "x".repeat(MAX_TAG));
        assert_eq!(found(long.as_bytes()), None);
        let late = [vec![b'x'; 1_500_000], b"\0".to_vec(), MARKED.to_vec()].concat();
        assert_eq!(found(&late), mark);
        assert_eq!(find(&late[..], MAX_LATER), (None, MAX_LATER));
        assert_eq!(find(std::io::repeat(b'x'), MAX_EACH), (None, MAX_EACH));
    }

    proptest! {
        #[test]
        fn at_any_position(before in 0usize..2 * PIECE, after in 0usize..2 * PIECE) {
            let environment = [&vec![b'x'; before][..], b"\0", MARKED, b"\0", &vec![b'y'; after][..]].concat();
            prop_assert_eq!(found(&environment), Some("service:a/1".to_owned()));
        }

        #[test]
        fn anything_else_has_none(environment in prop::collection::vec(any::<u8>(), 0..500)) {
            prop_assert_eq!(found(&environment), None);
        }
    }
}
