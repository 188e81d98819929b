//! Services: names, ports and slugs are taken once, starts are counted, and late news of an earlier start change nothing.

use std::collections::BTreeMap;

use cabana_store::{Grant, GrantKind, RunEnd, Service, ServicePut, ServiceSettings, Store};
use cabana_types::sandbox::EndCause;
use cabana_types::service::{Access, HostMode, OnWake};
use cabana_types::{GrantId, ServiceId};

use crate::{TestDatabase, at, insert, sandbox, sandbox_id, team};

fn service(n: u8, name: &str) -> Service {
    Service {
        id: ServiceId::from_random([n; 20]),
        team: team().id,
        project: cabana_types::ProjectId::default_of(&team().id),
        sandbox: sandbox_id(1),
        name: name.into(),
        command: format!("run {n}"),
        cwd: None,
        env: BTreeMap::from([("TOKEN".to_owned(), "secret".to_owned())]),
        port: Some(3000 + u16::from(n)),
        port_found: false,
        up: true,
        run: 1,
        last: None,
        last_lines: vec![],
        restarts: 0,
        settings: ServiceSettings {
            on_wake: OnWake::Restart,
            always_on: false,
            access: Access::Private,
            slug: None,
            host_mode: HostMode::Local,
            bridge: true,
        },
        removed: false,
        since: at(i64::from(n)),
        created_at: at(i64::from(n)),
        created_by: None,
        version: 0,
    }
}

async fn put(store: &Store, service: Service) -> Service {
    match store.put_service(service, true, 10).await.expect("written") {
        ServicePut::Done(row) => *row,
        other => panic!("{other:?}"),
    }
}

fn end(second: i64, reason: Option<&str>) -> RunEnd {
    RunEnd { at: at(second), exit_code: Some(1), reason: reason.map(str::to_owned) }
}

#[tokio::test]
async fn a_name_is_replaced_and_keeps_its_id_and_access() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    let mut first = service(1, "web");
    first.settings.access = Access::Public;
    first.settings.slug = Some("shop".into());
    let first = put(&store, first).await;
    assert!(first.is_pending() && first.run == 1);
    let second = put(&store, service(2, "web")).await;
    assert_eq!((&second.id, second.run, second.command.as_str()), (&first.id, 2, "run 2"));
    assert_eq!((second.settings.access, second.settings.slug.as_deref()), (Access::Public, Some("shop")));
    let taken = store.put_service(Service { port: second.port, ..service(3, "api") }, true, 10).await.unwrap();
    assert_eq!(taken, ServicePut::PortTaken("web".into()));
    let mut slug = service(3, "api");
    slug.settings.slug = Some("shop".into());
    assert_eq!(store.put_service(slug, false, 10).await.unwrap(), ServicePut::SlugTaken);
    assert_eq!(store.put_service(service(3, "api"), true, 1).await.unwrap(), ServicePut::TooMany);
    assert_eq!(put(&store, service(4, "web")).await.run, 3, "a replacement is not one more");
}

#[tokio::test]
async fn each_change_makes_a_newer_version() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    let web = put(&store, service(1, "web")).await;
    let stopped = store.want_service(web.id.clone(), false, false, at(10)).await.unwrap().expect("row");
    let started = store.service_started(web.id.clone(), 1, "boot".into(), at(11)).await.unwrap().expect("row");
    let ended = store.service_ended(web.id.clone(), 1, end(12, None), vec![]).await.unwrap().expect("row");
    let again = put(&store, service(2, "web")).await;
    let versions = [&web, &stopped, &started, &ended, &again].map(|row| row.version);
    assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
}

