//! Launching.

use std::sync::Arc;

use cabana_runtime::{DiskSource, Error, LaunchSpec, Mount, Observed, Root};
use cabana_types::EgressPolicy;

use crate::fake::missing_build;
use crate::fixture::{Fixture, answers, read, write};

crate::cases![
    Nothing: launch_returns_when_the_guest_serves,
    Nothing: a_launched_sandbox_is_observed,
    Nothing: a_launched_sandbox_is_in_the_inventory,
    Nothing: two_sandboxes_run_at_once_and_apart,
    Nothing: many_sandboxes_are_launched_concurrently,
    Nothing: launch_without_its_build_fails_and_leaves_nothing,
    Nothing: launch_with_a_kept_disk_that_is_missing_fails,
    Nothing: a_failed_launch_keeps_the_kept_disk,
    Nothing: launch_with_the_kept_disk_replaces_a_running_sandbox,
    Nothing: where_a_sandbox_may_connect_is_replaced,
    Mounts: a_read_only_mount_appears_inside,
    Mounts: a_writable_mount_is_shared_with_the_host,
    Mounts: a_launch_that_fails_late_leaves_nothing,
];

async fn launch_returns_when_the_guest_serves(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(answers(&live).await);
    assert_eq!(live.vitals.borrow().death, None);
    f.destroy(&live.id).await;
}

async fn a_launched_sandbox_is_observed(f: &mut Fixture) {
    let live = f.launch().await;
    let seen = f.isolation().observe(&live.id).await.unwrap();
    assert_eq!(seen, Observed { processes: true, frozen: false, disk: true });
    f.destroy(&live.id).await;
    assert_eq!(f.isolation().observe(&live.id).await.unwrap(), Observed::default());
}

async fn where_a_sandbox_may_connect_is_replaced(f: &mut Fixture) {
    let policy = |text: &str| Arc::new(serde_json::from_str::<EgressPolicy>(text).unwrap());
    let live = f.launch().await;
    assert_eq!(f.isolation().denials(&live.id).await.unwrap().total, 0);
    for text in ["{}", r#"{"denyOut":["9.9.9.9/32"]}"#, r#"{"allowOut":["a.example.com"],"denyOut":["0.0.0.0/0"]}"#] {
        f.isolation().set_egress(&live.id, policy(text)).await.unwrap();
    }
    f.restart().await;
    f.isolation().set_egress(&live.id, policy("{}")).await.unwrap();
    assert!(answers(&live).await, "the guest is reached whatever the policy is");
    f.isolation().stop(&live.id).await.unwrap();
    f.isolation().set_egress(&live.id, policy("{}")).await.unwrap();
    f.destroy(&live.id).await;
}

async fn a_launched_sandbox_is_in_the_inventory(f: &mut Fixture) {
    let live = f.launch().await;
    assert_eq!(f.isolation().inventory().await.unwrap(), std::slice::from_ref(&live.id));
    assert_eq!(f.isolations.inventory().await.unwrap(), std::slice::from_ref(&live.id));
    f.destroy(&live.id).await;
    assert_eq!(f.isolations.inventory().await.unwrap(), []);
}

async fn two_sandboxes_run_at_once_and_apart(f: &mut Fixture) {
    let (one, two) = (f.launch().await, f.launch().await);
    assert!(answers(&one).await && answers(&two).await);
    assert_ne!(one.link, two.link);
    assert!(write(&one, "/root/file", b"one").await);
    assert_eq!(read(&two, "/root/file").await, None);
    f.destroy(&one.id).await;
    assert!(answers(&two).await, "the end of one does not touch the other");
    f.destroy(&two.id).await;
}

async fn many_sandboxes_are_launched_concurrently(f: &mut Fixture) {
    let launches = (0..6).map(|_| f.launch());
    let all = futures::future::join_all(launches).await;
    for live in &all {
        assert!(answers(live).await);
    }
    futures::future::join_all(all.iter().map(|live| f.destroy(&live.id))).await;
}

