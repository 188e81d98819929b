//! `cabana cp`: copies files and directories into and out of a sandbox.

mod download;
mod upload;

use std::path::PathBuf;

use cabana_client::SandboxHandle;
use cabana_types::SandboxId;

use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana cp data.csv ID:/home/user/           copy a file into a directory
  cabana cp a.csv b.csv src ID:               upload to user-uploads/; nothing is overwritten
  cabana cp ID:/tmp/out.png .                 copy a file out
  cabana cp src ID:/home/user/src             copy a directory recursively
  echo hello | cabana cp - ID:/tmp/greeting   from standard input
  cabana cp ID:/etc/os-release -              to standard output

Relative paths in the sandbox start at the user's home directory. Write a local name with a colon as
./like:this. Permissions are kept. Symbolic links in a directory are kept when copying in; when
copying out, a link to a file is replaced by the file. ID: without a path is user-uploads/ in the
sandbox's working directory or home directory: files only, and a name that is taken gets a number.";

/// Concurrent transfers.
const PARALLEL: usize = 4;
/// Limit on files and directories per copy.
const MAX_ENTRIES: usize = 1_000_000;
/// Limit on directory levels per copy.
const MAX_DEPTH: usize = 200;
/// Chunk size for reading files.
const CHUNK: usize = 128 * 1024;

/// Copy files into or out of a sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "cabana cp [OPTIONS] <SRC>... <DST>")]
pub(crate) struct Args {
    // One list, so that options may be between sources and destination.
    /// Sources: PATH, ID:PATH, or - for standard input; several if they are on this machine. Then the
    /// destination: PATH, ID:PATH, ID: or - for standard output
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,
    /// User in the sandbox [default: the template's]
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
}

/// Source or destination of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Endpoint {
    /// Standard input or output.
    Stream,
    /// A local path.
    Local(PathBuf),
    /// A path in a sandbox.
    Remote(SandboxId, String),
    /// The directory of uploads in a sandbox.
    Uploads(SandboxId),
}

impl Endpoint {
    fn parse(text: &str) -> Self {
        if text == "-" {
            return Self::Stream;
        }
        if let Some((id, path)) = text.split_once(':')
            && !id.contains(['/', '.'])
            && let Ok(id) = parse_id(id)
        {
            return match path.is_empty() {
                true => Self::Uploads(id),
                false => Self::Remote(id, path.to_owned()),
            };
        }
        Self::Local(PathBuf::from(text))
    }
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let mut sources: Vec<Endpoint> = args.paths.iter().map(|text| Endpoint::parse(text)).collect();
    let destination = match sources.pop() {
        Some(destination) if !sources.is_empty() => destination,
        _ => {
            return Err(
                Failure::user_error("cp needs a source and a destination").hint("for example: cabana cp a.csv ID:")
            );
        }
    };
    let open = async |id: &SandboxId| -> Result<SandboxHandle, Failure> {
        let sandbox = context.client()?.sandbox(id).await?;
        Ok(match &args.user {
            Some(user) => sandbox.as_user(user)?,
            None => sandbox,
        })
    };
    if let Endpoint::Uploads(id) = &destination {
        if args.user.is_some() {
            return Err(Failure::user_error("--user does not go with user-uploads/").hint("give a path: ID:/path"));
        }
        return upload::files(&context.client()?, id, &local(sources)?, context).await;
    }
    let mut sources = sources.into_iter();
    let places = match (sources.next(), sources.len()) {
        (Some(source), 0) => (source, destination),
        (Some(first), _) => {
            let Endpoint::Remote(id, path) = &destination else {
                return Err(Failure::user_error("several sources need a destination in a sandbox")
                    .hint("for example: cabana cp a b ID:dir/"));
            };
            let (sandbox, directory) = (open(id).await?, format!("{}/", path.trim_end_matches('/')));
            for source in local(std::iter::once(first).chain(sources).collect())? {
                upload::path(sandbox.clone(), &source, &directory, context).await?;
            }
            return Ok(0);
        }
        (None, _) => return Err(Failure::user_error("there is no source")),
    };
    match places {
        (Endpoint::Uploads(id), _) => {
            return Err(
                Failure::user_error(format!("`{id}:` has no path")).hint(format!("for the home directory: {id}:."))
            );
        }
        (Endpoint::Stream, Endpoint::Remote(id, path)) => upload::stream(&open(&id).await?, &path, context).await?,
        (Endpoint::Local(source), Endpoint::Remote(id, path)) => {
            upload::path(open(&id).await?, &source, &path, context).await?;
        }
        (Endpoint::Remote(id, path), Endpoint::Stream) => download::stream(&open(&id).await?, &path).await?,
        (Endpoint::Remote(id, path), Endpoint::Local(destination)) => {
            download::path(open(&id).await?, &path, &destination, context).await?;
        }
        (Endpoint::Remote(..), Endpoint::Remote(..)) => {
            return Err(Failure::user_error("source or destination must be on this machine")
                .hint("pipe it: cabana cp ID1:/path - | cabana cp - ID2:/path"));
        }
        _ => {
            return Err(Failure::user_error("neither source nor destination is in a sandbox")
                .hint("write a path in a sandbox as ID:/path"));
        }
    }
    Ok(0)
}

/// The paths of several sources, which must be on this machine.
fn local(sources: Vec<Endpoint>) -> Result<Vec<PathBuf>, Failure> {
    let path = |source| match source {
        Endpoint::Local(path) => Ok(path),
        Endpoint::Stream => {
            Err(Failure::user_error("standard input has no name").hint("give it one: cabana cp - ID:user-uploads/NAME"))
        }
        Endpoint::Remote(..) | Endpoint::Uploads(_) => {
            Err(Failure::user_error("these sources must be on this machine")
                .hint("copy one at a time out of a sandbox"))
        }
    };
    sources.into_iter().map(path).collect()
}

/// Joins a name to a directory path in the sandbox.
fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_remote_only_with_an_id_before_the_colon() {
        let parse = Endpoint::parse;
        assert_eq!(parse("-"), Endpoint::Stream);
        assert_eq!(parse("iabc:/tmp/x"), Endpoint::Remote("iabc".parse().expect("id"), "/tmp/x".to_owned()));
        assert_eq!(parse("iabc:a:b"), Endpoint::Remote("iabc".parse().expect("id"), "a:b".to_owned()));
        for local in ["./iabc:x", "/tmp/iabc:x", "plain", "Upper:x", "a.b:x"] {
            assert_eq!(parse(local), Endpoint::Local(PathBuf::from(local)));
        }
        assert_eq!(parse("iabc:"), Endpoint::Uploads("iabc".parse().expect("id")));
    }
}
