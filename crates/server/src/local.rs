//! The composition root: a server on this machine, with its pool, its network, native isolation and the template `base`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cabana_egress::{Limits, ProxyConfig};
use cabana_runtime::Isolations;
use cabana_runtime::host::{Host, HostConfig, end_all};
use cabana_runtime::native::{Native, NativeConfig};
use cabana_storage::{Pool, PoolConfig, PoolKind};
use cabana_store::Store;
use cabana_supervisor::Supervisor;
use cabana_types::SandboxId;
use tokio_util::sync::CancellationToken;

use crate::assets::Assets;
use crate::base_template::{BaseTemplate, Progress};
use crate::config::{self, Config};
use crate::data_dir::{DataDir, keep_ballast};
use crate::error::Error;
use crate::server::Server;

const DNS_PORT: u16 = 53;
/// How long ended sandboxes may hold a pool, and the time between attempts to open it.
const POOL_HELD: Duration = Duration::from_secs(30);
const POOL_RETRY: Duration = Duration::from_millis(250);

/// The programs that a server runs.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program with the subcommand `launcher`: `cabana` itself.
    pub launcher: PathBuf,
    /// The guest's executable; `None` if it is embedded in `launcher`.
    pub guest: Option<PathBuf>,
    /// The program of the code interpreter, if there is one.
    pub interpreter: Option<Cow<'static, [u8]>>,
    /// The files of the web console.
    pub assets: Arc<dyn Assets>,
}

/// What a server reports while it starts.
pub trait Observer: Sync {
    /// The template `base` has to be built, which takes minutes.
    fn base_started(&self);
    /// How far that is.
    fn base_progress(&self, progress: Progress);
    /// It has ended, well or not.
    fn base_ended(&self);
    /// The server serves and `base` can be used.
    fn ready(&self, server: &Started);
}

/// What is to be known of a server that has started.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where it listens.
    pub address: SocketAddr,
    /// A key that was made by this start, to be shown once.
    pub fresh_key: Option<cabana_types::Secret>,
    /// A link that signs the first admin in to the console, once, within ten minutes.
    pub sign_in_link: Option<cabana_types::Secret>,
    /// The name of the default isolation backend.
    pub isolation: String,
    /// Kind and place of the pool.
    pub pool: String,
}

