//! `cargo xtask package`: a Debian package with one program, its systemd unit, shell completions and manual pages.

mod control;
mod tree;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use tree::Tree;

const USAGE: &str = "\
usage: cargo xtask package [--program FILE] [--version VERSION] [--out DIRECTORY]

  --program FILE       package this `cabana`, which has its guest embedded, instead of building one
  --version VERSION    version of the package (that of the workspace)
  --out DIRECTORY      where to write cabana_VERSION_ARCHITECTURE.deb (target/package)";

struct Options {
    program: Option<PathBuf>,
    version: String,
    out: PathBuf,
}

/// Makes the package; `root` is the repository.
pub(crate) fn package(root: &Path, arguments: &[String]) -> Result<()> {
    let options = parse(root, arguments)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build(root)?,
    };
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    let scratch = tempfile::tempdir()?;
    let mut tree = Tree::new(scratch.path());
    tree.program(&program)?;
    tree.unit(root)?;
    tree.configuration(root)?;
    tree.completions(&program)?;
    tree.manual_pages(&program)?;
    tree.documentation(root)?;
    control::write(&mut tree, root, &options.version, architecture.trim())?;
    fs::create_dir_all(&options.out).with_context(|| format!("creating {}", options.out.display()))?;
    let package = options.out.join(format!("cabana_{}_{}.deb", options.version, architecture.trim()));
    let mut build = Command::new("dpkg-deb");
    // gzip: a tenth of the time of xz, for a package that is a few megabytes larger.
    run(build.args(["--root-owner-group", "-Zgzip", "--build"]).arg(tree.root()).arg(&package))?;
    eprintln!("{}", package.display());
    Ok(())
}

fn parse(root: &Path, arguments: &[String]) -> Result<Options> {
    let mut options =
        Options { program: None, version: env!("CARGO_PKG_VERSION").to_owned(), out: root.join("target/package") };
    let mut arguments = arguments.iter();
    while let Some(flag) = arguments.next() {
        let value = arguments.next().with_context(|| USAGE)?;
        match flag.as_str() {
            "--program" => options.program = Some(PathBuf::from(value)),
            "--version" => options.version = value.clone(),
            "--out" => options.out = PathBuf::from(value),
            _ => bail!("{USAGE}"),
        }
    }
    let valid = |c: char| c.is_ascii_alphanumeric() || ".+~-".contains(c);
    if !options.version.starts_with(|c: char| c.is_ascii_digit()) || !options.version.chars().all(valid) {
        bail!("{:?} is not the version of a Debian package", options.version);
    }
    Ok(options)
}

/// Builds the guest and the program that embeds it, with the scripts that `./run` uses.
fn build(root: &Path) -> Result<PathBuf> {
    let script = "set -euo pipefail; . .ci/prepare.sh; build";
    run(Command::new("bash").args(["-c", script]).current_dir(root))?;
    Ok(root.join("target/release/cabana"))
}

fn run(command: &mut Command) -> Result<()> {
    let name: OsString = command.get_program().to_owned();
    let status = command.status().with_context(|| format!("running {}", name.display()))?;
    if !status.success() {
        bail!("{} failed: {status}", name.display());
    }
    Ok(())
}

fn output(command: &mut Command) -> Result<String> {
    let name: OsString = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("running {}", name.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", name.display(), String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
