//! Titles for people: of calls and of chats. Both are made from what models and people write, which may be anything.

use cabana_types::chat::ASK_USER;
use serde_json::Value;

use crate::text::one_line;
use crate::{patch, tools};

/// Characters of the title of a call.
pub const MAX_CALL_TITLE: usize = 80;
/// Characters of the title of a chat that is made from its first message.
pub const MAX_CHAT_TITLE: usize = 60;
/// Characters that are looked at: the rest of a long message is not worth the time.
const LOOKED_AT: usize = 4096;

/// What a call does, in one line for people: `Run npm test`.
pub fn call_title(tool: &str, arguments: &Value) -> String {
    let text =
        |name: &str| arguments.get(name).and_then(Value::as_str).map(beginning).filter(|text| !text.trim().is_empty());
    let with = |verb: &str, name: &str| text(name).map(|text| format!("{verb} {text}"));
    let title = match tool {
        "sandbox_run_command" => text("command").map(|command| format!("Run {}", first_line(command))),
        "sandbox_write_file" => with("Write", "path"),
        "sandbox_read_file" => with("Read", "path"),
        "sandbox_list_directory" => Some(format!("List {}", text("path").unwrap_or("."))),
        "sandbox_grep_files" => with("Search for", "pattern"),
        "sandbox_find_files" => with("Find", "query"),
        "sandbox_apply_patch" => arguments.get("patch").and_then(Value::as_str).and_then(patch_title),
        "sandbox_find_replace" => with("Edit", "path"),
        "sandbox_delete_file" => with("Delete", "path"),
        "sandbox_download_url" => with("Link to", "path"),
        "sandbox_start_service" => Some(format!("Start service {}", text("name").unwrap_or("web"))),
        "sandbox_service" => {
            let verb = match text("action") {
                Some("restart") => "Restart service",
                Some("stop") => "Stop service",
                Some("logs") => "Logs of service",
                _ => "Look at service",
            };
            with(verb, "name")
        }
        "sandbox_command" => {
            let verb = match text("action") {
                Some("stop") => "Stop command",
                Some("wait") => "Wait for command",
                _ => "Look at command",
            };
            with(verb, "command_id")
        }
        ASK_USER => with("Ask:", "question"),
        _ => None,
    };
    let title = title.unwrap_or_else(|| match tools::find(tool) {
        Some(known) => known.spec().title.to_owned(),
        None => beginning(tool).to_owned(),
    });
    match one_line(&title, MAX_CALL_TITLE) {
        empty if empty.is_empty() => "Call a tool".into(),
        title => title,
    }
}

fn beginning(text: &str) -> &str {
    crate::text::head(text, LOOKED_AT)
}

/// The first line that is not blank, with a mark if there are more.
fn first_line(command: &str) -> String {
    let mut lines = command.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    if lines.next().is_some() { format!("{} …", crate::text::head(first, 200)) } else { first.to_owned() }
}

fn patch_title(text: &str) -> Option<String> {
    let patch = patch::Patch::parse(text).ok()?;
    match patch.paths().as_slice() {
        [] => None,
        [path] => Some(format!("Apply a patch to {path}")),
        paths => Some(format!("Apply a patch to {} files", paths.len())),
    }
}

/// A title for a chat: the first words of its first message, without the marks of Markdown.
pub fn chat_title(text: &str) -> String {
    let line = beginning(text).lines().map(plain).find(|line| line.chars().any(char::is_alphanumeric));
    let line = one_line(&line.unwrap_or_default(), LOOKED_AT);
    if line.is_empty() {
        return "New chat".into();
    }
    if line.chars().count() <= MAX_CHAT_TITLE {
        return line;
    }
    let cut: String = line.chars().take(MAX_CHAT_TITLE - 1).collect();
    // Between words, unless there is one very long word.
    let end = cut.rfind(' ').filter(|at| *at > cut.len() / 2).unwrap_or(cut.len());
    format!("{}…", cut.get(..end).unwrap_or(&cut).trim_end_matches(|c: char| c.is_whitespace() || ",;:.–-".contains(c)))
}

