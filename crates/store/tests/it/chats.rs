//! Chats: what is written together, where messages stand, and what stays after a chat was deleted.

mod files;
mod lists;
mod requests;

use cabana_store::{
    AttachmentRow, CallRow, ChatChange, ChatCommit, ChatCommitted, ChatRow, ChatSandboxRow, CheckpointRow, Error,
    EventRow, MessageRow, Store, Summary, TurnRow,
};
use cabana_types::chat::{
    AttachmentKind, CallStatus, ChatStatus, ChatTool, MessageStatus, Part, Role, SandboxRole, StopReason, SyncState,
    TurnLimits, Usage,
};
use cabana_types::turn::TurnState;
use cabana_types::{AttachmentId, CallId, ChatId, MessageId, ProjectId, TemplateId, TurnId, UserId};
use serde_json::json;

use crate::{TestDatabase, at, key_id, sandbox_id, team};

fn chat_id(n: u8) -> ChatId {
    ChatId::from_random([n; 20])
}

fn turn_id(n: u8) -> TurnId {
    TurnId::from_random([n; 20])
}

fn message_id(n: u8) -> MessageId {
    MessageId::from_random([n; 20])
}

fn chat(n: u8) -> ChatRow {
    ChatRow {
        id: chat_id(n),
        team: team().id,
        project: ProjectId::default_of(&team().id),
        title: format!("Chat {n}"),
        titled: false,
        agent: None,
        model: "demo/demo".into(),
        tools: Some(vec![ChatTool::Services {}]),
        metadata: json!({"n": n}).as_object().expect("object").clone(),
        parent: Some(chat_id(200)),
        usage: Usage { input_tokens: 1, cached_tokens: 2, output_tokens: 3, cost_micros: Some(4) },
        context_tokens: 10,
        context_window: 200_000,
        always: vec!["sandbox_run_command".into()],
        summary: Some(Summary { until: 1_000_001, text: "what was said".into() }),
        created_at: at(i64::from(n)),
        updated_at: at(i64::from(n)),
        created_by: Some(key_id(1).into()),
    }
}

/// A turn that begins with the message of the same number.
fn turn(n: u8, chat: u8, state: TurnState) -> TurnRow {
    TurnRow {
        id: turn_id(n),
        chat: chat_id(chat),
        seq: 0,
        message: message_id(n),
        state,
        reason: None,
        cancel: false,
        model: "demo/demo".into(),
        tools: None,
        limits: TurnLimits::default(),
        steps: 0,
        interruptions: 0,
        usage: Usage::default(),
        busy_ms: 0,
        prompt: format!("turn {n}"),
        created_at: at(i64::from(n)),
        started_at: None,
        ended_at: None,
    }
}

fn message(n: u8, turn: u8, chat: u8, text: &str) -> MessageRow {
    MessageRow {
        id: message_id(n),
        chat: chat_id(chat),
        turn: turn_id(turn),
        position: 0,
        role: Role::User,
        author: Some(UserId::from_random([1; 20])),
        status: MessageStatus::Complete,
        content: vec![Part::Text { text: text.into() }],
        stop: Some(StopReason::End),
        usage: Some(Usage::default()),
        model: Some("demo/demo".into()),
        raw: Some(json!([{"signature": "x"}])),
        created_at: at(i64::from(n)),
    }
}

fn call(n: u8, message: u8, turn: u8, chat: u8) -> CallRow {
    CallRow {
        id: CallId::from_random([n; 20]),
        chat: chat_id(chat),
        turn: turn_id(turn),
        message: message_id(message),
        number: u32::from(n),
        provider_id: format!("toolu_{n}"),
        name: "sandbox_run_command".into(),
        title: "Run ls".into(),
        arguments: json!({"command": "ls"}),
        sandbox: Some(sandbox_id(1)),
        status: CallStatus::Pending,
        why: None,
        note: None,
        result: None,
        attachments: vec![],
        started_at: None,
        ended_at: None,
    }
}

fn event(id: u64, second: i64) -> EventRow {
    EventRow { id, turn: Some(turn_id(1)), kind: "turn.started".into(), data: "{}".into(), at: at(second) }
}

fn attachment(n: u8, chat: Option<u8>) -> AttachmentRow {
    AttachmentRow {
        id: AttachmentId::from_random([n; 20]),
        team: team().id,
        chat: chat.map(chat_id),
        kind: AttachmentKind::Upload,
        name: format!("{n}.txt"),
        media_type: "text/plain".into(),
        size: 100,
        sha256: format!("{:064}", n % 10),
        status: SyncState::Pending,
        path: None,
        error: None,
        created_at: at(1),
        created_by: Some(UserId::from_random([1; 20]).into()),
    }
}

