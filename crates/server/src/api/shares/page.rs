//! The page of a shared chat: HTML without a script, made of what its messages say. All of it is untrusted.

use std::collections::HashMap;
use std::fmt::Write;

use cabana_store::{AttachmentRow, CallRow, ChatShareRow, MessageRow};
use cabana_types::AttachmentId;
use cabana_types::chat::{AttachmentKind, CallStatus, Part, Role};
use cabana_types::wire::{ChatExposure, ExposedIn};
use jiff::Timestamp;

use super::keys::Keys;
use super::markdown;
use super::scrub::Scrub;
use crate::api::content::SHOWN;

/// Messages that are shown: the last ones.
pub(super) const MAX_MESSAGES: usize = 500;
/// Characters of one text, and of the output of a tool.
const MAX_TEXT: usize = 200_000;
const MAX_OUTPUT: usize = 20_000;
/// Bytes after which a page goes on no more.
const MAX_PAGE: usize = 4 << 20;
const MAX_ARTIFACTS: usize = 200;
/// Seconds after which the page of a live share is loaded again.
const RELOAD: u32 = 15;

const STYLE: &str = ":root{color-scheme:light dark;--text:#23201b;--line:#ddd8cf;--dim:#6b665d;--ground:#f6f3ee;--link:#0b5f73}\
@media(prefers-color-scheme:dark){:root{--text:#ece7de;--line:#3b3832;--dim:#a49e92;--ground:#22201d;--link:#7cc4d6}\
body{background:#191715}}\
*{box-sizing:border-box}body{margin:0;color:var(--text);font:15px/24px system-ui,sans-serif}\
main{max-width:46rem;margin:0 auto;padding:32px 20px 64px}header{border-bottom:1px solid var(--line);padding-bottom:16px}\
h1{font-size:20px;line-height:28px;margin:0;overflow-wrap:anywhere}.dim{color:var(--dim);font-size:13px;margin:4px 0}\
article{padding:16px 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere;unicode-bidi:isolate}\
h2{font-size:13px;line-height:20px;color:var(--dim);margin:0 0 4px;font-weight:600}\
.text :is(h1,h2,h3,h4){font-size:16px;line-height:24px;margin:16px 0 4px;color:inherit}\
.plain{white-space:pre-wrap;margin:0}pre{font:12px/18px ui-monospace,monospace;background:var(--ground);border:1px solid var(--line);\
border-radius:6px;padding:12px;overflow:auto;max-height:28rem}code{font-family:ui-monospace,monospace;font-size:.92em}\
table{border-collapse:collapse;display:block;overflow:auto}td,th{border:1px solid var(--line);padding:4px 8px;text-align:left}\
img{max-width:100%;height:auto;border:1px solid var(--line);border-radius:6px}figure{margin:8px 0}a{color:var(--link)}\
.call{color:var(--dim);font-size:13px;margin:6px 0}summary{cursor:pointer}ul.files{list-style:none;padding:0;margin:8px 0}";

/// What a page is made of.
pub(super) struct Content<'c> {
    pub(super) share: &'c ChatShareRow,
    pub(super) title: String,
    pub(super) messages: Vec<MessageRow>,
    pub(super) more: bool,
    pub(super) calls: Vec<CallRow>,
    pub(super) files: HashMap<AttachmentId, AttachmentRow>,
    pub(super) scrub: Scrub,
}

