//! Embeds the guest executable if `CABANA_GUEST_PROGRAM` is set. Otherwise `cabana` uses the file next to itself.

use std::path::PathBuf;

const GUEST: &str = "CABANA_GUEST_PROGRAM";

// Cargo reads instructions from a build script's standard output.
#[allow(clippy::print_stdout)]
fn main() {
    println!("cargo::rustc-check-cfg=cfg(embedded_guest)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={GUEST}");
    let Some(path) = std::env::var_os(GUEST).filter(|path| !path.is_empty()) else { return };
    let path = PathBuf::from(path);
    if !path.is_absolute() || !path.is_file() {
        println!("cargo::error={GUEST} must be the absolute path of a file: {}", path.display());
        return;
    }
    println!("cargo::rerun-if-changed={}", path.display());
    println!("cargo::rustc-env=CABANA_EMBEDDED_GUEST={}", path.display());
    println!("cargo::rustc-cfg=embedded_guest");
}
