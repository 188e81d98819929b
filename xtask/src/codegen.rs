//! `cargo xtask codegen` writes `crates/proto/src/generated` from `proto/` without protoc; `--check` fails if what is committed differs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::root;

const PROTOS: [&str; 2] = ["process/process.proto", "filesystem/filesystem.proto"];

/// Writes the generated files.
pub(crate) fn write() -> Result<()> {
    generate(&generated_dir())
}

fn generated_dir() -> PathBuf {
    root().join("crates/proto/src/generated")
}

/// Compiles the protos with a pure-Rust compiler and generates messages, service traits and clients.
fn generate(out: &Path) -> Result<()> {
    let include = root().join("proto");
    let files: Vec<PathBuf> = PROTOS.iter().map(|p| include.join(p)).collect();
    let set = protox::Compiler::new([&include])?
        .include_imports(true)
        .include_source_info(true)
        .open_files(&files)?
        .encode_file_descriptor_set();
    let scratch = tempfile::tempdir()?;
    let descriptors = scratch.path().join("descriptors.bin");
    fs::write(&descriptors, set)?;
    fs::create_dir_all(out)?;
    connectrpc_build::Config::new()
        .descriptor_set(&descriptors)
        .files(&PROTOS)
        .out_dir(out)
        .include_file("services.rs")
        .emit_rerun_directives(false)
        .compile()
        .context("generating the guest contract")
}

/// Compares what is committed with what would be written.
pub(crate) fn check() -> Result<()> {
    let fresh = tempfile::tempdir()?;
    generate(fresh.path())?;
    let (want, have) = (listing(fresh.path())?, listing(&generated_dir())?);
    if want != have {
        bail!("crates/proto/src/generated is out of date: run `cargo xtask codegen` and commit the result");
    }
    Ok(())
}

fn listing(dir: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let entry = entry?;
        files.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}
