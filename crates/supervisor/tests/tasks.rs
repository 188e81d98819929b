//! Supervised tasks that panic, return and hang.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cabana_supervisor::{Fatal, Restart, Supervisor};
use tokio::sync::mpsc;
use tokio::time::Instant;

const LIMIT: Duration = Duration::from_secs(5);

/// Sends the time of each run.
fn runs() -> (mpsc::UnboundedSender<Instant>, mpsc::UnboundedReceiver<Instant>) {
    mpsc::unbounded_channel()
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_is_restarted_with_backoff() {
    let supervisor = Supervisor::new();
    let (sender, mut seen) = runs();
    let policy = Restart::forever().delays(Duration::from_secs(1), Duration::from_secs(4));
    supervisor.restart("worker", policy, move |_stop| {
        let sender = sender.clone();
        async move {
            sender.send(Instant::now()).expect("send");
            panic!("on purpose") as ()
        }
    });
    let mut times = Vec::new();
    for _ in 0..6 {
        times.push(seen.recv().await.expect("a run"));
    }
    let delays: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(delays, [1, 2, 4, 4, 4]);
    assert_eq!(supervisor.restarts("worker"), 5);
    assert_eq!(supervisor.stop(LIMIT).await, Vec::<&str>::new());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_is_restarted_too() {
    let supervisor = Supervisor::new();
    let (sender, mut seen) = runs();
    let count = Arc::new(AtomicUsize::new(0));
    supervisor.restart("worker", Restart::forever(), move |stop| {
        let (sender, run) = (sender.clone(), count.fetch_add(1, Ordering::Relaxed));
        async move {
            sender.send(Instant::now()).expect("send");
            match run {
                0 => Ok(()),
                1 => Err("no more files"),
                _ => {
                    stop.cancelled().await;
                    Ok(())
                }
            }
        }
    });
    for _ in 0..3 {
        seen.recv().await.expect("a run");
    }
    assert_eq!(supervisor.tasks(), ["worker"]);
    assert!(supervisor.stop(LIMIT).await.is_empty());
    assert!(seen.recv().await.is_none(), "it is not started again after the stop");
    assert!(supervisor.tasks().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_factory_that_panics_is_a_failure_like_any_other() {
    let supervisor = Supervisor::new();
    let count = Arc::new(AtomicUsize::new(0));
    let (ready, mut is_ready) = mpsc::unbounded_channel();
    supervisor.restart("worker", Restart::forever(), move |stop| {
        assert!(count.fetch_add(1, Ordering::Relaxed) > 0, "on purpose");
        ready.send(()).expect("send");
        async move { stop.cancelled().await }
    });
    is_ready.recv().await.expect("a second run");
    assert_eq!(supervisor.restarts("worker"), 1);
}

#[tokio::test(start_paused = true)]
async fn repeated_failures_end_the_process() {
    let supervisor = Supervisor::new();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let policy = Restart::forever().escalate_after(3, Duration::from_secs(60));
    supervisor.scope().scope().restart("outer", policy.clone(), |stop| async move { stop.cancelled().await });
    let scope = supervisor.scope();
    scope.restart("worker", policy, move |_stop| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { panic!("on purpose") as () }
    });
    let fatal = supervisor.fatal().await;
    let reason = "panicked: on purpose (too many failures in a short time)".to_owned();
    assert_eq!(fatal, Fatal { task: "worker", reason });
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert!(scope.tasks().is_empty());
    assert_eq!(supervisor.fatal().await, fatal, "later waiters get it too");
}

#[tokio::test(start_paused = true)]
async fn failures_that_are_far_apart_do_not_end_the_process() {
    let supervisor = Supervisor::new();
    let (sender, mut seen) = runs();
    let policy = Restart::forever().escalate_after(2, Duration::from_secs(60));
    supervisor.restart("worker", policy, move |_stop| {
        let sender = sender.clone();
        async move {
            sender.send(Instant::now()).expect("send");
            tokio::time::sleep(Duration::from_secs(61)).await;
            panic!("on purpose") as ()
        }
    });
    for _ in 0..5 {
        seen.recv().await.expect("a run");
    }
    let fatal = tokio::time::timeout(Duration::from_secs(1), supervisor.fatal()).await;
    assert!(fatal.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_the_backoff_takes_effect_at_once() {
    let supervisor = Supervisor::new();
    let (sender, mut seen) = runs();
    let policy = Restart::forever().delays(Duration::from_secs(3600), Duration::from_secs(3600));
    supervisor.restart("worker", policy, move |_stop| {
        let sender = sender.clone();
        async move {
            sender.send(Instant::now()).expect("send");
            panic!("on purpose") as ()
        }
    });
    let first = seen.recv().await.expect("a run");
    assert!(supervisor.stop(LIMIT).await.is_empty());
    assert!(first.elapsed() < Duration::from_secs(1));
    assert!(seen.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_essential_task_that_fails_ends_the_process() {
    let panicked = Supervisor::new();
    panicked.essential("writer", |_stop| async { panic!("on purpose") as () });
    assert_eq!(panicked.fatal().await.reason, "panicked: on purpose");

    let returned = Supervisor::new();
    returned.essential("writer", |_stop| async {});
    assert_eq!(returned.fatal().await.reason, "ended unexpectedly");

    let failed = Supervisor::new();
    failed.essential("writer", |_stop| async { Err("the disk is full") });
    assert_eq!(
        failed.fatal().await.to_string(),
        "the task \"writer\" failed and the server cannot run without it: the disk is full"
    );

    let stopped = Supervisor::new();
    stopped.essential("writer", |stop| async move { stop.cancelled().await });
    assert!(stopped.stop(LIMIT).await.is_empty());
    assert!(tokio::time::timeout(LIMIT, stopped.fatal()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn tasks_that_do_not_stop_are_dropped_after_the_limit() {
    let supervisor = Supervisor::new();
    let (alive, mut dropped) = mpsc::channel::<()>(1);
    supervisor.restart("stuck", Restart::forever(), move |_stop| {
        let alive = alive.clone();
        async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        }
    });
    supervisor.restart("polite", Restart::forever(), |stop| async move { stop.cancelled().await });
    tokio::task::yield_now().await;
    assert_eq!(supervisor.stop(LIMIT).await, ["stuck"]);
    assert!(dropped.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_drops_the_tasks() {
    let supervisor = Supervisor::new();
    let (alive, mut dropped) = mpsc::channel::<()>(1);
    supervisor.restart("worker", Restart::forever(), move |_stop| {
        let alive = alive.clone();
        async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        }
    });
    tokio::task::yield_now().await;
    drop(supervisor);
    assert!(dropped.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_scope_stops_alone() {
    let supervisor = Supervisor::new();
    let scope = supervisor.scope();
    for each in [&supervisor, &scope] {
        each.restart("worker", Restart::forever(), |stop| async move { stop.cancelled().await });
    }
    assert!(scope.stop(LIMIT).await.is_empty());
    assert!(scope.tasks().is_empty());
    assert_eq!(supervisor.tasks(), ["worker"]);
}

#[tokio::test]
async fn a_thread_is_restarted_after_panics_and_errors() {
    let supervisor = Supervisor::new();
    let (sender, mut seen) = mpsc::unbounded_channel();
    let count = AtomicUsize::new(0);
    let policy = Restart::forever().delays(Duration::from_millis(1), Duration::from_millis(1));
    supervisor.restart_thread("slot builder of the network", policy, move |stop| {
        let (sender, run) = (sender.clone(), count.fetch_add(1, Ordering::Relaxed));
        async move {
            let name = std::thread::current().name().map(str::to_owned);
            sender.send(name).expect("send");
            assert!(run > 0, "on purpose");
            if run == 1 {
                return Err("on purpose");
            }
            stop.cancelled().await;
            Ok(())
        }
    });
    for _ in 0..3 {
        assert_eq!(seen.recv().await.expect("a run").as_deref(), Some("slot builder of"));
    }
    assert_eq!(supervisor.restarts("slot builder of the network"), 2);
    assert!(supervisor.stop(LIMIT).await.is_empty());
}

#[tokio::test]
async fn tests_can_panic_a_task_by_its_name() {
    let supervisor = Supervisor::new();
    let (sender, mut seen) = mpsc::unbounded_channel();
    let policy = Restart::forever().delays(Duration::from_millis(1), Duration::from_millis(1));
    let again = sender.clone();
    supervisor.restart("task", policy.clone(), move |stop| {
        sender.send("task").expect("send");
        async move { stop.cancelled().await }
    });
    assert_eq!(seen.recv().await, Some("task"));
    supervisor.scope().inject_panic("other");
    assert!(supervisor.scope().inject_panic("task"));
    assert_eq!(seen.recv().await, Some("task"));
    assert_eq!(supervisor.restarts("task"), 1);

    let threads = supervisor.scope();
    threads.restart_thread("thread", policy, move |stop| {
        again.send("thread").expect("send");
        async move { stop.cancelled().await }
    });
    assert_eq!(seen.recv().await, Some("thread"));
    supervisor.inject_panic("thread");
    assert_eq!(seen.recv().await, Some("thread"));
    assert!(threads.stop(LIMIT).await.is_empty());
    assert!(supervisor.stop(LIMIT).await.is_empty());
}