async fn try_commit(store: &Store, chat: u8, changes: Vec<ChatChange>) -> Result<ChatCommitted, Error> {
    let commit = ChatCommit { team: team().id, chat: chat_id(chat), changes, events: vec![], request: None };
    store.commit_chat(commit).await
}

async fn commit(store: &Store, chat: u8, changes: Vec<ChatChange>) {
    assert_eq!(try_commit(store, chat, changes).await.expect("written"), ChatCommitted::Done);
}

/// A chat whose first turn is in this state.
async fn begin(store: &Store, n: u8, state: TurnState, text: &str) {
    let changes = vec![
        ChatChange::InsertChat(chat(n)),
        ChatChange::InsertTurn(turn(n, n, state)),
        ChatChange::InsertMessage(message(n, n, n, text)),
    ];
    commit(store, n, changes).await;
}

fn ids(messages: &[MessageRow]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id.clone()).collect()
}

#[tokio::test]
async fn rows_are_read_as_they_were_written() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Running, "hello").await;
    assert_eq!(store.chat(&chat_id(1)).await.unwrap().unwrap(), chat(1));
    let written = TurnRow { seq: 1, ..turn(1, 1, TurnState::Running) };
    assert_eq!(store.turn(&turn_id(1)).await.unwrap().unwrap(), written);
    let written = MessageRow { position: 1_000_000, ..message(1, 1, 1, "hello") };
    assert_eq!(store.message(&message_id(1)).await.unwrap().unwrap(), written);
    let result = json!({"callId": CallId::from_random([1; 20]), "tool": "t", "status": "success", "output": "o", "error": null,
        "truncated": false, "durationMs": 5});
    let mut done = call(1, 1, 1, 1);
    commit(&store, 1, vec![ChatChange::InsertCall(call(2, 1, 1, 1)), ChatChange::InsertCall(done.clone())]).await;
    done.status = CallStatus::Success;
    done.result = Some(serde_json::from_value(result).unwrap());
    done.attachments = vec![attachment(1, None).id];
    done.started_at = Some(at(1));
    commit(&store, 1, vec![ChatChange::SetCall(done.clone())]).await;
    assert_eq!(store.chat_call(&done.id).await.unwrap().unwrap(), done);
    let both = vec![done, call(2, 1, 1, 1)];
    assert_eq!(store.calls_of(&[message_id(1), message_id(9)]).await.unwrap(), both);
    assert_eq!(store.calls_of_turn(&turn_id(1)).await.unwrap(), both);
}

#[tokio::test]
async fn messages_of_a_queued_turn_come_after_the_running_one() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Running, "first").await;
    let second = vec![
        ChatChange::InsertTurn(turn(2, 1, TurnState::Queued)),
        ChatChange::InsertMessage(message(2, 2, 1, "second")),
    ];
    commit(&store, 1, second).await;
    commit(&store, 1, vec![ChatChange::InsertMessage(message(3, 1, 1, "answer"))]).await;
    let shown = store.conversation(&chat_id(1), 0).await.unwrap();
    assert_eq!(ids(&shown), [message_id(1), message_id(3)], "the second one is not part of it yet");
    assert_eq!(shown.iter().map(|message| message.position).collect::<Vec<_>>(), [1_000_000, 1_000_001]);
    assert!(store.message(&message_id(2)).await.unwrap().is_some());
    assert_eq!(store.running_turns(&team().id).await.unwrap(), 1);
    let open: Vec<_> = store.open_turns_of(&chat_id(1)).await.unwrap().into_iter().map(|turn| turn.seq).collect();
    assert_eq!(open, [1, 2]);

    let ended = TurnRow { ended_at: Some(at(9)), ..turn(1, 1, TurnState::Complete) };
    let next = vec![ChatChange::SetTurn(ended), ChatChange::SetTurn(turn(2, 1, TurnState::Running))];
    commit(&store, 1, next).await;
    let all = [message_id(1), message_id(3), message_id(2)];
    assert_eq!(ids(&store.conversation(&chat_id(1), 0).await.unwrap()), all);
    assert_eq!(ids(&store.conversation(&chat_id(1), 1_000_000).await.unwrap()), all[1..]);
    let (page, more) = store.messages(&chat_id(1), None, 2).await.unwrap();
    assert_eq!((ids(&page), more), (all[1..].to_vec(), true));
    let (page, more) = store.messages(&chat_id(1), Some(&message_id(3)), 2).await.unwrap();
    assert_eq!((ids(&page), more), (all[..1].to_vec(), false));
    assert_eq!(store.open_turns().await.unwrap().len(), 1);
    assert_eq!(store.turn(&turn_id(1)).await.unwrap().unwrap().seq, 1, "its number stays");
}

