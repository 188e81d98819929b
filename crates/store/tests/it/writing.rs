//! Transitions, idempotency and concurrent writers.

use std::sync::Arc;

use cabana_store::{Error, EventQuery, Inserted, Order, Sandbox, Store, event};
use cabana_supervisor::Supervisor;
use cabana_types::egress::EgressPolicy;
use cabana_types::quota::Limits;
use cabana_types::sandbox::{EndCause, State};

use crate::{TestDatabase, at, given, idempotency, insert, key, key_id, sandbox, sandbox_id, team, template_id};

fn events_of(sandbox: &Sandbox) -> EventQuery {
    EventQuery {
        projects: None,
        team: sandbox.team.clone(),
        sandbox: Some(sandbox.id.clone()),
        kinds: vec![],
        from: None,
        until: None,
        order: Order::Ascending,
        offset: 0,
        limit: 1000,
    }
}

#[tokio::test]
async fn events_record_every_transition() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let requested = sandbox(1);
    insert(&store, requested.clone()).await;
    assert_eq!(store.sandbox(&requested.id).await.expect("read"), Some(requested.clone()));

    let up = store.started(requested.id.clone(), at(1), at(301)).await.expect("up");
    assert_eq!((up.state.clone(), up.started_at, up.end_at), (State::Running, Some(at(1)), at(301)));
    assert_eq!(store.sandbox(&requested.id).await.expect("read"), Some(up));
    let template = store.template(&template_id()).await.expect("read").expect("template");
    assert_eq!((template.spawn_count, template.last_spawned_at), (1, Some(at(1))));

    store.set_end_at(requested.id.clone(), at(400), false, at(2)).await.expect("timeout");
    store.set_end_at(requested.id.clone(), at(500), false, at(3)).await.expect("timeout");
    let kept = store.set_end_at(requested.id.clone(), at(100), true, at(4)).await.expect("extend");
    assert_eq!(kept.end_at, at(500), "extending never shortens");

    let late = store.expire(requested.id.clone(), at(400), at(400)).await.expect("too early");
    assert_eq!((late.state, late.end_at), (State::Running, at(500)), "its timeout was changed since");
    store.expire(requested.id.clone(), at(500), at(500)).await.expect("expire");
    let refused = store.end(requested.id.clone(), EndCause::GuestDied, at(501)).await.expect_err("ending already");
    assert!(matches!(refused, Error::Refused(_)), "{refused:?}");
    let refused = store.set_end_at(requested.id.clone(), at(900), false, at(501)).await.expect_err("ending already");
    assert!(matches!(refused, Error::NotRunning { state: "ending", .. }), "{refused:?}");

    let tombstone = store.removed(requested.id.clone(), at(502)).await.expect("removed");
    assert_eq!(tombstone.state, State::Ended { cause: EndCause::Expired });
    assert_eq!((&tombstone.access_token, tombstone.env_vars.len()), (&None, 0), "secrets are deleted");
    assert_eq!(tombstone.traffic.token, None);
    assert!(tombstone.egress.egress_proxy.is_none() && tombstone.egress.rules.is_empty(), "nor are credentials kept");
    assert_eq!(store.sandbox(&requested.id).await.expect("read"), Some(tombstone));

    let events = store.events(&events_of(&requested)).await.expect("events");
    let kinds: Vec<&str> = events.iter().map(|e| e.kind.as_str()).collect();
    assert_eq!(kinds, [event::REQUESTED, event::CREATED, event::UPDATED, event::ENDING, event::KILLED]);
    assert_eq!(events[2].data["endAt"], at(500).to_string(), "repeated timeouts are coalesced");
    assert_eq!(events[4].data["cause"]["kind"], "expired");
    assert_eq!(events[4].data["reason"], "reached its timeout and was killed");
}

#[tokio::test]
async fn egress_policies_are_replaced_and_denials_noted() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    let offline = Arc::new(EgressPolicy::offline());
    let changed = store.set_egress(sandbox_id(1), Arc::clone(&offline), at(1)).await.expect("set");
    assert_eq!(store.sandbox(&sandbox_id(1)).await.expect("read"), Some(changed.clone()));
    assert_eq!(changed.egress, offline);
    for n in 2..5 {
        store.note_denials(sandbox_id(1), serde_json::json!({ "total": n }), at(n)).await.expect("note");
    }
    let events = store.events(&events_of(&sandbox(1))).await.expect("events");
    let kinds: Vec<&str> = events.iter().map(|e| e.kind.as_str()).collect();
    assert_eq!(kinds, [event::REQUESTED, event::UPDATED, event::DENIED], "denials are coalesced");
    assert_eq!((&events[1].data["reason"], &events[2].data["total"]), (&"network".into(), &4.into()));
    store.end(sandbox_id(1), EndCause::Expired, at(6)).await.expect("end");
    let refused = store.set_egress(sandbox_id(1), offline, at(7)).await.expect_err("ending");
    assert!(matches!(refused, Error::NotRunning { state: "ending", .. }), "{refused:?}");
}

