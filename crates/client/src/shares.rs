//! Links by which anyone can read a chat.

use cabana_types::wire::{ChatShare, NewChatShare};
use cabana_types::{ChatId, GrantId};
use http::Method;

use crate::api::{Client, to_json};
use crate::error::Result;

impl Client {
    /// Makes a link to a chat.
    pub async fn share_chat(&self, chat: &ChatId, new: &NewChatShare) -> Result<ChatShare> {
        let action = "share the chat";
        let body = to_json(action, new)?;
        self.call(action, self.request(Method::POST, &format!("/chats/{chat}/shares"), Some(body))?).await
    }

    /// The links to a chat, newest first.
    pub async fn chat_shares(&self, chat: &ChatId) -> Result<Vec<ChatShare>> {
        self.fetch("list the links to the chat", &format!("/chats/{chat}/shares")).await
    }

    /// Revokes a link to a chat.
    pub async fn unshare_chat(&self, chat: &ChatId, share: &GrantId) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/chats/{chat}/shares/{share}"), None)?;
        self.call_empty("revoke the link", request).await
    }
}
