//! A separate server for each test: own directory, port and threads, so that it can be killed like a process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cabana_server::config::Loaded;
use cabana_server::{Boot, Config, DataDir, Server, TemplateSpec};
use cabana_store::Store;
use cabana_supervisor::Supervisor;
use cabana_types::{BuildId, Resources};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::eventually;
use crate::http::{Answer, send};
use crate::world::{Fake, World};

/// A running server and its backend.
pub(crate) struct TestServer {
    dir: Arc<tempfile::TempDir>,
    settings: Vec<(String, String)>,
    pub(crate) world: Arc<World>,
    pub(crate) address: SocketAddr,
    pub(crate) key: String,
    pub(crate) fresh_key: Option<String>,
    runtime: Option<Runtime>,
    shutdown: CancellationToken,
    pub(crate) supervisor: Supervisor,
    /// How it ended.
    ended: Option<tokio::task::JoinHandle<Result<(), cabana_server::Error>>>,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts with settings that differ from the defaults.
    pub(crate) fn with(settings: &[(&str, &str)]) -> Self {
        let dir = Arc::new(tempfile::tempdir().expect("directory"));
        let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Self::boot(dir, settings, Arc::default())
    }

    /// A file of the data directory.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join("data").join(name)
    }

    fn config(dir: &tempfile::TempDir, settings: &[(String, String)]) -> Config {
        let empty = dir.path().join("config.toml");
        std::fs::write(&empty, "").expect("write");
        let mut flags = vec![
            ("data_dir".to_owned(), dir.path().join("data").display().to_string()),
            ("listen".to_owned(), "127.0.0.1:0".to_owned()),
            // The same on every machine.
            ("limits.max_cpu_count".to_owned(), "8".to_owned()),
            ("limits.max_memory_mb".to_owned(), "8192".to_owned()),
        ];
        flags.extend(settings.iter().cloned());
        Loaded::read(Some(&empty), |_| None, &flags).expect("configuration").config
    }

    fn boot(dir: Arc<tempfile::TempDir>, settings: Vec<(String, String)>, world: Arc<World>) -> Self {
        let config = Self::config(&dir, &settings);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
        let (shutdown, supervisor) = (CancellationToken::new(), Supervisor::new());
        // The threads of a killed server take a moment to release the directory.
        let mut data_dir = None;
        eventually("the data directory is free", || {
            data_dir = DataDir::take(&config.data_dir).ok();
            data_dir.is_some()
        });
        let backend = Arc::new(Fake::isolations(&world));
        let server = runtime.block_on(async {
            let store = Store::open_supervised(&config.database(), &supervisor).await.expect("store");
            let started = Server::start(&config, data_dir.expect("taken"), store, backend, supervisor.clone());
            let server = started.await.expect("start");
            let templates = server.templates();
            if templates.build_of("base").await.expect("template").is_none() {
                templates.ensure(base()).await.expect("template");
            }
            server
        });
        let (address, fresh_key) = (server.address(), server.fresh_key().map(|k| k.expose().to_owned()));
        let ended = Some(runtime.spawn(server.run(shutdown.clone())));
        let key = std::fs::read_to_string(config.key_file()).expect("key file").trim().to_owned();
        Self { dir, settings, world, address, key, fresh_key, runtime: Some(runtime), shutdown, supervisor, ended }
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn ended(&mut self) -> Result<(), cabana_server::Error> {
        let (runtime, ended) =
            (self.runtime.as_ref().expect("runtime"), self.ended.take().expect("not waited for yet"));
        let ended = runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), ended).await });
        ended.expect("it ends").expect("it does not panic")
    }

    /// Makes a supervised task panic.
    pub(crate) fn panic(&self, task: &str) {
        assert!(self.supervisor.inject_panic(task));
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Kills the server as `kill -9` would: every task stops where it is.
    pub(crate) fn crash(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(10));
        }
    }

    /// Starts another server on the same data and the same backend.
    pub(crate) fn restart(self) -> Self {
        self.restart_with(|| {})
    }

    /// The same, after something else was done in between.
    pub(crate) fn restart_with(mut self, between: impl FnOnce()) -> Self {
        self.crash();
        self.world.heal();
        between();
        Self::boot(Arc::clone(&self.dir), self.settings.clone(), Arc::clone(&self.world))
    }

    /// Shuts the server down gracefully.
    pub(crate) fn stop(&mut self) {
        self.shutdown.cancel();
        let path = self.data_dir();
        eventually("the server stopped", || DataDir::take(&path).is_ok());
        self.crash();
    }

    /// Sends a request with the key.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<Value>) -> Answer {
        self.call_with(method, path, &[], body)
    }

    pub(crate) fn call_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<Value>) -> Answer {
        let mut all = vec![("x-api-key", self.key.as_str())];
        all.extend_from_slice(headers);
        let body = body.map(|b| b.to_string());
        send(self.address, method, path, &all, body.as_deref().map(str::as_bytes)).expect("an answer")
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.call("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Answer {
        self.call("POST", path, Some(body))
    }

    /// Creates a sandbox and returns its id.
    pub(crate) fn create(&self) -> String {
        self.create_with(json!({}))
    }

    pub(crate) fn create_with(&self, mut options: Value) -> String {
        options["templateID"] = "base".into();
        self.post("/v2/sandboxes", options).is(201).member("sandboxID")
    }

    pub(crate) fn kill(&self, id: &str) -> Answer {
        self.call("DELETE", &format!("/sandboxes/{id}"), None)
    }

    pub(crate) fn listed(&self) -> Vec<String> {
        let rows = self.get("/v2/sandboxes").is(200).json();
        rows.as_array().expect("rows").iter().map(|r| r["sandboxID"].as_str().expect("id").to_owned()).collect()
    }

    /// Types of a sandbox's events, oldest first, without the common prefix.
    pub(crate) fn events(&self, id: &str) -> Vec<String> {
        let rows = self.get(&format!("/events/sandboxes/{id}?orderAsc=true&limit=100")).is(200).json();
        let kind = |r: &Value| r["type"].as_str().expect("type").trim_start_matches("sandbox.lifecycle.").to_owned();
        rows.as_array().expect("rows").iter().map(kind).collect()
    }

    /// The message with which a request about an ended sandbox is refused.
    pub(crate) fn end_message(&self, id: &str) -> String {
        self.get(&format!("/sandboxes/{id}")).error(404, "sandbox_not_found")
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.shutdown.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        if !std::thread::panicking() {
            assert_eq!(self.world.collisions(), [], "two concurrent operations on one sandbox");
        }
    }
}

pub(crate) fn base() -> TemplateSpec {
    TemplateSpec {
        alias: "base".into(),
        build: BuildId::from_random([1; 16]),
        ready: true,
        resources: Resources { cpu_count: 2, memory_mb: 512, disk_mb: 1024, ..Resources::default() },
        boot: Boot { env: [("FROM".to_owned(), "template".to_owned())].into(), ..Boot::default() },
    }
}
