//! `POST /find`: fuzzy search for paths.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cabana_types::guest::tools::{Find, FindAnswer, FindKind};
use cabana_types::tool::ToolErrorCode as Code;

use super::Cancel;
use super::fuzzy::{Query, Scratch};
use super::place::{self, Place};
use super::refuse::{Refused, plain};
use super::walk::{Entry, Visitor, Walk};

const MAX_ENTRIES: u64 = 2_000_000;
const MAX_LIMIT: usize = 5_000;
const MAX_QUERY: usize = 1024;

/// A found path. The best is the least: highest score, then shortest, then first by name.
type Found = (Reverse<i32>, usize, String);

struct Finder<'a> {
    walk: &'a Walk<'a>,
    query: &'a Query,
    kind: FindKind,
    limit: usize,
    scratch: Scratch,
    best: BinaryHeap<Found>,
    total: u64,
}

impl Visitor for Finder<'_> {
    fn visit(&mut self, entry: &Entry<'_>) {
        let is_dir = entry.kind.is_dir();
        if (self.kind == FindKind::File && is_dir) || (self.kind == FindKind::Directory && !is_dir) {
            return;
        }
        let mut path = place::relative(entry.path, &self.walk.root);
        let Some(score) = self.query.score(&path, &mut self.scratch) else { return };
        if is_dir {
            path.push('/');
        }
        self.total += 1;
        self.best.push((Reverse(score), path.len(), path));
        if self.best.len() > self.limit {
            self.best.pop();
        }
    }
}

/// Finds paths.
pub(crate) fn find(request: &Find, place: &Place, cancel: &Cancel) -> Result<FindAnswer, Refused> {
    let root = place.resolve(&request.path)?;
    let query = Query::new(&request.query);
    if query.is_empty() || request.query.len() > MAX_QUERY {
        return Err(plain(
            Code::InvalidArguments,
            format!("the query must have 1 to {MAX_QUERY} bytes, not only blanks"),
        ));
    }
    let limit = request.limit.clamp(1, MAX_LIMIT);
    let walk = Walk::open(&root, request.ignored, MAX_ENTRIES, cancel)?;
    let (finders, complete) = walk.run(|| Finder {
        walk: &walk,
        query: &query,
        kind: request.kind,
        limit,
        scratch: Scratch::default(),
        best: BinaryHeap::new(),
        total: 0,
    });
    cancel.check()?;
    let total = finders.iter().map(|finder| finder.total).sum();
    let mut best: Vec<Found> = finders.into_iter().flat_map(|finder| finder.best).collect();
    best.sort_unstable();
    best.truncate(limit);
    let paths: Vec<String> = best.into_iter().map(|(_, _, path)| path).collect();
    let truncated = !complete || total > paths.len() as u64;
    Ok(FindAnswer { paths, total, truncated })
}
