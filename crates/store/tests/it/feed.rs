//! The feed of committed changes.

use std::time::Duration;

use cabana_store::{BuildLine, Change, Changes, LogLevel, event};
use cabana_types::quota::Limits;
use cabana_types::sandbox::EndCause;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::timeout;

use crate::{TestDatabase, at, build, given, insert, key_id, sandbox, sandbox_id, team, template_id};

/// The changes so far, in words.
fn told(changes: &mut Changes) -> Vec<String> {
    let mut told = vec![];
    loop {
        match changes.try_recv() {
            Ok(Change::Event(event)) => {
                assert_eq!(event.team, team().id);
                told.push(format!("{} {}", event.sandbox, event.kind.rsplit('.').next().expect("kind")));
            }
            Ok(Change::Template { id, team, public, .. }) => {
                told.push(format!("template {} {team} {public}", id == template_id()));
            }
            Ok(Change::Build(id)) => told.push(format!("build {}", id == build(1).id)),
            Ok(Change::BuildLog(id)) => told.push(format!("log {}", id == build(1).id)),
            Err(TryRecvError::Empty) => return told,
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn what_is_committed_is_told_and_what_is_rolled_back_is_not() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    let mut changes = store.changes().await.expect("listen");
    assert_eq!(told(&mut changes), [""; 0], "nothing from before");
    let id = sandbox_id(1);
    store.started(id.clone(), at(1), at(301)).await.expect("up");
    store.note(id.clone(), "oom", serde_json::json!({}), at(2)).await.expect("note");
    store.note(id.clone(), "oom", serde_json::json!({}), at(3)).await.expect("replaces the last one");
    // Its event is written before it fails.
    let mut broken = sandbox(2);
    broken.team = "nobody".parse().expect("id");
    store.insert_sandbox(broken, key_id(1), Limits::default()).await.expect_err("there is no such team");
    store.end(id.clone(), EndCause::Expired, at(4)).await.expect("end");
    store.end(id.clone(), EndCause::Expired, at(5)).await.expect_err("ending already");
    let expected = ["created", "updated", "updated", "ending"].map(|kind| format!("{id} {kind}"));
    assert_eq!(told(&mut changes), expected);
    let mut nanoseconds = sandbox(3);
    nanoseconds.created_at = at(1) + std::time::Duration::from_nanos(1_234_567);
    insert(&store, nanoseconds).await;
    let Ok(Change::Event(event)) = changes.recv().await else { panic!("an event") };
    assert_eq!(event.at, at(1) + std::time::Duration::from_nanos(1_234_000), "the time as it is stored");
    let newest = store.sandboxes_by_id([&id, &sandbox_id(9)]).await.expect("rows");
    assert_eq!(newest.iter().map(|row| (&row.id, row.state.name())).collect::<Vec<_>>(), [(&id, "ending")]);
}

#[tokio::test]
async fn templates_and_builds_are_told() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let mut changes = store.changes().await.expect("listen");
    let line = BuildLine { at: at(1), level: LogLevel::Info, step: None, message: "m".into() };
    store.append_build_log(build(1).id, vec![line]).await.expect("append");
    assert_eq!(told(&mut changes), ["log true"]);
    store.set_public(template_id(), false, at(2)).await.expect("private");
    assert_eq!(
        told(&mut changes),
        ["template true default true", "template true default false"],
        "both sides are told"
    );
    store.assign_tags(build(1).id, vec!["v1".into()], 10, at(3)).await.expect("tag");
    assert_eq!(told(&mut changes), ["template true default false"]);
    store.ensure_template(given(2)).await.expect("another build");
    assert!(told(&mut changes).contains(&"build false".to_owned()));
    store.delete_template(template_id()).await.expect("delete");
    assert_eq!(told(&mut changes), ["template true default false"]);
}

#[tokio::test]
async fn a_listener_that_is_behind_is_told() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    let mut changes = store.changes().await.expect("listen");
    let line = |n: u32| BuildLine { at: at(1), level: LogLevel::Info, step: None, message: n.to_string() };
    let mut writes = tokio::task::JoinSet::new();
    for n in 0..5000 {
        let store = store.clone();
        writes.spawn(async move { store.append_build_log(build(1).id, vec![line(n)]).await });
        if writes.len() >= 500 {
            writes.join_next().await;
        }
    }
    writes.join_all().await;
    assert!(matches!(changes.recv().await, Err(RecvError::Lagged(_))));
    assert!(matches!(changes.recv().await, Ok(Change::BuildLog(_))), "and goes on with what is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_no_gap_between_what_is_read_and_what_is_told() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let writer = store.clone();
    let writing = tokio::spawn(async move {
        for n in 1..=200u8 {
            insert(&writer, sandbox(n)).await;
        }
    });
    let mut rounds = 0;
    loop {
        let finished = writing.is_finished();
        let mut changes = store.changes().await.expect("listen");
        let mut known: Vec<_> = store.live_sandboxes().await.expect("rows").into_iter().map(|row| row.id).collect();
        rounds += 1;
        // One more after what was read; the last one may have been read already.
        if let Ok(change) = timeout(Duration::from_secs(2), changes.recv()).await {
            let Ok(Change::Event(event)) = change else { panic!("{change:?}") };
            assert_eq!(event.kind, event::REQUESTED);
            known.push(event.sandbox.clone());
        }
        known.sort();
        known.dedup();
        let now: Vec<_> = (1..=200u8).map(sandbox_id).take_while(|id| known.contains(id)).collect();
        assert_eq!(now.len(), known.len(), "no number is missing: {known:?}");
        if finished {
            assert_eq!(known.len(), 200);
            break;
        }
    }
    writing.await.expect("writes");
    assert!(rounds >= 1, "{rounds}");
}