/// A line of Markdown without its marks. A link keeps its text.
fn plain(line: &str) -> String {
    let line = line.trim().trim_start_matches(['#', '>', '-', '*', '+', ' ']);
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '`' | '*' | '~' => {}
            '!' if rest.starts_with('[') => {}
            '[' => {
                if let Some((label, after)) = rest.split_once("](")
                    && !label.contains(']')
                    && let Some((_, after)) = after.split_once(')')
                {
                    plain.push_str(label);
                    rest = after;
                } else {
                    plain.push(c);
                }
            }
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_have_titles() {
        let patch = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n";
        for (tool, arguments, title) in [
            ("sandbox_run_command", json!({"command": "npm test"}), "Run npm test"),
            ("sandbox_run_command", json!({"command": "\n cd app\nnpm test\n"}), "Run cd app …"),
            ("sandbox_write_file", json!({"path": "app.py", "content": "x"}), "Write app.py"),
            ("sandbox_read_file", json!({"path": "src/a.rs"}), "Read src/a.rs"),
            ("sandbox_list_directory", json!({}), "List ."),
            ("sandbox_list_directory", json!({"path": "src"}), "List src"),
            ("sandbox_grep_files", json!({"pattern": "foo"}), "Search for foo"),
            ("sandbox_find_files", json!({"query": "app"}), "Find app"),
            ("sandbox_apply_patch", json!({"patch": patch}), "Apply a patch to 2 files"),
            (
                "sandbox_apply_patch",
                json!({"patch": "*** Begin Patch\n*** Add File: new\n+x\n*** End Patch"}),
                "Apply a patch to new",
            ),
            ("sandbox_apply_patch", json!({"patch": "nonsense"}), "Apply a patch"),
            ("sandbox_find_replace", json!({"path": "app.py"}), "Edit app.py"),
            ("sandbox_delete_file", json!({"path": "x"}), "Delete x"),
            ("sandbox_download_url", json!({"path": "report.pdf"}), "Link to report.pdf"),
            ("sandbox_start_service", json!({"command": "x"}), "Start service web"),
            ("sandbox_service", json!({"name": "web", "action": "restart"}), "Restart service web"),
            ("sandbox_command", json!({"command_id": "call_1", "action": "stop"}), "Stop command call_1"),
            ("ask_user", json!({"question": "Which\ncolour?"}), "Ask: Which colour?"),
            ("sandbox_read_file", json!("{oh"), "Read a file"),
            ("sandbox_read_file", json!({"path": 1}), "Read a file"),
            ("sandbox_create", json!({}), "Create a sandbox"),
            ("get_weather", json!({}), "get_weather"),
            ("\u{202e}\n", json!({}), "Call a tool"),
            ("sandbox_read_file", json!({"path": "a\u{202e}b\u{7}\u{200b}c"}), "Read ab c"),
        ] {
            assert_eq!(call_title(tool, &arguments), title, "{tool} {arguments}");
        }
    }

    #[test]
    fn chats_have_titles() {
        for (text, title) in [
            ("", "New chat"),
            (" \n*** \n", "New chat"),
            ("Hello", "Hello"),
            ("\n## **Make** a `page`\nwith a counter", "Make a page"),
            ("see [the docs](https://example.com/x) and ![x](y)", "see the docs and x"),
            ("[a] (b)", "[a] (b)"),
            (
                "Write a program that counts the words of every file in a folder, then sorts them",
                "Write a program that counts the words of every file in a…",
            ),
            ("\u{202e}abc\u{0}def", "abc def"),
        ] {
            assert_eq!(chat_title(text), title, "{text:?}");
        }
        assert_eq!(chat_title(&"x".repeat(100)).chars().count(), MAX_CHAT_TITLE);
    }

    proptest! {
        #[test]
        fn titles_are_one_short_line(text in any::<String>(), pick in 0..30usize) {
            let name = tools::all().get(pick).map_or(text.as_str(), |tool| tool.spec().name);
            let arguments = json!({"path": text, "command": text, "patch": text, "pattern": text, "query": text, "name": text});
            let title = call_title(name, &arguments);
            prop_assert!(!title.is_empty() && title.chars().count() <= MAX_CALL_TITLE);
            prop_assert!(!title.contains(char::is_control));
            let title = chat_title(&text);
            prop_assert!(!title.is_empty() && title.chars().count() <= MAX_CHAT_TITLE);
            prop_assert!(!title.contains(char::is_control));
        }
    }
}
