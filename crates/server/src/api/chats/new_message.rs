//! A message as a client sends it.

use cabana_store::AttachmentRow;
use cabana_types::AttachmentId;
use cabana_types::chat::{MAX_ATTACHMENTS, MAX_PARTS, MAX_TEXT, Part};

use crate::error::ApiError;

/// A message that was checked.
pub(super) struct Checked {
    pub(super) content: Vec<Part>,
    pub(super) attachments: Vec<AttachmentId>,
    pub(super) text: String,
}

impl Checked {
    /// Writes the names of files into the parts that show them.
    pub(super) fn name_files(&mut self, files: &[AttachmentRow]) {
        for part in &mut self.content {
            let Part::File { attachment_id, name, path } = part else { continue };
            if let Some(file) = files.iter().find(|file| file.id == *attachment_id) {
                name.clone_from(&file.name);
                path.clone_from(&file.path);
            }
        }
    }
}

/// Checks the parts of a message; `None` if there is none.
pub(super) fn check(
    prompt: Option<String>,
    content: Option<Vec<Part>>,
    attachments: Option<Vec<AttachmentId>>,
) -> Result<Option<Checked>, ApiError> {
    let attached = attachments.unwrap_or_default();
    let mut content = match (prompt, content) {
        (Some(_), Some(_)) => return Err(ApiError::invalid("Send either prompt or content, not both")),
        (Some(text), None) => vec![Part::Text { text }],
        (None, Some(content)) => content,
        (None, None) => return Ok(None),
    };
    let given: Vec<AttachmentId> = content.iter().filter_map(attachment).cloned().collect();
    content.extend(attached.iter().filter(|id| !given.contains(id)).map(|id| Part::File {
        attachment_id: id.clone(),
        name: String::new(),
        path: None,
    }));
    let attachments: Vec<AttachmentId> = content.iter().filter_map(attachment).cloned().collect();
    let mut text = String::new();
    for part in &content {
        match part {
            Part::Text { text: more } => text.push_str(more),
            Part::Reasoning { .. } | Part::ToolCall { .. } => {
                return Err(ApiError::invalid("A message has parts of type text, image, file and screenshot only"));
            }
            _ => {}
        }
    }
    match () {
        () if content.len() > MAX_PARTS => Err(ApiError::invalid(format!("A message has at most {MAX_PARTS} parts"))),
        () if attachments.len() > MAX_ATTACHMENTS => {
            Err(ApiError::invalid(format!("A message has at most {MAX_ATTACHMENTS} files")))
        }
        () if text.chars().count() > MAX_TEXT => {
            let text = format!("A message has at most {MAX_TEXT} characters; send longer texts as files");
            Err(ApiError::invalid(text))
        }
        () if text.trim().is_empty() && attachments.is_empty() => Err(ApiError::invalid("The message is empty")),
        () => Ok(Some(Checked { content, attachments, text })),
    }
}

fn attachment(part: &Part) -> Option<&AttachmentId> {
    match part {
        Part::Image { attachment_id } | Part::File { attachment_id, .. } | Part::Screenshot { attachment_id, .. } => {
            Some(attachment_id)
        }
        _ => None,
    }
}
