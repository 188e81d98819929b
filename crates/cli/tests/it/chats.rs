//! Chats, agents, models and providers.

use std::io::Write;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::fake::Fake;
use crate::fake_chats::{AGENT, chat_id};
use crate::terminals::Terminal;
use crate::{against, client, report, stderr, stdout, with_input};

fn sent(fake: &Fake) -> (String, Value) {
    fake.world.chats.sent.lock().expect("lock").pop().expect("a request")
}

#[test]
fn a_question_is_answered() {
    let fake = Fake::start();
    insta::assert_snapshot!("chat", report(&against(&fake, &["chat", "hello", "there", "--model", "demo/demo"])));
    assert_eq!(sent(&fake), ("chats".into(), json!({"prompt": "hello there", "model": "demo/demo"})));
    let quiet = with_input(&fake, &["chat", "--quiet"], b"hello from a pipe\n");
    assert_eq!((stdout(&quiet).as_str(), stderr(&quiet).as_str()), ("Hello world \u{fffd}[2J.\n", ""));
    assert_eq!(sent(&fake).1, json!({"prompt": "hello from a pipe\n"}));

    let output = stdout(&against(&fake, &["chat", "hello", "--json"]));
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("json")).collect();
    assert_eq!(lines.len(), 8, "{output}");
    assert_eq!((&lines[1]["type"], &lines[1]["id"]), (&json!("message.delta"), &json!(102)));
    assert!(!output.contains('\u{1b}'));

    let failed = against(&fake, &["chat", "fail"]);
    insta::assert_snapshot!("chat-failed", report(&failed));
    insta::assert_snapshot!("chat-no-model", report(&against(&fake, &["chat", "nomodel"])));
    insta::assert_snapshot!("chat-no-message", report(&against(&fake, &["chat"])));
}

#[test]
fn nothing_is_doubled_after_a_lost_connection() {
    let fake = Fake::start();
    let whole = against(&fake, &["chat", "hello"]);
    let cut = against(&fake, &["chat", "cut"]);
    assert_eq!(stdout(&cut), stdout(&whole));
    assert_eq!(stderr(&cut).replace(&chat_id("cut"), ""), stderr(&whole).replace(&chat_id("hello"), ""));
    let read: Vec<u64> = fake.world.chats.read.lock().expect("lock").iter().map(|(_, last)| *last).collect();
    assert_eq!(read, [0, 0, 103]);
}

