//! Opens connections to a sandbox over its guest link: to the guest's traffic port, to other ports directly, and to ports that listen on
//! loopback inside through the guest's bridge.

use std::io;

use cabana_body_drain::TrackedBody;
use cabana_guest_link::{Port as LinkPort, handshake};
use cabana_types::routing::GUEST_PORT;
use hyper::body::Body;
use hyper::client::conn::http1::SendRequest;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;

use super::answer::Refusal;
use super::patient::Patient;
use super::reach::{Place, Reach};
use super::traffic;

/// Opens a connection to a port.
pub(super) async fn dial(reach: &Reach, port: u16) -> Result<SendRequest<TrackedBody>, Refusal> {
    let place = reach.place().ok_or(Refusal::Crowded)?;
    if port == GUEST_PORT {
        let stream = reach.route.link.connect(LinkPort::Traffic).await.map_err(|error| closed(reach, port, &error))?;
        return speak(reach, TokioIo::new(Patient::new(stream)), Some(place))
            .await
            .map_err(|error| closed(reach, port, &error));
    }
    if reach.is_bridged(port) {
        // The way that worked last time; the direct one may work by now.
        match bridge(reach, port).await {
            Ok(upgraded) => return finish(reach, port, upgraded, place).await,
            Err(_) => {
                let stream = reach.route.link.connect_tcp(port).await.map_err(|error| closed(reach, port, &error))?;
                reach.learn(port, false);
                return finish(reach, port, TokioIo::new(Patient::new(stream)), place).await;
            }
        }
    }
    match reach.route.link.connect_tcp(port).await {
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
        let stream = traffic::encrypt(reach.route.link.address(), TokioIo::new(io)).await?;
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

/// A connection to a port on the sandbox's loopback, through the guest.
async fn bridge(reach: &Reach, port: u16) -> io::Result<hyper::upgrade::Upgraded> {
    let stream = reach.route.link.connect(LinkPort::Control).await?;
    let mut sender = speak(reach, TokioIo::new(Patient::new(stream)), None).await?;
    cabana_guest_link::bridge(&mut sender, port, reach.route.access_token.as_ref()).await
}

/// Speaks HTTP over a stream. Its task ends with the stream, with the last use of it, or with the sandbox.
async fn speak<T, B>(reach: &Reach, io: T, place: Option<Place>) -> io::Result<SendRequest<B>>
where
    T: Read + Write + Unpin + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (sender, connection) = handshake(io).await?;
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
