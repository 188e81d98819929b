//! Builds the default root filesystem into the pool of a data directory: `base <data-dir>`. For trying out a change of the recipe.

#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::time::Instant;

use cabana_runtime::{Error, debian};
use cabana_storage::{Pool, PoolConfig};
use cabana_types::BuildId;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let data_dir = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "/var/lib/cabana".into()));
    for fact in cabana_storage::pool::facts(&data_dir) {
        println!("{}: {} {}", fact.name, if fact.ok { "ok" } else { "no" }, fact.detail);
    }
    let pool = Pool::open(&data_dir, PoolConfig::default()).await?;
    println!("pool: {}", pool.description());
    let build = BuildId::from_random(rand::random());
    let start = Instant::now();
    debian::build_base(&pool, &build, |p| {
        println!("{:6.1} s {:3.0} % {}", start.elapsed().as_secs_f32(), p.fraction * 100.0, p.phase);
    })
    .await?;
    println!(
        "{:6.1} s {}",
        start.elapsed().as_secs_f32(),
        data_dir.join("pool/templates").join(build.as_str()).display()
    );
    Ok(())
}