#[tokio::test]
async fn events_of_one_sandbox_are_bounded() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    for n in 0..150 {
        store.note(sandbox_id(1), "oom", serde_json::json!({ "oomKills": n }), at(n)).await.expect("note");
        store.note(sandbox_id(1), "timeout", serde_json::json!({}), at(n)).await.expect("note");
    }
    let events = store.events(&events_of(&sandbox(1))).await.expect("events");
    assert_eq!(events.len(), event::MAX_PER_SANDBOX as usize);
    assert_eq!(events.last().expect("last").at, at(149), "the newest stay");
}

#[tokio::test]
async fn idempotency_keys_find_their_sandbox() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let requested = Sandbox { idempotency: idempotency("k"), ..sandbox(1) };
    insert(&store, requested.clone()).await;
    let twin = Sandbox { idempotency: idempotency("k"), ..sandbox(2) };
    match store.insert_sandbox(twin.clone(), key_id(1), Limits::default()).await.expect("insert") {
        Inserted::Known(known) => assert_eq!(*known, requested),
        Inserted::New => panic!("made twice"),
    }
    assert_eq!(store.sandbox(&twin.id).await.expect("read"), None);
    // A failed creation frees the key once it is removed.
    store.end(requested.id.clone(), EndCause::CreateFailed { message: "no".into() }, at(1)).await.expect("end");
    store.removed(requested.id.clone(), at(2)).await.expect("removed");
    insert(&store, twin).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_write_does_not_affect_its_batch() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..200u8 {
        let store = store.clone();
        tasks.spawn(async move {
            // Every third one violates a constraint after it has written something.
            if n % 3 == 0 {
                let mut broken = sandbox(n);
                broken.team = "nobody".parse().expect("id");
                store.insert_sandbox(broken, key_id(1), Limits::default()).await.expect_err("there is no such team");
            } else {
                insert(&store, sandbox(n)).await;
                store.started(sandbox_id(n), at(1), at(300)).await.expect("up");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("task");
    }
    assert_eq!(store.running_count(&team().id, None).await.expect("count"), 133);
    assert_eq!(store.live_sandboxes().await.expect("living").len(), 133);
}

#[tokio::test]
async fn old_tombstones_are_purged_with_their_events() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    for n in 1..=5u8 {
        insert(&store, sandbox(n)).await;
        if n < 5 {
            store.end(sandbox_id(n), EndCause::Lost, at(i64::from(n))).await.expect("end");
            store.removed(sandbox_id(n), at(i64::from(n))).await.expect("removed");
        }
    }
    assert_eq!(store.purge(at(4), 100, 2).await.expect("purge"), 2);
    assert_eq!(store.purge(at(4), 100, 2).await.expect("purge"), 1);
    assert_eq!(store.purge(at(4), 100, 2).await.expect("purge"), 0);
    assert!(store.sandbox(&sandbox_id(1)).await.expect("read").is_none());
    assert!(store.events(&events_of(&sandbox(1))).await.expect("events").is_empty());
    assert!(store.sandbox(&sandbox_id(4)).await.expect("read").is_some());
    assert!(store.sandbox(&sandbox_id(5)).await.expect("read").is_some(), "sandboxes that have not ended are kept");
}

#[tokio::test]
async fn the_newest_tombstones_are_kept() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    for n in 1..=6u8 {
        insert(&store, sandbox(n)).await;
        store.end(sandbox_id(n), EndCause::Lost, at(i64::from(n))).await.expect("end");
        store.removed(sandbox_id(n), at(i64::from(n))).await.expect("removed");
    }
    assert_eq!(store.purge(at(0), 3, 100).await.expect("purge"), 3);
    assert_eq!(store.purge(at(0), 3, 100).await.expect("purge"), 0);
    assert!(store.sandbox(&sandbox_id(3)).await.expect("read").is_none());
    assert!(store.sandbox(&sandbox_id(4)).await.expect("read").is_some());
}

#[tokio::test]
async fn a_panic_of_the_writer_is_fatal() {
    let database = TestDatabase::new();
    let supervisor = Supervisor::new();
    let store = Store::open_supervised(&database.path, &supervisor).await.expect("open");
    assert!(store.create_first_team(team(), key(1)).await.expect("found"));
    assert!(supervisor.inject_panic("store writer"));
    let fatal = supervisor.fatal().await;
    assert_eq!((fatal.task, fatal.reason.as_str()), ("store writer", "panicked: injected by a test"));
    let refused = store.ensure_template(given(1)).await.expect_err("nobody writes");
    assert!(matches!(refused, Error::Closed), "{refused:?}");
    // Committed data is kept, and the database can still be closed and opened.
    store.close().await;
    assert!(!database.open().await.create_first_team(team(), key(1)).await.expect("found"));
}

#[tokio::test]
async fn closing_is_not_a_failure() {
    let database = TestDatabase::new();
    let supervisor = Supervisor::new();
    let store = Store::open_supervised(&database.path, &supervisor).await.expect("open");
    store.close().await;
    store.close().await;
    assert!(matches!(store.ensure_template(given(1)).await, Err(Error::Closed)));
    tokio::time::timeout(std::time::Duration::from_millis(50), supervisor.fatal()).await.expect_err("no failure");
}
