//! Puts calls together from their deltas. Servers number them, name them by id, both, or neither; some send them whole.

use serde_json::Value;

use crate::model::{ModelCall, ModelError, ModelErrorCode as Code};
use crate::provider::problem::error;
use crate::provider::reader::{Pieces, number_of, text_of};

/// What a call costs beside its texts, so that their number is bounded too.
const OVERHEAD: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Started>,
}

#[derive(Debug, Default)]
struct Started {
    index: Option<u64>,
    call: Parts,
}

#[derive(Debug, Default)]
struct Parts {
    id: String,
    name: String,
    arguments: String,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Takes a delta of `tool_calls`, or a whole call.
    pub(super) fn delta(&mut self, delta: &Value, pieces: &mut Pieces) -> Result<(), ModelError> {
        let none = Value::Null;
        let function = delta.get("function").unwrap_or(&none);
        self.add(number_of(delta, "index"), text_of(delta, "id"), function, pieces)
    }

    /// Takes a delta of the older `function_call`, of which there is one.
    pub(super) fn function(&mut self, function: &Value, pieces: &mut Pieces) -> Result<(), ModelError> {
        self.add(Some(u64::MAX), "", function, pieces)
    }

    fn add(&mut self, index: Option<u64>, id: &str, function: &Value, pieces: &mut Pieces) -> Result<(), ModelError> {
        let name = text_of(function, "name");
        let whole;
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.as_str(),
            Some(fields @ Value::Object(_)) => {
                whole = fields.to_string();
                &whole
            }
            _ => "",
        };
        let place = match self.place(index, id, name) {
            Some(place) => place,
            None if id.is_empty() && name.is_empty() && arguments.is_empty() => return Ok(()),
            None => {
                pieces.count(OVERHEAD)?;
                self.list.push(Started { index, call: Parts::default() });
                self.list.len() - 1
            }
        };
        let Some(Started { call, .. }) = self.list.get_mut(place) else { return Ok(()) };
        // Some servers repeat id and name in every delta.
        for (text, given) in [(&mut call.id, id), (&mut call.name, name)] {
            if text.is_empty() {
                pieces.count(given.len())?;
                text.push_str(given);
            }
        }
        pieces.count(arguments.len())?;
        call.arguments.push_str(arguments);
        Ok(())
    }

    /// The call that a delta goes on with; `None` if it begins one.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        if !id.is_empty()
            && let Some(same) = self.list.iter().rposition(|started| started.call.id == id)
        {
            return Some(same);
        }
        let last = self.list.len().checked_sub(1);
        let Some(index) = index else {
            return if id.is_empty() && name.is_empty() { last } else { None };
        };
        let Some(same) = self.list.iter().rposition(|started| started.index == Some(index)) else {
            // Arguments alone under a number of their own belong to the call before.
            return if id.is_empty() && name.is_empty() { last } else { None };
        };
        let Parts { id: known, arguments, .. } = &self.list.get(same)?.call;
        let other = !id.is_empty() && !known.is_empty();
        // Some servers give every whole call the number 0.
        let another = other || (id.is_empty() && !name.is_empty() && is_object(arguments));
        (!another).then_some(same)
    }

    /// The calls, in the order in which they began. Missing ids stay empty.
    pub(super) fn finish(self) -> Result<Vec<ModelCall>, ModelError> {
        let mut calls = Vec::with_capacity(self.list.len());
        for Started { call: Parts { id, name, arguments }, .. } in self.list {
            if name.is_empty() {
                return Err(error(Code::Garbled, "the model called a tool without a name"));
            }
            let arguments = if arguments.trim().is_empty() { "{}".into() } else { arguments };
            calls.push(ModelCall { id, name, arguments });
        }
        Ok(calls)
    }
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok()
}
