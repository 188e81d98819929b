//! Opening databases: new ones, old versions, and files that are refused.

use std::os::unix::fs::PermissionsExt;

use cabana_store::{Boot, CacheKind, Error, Store};
use sqlx::Connection;

use crate::{TestDatabase, key, team};

#[tokio::test]
async fn the_first_team_is_created_once() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    assert!(!store.create_first_team(team(), key(2)).await.expect("found"), "the second call changes nothing");
    assert_eq!(store.teams().await.expect("teams"), [team()]);
    assert_eq!(store.keys().await.expect("keys"), [key(1)]);
}

#[tokio::test]
async fn files_are_private() {
    let database = TestDatabase::new();
    let _store = database.populated().await;
    for file in ["cabana.db", "cabana.db-wal", "cabana.db-shm"] {
        let path = database.path.with_file_name(file);
        let mode = std::fs::metadata(&path).expect(file).permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} has mode {mode:o}");
    }
}

#[tokio::test]
async fn databases_of_newer_versions_are_refused() {
    let database = TestDatabase::new();
    database.populated().await.close().await;
    let mut connection = {
        use sqlx::ConnectOptions;
        sqlx::sqlite::SqliteConnectOptions::new().filename(&database.path).connect().await.expect("connect")
    };
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (9000, 'x', 1, x'00', 0)",
    )
    .execute(&mut connection)
    .await
    .expect("a migration from the future");
    drop(connection);
    let error = cabana_store::Store::open(&database.path).await.expect_err("newer");
    assert!(matches!(error, Error::NewerSchema { version: 9000, .. }), "{error:?}");
    assert!(error.to_string().contains("written by a newer Cabana"), "{error}");
}

