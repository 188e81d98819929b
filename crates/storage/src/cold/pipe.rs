//! Channels of bytes between the thread that packs or unpacks and the task that talks to the store. They are bounded,
//! and the thread computes the digest.

use std::io::{self, Read, Write};

use bytes::{Buf, Bytes, BytesMut};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::manifest::Digest;

/// Bytes in one message.
const CHUNK: usize = 256 << 10;
/// Messages that may wait for the store.
const WAITING: usize = 16;

/// Length and digest of everything that passes.
struct Measure {
    length: u64,
    digest: Sha256,
}

impl Measure {
    fn new() -> Self {
        Self { length: 0, digest: Sha256::new() }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.digest.update(bytes);
    }

    fn end(self) -> (u64, Digest) {
        (self.length, Digest::new(self.digest.finalize().into()))
    }
}

/// From a thread to a task. The receiver ends when the writer is dropped, finished or not: the thread's result says which.
pub(super) fn to_store() -> (Writer, mpsc::Receiver<Bytes>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Writer { sender, chunk: BytesMut::with_capacity(CHUNK), measure: Measure::new() }, receiver)
}

pub(super) struct Writer {
    sender: mpsc::Sender<Bytes>,
    chunk: BytesMut,
    measure: Measure,
}

impl Writer {
    fn send(&mut self) -> io::Result<()> {
        let chunk = std::mem::replace(&mut self.chunk, BytesMut::with_capacity(CHUNK)).freeze();
        self.measure.add(&chunk);
        self.sender.blocking_send(chunk).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Sends the rest, and returns length and digest of everything.
    pub(super) fn finish(mut self) -> io::Result<(u64, Digest)> {
        if !self.chunk.is_empty() {
            self.send()?;
        }
        Ok(self.measure.end())
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// From a task to a thread. The task sends `None` at the end; if it is dropped before, reading fails.
pub(super) fn from_store() -> (mpsc::Sender<Option<Bytes>>, Reader) {
    // The store returns large ranges.
    let (sender, receiver) = mpsc::channel(1);
    (sender, Reader { receiver, chunk: Bytes::new(), ended: false, measure: Measure::new() })
}

pub(super) struct Reader {
    receiver: mpsc::Receiver<Option<Bytes>>,
    chunk: Bytes,
    ended: bool,
    measure: Measure,
}

impl Reader {
    /// Length and digest of everything; all of it must have been read.
    pub(super) fn finish(mut self) -> io::Result<(u64, Digest)> {
        match self.read(&mut [0])? {
            0 => Ok(self.measure.end()),
            _ => Err(io::Error::other("something is left unread")),
        }
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(Some(chunk)) => {
                    self.measure.add(&chunk);
                    self.chunk = chunk;
                }
                Some(None) => self.ended = true,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let taken = buffer.len().min(self.chunk.len());
        self.chunk.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_passes_in_order() {
        let data: Vec<u8> = (0..3 * CHUNK + 17).map(|i| u8::try_from(i % 251).expect("small")).collect();
        let (mut writer, mut chunks) = to_store();
        let sent = data.clone();
        let written = tokio::task::spawn_blocking(move || {
            writer.write_all(&sent).expect("written");
            writer.finish().expect("finished")
        });
        let (sender, mut reader) = from_store();
        let read = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).expect("read");
            (all, reader.finish().expect("finished"))
        });
        while let Some(chunk) = chunks.recv().await {
            sender.send(Some(chunk)).await.expect("taken");
        }
        sender.send(None).await.expect("taken");
        let (all, measured) = read.await.expect("joined");
        assert!(all == data);
        assert_eq!(measured, written.await.expect("joined"));
        assert_eq!(measured.0, data.len() as u64);
    }

    #[tokio::test]
    async fn a_lost_end_is_an_error() {
        let (sender, mut reader) = from_store();
        sender.send(Some(Bytes::from_static(b"abc"))).await.expect("taken");
        drop(sender);
        let mut all = Vec::new();
        let read = tokio::task::spawn_blocking(move || reader.read_to_end(&mut all).map(|_| all));
        assert!(read.await.expect("joined").is_err());
        let (mut writer, chunks) = to_store();
        drop(chunks);
        let written = tokio::task::spawn_blocking(move || writer.write_all(&[0; 2 * CHUNK]));
        assert!(written.await.expect("joined").is_err());
    }
}
