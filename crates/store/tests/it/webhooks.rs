//! Webhooks and their queues: transactional with the event, ordered, bounded.

use std::time::Duration;

use cabana_store::delivery::{MAX_FINISHED, MAX_PENDING};
use cabana_store::{Attempt, PendingDelivery, Queue, Store, Verdict, Webhook, WebhookChange, event};
use cabana_types::sandbox::EndCause;
use cabana_types::{Secret, WebhookId};
use serde_json::json;

use crate::{TestDatabase, at, insert, other_team, sandbox, sandbox_id, team};

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

async fn next(store: &Store, hook: &Webhook) -> Option<PendingDelivery> {
    store.next_delivery(&hook.id).await.expect("read")
}

fn attempt(status: u16, seconds: i64) -> Attempt {
    let error = (status >= 300).then(|| format!("answered {status}"));
    Attempt { id: "try".into(), status: Some(status), error, at: at(seconds) }
}

async fn deliver(store: &Store, hook: &Webhook) -> Option<String> {
    let delivery = next(store, hook).await?;
    store.record_attempt(&delivery, attempt(200, 9), Verdict::Delivered).await.expect("write");
    Some(delivery.event.kind)
}

async fn notified(store: &Store) -> bool {
    tokio::time::timeout(Duration::from_millis(200), store.deliveries_added().notified()).await.is_ok()
}

#[tokio::test]
async fn events_are_queued_for_subscribed_webhooks() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let (all, killed) = (hook(1, event::KINDS), hook(2, &[event::KILLED]));
    let (off, foreign) =
        (Webhook { enabled: false, ..hook(3, event::KINDS) }, Webhook { team: other_team(), ..hook(4, event::KINDS) });
    store.add_team(cabana_store::Team { id: other_team(), name: "other".into(), ..team() }).await.expect("team");
    for hook in [&all, &killed, &off, &foreign] {
        add(&store, hook).await;
    }
    assert!(!notified(&store).await, "nothing is due");
    insert(&store, sandbox(1)).await;
    assert!(notified(&store).await);
    store.started(sandbox_id(1), at(1), at(301)).await.expect("up");
    store.end(sandbox_id(1), EndCause::OutOfMemory, at(2)).await.expect("end");
    store.removed(sandbox_id(1), at(3)).await.expect("removed");
    let mut queues = store.queues().await.expect("queues");
    queues.sort_by(|a, b| a.webhook.cmp(&b.webhook));
    assert_eq!(queues, [&all, &killed].map(|h| Queue { webhook: h.id.clone(), due_at: None }));

    // The sandbox may be purged before its events are delivered.
    store.purge(at(100), 100, 100).await.expect("purge");
    assert_eq!(store.sandbox(&sandbox_id(1)).await.expect("read"), None);
    let delivery = next(&store, &killed).await.expect("killed");
    assert_eq!(delivery.event.data["cause"]["kind"], "out_of_memory");
    assert_eq!(
        (delivery.event.kind.as_str(), delivery.event.at, delivery.started_at),
        (event::KILLED, at(3), Some(at(1)))
    );
    assert_eq!((delivery.metadata, delivery.cpu_count), (Some(json!({"n": "1", "parity": "1"})), 2));
    assert_eq!((delivery.url.as_str(), delivery.secret.expose()), ("https://2.example.com/", "secret"));
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
    assert_eq!(store.webhook(&other_team(), &all.id).await.expect("read"), None, "it belongs to another team");
}

#[tokio::test]
async fn queues_survive_restarts_and_failed_changes_add_nothing() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let all = hook(1, event::KINDS);
    add(&store, &all).await;
    insert(&store, sandbox(1)).await;
    store.started(sandbox_id(1), at(1), at(301)).await.expect("up");
    store.started(sandbox_id(1), at(2), at(301)).await.expect_err("it is running");
    let delivery = next(&store, &all).await.expect("requested");
    store.record_attempt(&delivery, attempt(500, 5), Verdict::Again(at(60))).await.expect("write");
    drop(store);

    let store = database.open().await;
    assert_eq!(store.queues().await.expect("queues"), [Queue { webhook: all.id.clone(), due_at: Some(at(60)) }]);
    let delivery = next(&store, &all).await.expect("the same one");
    assert_eq!((delivery.event.kind.as_str(), delivery.tries, delivery.failures), (event::REQUESTED, 1, 1));
    let deliveries = store.deliveries(&all.id, 10).await.expect("list");
    assert_eq!(deliveries.iter().map(|d| d.kind.as_str()).collect::<Vec<_>>(), [event::CREATED, event::REQUESTED]);
    assert_eq!((deliveries[1].status, deliveries[1].error.as_deref()), (Some(500), Some("answered 500")));
    assert_eq!((deliveries[1].state.as_str(), deliveries[1].due_at), ("pending", Some(at(60))));
    store.record_attempt(&delivery, attempt(410, 70), Verdict::GivenUp(at(99))).await.expect("write");
    let deliveries = store.deliveries(&all.id, 10).await.expect("list");
    assert_eq!(
        (deliveries[1].state.as_str(), deliveries[1].tries, deliveries[1].finished_at),
        ("failed", 2, Some(at(70)))
    );
    let delivery = next(&store, &all).await.expect("the next one");
    assert_eq!((delivery.event.kind.as_str(), delivery.tries, delivery.failures), (event::CREATED, 0, 2));
    assert_eq!(delivery.due_at, Some(at(99)), "the webhook backs off");
    store.record_attempt(&delivery, attempt(204, 100), Verdict::Delivered).await.expect("write");
    assert_eq!(store.queues().await.expect("queues"), []);
}

