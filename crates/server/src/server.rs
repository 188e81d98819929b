//! Putting the parts together: what starts in which order, what stops in which order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cabana_runtime::Isolations;
use cabana_storage::ColdStore;
use cabana_store::{Boot, BuildStatus, Given, Store};
use cabana_supervisor::{Restart, Supervisor};
use cabana_types::{BuildId, Resources, SandboxId, Secret, TemplateId};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api::{self, App};
use crate::auth::{FIRST_TEAM, Keys};
use crate::bounds::Bounds;
use crate::builds::Builds;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::directory::Directory;
use crate::edge::{self, Absent, Edge, Sleepers};
use crate::error::Error;
use crate::failpoint;
use crate::lifecycle::{AutoResume, ChangeError, Lifecycle, why_not_running};
use crate::tls::Tls;
use crate::webhooks::Courier;

/// How often the use of keys is written down.
const NOTE_KEYS_EVERY: Duration = Duration::from_secs(30);

/// How long the last write of key uses may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that has taken up what an earlier one left, and listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    app: Arc<App>,
    directory: Arc<Directory>,
    fresh_key: Option<Secret>,
    supervisor: Supervisor,
    // Last: the directory is let go when everything else is.
    _data_dir: DataDir,
}

impl Server {
    /// Opens the store, takes up what is there, and listens; requests wait until [`Server::run`]. The caller takes the data directory first,
    /// because the backend keeps things there too. The supervisor runs all long-lived tasks.
    pub async fn start(
        config: &Config,
        data_dir: DataDir,
        backend: Arc<Isolations>,
        supervisor: Supervisor,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tls = Tls::open(config)?;
        let store = Store::open_supervised(&config.database(), &supervisor).await?;
        let (keys, fresh_key) = Keys::open(&store, &config.key_file()).await?;
        let bounds = Bounds::new(&config.limits);
        let directory = Arc::new(Directory::default());
        let cold = Arc::new(ColdStore::open(&config.cold_storage()).await?);
        let lifecycle = Lifecycle::new(store.clone(), backend, cold, Arc::clone(&directory), config);
        lifecycle.recover().await?;
        lifecycle.start();
        let domain = config.public_domain(address.port());
        let builds = Builds::open(store.clone(), Arc::clone(&lifecycle), config, &supervisor).await?;
        let upload_key = upload_key(&store).await?;
        let webhooks = config.webhooks.clone();
        let app = App { store, lifecycle, keys, bounds, domain, webhooks, builds, upload_key };
        let app = Arc::new(app);
        Ok(Self { listener, address, tls, app, directory, fresh_key, supervisor, _data_dir: data_dir })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A key that was made by this start, to be shown once. It is also in the key file.
    pub fn fresh_key(&self) -> Option<&Secret> {
        self.fresh_key.as_ref()
    }

    /// A handle for registering templates, also while the server runs.
    pub fn templates(&self) -> Templates {
        Templates { app: Arc::clone(&self.app) }
    }

    /// Serves until `shutdown`, or until a task fails without which the server cannot go on. Sandboxes stay up.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { listener, tls, app, directory, supervisor, _data_dir: data_dir, .. } = self;
        let asleep = Arc::new(Asleep { app: Arc::clone(&app) });
        let edge = Edge::new(directory, app.domain.clone(), asleep).with_disk_used(disk_used(&app.lifecycle));
        let edge = Arc::new(edge);
        let fatal = end_on_fatal(supervisor.clone(), shutdown.clone());
        failpoint::panic_tasks(&supervisor);
        let courier = Courier::start(app.store.clone(), &app.webhooks, &supervisor);
        let key_uses = supervisor.scope();
        let noted = Arc::clone(&app);
        key_uses.restart("API key uses", Restart::forever(), move |stop| note_keys(Arc::clone(&noted), stop));
        let api = api::router(Arc::clone(&app));
        let served = match &tls {
            Some(tls) => {
                let serving = edge::listener::serve_tls(listener, edge, api, tls, shutdown.clone());
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
            None => edge::listener::serve(listener, edge, api, shutdown.clone()).await,
        };
        // Serving may also have ended with an error.
        shutdown.cancel();
        app.builds.stop().await;
        app.lifecycle.stop().await;
        courier.stop().await;
        key_uses.stop(STOP_TIMEOUT).await;
        app.store.close().await;
        drop(data_dir);
        match fatal.await {
            Ok(Some(fatal)) => Err(Error::Fatal(fatal)),
            _ => served.map_err(Error::Serve),
        }
    }
}

/// Runs a server from its start to `shutdown`.
pub async fn serve(
    config: &Config,
    data_dir: DataDir,
    backend: Arc<Isolations>,
    supervisor: Supervisor,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    Server::start(config, data_dir, backend, supervisor).await?.run(shutdown).await
}

/// A template whose root filesystem is made outside of the server.
#[derive(Debug, Clone)]
pub struct TemplateSpec {
    /// Its alias, `base`.
    pub alias: String,
    /// The build that holds its root filesystem.
    pub build: BuildId,
    /// Whether that is there yet.
    pub ready: bool,
    /// What its sandboxes get unless they ask for something else.
    pub resources: Resources,
    /// What they boot with.
    pub boot: Boot,
}

/// Registers templates.
#[derive(Debug, Clone)]
pub struct Templates {
    app: Arc<App>,
}

impl Templates {
    /// The finished build that a template of the first team starts from, if there is one.
    pub async fn build_of(&self, alias: &str) -> Result<Option<BuildId>, Error> {
        let team = first_team();
        let template = self.app.store.template_by_alias(&team, None, alias).await?;
        let build = template.and_then(|t| t.build).filter(|b| b.status == BuildStatus::Ready);
        Ok(build.map(|b| b.id))
    }

