//! Composes the parts: what starts and stops in which order.

mod archive_space;
mod handles;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cabana_accounts::Accounts;
use cabana_agent::call::Limits;
use cabana_edge::tls::{Tls, TlsError};
use cabana_edge::{Directory, Edge, listener};
use cabana_runtime::Isolations;
use cabana_storage::ColdStore;
use cabana_store::Store;
use cabana_supervisor::{Restart, Supervisor};
use cabana_types::{SandboxId, Secret};
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{self, App};
use crate::assets::{Assets, NoAssets};
use crate::auth::{KeyRates, Keys};
use crate::builds::Builds;
use crate::chats::Chats;
use crate::chats::blobs::Blobs;
use crate::chats::models::Models;
use crate::config::{Config, TlsMode};
use crate::data_dir::DataDir;
use crate::egress::Egress;
use crate::error::Error;
use crate::failpoint;
use crate::gallery::Gallery;
use crate::lifecycle::Lifecycle;
use crate::live::Live;
use crate::rater::Rater;
use crate::reboot::Reboot;
use crate::resource_limits::ResourceLimits;
use crate::services::{AppPreviews, Base, Grants, Services, Tickets};
use crate::telemetry::Telemetry;
use crate::tools::Calls;
use crate::vault::Vault;
use crate::webhooks::Courier;
use archive_space::archive_space;
pub(crate) use handles::first_team;
pub use handles::{SignInLinks, TemplateSpec, Templates};

/// How often the use of API keys is recorded.
const RECORD_KEYS_EVERY: Duration = Duration::from_secs(30);
/// How long the last recording of key uses may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a stopping server waits for tasks of requests.
const TASKS_GRACE: Duration = Duration::from_secs(5);

/// Settings that hold the keys of links for uploads and downloads, and of previews.
const UPLOAD_KEY: &str = "upload_key";
const PREVIEW_KEY: &str = "preview_key";

/// A server that has recovered its sandboxes and listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    limits: listener::Limits,
    /// Further names of the API.
    hosts: Vec<String>,
    app: Arc<App>,
    assets: Arc<dyn Assets>,
    directory: Arc<Directory>,
    fresh_key: Option<Secret>,
    supervisor: Supervisor,
    // Last, so that the lock on the directory is released after everything else.
    _data_dir: DataDir,
}

impl Server {
    /// Recovers and listens; requests wait until [`Server::run`]. The caller locks the data directory and opens the store first, because
    /// the backend needs both. The supervisor runs all long-lived tasks.
    pub async fn start(
        config: &Config,
        data_dir: DataDir,
        store: Store,
        backend: Arc<Isolations>,
        supervisor: Supervisor,
    ) -> Result<Self, Error> {
        Self::start_after(config, data_dir, store, backend, supervisor, Vec::new()).await
    }

