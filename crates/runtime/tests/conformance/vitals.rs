//! What a backend reports: deaths, kills for lack of memory, stats; and limits.

use cabana_runtime::{Death, OomScope};
use cabana_types::Resources;

use crate::fixture::{Fixture, answers, read, write};

crate::cases![
    Nothing: the_death_of_the_first_process_is_reported,
    Nothing: the_death_of_one_is_not_reported_for_another,
    Nothing: running_out_of_memory_is_reported_as_declared,
    Nothing: stats_count_cpu_and_memory,
    Nothing: a_sandbox_is_told_its_own_limits,
    Nothing: a_running_sandbox_is_resized,
    Nothing: a_stopped_sandbox_is_resized,
    Quota: writes_beyond_the_disk_limit_fail_until_it_is_raised,
];

async fn the_death_of_the_first_process_is_reported(f: &mut Fixture) {
    let mut live = f.launch().await;
    f.kill_first_process(&live.id);
    let death = live.vitals.wait_for(|vitals| vitals.death.is_some()).await.unwrap().death;
    assert_eq!(death, Some(Death::Died));
    let seen = f.isolation().observe(&live.id).await.unwrap();
    assert!(!seen.processes && seen.disk);
    f.destroy(&live.id).await;
}

async fn the_death_of_one_is_not_reported_for_another(f: &mut Fixture) {
    let (mut one, two) = (f.launch().await, f.launch().await);
    f.kill_first_process(&one.id);
    one.vitals.wait_for(|vitals| vitals.death.is_some()).await.unwrap();
    assert_eq!(two.vitals.borrow().death, None);
    assert!(answers(&two).await);
    f.destroy(&one.id).await;
    f.destroy(&two.id).await;
}

async fn running_out_of_memory_is_reported_as_declared(f: &mut Fixture) {
    let mut live = f.launch_hungry().await;
    let vitals = *live.vitals.wait_for(|vitals| vitals.oom_kills > 0 || vitals.death.is_some()).await.unwrap();
    match f.isolation().facts().oom {
        OomScope::Process => assert!(vitals.oom_kills > 0 && vitals.death.is_none(), "{vitals:?}"),
        OomScope::Sandbox => assert_eq!(vitals.death, Some(Death::OutOfMemory)),
    }
    f.destroy(&live.id).await;
}

async fn stats_count_cpu_and_memory(f: &mut Fixture) {
    let live = f.launch().await;
    let stats = f.isolation().stats(&live.id).await.unwrap();
    assert!(stats.cpu_usec > 0 && stats.memory_used > 0, "{stats:?}");
    f.destroy(&live.id).await;
}

/// By a backend with a kernel that is the host's, too.
async fn a_sandbox_is_told_its_own_limits(f: &mut Fixture) {
    if f.name() == "fake" {
        return;
    }
    let live = f.launch().await;
    let total = |text: Option<String>| text?.lines().next()?.split_ascii_whitespace().nth(1)?.parse::<u32>().ok();
    assert_eq!(total(read(&live, "/proc/meminfo").await), Some(256 << 10), "from the start");
    f.isolation().resize(&live.id, larger()).await.unwrap();
    f.isolation().stats(&live.id).await.unwrap();
    assert_eq!(total(read(&live, "/proc/meminfo").await), Some(512 << 10), "with the next sample");
    assert_eq!(read(&live, "/sys/devices/system/cpu/online").await.as_deref(), Some("0-1\n"));
    f.restart().await;
    let live = f.isolation().adopt(&live.id).await.unwrap().unwrap();
    f.isolation().resize(&live.id, f.spec().resources).await.unwrap();
    f.isolation().stats(&live.id).await.unwrap();
    assert_eq!(total(read(&live, "/proc/meminfo").await), Some(256 << 10), "by the next server");
    let stat = read(&live, "/proc/stat").await.unwrap();
    assert!(stat.starts_with("cpu ") && stat.contains("\ncpu0 ") && !stat.contains("\ncpu1 "), "{stat}");
    f.destroy(&live.id).await;
}

fn larger() -> Resources {
    Resources { cpu_count: 2, memory_mb: 512, disk_mb: 256, pids: 256 }
}

async fn a_running_sandbox_is_resized(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().resize(&live.id, larger()).await.unwrap();
    f.isolation().resize(&live.id, f.spec().resources).await.unwrap();
    assert!(answers(&live).await);
    f.destroy(&live.id).await;
}

async fn a_stopped_sandbox_is_resized(f: &mut Fixture) {
    let live = f.launch().await;
    f.isolation().stop(&live.id).await.unwrap();
    f.isolation().resize(&live.id, larger()).await.unwrap();
    let seen = f.isolation().observe(&live.id).await.unwrap();
    assert!(seen.disk && !seen.processes);
    f.destroy(&live.id).await;
}

async fn writes_beyond_the_disk_limit_fail_until_it_is_raised(f: &mut Fixture) {
    let live = f.launch().await;
    // Not zeros: they would need no space where files are sparse or compressed.
    let block: Vec<u8> = (0..1_u32 << 18).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let large = block.repeat(80);
    assert!(!write(&live, "/root/large", &large).await);
    f.isolation().resize(&live.id, larger()).await.unwrap();
    assert!(write(&live, "/root/large", &large).await);
    f.destroy(&live.id).await;
}