    /// Makes sure that the first team has this template, for every team to use. With `ready: false` it announces a template that is still
    /// being built: creations are then told to wait. An announced build never replaces a finished one.
    pub async fn ensure(&self, spec: TemplateSpec) -> Result<TemplateId, Error> {
        let given = Given {
            id: TemplateId::from_random(rand::random()),
            team: first_team(),
            alias: spec.alias,
            public: true,
            build: spec.build,
            ready: spec.ready,
            resources: spec.resources,
            boot: spec.boot,
            at: Timestamp::now(),
        };
        Ok(self.app.store.ensure_template(given).await?)
    }
}

/// What links for uploads are signed with: the same after a restart, so that links stay good.
async fn upload_key(store: &Store) -> Result<Secret, Error> {
    const SETTING: &str = "upload_key";
    if let Some(key) = store.setting(SETTING).await? {
        return Ok(Secret::new(key));
    }
    let key: [u8; 32] = rand::random();
    let key: String = key.iter().map(|b| format!("{b:02x}")).collect();
    store.set_setting(SETTING, key.clone()).await?;
    Ok(Secret::new(key))
}

fn first_team() -> cabana_types::TeamId {
    FIRST_TEAM.parse().expect("the first team's id is a valid one")
}

/// Tells the edge about sandboxes that are not up.
#[derive(Debug)]
struct Asleep {
    app: Arc<App>,
}

impl Sleepers for Asleep {
    fn touch<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Absent> {
        Box::pin(async move {
            match self.app.lifecycle.auto_resume(id).await {
                AutoResume::Resumed(route) => Absent::Woken(route),
                AutoResume::NotFound(reason) => Absent::Gone(reason),
                AutoResume::Failed(ChangeError::Ended { .. }) => Absent::Gone(self.why(id).await),
                AutoResume::Failed(error) => Absent::Failed {
                    full: matches!(error, ChangeError::Capacity { .. }),
                    message: cabana_types::error::chain(&error),
                },
            }
        })
    }

    fn why<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { why_not_running(&self.app.store.sandbox(id).await.ok().flatten()?) })
    }
}

fn disk_used(lifecycle: &Arc<Lifecycle>) -> edge::DiskUsed {
    let lifecycle = Arc::clone(lifecycle);
    Arc::new(move |id| {
        let (lifecycle, id) = (Arc::clone(&lifecycle), id.clone());
        Box::pin(async move { lifecycle.disk_used(&id).await })
    })
}

/// Cancels `shutdown` if a task fails without which the server cannot go on, and returns that failure.
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

/// Writes from time to time which keys were used, and once more at the end.
async fn note_keys(app: Arc<App>, stop: CancellationToken) {
    loop {
        let ended = tokio::select! {
            () = stop.cancelled() => true,
            () = tokio::time::sleep(NOTE_KEYS_EVERY) => false,
        };
        let used = app.keys.take_used();
        if !used.is_empty()
            && let Err(error) = app.store.touch_keys(used).await
        {
            tracing::warn!(error = cabana_types::error::chain(&error), "could not note the use of API keys");
        }
        if ended {
            return;
        }
    }
}
