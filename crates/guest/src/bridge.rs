//! `GET /bridge`: connects the host's stream to a port that is bound to loopback inside the sandbox.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use cabana_body_drain::TrackedBody;
use cabana_types::guest::BRIDGE_PROTOCOL;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional_with_sizes;
use tokio::net::TcpStream;

use crate::error::Problem;
use crate::query::Query;
use crate::reply::{self, Body};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const BUFFER: usize = 32 << 10;

/// Answers 101 and joins the two streams.
pub(crate) async fn serve(request: Request<TrackedBody>, query: &Query) -> Result<Response<Body>, Problem> {
    let wanted = request.headers().get(UPGRADE).is_some_and(|v| v.as_bytes() == BRIDGE_PROTOCOL.as_bytes());
    let port = query.get("port").and_then(|p| p.parse::<u16>().ok()).filter(|p| *p != 0);
    let (Some(port), true) = (port, wanted) else {
        return Err(Problem::bad_request(format!("a bridge needs a port and 'Upgrade: {BRIDGE_PROTOCOL}'")));
    };
    let mut inside = connect(port)
        .await
        .map_err(|cause| Problem::new(StatusCode::BAD_GATEWAY, format!("port {port} is not open: {cause}")))?;
    tokio::spawn(async move {
        if let Ok(outside) = hyper::upgrade::on(request).await {
            // Either side may close the connection; there is nobody to report an error to.
            let _ = copy_bidirectional_with_sizes(&mut TokioIo::new(outside), &mut inside, BUFFER, BUFFER).await;
        }
    });
    let mut response = reply::empty(StatusCode::SWITCHING_PROTOCOLS);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(BRIDGE_PROTOCOL));
    Ok(response)
}

async fn connect(port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::ConnectionRefused);
    for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))] {
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Best effort: prefers latency over throughput.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(cause)) if address.is_ipv4() => last = cause,
            Ok(Err(_)) => {}
            Err(_) => last = io::Error::from(io::ErrorKind::TimedOut),
        }
    }
    Err(last)
}
