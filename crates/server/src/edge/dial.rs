//! Opens connections to a sandbox: to the guest by its Unix socket, to other ports by the sandbox's address, and to ports that
//! listen on loopback inside through the guest's bridge.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use cabana_body_drain::TrackedBody;
use cabana_types::guest::{BRIDGE_PATH, BRIDGE_PROTOCOL};
use cabana_types::routing::{ACCESS_TOKEN_HEADER, GUEST_PORT};
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper::body::Body;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};

use super::answer::Refusal;
use super::patient::Patient;
use super::reach::{Place, Reach};
use super::traffic;

/// A sandbox's address answers at once or not at all.
const CONNECT: Duration = Duration::from_secs(2);
/// The guest's socket, its answer to a bridge included.
const GUEST: Duration = Duration::from_secs(10);
/// A full accept queue of a Unix socket answers "again" and gives no sign when there is room.
const AGAIN: Duration = Duration::from_millis(2);
/// What one answer's head may need; also the read buffer.
const MAX_BUFFER: usize = 128 * 1024;
const MAX_HEADERS: usize = 200;

/// Opens a connection to a port.
pub(super) async fn dial(reach: &Reach, port: u16) -> Result<SendRequest<TrackedBody>, Refusal> {
    let place = reach.place().ok_or(Refusal::Crowded)?;
    if port == GUEST_PORT {
        let stream = to_guest(reach).await.map_err(|error| closed(reach, port, &error))?;
        return speak(reach, TokioIo::new(Patient::new(stream)), Some(place))
            .await
            .map_err(|error| closed(reach, port, &error));
    }
    if reach.is_bridged(port) {
        // The way that worked last time; the direct one may work by now.
        match bridge(reach, port).await {
            Ok(upgraded) => return finish(reach, port, upgraded, place).await,
            Err(_) => {
                let stream = direct(reach, port).await.map_err(|error| closed(reach, port, &error))?;
                reach.learn(port, false);
                return finish(reach, port, TokioIo::new(Patient::new(stream)), place).await;
            }
        }
    }
    match direct(reach, port).await {
        Ok(stream) => finish(reach, port, TokioIo::new(Patient::new(stream)), place).await,
        Err(_) => {
            let upgraded = bridge(reach, port).await.map_err(|error| closed(reach, port, &error))?;
            reach.learn(port, true);
            finish(reach, port, upgraded, place).await
        }
    }
}

async fn finish<T>(reach: &Reach, port: u16, io: T, place: Place) -> Result<SendRequest<TrackedBody>, Refusal>
where
    T: Read + Write + Unpin + Send + 'static,
{
    if !reach.route.traffic.https_ports.contains(&port) {
        return speak(reach, io, Some(place)).await.map_err(|error| closed(reach, port, &error));
    }
    let encrypted = async {
        let stream = traffic::encrypt(reach.route.address.into(), TokioIo::new(io)).await?;
        speak(reach, TokioIo::new(stream), Some(place)).await
    };
    encrypted.await.map_err(|error: io::Error| {
        tracing::debug!(sandbox = %reach.route.id, port, %error, "port does not speak TLS");
        Refusal::NoAnswer
    })
}

fn closed(reach: &Reach, port: u16, error: &io::Error) -> Refusal {
    tracing::debug!(sandbox = %reach.route.id, port, %error, "port is not open");
    Refusal::PortClosed
}

async fn direct(reach: &Reach, port: u16) -> io::Result<TcpStream> {
    let stream = timeout(CONNECT, TcpStream::connect((reach.route.address, port))).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn to_guest(reach: &Reach) -> io::Result<UnixStream> {
    let deadline = Instant::now() + GUEST;
    loop {
        match UnixStream::connect(&reach.route.guest_socket).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => sleep(AGAIN).await,
            result => return result,
        }
    }
}

/// A connection to a port on the sandbox's loopback, through the guest.
async fn bridge(reach: &Reach, port: u16) -> io::Result<hyper::upgrade::Upgraded> {
    let ask = async {
        let mut sender = speak(reach, TokioIo::new(Patient::new(to_guest(reach).await?)), None).await?;
        let mut request = Request::get(format!("{BRIDGE_PATH}?port={port}"))
            .header(HOST, "guest")
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, BRIDGE_PROTOCOL);
        if let Some(token) = &reach.route.access_token {
            request = request.header(ACCESS_TOKEN_HEADER, token.expose());
        }
        let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("bridge: {}", response.status())));
        }
        hyper::upgrade::on(response).await.map_err(io::Error::other)
    };
    timeout(GUEST, ask).await?
}

/// Speaks HTTP over a stream. Its task ends with the stream, with the last use of it, or with the sandbox.
async fn speak<T, B>(reach: &Reach, io: T, place: Option<Place>) -> io::Result<SendRequest<B>>
where
    T: Read + Write + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (sender, connection) = Builder::new()
        .max_buf_size(MAX_BUFFER)
        .max_headers(MAX_HEADERS)
        .handshake(io)
        .await
        .map_err(io::Error::other)?;
    let gone = reach.route.gone.clone();
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            biased;
            () = gone.cancelled() => {}
            ended = connection.with_upgrades() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection to a sandbox ended");
                }
            }
        }
    });
    Ok(sender)
}
