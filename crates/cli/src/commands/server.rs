//! `cabana server`: loads the configuration, shows progress, and handles signals.

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use cabana_server::config::{Config, Loaded, TlsMode};
use cabana_server::local::{self, Observer, Programs, Started};
use cabana_server::{Error, Progress};
use cabana_types::env;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

use crate::assets;
use crate::commands::Context;
use crate::connection::{self, variable};
use crate::failure::{Failure, Outcome, SYSTEM_ERROR, USER_ERROR};
use crate::guest_program;
use crate::interpreter_program;
use crate::output::{Output, ShareBar};
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  sudo cabana server
  sudo cabana server --listen 127.0.0.1:8000 --data-dir /srv/cabana
  cabana server --print-config          all settings and their sources
  CABANA_LOG=debug sudo -E cabana server

The first start prepares the template `base`, which takes some minutes. Ctrl-C stops the server;
sandboxes keep running, and the next start takes them over. --print-config lists every setting;
each can be set in the configuration file or by an environment variable. `cabana doctor` checks
this machine.";

const DEFAULT_LOG: &str = "info";

/// Start a server on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address to listen on [default: 127.0.0.1:3000] [env: CABANA_LISTEN]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// Data directory [default: /var/lib/cabana] [env: CABANA_DATA_DIR]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<String>,
    /// Configuration file [default: /etc/cabana/config.toml, if it exists] [env: CABANA_CONFIG]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings and where each value comes from, then exit
    #[arg(long)]
    print_config: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Outcome {
    let flags = [("listen", &args.listen), ("data_dir", &args.data_dir)];
    let flags: Vec<(String, String)> =
        flags.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect();
    let loaded = Loaded::read(args.config.as_deref(), variable, &flags).map_err(|e| {
        let user_error = Failure::from(e).code(USER_ERROR);
        user_error.hint("once it is valid, `cabana server --print-config` shows all settings")
    })?;
    if args.print_config {
        context.out.raw(loaded.describe().as_bytes())?;
        return Ok(0);
    }
    context.out.start_log(&variable(env::LOG).unwrap_or_else(|| DEFAULT_LOG.to_owned()))?;
    preflight()?;
    raise_open_files();
    let shutdown = CancellationToken::new();
    let mut signals = Signals::catch()?;
    let asked = shutdown.clone();
    tokio::spawn(async move {
        signals.recv().await;
        asked.cancel();
    });
    let programs = Programs {
        launcher: std::env::current_exe()?,
        guest: guest_program::file(),
        interpreter: interpreter_program::read(),
        assets: assets::console(),
    };
    let display = Display { config: &loaded.config, out: &context.out, bar: context.out.share_bar("template base") };
    match local::serve(&loaded.config, programs, &display, shutdown).await {
        Err(Error::Remount) => Err(start_again()),
        served => served.map(|()| 0).map_err(failure),
    }
}

/// Replaces this process by a new start of the same program: the only way to be sure that nothing of it holds the pool. It
/// returns only if that fails.
fn start_again() -> Failure {
    let failed = match std::env::current_exe() {
        Ok(program) => std::process::Command::new(program).args(std::env::args_os().skip(1)).exec(),
        Err(error) => error,
    };
    Failure::from(failed).context("cannot start the server again, which the pool needs: it has become read-only")
}

/// Preflight checks, for clearer errors.
fn preflight() -> Result<(), Failure> {
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::user_error("the server needs root to create namespaces, mounts and network devices")
            .hint("sudo cabana server"));
    }
    guest_program::check()
        .map(drop)
        .map_err(|problem| Failure::user_error(format!("the guest program {problem}")).hint(guest_program::REMEDY))
}

/// Raises the limit on open files: every sandbox and connection needs descriptors, and the default soft limit is low.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Without it the server runs, with fewer sandboxes.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Adds an exit code and a hint.
fn failure(error: Error) -> Failure {
    let (code, hint) = match &error {
        Error::Path { .. } | Error::InUse { .. } => (USER_ERROR, None),
        Error::Listen { .. } => (USER_ERROR, Some("choose another address with --listen")),
        Error::Machine(_) => (SYSTEM_ERROR, Some("`cabana doctor` shows what this machine lacks")),
        Error::BaseTemplate(_) => (
            SYSTEM_ERROR,
            Some(
                "it needs mmdebstrap, a Debian mirror and a Python package index: `cabana doctor` checks the first, \
                 `apt-get update` the second; set PIP_INDEX_URL for another index",
            ),
        ),
        _ => (SYSTEM_ERROR, None),
    };
    let failure = Failure::from(error).code(code);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Shows startup progress on standard error.
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

/// Environment variables for E2B's clients.
fn exports(config: &Config, server: &Started, url: &str) -> String {
    let mut text = match config.public_domain(server.address.port()).filter(|_| config.is_encrypted()) {
        // E2B's clients prefix it with `api.` and `PORT-ID.`.
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

/// The startup message. A new key is shown once; later only its file is named, so that it does not end up in logs.
fn banner(config: &Config, server: &Started) -> String {
    let url = connection::local_url(config, server.address);
    let key = config.key_file();
    let key = key.display();
    let version = env!("CARGO_PKG_VERSION");
    // The store has only the key's hash. The key itself is shown only on a terminal: logs may be readable by others.
    let key_is = match server.fresh_key.as_ref().filter(|_| std::io::stdout().is_terminal()) {
        Some(fresh) => format!("The API key is {}, kept in {key}", fresh.expose()),
        None => format!("The API key is in {key}"),
    };
    // A link that signs in is a credential too.
    let console = match server.sign_in_link.as_ref().filter(|_| std::io::stdout().is_terminal()) {
        Some(link) => format!(
            "Open the console: {}\n  (valid once, for ten minutes; `cabana login` prints another)",
            link.expose()
        ),
        None => "The console: `cabana login` prints a link that opens it".to_owned(),
    };
    let mut text = format!(
        "\
Cabana {version} serves at {url} ({backend} backend, {pool})
{console}
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