#[tokio::test]
async fn a_cancel_is_never_lost() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Running, "go").await;
    commit(&store, 1, vec![ChatChange::SetTurn(TurnRow { cancel: true, ..turn(1, 1, TurnState::Running) })]).await;
    // The engine writes what it read before.
    commit(&store, 1, vec![ChatChange::SetTurn(TurnRow { steps: 7, ..turn(1, 1, TurnState::Running) })]).await;
    let row = store.turn(&turn_id(1)).await.unwrap().unwrap();
    assert!(row.cancel && row.steps == 7);
}

#[tokio::test]
async fn only_a_queued_turn_can_be_removed() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Running, "go").await;
    let second = vec![
        ChatChange::InsertTurn(turn(2, 1, TurnState::Queued)),
        ChatChange::InsertMessage(message(2, 2, 1, "second")),
    ];
    commit(&store, 1, second).await;
    let refused = try_commit(&store, 1, vec![ChatChange::RemoveTurn(turn_id(1))]).await;
    assert!(matches!(refused, Err(Error::NotQueued(id)) if id == turn_id(1)));
    let absent = try_commit(&store, 1, vec![ChatChange::RemoveTurn(turn_id(9))]).await;
    assert!(matches!(absent, Err(Error::NoTurn(_))));
    commit(&store, 1, vec![ChatChange::RemoveTurn(turn_id(2))]).await;
    assert_eq!(store.turn(&turn_id(2)).await.unwrap(), None);
    assert_eq!(store.message(&message_id(2)).await.unwrap(), None);
}

#[tokio::test]
async fn a_commit_is_written_as_a_whole_or_not_at_all() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Running, "go").await;
    begin(&store, 2, TurnState::Running, "go").await;
    // The second change is of another chat's turn.
    let changes = vec![
        ChatChange::SetTurn(TurnRow { steps: 3, ..turn(1, 1, TurnState::Running) }),
        ChatChange::SetTurn(turn(2, 1, TurnState::Complete)),
    ];
    assert!(matches!(try_commit(&store, 1, changes).await, Err(Error::NoTurn(id)) if id == turn_id(2)));
    assert_eq!(store.turn(&turn_id(1)).await.unwrap().unwrap().steps, 0);
    let absent = try_commit(&store, 3, vec![ChatChange::SetChat(chat(3))]).await;
    assert!(matches!(absent, Err(Error::NoChat(_))));
    let foreign = try_commit(&store, 1, vec![ChatChange::InsertMessage(message(9, 2, 1, "x"))]).await;
    assert!(matches!(foreign, Err(Error::NoTurn(_))));
    let foreign = try_commit(&store, 1, vec![ChatChange::SetMessage(message(2, 2, 1, "x"))]).await;
    assert!(matches!(foreign, Err(Error::NoMessage(_))));
    let foreign = try_commit(&store, 1, vec![ChatChange::SetCall(call(1, 1, 1, 1))]).await;
    assert!(matches!(foreign, Err(Error::NoCall(_))));
}

#[tokio::test]
async fn a_late_flush_does_not_change_a_message_that_is_whole() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Running, "go").await;
    let streaming = MessageRow { status: MessageStatus::Streaming, ..message(2, 1, 1, "") };
    commit(&store, 1, vec![ChatChange::InsertMessage(streaming)]).await;
    let text = |text: &str| vec![Part::Text { text: text.into() }];
    store.touch_message_content(message_id(2), text("so far")).await.unwrap();
    assert_eq!(store.message(&message_id(2)).await.unwrap().unwrap().content, text("so far"));
    commit(&store, 1, vec![ChatChange::SetMessage(message(2, 1, 1, "so far and on"))]).await;
    store.touch_message_content(message_id(2), text("so far")).await.unwrap();
    let row = store.message(&message_id(2)).await.unwrap().unwrap();
    assert_eq!((row.content, row.position), (text("so far and on"), 1_000_001));
}

#[tokio::test]
async fn messages_are_removed_from_a_position_on() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Complete, "first").await;
    let second = vec![
        ChatChange::InsertTurn(turn(2, 1, TurnState::Failed)),
        ChatChange::InsertMessage(message(2, 2, 1, "second")),
        ChatChange::InsertTurn(turn(3, 1, TurnState::Queued)),
        ChatChange::InsertMessage(message(3, 3, 1, "third")),
    ];
    commit(&store, 1, second).await;
    commit(&store, 1, vec![ChatChange::RemoveMessagesFrom { position: 2_000_000 }]).await;
    assert_eq!(ids(&store.conversation(&chat_id(1), 0).await.unwrap()), [message_id(1)]);
    assert_eq!(store.message(&message_id(2)).await.unwrap(), None);
    assert!(store.turn(&turn_id(2)).await.unwrap().is_some(), "the turn stays");
    assert!(store.message(&message_id(3)).await.unwrap().is_some(), "a queued turn is not part of the conversation");
    assert_eq!(store.chat_status(&chat_id(1)).await.unwrap(), ChatStatus::Running, "a turn is queued");
    assert!(store.chat(&chat_id(1)).await.unwrap().unwrap().summary.is_some(), "it stands for messages that are there");
    // What comes next does not take a removed message's place.
    commit(&store, 1, vec![ChatChange::InsertMessage(message(4, 2, 1, "again"))]).await;
    assert_eq!(store.message(&message_id(4)).await.unwrap().unwrap().position, 2_000_001);
    commit(&store, 1, vec![ChatChange::RemoveMessagesFrom { position: 1_000_001 }]).await;
    assert_eq!(store.chat(&chat_id(1)).await.unwrap().unwrap().summary, None);
}

