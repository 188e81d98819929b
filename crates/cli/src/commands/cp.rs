//! `cabana cp`: files and directories into and out of a sandbox.

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
  cabana cp data.csv ID:/home/user/           a file into a directory
  cabana cp ID:/tmp/out.png .                 a file out
  cabana cp src ID:/home/user/src             a directory with everything in it
  echo hello | cabana cp - ID:/tmp/greeting   from standard input
  cabana cp ID:/etc/os-release -              to standard output

A path of the sandbox that does not begin with / is in the user's home. A local name with a colon is
written ./like:this. Permissions are kept. Links in a directory are kept on the way in; on the way out,
a link to a file becomes the file.";

/// Work that is under way at once.
const PARALLEL: usize = 4;
/// Files and directories of one copy.
const MAX_ENTRIES: usize = 1_000_000;
/// Levels of directories of one copy.
const MAX_DEPTH: usize = 200;
/// Piece in which contents are read.
const CHUNK: usize = 128 * 1024;

/// Copy files into or out of a sandbox
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to copy: PATH, ID:PATH, or - for standard input
    #[arg(value_name = "SRC")]
    source: String,
    /// Where to: PATH, ID:PATH, or - for standard output
    #[arg(value_name = "DST")]
    destination: String,
    /// User of the sandbox [default: the template's]
    #[arg(short, long, value_name = "USER")]
    user: Option<String>,
}

/// One side of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Standard input or output.
    Stream,
    /// A path on this machine.
    Local(PathBuf),
    /// A path in a sandbox.
    Remote(SandboxId, String),
}

impl Place {
    fn parse(text: &str) -> Result<Self, Failure> {
        if text == "-" {
            return Ok(Self::Stream);
        }
        if let Some((id, path)) = text.split_once(':')
            && !id.contains(['/', '.'])
            && let Ok(id) = parse_id(id)
        {
            if path.is_empty() {
                return Err(Failure::yours(format!("`{text}` names no path")).hint(format!("for the home: {id}:.")));
            }
            return Ok(Self::Remote(id, path.to_owned()));
        }
        Ok(Self::Local(PathBuf::from(text)))
    }
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let places = (Place::parse(&args.source)?, Place::parse(&args.destination)?);
    let open = async |id: &SandboxId| -> Result<SandboxHandle, Failure> {
        let sandbox = context.client()?.sandbox(id).await?;
        Ok(match &args.user {
            Some(user) => sandbox.as_user(user)?,
            None => sandbox,
        })
    };
    match places {
        (Place::Stream, Place::Remote(id, path)) => upload::stream(&open(&id).await?, &path, context).await?,
        (Place::Local(source), Place::Remote(id, path)) => {
            upload::path(open(&id).await?, &source, &path, context).await?;
        }
        (Place::Remote(id, path), Place::Stream) => download::stream(&open(&id).await?, &path).await?,
        (Place::Remote(id, path), Place::Local(destination)) => {
            download::path(open(&id).await?, &path, &destination, context).await?;
        }
        (Place::Remote(..), Place::Remote(..)) => {
            return Err(Failure::yours("one side must be on this machine")
                .hint("pipe it: cabana cp ID1:/path - | cabana cp - ID2:/path"));
        }
        _ => {
            return Err(Failure::yours("neither side names a sandbox").hint("write it as ID:/path"));
        }
    }
    Ok(0)
}

/// A path of the sandbox below a directory of it.
fn join(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_remote_only_with_an_id_before_the_colon() {
        let parse = |text: &str| Place::parse(text).expect("valid");
        assert_eq!(parse("-"), Place::Stream);
        assert_eq!(parse("iabc:/tmp/x"), Place::Remote("iabc".parse().expect("id"), "/tmp/x".to_owned()));
        assert_eq!(parse("iabc:a:b"), Place::Remote("iabc".parse().expect("id"), "a:b".to_owned()));
        for local in ["./iabc:x", "/tmp/iabc:x", "plain", "Upper:x", "a.b:x"] {
            assert_eq!(parse(local), Place::Local(PathBuf::from(local)));
        }
        assert!(Place::parse("iabc:").is_err());
    }
}