/// Starts a server and serves until `shutdown`, or until a task fails that it cannot run without. Sandboxes
/// keep running.
pub async fn serve(
    config: &Config,
    programs: Programs,
    observer: &dyn Observer,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let data_dir = DataDir::take(&config.data_dir)?;
    check_address(config.listen)?;
    let supervisor = Supervisor::new();
    // Before the network: the rows tell where the sandboxes that still run may connect.
    let store = Store::open_supervised(&config.database(), &supervisor).await?;
    let policies = store.live_sandboxes().await?.into_iter().map(|sandbox| (sandbox.id, sandbox.egress)).collect();
    let (pool, disks_lost) = open_pool(config).await?;
    if !pool.quotas() {
        tracing::warn!(pool = pool.description(), "disk limits of sandboxes are not enforced");
    }
    let machine = |error: cabana_runtime::Error| Error::Machine(error.into());
    let host = HostConfig {
        data_dir: config.data_dir.clone(),
        spare_slots: config.network.spare_slots as usize,
        resolvers: config.network.resolvers.iter().map(|ip| SocketAddr::new(*ip, DNS_PORT)).collect(),
        bounds: config.egress.bounds(),
        policies,
        reserved_memory: u64::from(config.limits.reserved_memory_mb) << 20,
        io: config.io.limits(),
        supervisor: supervisor.clone(),
    };
    let host = Arc::new(Host::open(host, Arc::new(pool.clone())).await.map_err(machine)?);
    let Programs { launcher, guest, interpreter, assets } = programs;
    let native = NativeConfig { program: launcher, guest };
    let native = Native::open(&native, Arc::clone(&host)).map_err(machine)?;
    let isolations = Isolations::new(Arc::new(native), Arc::new(pool.clone()))
        .with_pool(Arc::new(pool.clone()))
        .with_default(&config.isolation.default)?;
    let isolation = isolations.default_name().to_owned();
    keep_ballast(&config.data_dir);
    let started =
        Server::start_after(config, data_dir, store, Arc::new(isolations), supervisor.clone(), disks_lost).await;
    let served = match started {
        Ok(server) => match start_proxy(config, &host, &server, &supervisor).await {
            Ok(()) => {
                let server = match interpreter {
                    Some(program) => server.with_interpreter(program),
                    None => server,
                };
                run(config, &pool, isolation, server.with_assets(assets), observer, shutdown).await
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    // Sandboxes continue. What cannot be released now, the next start takes over.
    if let Err(error) = host.close().await {
        tracing::warn!(error = cabana_types::error::chain(&error), "could not release everything");
    }
    pool.close().await;
    served
}

/// Starts the proxy for connections of sandboxes whose policy names hosts. Until then they fail.
async fn start_proxy(config: &Config, host: &Host, server: &Server, supervisor: &Supervisor) -> Result<(), Error> {
    let (authorities, machine) =
        (config.egress.authorities.clone(), |error: Box<dyn std::error::Error + Send + Sync>| Error::Machine(error));
    let proxy = tokio::task::spawn_blocking(move || ProxyConfig::load(&authorities, Limits::default()));
    let proxy = proxy.await.map_err(|error| machine(error.into()))?.map_err(|error| machine(error.into()))?;
    let started = cabana_egress::start(supervisor, host.egress(), server.vault(), proxy).await;
    started.map(drop).map_err(|error| machine(error.into()))
}

async fn run(
    config: &Config,
    pool: &Pool,
    isolation: String,
    server: Server,
    observer: &dyn Observer,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let base = BaseTemplate::open(config, pool, server.templates()).await?;
    let mut started = Started {
        address: server.address(),
        fresh_key: server.fresh_key().cloned(),
        sign_in_link: None,
        isolation,
        pool: pool.description().to_owned(),
    };
    let links = server.sign_in_links();
    let remount = server.remount();
    let stop = shutdown.clone();
    let needed = remount.clone();
    tokio::spawn(async move {
        needed.cancelled().await;
        stop.cancel();
    });
    let mut serving = tokio::spawn(server.run(shutdown.clone()));
    let ended = |ended: Result<_, tokio::task::JoinError>| ended.unwrap_or_else(|e| Err(Error::Serve(e.into())));
    if !base.is_ready() {
        observer.base_started();
        // Requests are answered during the build: sandboxes of an earlier start exist, and creations have to wait.
        let built = tokio::select! {
            built = base.build(|progress| observer.base_progress(progress)) => built,
            result = &mut serving => {
                observer.base_ended();
                return ended(result).and_then(|()| remounted(&remount));
            }
        };
        observer.base_ended();
        if let Err(error) = built {
            shutdown.cancel();
            ended(serving.await)?;
            return Err(error);
        }
    }
    // Only now: it is not valid for long.
    match links.make().await {
        Ok(link) => started.sign_in_link = Some(link),
        Err(error) => {
            tracing::warn!(error = cabana_types::error::chain(&error), "could not make a link for signing in")
        }
    }
    observer.ready(&started);
    ended(serving.await)?;
    remounted(&remount)
}

/// An error if the server ended because the pool has to be mounted again.
fn remounted(needed: &CancellationToken) -> Result<(), Error> {
    if needed.is_cancelled() { Err(Error::Remount) } else { Ok(()) }
}

/// Opens the pool. If it is read-only, the sandboxes that an earlier server left hold it, and cannot do anything with it: they
/// are ended, so that it can be mounted again. Returns them too.
async fn open_pool(config: &Config) -> Result<(Pool, Vec<SandboxId>), Error> {
    let machine = |error: cabana_storage::Error| Error::Machine(error.into());
    let open = || Pool::open(&config.data_dir, pool_config(config));
    let first = match open().await {
        Ok(pool) => return Ok((pool, Vec::new())),
        Err(error) if !Pool::is_held(&config.data_dir) => return Err(machine(error)),
        Err(error) => error,
    };
    tracing::warn!(
        error = cabana_types::error::chain(&first),
        "the pool cannot be opened while sandboxes have it read-only: ending them"
    );
    let ended = end_all(&config.data_dir).await.map_err(|error| Error::Machine(error.into()))?;
    let until = Instant::now() + POOL_HELD;
    loop {
        // The kernel takes a moment to forget the mounts of processes that have ended.
        match open().await {
            Ok(pool) => return Ok((pool, ended)),
            Err(error) if Instant::now() > until => return Err(machine(error)),
            Err(_) => tokio::time::sleep(POOL_RETRY).await,
        }
    }
}

/// Checks the address before anything is made that would have to be removed again.
fn check_address(address: SocketAddr) -> Result<(), Error> {
    std::net::TcpListener::bind(address).map(drop).map_err(|source| Error::Listen { address, source })
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
