//! Webhooks and what waits for them: written with the event or not at all, in order, within bounds.

use std::time::Duration;

use cabana_store::delivery::{MAX_FINISHED, MAX_PENDING};
use cabana_store::{Attempt, Parcel, Queue, Store, Verdict, Webhook, WebhookChange, event};
use cabana_types::sandbox::EndCause;
use cabana_types::{Secret, WebhookId};
use serde_json::json;

use crate::{Place, at, insert, other_team, sandbox, sandbox_id, team};

fn hook(n: u8, events: &[&str]) -> Webhook {
    Webhook {
        id: WebhookId::from_random([n; 16]),
        team: team().id,
        name: format!("hook {n}"),
        url: format!("https://{n}.example.com/"),
        secret: Secret::new("secret"),
        events: events.iter().map(|&e| e.to_owned()).collect(),
        enabled: true,
        created_at: at(i64::from(n)),
        pending: 0,
        dropped: 0,
    }
}

async fn add(store: &Store, hook: &Webhook) {
    assert!(store.add_webhook_within(hook.clone(), 20).await.expect("add"));
}

async fn next(store: &Store, hook: &Webhook) -> Option<Parcel> {
    store.next_parcel(&hook.id).await.expect("read")
}

fn attempt(status: u16, seconds: i64) -> Attempt {
    let error = (status >= 300).then(|| format!("answered {status}"));
    Attempt { id: "try".into(), status: Some(status), error, at: at(seconds) }
}

async fn deliver(store: &Store, hook: &Webhook) -> Option<String> {
    let parcel = next(store, hook).await?;
    store.attempted(&parcel, attempt(200, 9), Verdict::Delivered).await.expect("write");
    Some(parcel.event.kind)
}

async fn told(store: &Store) -> bool {
    tokio::time::timeout(Duration::from_millis(200), store.deliveries_added().notified()).await.is_ok()
}

#[tokio::test]
async fn an_event_is_queued_for_those_who_want_it() {
    let place = Place::new();
    let store = place.furnished().await;
    let (all, killed) = (hook(1, event::KINDS), hook(2, &[event::KILLED]));
    let (off, foreign) =
        (Webhook { enabled: false, ..hook(3, event::KINDS) }, Webhook { team: other_team(), ..hook(4, event::KINDS) });
    store.add_team(cabana_store::Team { id: other_team(), name: "other".into(), ..team() }).await.expect("team");
    for hook in [&all, &killed, &off, &foreign] {
        add(&store, hook).await;
    }
    assert!(!told(&store).await, "nothing is due");
    insert(&store, sandbox(1)).await;
    assert!(told(&store).await);
    store.started(sandbox_id(1), at(1), at(301)).await.expect("up");
    store.end(sandbox_id(1), EndCause::OutOfMemory, at(2)).await.expect("end");
    store.removed(sandbox_id(1), at(3)).await.expect("removed");
    let mut queues = store.queues().await.expect("queues");
    queues.sort_by(|a, b| a.webhook.cmp(&b.webhook));
    assert_eq!(queues, [&all, &killed].map(|h| Queue { webhook: h.id.clone(), due_at: None }));

    // The sandbox may be forgotten before its events are delivered.
    store.purge(at(100), 100, 100).await.expect("purge");
    assert_eq!(store.sandbox(&sandbox_id(1)).await.expect("read"), None);
    let parcel = next(&store, &killed).await.expect("killed");
    assert_eq!(parcel.event.data["cause"]["kind"], "out_of_memory");
    assert_eq!((parcel.event.kind.as_str(), parcel.event.at, parcel.started_at), (event::KILLED, at(3), Some(at(1))));
    assert_eq!((parcel.metadata, parcel.cpu_count), (Some(json!({"n": "1", "parity": "1"})), 2));
    assert_eq!((parcel.url.as_str(), parcel.secret.expose()), ("https://2.example.com/", "secret"));
    for kind in [event::REQUESTED, event::CREATED, event::ENDING, event::KILLED] {
        assert_eq!(deliver(&store, &all).await.as_deref(), Some(kind), "in order");
    }
    assert_eq!(
        (deliver(&store, &all).await, deliver(&store, &off).await, deliver(&store, &foreign).await),
        (None, None, None)
    );
    assert_eq!(
        store.webhooks(&team().id).await.expect("list").iter().map(|h| h.pending).collect::<Vec<_>>(),
        [0, 1, 0]
    );
    assert_eq!(store.webhook(&other_team(), &all.id).await.expect("read"), None, "not theirs");
}

