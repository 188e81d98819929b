//! What both wires need of a conversation: every call has exactly one result, and only what providers take is sent.

use std::borrow::Cow;

use cabana_types::tool::ToolImage;
use serde_json::{Map, Value, json};

use crate::model::{CallResult, ModelMessage};

/// What the model reads in place of a result that is missing.
const NO_RESULT: &str = "error interrupted: there is no result of this call; it may not have been carried out";

/// The conversation with one result for each call, right after the call. Providers refuse anything else, and a chat would be lost for
/// one missing result.
pub(super) fn paired(messages: &[ModelMessage]) -> Vec<Cow<'_, ModelMessage>> {
    let mut paired = Vec::with_capacity(messages.len());
    let mut rest = messages.iter().peekable();
    while let Some(message) = rest.next() {
        match message {
            // Without a call before them.
            ModelMessage::Results(_) => {}
            ModelMessage::Assistant(said) if !said.calls.is_empty() => {
                paired.push(Cow::Borrowed(message));
                let following = rest.next_if(|next| matches!(next, ModelMessage::Results(_)));
                let given: &[CallResult] = match following {
                    Some(ModelMessage::Results(results)) => results,
                    _ => &[],
                };
                let fits = given.len() == said.calls.len() && said.calls.iter().zip(given).all(|(c, r)| c.id == r.id);
                paired.push(match following {
                    Some(following) if fits => Cow::Borrowed(following),
                    _ => {
                        let result = |call: &crate::model::ModelCall| {
                            given.iter().find(|result| result.id == call.id).cloned().unwrap_or_else(|| CallResult {
                                id: call.id.clone(),
                                name: call.name.clone(),
                                output: NO_RESULT.to_owned(),
                                is_error: true,
                                images: Vec::new(),
                            })
                        };
                        Cow::Owned(ModelMessage::Results(said.calls.iter().map(result).collect()))
                    }
                });
            }
            // Neither wire has a message without content.
            ModelMessage::Assistant(said) if said.text.trim().is_empty() => {}
            ModelMessage::User(_) | ModelMessage::Assistant(_) => paired.push(Cow::Borrowed(message)),
        }
    }
    paired
}

/// The arguments of a call as an object: providers, and the templates of local models, take nothing else.
pub(super) fn arguments(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ if text.trim().is_empty() => Value::Object(Map::new()),
        _ => json!({"not_json": text}),
    }
}

/// A name or id of a call with the characters that providers take. A model that makes up a name must not make its chat unusable, and ids
/// of one provider may come to another.
pub(super) fn word(text: &str, most: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
    match text.is_empty() {
        true => "unknown".into(),
        false => text.chars().take(most).map(plain).collect(),
    }
}

/// Whether models read images of this type.
pub(super) fn is_readable(image: &ToolImage) -> bool {
    matches!(image.media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp")
}

/// What a model reads in place of an image that it cannot read.
pub(super) const UNREADABLE: &str = "[an image of a type that models cannot read]";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelCall, Said, UserPart};

    fn said(ids: &[&str]) -> ModelMessage {
        let call = |id: &&str| ModelCall { id: (*id).to_owned(), name: "t".into(), arguments: "{}".into() };
        ModelMessage::Assistant(Said { text: String::new(), calls: ids.iter().map(call).collect(), raw: None })
    }

    fn results(ids: &[&str]) -> ModelMessage {
        let result = |id: &&str| CallResult {
            id: (*id).to_owned(),
            name: "t".into(),
            output: "o".into(),
            is_error: false,
            images: Vec::new(),
        };
        ModelMessage::Results(ids.iter().map(result).collect())
    }

    #[test]
    fn calls_and_results_are_paired() {
        let user = ModelMessage::User(vec![UserPart::Text("x".into())]);
        let whole = [user.clone(), said(&["a", "b"]), results(&["a", "b"]), said(&[]), user.clone()];
        let paired_whole: Vec<_> = paired(&whole).into_iter().map(Cow::into_owned).collect();
        assert_eq!(paired_whole, [&whole[..3], &whole[4..]].concat(), "nothing but the empty message is missing");
        let broken = [results(&["z"]), said(&["a", "b"]), results(&["b", "y"]), said(&["c"]), user];
        let mended = paired(&broken);
        let ids = |message: &ModelMessage| match message {
            ModelMessage::Results(results) => results.iter().map(|r| (r.id.clone(), r.is_error)).collect(),
            _ => Vec::new(),
        };
        let found: Vec<_> = mended.iter().flat_map(|message| ids(message)).collect();
        assert_eq!(found, [("a".into(), true), ("b".into(), false), ("c".into(), true)]);
        assert_eq!(mended.len(), 5);
    }

    #[test]
    fn words_have_plain_characters() {
        assert_eq!(word("toolu_01-A", 64), "toolu_01-A");
        assert_eq!(word("functions.f:0", 11), "functions_f");
        assert_eq!(word("", 64), "unknown");
    }

    #[test]
    fn arguments_are_objects() {
        assert_eq!(arguments(r#"{"a":1}"#), json!({"a": 1}));
        assert_eq!(arguments(" "), json!({}));
        assert_eq!(arguments("[1"), json!({"not_json": "[1"}));
        assert_eq!(arguments("[1]"), json!({"not_json": "[1]"}));
    }
}
