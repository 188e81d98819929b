//! Files, agents and model providers; and what the database holds.

use std::collections::BTreeMap;

use cabana_store::{AgentPut, AgentRow, AttachmentRow, ChatChange, Error, ProviderRow};
use cabana_types::AgentId;
use cabana_types::chat::{ChatTool, SyncState, TurnLimits};
use cabana_types::turn::TurnState;
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::{attachment, begin, chat_id, commit, try_commit};
use crate::{TestDatabase, at, other_team, team};

async fn tables(database: &TestDatabase) -> (SqliteConnection, Vec<String>) {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&database.path);
    let mut connection = options.connect().await.expect("connect");
    let names = sqlx::query_scalar("select name from sqlite_schema where type = 'table' and name not like 'sqlite%'");
    let names = names.fetch_all(&mut connection).await.expect("tables");
    (connection, names)
}

/// The number of rows of each table.
pub(super) async fn rows_by_table(database: &TestDatabase) -> BTreeMap<String, i64> {
    let (mut connection, names) = tables(database).await;
    let mut counts = BTreeMap::new();
    for name in names {
        let mut sql = sqlx::QueryBuilder::<sqlx::Sqlite>::new("select count(*) from ");
        let count = sql.push(&name).build_query_scalar().fetch_one(&mut connection).await.expect("count");
        counts.insert(name, count);
    }
    connection.close().await.expect("closed");
    counts
}

/// Whether a column of any table is this text.
pub(super) async fn mention(database: &TestDatabase, text: &str) -> bool {
    let (mut connection, names) = tables(database).await;
    for name in names {
        let columns = sqlx::query_scalar("select name from pragma_table_info($1)").bind(&name);
        let columns: Vec<String> = columns.fetch_all(&mut connection).await.expect("columns");
        for column in columns {
            let mut sql = sqlx::QueryBuilder::<sqlx::Sqlite>::new("select count(*) from ");
            sql.push(&name).push(" where cast(").push(column).push(" as text) = ").push_bind(text.to_owned());
            let count: i64 = sql.build_query_scalar().fetch_one(&mut connection).await.expect("count");
            if count > 0 {
                return true;
            }
        }
    }
    false
}

#[tokio::test]
async fn a_file_belongs_to_one_chat() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Complete, "one").await;
    begin(&store, 2, TurnState::Complete, "two").await;
    let files = [attachment(1, None), attachment(2, None), attachment(11, None)];
    store.insert_attachments(files.to_vec()).await.unwrap();
    let [one, two, same] = files.map(|file| file.id);
    assert_eq!(store.attachment_bytes(&team().id).await.unwrap(), 200, "two have the same bytes");
    let attached = store.attach(chat_id(1), vec![two.clone(), one.clone()], team().id).await.unwrap();
    assert_eq!(attached.iter().map(|file| file.id.clone()).collect::<Vec<_>>(), [two.clone(), one.clone()]);
    assert!(attached.iter().all(|file| file.chat == Some(chat_id(1))));
    assert_eq!(store.attach(chat_id(1), vec![one.clone()], team().id).await.unwrap().len(), 1, "again");
    let refused = store.attach(chat_id(2), vec![same.clone(), one.clone()], team().id).await;
    assert!(matches!(refused, Err(Error::NoAttachment(id)) if id == one));
    assert_eq!(store.attachment(&same).await.unwrap().unwrap().chat, None, "all or none");
    assert!(store.attach(chat_id(1), vec![same.clone()], other_team()).await.is_err());
    let of_other = try_commit(&store, 2, vec![ChatChange::SetAttachment(attachment(1, Some(2)))]).await;
    assert!(matches!(of_other, Err(Error::NoAttachment(_))));

    let synced =
        AttachmentRow { status: SyncState::Synced, path: Some("user-uploads/1.txt".into()), ..attachment(1, Some(1)) };
    commit(&store, 1, vec![ChatChange::SetAttachment(synced.clone())]).await;
    assert_eq!(store.attachments_of(&chat_id(1)).await.unwrap(), [synced.clone(), attachment(2, Some(1))]);
    assert_eq!(store.attachments_by_id(&[one.clone(), attachment(99, None).id]).await.unwrap(), [synced]);
    assert!(!store.delete_attachment(one.clone()).await.unwrap(), "a chat has it");
    assert!(store.delete_attachment(same).await.unwrap());
    let blob = |n: u8| attachment(n, None).sha256;
    assert!(store.blob_is_used(&team().id, &blob(1)).await.unwrap());
    assert!(!store.blob_is_used(&other_team(), &blob(1)).await.unwrap());
    store.delete_chat(chat_id(1)).await.unwrap();
    assert!(!store.blob_is_used(&team().id, &blob(1)).await.unwrap());
    assert_eq!(store.attachment_bytes(&team().id).await.unwrap(), 0);
}