#[tokio::test]
async fn what_waits_outlives_the_server_and_a_change_that_failed_leaves_nothing() {
    let place = Place::new();
    let store = place.furnished().await;
    let all = hook(1, event::KINDS);
    add(&store, &all).await;
    insert(&store, sandbox(1)).await;
    store.started(sandbox_id(1), at(1), at(301)).await.expect("up");
    store.started(sandbox_id(1), at(2), at(301)).await.expect_err("it is up");
    let parcel = next(&store, &all).await.expect("requested");
    store.attempted(&parcel, attempt(500, 5), Verdict::Again(at(60))).await.expect("write");
    drop(store);

    let store = place.open().await;
    assert_eq!(store.queues().await.expect("queues"), [Queue { webhook: all.id.clone(), due_at: Some(at(60)) }]);
    let parcel = next(&store, &all).await.expect("the same one");
    assert_eq!((parcel.event.kind.as_str(), parcel.tries, parcel.failures), (event::REQUESTED, 1, 1));
    let told = store.deliveries(&all.id, 10).await.expect("list");
    assert_eq!(told.iter().map(|d| d.kind.as_str()).collect::<Vec<_>>(), [event::CREATED, event::REQUESTED]);
    assert_eq!((told[1].status, told[1].error.as_deref()), (Some(500), Some("answered 500")));
    assert_eq!((told[1].state.as_str(), told[1].due_at), ("pending", Some(at(60))));
    store.attempted(&parcel, attempt(410, 70), Verdict::GivenUp(at(99))).await.expect("write");
    let told = store.deliveries(&all.id, 10).await.expect("list");
    assert_eq!((told[1].state.as_str(), told[1].tries, told[1].finished_at), ("failed", 2, Some(at(70))));
    let parcel = next(&store, &all).await.expect("the next one");
    assert_eq!((parcel.event.kind.as_str(), parcel.tries, parcel.failures), (event::CREATED, 0, 2));
    assert_eq!(parcel.due_at, Some(at(99)), "the webhook is left alone for a while");
    store.attempted(&parcel, attempt(204, 100), Verdict::Delivered).await.expect("write");
    assert_eq!(store.queues().await.expect("queues"), []);
}

#[tokio::test]
async fn repeated_updates_wait_once() {
    let place = Place::new();
    let store = place.furnished().await;
    let all = hook(1, &[event::UPDATED]);
    add(&store, &all).await;
    insert(&store, sandbox(1)).await;
    store.started(sandbox_id(1), at(1), at(301)).await.expect("up");
    for n in 0..5 {
        store.set_end_at(sandbox_id(1), at(400 + n), false, at(2 + n)).await.expect("timeout");
    }
    assert_eq!(store.webhook(&team().id, &all.id).await.expect("read").expect("hook").pending, 1);
    let first = next(&store, &all).await.expect("updated");
    assert_eq!(
        (&first.event.data["endAt"], first.event.at),
        (&json!(at(404).to_string()), at(6)),
        "the last one counts"
    );

    // While it is being sent, another one comes: that is not lost with the answer to the first.
    store.set_end_at(sandbox_id(1), at(500), false, at(10)).await.expect("timeout");
    store.attempted(&first, attempt(200, 11), Verdict::Delivered).await.expect("write");
    let second = next(&store, &all).await.expect("the newer one");
    assert_ne!(second.event.id, first.event.id, "receivers tell them apart");
    assert_eq!(second.event.data["endAt"], at(500).to_string());
    store.attempted(&second, attempt(200, 12), Verdict::Delivered).await.expect("write");
    assert_eq!(next(&store, &all).await, None);

    // After it was sent, another one is sent too.
    store.set_end_at(sandbox_id(1), at(600), false, at(20)).await.expect("timeout");
    assert_eq!(next(&store, &all).await.expect("again").event.data["endAt"], at(600).to_string());
}

