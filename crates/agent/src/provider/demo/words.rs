//! What the demo model says at the end. It never repeats what a person typed.

use super::{SUGGESTIONS, Step};
use crate::model::UserPart;

/// Stands under every answer.
const NOTE: &str = "---\n*This is the demo model: a script, not an AI. To talk with a real model, add a key in the console under \
                    **Settings → Models**, or start the server with `CABANA_MODELS_ANTHROPIC_KEY`.*";
/// Characters of a tool's output that an answer shows.
const MAX_SHOWN: usize = 1500;

/// A last answer.
pub(super) fn end(text: &str) -> Step {
    Step::say(format!("{text}\n\n{NOTE}"))
}

/// A last answer after a step that did not do what it should.
pub(super) fn failed() -> Step {
    end(
        "The last step did not work in this sandbox; its result above says why. A real model would look into it and try another way. \
         The script ends here.",
    )
}

/// A tool that the script needs is not there.
pub(super) fn missing(tool: &str) -> Step {
    end(&format!(
        "This example needs the tool `{tool}`, which this chat does not have. Start a chat with the sandbox switched on, and with \
         services for examples that start a server."
    ))
}

/// The answer to what is in no script.
pub(super) fn other(parts: &[UserPart]) -> Step {
    let images = parts.iter().filter(|part| matches!(part, UserPart::Image(_))).count();
    let files = parts.iter().any(|part| matches!(part, UserPart::Text(text) if text.contains("user-uploads/")));
    let mut text = String::new();
    match images {
        0 => {}
        1 => text.push_str("Your picture has arrived, but I cannot look at it. "),
        _ => text.push_str(&format!("Your {images} pictures have arrived, but I cannot look at them. ")),
    }
    if files {
        text.push_str("Your files have arrived: they are in `user-uploads/` of the sandbox. ");
    }
    text.push_str(
        "I am the demo model. I do not understand what you write; I only know these examples, which use a real sandbox with real \
         tools:\n\n",
    );
    for suggestion in SUGGESTIONS {
        text.push_str(&format!("- {suggestion}\n"));
    }
    end(text.trim_end())
}

/// Output of a tool as a block of Markdown that it cannot end.
pub(super) fn block(output: &str) -> String {
    let clean = |c: &char| *c == '\n' || (!c.is_control() && *c != '`');
    let shown: String = output.trim().chars().filter(clean).take(MAX_SHOWN).collect();
    format!("```text\n{}\n```", shown.trim_end())
}
