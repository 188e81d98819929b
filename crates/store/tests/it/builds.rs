//! Builds and tags: operations, refusals, and random sequences of operations and restarts against a model.

use std::collections::BTreeMap;

use cabana_store::{
    Boot, Build, BuildLimits, BuildRequest, BuildStatus, BuildTarget, Error, Sandbox, Snapshot, SnapshotKind,
    SnapshotState, Store, tag,
};
use cabana_types::quota::{Limits, QuotaKind};
use cabana_types::{BuildId, ProjectId, Resources, TemplateId};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::{TestDatabase, at, build, insert, other_team, sandbox, sandbox_id, team, template_id};

const LIMITS: BuildLimits = BuildLimits { server: four_templates(), builds: 3, tags: 3 };

const fn four_templates() -> Limits {
    Limits::NONE.with(QuotaKind::Templates, Some(4))
}
const HOUR: i64 = 3600;

fn id(n: u8) -> BuildId {
    BuildId::from_random([n; 16])
}

fn new_template() -> TemplateId {
    TemplateId::from_random([50; 20])
}

fn request(n: u8, alias: &str, tags: &[&str]) -> BuildRequest {
    BuildRequest {
        team: team().id,
        project: ProjectId::default_of(&team().id),
        wanted: BuildTarget::Alias(alias.into()),
        template: TemplateId::from_random([n; 20]),
        build: id(n),
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
        resources: Resources { cpu_count: u32::from(n), ..Resources::default() },
        at: at(i64::from(n)),
    }
}

fn boot(n: u8) -> Boot {
    Boot { default_workdir: Some(format!("/{n}")), start: Some(vec!["run".into()]), ..Boot::default() }
}

async fn ready(store: &Store, n: u8, alias: &str, tags: &[&str]) -> TemplateId {
    let template = store.request_build(request(n, alias, tags), LIMITS).await.expect("request");
    store.begin_build(id(n), at(i64::from(n))).await.expect("begin");
    store.finish_build(id(n), boot(n), at(i64::from(n))).await.expect("finish");
    template
}

async fn tags_of(store: &Store, template: &TemplateId) -> BTreeMap<String, BuildId> {
    store.tags(template).await.expect("tags").into_iter().map(|t| (t.tag, t.build)).collect()
}

async fn default_of(store: &Store, template: &TemplateId) -> Option<Build> {
    store.template(template).await.expect("read").expect("template").build
}

#[tokio::test]
async fn tags_are_assigned_when_a_build_is_ready() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let template = store.request_build(request(50, "mine", &["default", "v1"]), LIMITS).await.expect("request");
    assert_eq!(template, new_template());
    let row = store.template(&template).await.expect("read").expect("made");
    assert_eq!((row.public, row.aliases, row.build, row.build_count), (false, vec!["mine".to_owned()], None, 1));
    assert_eq!(row.newest, Some((id(50), BuildStatus::Waiting)));
    assert_eq!(store.unfinished_builds(&team().id).await.expect("count"), (1, 0));

    store.begin_build(id(50), at(51)).await.expect("begin");
    assert_eq!(store.unfinished_builds(&team().id).await.expect("count"), (0, 1));
    assert!(tags_of(&store, &template).await.is_empty());
    let finished = store.finish_build(id(50), boot(50), at(52)).await.expect("finish");
    assert_eq!((finished.status, finished.finished_at, &finished.boot), (BuildStatus::Ready, Some(at(52)), &boot(50)));
    assert_eq!(store.build(&id(50)).await.expect("read"), Some(finished.clone()));
    let row = store.template(&template).await.expect("read").expect("made");
    assert_eq!((row.build, row.resources.cpu_count, row.updated_at), (Some(finished), 50, at(52)));
    assert_eq!(tags_of(&store, &template).await, [("default".into(), id(50)), ("v1".into(), id(50))].into());
    assert_eq!(store.tagged(&template, "v1").await.expect("read").map(|b| b.id), Some(id(50)));
    assert_eq!(store.unfinished_builds(&team().id).await.expect("count"), (0, 0));

    // The same alias is the same template; a build without the tag `default` does not become the current one.
    assert_eq!(ready(&store, 51, "mine", &["v2"]).await, template);
    assert_eq!(default_of(&store, &template).await.map(|b| b.id), Some(id(50)));
    assert_eq!(store.template(&template).await.expect("read").expect("there").resources.cpu_count, 50);
    // A failed build changes nothing.
    let before = tags_of(&store, &template).await;
    store.request_build(request(52, "mine", &["default", "v2"]), LIMITS).await.expect("request");
    store.begin_build(id(52), at(53)).await.expect("begin");
    store.fail_build(id(52), Some("2".into()), "no such file".into(), at(54)).await.expect("fail");
    assert_eq!(tags_of(&store, &template).await, before);
    let failed = store.build(&id(52)).await.expect("read").expect("there");
    assert_eq!((failed.status, failed.error.as_deref()), (BuildStatus::Error, Some("no such file")));
    assert_eq!((failed.failed_step.as_deref(), failed.finished_at), (Some("2"), Some(at(54))));
    assert_eq!(store.builds(&template, 2).await.expect("list").len(), 2);
}

