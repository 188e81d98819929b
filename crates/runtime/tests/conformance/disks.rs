//! Disks and snapshots, as sandboxes see them.

use cabana_runtime::Observed;

use crate::fixture::{Fixture, read, snapshot_id, write};

crate::cases![
    Nothing: a_kept_disk_survives_stop,
    Nothing: a_new_disk_is_empty,
    Nothing: a_disk_without_processes_is_in_the_inventory,
    Nothing: a_disk_is_replaced_by_an_empty_one,
    Nothing: operations_on_a_missing_disk_are_fine,
    Snapshots: a_sandbox_starts_from_a_snapshot,
    Snapshots: a_snapshot_of_a_frozen_sandbox_is_whole,
    Snapshots: a_snapshot_outlives_its_sandbox,
    Snapshots: sandboxes_of_one_snapshot_are_apart,
    Snapshots: snapshots_are_listed_and_deleted_twice,
];

async fn a_kept_disk_survives_stop(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(write(&live, "/root/file", b"kept").await);
    f.isolation().stop(&live.id).await.unwrap();
    let again = f.isolation().launch(f.kept(&live.id)).await.unwrap();
    assert_eq!(read(&again, "/root/file").await.as_deref(), Some("kept"));
    f.destroy(&live.id).await;
}

async fn a_new_disk_is_empty(f: &mut Fixture) {
    let one = f.launch().await;
    assert!(write(&one, "/root/file", b"old").await);
    f.destroy(&one.id).await;
    let two = f.launch().await;
    assert_eq!(read(&two, "/root/file").await, None);
    f.destroy(&two.id).await;
}

async fn a_disk_without_processes_is_in_the_inventory(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().stop(&live.id).await.unwrap();
    assert_eq!(f.isolation().inventory().await.unwrap(), [], "the backend holds nothing of it");
    assert_eq!(f.isolations.inventory().await.unwrap(), std::slice::from_ref(&live.id));
    f.isolations.destroy(&live.id).await.unwrap();
}

async fn a_disk_is_replaced_by_an_empty_one(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(write(&live, "/root/file", b"old").await);
    f.isolation().stop(&live.id).await.unwrap();
    f.disks().replace(&live.id, 64 << 20).await.unwrap();
    let again = f.isolation().launch(f.kept(&live.id)).await.unwrap();
    assert_eq!(read(&again, "/root/file").await, None);
    f.destroy(&live.id).await;
}

async fn operations_on_a_missing_disk_are_fine(f: &mut Fixture) {
    let (disks, id) = (f.disks(), f.spec().id);
    assert!(disks.read(&id).await.unwrap().is_none());
    assert!(disks.open(&id).await.unwrap().is_none());
    disks.resize(&id, 1 << 20).await.unwrap();
    disks.sync(&id).await.unwrap();
    disks.delete(&id).await.unwrap();
    assert_eq!(f.isolation().observe(&id).await.unwrap(), Observed::default());
}

async fn a_sandbox_starts_from_a_snapshot(f: &mut Fixture) {
    let (live, snapshot) = (f.launch().await, snapshot_id());
    assert!(write(&live, "/root/file", b"copied").await);
    f.isolation().stop(&live.id).await.unwrap();
    f.disks().snapshot(&live.id, &snapshot).await.unwrap();
    let copy = f.isolation().launch(f.copied(&snapshot)).await.unwrap();
    assert_eq!(read(&copy, "/root/file").await.as_deref(), Some("copied"));
    f.destroy(&copy.id).await;
    f.destroy(&live.id).await;
    f.disks().delete_snapshot(&snapshot).await.unwrap();
}

async fn a_snapshot_of_a_frozen_sandbox_is_whole(f: &mut Fixture) {
    if !f.isolation().facts().ram_pause {
        return;
    }
    let (live, snapshot) = (f.launch().await, snapshot_id());
    assert!(write(&live, "/root/file", b"copied").await);
    f.isolation().freeze(&live.id).await.unwrap();
    f.disks().snapshot(&live.id, &snapshot).await.unwrap();
    f.isolation().thaw(&live.id).await.unwrap();
    assert!(write(&live, "/root/file", b"changed later").await);
    let copy = f.isolation().launch(f.copied(&snapshot)).await.unwrap();
    assert_eq!(read(&copy, "/root/file").await.as_deref(), Some("copied"));
    f.destroy(&copy.id).await;
    f.destroy(&live.id).await;
    f.disks().delete_snapshot(&snapshot).await.unwrap();
}

async fn a_snapshot_outlives_its_sandbox(f: &mut Fixture) {
    let (live, snapshot) = (f.launch().await, snapshot_id());
    assert!(write(&live, "/root/file", b"copied").await);
    f.isolation().stop(&live.id).await.unwrap();
    f.disks().snapshot(&live.id, &snapshot).await.unwrap();
    f.destroy(&live.id).await;
    let copy = f.isolation().launch(f.copied(&snapshot)).await.unwrap();
    assert_eq!(read(&copy, "/root/file").await.as_deref(), Some("copied"));
    f.destroy(&copy.id).await;
    f.disks().delete_snapshot(&snapshot).await.unwrap();
}

async fn sandboxes_of_one_snapshot_are_apart(f: &mut Fixture) {
    let (live, snapshot) = (f.launch().await, snapshot_id());
    assert!(write(&live, "/root/file", b"copied").await);
    f.isolation().stop(&live.id).await.unwrap();
    f.disks().snapshot(&live.id, &snapshot).await.unwrap();
    let one = f.isolation().launch(f.copied(&snapshot)).await.unwrap();
    assert!(write(&one, "/root/file", b"changed").await);
    let two = f.isolation().launch(f.copied(&snapshot)).await.unwrap();
    assert_eq!(read(&two, "/root/file").await.as_deref(), Some("copied"));
    for id in [&live.id, &one.id, &two.id] {
        f.destroy(id).await;
    }
    f.disks().delete_snapshot(&snapshot).await.unwrap();
}

async fn snapshots_are_listed_and_deleted_twice(f: &mut Fixture) {
    let (live, snapshot) = (f.launch().await, snapshot_id());
    f.isolation().stop(&live.id).await.unwrap();
    f.disks().snapshot(&live.id, &snapshot).await.unwrap();
    assert_eq!(f.disks().snapshots().await.unwrap(), std::slice::from_ref(&snapshot));
    for _ in 0..2 {
        f.disks().delete_snapshot(&snapshot).await.unwrap();
    }
    assert_eq!(f.disks().snapshots().await.unwrap(), []);
    f.destroy(&live.id).await;
}
