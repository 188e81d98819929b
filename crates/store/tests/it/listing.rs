//! Listing, filters, pages, templates.

use std::collections::BTreeMap;

use cabana_store::{Group, Order, Position, ProvidedTemplate, Sandbox, SandboxQuery, Store};
use cabana_types::TemplateId;

use crate::{TestDatabase, at, build, given, insert, other_team, sandbox, sandbox_id, team, template_id};

fn all() -> SandboxQuery {
    SandboxQuery {
        projects: None,
        team: team().id,
        groups: vec![Group::Running],
        metadata: BTreeMap::new(),
        text: None,
        template: None,
        started_after: None,
        order: Order::Ascending,
        after: None,
        limit: 100,
    }
}

async fn running(store: &Store, n: u8, second: i64) {
    insert(store, sandbox(n)).await;
    store.started(sandbox_id(n), at(second), at(second + 300)).await.expect("up");
}

fn numbers(rows: &[Sandbox]) -> Vec<u8> {
    rows.iter().map(|s| s.metadata["n"].parse().expect("number")).collect()
}

#[tokio::test]
async fn filters() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    for n in 1..=4u8 {
        running(&store, n, i64::from(n)).await;
    }
    insert(&store, sandbox(5)).await;
    let list = async |query: SandboxQuery| numbers(&store.sandboxes(&query).await.expect("list"));
    assert_eq!(list(all()).await, [1, 2, 3, 4], "only running ones");
    assert_eq!(list(SandboxQuery { order: Order::Descending, limit: 2, ..all() }).await, [4, 3]);
    assert_eq!(list(SandboxQuery { started_after: Some(at(2)), ..all() }).await, [2, 3, 4], "at or after");
    assert_eq!(list(SandboxQuery { team: other_team(), ..all() }).await, [0u8; 0]);
    assert_eq!(list(SandboxQuery { template: Some(template_id()), ..all() }).await, [1, 2, 3, 4]);
    assert_eq!(list(SandboxQuery { template: Some(TemplateId::from_random([9; 20])), ..all() }).await, [0u8; 0]);
    let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    assert_eq!(list(SandboxQuery { metadata: labels(&[("parity", "0")]), ..all() }).await, [2, 4]);
    assert_eq!(list(SandboxQuery { metadata: labels(&[("parity", "0"), ("n", "4")]), ..all() }).await, [4]);
    assert_eq!(
        list(SandboxQuery { metadata: labels(&[("parity", "0'; drop table sandboxes; --")]), ..all() }).await,
        [0u8; 0]
    );
}

#[tokio::test]
async fn texts_are_found_in_ids_aliases_and_labels() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    for n in 1..=3u8 {
        let mut requested = sandbox(n);
        requested.alias = (n == 2).then(|| "Team-Base".into());
        requested.metadata.insert("note".into(), format!("100%_{n}"));
        insert(&store, requested).await;
        store.started(sandbox_id(n), at(n.into()), at(300)).await.expect("up");
    }
    let found = async |text: &str| {
        let query = SandboxQuery { text: Some(text.into()), ..all() };
        numbers(&store.sandboxes(&query).await.expect("list"))
    };
    assert_eq!(found("TEAM-b").await, [2]);
    assert_eq!(found("100%_3").await, [3]);
    assert_eq!(found("100%%").await, [0u8; 0], "no wildcards");
    assert_eq!(found("note").await, [0u8; 0], "values, not names");
    assert_eq!(found(sandbox_id(1).as_str()).await, [1]);
    assert_eq!(found("' or 1=1 --").await, [0u8; 0]);
}

#[tokio::test]
async fn the_ended_are_listed_by_their_end_and_keep_their_last_lines() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let cause = cabana_types::sandbox::EndCause::Expired;
    for n in 1..=7u8 {
        running(&store, n, i64::from(n)).await;
    }
    // Two end at the same time: the id is the tie-breaker.
    for (n, second) in [(5, 20), (2, 21), (7, 21), (1, 22), (3, 23)] {
        store.keep_last_lines(sandbox_id(n), vec!["of its failure".into()]).await.expect("lines");
        store.end(sandbox_id(n), cause.clone(), at(second)).await.expect("end");
        let lines = if n == 1 { vec!["one".into(), "two".into()] } else { vec![] };
        store.removed_with_lines(sandbox_id(n), lines, at(second)).await.expect("removed");
    }
    let newest = SandboxQuery { order: Order::Descending, ..all() };
    let whole = store.ended_sandboxes(&newest).await.expect("list");
    assert_eq!((numbers(&whole)[..2].to_vec(), numbers(&whole)[4]), (vec![3, 1], 5));
    assert_eq!(whole[1].last_lines, ["one", "two"]);
    assert_eq!(whole[4].last_lines, ["of its failure"], "they stay if there are no newer ones");
    assert_eq!(whole[0].created_by.as_deref(), Some(crate::key_id(1).as_str()));
    assert_eq!(numbers(&store.sandboxes(&newest).await.expect("list")), [6, 4]);
    let others = SandboxQuery { team: other_team(), ..all() };
    assert_eq!(store.ended_sandboxes(&others).await.expect("list"), []);
    for order in [Order::Ascending, Order::Descending] {
        let whole = numbers(&store.ended_sandboxes(&SandboxQuery { order, ..all() }).await.expect("list"));
        let (mut paged, mut after) = (vec![], None);
        loop {
            let page = store.ended_sandboxes(&SandboxQuery { order, after, limit: 2, ..all() }).await.expect("page");
            let Some(last) = page.last() else { break };
            after = Some(Position { at: last.ended_at.expect("ended"), id: last.id.clone() });
            paged.extend(numbers(&page));
        }
        assert_eq!(paged, whole);
    }
}

