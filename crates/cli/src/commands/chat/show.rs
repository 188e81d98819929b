//! `cabana chat show`: prints a conversation.

use cabana_types::ChatId;
use cabana_types::chat::{MessageStatus, Part, Role};
use cabana_types::wire::{Chat, Message};
use serde_json::json;

use super::render::{Renderer, Style, one_line, text_of};
use super::{console_url, parse_chat};
use crate::commands::Context;
use crate::failure::Outcome;
use crate::output::clean;

const EXAMPLES: &str = "\
Examples:
  cabana chat show ID
  cabana chat show ID --json | jq '.messages[-1].content'

Prints what was said, and one line for each call of a tool.";

/// Print a conversation
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The chat
    #[arg(value_name = "ID", value_parser = parse_chat)]
    id: ChatId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, context: &Context) -> Outcome {
    let (client, out) = (context.client()?, &context.out);
    let chat = client.chat(&args.id).await?;
    let messages = client.all_chat_messages(&args.id).await?;
    if args.json {
        out.json(&json!({"chat": chat, "messages": messages}))?;
        return Ok(0);
    }
    let style = Style { colours: out.has_colours() && out.is_terminal(), ..Style::default() };
    let address = console_url(&client, &chat.id);
    out.raw(text(&chat, &messages, &address, &Renderer::new(style)).as_bytes())?;
    Ok(0)
}

pub(super) fn text(chat: &Chat, messages: &[Message], address: &str, renderer: &Renderer) -> String {
    let title = one_line(&chat.title);
    let mut text = format!("{title}\n{}  {}  {}\n{address}\n", chat.id, chat.status, one_line(&chat.model));
    for message in messages {
        text.push('\n');
        let said = text_of(message);
        match message.role {
            Role::User => {
                for line in clean(&said).lines() {
                    text.push_str(&format!("> {line}\n"));
                }
                for part in &message.content {
                    match part {
                        Part::File { name, .. } => text.push_str(&format!("> [file {}]\n", one_line(name))),
                        Part::Image { .. } => text.push_str("> [image]\n"),
                        Part::Screenshot { .. } => text.push_str("> [screenshot]\n"),
                        _ => {}
                    }
                }
            }
            Role::Assistant => {
                if !said.trim().is_empty() {
                    text.push_str(clean(&said).trim_end());
                    text.push('\n');
                }
                for call in &message.tool_calls {
                    text.push_str(&renderer.whole_call(call));
                    text.push('\n');
                }
                if message.status != MessageStatus::Complete {
                    text.push_str(&format!("({})\n", message.status));
                }
            }
        }
    }
    text
}