#[tokio::test]
async fn pending_updates_are_coalesced() {
    let database = TestDatabase::new();
    let store = database.populated().await;
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
        "the last one is kept"
    );

    // Another event arrives while one is being sent; the result of the first must not remove it.
    store.set_end_at(sandbox_id(1), at(500), false, at(10)).await.expect("timeout");
    store.record_attempt(&first, attempt(200, 11), Verdict::Delivered).await.expect("write");
    let second = next(&store, &all).await.expect("the newer one");
    assert_ne!(second.event.id, first.event.id, "receivers can distinguish them");
    assert_eq!(second.event.data["endAt"], at(500).to_string());
    store.record_attempt(&second, attempt(200, 12), Verdict::Delivered).await.expect("write");
    assert_eq!(next(&store, &all).await, None);

    // Another event after the delivery is sent too.
    store.set_end_at(sandbox_id(1), at(600), false, at(20)).await.expect("timeout");
    assert_eq!(next(&store, &all).await.expect("again").event.data["endAt"], at(600).to_string());
}

#[tokio::test]
async fn queues_and_histories_are_bounded() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let (all, more) = (hook(1, &[event::UPDATED]), 5);
    add(&store, &all).await;
    insert(&store, sandbox(1)).await;
    store.started(sandbox_id(1), at(1), at(301)).await.expect("up");
    // Two alternating reasons, so that events are not coalesced.
    for n in 0..(MAX_PENDING + more) {
        let reason = if n % 2 == 0 { "even" } else { "odd" };
        store.note(sandbox_id(1), reason, json!({"n": n}), at(i64::from(n))).await.expect("note");
    }
    let found = store.webhook(&team().id, &all.id).await.expect("read").expect("hook");
    assert_eq!((found.pending, found.dropped), (u64::from(MAX_PENDING), u64::from(more)));
    assert_eq!(next(&store, &all).await.expect("oldest").event.data["n"], more, "the oldest were dropped");
    for _ in 0..(MAX_FINISHED + more) {
        deliver(&store, &all).await.expect("one");
    }
    let deliveries = store.deliveries(&all.id, 10_000).await.expect("list");
    assert_eq!(deliveries.iter().filter(|d| d.state == "delivered").count(), MAX_FINISHED as usize);
    let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
    let off = store.change_webhook(team().id, all.id.clone(), change, at(9)).await.expect("change").expect("hook");
    assert_eq!((off.enabled, off.pending), (false, 0), "pending deliveries are given up");
    let deliveries = store.deliveries(&all.id, 10_000).await.expect("list");
    assert_eq!(deliveries.len(), MAX_FINISHED as usize);
    assert_eq!(deliveries[0].error.as_deref(), Some("the webhook was disabled"));
}

#[tokio::test]
async fn webhooks_are_limited_changed_and_removed() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let all = hook(1, event::KINDS);
    assert!(store.add_webhook_within(all.clone(), 1).await.expect("add"));
    assert!(!store.add_webhook_within(hook(2, event::KINDS), 1).await.expect("add"), "the limit is reached");
    assert_eq!(store.webhooks(&team().id).await.expect("list"), std::slice::from_ref(&all));
    insert(&store, sandbox(1)).await;
    let delivery = next(&store, &all).await.expect("requested");
    store.record_attempt(&delivery, attempt(500, 5), Verdict::Again(at(60))).await.expect("write");
    assert!(notified(&store).await, "after the insertion");
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
    assert!(notified(&store).await, "it may be retried");
    let delivery = next(&store, &all).await.expect("requested");
    assert_eq!((delivery.url.as_str(), delivery.secret.expose()), ("http://new.example.com/", "new"));
    assert_eq!((delivery.due_at, delivery.failures, delivery.tries), (None, 0, 1));

    assert!(!store.remove_webhook(other_team(), all.id.clone()).await.expect("remove"));
    assert!(store.remove_webhook(team().id, all.id.clone()).await.expect("remove"));
    assert!(!store.remove_webhook(team().id, all.id.clone()).await.expect("remove"));
    store
        .record_attempt(&delivery, attempt(200, 9), Verdict::Delivered)
        .await
        .expect("a removed delivery stays removed");
    assert_eq!((next(&store, &all).await, store.queues().await.expect("queues")), (None, vec![]));
    assert_eq!(store.deliveries(&all.id, 10).await.expect("list"), []);
}

#[tokio::test]
async fn large_metadata_is_left_out() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let all = hook(1, event::KINDS);
    add(&store, &all).await;
    let mut requested = sandbox(1);
    requested.metadata.insert("large".into(), "ä".repeat(9000));
    insert(&store, requested).await;
    assert_eq!(next(&store, &all).await.expect("requested").metadata, None);
}
