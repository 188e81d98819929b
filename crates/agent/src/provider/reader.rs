//! Bytes of a response in, pieces and an answer out. Knows what both wires have in common; each has its [`Decoder`].

use serde_json::Value;

use super::problem::{Problem, error};
use super::sse::{Event, Sse};
use crate::model::{Answer, ModelError, ModelErrorCode as Code, Piece};

/// Bytes of text, reasoning and arguments of one answer.
pub(super) const MAX_ANSWER: usize = 4 << 20;
/// Bytes of a response that is not a stream. JSON may take six bytes for one.
const MAX_WHOLE: usize = 6 * MAX_ANSWER;

/// Why an answer cannot be read.
#[derive(Debug)]
pub(super) enum Fault {
    /// The provider says that something is wrong.
    Problem(Problem),
    Error(ModelError),
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        Self::Error(error)
    }
}

/// Puts an answer together from what one kind of provider sends.
pub(super) trait Decoder: Default + Send {
    /// The JSON of an event of the stream.
    fn event(&mut self, name: &str, data: &Value, pieces: &mut Pieces) -> Result<(), Fault>;
    /// The JSON of an answer that is no stream.
    fn whole(&mut self, body: &Value, pieces: &mut Pieces) -> Result<(), Fault>;
    /// Whether the model has said why it stopped.
    fn is_stopped(&self) -> bool;
    /// Whether nothing more follows.
    fn is_done(&self) -> bool;
    /// The answer. It was stopped.
    fn answer(self) -> Result<Answer, ModelError>;
}

/// Pieces for the caller, and how much of an answer there is so far.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    list: Vec<Piece>,
    used: usize,
}

impl Pieces {
    /// Counts bytes of the answer.
    pub(super) fn count(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.used = self.used.saturating_add(bytes);
        if self.used > MAX_ANSWER {
            let text = format!("the answer of the model is larger than {} MiB", MAX_ANSWER >> 20);
            return Err(error(Code::TooLarge, text));
        }
        Ok(())
    }

    pub(super) fn text(&mut self, all: &mut String, text: &str) -> Result<(), ModelError> {
        self.add(all, text, Piece::Text)
    }

    pub(super) fn reasoning(&mut self, all: &mut String, text: &str) -> Result<(), ModelError> {
        self.add(all, text, Piece::Reasoning)
    }

    fn add(&mut self, all: &mut String, text: &str, piece: fn(String) -> Piece) -> Result<(), ModelError> {
        if text.is_empty() {
            return Ok(());
        }
        self.count(text.len())?;
        all.push_str(text);
        self.list.push(piece(text.to_owned()));
        Ok(())
    }

    /// The pieces since the last time.
    pub(super) fn take(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.list)
    }
}

#[derive(Debug)]
enum Form {
    /// Nothing but blanks has come.
    Unknown,
    Stream(Sse),
    /// JSON, from a server that does not stream.
    Whole(Vec<u8>),
}

/// Reads one response.
#[derive(Debug)]
pub(super) struct Reader<D> {
    form: Form,
    decoder: D,
    pub(super) pieces: Pieces,
    /// Whether an event of the wire has come.
    understood: bool,
}

impl<D: Decoder> Default for Reader<D> {
    fn default() -> Self {
        Self { form: Form::Unknown, decoder: D::default(), pieces: Pieces::default(), understood: false }
    }
}

