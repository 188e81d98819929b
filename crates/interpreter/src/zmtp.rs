//! A client of ZeroMQ's wire protocol (ZMTP 3.0 without encryption) over Unix sockets: as much of it as Jupyter's kernels need. A message
//! has a limit, and what exceeds it is skipped instead of kept.

use std::io;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Maximum size of a frame that is kept.
const MAX_FRAME: u64 = 128 << 20;
/// Maximum number of frames of a message.
const MAX_FRAMES: usize = 64;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// The frames of a message; `None` for one that is too large.
pub(crate) type Frames = Vec<Option<Vec<u8>>>;

/// Connects a socket of type `kind`.
pub(crate) async fn connect(path: &Path, kind: &str) -> io::Result<(Sender<OwnedWriteHalf>, Receiver<OwnedReadHalf>)> {
    let (read, write) = UnixStream::connect(path).await?.into_split();
    let (mut sender, mut receiver) = (Sender(write), Receiver(BufReader::with_capacity(64 << 10, read)));
    handshake(&mut sender, &mut receiver, kind).await?;
    Ok((sender, receiver))
}

async fn handshake<R, W>(sender: &mut Sender<W>, receiver: &mut Receiver<R>, kind: &str) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut greeting = [0; 64];
    (greeting[0], greeting[9], greeting[10]) = (0xff, 0x7f, 3);
    greeting[12..16].copy_from_slice(b"NULL");
    sender.0.write_all(&greeting).await?;
    let mut theirs = [0; 64];
    receiver.0.read_exact(&mut theirs).await?;
    if theirs[0] != 0xff || theirs[10] < 3 || theirs[12..32] != greeting[12..32] {
        return Err(invalid("the peer speaks another protocol"));
    }
    let mut ready = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", kind), ("Identity", "")] {
        ready.push(u8::try_from(name.len()).map_err(io::Error::other)?);
        ready.extend_from_slice(name.as_bytes());
        ready.extend_from_slice(&u32::try_from(value.len()).map_err(io::Error::other)?.to_be_bytes());
        ready.extend_from_slice(value.as_bytes());
    }
    sender.frame(COMMAND, &ready).await?;
    match receiver.frame().await? {
        (flags, Some(answer)) if flags & COMMAND != 0 && answer.starts_with(b"\x05READY") => Ok(()),
        _ => Err(invalid("the peer refused the connection")),
    }
}

/// The half that sends.
#[derive(Debug)]
pub(crate) struct Sender<W>(W);

impl<W: AsyncWrite + Unpin> Sender<W> {
    /// Sends a message.
    pub(crate) async fn send(&mut self, frames: &[&[u8]]) -> io::Result<()> {
        for (at, frame) in frames.iter().enumerate() {
            self.frame(if at + 1 < frames.len() { MORE } else { 0 }, frame).await?;
        }
        Ok(())
    }

    async fn frame(&mut self, flags: u8, bytes: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(9);
        match u8::try_from(bytes.len()) {
            Ok(length) => head.extend_from_slice(&[flags, length]),
            Err(_) => {
                head.push(flags | LONG);
                head.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
            }
        }
        self.0.write_all(&head).await?;
        self.0.write_all(bytes).await
    }
}

/// The half that receives.
#[derive(Debug)]
pub(crate) struct Receiver<R>(BufReader<R>);

impl<R: AsyncRead + Unpin> Receiver<R> {
    /// The next message.
    pub(crate) async fn receive(&mut self) -> io::Result<Frames> {
        let mut frames = Vec::new();
        loop {
            let (flags, frame) = self.frame().await?;
            if flags & COMMAND != 0 {
                continue;
            }
            if frames.len() == MAX_FRAMES {
                return Err(invalid("a message has too many frames"));
            }
            frames.push(frame);
            if flags & MORE == 0 {
                return Ok(frames);
            }
        }
    }

    async fn frame(&mut self) -> io::Result<(u8, Option<Vec<u8>>)> {
        let flags = self.0.read_u8().await?;
        let length = match flags & LONG {
            0 => u64::from(self.0.read_u8().await?),
            _ => self.0.read_u64().await?,
        };
        let mut body = (&mut self.0).take(length);
        if length > MAX_FRAME {
            let skipped = tokio::io::copy(&mut body, &mut tokio::io::sink()).await?;
            return if skipped == length { Ok((flags, None)) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let mut bytes = Vec::new();
        if body.read_to_end(&mut bytes).await? as u64 != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((flags, Some(bytes)))
    }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair()
    -> (Sender<tokio::io::WriteHalf<tokio::io::DuplexStream>>, Receiver<tokio::io::ReadHalf<tokio::io::DuplexStream>>)
    {
        let (one, other) = tokio::io::duplex(1 << 16);
        (Sender(tokio::io::split(one).1), Receiver(BufReader::new(tokio::io::split(other).0)))
    }

    #[tokio::test]
    async fn messages_arrive_as_they_were_sent() {
        let (mut sender, mut receiver) = pair();
        let long = vec![7; 300];
        sender.send(&[b"", b"a", &long]).await.expect("send");
        sender.frame(COMMAND, b"\x04PING").await.expect("command");
        sender.send(&[b"last"]).await.expect("send");
        assert_eq!(receiver.receive().await.expect("first"), [Some(vec![]), Some(b"a".to_vec()), Some(long)]);
        assert_eq!(receiver.receive().await.expect("second"), [Some(b"last".to_vec())]);
    }

    #[tokio::test]
    async fn a_frame_that_is_too_large_is_skipped() {
        let (mut sender, mut receiver) = pair();
        let sending = async {
            sender.0.write_all(&[LONG | MORE]).await.expect("flags");
            sender.0.write_all(&(MAX_FRAME + 1).to_be_bytes()).await.expect("length");
            let piece = vec![0; 1 << 20];
            for _ in 0..MAX_FRAME >> 20 {
                sender.0.write_all(&piece).await.expect("piece");
            }
            sender.0.write_all(&[0]).await.expect("the last byte");
            sender.send(&[b"after"]).await.expect("send");
        };
        let (frames, ()) = tokio::join!(receiver.receive(), sending);
        assert_eq!(frames.expect("message"), [None, Some(b"after".to_vec())]);
    }

    #[tokio::test]
    async fn a_peer_that_ends_or_lies_is_an_error() {
        for bytes in [&b"\x00\x05abc"[..], b"\x02\xff\xff\xff\xff\xff\xff\xff\xff", b"\x00", b""] {
            let mut receiver = Receiver(BufReader::new(bytes));
            assert!(receiver.receive().await.is_err(), "{bytes:?}");
        }
    }
}
