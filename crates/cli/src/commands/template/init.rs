//! `cabana template init`: writes a starter Dockerfile.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana template init
  cabana template init web && cabana template build web

Writes a commented Dockerfile and .dockerignore, and prints their paths. Existing files are not
overwritten.";

const DOCKERFILE: &str = include_str!("init/Dockerfile.example");
const IGNORE: &str = include_str!("init/dockerignore.example");

/// Write a starter Dockerfile
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory; created if it does not exist
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args, context: &Context) -> Outcome {
    let describe =
        |path: &Path, e: std::io::Error| Failure::from(e).context(format!("cannot write {}", path.display()));
    std::fs::create_dir_all(&args.directory).map_err(|e| describe(&args.directory, e))?;
    let path = args.directory.join("Dockerfile");
    match write(&path, DOCKERFILE) {
        Ok(()) => context.out.line(&path.display().to_string())?,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            return Err(Failure::user_error(format!("{} already exists", path.display()))
                .hint("give another directory, or build it with `cabana template build`"));
        }
        Err(e) => return Err(describe(&path, e)),
    }
    let path = args.directory.join(".dockerignore");
    match write(&path, IGNORE) {
        Ok(()) => context.out.line(&path.display().to_string())?,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            context.out.note(&format!("{} already exists and was not changed", path.display()));
        }
        Err(e) => return Err(describe(&path, e)),
    }
    Ok(0)
}

/// Creates a new file; fails if it exists.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::File::create_new(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use cabana_image::dockerfile::{Dockerfile, Ignore};

    use super::*;

    #[test]
    fn starter_files_parse() {
        let file = Dockerfile::parse(DOCKERFILE).expect("valid");
        assert!(file.plan(None, &Default::default()).is_ok_and(|plan| plan.notes.is_empty()));
        let ignore = Ignore::parse(IGNORE).expect("valid");
        assert!(ignore.excludes(".git") && ignore.excludes("Dockerfile") && !ignore.excludes("main.py"));
    }
}
