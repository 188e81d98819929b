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
  cabana cp ID:/tmp/out.png .                 copy a file out
  cabana cp src ID:/home/user/src             copy a directory recursively
  echo hello | cabana cp - ID:/tmp/greeting   from standard input
  cabana cp ID:/etc/os-release -              to standard output

Relative paths in the sandbox start at the user's home directory. Write a local name with a colon as
./like:this. Permissions are kept. Symbolic links in a directory are kept when copying in; when
copying out, a link to a file is replaced by the file.";

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
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Source: PATH, ID:PATH, or - for standard input
    #[arg(value_name = "SRC")]
    source: String,
    /// Destination: PATH, ID:PATH, or - for standard output
    #[arg(value_name = "DST")]
    destination: String,
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
}

impl Endpoint {
    fn parse(text: &str) -> Result<Self, Failure> {
        if text == "-" {
            return Ok(Self::Stream);
        }
        if let Some((id, path)) = text.split_once(':')
            && !id.contains(['/', '.'])
            && let Ok(id) = parse_id(id)
        {
            if path.is_empty() {
                return Err(Failure::user_error(format!("`{text}` has no path"))
                    .hint(format!("for the home directory: {id}:.")));
            }
            return Ok(Self::Remote(id, path.to_owned()));
        }
        Ok(Self::Local(PathBuf::from(text)))
    }
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let places = (Endpoint::parse(&args.source)?, Endpoint::parse(&args.destination)?);
    let open = async |id: &SandboxId| -> Result<SandboxHandle, Failure> {
        let sandbox = context.client()?.sandbox(id).await?;
        Ok(match &args.user {
            Some(user) => sandbox.as_user(user)?,
            None => sandbox,
        })
    };
    match places {
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

/// Joins a name to a directory path in the sandbox.
fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_remote_only_with_an_id_before_the_colon() {
        let parse = |text: &str| Endpoint::parse(text).expect("valid");
        assert_eq!(parse("-"), Endpoint::Stream);
        assert_eq!(parse("iabc:/tmp/x"), Endpoint::Remote("iabc".parse().expect("id"), "/tmp/x".to_owned()));
        assert_eq!(parse("iabc:a:b"), Endpoint::Remote("iabc".parse().expect("id"), "a:b".to_owned()));
        for local in ["./iabc:x", "/tmp/iabc:x", "plain", "Upper:x", "a.b:x"] {
            assert_eq!(parse(local), Endpoint::Local(PathBuf::from(local)));
        }
        assert!(Endpoint::parse("iabc:").is_err());
    }
}
