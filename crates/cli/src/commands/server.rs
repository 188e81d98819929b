//! `cabana server`: reads the settings, shows what happens, and waits for signals.

use std::io::IsTerminal;
use std::path::PathBuf;

use cabana_server::config::{Config, Loaded, TlsMode};
use cabana_server::local::{self, Observer, Programs, Started};
use cabana_server::{Error, Progress};
use cabana_types::env;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

use crate::commands::Context;
use crate::connection::{self, variable};
use crate::failure::{Failure, OURS, Outcome, YOURS};
use crate::guest_program;
use crate::output::{Output, ShareBar};
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  sudo cabana server
  sudo cabana server --listen 127.0.0.1:8000 --data-dir /srv/cabana
  cabana server --print-config          what is set, and where each value came from
  CABANA_LOG=debug sudo -E cabana server

The first start prepares the template `base`, which takes some minutes. Ctrl-C ends the server; sandboxes
stay up, and the next start takes them over. --print-config lists every setting; each can be set in the
configuration file or by its variable. `cabana doctor` says whether this machine has what is needed.";

const DEFAULT_LOG: &str = "info";

/// Start a server on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where to serve [default: 127.0.0.1:3000] [env: CABANA_LISTEN]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Where to keep everything [default: /var/lib/cabana] [env: CABANA_DATA_DIR]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Configuration file [default: /etc/cabana/config.toml if it is there] [env: CABANA_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print what is set and where each value came from, and end
    #[arg(long)]
    print_config: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let flags = [("listen", &args.listen), ("data_dir", &args.data_dir)];
    let flags: Vec<(String, String)> =
        flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect();
    let loaded = Loaded::read(args.config.as_deref(), variable, &flags).map_err(|e| {
        let yours = Failure::from(e).code(YOURS);
        yours.hint("`cabana server --print-config` shows what is set, once it can be read")
    })?;
    if args.print_config {
        context.out.raw(loaded.describe().as_bytes())?;
        return Ok(0);
    }
    context.out.start_log(&variable(env::LOG).unwrap_or_else(|| DEFAULT_LOG.to_owned()))?;
    check_surroundings()?;
    raise_open_files();
    let shutdown = CancellationToken::new();
    let mut signals = Signals::catch()?;
    let asked = shutdown.clone();
    tokio::spawn(async move {
        signals.recv().await;
        asked.cancel();
    });
    let programs = Programs { launcher: std::env::current_exe()?, guest: guest_program::file() };
    let display = Display { config: &loaded.config, out: &context.out, bar: context.out.share_bar("template base") };
    local::serve(&loaded.config, programs, &display, shutdown).await.map_err(failure)?;
    Ok(0)
}

/// What would otherwise fail later and less clearly.
fn check_surroundings() -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::yours("the server makes namespaces, mounts and network devices, which only root may")
            .hint("sudo cabana server"));
    }
    guest_program::check()
        .map(drop)
        .map_err(|problem| Failure::yours(format!("the guest program {problem}")).hint(guest_program::REMEDY))
}

/// Each sandbox and each connection takes descriptors; the usual soft limit is for programs that use `select`.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Without it the server works, for fewer sandboxes.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Adds an exit code and what to do next.
fn failure(error: Error) -> Failure {
    let (code, hint) = match &error {
        Error::Path { .. } | Error::InUse { .. } => (YOURS, None),
        Error::Listen { .. } => (YOURS, Some("choose another with --listen")),
        Error::Machine(_) => (OURS, Some("`cabana doctor` says what this machine lacks")),
        Error::BaseTemplate(_) => (
            OURS,
            Some(
                "it needs mmdebstrap, a Debian mirror and a Python package index: `cabana doctor` checks the first, `apt-get update` the second; PIP_INDEX_URL names another index",
            ),
        ),
        _ => (OURS, None),
    };
    let failure = Failure::from(error).code(code);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Shows on standard error what the server reports.
struct Display<'a> {
    config: &'a Config,
    out: &'a Output,
    bar: ShareBar,
}

impl Observer for Display<'_> {
    fn base_started(&self) {
        self.out.say("preparing the template base from Debian packages; this takes some minutes, once");
    }

    fn base_progress(&self, progress: Progress) {
        self.bar.show(thousandths(progress.fraction), &progress.phase.to_string());
    }

    fn base_ended(&self) {
        self.bar.finish();
    }

    fn ready(&self, server: &Started) {
        self.out.say(&banner(self.config, server));
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
fn thousandths(fraction: f32) -> u64 {
    (fraction.clamp(0.0, 1.0) * 1000.0) as u64
}

/// The variables that lead E2B's clients here.
fn exports(config: &Config, server: &Started, url: &str) -> String {
    let mut text = match config.public_domain(server.address.port()).filter(|_| config.is_encrypted()) {
        // E2B's clients put `api.` and `PORT-ID.` before it.
        Some(domain) => format!("  export E2B_DOMAIN={domain}\n"),
        None => format!("  export E2B_API_URL={url}\n  export E2B_SANDBOX_URL={url}\n"),
    };
    if config.tls.mode == TlsMode::Internal {
        let ca = config.ca_file();
        let ca = ca.display();
        text.push_str(&format!("  export SSL_CERT_FILE={ca} NODE_EXTRA_CA_CERTS={ca}\n"));
    }
    text
}

/// What a person needs to know when it serves. The key itself is told only by its file, so that it is in no log.
fn banner(config: &Config, server: &Started) -> String {
    let url = connection::local_url(config, server.address);
    let key = config.key_file();
    let key = key.display();
    let version = env!("CARGO_PKG_VERSION");
    // Only its hash is in the store: this and the file are where it can be read. A log is no place for it, others may read that.
    let key_is = match server.fresh_key.as_ref().filter(|_| std::io::stdout().is_terminal()) {
        Some(fresh) => format!("The API key is {}, kept in {key}", fresh.expose()),
        None => format!("The API key is in {key}"),
    };
    let mut text = format!(
        "\
Cabana {version} serves at {url} ({backend} backend, {pool})
{key_is}

For E2B's SDKs and command line:
{address}  export E2B_API_KEY=\"$(cat {key})\"
",
        address = exports(config, server, &url),
        backend = server.isolation,
        pool = server.pool,
    );
    let local = connection::local_server();
    if local.is_ok_and(|found| connection::local_url(&found, found.listen) == url && found.data_dir == config.data_dir)
    {
        text.push_str("\nTry it: cabana run -- python3 -c 'print(6 * 7)'\n");
    } else {
        text.push_str(&format!(
            "\nTry it: cabana --api-url {url} --api-key \"$(cat {key})\" run -- python3 -c 'print(6 * 7)'\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        assert_eq!(thousandths(0.0), 0);
        assert_eq!(thousandths(0.5), 500);
        assert_eq!(thousandths(7.0), 1000);
        assert_eq!(thousandths(f32::NAN), 0);
    }
}
