//! `cabana resize`: changes a sandbox's resources.

use cabana_types::SandboxId;
use cabana_types::wire::ResizeRequest;

use crate::amount::{mebibytes, parse_mebibytes};
use crate::args::parse_id;
use crate::commands::Context;
use crate::failure::{Failure, Outcome};

const EXAMPLES: &str = "\
Examples:
  cabana resize ID --memory 4G
  cabana resize ID --cpu 4 --disk 20G

Takes effect at once if the sandbox is running, otherwise when it is resumed. A disk can only grow.";

/// Change a sandbox's resources
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The sandbox
    #[arg(value_name = "ID", value_parser = parse_id)]
    id: SandboxId,
    /// Virtual CPUs
    #[arg(long, value_name = "COUNT")]
    cpu: Option<i64>,
    /// Memory in MiB, or with a unit: 512, 2G
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    memory: Option<i64>,
    /// Disk in MiB, or with a unit
    #[arg(long, value_name = "SIZE", value_parser = parse_mebibytes)]
    disk: Option<i64>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    if args.cpu.is_none() && args.memory.is_none() && args.disk.is_none() {
        return Err(Failure::user_error("nothing to change").hint("give --cpu, --memory or --disk"));
    }
    let wanted = ResizeRequest { cpu_count: args.cpu, memory_mb: args.memory, disk_size_mb: args.disk };
    let now = context.client()?.resize(&args.id, &wanted).await?;
    let (memory, disk) = (mebibytes(now.memory_mb.into()), mebibytes(now.disk_size_mb.into()));
    context.out.note(&format!("{} may use {} CPUs, {memory} memory, {disk} disk", args.id, now.cpu_count));
    Ok(0)
}