#[tokio::test]
async fn invalid_status_changes_are_refused() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    store.request_build(request(50, "mine", &["default"]), LIMITS).await.expect("request");
    let refused = |error: Error, wanted: &str| match error {
        Error::BuildStatus { status, .. } => assert_eq!(status, wanted),
        other => panic!("{other:?}"),
    };
    refused(store.finish_build(id(50), boot(1), at(51)).await.expect_err("not begun"), "waiting");
    store.begin_build(id(50), at(51)).await.expect("begin");
    refused(store.begin_build(id(50), at(52)).await.expect_err("begun"), "building");
    refused(store.assign_tags(id(50), vec!["v1".into()], 9, at(52)).await.expect_err("not ready"), "building");
    assert!(!store.delete_build(id(50)).await.expect("delete"), "it is in progress");
    store.finish_build(id(50), boot(1), at(52)).await.expect("finish");
    refused(store.fail_build(id(50), None, String::new(), at(53)).await.expect_err("ready"), "ready");
    refused(store.finish_build(id(50), boot(1), at(53)).await.expect_err("ready"), "ready");
    for error in [
        store.begin_build(id(99), at(1)).await.expect_err("unknown"),
        store.finish_build(id(99), boot(1), at(1)).await.expect_err("unknown"),
        store.fail_build(id(99), None, String::new(), at(1)).await.expect_err("unknown"),
        store.assign_tags(id(99), vec!["x".into()], 9, at(1)).await.expect_err("unknown"),
    ] {
        assert!(matches!(error, Error::NoBuild(_)), "{error:?}");
    }
    let unknown =
        BuildRequest { wanted: BuildTarget::Template(new_template()), team: other_team(), ..request(60, "", &[]) };
    let error = store.request_build(unknown, LIMITS).await.expect_err("not theirs");
    assert!(matches!(error, Error::NoTemplate(_)), "{error:?}");
}

#[tokio::test]
async fn limits_of_a_team() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let too_many = |result: Result<TemplateId, Error>| match result {
        Err(Error::TooMany { what, limit }) => (what, limit),
        other => panic!("{other:?}"),
    };
    for n in 50..53 {
        store.request_build(request(n, &format!("t{n}"), &["default"]), LIMITS).await.expect("request");
    }
    let third = request(53, "t50", &["default"]);
    assert_eq!(too_many(store.request_build(third, LIMITS).await).1, LIMITS.builds);
    // Builds that were never started expire, free their slot and cannot be started any more.
    let later = BuildRequest { at: at(7 * HOUR), ..request(53, "t50", &["default"]) };
    store.request_build(later, LIMITS).await.expect("there is room again");
    let error = store.begin_build(id(50), at(7 * HOUR)).await.expect_err("expired");
    assert!(matches!(error, Error::BuildStatus { status: "error", .. }), "{error:?}");
    let expired = store.build(&id(50)).await.expect("read").expect("there");
    assert_eq!(expired.error.as_deref(), Some("the build was never started; request it again"));

    let fifth = BuildRequest { at: at(7 * HOUR), ..request(54, "t54", &["default"]) };
    let error = store.request_build(fifth, LIMITS).await.expect_err("`base` is one of them");
    assert!(
        matches!(&error, Error::Quota(e) if (e.kind, e.used, e.limit) == (QuotaKind::Templates, 4, 4)),
        "{error:?}"
    );
    assert_eq!(store.template_by_alias(&team().id, None, "t54").await.expect("find"), None, "nothing was inserted");
    let tags = BuildRequest { at: at(7 * HOUR), ..request(54, "t50", &["a", "b", "c"]) };
    assert_eq!(too_many(store.request_build(tags, LIMITS).await).1, LIMITS.tags);
    let promised = BuildRequest { at: at(7 * HOUR), ..request(54, "t50", &["a", "b"]) };
    store.request_build(promised, LIMITS).await.expect("up to the limit");
    store.fail_build(id(53), None, String::new(), at(7 * HOUR)).await.expect("make room");
    let more = BuildRequest { at: at(7 * HOUR), ..request(55, "t50", &["c"]) };
    assert_eq!(too_many(store.request_build(more, LIMITS).await).1, LIMITS.tags, "tags of unfinished builds count");
}