#[test]
fn a_chat_goes_on() {
    let fake = Fake::start();
    let id = chat_id("hello");
    let dir = tempfile::tempdir().expect("directory");
    let file = dir.path().join("a.txt");
    std::fs::write(&file, "some data").expect("write");
    let args = ["chat", "--chat", &id, "--approve", "ask", "--file", file.to_str().expect("text"), "more"];
    let output = against(&fake, &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (_, body) = sent(&fake);
    assert_eq!(body["attachments"], json!(["att_0123456789abcdefghij"]));
    assert_eq!(body["tools"][0]["approve"]["sandbox_run_command"], "ask");
    assert_eq!(sent(&fake), ("upload".into(), json!(true)));
    assert_eq!(fake.world.chats.read.lock().expect("lock").pop(), Some((id, 100)), "from before the message on");

    let output = against(&fake, &["chat", "hello", "--agent", "reviewer", "--no-sandbox"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(sent(&fake).1, json!({"prompt": "hello", "agentId": AGENT, "tools": []}));
    let unknown = against(&fake, &["chat", "hello", "--agent", "nobody"]);
    assert!(stderr(&unknown).contains("there is no agent nobody"));
}

#[test]
fn without_a_terminal_somebody_else_must_answer() {
    let fake = Fake::start();
    let hide = |text: String| text.replace(&fake.url, "URL");
    insta::assert_snapshot!("chat-needs-approval", hide(report(&against(&fake, &["chat", "approve"]))));
    insta::assert_snapshot!("chat-needs-answer", hide(report(&against(&fake, &["chat", "question"]))));
    let allowed = against(&fake, &["chat", "approve", "--approve", "auto"]);
    assert_eq!((stdout(&allowed).as_str(), allowed.status.code()), ("Thanks.\n", Some(0)), "{}", stderr(&allowed));
    assert_eq!(sent(&fake), ("approval".into(), json!({"decision": "allow"})));
}

#[test]
fn a_terminal_is_asked() {
    let fake = Fake::start();
    let mut terminal = Terminal::open(&fake, &["chat", "approve"]);
    terminal.expect("rm -rf x");
    terminal.expect("Allow it? [y/n/always]");
    terminal.ours.write_all(b"what\r").expect("type");
    terminal.expect("y: this time");
    terminal.ours.write_all(b"no, use trash\r").expect("type");
    terminal.expect("Thanks.");
    assert_eq!(terminal.ended(), Some(0));
    assert_eq!(sent(&fake).1, json!({"decision": "deny", "note": "use trash"}));

    let mut terminal = Terminal::open(&fake, &["chat", "question"]);
    terminal.expect("2  B");
    terminal.expect("Your answer:");
    terminal.ours.write_all(b"2\r").expect("type");
    terminal.expect("Thanks.");
    assert_eq!(terminal.ended(), Some(0));
    assert_eq!(sent(&fake).1["results"][0]["output"], "B");
}

#[test]
fn a_conversation() {
    let fake = Fake::start();
    let mut terminal = Terminal::open(&fake, &["chat"]);
    terminal.expect("> ");
    terminal.ours.write_all(b"helo\x1b[Dl\r").expect("type");
    terminal.expect("> hello");
    terminal.expect("Hello world");
    terminal.expect("    cc -o x");
    terminal.expect("> ");
    terminal.ours.write_all(b"/model\r").expect("type");
    terminal.expect("* demo/demo");
    terminal.ours.write_all(b"/open\r").expect("type");
    terminal.expect(&format!("/console/chats/{}", chat_id("hello")));
    // The line before the last one, once more.
    terminal.ours.write_all(b"\x1b[A\x1b[A\x1b[A\r").expect("type");
    terminal.expect("Hello world");
    terminal.expect("> ");
    terminal.ours.write_all(b"\x04").expect("type");
    terminal.expect("go on with");
    assert_eq!(terminal.ended(), Some(0));
    let (path, body) = sent(&fake);
    assert_eq!((path.as_str(), &body["prompt"]), ("messages", &json!("hello")));

    // A chat that waits is gone on with.
    let mut terminal = Terminal::open(&fake, &["chat", "--chat", &chat_id("approve")]);
    terminal.expect("Allow it?");
    terminal.ours.write_all(b"always\r").expect("type");
    terminal.expect("Thanks.");
    terminal.expect("> ");
    terminal.ours.write_all(b"\x03").expect("type");
    assert_eq!(terminal.ended(), Some(0));
}

#[test]
fn an_interrupt_stops_the_turn() {
    let fake = Fake::start();
    let mut terminal = Terminal::open(&fake, &["chat", "hang"]);
    terminal.expect("I am");
    // It is not the child's controlling terminal, so Ctrl-C would send no signal.
    kill_process(terminal.pid(), Signal::INT).expect("signal");
    terminal.expect("the turn was stopped");
    assert_eq!(terminal.ended(), Some(130));
    let turn = chat_id("hang").replace("chat_", "turn_");
    assert_eq!(sent(&fake), ("cancel".into(), json!({"turnId": turn})));
}

#[test]
fn lists_and_removal() {
    let fake = Fake::start();
    insta::assert_snapshot!(
        "chats",
        report(&against(&fake, &["chat", "ls", "--status", "waiting", "--search", "100 %"]))
    );
    let (_, query) = sent(&fake);
    assert_eq!((&query["q"], &query["status"], &query["cursor"]), (&json!("100 %"), &json!("waiting"), &json!("2")));
    let rows: Vec<Value> =
        serde_json::from_slice(&against(&fake, &["chats", "list", "--limit", "1", "--json"]).stdout).expect("json");
    assert_eq!(rows.len(), 1);
    let id = chat_id("hello");
    let shown = report(&against(&fake, &["chat", "show", &id])).replace(&fake.url, "URL");
    insta::assert_snapshot!("chat-show", shown);
    let json: Value = serde_json::from_slice(&against(&fake, &["chat", "show", &id, "--json"]).stdout).expect("json");
    assert_eq!(json["messages"][1]["toolCalls"][0]["title"], "Run make");
    insta::assert_snapshot!("chat-unknown", report(&against(&fake, &["chat", "show", &chat_id("0")])));

    insta::assert_snapshot!("chat-rm-without-yes", report(&against(&fake, &["chat", "rm", &id])));
    let removed = against(&fake, &["chat", "rm", &chat_id("0"), &id, "--keep-sandbox", "-y"]);
    assert_eq!((stdout(&removed), removed.status.code()), (format!("{id}\n"), Some(1)), "goes on after an error");
    assert_eq!(sent(&fake).1["query"]["keepSandbox"], "true");
    assert_eq!(stdout(&against(&fake, &["chat", "stop", &chat_id("hang")])), format!("{}\n", chat_id("hang")));
    assert_eq!(against(&fake, &["chat", "stop", &id]).status.code(), Some(1), "nothing runs");
    assert_eq!(against(&fake, &["chat", "show", "x"]).status.code(), Some(1));
}

#[test]
fn agents_models_and_providers() {
    let fake = Fake::start();
    let all = [&["agent", "ls"][..], &["models", "ls"], &["provider", "list"]];
    let all: String = all.iter().map(|args| report(&against(&fake, args))).collect();
    insta::assert_snapshot!("agents-models-providers", all);

    let args = ["agent", "create", "reviewer", "--system", "Be brief.", "--template", "web", "--suggestion", "Look"];
    assert_eq!(stdout(&against(&fake, &args)), format!("{AGENT}\n"));
    insta::assert_json_snapshot!("agent-request", sent(&fake).1);
    let removed = against(&fake, &["agent", "rm", "nobody", "reviewer", AGENT]);
    assert_eq!((stdout(&removed), removed.status.code()), (format!("reviewer\n{AGENT}\n"), Some(1)));

    let add = ["provider", "add", "local", "--kind", "openai", "--url", "http://x/v1", "--model", "a", "--model", "b"];
    let added = with_input(&fake, &add, b"hunter2\n");
    assert_eq!((stdout(&added).as_str(), added.status.code()), ("local\n", Some(0)), "{}", stderr(&added));
    let expected =
        json!({"name": "local", "kind": "openai", "baseUrl": "http://x/v1", "key": "hunter2", "models": ["a", "b"]});
    assert_eq!(sent(&fake).1, expected);
    let by_variable = client(&fake, &add).env("CABANA_PROVIDER_KEY", "sesame").output().expect("run");
    assert_eq!((by_variable.status.code(), &sent(&fake).1["key"]), (Some(0), &json!("sesame")));
    assert_eq!(with_input(&fake, &add, b"two words").status.code(), Some(1));
    assert_eq!(with_input(&fake, &add, b"").status.code(), Some(0), "some need no key");
    assert_eq!(sent(&fake).1.get("key"), None);
    let mut terminal = Terminal::open(&fake, &add);
    terminal.expect("Key (it is not shown):");
    terminal.ours.write_all(b"typed-key\r").expect("type");
    terminal.expect("local");
    assert_eq!(terminal.ended(), Some(0));
    assert_eq!(sent(&fake).1["key"], "typed-key");
    let removed = against(&fake, &["provider", "rm", "nope", "local"]);
    assert_eq!((stdout(&removed).as_str(), removed.status.code()), ("local\n", Some(1)));
}
