//! Installs the default root filesystem into an empty directory: `base <directory>`. To try out a change of the recipe.

#![allow(clippy::print_stdout)]

use std::path::PathBuf;
use std::time::Instant;

use cabana_image::debian::{Base, Error};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let directory = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "base".into()));
    let start = Instant::now();
    let show = |phase: &str, fraction: f32| {
        println!("{:6.1} s {:3.0} % {phase}", start.elapsed().as_secs_f32(), fraction * 100.0);
    };
    Base::default().install(directory, (), |p| show(&p.phase.to_string(), p.fraction)).await
}
