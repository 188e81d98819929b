//! Questions of a chat to the person: whether a call may run, and what the model wants to know.

use cabana_client::{Client, Error};
use cabana_types::ErrorCode;
use cabana_types::chat::{ASK_USER, CallStatus};
use cabana_types::wire::{Approval, ApprovalDecision, Chat, ToolAnswer, ToolAnswers, ToolCall};
use serde_json::Value;

use super::keys::{self, Typed};
use super::render::one_line;
use crate::failure::Failure;
use crate::output::{Output, clean};
use crate::signals::Signals;

/// Exit code if somebody must answer and there is no terminal.
pub(super) const NEEDS_ANSWER: u8 = 3;
/// Characters of arguments that are shown.
const MAX_ARGUMENTS: usize = 2000;

/// Whether the turn goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Yes,
    /// The person wants it to stop.
    Stop,
}

/// Asks about a call and sends the answer.
pub(super) async fn answer(
    client: &Client,
    chat: &Chat,
    call: &ToolCall,
    out: &Output,
    signals: &mut Signals,
) -> Result<Answered, Failure> {
    if call.status == CallStatus::Approval {
        out.raw_stderr(&format!("{}\n", request(call)));
        loop {
            match keys::read_line("Allow it? [y/n/always] ", &[], false, signals).await? {
                Typed::Line(text) => match decision(&text) {
                    Some(approval) => return sent(client.approve_call(&chat.id, &call.id, &approval).await.map(drop)),
                    None => out.say("y: this time; always: this tool in this chat; n, or n and what to do instead: no"),
                },
                Typed::Interrupt | Typed::End => return Ok(Answered::Stop),
            }
        }
    }
    out.raw_stderr(&format!("{}\n", question(call)));
    loop {
        match keys::read_line("Your answer: ", &[], false, signals).await? {
            Typed::Line(text) if text.trim().is_empty() => {}
            Typed::Line(text) => {
                let output = chosen(&text, &options(call));
                return sent(client.answer_calls(&chat.id, &answers(call, output)).await.map(drop));
            }
            Typed::Interrupt | Typed::End => return Ok(Answered::Stop),
        }
    }
}

/// Allows a call without asking.
pub(super) async fn allow(client: &Client, chat: &Chat, call: &ToolCall) -> Result<Answered, Failure> {
    let approval = Approval { decision: ApprovalDecision::Allow, note: None };
    sent(client.approve_call(&chat.id, &call.id, &approval).await.map(drop))
}

/// Somebody else may have answered meanwhile.
fn sent(result: Result<(), Error>) -> Result<Answered, Failure> {
    match result {
        Err(Error::Api { code: Some(ErrorCode::CallNotWaiting), .. }) | Ok(()) => Ok(Answered::Yes),
        Err(error) => Err(error.into()),
    }
}

/// Why nothing more happens without a person.
pub(super) fn needed(client: &Client, chat: &Chat, call: Option<&ToolCall>) -> Failure {
    let (id, url) = (&chat.id, client.base_url());
    let what = match call {
        Some(call) if call.status == CallStatus::Approval => format!("must allow: {}", one_line(&call.title)),
        Some(call) if call.name == ASK_USER => format!("must answer: {}", one_line(&asked(call))),
        Some(call) => format!("must give the result of {}", one_line(&call.name)),
        None => "must do something".to_owned(),
    };
    let mut hint = format!("answer on a terminal with `cabana chat --chat {id}`, or at {url}/console/chats/{id}");
    match call {
        Some(call) if call.status == CallStatus::Approval => {
            hint.push_str(&format!(
                ";\nor POST {{\"decision\":\"allow\"}} to {url}/chats/{id}/approvals/{}; --approve auto allows everything",
                call.id
            ));
        }
        Some(call) => hint.push_str(&format!(
            ";\nor POST {{\"results\":[{{\"toolCallId\":\"{}\",\"output\":\"…\"}}]}} to {url}/chats/{id}/tool-results",
            call.id
        )),
        None => {}
    }
    Failure::user_error(format!("the chat waits: a person {what}")).hint(hint).code(NEEDS_ANSWER)
}

/// What a call that needs approval would do.
fn request(call: &ToolCall) -> String {
    let mut text = format!("? {}", one_line(if call.title.is_empty() { &call.name } else { &call.title }));
    if let Some(why) = call.why.as_deref().filter(|why| !why.is_empty()) {
        text.push_str(&format!(" ({})", one_line(why)));
    }
    // Titles are short; what is allowed must be seen in full.
    let whole = match call.arguments.get("command").and_then(Value::as_str) {
        Some(command) => command.to_owned(),
        None => call.arguments.to_string(),
    };
    let shown: String = clean(&whole).chars().take(MAX_ARGUMENTS).collect();
    for line in shown.lines() {
        text.push_str(&format!("\n    {line}"));
    }
    if whole.chars().count() > MAX_ARGUMENTS {
        text.push_str(&format!("\n    … and {} characters more", whole.chars().count() - MAX_ARGUMENTS));
    }
    text
}