impl<D: Decoder> Reader<D> {
    /// Takes more of the body.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        if let Form::Unknown = self.form {
            let blank = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf);
            let Some(begin) = bytes.iter().position(|byte| !blank(byte)) else { return Ok(()) };
            bytes = bytes.get(begin..).unwrap_or_default();
            // What the header calls it is often wrong. No line of an event stream begins with a brace.
            self.form = match bytes.first() {
                Some(b'{') => Form::Whole(Vec::new()),
                _ => Form::Stream(Sse::default()),
            };
        }
        match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Whole(body) => {
                if body.len() + bytes.len() > MAX_WHOLE {
                    return Err(error(Code::TooLarge, "the answer of the model is too large").into());
                }
                body.extend_from_slice(bytes);
                Ok(())
            }
            Form::Stream(sse) => {
                let mut events = Vec::new();
                let read = sse.push(bytes, &mut events);
                for event in events {
                    self.event(&event)?;
                }
                read.map_err(|too_long| error(Code::TooLarge, too_long.to_string()).into())
            }
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), Fault> {
        if self.decoder.is_done() || event.data.trim().is_empty() {
            return Ok(());
        }
        if event.data.trim() == "[DONE]" {
            return self.decoder.event("", &Value::Null, &mut self.pieces);
        }
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|_| error(Code::Garbled, "the provider sent an event that is not JSON"))?;
        self.understood = true;
        self.decoder.event(&event.name, &data, &mut self.pieces)
    }

    /// Whether nothing more needs to be read.
    pub(super) fn is_done(&self) -> bool {
        self.decoder.is_done()
    }

    /// Whether the model has said why it stopped; what may follow are counts.
    pub(super) fn is_stopped(&self) -> bool {
        self.decoder.is_stopped()
    }

    /// The body has ended. Pieces may come of it.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => Ok(()),
            Form::Stream(mut sse) => {
                // Half an event is no JSON: it ended too early, which is told by what is missing.
                let last = sse.finish().filter(|last| {
                    last.data.trim() == "[DONE]" || serde_json::from_str::<serde::de::IgnoredAny>(&last.data).is_ok()
                });
                match last {
                    Some(last) => self.event(&last),
                    None if self.understood || self.decoder.is_done() => Ok(()),
                    None => {
                        Err(error(Code::Garbled, "the provider sent something that is no answer of a model").into())
                    }
                }
            }
            Form::Whole(body) => {
                let body: Value = serde_json::from_slice(&body).map_err(|problem| match problem.is_eof() {
                    true => cut_off(),
                    false => error(Code::Garbled, "the provider sent an answer that is not JSON"),
                })?;
                self.decoder.whole(&body, &mut self.pieces)
            }
        }
    }

    /// The answer, if it is whole.
    pub(super) fn answer(self) -> Result<Answer, ModelError> {
        if !self.decoder.is_stopped() {
            return Err(cut_off());
        }
        self.decoder.answer()
    }
}

/// The stream ended without the model having said why it stopped.
pub(super) fn cut_off() -> ModelError {
    error(Code::CutOff, "the answer of the model broke off")
}

/// A text of a JSON object; empty if there is none.
pub(super) fn text_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A number of a JSON object.
pub(super) fn number_of(value: &Value, name: &str) -> Option<u64> {
    value.get(name).and_then(Value::as_u64)
}

/// Reads a body that comes in chunks, for tests.
#[cfg(test)]
pub(super) fn read_chunks<'a, D: Decoder>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Piece>, Result<Answer, ModelError>) {
    let mut reader = Reader::<D>::default();
    let failed = chunks.into_iter().find_map(|chunk| reader.push(chunk).err());
    let failed = failed.or_else(|| reader.end().err());
    let pieces = reader.pieces.take();
    let done = match failed {
        None => reader.answer(),
        Some(Fault::Error(error)) => Err(error),
        Some(Fault::Problem(problem)) => Err(problem.into_error("host", "m", None)),
    };
    (pieces, done)
}

/// Texts of pieces, joined where neighbours are of one kind, for tests.
#[cfg(test)]
pub(super) fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (joined.last_mut(), piece) {
            (Some(Piece::Text(all)), Piece::Text(more)) | (Some(Piece::Reasoning(all)), Piece::Reasoning(more)) => {
                all.push_str(&more);
            }
            (_, piece) => joined.push(piece),
        }
    }
    joined
}
