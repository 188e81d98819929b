//! Adopting sandboxes, also those of another server.

use cabana_runtime::Observed;

use crate::fixture::{Fixture, answers, read, write};

crate::cases![
    Nothing: adopt_finds_a_running_sandbox,
    Nothing: adopt_of_an_unknown_sandbox_is_none,
    Nothing: adopt_of_a_stopped_sandbox_is_none,
    Nothing: adopt_of_a_dead_sandbox_is_none,
    Nothing: a_restarted_server_adopts_a_running_sandbox,
    Nothing: a_restarted_server_destroys_without_adopting,
    Nothing: a_restarted_server_stops_without_adopting,
    RamPause: a_restarted_server_finds_a_frozen_sandbox_frozen,
];

async fn adopt_finds_a_running_sandbox(f: &mut Fixture) {
    let live = f.launch().await;
    let adopted = f.isolation().adopt(&live.id).await.unwrap().unwrap();
    assert_eq!((&adopted.id, &adopted.link), (&live.id, &live.link));
    assert!(answers(&adopted).await);
    f.destroy(&live.id).await;
}

async fn adopt_of_an_unknown_sandbox_is_none(f: &mut Fixture) {
    assert!(f.isolation().adopt(&f.spec().id).await.unwrap().is_none());
}

async fn adopt_of_a_stopped_sandbox_is_none(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().stop(&live.id).await.unwrap();
    assert!(f.isolation().adopt(&live.id).await.unwrap().is_none());
    f.destroy(&live.id).await;
}

async fn adopt_of_a_dead_sandbox_is_none(f: &mut Fixture) {
    let mut live = f.launch().await;
    f.kill_first_process(&live.id);
    live.vitals.wait_for(|vitals| vitals.death.is_some()).await.unwrap();
    assert!(f.isolation().adopt(&live.id).await.unwrap().is_none());
    f.destroy(&live.id).await;
}

async fn a_restarted_server_adopts_a_running_sandbox(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(write(&live, "/root/file", b"before").await);
    f.restart().await;
    assert_eq!(f.isolation().inventory().await.unwrap(), std::slice::from_ref(&live.id));
    let mut adopted = f.isolation().adopt(&live.id).await.unwrap().unwrap();
    assert_eq!(adopted.link, live.link);
    assert_eq!(read(&adopted, "/root/file").await.as_deref(), Some("before"));
    f.kill_first_process(&live.id);
    adopted.vitals.wait_for(|vitals| vitals.death.is_some()).await.unwrap();
    f.destroy(&live.id).await;
}

async fn a_restarted_server_destroys_without_adopting(f: &mut Fixture) {
    let live = f.launch().await;
    f.restart().await;
    f.destroy(&live.id).await;
    assert_eq!(f.isolation().observe(&live.id).await.unwrap(), Observed::default());
}

async fn a_restarted_server_stops_without_adopting(f: &mut Fixture) {
    let live = f.launch().await;
    f.restart().await;
    f.isolation().stop(&live.id).await.unwrap();
    let seen = f.isolation().observe(&live.id).await.unwrap();
    assert_eq!(seen, Observed { processes: false, frozen: false, disk: true });
    f.destroy(&live.id).await;
}

async fn a_restarted_server_finds_a_frozen_sandbox_frozen(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().freeze(&live.id).await.unwrap();
    f.restart().await;
    let adopted = f.isolation().adopt(&live.id).await.unwrap().unwrap();
    assert!(f.isolation().observe(&live.id).await.unwrap().frozen);
    f.isolation().thaw(&live.id).await.unwrap();
    assert!(answers(&adopted).await);
    f.destroy(&live.id).await;
}
