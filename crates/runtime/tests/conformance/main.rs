//! What every isolation backend must do, as named cases. Each states the fact that it needs; where a backend does not
//! declare the fact, the suite checks that the operation is refused. Runs on the fake and on the native backend; native
//! needs root. After every case the backend must have left nothing on the machine. `CABANA_CASE=name` runs the cases
//! whose name contains the text.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod adopting;
mod disks;
mod fake;
mod fixture;
mod launching;
mod links;
mod native;
mod pausing;
mod refusals;
mod teardown;
mod vitals;

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;

use crate::fixture::Fixture;

/// The fact that a case requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    RamPause,
    Checkpoint,
    Mounts,
    Snapshots,
    Quota,
}

struct Case {
    name: &'static str,
    needs: Needs,
    run: for<'a> fn(&'a mut Fixture) -> BoxFuture<'a, ()>,
}

/// Cases of a module: `cases![Need: function, …]`; a case is named by its function.
macro_rules! cases {
    ($($needs:ident: $run:ident),* $(,)?) => {
        pub(crate) fn cases() -> Vec<crate::Case> {
            vec![$(crate::Case {
                name: stringify!($run),
                needs: crate::Needs::$needs,
                run: |fixture| Box::pin($run(fixture)),
            }),*]
        }
    };
}
pub(crate) use cases;

/// A case that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn offers(fixture: &Fixture, needs: Needs) -> bool {
    let (facts, disks) = (fixture.isolation().facts(), fixture.disks().facts());
    match needs {
        Needs::Nothing => true,
        Needs::RamPause => facts.ram_pause,
        Needs::Checkpoint => facts.checkpoint.is_some(),
        Needs::Mounts => facts.mounts,
        Needs::Snapshots => disks.snapshots,
        Needs::Quota => disks.quota,
    }
}

async fn conform(mut fixture: Fixture) {
    let wanted = std::env::var("CABANA_CASE").unwrap_or_default();
    let groups =
        [launching::cases(), links::cases(), adopting::cases(), pausing::cases(), vitals::cases(), disks::cases()];
    let (mut ran, mut failed) = (0, Vec::new());
    let all = groups.into_iter().flatten().chain(teardown::cases()).chain(refusals::cases());
    let mut names = std::collections::HashSet::new();
    for case in all.filter(|case| case.name.contains(&wanted)) {
        assert!(names.insert(case.name), "{} is there twice", case.name);
        // A refusal is checked where the fact is absent, every other case where it is there.
        let refusal = case.name.ends_with("_is_refused");
        if offers(&fixture, case.needs) == refusal {
            continue;
        }
        let begun = Instant::now();
        let outcome = AssertUnwindSafe(tokio::time::timeout(LIMIT, (case.run)(&mut fixture))).catch_unwind().await;
        let problem = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(_)) => Some("took too long".to_owned()),
            Err(panic) => Some(text(&*panic)),
        };
        // What the case launched is its own to destroy: only a failed one is cleaned up for the next.
        let left = fixture.leftovers().await;
        if problem.is_some() || !left.is_empty() {
            fixture.clean().await;
        }
        let problem = problem.or_else(|| (!left.is_empty()).then(|| format!("left {left:?}")));
        eprintln!("{} {} {:?} {}", fixture.name(), case.name, begun.elapsed(), problem.as_deref().unwrap_or("ok"));
        ran += 1;
        failed.extend(problem.map(|problem| format!("{}: {problem}", case.name)));
    }
    let collisions = fixture.close().await;
    assert!(failed.is_empty(), "{} of {ran} cases failed:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(collisions, [], "the suite itself ran two operations on one sandbox");
    assert!(ran > 40 || !wanted.is_empty(), "only {ran} cases ran");
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_else(|| "panicked".into())
}

#[tokio::test(flavor = "multi_thread")]
async fn fake_backend() {
    conform(fake::fixture()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn native_backend() {
    conform(native::fixture().await).await;
}
