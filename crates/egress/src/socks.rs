//! The client's part of SOCKS5 (RFC 1928) with user name and password (RFC 1929). The caller bounds the time.

use std::io;
use std::net::{IpAddr, SocketAddr};

use cabana_types::Secret;
use cabana_types::egress::HostName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const NO_LOGIN: u8 = 0;
const PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// User name and password.
pub(crate) struct Login<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: Option<&'a Secret>,
}

/// Where the SOCKS5 proxy is to connect to.
pub(crate) enum Destination<'a> {
    Name(&'a HostName, u16),
    Address(SocketAddr),
}

/// Why a SOCKS5 proxy does not connect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocksError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it does not speak SOCKS5")]
    Protocol,
    #[error("it accepts none of our ways to log in")]
    NoMethod,
    #[error("it refuses user name or password")]
    Login,
    #[error("user name or password is longer than 255 bytes")]
    TooLong,
    #[error("it refuses: {0}")]
    Refused(&'static str),
}

/// Asks for a connection. Afterwards the stream is that connection.
pub(crate) async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    login: Option<Login<'_>>,
    destination: Destination<'_>,
) -> Result<(), SocksError> {
    let greeting: &[u8] = if login.is_some() { &[VERSION, 2, NO_LOGIN, PASSWORD] } else { &[VERSION, 1, NO_LOGIN] };
    send(stream, greeting).await?;
    match (receive(stream).await?, login) {
        ([VERSION, NO_LOGIN], _) => {}
        ([VERSION, PASSWORD], Some(login)) => log_in(stream, login).await?,
        ([VERSION, _], _) => return Err(SocksError::NoMethod),
        _ => return Err(SocksError::Protocol),
    }
    send(stream, &request(destination)).await?;
    let [version, reply, _, kind] = receive(stream).await?;
    if version != VERSION {
        return Err(SocksError::Protocol);
    }
    if reply != 0 {
        return Err(SocksError::Refused(reason(reply)));
    }
    // The address that the proxy connects from, and its port.
    match kind {
        IPV4 => drop(receive::<6>(stream).await?),
        IPV6 => drop(receive::<18>(stream).await?),
        NAME => {
            let [length] = receive(stream).await?;
            let mut rest = [0; 255 + 2];
            stream.read_exact(&mut rest[..usize::from(length) + 2]).await?;
        }
        _ => return Err(SocksError::Protocol),
    }
    Ok(())
}

async fn log_in<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, login: Login<'_>) -> Result<(), SocksError> {
    let mut message = vec![LOGIN_VERSION];
    for text in [login.user, login.password.map_or("", Secret::expose)] {
        message.push(u8::try_from(text.len()).map_err(|_| SocksError::TooLong)?);
        message.extend_from_slice(text.as_bytes());
    }
    send(stream, &message).await?;
    match receive(stream).await? {
        [LOGIN_VERSION, 0] => Ok(()),
        [LOGIN_VERSION, _] => Err(SocksError::Login),
        _ => Err(SocksError::Protocol),
    }
}

fn request(destination: Destination<'_>) -> Vec<u8> {
    let mut message = vec![VERSION, CONNECT, 0];
    let port = match destination {
        Destination::Name(name, port) => {
            // A host name has at most 253 bytes.
            message.extend([NAME, u8::try_from(name.as_str().len()).unwrap_or(u8::MAX)]);
            message.extend_from_slice(name.as_str().as_bytes());
            port
        }
        Destination::Address(address) => {
            match address.ip() {
                IpAddr::V4(v4) => {
                    message.push(IPV4);
                    message.extend(v4.octets());
                }
                IpAddr::V6(v6) => {
                    message.push(IPV6);
                    message.extend(v6.octets());
                }
            }
            address.port()
        }
    };
    message.extend(port.to_be_bytes());
    message
}

fn reason(reply: u8) -> &'static str {
    match reply {
        1 => "general failure",
        2 => "not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "time to live expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => "unknown reason",
    }
}

async fn send<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

async fn receive<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}
