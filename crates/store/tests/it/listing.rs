//! Listing, filters, pages, templates.

use std::collections::BTreeMap;

use cabana_store::{Order, Position, Sandbox, SandboxQuery, Store};
use cabana_types::{Resources, TemplateId};

use crate::{Place, at, build, insert, other_team, sandbox, sandbox_id, team, template_id};

fn all() -> SandboxQuery {
    SandboxQuery {
        team: team().id,
        metadata: BTreeMap::new(),
        template: None,
        started_after: None,
        order: Order::Ascending,
        after: None,
        limit: 100,
    }
}

async fn running(store: &Store, n: u8, second: i64) {
    insert(store, sandbox(n)).await;
    store.up(sandbox_id(n), at(second), at(second + 300)).await.expect("up");
}

fn numbers(rows: &[Sandbox]) -> Vec<u8> {
    rows.iter().map(|s| s.metadata["n"].parse().expect("number")).collect()
}

#[tokio::test]
async fn filters() {
    let place = Place::new();
    let store = place.furnished().await;
    for n in 1..=4u8 {
        running(&store, n, i64::from(n)).await;
    }
    insert(&store, sandbox(5)).await;
    let list = async |query: SandboxQuery| numbers(&store.running(&query).await.expect("list"));
    assert_eq!(list(all()).await, [1, 2, 3, 4], "only running ones");
    assert_eq!(list(SandboxQuery { order: Order::Descending, limit: 2, ..all() }).await, [4, 3]);
    assert_eq!(list(SandboxQuery { started_after: Some(at(2)), ..all() }).await, [3, 4]);
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
async fn pages_neither_repeat_nor_hide() {
    let place = Place::new();
    let store = place.furnished().await;
    // Several start in the same instant: the id decides.
    for n in 1..=9u8 {
        running(&store, n, i64::from(n / 3)).await;
    }
    for order in [Order::Ascending, Order::Descending] {
        let whole = numbers(&store.running(&SandboxQuery { order, ..all() }).await.expect("list"));
        let mut paged = vec![];
        let mut after = None;
        loop {
            let page = store.running(&SandboxQuery { order, after, limit: 2, ..all() }).await.expect("page");
            let Some(last) = page.last() else { break };
            after = Some(Position { started_at: last.started_at.expect("started"), id: last.id.clone() });
            paged.extend(numbers(&page));
        }
        assert_eq!(paged, whole);
    }
}

#[tokio::test]
async fn templates_are_found_by_id_alias_and_namespace() {
    let place = Place::new();
    let store = place.furnished().await;
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
        let id = store
            .ensure_template(
                TemplateId::from_random([7; 20]),
                team().id,
                "base".into(),
                true,
                Resources::default(),
                build(n),
            )
            .await
            .expect("ensure");
        assert_eq!(id, template_id());
        let base = store.template(&id).await.expect("read").expect("base");
        assert_eq!((base.build, base.build_count), (Some(build(n)), u64::from(n)));
    }
    assert_eq!(store.builds(&template_id(), 10).await.expect("builds"), [build(2), build(1)]);
    assert_eq!(store.templates(&other_team()).await.expect("list").len(), 1);
}
