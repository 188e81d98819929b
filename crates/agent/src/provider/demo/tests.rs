//! Every script to its end, with a sandbox that is a folder; what does not fit a script; and what is never said.

use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::model::{Said, ToolDefinition};
use crate::tools;
use cabana_types::tool::ToolImage;

fn request(parts: Vec<UserPart>) -> ModelRequest {
    let tool = |tool: &&dyn tools::Tool| ToolDefinition {
        name: tool.spec().name.into(),
        description: tool.spec().description.into(),
        schema: tool.spec().schema(),
    };
    ModelRequest {
        tools: tools::all().iter().map(tool).collect(),
        messages: vec![ModelMessage::User(parts)],
        ..ModelRequest::default()
    }
}

fn asked(text: &str) -> ModelRequest {
    request(vec![UserPart::Text(text.into())])
}

/// Carries out a call in a folder, as far as the scripts need it.
fn carry_out(folder: &std::path::Path, call: &ModelCall) -> CallResult {
    let tool = tools::find(&call.name).unwrap();
    let arguments = crate::call::check(tool, &serde_json::from_str(&call.arguments).unwrap()).expect("arguments fit");
    let text = |name: &str| arguments[name].as_str().unwrap_or("").to_owned();
    let (mut output, mut is_error) = (String::new(), false);
    match call.name.as_str() {
        "sandbox_write_file" => {
            let path = folder.join(text("path"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text("content")).unwrap();
        }
        "sandbox_read_file" => output = std::fs::read_to_string(folder.join(text("path"))).unwrap(),
        "sandbox_find_replace" => {
            let path = folder.join(text("path"));
            let old = std::fs::read_to_string(&path).unwrap();
            assert_eq!(old.matches(&text("find")).count(), 1);
            std::fs::write(path, old.replace(&text("find"), &text("replace"))).unwrap();
        }
        "sandbox_run_command" => {
            let cwd = folder.join(text("cwd"));
            let done = Command::new("bash").args(["-c", &text("command")]).current_dir(cwd).output().unwrap();
            output = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
            is_error = !done.status.success();
        }
        "sandbox_find_files" if folder.join("user-uploads/a.csv").exists() => output = "user-uploads/a.csv".into(),
        "sandbox_find_files" => output = "[nothing found]".into(),
        "sandbox_grep_files" | "sandbox_list_directory" | "sandbox_start_service" => output = "listed".into(),
        other => panic!("{other} is not expected"),
    }
    CallResult { id: call.id.clone(), name: call.name.clone(), output, is_error, images: Vec::new() }
}

/// All steps of a script: their calls, and the last answer.
fn play(suggestion: &str, folder: &std::path::Path) -> (Vec<Vec<CallResult>>, Answer) {
    let mut request = asked(suggestion);
    let mut all = Vec::new();
    for _ in 0..10 {
        let answer = answer(&request, next(&request));
        if answer.calls.is_empty() {
            return (all, answer);
        }
        assert_eq!(answer.stop, StopReason::Tools);
        let results: Vec<CallResult> = answer.calls.iter().map(|call| carry_out(folder, call)).collect();
        all.push(results.clone());
        request.messages.push(ModelMessage::Assistant(Said { text: answer.text, calls: answer.calls, raw: None }));
        request.messages.push(ModelMessage::Results(results));
    }
    panic!("{suggestion} goes on for ever");
}

#[test]
fn every_suggestion_is_played_to_its_end() {
    assert_eq!(SUGGESTIONS.len(), scripts::ALL.len());
    for (index, suggestion) in SUGGESTIONS.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let (steps, end) = play(suggestion, folder.path());
        assert!(
            steps.len() >= 2 && end.text.contains("a script, not an AI") && end.text.contains("Settings → Models"),
            "{suggestion}"
        );
        assert!(!end.text.contains("did not work"), "{suggestion}: {steps:#?}");
        let failed: Vec<bool> = steps.iter().map(|results| results.iter().any(|result| result.is_error)).collect();
        match index {
            // There are no uploads: an example is made.
            1 => {
                assert_eq!(failed, [false, false, false]);
                assert!(end.text.contains("- visitors: from 95 to 330, average 214.17"), "{}", end.text);
                assert!(folder.path().join("artifacts/csv-report.md").exists());
            }
            2 => assert_eq!(failed, [false, true, false, false, false]),
            3 => assert!(end.text.matches("fib(25) = 75025").count() == 3 && steps[1].len() == 4, "{}", end.text),
            5 => assert!(failed[0] && steps[0][0].output.contains("FileNotFoundError")),
            _ => assert!(failed.iter().all(|failed| !failed), "{suggestion}"),
        }
    }
}

