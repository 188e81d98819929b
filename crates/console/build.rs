//! Embeds the files of `console/dist`, or a page that says how to build them: `cargo build` alone never needs Node.

use std::fmt::Write;
use std::path::{Path, PathBuf};

// Cargo reads instructions from a build script's standard output.
#[allow(clippy::print_stdout)]
fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let dist = here.join("../../console/dist");
    // Written last by the build of the console. A missing file makes cargo look again each time, which is cheap.
    println!("cargo::rerun-if-changed={}", dist.join(".stamp").display());
    println!("cargo::rerun-if-changed=placeholder.html");
    let mut files = Vec::new();
    if dist.join("index.html").is_file() {
        collect(&dist, &dist, &mut files);
    } else {
        files.push(("index.html".to_owned(), here.join("placeholder.html")));
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in &files {
        let _ = writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.display().to_string());
    }
    table.push_str("]\n");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("files.rs");
    if let Err(error) = std::fs::write(&out, table) {
        println!("cargo::error=cannot write {}: {error}", out.display());
    }
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if path.is_dir() {
            collect(root, &path, files);
        } else if let (false, Ok(name)) = (hidden, path.strip_prefix(root)) {
            files.push((name.to_string_lossy().into_owned(), path));
        }
    }
}
