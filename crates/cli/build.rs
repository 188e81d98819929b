//! Embeds the guest executable and the code interpreter's program if `CABANA_GUEST_PROGRAM` and `CABANA_INTERPRETER_PROGRAM` are set.
//! Otherwise `cabana` uses the files next to itself.

use std::path::PathBuf;

// Cargo reads instructions from a build script's standard output.
#[allow(clippy::print_stdout)]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for (variable, name) in [("CABANA_GUEST_PROGRAM", "guest"), ("CABANA_INTERPRETER_PROGRAM", "interpreter")] {
        println!("cargo::rustc-check-cfg=cfg(embedded_{name})");
        println!("cargo::rerun-if-env-changed={variable}");
        let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) else { continue };
        let path = PathBuf::from(path);
        if !path.is_absolute() || !path.is_file() {
            println!("cargo::error={variable} must be the absolute path of a file: {}", path.display());
            return;
        }
        println!("cargo::rerun-if-changed={}", path.display());
        println!("cargo::rustc-env=CABANA_EMBEDDED_{}={}", name.to_uppercase(), path.display());
        println!("cargo::rustc-cfg=embedded_{name}");
    }
}