#[tokio::test]
async fn starts_and_ends_belong_to_a_run() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    let id = put(&store, service(1, "web")).await.id;
    let started = store.service_started(id.clone(), 1, "boot".into(), at(10)).await.unwrap().unwrap();
    assert!(!started.is_pending());
    // Up already: nothing changes. Again: a new run.
    assert_eq!(store.want_service(id.clone(), true, false, at(11)).await.unwrap().unwrap().run, 1);
    let again = store.want_service(id.clone(), true, true, at(12)).await.unwrap().unwrap();
    assert_eq!((again.run, again.restarts, again.is_pending()), (2, 1, true));
    store.service_started(id.clone(), 2, "boot".into(), at(13)).await.unwrap();
    let late = store.service_ended(id.clone(), 1, end(14, Some("late")), vec![]).await.unwrap().unwrap();
    assert_eq!(late.last.unwrap().end, None, "the end of the first run says nothing about the second");
    let ended = store.service_ended(id.clone(), 2, end(15, Some("crash")), vec!["line".into()]).await.unwrap().unwrap();
    assert_eq!(
        (ended.last.clone().unwrap().end.unwrap().reason.as_deref(), ended.last_lines.len()),
        (Some("crash"), 1)
    );
    let twice = store.service_ended(id.clone(), 2, end(16, Some("other")), vec![]).await.unwrap().unwrap();
    assert_eq!(twice.last, ended.last, "an end is written once");
    assert_eq!(store.want_service(id.clone(), true, false, at(17)).await.unwrap().unwrap().run, 3, "it had ended");
    let down = store.want_service(id.clone(), false, false, at(18)).await.unwrap().unwrap();
    assert_eq!((down.up, down.run), (false, 3));
}

#[tokio::test]
async fn a_found_port_is_found_again_after_each_start() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    let id = put(&store, Service { port: None, ..service(1, "web") }).await.id;
    store.service_started(id.clone(), 1, "boot".into(), at(10)).await.unwrap();
    let found = store.service_port_found(id.clone(), 1, 5173).await.unwrap().unwrap();
    assert_eq!((found.port, found.port_found), (Some(5173), true));
    store.want_service(id.clone(), true, true, at(11)).await.unwrap();
    let again = store.service_started(id.clone(), 2, "boot".into(), at(12)).await.unwrap().unwrap();
    assert_eq!(again.port, None);
    assert_eq!(store.service_port_found(id.clone(), 1, 80).await.unwrap().unwrap().port, None, "of an earlier start");
    let asked = put(&store, service(2, "api")).await;
    let kept = store.service_port_found(asked.id, 0, 80).await.unwrap().unwrap();
    assert_eq!(kept.port, asked.port, "a port that was asked for stays");
}

#[tokio::test]
async fn services_end_with_their_sandbox_and_keep_no_secrets() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    let mut public = service(1, "web");
    public.settings.slug = Some("shop".into());
    public.settings.access = Access::Public;
    let id = put(&store, public).await.id;
    let link = Grant {
        id: GrantId::from_random([1; 20]),
        hash: [1; 32],
        kind: GrantKind::Link,
        service: id.clone(),
        created_at: at(1),
        created_by: None,
        expires_at: at(1000),
        opened: 0,
        last_opened_at: None,
        revoked_at: None,
    };
    assert!(store.put_grant(link.clone(), 1).await.unwrap());
    let second = Grant { id: GrantId::from_random([2; 20]), hash: [2; 32], ..link };
    assert!(!store.put_grant(second, 1).await.unwrap(), "one is the most");
    assert_eq!(store.services().await.unwrap().len(), 1);
    store.end(sandbox_id(1), EndCause::Expired, at(20)).await.unwrap();
    assert_eq!(store.services().await.unwrap().len(), 0);
    store.removed(sandbox_id(1), at(21)).await.unwrap();
    let row = store.service(&id).await.unwrap().unwrap();
    assert!(row.env.is_empty() && row.settings.slug.is_none());
    assert!(store.grants(at(22)).await.unwrap().is_empty());
    store.purge(at(100), 10, 10).await.unwrap();
    assert_eq!(store.service(&id).await.unwrap(), None);
}

#[tokio::test]
async fn a_sandbox_with_a_service_that_is_always_on_does_not_expire() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    insert(&store, sandbox(1)).await;
    store.started(sandbox_id(1), at(1), at(10)).await.unwrap();
    let mut row = service(1, "web");
    row.settings.always_on = true;
    let row = put(&store, row).await;
    let kept = store.expire(sandbox_id(1), at(10), at(10)).await.unwrap();
    assert!(kept.state.cause().is_none() && kept.end_at >= at(10 + 60));
    store.want_service(row.id, false, false, at(20)).await.unwrap();
    let ended = store.expire(sandbox_id(1), kept.end_at, kept.end_at).await.unwrap();
    assert!(ended.state.cause().is_some());
}