impl Content<'_> {
    /// The page.
    pub(super) fn html(&self) -> String {
        let title = escape(&self.scrub.text(&self.title));
        let refresh = match self.share.until {
            None => format!("<meta http-equiv=\"refresh\" content=\"{RELOAD}\">"),
            Some(_) => String::new(),
        };
        let moment = match self.share.until {
            None => "Shared live: later messages are shown too.".to_owned(),
            Some(_) => format!("Shared on {}.", time(self.share.created_at)),
        };
        let mut html = format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"robots\" content=\"noindex, nofollow\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">{refresh}<title>{title}</title>\
             <style>{STYLE}</style></head><body><main><header><h1>{title}</h1>\
             <p class=\"dim\">A chat with a model, shared by its owner. {moment}</p></header>"
        );
        if self.more {
            html.push_str("<p class=\"dim\">Older messages are not shown.</p>");
        }
        for message in &self.messages {
            if html.len() > MAX_PAGE {
                html.push_str("<p class=\"dim\">The rest is too long to be shown.</p>");
                break;
            }
            self.message(message, &mut html);
        }
        if self.messages.is_empty() {
            html.push_str("<p class=\"dim\">There is no message yet.</p>");
        }
        let mut artifacts = self.artifacts().peekable();
        if artifacts.peek().is_some() {
            html.push_str("<section><h2>Artifacts</h2><ul class=\"files\">");
            for file in artifacts {
                html.push_str("<li>");
                self.picture(file, &mut html);
                html.push_str("</li>");
            }
            html.push_str("</ul></section>");
        }
        html.push_str("</main></body></html>");
        html
    }

    fn message(&self, message: &MessageRow, html: &mut String) {
        let who = match message.role {
            Role::User => "Person".to_owned(),
            _ => message.model.as_deref().map_or_else(|| "Model".to_owned(), |model| escape(&self.scrub.text(model))),
        };
        let mut body = String::new();
        for part in &message.content {
            self.part(message, part, &mut body);
        }
        if !body.is_empty() {
            let _ = write!(html, "<article><h2>{who}</h2>{body}</article>");
        }
    }

    fn part(&self, message: &MessageRow, part: &Part, html: &mut String) {
        match part {
            Part::Text { text } => {
                let text = self.scrub.text(&cut(text, MAX_TEXT));
                let _ = match message.role {
                    Role::User => write!(html, "<p class=\"plain\">{}</p>", escape(&text)),
                    _ => write!(html, "<div class=\"text\">{}</div>", markdown::html(&text)),
                };
            }
            // What a model thinks is for those who work with it.
            Part::Reasoning { .. } => {}
            Part::Image { attachment_id } | Part::Screenshot { attachment_id, .. } => {
                match self.files.get(attachment_id) {
                    Some(file) => self.picture(file, html),
                    None => html.push_str("<p class=\"dim\">A picture that is gone.</p>"),
                }
            }
            Part::File { name, .. } => {
                let _ = write!(html, "<p class=\"dim\">File: {}</p>", escape(&self.scrub.text(name)));
            }
            Part::ToolCall { tool_call_id, .. } => {
                if let Some(call) = self.calls.iter().find(|call| call.id == *tool_call_id) {
                    self.call(call, html);
                }
            }
        }
    }

    fn call(&self, call: &CallRow, html: &mut String) {
        let title = escape(&self.scrub.text(&cut(&call.title, 300)));
        // Of a snapshot, what came later is left out.
        let known = call.ended_at.is_some_and(|at| self.is_known(at));
        let word = match call.status {
            CallStatus::Success if known => "Done",
            CallStatus::Error if known => "Failed",
            _ => "Asked for",
        };
        let result = call.result.as_ref().filter(|_| known);
        if self.share.tool_details {
            let arguments = serde_json::to_string_pretty(&call.arguments).unwrap_or_default();
            let arguments = escape(&self.scrub.text(&cut(&arguments, MAX_OUTPUT)));
            let output =
                result.map(|result| escape(&self.scrub.text(&cut(&result.output, MAX_OUTPUT)))).unwrap_or_default();
            let _ = write!(
                html,
                "<details class=\"call\"><summary>{word}: {title}</summary><pre>{arguments}</pre><pre>{output}</pre></details>"
            );
        } else {
            let _ = write!(html, "<p class=\"call\">{word}: {title}</p>");
        }
    }

    /// A picture in its place, or a link that downloads the copy.
    fn picture(&self, file: &AttachmentRow, html: &mut String) {
        let (key, name) = (key(self.share, &file.id), escape(&self.scrub.text(&file.name)));
        let _ = if SHOWN.contains(&file.media_type.as_str()) {
            write!(html, "<figure><img src=\"/files/{key}\" alt=\"{name}\" loading=\"lazy\"></figure>")
        } else {
            write!(html, "<a href=\"/files/{key}\" download>{name}</a> <span class=\"dim\">{} bytes</span>", file.size)
        };
    }

    /// The file that the page names by a key.
    pub(super) fn file(&self, named: &str) -> Option<&AttachmentRow> {
        self.given().find(|file| key(self.share, &file.id) == named)
    }

    /// What the page shows, in numbers and names, and what of it looks like a key.
    pub(super) fn exposure(&self) -> ChatExposure {
        let mut found = Keys::default();
        found.look(&self.title, ExposedIn::Title);
        for part in self.messages.iter().flat_map(|message| &message.content) {
            if let Part::Text { text } = part {
                found.look(text, ExposedIn::Message);
            }
        }
        for call in &self.calls {
            found.look(&call.title, ExposedIn::Tool);
            if self.share.tool_details {
                found.look(&call.arguments.to_string(), ExposedIn::Tool);
                found.look(call.result.as_ref().map_or("", |result| &result.output), ExposedIn::Tool);
            }
        }
        let artifacts: Vec<_> = self.artifacts().map(|file| file.name.clone()).collect();
        ChatExposure {
            messages: self.messages.len(),
            pictures: self.given().count() - artifacts.len(),
            tool_calls: self.calls.len(),
            artifacts,
            key_like: found.found,
        }
    }

    /// All files that the page shows.
    fn given(&self) -> impl Iterator<Item = &AttachmentRow> {
        let pictures = self.messages.iter().flat_map(|message| &message.content).filter_map(|part| match part {
            Part::Image { attachment_id } | Part::Screenshot { attachment_id, .. } => self.files.get(attachment_id),
            _ => None,
        });
        pictures.chain(self.artifacts())
    }

    /// What the model made. What people uploaded is named, and pictures are shown in the messages that have them.
    fn artifacts(&self) -> impl Iterator<Item = &AttachmentRow> {
        let mut made: Vec<_> = self
            .files
            .values()
            .filter(|file| file.kind == AttachmentKind::Artifact && self.is_known(file.created_at))
            .collect();
        made.sort_by(|a, b| a.created_at.cmp(&b.created_at).then_with(|| a.name.cmp(&b.name)));
        made.into_iter().take(MAX_ARTIFACTS)
    }

    /// Whether it was there at the shared moment.
    fn is_known(&self, at: Timestamp) -> bool {
        self.share.until.is_none() || at <= self.share.created_at
    }
}

/// The name of a file on the page: its id is not told.
fn key(share: &ChatShareRow, id: &AttachmentId) -> String {
    use sha2::{Digest, Sha256};
    let digest = Sha256::new().chain_update(share.hash).chain_update(id.as_str()).finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn time(at: Timestamp) -> String {
    at.strftime("%-d %B %Y, %H:%M UTC").to_string()
}

fn cut(text: &str, most: usize) -> String {
    let kept: String = text.chars().take(most).collect();
    if kept.len() < text.len() { format!("{kept}…") } else { kept }
}

pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}
