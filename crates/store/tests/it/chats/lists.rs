//! Lists of chats: order, pages, status and search.

use cabana_store::{ChatChange, ChatQuery, ChatRow, Store, TurnRow};
use cabana_types::chat::{ChatStatus, Part};
use cabana_types::turn::TurnState;

use super::{begin, chat, chat_id, commit, message, turn};
use crate::{TestDatabase, at, other_team, team};

fn query() -> ChatQuery {
    ChatQuery { team: team().id, projects: None, status: None, text: None, before: None, limit: 10 }
}

/// The numbers of the chats that are found.
async fn list(store: &Store, query: ChatQuery) -> Vec<u8> {
    let found = store.chats(&query).await.expect("listed");
    let number = |row: &ChatRow| (0..=255).find(|n| chat_id(*n) == row.id).expect("known");
    found.iter().map(|(row, _)| number(row)).collect()
}

async fn find(store: &Store, text: &str) -> Vec<u8> {
    list(store, ChatQuery { text: Some(text.into()), ..query() }).await
}

#[tokio::test]
async fn chats_are_listed_in_pages_by_their_last_change() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    for n in 1..=4 {
        begin(&store, n, TurnState::Complete, "text").await;
    }
    // Chats that changed at the same moment are told apart by their ids.
    commit(&store, 1, vec![ChatChange::SetChat(ChatRow { updated_at: at(3), ..chat(1) })]).await;
    assert_eq!(list(&store, query()).await, [4, 3, 1, 2]);
    let before = Some((at(3), chat_id(3)));
    assert_eq!(list(&store, ChatQuery { before, limit: 1, ..query() }).await, [1]);
    assert_eq!(list(&store, ChatQuery { team: other_team(), ..query() }).await, [0; 0]);
    commit(&store, 2, vec![ChatChange::SetChat(ChatRow { updated_at: at(1), ..chat(2) })]).await;
    assert_eq!(store.chat(&chat_id(2)).await.unwrap().unwrap().updated_at, at(2), "time does not go back");
}

#[tokio::test]
async fn a_status_follows_from_the_turns() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let states = [
        (TurnState::Queued, ChatStatus::Running),
        (TurnState::Running, ChatStatus::Running),
        (TurnState::Waiting, ChatStatus::Waiting),
        (TurnState::Complete, ChatStatus::Idle),
        (TurnState::Failed, ChatStatus::Failed),
        (TurnState::Cancelled, ChatStatus::Idle),
        (TurnState::Interrupted, ChatStatus::Failed),
    ];
    for (n, (state, status)) in (1..).zip(states) {
        begin(&store, n, state, "text").await;
        assert_eq!(store.chat_status(&chat_id(n)).await.unwrap(), status, "{state}");
    }
    assert_eq!(store.chat_status(&chat_id(99)).await.unwrap(), ChatStatus::Idle);
    let of = |status| ChatQuery { status: Some(status), ..query() };
    assert_eq!(list(&store, of(ChatStatus::Idle)).await, [6, 4]);
    assert_eq!(list(&store, of(ChatStatus::Failed)).await, [7, 5]);
    assert_eq!(list(&store, of(ChatStatus::Waiting)).await, [3]);
    let listed = store.chats(&of(ChatStatus::Running)).await.unwrap();
    assert_eq!(
        listed.iter().map(|(row, status)| (row.id.clone(), *status)).collect::<Vec<_>>(),
        [(chat_id(2), ChatStatus::Running), (chat_id(1), ChatStatus::Running)]
    );

    // A later turn counts: one that runs, then its end.
    let later = vec![
        ChatChange::InsertTurn(turn(50, 5, TurnState::Running)),
        ChatChange::InsertMessage(message(50, 50, 5, "again")),
    ];
    commit(&store, 5, later).await;
    assert_eq!(store.chat_status(&chat_id(5)).await.unwrap(), ChatStatus::Running);
    commit(&store, 5, vec![ChatChange::SetTurn(TurnRow { ..turn(50, 5, TurnState::Complete) })]).await;
    assert_eq!(store.chat_status(&chat_id(5)).await.unwrap(), ChatStatus::Idle);
    commit(&store, 7, vec![ChatChange::RemoveMessagesFrom { position: 1_000_000 }]).await;
    assert_eq!(store.chat_status(&chat_id(7)).await.unwrap(), ChatStatus::Idle, "its turn was taken back");
}

#[tokio::test]
async fn titles_and_texts_are_searched() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Complete, "costs 100% of a_b, said \"Über\"\nC:\\temp").await;
    begin(&store, 2, TurnState::Complete, "costs 100 euros, axb").await;
    let titled = ChatRow { title: "50% OFF".into(), ..chat(3) };
    let mut thought = message(3, 3, 3, "nothing");
    thought.content.push(Part::Reasoning { text: "secret thought".into() });
    let third = vec![
        ChatChange::InsertChat(titled),
        ChatChange::InsertTurn(turn(3, 3, TurnState::Complete)),
        ChatChange::InsertMessage(thought),
    ];
    commit(&store, 3, third).await;
    for (text, expected) in [
        ("costs", vec![2, 1]),
        ("100%", vec![1]),
        ("a_b", vec![1]),
        ("A_B", vec![1]),
        ("%", vec![3, 1]),
        ("_", vec![1]),
        ("\"über\"", vec![1]),
        ("\\temp", vec![1]),
        ("'", vec![]),
        ("50% off", vec![3]),
        // Words of the stored form are no text.
        ("type", vec![]),
        ("secret thought", vec![]),
        ("", vec![3, 2, 1]),
    ] {
        assert_eq!(find(&store, text).await, expected, "{text}");
    }
    commit(&store, 1, vec![ChatChange::RemoveMessagesFrom { position: 0 }]).await;
    assert_eq!(find(&store, "costs").await, [2], "what was taken back is not found");
}
