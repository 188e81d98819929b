//! Freezing and thawing.

use crate::fixture::{Fixture, answers, read, write};

crate::cases![
    RamPause: a_frozen_guest_does_not_answer_until_it_is_thawed,
    RamPause: frozen_is_observed_and_freezing_twice_is_fine,
    RamPause: thaw_of_a_sandbox_that_is_not_frozen_is_fine,
    RamPause: freeze_of_an_unknown_sandbox_fails,
    RamPause: a_frozen_sandbox_keeps_its_state_over_reclaim,
    RamPause: one_frozen_sandbox_does_not_stop_another,
    RamPause: a_frozen_sandbox_is_stopped,
    RamPause: a_frozen_sandbox_is_destroyed,
];

async fn a_frozen_guest_does_not_answer_until_it_is_thawed(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().freeze(&live.id).await.unwrap();
    assert!(!answers(&live).await);
    f.isolation().thaw(&live.id).await.unwrap();
    assert!(answers(&live).await);
    f.destroy(&live.id).await;
}

async fn frozen_is_observed_and_freezing_twice_is_fine(f: &mut Fixture) {
    let live = f.launch().await;
    for _ in 0..2 {
        f.isolation().freeze(&live.id).await.unwrap();
        let seen = f.isolation().observe(&live.id).await.unwrap();
        assert!(seen.frozen && seen.processes);
    }
    f.isolation().thaw(&live.id).await.unwrap();
    assert!(!f.isolation().observe(&live.id).await.unwrap().frozen);
    f.destroy(&live.id).await;
}

async fn thaw_of_a_sandbox_that_is_not_frozen_is_fine(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().thaw(&live.id).await.unwrap();
    assert!(answers(&live).await);
    f.destroy(&live.id).await;
}

async fn freeze_of_an_unknown_sandbox_fails(f: &mut Fixture) {
    assert!(f.isolation().freeze(&f.spec().id).await.is_err());
}

async fn a_frozen_sandbox_keeps_its_state_over_reclaim(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(write(&live, "/root/file", b"state").await);
    f.isolation().freeze(&live.id).await.unwrap();
    f.isolation().reclaim(&live.id).await;
    assert!(f.isolation().observe(&live.id).await.unwrap().frozen);
    f.isolation().thaw(&live.id).await.unwrap();
    assert_eq!(read(&live, "/root/file").await.as_deref(), Some("state"));
    assert_eq!(live.vitals.borrow().death, None);
    f.destroy(&live.id).await;
}

async fn one_frozen_sandbox_does_not_stop_another(f: &mut Fixture) {
    let (one, two) = (f.launch().await, f.launch().await);
    f.isolation().freeze(&one.id).await.unwrap();
    assert!(answers(&two).await);
    f.destroy(&one.id).await;
    f.destroy(&two.id).await;
}

async fn a_frozen_sandbox_is_stopped(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().freeze(&live.id).await.unwrap();
    f.isolation().stop(&live.id).await.unwrap();
    let seen = f.isolation().observe(&live.id).await.unwrap();
    assert!(!seen.processes && !seen.frozen && seen.disk);
    f.destroy(&live.id).await;
}

async fn a_frozen_sandbox_is_destroyed(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().freeze(&live.id).await.unwrap();
    f.destroy(&live.id).await;
}
