//! Messages with descriptors over a Unix socket: between the server and the launcher, and between the launcher and a
//! sandbox's first process.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// Maximum number of descriptors per message.
pub(crate) const MAX_FDS: usize = 32;
/// Maximum number of bytes per message.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// A connected pair of sockets that keeps message boundaries, with close-on-exec.
pub(crate) fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// Sends one message.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    // The buffer is rounded up, and could hold one descriptor more than is received.
    if fds.len() > MAX_FDS || !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::TOOBIG);
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).map(drop)
}

/// Bytes and descriptors of a received message.
pub(crate) type Message = (Vec<u8>, Vec<OwnedFd>);

/// Receives one message; `None` when the other end is closed.
pub(crate) fn receive(socket: impl AsFd, flags: RecvFlags) -> Result<Option<Message>, Errno> {
    let mut bytes = vec![0; MAX_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC | flags)
        {
            Err(Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.bytes == 0 && fds.is_empty() {
        return Ok(None);
    }
    bytes.truncate(received.bytes);
    Ok(Some((bytes, fds)))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn carries_bytes_and_descriptors() {
        let (a, b) = pair().unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        for count in [0, 2, MAX_FDS] {
            send(&a, b"hello", &vec![file.as_fd(); count]).unwrap();
            let (bytes, fds) = receive(&b, RecvFlags::empty()).unwrap().unwrap();
            assert_eq!((bytes.as_slice(), fds.len()), (&b"hello"[..], count));
        }
        assert_eq!(send(&a, b"hello", &[file.as_fd(); MAX_FDS + 1]), Err(Errno::TOOBIG));
        drop(a);
        assert!(receive(&b, RecvFlags::empty()).unwrap().is_none());
    }
}