fn agent(n: u8, name: &str) -> AgentRow {
    AgentRow {
        id: AgentId::from_random([n; 20]),
        team: team().id,
        name: name.into(),
        description: "d".into(),
        kind: "loop".into(),
        model: None,
        system: "Be brief.".into(),
        tools: vec![ChatTool::Ask {}],
        limits: TurnLimits::default(),
        suggestions: vec!["Hi".into()],
        created_at: at(1),
        updated_at: at(1),
        created_by: None,
    }
}

#[tokio::test]
async fn names_of_agents_are_taken_once() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let [one, two] = [agent(1, "one"), agent(2, "two")];
    assert_eq!(store.insert_agent(two.clone()).await.unwrap(), AgentPut::Done);
    assert_eq!(store.insert_agent(one.clone()).await.unwrap(), AgentPut::Done);
    assert_eq!(store.insert_agent(agent(3, "one")).await.unwrap(), AgentPut::Taken);
    assert_eq!(store.set_agent(agent(2, "one")).await.unwrap(), AgentPut::Taken);
    assert_eq!(store.set_agent(agent(3, "three")).await.unwrap(), AgentPut::Absent);
    assert_eq!(store.agents(&team().id).await.unwrap(), [one.clone(), two]);
    let renamed = AgentRow { name: "zero".into(), model: Some("demo/demo".into()), ..one };
    assert_eq!(store.set_agent(renamed.clone()).await.unwrap(), AgentPut::Done);
    assert_eq!(store.agent_named(&team().id, "zero").await.unwrap(), Some(renamed.clone()));
    assert_eq!(store.agent_named(&other_team(), "zero").await.unwrap(), None);
    assert!(store.delete_agent(renamed.id.clone()).await.unwrap());
    assert!(!store.delete_agent(renamed.id.clone()).await.unwrap());
    assert_eq!(store.agent(&renamed.id).await.unwrap(), None);
}

#[tokio::test]
async fn a_provider_is_replaced_by_its_name() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let provider = ProviderRow {
        team: team().id,
        name: "local".into(),
        kind: "openai".into(),
        base_url: Some("http://example.com/v1".into()),
        key: Some(b"hunter2".to_vec()),
        models: vec!["llama".into()],
        created_at: at(1),
    };
    store.set_provider(provider.clone()).await.unwrap();
    assert_eq!(store.provider(&team().id, "local").await.unwrap(), Some(provider.clone()));
    assert!(!format!("{provider:?}").contains("104, 117"), "the key is not shown");
    let replaced = ProviderRow { key: None, kind: "anthropic".into(), ..provider };
    store.set_provider(replaced.clone()).await.unwrap();
    assert_eq!(store.providers(&team().id).await.unwrap(), [replaced]);
    assert!(store.providers(&other_team()).await.unwrap().is_empty());
    assert!(!store.delete_provider(other_team(), "local".into()).await.unwrap());
    assert!(store.delete_provider(team().id, "local".into()).await.unwrap());
}
