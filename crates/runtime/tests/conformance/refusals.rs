//! What a backend does not offer, it refuses. A case whose name ends with `_is_refused` runs where its fact is absent.

use std::sync::Arc;

use cabana_runtime::{Checkpoint, Error, Isolations, LaunchSpec, Mount};

use crate::fixture::{Fixture, is_refusal, snapshot_id};

crate::cases![
    Checkpoint: checkpoint_is_refused,
    Checkpoint: restore_is_refused,
    RamPause: freeze_is_refused,
    Mounts: a_launch_with_mounts_is_refused,
    Snapshots: snapshot_is_refused,
    Nothing: an_unknown_backend_has_a_clear_error,
    Nothing: the_default_must_exist,
    Nothing: a_sandbox_of_an_unknown_backend_is_refused_where_it_is_used,
];

async fn checkpoint_is_refused(f: &mut Fixture) {
    let (live, dir) = (f.launch().await, tempfile::tempdir().unwrap());
    let refused = f.isolation().checkpoint(&live.id, dir.path()).await;
    assert!(is_refusal(&refused), "{refused:?}");
    let text = refused.unwrap_err().to_string();
    assert_eq!(text, format!("isolation {} does not offer checkpoints", f.name()));
    assert!(live.link.is_healthy().await, "the sandbox continues");
    f.destroy(&live.id).await;
}

async fn restore_is_refused(f: &mut Fixture) {
    let checkpoint = Checkpoint { path: "/nonexistent".into() };
    assert!(is_refusal(&f.isolation().restore(f.spec(), &checkpoint).await));
}

async fn freeze_is_refused(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(f.isolation().freeze(&live.id).await.is_err());
    assert!(live.link.is_healthy().await, "the sandbox continues");
    f.destroy(&live.id).await;
}

async fn a_launch_with_mounts_is_refused(f: &mut Fixture) {
    let dir = tempfile::tempdir().unwrap();
    let source = Arc::new(std::fs::File::open(dir.path()).unwrap().into());
    let mount = Mount { source, target: "/volume".into(), read_only: true };
    assert!(is_refusal(&f.isolation().launch(LaunchSpec { mounts: vec![mount], ..f.spec() }).await));
}

async fn snapshot_is_refused(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().stop(&live.id).await.unwrap();
    assert!(f.disks().snapshot(&live.id, &snapshot_id()).await.is_err());
    f.destroy(&live.id).await;
}

async fn an_unknown_backend_has_a_clear_error(f: &mut Fixture) {
    let name = f.name();
    let error = f.isolations.get("nonesuch").err().unwrap();
    assert!(matches!(&error, Error::UnknownIsolation { name, .. } if name == "nonesuch"));
    assert_eq!(error.to_string(), format!("there is no isolation \"nonesuch\"; this server has: {name}"));
}

async fn the_default_must_exist(f: &mut Fixture) {
    assert_eq!(f.isolations.default_name(), f.name());
    let again = || Isolations::new(f.isolation(), f.disks());
    assert!(again().with_default("nonesuch").is_err());
    assert!(again().with_default(f.name()).is_ok());
}

async fn a_sandbox_of_an_unknown_backend_is_refused_where_it_is_used(f: &mut Fixture) {
    let spec = f.spec();
    f.isolations.assign(&spec.id, "nonesuch");
    let refused = f.isolations.launch(spec.clone()).await;
    assert!(matches!(refused, Err(Error::UnknownIsolation { .. })), "{refused:?}");
    f.isolations.assign(&spec.id, f.name());
    let live = f.isolations.launch(spec).await.unwrap();
    f.isolations.destroy(&live.id).await.unwrap();
}
