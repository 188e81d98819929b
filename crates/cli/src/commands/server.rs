//! `cabana server`: puts pool, network, backend and API together, and serves until it is told to end.

mod base;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cabana_runtime::Backend;
use cabana_runtime::native::{Native, NativeConfig};
use cabana_server::config::{self, Config, Loaded, TlsMode};
use cabana_server::{DataDir, Server};
use cabana_storage::{Pool, PoolConfig, PoolKind};
use cabana_types::env;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio_util::sync::CancellationToken;

use crate::commands::Context;
use crate::connection::{self, variable};
use crate::failure::{Failure, OURS, Outcome, YOURS};
use crate::guest_program;
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

const DNS_PORT: u16 = 53;
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
    serve(&loaded.config, context, shutdown).await?;
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

/// Before anything is made that would have to be taken down again.
fn check_address(listen: SocketAddr) -> Result<(), Failure> {
    match std::net::TcpListener::bind(listen) {
        Ok(_) => Ok(()),
        Err(e) => {
            Err(Failure::from(e).context(format!("cannot listen on {listen}")).hint("choose another with --listen"))
        }
    }
}

/// Each sandbox and each connection takes descriptors; the usual soft limit is for programs that use `select`.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Without it the server works, for fewer sandboxes.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

async fn serve(config: &Config, context: &Context, shutdown: CancellationToken) -> Result<(), Failure> {
    let data_dir = DataDir::take(&config.data_dir).map_err(|e| Failure::from(e).code(YOURS))?;
    check_address(config.listen)?;
    let pool = Pool::open(&config.data_dir, pool_config(config)).await.map_err(doctor)?;
    if !pool.quotas() {
        tracing::warn!(pool = pool.description(), "disk limits of sandboxes are not enforced");
    }
    let native = NativeConfig {
        data_dir: config.data_dir.clone(),
        program: std::env::current_exe()?,
        guest: guest_program::file(),
        spare_slots: usize::try_from(config.network.spare_slots)?,
        resolvers: config.network.resolvers.iter().map(|ip| SocketAddr::new(*ip, DNS_PORT)).collect(),
    };
    let native = Arc::new(Native::open(native, Arc::new(pool.clone())).await.map_err(doctor)?);
    let served = with_backend(config, context, data_dir, &pool, Arc::clone(&native), shutdown).await;
    // Sandboxes go on. What cannot be let go of now, the next start takes over.
    if let Err(error) = native.close().await {
        tracing::warn!(error = cabana_types::error::chain(&error), "could not let go of everything");
    }
    pool.close().await;
    served
}

async fn with_backend(
    config: &Config,
    context: &Context,
    data_dir: DataDir,
    pool: &Pool,
    native: Arc<Native>,
    shutdown: CancellationToken,
) -> Result<(), Failure> {
    let backend = native.name();
    let server = Server::start(config, data_dir, native).await?;
    let base = base::Base::find(config, pool, server.templates()).await?;
    let banner = banner(config, &server, backend, pool);
    let mut serving = tokio::spawn(server.run(shutdown.clone()));
    // Requests are answered meanwhile: sandboxes of an earlier start are there, and creations are told to wait.
    let prepared = tokio::select! {
        prepared = base.prepare(&context.out) => Some(prepared),
        ended = &mut serving => return Ok(ended??),
    };
    match prepared {
        Some(Err(failure)) => {
            shutdown.cancel();
            serving.await??;
            return Err(failure);
        }
        _ => context.out.say(&banner),
    }
    Ok(serving.await??)
}

fn pool_config(config: &Config) -> PoolConfig {
    PoolConfig {
        image_size: (config.pool.image_gb > 0).then(|| u64::from(config.pool.image_gb) << 30),
        kind: match config.pool.kind {
            config::PoolKind::Auto => PoolKind::Auto,
            config::PoolKind::Btrfs => PoolKind::Btrfs,
            config::PoolKind::Directory => PoolKind::Plain,
        },
    }
}

/// What goes wrong below is mostly something that the machine lacks.
fn doctor(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::from(error).code(OURS).hint("`cabana doctor` says what this machine lacks")
}

/// The variables that lead E2B's clients here.
fn exports(config: &Config, server: &Server, url: &str) -> String {
    let mut text = match config.public_domain(server.address().port()).filter(|_| config.is_encrypted()) {
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
fn banner(config: &Config, server: &Server, backend: &str, pool: &Pool) -> String {
    let url = connection::local_url(config, server.address());
    let key = config.key_file();
    let key = key.display();
    let version = env!("CARGO_PKG_VERSION");
    // Only its hash is in the store: this and the file are where it can be read. A log is no place for it, others may read that.
    let key_is = match server.fresh_key().filter(|_| std::io::stdout().is_terminal()) {
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
        pool = pool.description(),
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