#[test]
fn uploads_are_analysed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("user-uploads")).unwrap();
    std::fs::write(folder.path().join("user-uploads/a.csv"), "\u{feff}name;size\n```x;1\ny;3\n").unwrap();
    let (_, end) = play(SUGGESTIONS[1], folder.path());
    assert!(end.text.contains("- size: from 1 to 3, average 2.00"), "{}", end.text);
    assert!(end.text.contains("user-uploads/a.csv: 2 rows"), "{}", end.text);
}

#[test]
fn failures_and_missing_tools_are_said() {
    let mut request = asked(SUGGESTIONS[0]);
    request.tools.retain(|tool| tool.name != "sandbox_start_service");
    assert!(next(&request).text.contains("`sandbox_start_service`, which this chat does not have"));
    let mut request = asked(SUGGESTIONS[0]);
    let first = answer(&request, next(&request));
    let result = CallResult {
        id: first.calls[0].id.clone(),
        name: first.calls[0].name.clone(),
        output: "disk full".into(),
        is_error: true,
        images: Vec::new(),
    };
    request.messages.push(ModelMessage::Assistant(Said { text: first.text, calls: first.calls, raw: None }));
    request.messages.push(ModelMessage::Results(vec![result]));
    let end = next(&request);
    assert!(end.calls.is_empty() && end.text.contains("did not work"));
    // The person says something else: the script has ended.
    request.messages.push(ModelMessage::User(vec![UserPart::Text("why?".into())]));
    assert!(next(&request).text.contains("I am the demo model"));
    assert!(next(&ModelRequest::default()).text.contains("I am the demo model"));
}

#[test]
fn pictures_and_files_are_acknowledged() {
    let image = UserPart::Image(ToolImage { media_type: "image/png".into(), data: String::new() });
    assert!(next(&request(vec![image.clone()])).text.starts_with("Your picture has arrived"));
    assert!(next(&request(vec![image.clone(), image])).text.starts_with("Your 2 pictures"));
    assert!(next(&asked("see user-uploads/a.txt")).text.starts_with("Your files have arrived"));
    assert!(
        next(&asked(&format!("  {} please", SUGGESTIONS[4].to_uppercase()))).text.starts_with("I make a small project")
    );
}

#[tokio::test(start_paused = true)]
async fn it_writes_like_a_model() {
    let (sender, mut receiver) = mpsc::channel(1000);
    let begin = tokio::time::Instant::now();
    let answer = Demo::default().call(&asked(SUGGESTIONS[1]), &sender).await.unwrap();
    drop(sender);
    let (mut text, mut reasoning, mut count) = (String::new(), String::new(), 0);
    while let Some(piece) = receiver.recv().await {
        count += 1;
        match piece {
            Piece::Text(more) => text.push_str(&more),
            Piece::Reasoning(more) => reasoning.push_str(&more),
        }
    }
    assert_eq!((&text, &reasoning), (&answer.text, &answer.reasoning));
    assert!(count > 10 && begin.elapsed() >= DELAY * count && !reasoning.is_empty());
    assert!(answer.tokens.input > 500 && answer.tokens.output > 20, "{:?}", answer.tokens);
}

proptest! {
    #[test]
    fn what_was_typed_is_not_repeated(text in "[a-z<>`\\[\\]()!]{12,40}") {
        prop_assert!(!next(&asked(&text)).text.contains(&text));
    }
}

#[test]
fn output_cannot_end_its_block() {
    assert_eq!(words::block("a\n```\n<b>\u{1b}[0m"), "```text\na\n\n<b>[0m\n```");
    assert!(words::block(&"x".repeat(5000)).len() < 1600);
}
