//! Begins a turn: in a new chat or in one that is there.

use std::path::PathBuf;

use cabana_client::{Client, Error};
use cabana_types::chat::{Approve, ChatTool};
use cabana_types::wire::{Agent, Chat, NewChat, NewMessage, StartedTurn, Turn};
use cabana_types::{AgentId, AttachmentId, ChatId};

use crate::failure::Failure;
use crate::local_files;
use crate::output::Output;

/// Tools that change something, or can.
const CHANGING: [&str; 6] = [
    "sandbox_run_command",
    "sandbox_write_file",
    "sandbox_delete_file",
    "sandbox_apply_patch",
    "sandbox_find_replace",
    "sandbox_download_url",
];
/// How often a request is sent again whose answer was lost.
const TRIES: u32 = 3;

/// What new messages are sent with.
#[derive(Debug, Default)]
pub(super) struct Settings {
    pub(super) chat: Option<ChatId>,
    pub(super) model: Option<String>,
    pub(super) agent: Option<Agent>,
    pub(super) no_sandbox: bool,
    pub(super) ask: bool,
    /// Sent with the next message.
    pub(super) files: Vec<PathBuf>,
}

/// A turn that has begun.
pub(super) struct Begun {
    pub(super) chat: Chat,
    pub(super) turn: Turn,
    /// Its events come after this one.
    pub(super) after: u64,
}

impl Settings {
    /// Sends a message.
    pub(super) async fn send(&mut self, client: &Client, prompt: &str, out: &Output) -> Result<Begun, Failure> {
        let attachments = upload(client, &self.files, out).await?;
        let key = format!("cli-{:032x}", rand::random::<u128>());
        let (started, after) = match &self.chat {
            None => {
                let new = NewChat {
                    prompt: Some(prompt.to_owned()),
                    agent_id: self.agent.as_ref().map(|agent| agent.id.clone()),
                    model: self.model.clone(),
                    tools: self.tools(self.agent.as_ref().map(|agent| agent.tools.as_slice())),
                    attachments,
                    ..NewChat::default()
                };
                // Whatever happens in a new chat belongs to its turn.
                (again(async || client.create_chat(&new, &key).await).await?, 0)
            }
            Some(id) => {
                // Read before the message is sent, so that nothing of the turn is missed.
                let chat = client.chat(id).await?;
                let new = NewMessage {
                    prompt: Some(prompt.to_owned()),
                    tools: self.tools(Some(&chat.tools)),
                    model: self.model.clone(),
                    attachments,
                    ..NewMessage::default()
                };
                (again(async || client.send_message(id, &new, &key).await).await?, chat.last_event_id)
            }
        };
        self.chat = Some(started.chat.id.clone());
        self.files.clear();
        let turn = started.turn.ok_or_else(|| Failure::user_error("the server has begun no turn"))?;
        Ok(Begun { chat: started.chat, turn, after })
    }

    /// The tools, if they differ from those that the chat has.
    fn tools(&self, base: Option<&[ChatTool]>) -> Option<Vec<ChatTool>> {
        if !self.no_sandbox && !self.ask {
            return None;
        }
        let mut tools = base.map_or_else(default_tools, <[ChatTool]>::to_vec);
        if self.no_sandbox {
            tools.retain(|tool| !matches!(tool, ChatTool::Sandbox { .. } | ChatTool::Services {}));
        }
        if self.ask {
            for tool in &mut tools {
                if let ChatTool::Sandbox { approve, .. } = tool {
                    approve.extend(CHANGING.map(|name| (name.to_owned(), Approve::Ask)));
                }
            }
        }
        Some(tools)
    }
}

pub(crate) fn default_tools() -> Vec<ChatTool> {
    let sandbox = ChatTool::Sandbox {
        template: None,
        cpu_count: None,
        memory_mb: None,
        names: vec![],
        allow: vec![],
        approve: Default::default(),
    };
    vec![sandbox, ChatTool::Services {}, ChatTool::Ask {}]
}

/// Finds an agent by its id or its name.
pub(crate) async fn find_agent(client: &Client, text: &str) -> Result<Agent, Failure> {
    if let Ok(id) = text.parse::<AgentId>() {
        return Ok(client.agent(&id).await?);
    }
    let agents = client.agents().await?;
    agents.into_iter().find(|agent| agent.name == text).ok_or_else(|| {
        Failure::user_error(format!("there is no agent {text}")).hint("`cabana agent ls` lists the agents")
    })
}

/// Repeats a request whose answer was lost; its key keeps it from being done twice.
async fn again(send: impl AsyncFn() -> Result<StartedTurn, Error>) -> Result<StartedTurn, Error> {
    let mut tries = 1;
    loop {
        match send().await {
            Err(Error::Connection { .. } | Error::TimedOut { .. }) if tries < TRIES => tries += 1,
            result => return result,
        }
    }
}

async fn upload(client: &Client, files: &[PathBuf], out: &Output) -> Result<Option<Vec<AttachmentId>>, Failure> {
    if files.is_empty() {
        return Ok(None);
    }
    let files = local_files::collect(files, out)?;
    if files.len() > local_files::MAX_FILES {
        let (most, count) = (local_files::MAX_FILES, files.len());
        return Err(Failure::user_error(format!("a message can have {most} files, not {count}")));
    }
    let bar = out.byte_bar(Some(local_files::total(&files)));
    let page = client.upload_attachments(local_files::opened(&files, &bar)).await;
    bar.finish_and_clear();
    Ok(Some(page?.attachments.into_iter().map(|attachment| attachment.id).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_sent_only_if_they_differ() {
        let mut settings = Settings::default();
        assert_eq!(settings.tools(None), None);
        settings.no_sandbox = true;
        assert_eq!(settings.tools(None), Some(vec![ChatTool::Ask {}]));
        assert_eq!(settings.tools(Some(&[])), Some(vec![]));
        settings = Settings { ask: true, ..Settings::default() };
        let tools = serde_json::to_value(settings.tools(None)).expect("json");
        assert_eq!(tools[0]["approve"]["sandbox_run_command"], "ask");
        assert_eq!(tools[0]["approve"].get("sandbox_read_file"), None, "what only reads runs");
    }
}