#[tokio::test]
async fn pages_have_no_repeats_or_gaps() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    // Several start at the same time: the id is the tie-breaker.
    for n in 1..=9u8 {
        running(&store, n, i64::from(n / 3)).await;
    }
    for order in [Order::Ascending, Order::Descending] {
        let whole = numbers(&store.sandboxes(&SandboxQuery { order, ..all() }).await.expect("list"));
        let mut paged = vec![];
        let mut after = None;
        loop {
            let page = store.sandboxes(&SandboxQuery { order, after, limit: 2, ..all() }).await.expect("page");
            let Some(last) = page.last() else { break };
            after = Some(Position { at: last.started_at.expect("started"), id: last.id.clone() });
            paged.extend(numbers(&page));
        }
        assert_eq!(paged, whole);
    }
}

/// Changes between two pages: sandboxes that end, and start times of new ones.
type Between = (Vec<u8>, Vec<i64>);

async fn page_through(order: Order, limit: u32, before: Vec<i64>, steps: Vec<Between>) {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let (mut next, mut up) = (0u8, vec![]);
    for second in before {
        next += 1;
        running(&store, next, second).await;
        up.push(next);
    }
    let (mut seen, mut lasting, mut after, mut steps) = (vec![], up.clone(), None, steps.into_iter());
    loop {
        let page = store.sandboxes(&SandboxQuery { order, after, limit, ..all() }).await.expect("page");
        let Some(last) = page.last() else { break };
        after = Some(Position { at: last.started_at.expect("started"), id: last.id.clone() });
        seen.extend(numbers(&page));
        let (gone, come) = steps.next().unwrap_or_default();
        for pick in gone {
            if !up.is_empty() {
                let n = up.swap_remove(usize::from(pick) % up.len());
                lasting.retain(|m| *m != n);
                let cause = cabana_types::sandbox::EndCause::Expired;
                store.end(sandbox_id(n), cause, at(500)).await.expect("end");
            }
        }
        for second in come {
            next += 1;
            running(&store, next, second).await;
            up.push(next);
        }
    }
    let once: std::collections::BTreeSet<u8> = seen.iter().copied().collect();
    assert_eq!(once.len(), seen.len(), "nothing repeats: {seen:?}");
    assert!(lasting.iter().all(|n| once.contains(n)), "nothing is missed: {lasting:?} in {seen:?}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(24))]
    #[test]
    fn pages_are_stable_under_concurrent_changes(
        ascending in proptest::bool::ANY,
        limit in 1u32..5,
        before in proptest::collection::vec(0i64..6, 0..12),
        steps in proptest::collection::vec(
            (proptest::collection::vec(proptest::num::u8::ANY, 0..4), proptest::collection::vec(0i64..6, 0..4)),
            0..8,
        ),
    ) {
        let order = if ascending { Order::Ascending } else { Order::Descending };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(page_through(order, limit, before, steps));
    }
}

#[tokio::test]
async fn templates_are_found_by_id_alias_and_namespace() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let base = store.template(&template_id()).await.expect("read").expect("base");
    assert_eq!(base.aliases, ["base"]);
    assert_eq!(base.namespace, "default");
    assert_eq!(base.build, Some(build(1)));
    for (namespace, alias, found) in
        [(None, "base", true), (Some("default"), "base", true), (Some("other"), "base", false), (None, "Base", false)]
    {
        let hit = store.template_by_alias(&other_team(), namespace, alias).await.expect("find");
        assert_eq!(hit.is_some(), found, "{namespace:?} {alias}");
    }
    // The same build again changes nothing; another build becomes the one that new sandboxes start from.
    for n in [1, 2] {
        let given = ProvidedTemplate { id: TemplateId::from_random([7; 20]), ..given(n) };
        let id = store.ensure_template(given).await.expect("ensure");
        assert_eq!(id, template_id());
        let base = store.template(&id).await.expect("read").expect("base");
        assert_eq!((base.build, base.build_count), (Some(build(n)), u64::from(n)));
    }
    assert_eq!(store.builds(&template_id(), 10).await.expect("builds"), [build(2), build(1)]);
    assert_eq!(store.templates(&other_team()).await.expect("list").len(), 1);
}
