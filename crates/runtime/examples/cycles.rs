//! Times launch and destroy of the native backend alone, without API and store: `cycles DATA_DIR PROGRAM GUEST TEMPLATE_DIR COUNT`.
//! `PROGRAM` is `cabana` (it has the launcher); `TEMPLATE_DIR` is copied into the pool as a build, the first time. Needs root.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_runtime::host::{Host, HostConfig};
use cabana_runtime::native::{Native, NativeConfig};
use cabana_runtime::{DiskSource, Isolation, LaunchSpec, Root};
use cabana_storage::{Pool, PoolConfig};
use cabana_types::guest::GuestConfig;
use cabana_types::{BuildId, Resources, SandboxId};

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [data_dir, program, guest, template, count] = &args[..] else {
        panic!("usage: cycles DATA_DIR PROGRAM GUEST TEMPLATE_DIR COUNT")
    };
    let data_dir = PathBuf::from(data_dir);
    std::fs::create_dir_all(&data_dir).unwrap();
    let pool = Arc::new(Pool::open(&data_dir, PoolConfig::default()).await.unwrap());
    let build = BuildId::from_random([1; 16]);
    if pool.open_build(&build).unwrap().is_none() {
        let new = pool.begin_build(&build).await.unwrap();
        let copied = std::process::Command::new("cp").args(["-a", &format!("{template}/.")]).arg(new.rootfs()).status();
        assert!(copied.unwrap().success());
        new.commit().await.unwrap();
    }
    let supervisor = cabana_supervisor::Supervisor::new();
    let host = HostConfig {
        data_dir,
        spare_slots: 4,
        resolvers: Vec::new(),
        bounds: Default::default(),
        policies: Default::default(),
        reserved_memory: 0,
        io: Default::default(),
        supervisor,
    };
    let host = Arc::new(Host::open(host, pool).await.unwrap());
    let config = NativeConfig { program: program.into(), guest: Some(guest.into()) };
    let native = Native::open(&config, Arc::clone(&host)).unwrap();
    let (mut ups, mut downs) = (Vec::new(), Vec::new());
    for number in 0..count.parse::<u32>().unwrap() {
        let id = SandboxId::from_random(rand::random());
        let begin = Instant::now();
        native.launch(spec(id.clone(), build.clone())).await.unwrap();
        ups.push(begin.elapsed());
        if number == 0 {
            println!("{id} uses {:?}", native.stats(&id).await.unwrap());
        }
        let begin = Instant::now();
        native.destroy(&id).await.unwrap();
        downs.push(begin.elapsed());
    }
    println!("launch  {}", quantiles(&mut ups));
    println!("destroy {}", quantiles(&mut downs));
    assert!(native.inventory().await.unwrap().is_empty());
    host.close().await.unwrap();
}

fn spec(id: SandboxId, build: BuildId) -> LaunchSpec {
    let resources = Resources::default();
    let guest = GuestConfig {
        sandbox_id: id.clone(),
        template_id: "base".into(),
        access_token: None,
        env_vars: Default::default(),
        default_user: "user".into(),
        default_workdir: None,
        authority: None,
        cpu_count: resources.cpu_count,
        memory_bytes: u64::from(resources.memory_mb) << 20,
        start: None,
        ready: None,
        disk_bytes: u64::from(resources.disk_mb) << 20,
    };
    LaunchSpec {
        id,
        root: Root::Build { build, disk: DiskSource::New },
        resources,
        mounts: Vec::new(),
        egress: Arc::default(),
        guest,
        no_new_privileges: false,
    }
}

fn quantiles(times: &mut [Duration]) -> String {
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 100];
    format!("p50 {:?}  p99 {:?}  max {:?}", at(50), at(99), at(100))
}
