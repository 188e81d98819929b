//! Random sequences of operations and reopenings: the content is kept and follows the state machine.

use std::collections::BTreeMap;

use cabana_store::{Event, EventQuery, Order, Sandbox, Store, Template};
use cabana_types::SandboxId;
use cabana_types::quota::Limits;
use cabana_types::sandbox::{EndCause, State, Transition};
use proptest::prelude::*;

use crate::{TestDatabase, at, idempotency, key_id, sandbox, sandbox_id, team, template_id};

#[derive(Debug, Clone)]
enum Operation {
    Insert(u8, bool),
    Started(u8),
    End(u8, EndCause),
    Expire(u8, i64),
    Removed(u8),
    Timeout(u8, i64, bool),
    Note(u8),
    Purge(i64),
    Crash,
}

fn operation() -> impl Strategy<Value = Operation> {
    let n = 0..4u8;
    prop_oneof![
        4 => (n.clone(), any::<bool>()).prop_map(|(n, k)| Operation::Insert(n, k)),
        4 => n.clone().prop_map(Operation::Started),
        2 => (n.clone(), prop_oneof![
            Just(EndCause::OutOfMemory),
            Just(EndCause::Killed { by: "k".into() }),
            Just(EndCause::CreateFailed { message: "it's \"broken\"\n".into() }),
        ]).prop_map(|(n, c)| Operation::End(n, c)),
        2 => (n.clone(), 0..1000i64).prop_map(|(n, t)| Operation::Expire(n, t)),
        3 => n.clone().prop_map(Operation::Removed),
        2 => (n.clone(), 0..1000i64, any::<bool>()).prop_map(|(n, t, e)| Operation::Timeout(n, t, e)),
        1 => n.prop_map(Operation::Note),
        1 => (0..100i64).prop_map(Operation::Purge),
        1 => Just(Operation::Crash),
    ]
}

#[derive(Debug, PartialEq)]
struct Content {
    sandboxes: Vec<Option<Sandbox>>,
    living: Vec<Sandbox>,
    events: Vec<Event>,
    template: Option<Template>,
}

async fn content(store: &Store) -> Content {
    let mut sandboxes = vec![];
    for n in 0..4 {
        sandboxes.push(store.sandbox(&sandbox_id(n)).await.expect("read"));
    }
    let query = EventQuery {
        projects: None,
        team: team().id,
        sandbox: None,
        kinds: vec![],
        from: None,
        until: None,
        order: Order::Ascending,
        offset: 0,
        limit: 10_000,
    };
    Content {
        sandboxes,
        living: store.live_sandboxes().await.expect("living"),
        events: store.events(&query).await.expect("events"),
        template: store.template(&template_id()).await.expect("template"),
    }
}

/// Applies an operation to the store and to a model of the states.
async fn apply(store: &Store, model: &mut BTreeMap<SandboxId, (State, i64)>, operation: Operation, clock: i64) {
    let mut check = |n: u8, transition: Transition, ok: bool| {
        let next = model.get(&sandbox_id(n)).and_then(|(state, _)| state.apply(transition).ok());
        assert_eq!(next.is_some(), ok, "the store and the state machine disagree about {n}");
        if let (Some(next), Some(entry)) = (next, model.get_mut(&sandbox_id(n))) {
            *entry = (next, clock);
        }
    };
    match operation {
        Operation::Insert(n, keyed) => {
            let known = model.contains_key(&sandbox_id(n));
            let requested = Sandbox { idempotency: if keyed { idempotency("key") } else { None }, ..sandbox(n) };
            if let Ok(cabana_store::Inserted::New) = store.insert_sandbox(requested, key_id(1), Limits::default()).await
            {
                assert!(!known, "written over");
                model.insert(sandbox_id(n), (State::Creating, clock));
            }
        }
        Operation::Started(n) => {
            check(n, Transition::Started, store.started(sandbox_id(n), at(clock), at(clock + 300)).await.is_ok())
        }
        Operation::End(n, cause) => {
            check(n, Transition::End(cause.clone()), store.end(sandbox_id(n), cause, at(clock)).await.is_ok());
        }
        Operation::Expire(n, due) => {
            if let Ok(row) = store.expire(sandbox_id(n), at(due), at(clock)).await
                && row.state.cause().is_some()
            {
                check(n, Transition::End(EndCause::Expired), true);
            }
        }
        Operation::Removed(n) => check(n, Transition::Removed, store.removed(sandbox_id(n), at(clock)).await.is_ok()),
        Operation::Timeout(n, to, extend) => {
            let before = store.sandbox(&sandbox_id(n)).await.expect("read");
            if let Ok(row) = store.set_end_at(sandbox_id(n), at(to), extend, at(clock)).await {
                let before = before.expect("it was there");
                assert_eq!(before.state, State::Running);
                assert_eq!(row.end_at, if extend { before.end_at.max(at(to)) } else { at(to) });
            }
        }
        Operation::Note(n) => {
            let _ = store.note(sandbox_id(n), "oom", serde_json::json!({}), at(clock)).await;
        }
        Operation::Purge(before) => {
            store.purge(at(before), 100, 100).await.expect("purge");
            model.retain(|_, (state, since)| state.holds_resources() || *since >= before);
        }
        Operation::Crash => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn acknowledged_changes_survive_reopening(operations in proptest::collection::vec(operation(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let database = TestDatabase::new();
            let mut store = database.populated().await;
            let mut model = BTreeMap::new();
            for (clock, operation) in (0i64..).zip(operations) {
                let crash = matches!(operation, Operation::Crash);
                apply(&store, &mut model, operation, clock).await;
                if crash {
                    // Not closed, as if the server was killed.
                    let before = content(&store).await;
                    store = database.open().await;
                    assert_eq!(content(&store).await, before);
                }
            }
            let before = content(&store).await;
            for n in 0..4 {
                let stored = before.sandboxes[usize::from(n)].as_ref().map(|s| &s.state);
                assert_eq!(stored, model.get(&sandbox_id(n)).map(|(state, _)| state));
            }
            store.close().await;
            assert_eq!(content(&database.open().await).await, before);
        });
    }
}