#[tokio::test]
async fn interrupted_builds_fail() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    store.request_build(request(50, "mine", &["default"]), LIMITS).await.expect("request");
    store.request_build(request(51, "mine", &["default"]), LIMITS).await.expect("request");
    store.begin_build(id(50), at(60)).await.expect("begin");
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.interrupt_builds(at(70)).await.expect("interrupt"), [id(50)]);
    let failed = store.build(&id(50)).await.expect("read").expect("there");
    assert_eq!(failed.status, BuildStatus::Error);
    assert!(failed.error.expect("why").contains("the server was restarted during the build"));
    assert_eq!(store.interrupt_builds(at(71)).await.expect("again"), []);
    store.begin_build(id(51), at(72)).await.expect("a waiting build can start");
}

#[tokio::test]
async fn tags_can_be_moved_and_removed() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let template = ready(&store, 50, "mine", &["default", "v1"]).await;
    ready(&store, 51, "mine", &["default"]).await;
    assert_eq!(default_of(&store, &template).await.map(|b| b.id), Some(id(51)));
    // Roll back.
    store.assign_tags(id(50), vec!["default".into(), "good".into()], 3, at(60)).await.expect("assign");
    let row = store.template(&template).await.expect("read").expect("there");
    assert_eq!((row.build.map(|b| b.id), row.resources.cpu_count, row.updated_at), (Some(id(50)), 50, at(60)));
    let tags = store.tags(&template).await.expect("tags");
    let assigned: Vec<_> = tags.iter().map(|t| (t.tag.as_str(), t.build.clone(), t.created_at)).collect();
    assert_eq!(assigned, [("default", id(50), at(60)), ("good", id(50), at(60)), ("v1", id(50), at(50))]);
    let error = store.assign_tags(id(51), vec!["x".into()], 3, at(61)).await.expect_err("too many");
    assert!(matches!(error, Error::TooMany { limit: 3, .. }), "{error:?}");
    store.assign_tags(id(51), vec!["good".into()], 3, at(61)).await.expect("an existing tag may move");
    let past: Vec<_> =
        store.assignments(&template).await.expect("list").into_iter().map(|a| (a.tag, a.build)).collect();
    let past: Vec<_> = past.iter().map(|(tag, build)| (tag.as_str(), build.clone())).collect();
    let wanted = [("good", 51), ("good", 50), ("default", 50), ("default", 51), ("v1", 50), ("default", 50)]
        .map(|(t, n)| (t, id(n)));
    assert_eq!(past, wanted);

    let gone = vec!["good".into(), "none".into(), "default".into()];
    assert_eq!(store.remove_tags(template.clone(), gone, at(62)).await.expect("remove"), 1, "default stays");
    assert_eq!(tags_of(&store, &template).await.into_keys().collect::<Vec<_>>(), ["default", "v1"]);
    assert!(store.assignments(&template).await.expect("list").iter().all(|a| a.tag != "good"));
    for n in 0..2 * tag::MAX_ASSIGNMENTS {
        store.assign_tags(id(50), vec!["v1".into()], 3, at(i64::from(100 + n))).await.expect("assign");
    }
    let kept = store.assignments(&template).await.expect("list");
    assert_eq!(kept.iter().filter(|a| a.tag == "v1").count(), tag::MAX_ASSIGNMENTS as usize);
}

fn snapshot_of(n: u8) -> Snapshot {
    Snapshot {
        id: TemplateId::from_random([90; 20]),
        team: team().id,
        project: ProjectId::default_of(&team().id),
        name: Some("shot".into()),
        state: SnapshotState::Ready,
        kind: SnapshotKind::Disk,
        isolation: "native".into(),
        sandbox: sandbox_id(n),
        template: new_template(),
        build: id(50),
        alias: None,
        resources: Resources::default(),
        boot: Boot::default(),
        created_at: at(0),
    }
}