    /// The same, after sandboxes were ended because their disks were read-only.
    pub(crate) async fn start_after(
        config: &Config,
        data_dir: DataDir,
        store: Store,
        backend: Arc<Isolations>,
        supervisor: Supervisor,
        disks_lost: Vec<SandboxId>,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tls = open_tls(config)?;
        let (keys, fresh_key) = Keys::open(&store, &config.key_file()).await?;
        let vault = Vault::open(config, &store, config.public_url(address)).await?;
        let resource_limits = ResourceLimits::new(&config.limits);
        let directory = Arc::new(Directory::default());
        let cold = ColdStore::open(&config.cold_storage()).await?;
        let cold = Arc::new(cold.within(archive_space(config, backend.pool().map(|pool| pool.space()))?));
        let lifecycle = Lifecycle::new(
            store.clone(),
            backend,
            cold,
            Arc::clone(&directory),
            Arc::clone(&vault),
            config,
            &supervisor,
        );
        let reboot = Reboot::detect(&config.data_dir, &store).await?;
        store.set_billing(config.billing.mode);
        if reboot.machine_died {
            store.machine_died(Timestamp::now()).await?;
        }
        lifecycle.disks_lost(disks_lost).await;
        lifecycle.recover().await?;
        store.settle_all(Timestamp::now()).await?;
        lifecycle.start();
        let domain = config.public_domain(address.port());
        let builds = Builds::open(store.clone(), Arc::clone(&lifecycle), config, &supervisor).await?;
        let models = Models::open(&config.models, store.clone(), vault.provider_keys.clone());
        let blobs = Blobs::of_server(config, &store, &lifecycle)?;
        let upload_key = stored_key(&store, UPLOAD_KEY).await?;
        let tasks = TaskTracker::new();
        tasks.spawn(reboot.boot_again(Arc::clone(&lifecycle)));
        let calls_store = store.clone();
        let live = Live::new(store.clone());
        let base = Base::of(domain.as_deref(), Some(&config.console_url(address)));
        let services = Services::open(store.clone(), Arc::clone(&directory), Arc::clone(&live), base).await?;
        lifecycle.observe_routes(Arc::clone(&services) as _);
        services.adopt_running();
        let grants = Grants::open(store.clone()).await?;
        let tickets = Tickets::new(stored_key(&store, PREVIEW_KEY).await?);
        let app = Arc::new(App {
            gallery: Gallery::new(&store, &builds, config),
            accounts: Accounts::open(store.clone()).await?,
            people: config.accounts.clone(),
            console_origin: config.console_origin(),
            console_url: config.console_url(address),
            telemetry: Arc::new(Telemetry::new(lifecycle.creation_times())),
            store,
            lifecycle,
            keys,
            rates: KeyRates::new(&config.rates),
            limits: resource_limits,
            quotas: config.quotas(),
            currency: config.billing.currency.clone(),
            egress: Egress::new(&config.egress),
            no_new_privileges: config.isolation.no_new_privileges,
            domain,
            webhooks: config.webhooks.clone(),
            builds,
            vault,
            models,
            blobs,
            upload_key,
            services,
            grants,
            tickets,
            chats: Chats::new(calls_store.clone(), Arc::clone(&live)),
            chat_stream_seconds: config.chat.stream_seconds.into(),
            chat_idle_seconds: config.chat.idle_seconds.into(),
            live,
            terminals: Arc::default(),
            calls: Calls::new(
                calls_store,
                Limits { max_output: usize::from(config.tools.max_output_kb) << 10 },
                tasks.clone(),
            ),
            places: Arc::default(),
            data_dir: config.data_dir.clone(),
            audit_days: config.retention.audit_days,
            max_upload: u64::from(config.tools.max_upload_mb) << 20,
            own_sandboxes: tokio::sync::Mutex::default(),
            mcp_calls: Default::default(),
            directory: Arc::clone(&directory),
            tasks,
        });
        let limits = config.connections.limits(&config.rates);
        Ok(Self {
            listener,
            address,
            tls,
            limits,
            hosts: config.connections.hosts.clone(),
            app,
            assets: Arc::new(NoAssets),
            directory,
            fresh_key,
            supervisor,
            _data_dir: data_dir,
        })
    }

    /// Serves the web console from these files.
    #[must_use]
    pub fn with_assets(mut self, assets: Arc<dyn Assets>) -> Self {
        self.assets = assets;
        self
    }

    /// A handle for making links that sign in to the console, also while the server runs.
    pub fn sign_in_links(&self) -> SignInLinks {
        SignInLinks::new(Arc::clone(&self.app))
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The credentials of sandboxes, for the egress proxy.
    pub fn vault(&self) -> Arc<Vault> {
        Arc::clone(&self.app.vault)
    }

    /// The API key that this start created, to be shown once. It is also in the key file.
    pub fn fresh_key(&self) -> Option<&Secret> {
        self.fresh_key.as_ref()
    }

    /// Cancelled when the pool has to be mounted again.
    pub(crate) fn remount(&self) -> CancellationToken {
        self.app.lifecycle.remount()
    }

    /// A handle for registering templates, also while the server runs.
    pub fn templates(&self) -> Templates {
        Templates::new(Arc::clone(&self.app))
    }

    /// Serves until `shutdown`, or until a task fails that the server cannot run without. Sandboxes keep running.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Self {
            listener, address, tls, limits, hosts, app, assets, directory, supervisor, _data_dir: data_dir, ..
        } = self;
        let lifecycle = Arc::clone(&app.lifecycle);
        let edge = Edge::new(directory, app.domain.clone(), lifecycle).with_disk_used(disk_used(&app.lifecycle));
        let known = Arc::clone(&app);
        let edge = edge.with_keys(Arc::new(move |text| known.keys.is_key(text)));
        let edge = edge.with_previews(Arc::new(AppPreviews::new(Arc::clone(&app), Arc::clone(&assets))));
        let edge = match address.ip().is_loopback() && tls.is_none() {
            true => edge.with_names(&hosts),
            false => edge.with_names_at(api::GUARDED_PATHS, &hosts),
        };
        let edge = Arc::new(edge);
        let fatal = end_on_fatal(supervisor.clone(), shutdown.clone());
        failpoint::panic_tasks(&supervisor);
        let courier = Courier::start(app.store.clone(), &app.webhooks, &supervisor);
        let key_uses = supervisor.scope();
        let recorded = Arc::clone(&app);
        key_uses.restart("API key uses", Restart::forever(), move |stop| record_keys(Arc::clone(&recorded), stop));
        let expiring = Arc::clone(&app);
        key_uses.restart("grant expiry", Restart::forever(), move |stop| {
            let app = Arc::clone(&expiring);
            async move { app.grants.expire(stop).await }
        });
        crate::audit::start(&key_uses, &app.store, app.audit_days);
        let blobs = Arc::clone(&app.blobs);
        key_uses.restart("files of chats", Restart::forever(), move |stop| Arc::clone(&blobs).keep_sweeping(stop));
        let rater = Rater::new(app.store.clone());
        rater.start(&key_uses);
        let updates = supervisor.scope();
        let live = Arc::clone(&app.live);
        updates.restart("live updates", Restart::forever(), move |stop| Arc::clone(&live).run(stop));
        let (live, stopping, closing) = (Arc::clone(&app.live), shutdown.clone(), CancellationToken::new());
        let closed = closing.clone();
        tokio::spawn(async move {
            stopping.cancelled().await;
            // Before the listener closes connections: sockets tell their clients why.
            live.stopping().cancel();
            closed.cancel();
        });
        Chats::adopt(&app).await?;
        let api = api::router(Arc::clone(&app), assets);
        let served = match &tls {
            Some(tls) => {
                let serving = listener::serve_tls(listener, edge, api, tls, limits, closing);
                let (served, ()) = tokio::join!(
                    async {
                        let served = serving.await;
                        shutdown.cancel();
                        served
                    },
                    tls.keep(shutdown.clone()),
                );
                served
            }
            None => listener::serve(listener, edge, api, limits, closing).await,
        };
        // The listener may also have failed.
        shutdown.cancel();
        app.builds.stop().await;
        app.tasks.close();
        if timeout(TASKS_GRACE, app.tasks.wait()).await.is_err() {
            tracing::warn!(open = app.tasks.len(), "requests are still being handled at shutdown");
        }
        app.chats.stop().await;
        app.services.stop().await;
        app.lifecycle.stop().await;
        courier.stop().await;
        updates.stop(STOP_TIMEOUT).await;
        key_uses.stop(STOP_TIMEOUT).await;
        app.store.close().await;
        drop(data_dir);
        match fatal.await {
            Ok(Some(fatal)) => Err(Error::Fatal(fatal)),
            _ => served.map_err(Error::Serve),
        }
    }
}

