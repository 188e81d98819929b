//! Reads server-sent events of the API.

use bytes::{Buf, BytesMut};
use cabana_http::ResponseBody;
use futures_util::StreamExt;
use http::Response;
use http_body_util::BodyStream;

use crate::error::{Error, Result, root_cause};

/// Name and data of an event. Comments, which keep the connection alive, have neither.
pub(crate) type Event = (String, String);

/// An event with its id, which may be empty.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) data: String,
}

/// The events of a response.
pub(crate) struct Events {
    action: &'static str,
    body: BodyStream<ResponseBody>,
    buffer: BytesMut,
    /// Bytes at the beginning of the buffer that contain no end of an event.
    searched: usize,
    /// Largest event that is read.
    limit: usize,
}

impl Events {
    pub(crate) fn new(action: &'static str, response: Response<ResponseBody>, limit: usize) -> Self {
        Self { action, body: BodyStream::new(response.into_body()), buffer: BytesMut::new(), searched: 0, limit }
    }

    /// The next event; `None` after the last.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>> {
        Ok(self.next_numbered().await?.map(|event| (event.name, event.data)))
    }

    /// The next event with its id; `None` after the last.
    pub(crate) async fn next_numbered(&mut self) -> Result<Option<Numbered>> {
        loop {
            if let Some(at) = end_of_event(&self.buffer, self.searched) {
                let event = self.buffer.split_to(at);
                self.buffer.advance(2);
                self.searched = 0;
                return parse(&event).map(Some).map_err(|reason| self.malformed(reason));
            }
            self.searched = self.buffer.len().saturating_sub(1);
            if self.buffer.len() > self.limit {
                return Err(self.malformed("an event is too large"));
            }
            match self.body.next().await {
                None => return Ok(None),
                Some(Ok(frame)) => self.buffer.extend(frame.into_data().into_iter().flatten()),
                Some(Err(error)) => {
                    return Err(Error::Connection { action: self.action, source: root_cause(&error).into() });
                }
            }
        }
    }

    /// The error for an event that makes no sense.
    pub(crate) fn malformed(&self, reason: impl std::fmt::Display) -> Error {
        Error::Answer { action: self.action, reason: reason.to_string() }
    }
}

/// Where the first event ends: at a blank line.
fn end_of_event(buffer: &[u8], from: usize) -> Option<usize> {
    let rest = buffer.get(from..)?;
    rest.windows(2).position(|pair| pair == b"\n\n").map(|at| from + at)
}

fn parse(event: &[u8]) -> std::result::Result<Numbered, std::str::Utf8Error> {
    let text = std::str::from_utf8(event)?;
    let field = |name: &str| {
        let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        values.map(|value| value.strip_prefix(' ').unwrap_or(value)).collect::<Vec<_>>().join("\n")
    };
    Ok(Numbered { id: field("id"), name: field("event"), data: field("data") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read() {
        let parsed = |text: &str| parse(text.as_bytes()).expect("text");
        let event = |id: &str, name: &str, data: &str| Numbered { id: id.into(), name: name.into(), data: data.into() };
        assert_eq!(parsed("event: a\ndata: 1\ndata:2"), event("", "a", "1\n2"));
        assert_eq!(parsed("id: 7\nevent: a\ndata: 1"), event("7", "a", "1"));
        assert_eq!(parsed(": ping"), event("", "", ""));
        assert!(parse(b"data: \xff").is_err());
        assert_eq!(end_of_event(b"a\nb\n\nc", 2), Some(3));
    }
}
