//! `cabana template init`: something to begin with.

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana template init
  cabana template init web && cabana template build web

Writes a Dockerfile and a .dockerignore with comments, and prints their paths. Nothing that is there is
overwritten.";

const DOCKERFILE: &str = include_str!("init/Dockerfile.example");
const IGNORE: &str = include_str!("init/dockerignore.example");

/// Write a Dockerfile to begin with
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory; it is made if it is not there
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
            return Err(Failure::yours(format!("{} is there already", path.display()))
                .hint("name another directory, or build what is there with `cabana template build`"));
        }
        Err(e) => return Err(describe(&path, e)),
    }
    let path = args.directory.join(".dockerignore");
    match write(&path, IGNORE) {
        Ok(()) => context.out.line(&path.display().to_string())?,
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            context.out.note(&format!("{} was there already and is as it was", path.display()));
        }
        Err(e) => return Err(describe(&path, e)),
    }
    Ok(0)
}

/// Writes a file that must not be there yet.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::File::create_new(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use cabana_image::dockerfile::{Dockerfile, Ignore};

    use super::*;

    #[test]
    fn what_is_written_is_understood() {
        let file = Dockerfile::parse(DOCKERFILE).expect("valid");
        assert!(file.plan(None, &Default::default()).is_ok_and(|plan| plan.notes.is_empty()));
        let ignore = Ignore::parse(IGNORE).expect("valid");
        assert!(ignore.excludes(".git") && ignore.excludes("Dockerfile") && !ignore.excludes("main.py"));
    }
}