#[tokio::test]
async fn nothing_is_left_of_a_deleted_chat() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    for n in [1, 2] {
        begin(&store, n, TurnState::Running, "go").await;
        let sandbox = |name: &str, sandbox| ChatSandboxRow {
            chat: chat_id(n),
            name: name.into(),
            role: SandboxRole::Code,
            sandbox: sandbox_id(sandbox),
            template: None,
            created_at: at(1),
        };
        let checkpoint = CheckpointRow {
            chat: chat_id(n),
            turn: turn_id(n),
            kind: "turn".into(),
            snapshot: TemplateId::from_random([n; 20]),
            position: 1_000_000,
            message: Some(message_id(n)),
            label: "go".into(),
            created_at: at(2),
        };
        let changes = vec![
            ChatChange::InsertCall(call(n, n, n, n)),
            ChatChange::SetSandbox(sandbox("main", 9)),
            ChatChange::SetSandbox(sandbox("main", n)),
            ChatChange::SetSandbox(sandbox("other", 10 + n)),
            ChatChange::SetSandbox(sandbox("gone", 20 + n)),
            ChatChange::RemoveSandbox { name: "gone".into() },
            ChatChange::InsertCheckpoint(checkpoint.clone()),
            ChatChange::SetAttachment(attachment(n, Some(n))),
        ];
        let commit = ChatCommit {
            team: team().id,
            chat: chat_id(n),
            changes,
            events: vec![event(1, 50)],
            request: Some(requests::request(&format!("key {n}"), 1)),
        };
        store.commit_chat(commit).await.unwrap();
        assert_eq!(store.checkpoint(&chat_id(n), &turn_id(n)).await.unwrap(), Some(checkpoint));
        assert_eq!(store.chat_of_sandbox(&sandbox_id(n)).await.unwrap(), Some(chat_id(n)));
    }
    assert_eq!(store.chat_of_sandbox(&sandbox_id(9)).await.unwrap(), None, "it was replaced");
    assert_eq!(store.delete_chat(chat_id(1)).await.unwrap(), [sandbox_id(1), sandbox_id(11)]);
    assert!(store.delete_chat(chat_id(1)).await.unwrap().is_empty());
    store.close().await;
    let tables = files::rows_by_table(&database).await;
    assert_eq!(tables.get("chats"), Some(&1));
    for table in ["turns", "messages", "chat_calls", "chat_events", "checkpoints", "chat_requests", "attachments"] {
        assert_eq!(tables.get(table), Some(&1), "only of the other chat: {table}");
    }
    assert_eq!(tables.get("chat_sandboxes"), Some(&2));
    assert!(!files::mention(&database, chat_id(1).as_str()).await, "no table has its id");
}

#[tokio::test]
async fn ids_of_events_are_reserved_once() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    begin(&store, 1, TurnState::Running, "go").await;
    assert_eq!(store.reserve_chat_events(&chat_id(1), 10_000).await.unwrap(), 1);
    assert_eq!(store.last_chat_event(&chat_id(1)).await.unwrap(), 0);
    let events = vec![event(3, 70), event(5, 60)];
    let commit = ChatCommit { team: team().id, chat: chat_id(1), changes: vec![], events, request: None };
    store.commit_chat(commit).await.unwrap();
    assert_eq!(store.chat(&chat_id(1)).await.unwrap().unwrap().updated_at, at(70));
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.reserve_chat_events(&chat_id(1), 10).await.unwrap(), 10_001);
    assert_eq!(store.reserve_chat_events(&chat_id(1), 10).await.unwrap(), 10_011);
    assert_eq!(store.last_chat_event(&chat_id(1)).await.unwrap(), 5);
    assert_eq!(store.chat_events(&chat_id(1), 3, 10).await.unwrap(), [event(5, 60)]);
    assert_eq!(store.chat_events(&chat_id(1), 0, 1).await.unwrap(), [event(3, 70)]);
    assert!(matches!(store.reserve_chat_events(&chat_id(9), 1).await, Err(Error::NoChat(_))));
}
