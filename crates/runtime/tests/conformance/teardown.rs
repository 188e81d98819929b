//! Stopping and destroying. That nothing is left is checked after every case.

use cabana_runtime::Observed;

use crate::fixture::Fixture;

crate::cases![
    Nothing: stop_removes_everything_but_the_disk,
    Nothing: stop_twice_is_fine,
    Nothing: stop_of_a_sandbox_that_was_never_launched_is_fine,
    Nothing: stop_after_death_is_fine,
    Nothing: destroy_removes_everything,
    Nothing: destroy_twice_is_fine,
    Nothing: destroy_of_a_sandbox_that_was_never_launched_is_fine,
    Nothing: destroy_after_death_is_fine,
    Nothing: destroy_after_stop_removes_the_disk,
    Nothing: destroy_by_all_backends_removes_everything,
    Nothing: an_id_can_be_launched_again_after_destroy,
];

async fn stop_removes_everything_but_the_disk(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().stop(&live.id).await.unwrap();
    let left = f.leftovers().await;
    assert!(left.len() == 1 && left[0].ends_with(live.id.as_str()), "{left:?}");
    let seen = f.isolation().observe(&live.id).await.unwrap();
    assert_eq!(seen, Observed { processes: false, frozen: false, disk: true });
    f.destroy(&live.id).await;
}

async fn stop_twice_is_fine(f: &mut Fixture) {
    let live = f.launch().await;
    for _ in 0..2 {
        f.isolation().stop(&live.id).await.unwrap();
    }
    f.destroy(&live.id).await;
}

async fn stop_of_a_sandbox_that_was_never_launched_is_fine(f: &mut Fixture) {
    f.isolation().stop(&f.spec().id).await.unwrap();
}

async fn stop_after_death_is_fine(f: &mut Fixture) {
    let mut live = f.launch().await;
    f.kill_first_process(&live.id);
    live.vitals.wait_for(|vitals| vitals.death.is_some()).await.unwrap();
    f.isolation().stop(&live.id).await.unwrap();
    assert!(f.isolation().observe(&live.id).await.unwrap().disk);
    f.destroy(&live.id).await;
}

async fn destroy_removes_everything(f: &mut Fixture) {
    let live = f.launch().await;
    assert!(!f.leftovers_now().is_empty(), "the check itself sees a running sandbox");
    f.destroy(&live.id).await;
    assert_eq!(f.leftovers().await, [] as [String; 0]);
    assert_eq!(f.isolation().observe(&live.id).await.unwrap(), Observed::default());
}

async fn destroy_twice_is_fine(f: &mut Fixture) {
    let live = f.launch().await;
    for _ in 0..2 {
        f.destroy(&live.id).await;
    }
}

async fn destroy_of_a_sandbox_that_was_never_launched_is_fine(f: &mut Fixture) {
    f.destroy(&f.spec().id).await;
}

async fn destroy_after_death_is_fine(f: &mut Fixture) {
    let mut live = f.launch().await;
    f.kill_first_process(&live.id);
    live.vitals.wait_for(|vitals| vitals.death.is_some()).await.unwrap();
    f.destroy(&live.id).await;
}

async fn destroy_after_stop_removes_the_disk(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().stop(&live.id).await.unwrap();
    f.destroy(&live.id).await;
    assert!(!f.isolation().observe(&live.id).await.unwrap().disk);
}

async fn destroy_by_all_backends_removes_everything(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolations.destroy(&live.id).await.unwrap();
    assert_eq!(f.isolations.inventory().await.unwrap(), []);
}

async fn an_id_can_be_launched_again_after_destroy(f: &mut Fixture) {
    let spec = f.spec();
    for _ in 0..2 {
        let live = f.isolation().launch(spec.clone()).await.unwrap();
        f.destroy(&live.id).await;
    }
}