async fn launch_without_its_build_fails_and_leaves_nothing(f: &mut Fixture) {
    let root = Root::Build { build: missing_build(), disk: DiskSource::New };
    let spec = LaunchSpec { root, ..f.spec() };
    let id = spec.id.clone();
    assert!(matches!(f.isolation().launch(spec).await, Err(Error::NoBuild(build)) if build == missing_build()));
    assert_eq!(f.isolation().observe(&id).await.unwrap(), Observed::default());
    assert_eq!(f.isolations.inventory().await.unwrap(), []);
}

async fn launch_with_a_kept_disk_that_is_missing_fails(f: &mut Fixture) {
    let id = f.spec().id;
    assert!(f.isolation().launch(f.kept(&id)).await.is_err());
    assert_eq!(f.isolations.inventory().await.unwrap(), []);
}

async fn a_failed_launch_keeps_the_kept_disk(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(write(&live, "/root/file", b"kept").await);
    f.isolation().stop(&live.id).await.unwrap();
    let root = Root::Build { build: missing_build(), disk: DiskSource::Kept };
    assert!(f.isolation().launch(LaunchSpec { root, ..f.kept(&live.id) }).await.is_err());
    let seen = f.isolation().observe(&live.id).await.unwrap();
    assert_eq!(seen, Observed { processes: false, frozen: false, disk: true });
    let again = f.isolation().launch(f.kept(&live.id)).await.unwrap();
    assert_eq!(read(&again, "/root/file").await.as_deref(), Some("kept"));
    f.destroy(&live.id).await;
}

async fn launch_with_the_kept_disk_replaces_a_running_sandbox(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(write(&live, "/root/file", b"kept").await);
    let again = f.isolation().launch(f.kept(&live.id)).await.unwrap();
    assert_eq!(read(&again, "/root/file").await.as_deref(), Some("kept"));
    assert_eq!(f.isolations.inventory().await.unwrap(), std::slice::from_ref(&live.id));
    f.destroy(&live.id).await;
}

fn mount(dir: &std::path::Path, target: &str, read_only: bool) -> Mount {
    let source = Arc::new(std::fs::File::open(dir).unwrap().into());
    Mount { source, target: target.to_owned(), read_only }
}

async fn a_read_only_mount_appears_inside(f: &mut Fixture) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hello"), "from the host").unwrap();
    let spec = LaunchSpec { mounts: vec![mount(dir.path(), "/volumes/fixed", true)], ..f.spec() };
    let live = f.isolation().launch(spec).await.unwrap();
    assert_eq!(read(&live, "/volumes/fixed/hello").await.as_deref(), Some("from the host"));
    assert!(!write(&live, "/volumes/fixed/new", b"x").await);
    f.destroy(&live.id).await;
    assert!(dir.path().join("hello").exists() && !dir.path().join("new").exists());
}

async fn a_writable_mount_is_shared_with_the_host(f: &mut Fixture) {
    let dir = tempfile::tempdir().unwrap();
    let spec = LaunchSpec { mounts: vec![mount(dir.path(), "/volumes/shared", false)], ..f.spec() };
    let live = f.isolation().launch(spec).await.unwrap();
    assert!(write(&live, "/volumes/shared/new", b"from inside").await);
    f.destroy(&live.id).await;
    assert_eq!(std::fs::read_to_string(dir.path().join("new")).unwrap(), "from inside", "it outlives the sandbox");
}

async fn a_launch_that_fails_late_leaves_nothing(f: &mut Fixture) {
    let dir = tempfile::tempdir().unwrap();
    let spec = LaunchSpec { mounts: vec![mount(dir.path(), "not/absolute", true)], ..f.spec() };
    let id = spec.id.clone();
    assert!(matches!(f.isolation().launch(spec).await, Err(Error::Launch { .. })));
    assert_eq!(f.isolation().observe(&id).await.unwrap(), Observed::default());
}
