//! Records the outcome of a build. Until then the build is `building` for every client, so a failed write is retried,
//! and an outcome that cannot be written becomes a failure.

use cabana_store::{Boot, Store};
use cabana_supervisor::Backoff;
use cabana_types::BuildId;
use cabana_types::error::chain;
use jiff::Timestamp;

use super::failure::Failure;
use super::finish::FINALIZE;

/// The outcome of a build: the boot configuration of its sandboxes, or why it failed.
pub(super) type Outcome = Result<Boot, Failure>;

/// The result of one try to write an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Written {
    Yes,
    /// The row is gone or final, so there is nothing to write.
    Pointless(String),
    /// It may work later.
    NotNow(String),
    /// This outcome can never be written.
    Never(String),
}

/// Writes the outcome of a build. Returns the outcome that was written.
pub(super) async fn settle(store: &Store, build: &BuildId, outcome: Outcome) -> Outcome {
    retry(build, outcome, |outcome| write(store.clone(), build.clone(), outcome)).await
}

async fn write(store: Store, build: BuildId, outcome: Outcome) -> Written {
    let now = Timestamp::now();
    let written = match outcome {
        Ok(boot) => store.finish_build(build, boot, now).await.map(drop),
        Err(Failure { step, message }) => {
            store.fail_build(build, Some(step).filter(|step| !step.is_empty()), message, now).await
        }
    };
    match written {
        Ok(()) => Written::Yes,
        Err(error) => judge(&error),
    }
}

fn judge(error: &cabana_store::Error) -> Written {
    use cabana_store::Error;
    let text = chain(error);
    match error {
        // Its template was deleted, or another request ended it: the next sweep removes the rest. If the store is
        // closed, the next start marks the build as interrupted.
        Error::NoBuild(_) | Error::BuildStatus { .. } | Error::Closed => Written::Pointless(text),
        error if error.is_transient() => Written::NotNow(text),
        _ => Written::Never(text),
    }
}

async fn retry<F>(build: &BuildId, mut outcome: Outcome, mut write: impl FnMut(Outcome) -> F) -> Outcome
where
    F: Future<Output = Written>,
{
    let mut backoff = Backoff::default();
    loop {
        match (write(outcome.clone()).await, &outcome) {
            (Written::Yes, _) => return outcome,
            (Written::Pointless(error), _) => {
                tracing::warn!(%build, error, "the result of a build was not written");
                return outcome;
            }
            (Written::Never(error), Ok(_)) => {
                tracing::error!(%build, error, "the result of a build cannot be written; it fails");
                outcome = Err(Failure::new(FINALIZE, format!("the store: {error}")));
                continue;
            }
            (Written::NotNow(error) | Written::Never(error), _) => {
                tracing::warn!(%build, error, "the result of a build could not be written; retrying");
            }
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> BuildId {
        BuildId::from_random([1; 16])
    }

    fn text(outcome: &Outcome) -> String {
        match outcome {
            Ok(_) => "ready".to_owned(),
            Err(failure) => format!("{}: {}", failure.step, failure.message),
        }
    }

    /// The outcomes that were attempted, given the results of the attempts.
    async fn tried(outcome: Outcome, results: &[Written]) -> (Vec<String>, String) {
        let mut seen = Vec::new();
        let id = id();
        let settled = retry(&id, outcome, |outcome| {
            seen.push(text(&outcome));
            std::future::ready(results[seen.len() - 1].clone())
        });
        let settled = text(&settled.await);
        assert_eq!(seen.len(), results.len());
        (seen, settled)
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_write_is_retried_until_it_succeeds() {
        let busy = || Written::NotNow("busy".to_owned());
        let start = tokio::time::Instant::now();
        let (seen, settled) = tried(Ok(Boot::default()), &[busy(), busy(), busy(), busy(), Written::Yes]).await;
        assert_eq!((seen, settled.as_str()), (vec!["ready".to_owned(); 5], "ready"));
        assert_eq!(start.elapsed().as_millis(), 250 + 500 + 1000 + 2000);
        let failure = || Err(Failure::new("3", "exit status 1"));
        let never = Written::Never("no".to_owned());
        let (seen, settled) = tried(failure(), &[busy(), never, Written::Yes]).await;
        assert_eq!((seen, settled.as_str()), (vec!["3: exit status 1".to_owned(); 3], "3: exit status 1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_cannot_be_written_becomes_a_failure() {
        let never = Written::Never("the name is taken".to_owned());
        let (seen, settled) = tried(Ok(Boot::default()), &[never, Written::Yes]).await;
        let failure = "finalize: the store: the name is taken";
        assert_eq!((seen, settled.as_str()), (vec!["ready".to_owned(), failure.to_owned()], failure));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_retried_without_a_waiter() {
        for error in [cabana_store::Error::NoBuild(id()), cabana_store::Error::Closed] {
            let (seen, _) = tried(Ok(Boot::default()), &[judge(&error)]).await;
            assert_eq!(seen.len(), 1);
        }
    }

    #[tokio::test]
    async fn outcomes_reach_the_store_once() {
        let dir = tempfile::tempdir().expect("directory");
        let store = Store::open(&dir.path().join("cabana.db")).await.expect("open");
        assert!(settle(&store, &id(), Ok(Boot::default())).await.is_ok(), "a build that was deleted");
        store.close().await;
        assert!(settle(&store, &id(), Err(Failure::new("", "x"))).await.is_err(), "a store that was closed");
    }
}
