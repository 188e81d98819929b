//! `cabana create`: creates a sandbox that runs until it is killed or expires.

use crate::amount::short;
use crate::args::{SandboxArgs, UploadArgs};
use crate::commands::Context;
use crate::creation;
use crate::failure::Outcome;

const EXAMPLES: &str = "\
Examples:
  id=$(cabana create)                            prints the new sandbox's id
  cabana create --timeout 2h --metadata owner=me
  cabana create --cpu 4 --memory 4G --no-internet
  cabana create --network none --allow-out api.example.com
  cabana create --upload data.csv src            with files in user-uploads/
  cabana create --json                           all details, with the guest's access token";

/// Create a sandbox and print its id
#[derive(Debug, clap::Args)]
#[command(visible_alias = "spawn", after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    sandbox: SandboxArgs,
    /// Repeated requests with the same key return the same sandbox
    #[arg(long, value_name = "KEY", conflicts_with = "upload")]
    idempotency_key: Option<String>,
    #[command(flatten)]
    upload: UploadArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let (client, key) = (context.client()?, args.idempotency_key.as_deref());
    let files = args.upload.collect(&context.out)?;
    let sandbox = creation::create(&client, &args.sandbox.to_request(), &files, key, &context.out).await?;
    if args.json {
        context.out.json(&sandbox)?;
        return Ok(0);
    }
    context.out.line(sandbox.sandbox_id.as_str())?;
    let default = i64::try_from(cabana_types::limits::DEFAULT_TIMEOUT_SECONDS).unwrap_or(i64::MAX);
    context.out.note(&format!("it expires in {}", short(args.sandbox.timeout.unwrap_or(default))));
    Ok(0)
}