#[tokio::test]
async fn referenced_builds_are_not_deleted() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let template = ready(&store, 50, "mine", &["default"]).await;
    insert(&store, Sandbox { build: id(50), template: template.clone(), ..sandbox(1) }).await;
    store.insert_snapshot(snapshot_of(1), Limits::default()).await.expect("snapshot");
    for _ in 0..2 {
        let error = store.check_template_unused(&template).await.expect_err("used");
        assert!(matches!(error, Error::TemplateInUse { sandboxes: 1, snapshots: 1, .. }), "{error:?}");
        let error = store.delete_template(template.clone()).await.expect_err("used");
        assert!(matches!(error, Error::TemplateInUse { sandboxes: 1, snapshots: 1, .. }), "{error:?}");
    }
    let taken = store.request_build(request(60, "shot", &["default"]), LIMITS).await.expect_err("a snapshot's name");
    assert!(matches!(taken, Error::NameTaken { .. }), "{taken:?}");
    // No tag refers to the first build now, but a sandbox and a snapshot use it.
    ready(&store, 51, "mine", &["default"]).await;
    ready(&store, 52, "mine", &["default"]).await;
    let late = Timestamp::MAX;
    assert_eq!(store.untagged_builds(late).await.expect("list"), [id(51)]);
    assert_eq!(store.untagged_builds(at(51)).await.expect("list"), [], "not yet due");
    for (n, gone) in [(50, false), (51, true), (52, false), (99, false)] {
        assert_eq!(store.delete_build(id(n)).await.expect("delete"), gone, "{n}");
    }
    store.end(sandbox_id(1), cabana_types::sandbox::EndCause::Expired, at(60)).await.expect("end");
    store.removed(sandbox_id(1), at(61)).await.expect("removed");
    store.remove_snapshot(snapshot_of(1).id).await.expect("forget");
    store.check_template_unused(&template).await.expect("unused");
    assert_eq!(store.untagged_builds(late).await.expect("list"), [id(50)]);
    let mut gone = store.delete_template(template.clone()).await.expect("delete");
    gone.sort();
    assert_eq!(gone, [id(50), id(52)]);
    assert_eq!(store.template(&template).await.expect("read"), None);
    assert_eq!(store.build(&id(52)).await.expect("read"), None);
    assert_eq!(store.all_builds().await.expect("list"), [(build(1).id, BuildStatus::Ready)], "others stay");
    assert!(matches!(store.delete_template(template).await, Err(Error::NoTemplate(_))));
    // The name can be reused for another template.
    let again = BuildRequest { template: TemplateId::from_random([77; 20]), ..request(61, "mine", &["default"]) };
    assert_eq!(store.request_build(again, LIMITS).await.expect("request"), TemplateId::from_random([77; 20]));
}

#[tokio::test]
async fn a_ready_build_does_not_override_the_owners_choice() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    ready(&store, 50, "base", &["default"]).await;
    assert_eq!(default_of(&store, &template_id()).await.map(|b| b.id), Some(id(50)));
    store.set_public(template_id(), false, at(60)).await.expect("hide");
    store.ensure_template(crate::given(1)).await.expect("the next start");
    let base = store.template(&template_id()).await.expect("read").expect("base");
    assert_eq!((base.build.map(|b| b.id), base.public, base.updated_at), (Some(id(50)), false, at(60)));
    store.ensure_template(crate::given(2)).await.expect("a new base build");
    assert_eq!(default_of(&store, &template_id()).await.map(|b| b.id), Some(build(2).id));
}

/// Operations on the builds of one template.
#[derive(Debug, Clone)]
enum Operation {
    Request(u8, Vec<u8>),
    Begin(u8),
    Finish(u8),
    Fail(u8),
    Assign(u8, u8),
    Remove(u8),
    Delete(u8),
    Crash,
}

const TAGS: [&str; 3] = ["default", "a", "b"];

fn operation() -> impl Strategy<Value = Operation> {
    let n = 0u8..4;
    let tags = prop::collection::vec(0u8..3, 1..3);
    prop_oneof![
        3 => (n.clone(), tags).prop_map(|(n, tags)| Operation::Request(n, tags)),
        3 => n.clone().prop_map(Operation::Begin),
        3 => n.clone().prop_map(Operation::Finish),
        1 => n.clone().prop_map(Operation::Fail),
        1 => (n.clone(), 0u8..3).prop_map(|(n, tag)| Operation::Assign(n, tag)),
        1 => (0u8..3).prop_map(Operation::Remove),
        1 => n.prop_map(Operation::Delete),
        1 => Just(Operation::Crash),
    ]
}

#[derive(Debug, Default)]
struct Model {
    builds: BTreeMap<u8, (BuildStatus, Vec<u8>)>,
    tags: BTreeMap<u8, u8>,
}

