//! Requests of chats that are repeated.

use cabana_store::{ChatChange, ChatCommit, ChatCommitted, ChatRequest};
use cabana_types::turn::TurnState;
use jiff::{Timestamp, ToSpan};

use super::{chat, chat_id, message, turn, turn_id};
use crate::{TestDatabase, other_team, team};

pub(super) fn request(key: &str, digest: u8) -> ChatRequest {
    ChatRequest {
        key: key.into(),
        digest: [digest; 32],
        turn: Some(turn_id(1)),
        expires_at: Timestamp::now() + 24.hours(),
    }
}

/// A new chat.
fn new(n: u8, request: ChatRequest) -> ChatCommit {
    let changes = vec![
        ChatChange::InsertChat(chat(n)),
        ChatChange::InsertTurn(turn(n, n, TurnState::Queued)),
        ChatChange::InsertMessage(message(n, n, n, "hello")),
    ];
    ChatCommit { team: team().id, chat: chat_id(n), changes, events: vec![], request: Some(request) }
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    assert_eq!(store.commit_chat(new(1, request("a", 1))).await.unwrap(), ChatCommitted::Done);
    let earlier = ChatCommitted::Earlier { chat: chat_id(1), turn: Some(turn_id(1)) };
    assert_eq!(store.commit_chat(new(2, request("a", 1))).await.unwrap(), earlier);
    assert_eq!(store.commit_chat(new(2, request("a", 2))).await.unwrap(), ChatCommitted::Mismatch);
    assert_eq!(store.chat(&chat_id(2)).await.unwrap(), None, "nothing was written");
    assert_eq!(store.commit_chat(new(2, request("b", 1))).await.unwrap(), ChatCommitted::Done);
    // Keys are a team's own.
    let other = ChatCommit { team: other_team(), changes: vec![], chat: chat_id(2), ..new(2, request("a", 2)) };
    assert_eq!(store.commit_chat(other).await.unwrap(), ChatCommitted::Done);
}

#[tokio::test]
async fn an_expired_request_is_forgotten() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let old = ChatRequest { expires_at: Timestamp::now() - 1.second(), ..request("a", 1) };
    assert_eq!(store.commit_chat(new(1, old)).await.unwrap(), ChatCommitted::Done);
    assert_eq!(store.commit_chat(new(2, request("a", 2))).await.unwrap(), ChatCommitted::Done);
    assert_eq!(
        store.commit_chat(new(3, request("a", 1))).await.unwrap(),
        ChatCommitted::Mismatch,
        "the newer one counts"
    );
    assert_eq!(store.remove_expired_chat_requests(Timestamp::now()).await.unwrap(), 0);
    assert_eq!(store.remove_expired_chat_requests(Timestamp::now() + 25.hours()).await.unwrap(), 1);
    assert_eq!(store.commit_chat(new(3, request("a", 1))).await.unwrap(), ChatCommitted::Done);
}

#[tokio::test]
async fn a_request_that_failed_can_be_repeated() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let mut failing = new(1, request("a", 1));
    failing.changes.push(ChatChange::RemoveTurn(turn_id(9)));
    assert!(store.commit_chat(failing).await.is_err());
    assert_eq!(store.chat(&chat_id(1)).await.unwrap(), None);
    assert_eq!(store.commit_chat(new(1, request("a", 1))).await.unwrap(), ChatCommitted::Done);
    store.delete_chat(chat_id(1)).await.unwrap();
    assert_eq!(store.commit_chat(new(1, request("a", 1))).await.unwrap(), ChatCommitted::Done, "its chat is gone");
}