#[tokio::test]
async fn queues_and_memories_are_bounded() {
    let place = Place::new();
    let store = place.furnished().await;
    let (all, more) = (hook(1, &[event::UPDATED]), 5);
    add(&store, &all).await;
    insert(&store, sandbox(1)).await;
    store.started(sandbox_id(1), at(1), at(301)).await.expect("up");
    // Two reasons in turn, so that none takes the place of another.
    for n in 0..(MAX_PENDING + more) {
        let reason = if n % 2 == 0 { "even" } else { "odd" };
        store.note(sandbox_id(1), reason, json!({"n": n}), at(i64::from(n))).await.expect("note");
    }
    let found = store.webhook(&team().id, &all.id).await.expect("read").expect("hook");
    assert_eq!((found.pending, found.dropped), (u64::from(MAX_PENDING), u64::from(more)));
    assert_eq!(next(&store, &all).await.expect("oldest").event.data["n"], more, "the oldest made room");
    for _ in 0..(MAX_FINISHED + more) {
        deliver(&store, &all).await.expect("one");
    }
    let told = store.deliveries(&all.id, 10_000).await.expect("list");
    assert_eq!(told.iter().filter(|d| d.state == "delivered").count(), MAX_FINISHED as usize);
    let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
    let off = store.change_webhook(team().id, all.id.clone(), change, at(9)).await.expect("change").expect("hook");
    assert_eq!((off.enabled, off.pending), (false, 0), "what waits is given up");
    let told = store.deliveries(&all.id, 10_000).await.expect("list");
    assert_eq!(told.len(), MAX_FINISHED as usize);
    assert_eq!(told[0].error.as_deref(), Some("the webhook was disabled"));
}

#[tokio::test]
async fn webhooks_are_counted_changed_and_forgotten() {
    let place = Place::new();
    let store = place.furnished().await;
    let all = hook(1, event::KINDS);
    assert!(store.add_webhook_within(all.clone(), 1).await.expect("add"));
    assert!(!store.add_webhook_within(hook(2, event::KINDS), 1).await.expect("add"), "no more than that");
    assert_eq!(store.webhooks(&team().id).await.expect("list"), std::slice::from_ref(&all));
    insert(&store, sandbox(1)).await;
    let parcel = next(&store, &all).await.expect("requested");
    store.attempted(&parcel, attempt(500, 5), Verdict::Again(at(60))).await.expect("write");
    assert!(told(&store).await, "of the insertion");
    let change = WebhookChange {
        url: Some("http://new.example.com/".into()),
        secret: Some(Secret::new("new")),
        events: Some(vec![event::KILLED.into()]),
        ..WebhookChange::default()
    };
    let nobody = store.change_webhook(other_team(), all.id.clone(), change.clone(), at(6)).await.expect("change");
    assert_eq!(nobody, None, "not theirs");
    let changed = store.change_webhook(team().id, all.id.clone(), change, at(6)).await.expect("change").expect("hook");
    assert_eq!((changed.name.as_str(), changed.events.as_slice()), ("hook 1", &[event::KILLED.to_owned()][..]));
    assert!(told(&store).await, "it may be tried again");
    let parcel = next(&store, &all).await.expect("requested");
    assert_eq!((parcel.url.as_str(), parcel.secret.expose()), ("http://new.example.com/", "new"));
    assert_eq!((parcel.due_at, parcel.failures, parcel.tries), (None, 0, 1));

    assert!(!store.remove_webhook(other_team(), all.id.clone()).await.expect("remove"));
    assert!(store.remove_webhook(team().id, all.id.clone()).await.expect("remove"));
    assert!(!store.remove_webhook(team().id, all.id.clone()).await.expect("remove"));
    store.attempted(&parcel, attempt(200, 9), Verdict::Delivered).await.expect("what is gone stays gone");
    assert_eq!((next(&store, &all).await, store.queues().await.expect("queues")), (None, vec![]));
    assert_eq!(store.deliveries(&all.id, 10).await.expect("list"), []);
}

#[tokio::test]
async fn large_labels_are_left_out() {
    let place = Place::new();
    let store = place.furnished().await;
    let all = hook(1, event::KINDS);
    add(&store, &all).await;
    let mut wish = sandbox(1);
    wish.metadata.insert("large".into(), "ä".repeat(9000));
    insert(&store, wish).await;
    assert_eq!(next(&store, &all).await.expect("requested").metadata, None);
}