/// A key that signs what clients bring back. It is stored, so that this stays valid after a restart.
async fn stored_key(store: &Store, setting: &'static str) -> Result<Secret, Error> {
    if let Some(key) = store.setting(setting).await? {
        return Ok(Secret::new(key));
    }
    let key: [u8; 32] = rand::random();
    let key: String = key.iter().map(|b| format!("{b:02x}")).collect();
    store.set_setting(setting, key.clone()).await?;
    Ok(Secret::new(key))
}

fn disk_used(lifecycle: &Arc<Lifecycle>) -> cabana_edge::DiskUsed {
    let lifecycle = Arc::clone(lifecycle);
    Arc::new(move |id| {
        let (lifecycle, id) = (Arc::clone(&lifecycle), id.clone());
        Box::pin(async move { lifecycle.disk_used(&id).await })
    })
}

/// Cancels `shutdown` if a task fails that the server cannot run without, and returns that failure.
fn end_on_fatal(
    supervisor: Supervisor,
    shutdown: CancellationToken,
) -> tokio::task::JoinHandle<Option<cabana_supervisor::Fatal>> {
    tokio::spawn(async move {
        tokio::select! {
            fatal = supervisor.fatal() => {
                shutdown.cancel();
                Some(fatal)
            }
            () = shutdown.cancelled() => None,
        }
    })
}

/// Records from time to time which API keys and sessions were used, and once more on shutdown.
async fn record_keys(app: Arc<App>, stop: CancellationToken) {
    loop {
        let ended = tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(RECORD_KEYS_EVERY) => false,
        };
        let used = app.keys.take_used();
        if !used.is_empty()
            && let Err(error) = app.store.touch_keys(used).await
        {
            tracing::warn!(error = cabana_types::error::chain(&error), "could not record the use of API keys");
        }
        if let Err(error) = app.accounts.record().await {
            tracing::warn!(error = cabana_types::error::chain(&error), "could not record the use of sessions");
        }
        if let Err(error) = app.grants.record().await {
            tracing::warn!(error = cabana_types::error::chain(&error), "could not record the use of grants");
        }
        if ended {
            return;
        }
    }
}

/// TLS as the configuration wants it; `None` where it is off.
fn open_tls(config: &Config) -> Result<Option<Tls>, TlsError> {
    match config.tls.mode {
        TlsMode::Off => Ok(None),
        TlsMode::Internal => {
            Tls::for_domain(&config.tls_dir(), config.domain_name().as_deref(), config.listen.ip()).map(Some)
        }
        TlsMode::Files => Tls::for_files(config.tls.certificate.clone(), config.tls.key.clone()).map(Some),
    }
}
