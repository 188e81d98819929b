//! Migrating a database of an earlier version keeps the meaning of its rows.

use cabana_store::{ChatQuery, Store};
use cabana_types::SandboxId;
use cabana_types::sandbox::{EndCause, Kept, State};
use sqlx::ConnectOptions;

use crate::TestDatabase;

const MIGRATION_5: &str = include_str!("../fixtures/migration-5.sql");

#[tokio::test]
async fn rows_of_migration_5_are_kept() {
    let database = TestDatabase::new();
    // The tables of a dump are in alphabetical order, which violates foreign keys.
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&database.path).create_if_missing(true);
    let options = options.foreign_keys(false);
    let mut connection = options.connect().await.expect("connect");
    sqlx::raw_sql(MIGRATION_5).execute(&mut connection).await.expect("the dump is valid");
    drop(connection);

    let store = Store::open(&database.path).await.expect("it is migrated");
    assert_eq!(state(&store, "iampmq3kktrz3sfj9lg2q").await, State::Running);
    assert!(matches!(state(&store, "ii9nshd9iird0vm69jqc3").await, State::Paused { kept: Kept::Ram, .. }));
    assert!(matches!(state(&store, "i8f0k63so7witx6rc7byh").await, State::Paused { kept: Kept::Disk, .. }));
    assert!(matches!(
        state(&store, "ib8eo0y1hg6jmaxh41wq8").await,
        State::Paused { kept: Kept::Archive { generation: 1, whole: true }, .. }
    ));
    assert_eq!(state(&store, "ib44kytl07jjjzenf3fed").await, State::Failed { cause: EndCause::GuestDied });
    assert!(matches!(state(&store, "ie3mz7f2q5pnugxbz6vmg").await, State::Ended { cause: EndCause::Killed { .. } }));
    assert_eq!(store.live_sandboxes().await.expect("living").len(), 5);

    let team = store.teams().await.expect("teams")[0].id.clone();
    let templates = store.templates(&team).await.expect("templates");
    assert_eq!(templates.len(), 2);
    assert_eq!(store.keys().await.expect("keys").len(), 1);

    let query = ChatQuery { team: team.clone(), projects: None, status: None, text: None, before: None, limit: 10 };
    assert!(store.chats(&query).await.expect("chats").is_empty());

    // It has been migrated: opening it again changes nothing.
    store.close().await;
    let again = Store::open(&database.path).await.expect("it opens again");
    assert_eq!(again.live_sandboxes().await.expect("living").len(), 5);
}

async fn state(store: &Store, id: &str) -> State {
    let id: SandboxId = id.parse().expect("an id");
    store.sandbox(&id).await.expect("a query").expect("a sandbox").state
}

#[tokio::test]
async fn keys_of_earlier_versions_keep_what_they_could_do() {
    use sqlx::Connection as _;
    let dir = tempfile::tempdir().expect("directory");
    let (old, path) = (dir.path().join("migrations"), dir.path().join("cabana.db"));
    std::fs::create_dir(&old).expect("directory");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations")).expect("migrations") {
        let entry = entry.expect("entry");
        if entry.file_name().to_str().is_some_and(|name| name < "0017") {
            std::fs::copy(entry.path(), old.join(entry.file_name())).expect("copy");
        }
    }
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.expect("connect");
    sqlx::migrate::Migrator::new(old).await.expect("migrations").run(&mut connection).await.expect("earlier version");
    let rows = "insert into teams (id, name, created_at) values ('default', 'default', 1), ('other', 'other', 2);
         insert into api_keys (id, team, hash, name, prefix, suffix, created_at) values
         ('01010101-0101-4101-8101-010101010101', 'default', randomblob(32), 'first', 'e2b_', 'abcd', 1),
         ('02020202-0202-4202-8202-020202020202', 'other', randomblob(32), 'other', 'e2b_', 'abcd', 2)";
    sqlx::raw_sql(rows).execute(&mut connection).await.expect("rows");
    connection.close().await.expect("close");
    let store = cabana_store::Store::open(&path).await.expect("open");
    let keys = store.keys().await.expect("keys");
    let scopes: Vec<_> = keys.iter().map(|key| key.scopes).collect();
    assert_eq!(scopes, [cabana_types::Permissions::ALL, cabana_types::Permissions::PLAIN_KEY]);
    assert!(keys.iter().all(|key| key.expires_at.is_none() && key.cidrs.is_empty() && key.created_by.is_none()));
    store.close().await;
}
