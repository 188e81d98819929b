//! Calls of agent tools: once for each key, and a bounded number for each team.

use cabana_store::ToolCall;
use cabana_types::{CallId, TeamId};

use crate::{TestDatabase, at, other_team, sandbox_id, team};

fn call(n: u8, team: TeamId, key: Option<&str>) -> ToolCall {
    ToolCall {
        id: CallId::from_random([n; 20]),
        team,
        sandbox: sandbox_id(1),
        tool: "sandbox_read_file".into(),
        key: key.map(str::to_owned),
        digest: [n; 32],
        result: None,
        created_at: at(i64::from(n)),
        expires_at: at(i64::from(n) + 1000),
    }
}

#[tokio::test]
async fn a_key_stands_for_its_first_call_until_it_expires() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let first = call(1, team().id, Some("k"));
    assert_eq!(store.begin_tool_call(first.clone(), 10).await.unwrap(), None);
    assert_eq!(store.begin_tool_call(call(2, team().id, Some("k")), 10).await.unwrap(), Some(first));
    assert_eq!(store.begin_tool_call(call(3, other_team(), Some("k")), 10).await.unwrap(), None);
    let late = ToolCall { created_at: at(2000), expires_at: at(3000), ..call(4, team().id, Some("k")) };
    assert_eq!(store.begin_tool_call(late, 10).await.unwrap(), None);
    assert_eq!(store.remove_expired_tool_calls(at(2500)).await.unwrap(), 1);
}

#[tokio::test]
async fn only_the_newest_ended_calls_of_a_team_are_kept() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let id = |n: u8| CallId::from_random([n; 20]);
    for n in 1..=6 {
        store.begin_tool_call(call(n, team().id, None), 3).await.unwrap();
        // The first one still runs.
        if n > 1 {
            store.end_tool_call(id(n), "{}".into(), at(2000)).await.unwrap();
        }
    }
    store.begin_tool_call(call(7, other_team(), None), 3).await.unwrap();
    store.begin_tool_call(call(8, team().id, None), 3).await.unwrap();
    let mut kept = Vec::new();
    for n in 1..=8 {
        if store.tool_call(&id(n)).await.unwrap().is_some() {
            kept.push(n);
        }
    }
    assert_eq!(kept, [1, 4, 5, 6, 7, 8]);
}
