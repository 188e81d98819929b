//! Builds for tests: requested over the API, and finished in the store as an executor would.

use cabana_server::Boot;
use cabana_store::{BuildLine, LogLevel, Store};
use cabana_types::BuildId;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::server::TestServer;

/// A build, by its public ids.
#[derive(Debug, Clone)]
pub(crate) struct TestBuild {
    pub(crate) template: String,
    pub(crate) build: String,
}

impl TestBuild {
    pub(crate) fn id(&self) -> BuildId {
        self.build.parse().expect("build id")
    }

    /// A path under this build.
    pub(crate) fn path(&self, rest: &str) -> String {
        format!("/templates/{}/builds/{}/{rest}", self.template, self.build)
    }

    pub(crate) fn start_path(&self) -> String {
        format!("/v2/templates/{}/builds/{}", self.template, self.build)
    }
}

/// Accesses the store of a running server.
pub(crate) fn remembering<T>(server: &TestServer, work: impl AsyncFnOnce(&Store) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let store = Store::open(&server.data_dir().join("cabana.db")).await.expect("open");
        let done = work(&store).await;
        store.close().await;
        done
    })
}

/// A build that waits.
pub(crate) fn requested(server: &TestServer, body: Value) -> TestBuild {
    let answer = server.post("/v3/templates", body).is(202);
    TestBuild { template: answer.member("templateID"), build: answer.member("buildID") }
}

pub(crate) fn begin(server: &TestServer, build: &TestBuild) {
    remembering(server, async |store| store.begin_build(build.id(), Timestamp::now()).await).expect("begin");
}

pub(crate) fn finish(server: &TestServer, build: &TestBuild, boot: Boot) {
    remembering(server, async |store| store.finish_build(build.id(), boot, Timestamp::now()).await).expect("finish");
}

pub(crate) fn fail(server: &TestServer, build: &TestBuild, step: &str, message: &str) {
    let failed = async |store: &Store| {
        store.fail_build(build.id(), Some(step.to_owned()), message.to_owned(), Timestamp::now()).await
    };
    remembering(server, failed).expect("fail");
}

/// A finished build; it sets `FROM` to the name in the request.
pub(crate) fn ready(server: &TestServer, name: &str) -> TestBuild {
    ready_with(server, json!({"name": name}))
}

pub(crate) fn ready_with(server: &TestServer, body: Value) -> TestBuild {
    let from = body["name"].as_str().expect("name").to_owned();
    let build = requested(server, body);
    begin(server, &build);
    finish(server, &build, Boot { env: [("FROM".to_owned(), from)].into(), ..Boot::default() });
    build
}

/// Appends lines to a build's log, each at the given milliseconds since 1970.
pub(crate) fn say(server: &TestServer, build: &TestBuild, lines: &[(i64, LogLevel, &str)]) {
    let lines = lines.iter().map(|(millis, level, message)| BuildLine {
        at: Timestamp::from_millisecond(*millis).expect("time"),
        level: *level,
        step: Some("1".into()),
        message: (*message).to_owned(),
    });
    let lines = lines.collect();
    remembering(server, async |store| store.append_build_log(build.id(), lines).await).expect("append");
}