/// What the model asks.
fn asked(call: &ToolCall) -> String {
    match call.arguments.get("question").and_then(Value::as_str) {
        Some(question) => question.to_owned(),
        None => call.arguments.to_string(),
    }
}

fn question(call: &ToolCall) -> String {
    let mut text = if call.name == ASK_USER {
        format!("? {}", clean(&asked(call)))
    } else {
        format!("? The result of {} {}", one_line(&call.name), one_line(&call.arguments.to_string()))
    };
    for (number, option) in (1..).zip(options(call)) {
        text.push_str(&format!("\n    {number}  {}", one_line(&option)));
    }
    text
}

/// Answers that the model proposes.
fn options(call: &ToolCall) -> Vec<String> {
    let list = call.arguments.get("options").and_then(Value::as_array);
    let text =
        |option: &Value| option.as_str().or_else(|| option.get("label").and_then(Value::as_str)).map(str::to_owned);
    list.map(|list| list.iter().filter_map(text).collect()).unwrap_or_default()
}

/// The answer: a number stands for an option.
fn chosen(text: &str, options: &[String]) -> String {
    let number = text.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.and_then(|index| options.get(index)).map_or_else(|| text.to_owned(), Clone::clone)
}

/// Yes, no (with what to do instead) or always.
fn decision(text: &str) -> Option<Approval> {
    let text = text.trim();
    let (word, note) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let note = Some(note.trim().to_owned()).filter(|note| !note.is_empty());
    let decision = match word.to_ascii_lowercase().trim_end_matches([',', ':']) {
        "y" | "yes" | "allow" if note.is_none() => ApprovalDecision::Allow,
        "a" | "always" if note.is_none() => ApprovalDecision::Always,
        "n" | "no" | "deny" => ApprovalDecision::Deny,
        _ => return None,
    };
    Some(Approval { decision, note })
}

fn answers(call: &ToolCall, output: String) -> ToolAnswers {
    ToolAnswers { results: vec![ToolAnswer { tool_call_id: call.id.clone(), output, is_error: false }] }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(name: &str, status: &str, arguments: Value) -> ToolCall {
        serde_json::from_value(json!({
            "id": format!("call_{}", "a".repeat(20)), "messageId": format!("msg_{}", "a".repeat(20)), "name": name,
            "title": "Run \u{1b}[2J", "arguments": arguments, "sandboxId": null, "status": status, "why": "it\nasks",
            "error": null, "durationMs": null,
        }))
        .expect("call")
    }

    #[test]
    fn decisions() {
        for (text, expected) in [
            ("y", Some((ApprovalDecision::Allow, None))),
            (" YES ", Some((ApprovalDecision::Allow, None))),
            ("always", Some((ApprovalDecision::Always, None))),
            ("n", Some((ApprovalDecision::Deny, None))),
            ("no, use pnpm", Some((ApprovalDecision::Deny, Some("use pnpm")))),
            ("", None),
            ("yes but", None),
            ("maybe", None),
        ] {
            let got = decision(text).map(|approval| (approval.decision, approval.note));
            assert_eq!(got, expected.map(|(decision, note)| (decision, note.map(str::to_owned))), "{text}");
        }
    }

    #[test]
    fn what_is_asked_is_shown_in_full_and_neutralised() {
        let text = request(&call("sandbox_run_command", "approval", json!({"command": "rm -rf \u{1b}[8m/\nls"})));
        assert_eq!(text, "? Run \u{fffd}[2J (it asks)\n    rm -rf \u{fffd}[8m/\n    ls");
        let long = request(&call("x", "approval", json!({"command": "a".repeat(2100)})));
        assert!(long.ends_with("\n    … and 100 characters more"));
        let asked =
            call(ASK_USER, "client", json!({"question": "Which\u{202e}?", "options": ["A", {"label": "B"}, 3]}));
        assert_eq!(question(&asked), "? Which\u{fffd}?\n    1  A\n    2  B");
        assert_eq!(chosen("2", &options(&asked)), "B");
        assert_eq!(chosen("3", &options(&asked)), "3");
        assert_eq!(chosen("both", &options(&asked)), "both");
        let function = call("get_weather", "client", json!({"city": "Rome"}));
        assert_eq!(question(&function), "? The result of get_weather {\"city\":\"Rome\"}");
    }
}