#[tokio::test]
async fn other_files_are_refused_and_left_unchanged() {
    let database = TestDatabase::new();
    let text = "this is my shopping list, not a database. ".repeat(100);
    std::fs::write(&database.path, &text).expect("write");
    let error = cabana_store::Store::open(&database.path).await.expect_err("not a database");
    assert!(matches!(error, Error::Open { .. } | Error::Corrupt { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&database.path).expect("read"), text);
}

#[tokio::test]
async fn settings_and_closing() {
    let database = TestDatabase::new();
    let store = database.open().await;
    assert_eq!(store.setting("a").await.expect("read"), None);
    store.set_setting("a", "1".into()).await.expect("write");
    store.set_setting("a", "2".into()).await.expect("write");
    assert_eq!(store.setting("a").await.expect("read").as_deref(), Some("2"));
    store.close().await;
    assert!(matches!(store.set_setting("a", "3".into()).await, Err(Error::Closed)));
    let again = database.open().await;
    assert_eq!(again.setting("a").await.expect("read").as_deref(), Some("2"));
}

/// Opens a database of the first version that has these rows.
async fn migrated(rows: &[&'static str]) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("directory");
    let old = dir.path().join("migrations");
    std::fs::create_dir(&old).expect("directory");
    let first = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/0001_first.sql");
    std::fs::copy(first, old.join("0001_first.sql")).expect("copy");
    let path = dir.path().join("db");
    let url = format!("sqlite://{}?mode=rwc", path.display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.expect("open");
    sqlx::migrate::Migrator::new(old).await.expect("migrations").run(&mut connection).await.expect("first version");
    for sql in rows {
        sqlx::query(*sql).execute(&mut connection).await.expect(sql);
    }
    connection.close().await.expect("close");
    let store = Store::open(&path).await.expect("open");
    (dir, store)
}

#[tokio::test]
async fn sandboxes_of_the_first_version_are_migrated() {
    let (_dir, store) = migrated(&[
        "insert into teams values ('default', 'default', 0)",
        "insert into api_keys values ('aaaaaaaaaaaaaaaaaaaa', 'default', zeroblob(32), 'first', 'e2b_aa', 'aaaa', 0, null)",
        "insert into sandboxes values ('i1', 'default', 'tttttttttttttttttttt', '00000000-0000-4000-8000-000000000000', null,
            'running', null, 1, 128, 64, 100, '{}', '{}', null, 0, 1, 0, 0, 9, null, null, null)",
        "insert into sandboxes values ('i2', 'default', 'tttttttttttttttttttt', '00000000-0000-4000-8000-000000000000', null,
            'running', null, 1, 128, 64, 100, '{}', '{}', null, 0, 0, 0, 0, 9, null, null, null)",
    ])
    .await;
    let sandbox = store.sandbox(&"i1".parse().expect("id")).await.expect("read").expect("it is there");
    assert_eq!(sandbox.traffic, cabana_types::Traffic::default());
    assert_eq!(sandbox.isolation, "native");
    assert!(sandbox.egress.is_open(), "it had internet access");
    let cut = store.sandbox(&"i2".parse().expect("id")).await.expect("read").expect("it is there");
    assert!(cut.egress.is_offline(), "it had none");
    assert_eq!(store.keys().await.expect("keys").len(), 1, "with an id of the new form");
    store.close().await;
}

#[tokio::test]
async fn templates_of_the_first_version_are_migrated() {
    let (_dir, store) = migrated(&[
        "insert into teams values ('default', 'default', 0)",
        "insert into templates values ('tttttttttttttttttttt', 'default', 1, 3, 512, 1024, null, 5, 6, 0, null)",
        "insert into template_aliases values ('default', 'base', 'tttttttttttttttttttt')",
        "insert into builds values ('00000000-0000-4000-8000-000000000000', 'tttttttttttttttttttt', 'ready', 7, 8, null,
            'user', '/app', '{\"A\":\"1\"}')",
        "insert into builds values ('00000000-0000-4000-8000-000000000001', 'tttttttttttttttttttt', 'error', 9, null, 'no',
            'root', null, '{}')",
        "update templates set build = '00000000-0000-4000-8000-000000000000'",
    ])
    .await;
    let template = store.template(&"tttttttttttttttttttt".parse().expect("id")).await.expect("read").expect("there");
    assert_eq!((template.isolation, template.network), (None, None), "the server's default");
    let build = template.build.expect("its build");
    assert_eq!((build.resources, &build.template), (template.resources, &template.id));
    let boot = Boot { default_workdir: Some("/app".into()), env: [("A".into(), "1".into())].into(), ..Boot::default() };
    assert_eq!((build.boot, build.updated_at.as_microsecond(), build.tags), (boot, 8, vec![]));
    let failed = store.builds(&template.id, 9).await.expect("builds").remove(0);
    assert_eq!((failed.boot.default_user.as_str(), failed.updated_at.as_microsecond()), ("root", 9));
    let tags = store.tags(&template.id).await.expect("tags");
    assert_eq!((tags.len(), tags[0].tag.as_str(), tags[0].created_at.as_microsecond()), (1, "default", 8));
    let past = store.assignments(&template.id).await.expect("assignments").remove(0);
    assert!(past.build == build.id && past.id.len() == 36, "{past:?}");
    store.close().await;
}

#[tokio::test]
async fn cache_keys_are_migrated_to_kinds() {
    use sqlx::ConnectOptions;
    let database = TestDatabase::new();
    database.populated().await.close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&database.path);
    let mut connection = options.connect().await.expect("connect");
    // As left by the previous version.
    sqlx::raw_sql(
        "drop table layers;
         create table layers (key text primary key, used_at integer not null) strict, without rowid;
         insert into layers (key, used_at) values ('abc', 1), ('manifest-abc', 2), ('tried-abc', 3);
         delete from _sqlx_migrations where version = 7;",
    )
    .execute(&mut connection)
    .await
    .expect("an older database");
    connection.close().await.expect("close");
    let store = database.open().await;
    for (kind, used_at) in [(CacheKind::Layer, 1), (CacheKind::Image, 2), (CacheKind::Start, 3)] {
        let at = jiff::Timestamp::from_microsecond(used_at).expect("time");
        assert_eq!(store.cache_by_use(kind).await.expect("list"), [("abc".to_owned(), at)]);
    }
}