impl Model {
    /// Applies an operation and returns whether it is allowed.
    fn apply(&mut self, step: &Operation) -> bool {
        use BuildStatus::{Building, Error, Ready, Waiting};
        let status = |model: &Self, n: &u8| model.builds.get(n).map(|(status, _)| *status);
        match step {
            Operation::Request(n, tags) => {
                let new = !self.builds.contains_key(n);
                if new {
                    self.builds.insert(*n, (Waiting, tags.clone()));
                }
                new
            }
            Operation::Begin(n) => status(self, n) == Some(Waiting) && self.set(*n, Building),
            Operation::Finish(n) => {
                let done = status(self, n) == Some(Building) && self.set(*n, Ready);
                if done {
                    let tags = self.builds[n].1.clone();
                    self.tags.extend(tags.into_iter().map(|tag| (tag, *n)));
                }
                done
            }
            Operation::Fail(n) => matches!(status(self, n), Some(Waiting | Building)) && self.set(*n, Error),
            Operation::Assign(n, tag) => {
                let done = status(self, n) == Some(Ready);
                if done {
                    self.tags.insert(*tag, *n);
                }
                done
            }
            Operation::Remove(tag) => *tag != 0 && self.tags.remove(tag).is_some(),
            Operation::Delete(n) => {
                let ended = matches!(status(self, n), Some(Ready | Error));
                let done = ended && !self.tags.values().any(|build| build == n);
                if done {
                    self.builds.remove(n);
                }
                done
            }
            Operation::Crash => {
                for (status, _) in self.builds.values_mut().filter(|(status, _)| *status == Building) {
                    *status = Error;
                }
                true
            }
        }
    }

    fn set(&mut self, n: u8, to: BuildStatus) -> bool {
        self.builds.get_mut(&n).is_some_and(|(status, _)| {
            *status = to;
            true
        })
    }
}

async fn apply(database: &TestDatabase, store: &mut Store, template: &TemplateId, step: &Operation) -> bool {
    let name = |tag: &u8| TAGS[usize::from(*tag)];
    match step {
        Operation::Request(n, tags) => {
            let names: Vec<&str> = tags.iter().map(name).collect();
            let requested =
                BuildRequest { wanted: BuildTarget::Template(template.clone()), ..request(100 + n, "", &names) };
            store.request_build(requested, BuildLimits { server: Limits::NONE, builds: 9, tags: 9 }).await.is_ok()
        }
        Operation::Begin(n) => store.begin_build(id(100 + n), at(1)).await.is_ok(),
        Operation::Finish(n) => store.finish_build(id(100 + n), boot(*n), at(1)).await.is_ok(),
        Operation::Fail(n) => store.fail_build(id(100 + n), None, "no".into(), at(1)).await.is_ok(),
        Operation::Assign(n, tag) => store.assign_tags(id(100 + n), vec![name(tag).into()], 9, at(1)).await.is_ok(),
        Operation::Remove(tag) => {
            store.remove_tags(template.clone(), vec![name(tag).into()], at(1)).await.expect("remove") > 0
        }
        Operation::Delete(n) => store.delete_build(id(100 + n)).await.expect("delete"),
        Operation::Crash => {
            store.close().await;
            *store = database.open().await;
            store.interrupt_builds(at(1)).await.is_ok()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_operations_match_the_model(steps in prop::collection::vec(operation(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
        runtime.block_on(async {
            let database = TestDatabase::new();
            let mut store = database.populated().await;
            let template = store.request_build(request(50, "mine", &["default"]), LIMITS).await.expect("request");
            store.fail_build(id(50), None, String::new(), at(0)).await.expect("a template without a build");
            let mut model = Model::default();
            for step in &steps {
                let (wanted, done) = (model.apply(step), apply(&database, &mut store, &template, step).await);
                prop_assert_eq!(wanted, done, "{:?}", step);
                let tags: BTreeMap<String, BuildId> =
                    model.tags.iter().map(|(tag, n)| (TAGS[usize::from(*tag)].to_owned(), id(100 + n))).collect();
                prop_assert_eq!(&tags_of(&store, &template).await, &tags, "{:?}", step);
                prop_assert_eq!(default_of(&store, &template).await.map(|b| b.id), tags.get("default").cloned());
                for n in 0..4 {
                    let status = store.build(&id(100 + n)).await.expect("read").map(|b| b.status);
                    prop_assert_eq!(status, model.builds.get(&n).map(|(status, _)| *status), "{:?}", step);
                }
            }
            store.close().await;
            Ok(())
        })?;
    }
}
