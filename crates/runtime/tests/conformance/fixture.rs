//! A backend under test, and what cases do with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cabana_guest_link::Port;
use cabana_runtime::{DiskSource, Error, Isolation, Isolations, LaunchSpec, Live, Root};
use cabana_storage::Disks;
use cabana_types::guest::GuestConfig;
use cabana_types::{BuildId, EgressPolicy, Resources, SandboxId, TemplateId};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};

use crate::fake::FakeWorld;
use crate::native::NativeWorld;

/// What is below the trait.
pub(crate) enum World {
    Fake(FakeWorld),
    Native(NativeWorld),
}

pub(crate) struct Fixture {
    pub(crate) isolations: Isolations,
    pub(crate) world: World,
    pub(crate) build: BuildId,
}

impl Fixture {
    pub(crate) fn name(&self) -> &'static str {
        self.isolation().name()
    }

    pub(crate) fn isolation(&self) -> Arc<dyn Isolation> {
        Arc::clone(self.isolations.get(self.isolations.default_name()).unwrap())
    }

    pub(crate) fn disks(&self) -> Arc<dyn Disks> {
        Arc::clone(self.isolations.disks())
    }

    /// A new sandbox with an empty disk.
    pub(crate) fn spec(&self) -> LaunchSpec {
        let resources = Resources { cpu_count: 1, memory_mb: 256, disk_mb: 64, pids: 128 };
        let id = SandboxId::from_random(rand::random());
        LaunchSpec {
            id: id.clone(),
            root: Root::Build { build: self.build.clone(), disk: DiskSource::New },
            resources,
            mounts: Vec::new(),
            egress: Arc::new(EgressPolicy::offline()),
            no_new_privileges: false,
            guest: GuestConfig {
                sandbox_id: id,
                template_id: "conformance".into(),
                access_token: None,
                env_vars: Default::default(),
                default_user: "root".into(),
                default_workdir: None,
                start: None,
                ready: None,
                authority: None,
                cpu_count: resources.cpu_count,
                memory_bytes: u64::from(resources.memory_mb) << 20,
                disk_bytes: u64::from(resources.disk_mb) << 20,
            },
        }
    }

    /// The same sandbox with the disk that it has.
    pub(crate) fn kept(&self, id: &SandboxId) -> LaunchSpec {
        let mut spec = self.spec();
        spec.root = Root::Build { build: self.build.clone(), disk: DiskSource::Kept };
        spec.guest.sandbox_id = id.clone();
        LaunchSpec { id: id.clone(), ..spec }
    }

    /// A new sandbox whose disk is a copy of a snapshot.
    pub(crate) fn copied(&self, snapshot: &TemplateId) -> LaunchSpec {
        let root = Root::Build { build: self.build.clone(), disk: DiskSource::Snapshot(snapshot.clone()) };
        LaunchSpec { root, ..self.spec() }
    }

    pub(crate) async fn launch(&self) -> Live {
        self.isolation().launch(self.spec()).await.unwrap()
    }

    pub(crate) async fn destroy(&self, id: &SandboxId) {
        self.isolation().destroy(id).await.unwrap();
    }

    /// Another server takes the place of this one.
    pub(crate) async fn restart(&mut self) {
        match &mut self.world {
            World::Fake(world) => self.isolations = world.open(),
            World::Native(world) => {
                // A placeholder while the old one is dropped.
                let old = std::mem::replace(&mut self.isolations, FakeWorld::empty());
                self.isolations = world.restart(old).await;
            }
        }
    }

    /// Kills the first process of a sandbox from outside.
    pub(crate) fn kill_first_process(&self, id: &SandboxId) {
        match &self.world {
            World::Fake(world) => world.kill(id),
            World::Native(world) => world.kill(id),
        }
    }

    /// Launches a sandbox that needs more memory than it has.
    pub(crate) async fn launch_hungry(&self) -> Live {
        match &self.world {
            World::Fake(world) => {
                let live = self.launch().await;
                world.starve(&live.id);
                live
            }
            World::Native(_) => {
                let mut spec = self.spec();
                spec.resources.memory_mb = 64;
                spec.guest.start = Some(vec!["/bin/sh".into(), "-c".into(), "tail /dev/zero; sleep 1000".into()]);
                self.isolation().launch(spec).await.unwrap()
            }
        }
    }

    /// Everything of sandboxes that exists on the machine, found without the backend.
    pub(crate) async fn leftovers(&self) -> Vec<String> {
        match &self.world {
            World::Fake(world) => world.leftovers(),
            World::Native(world) => world.leftovers().await,
        }
    }

    /// The same without waiting for what is released in the background.
    pub(crate) fn leftovers_now(&self) -> Vec<String> {
        match &self.world {
            World::Fake(world) => world.leftovers(),
            World::Native(world) => world.files(),
        }
    }

    /// Destroys whatever a failed case left.
    pub(crate) async fn clean(&mut self) {
        for id in self.isolations.inventory().await.unwrap_or_default() {
            let _ = self.isolations.destroy(&id).await;
        }
        for snapshot in self.disks().snapshots().await.unwrap_or_default() {
            let _ = self.disks().delete_snapshot(&snapshot).await;
        }
    }

    /// Ends the fixture; the sandboxes on which two operations ran at a time.
    pub(crate) async fn close(self) -> Vec<SandboxId> {
        match self.world {
            World::Fake(world) => world.collisions(),
            World::Native(world) => {
                world.close(self.isolations).await;
                Vec::new()
            }
        }
    }
}

/// A request to a guest: its status and body.
pub(crate) async fn ask(live: &Live, port: Port, method: Method, path: &str, body: &[u8]) -> (StatusCode, Bytes) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "guest")
        .header("content-type", "application/octet-stream")
        .body(Full::new(Bytes::copy_from_slice(body)))
        .unwrap();
    let response = live.link.request(port, request).await.unwrap();
    let status = response.status();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

/// Writes a file inside; whether the guest could.
pub(crate) async fn write(live: &Live, path: &str, content: &[u8]) -> bool {
    ask(live, Port::Traffic, Method::POST, &format!("/files?path={path}"), content).await.0 == StatusCode::OK
}

/// Reads a file inside, if it is there.
pub(crate) async fn read(live: &Live, path: &str) -> Option<String> {
    let (status, body) = ask(live, Port::Traffic, Method::GET, &format!("/files?path={path}"), b"").await;
    (status == StatusCode::OK).then(|| String::from_utf8(body.to_vec()).unwrap())
}

/// Whether the guest answers soon.
pub(crate) async fn answers(live: &Live) -> bool {
    tokio::time::timeout(Duration::from_millis(500), live.link.is_healthy()).await.unwrap_or(false)
}

pub(crate) fn snapshot_id() -> TemplateId {
    TemplateId::from_random(rand::random())
}

/// Whether an operation was refused because it is not offered.
pub(crate) fn is_refusal<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::NotOffered { .. }))
}
