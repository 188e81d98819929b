//! `cabana man`: writes the manual pages, for packages.

use std::path::PathBuf;

use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::{Failure, Outcome};

/// Write the manual pages into a directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    clap_mangen::generate_to(Cli::command(), &args.directory)
        .map_err(|e| Failure::from(e).context(format!("cannot write into {}", args.directory.display())))?;
    Ok(0)
}
