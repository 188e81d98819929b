//! Listeners and connections: the host's two Unix sockets, and TCP for programs inside the sandbox.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Request;
use http::header::CONNECTION;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use crate::linger::Lingering;
use crate::route::{Origin, Routes};

/// Limit on connections of the host, per socket; the edge has its own limits.
const MAX_HOST: usize = 2048;
/// Limit on connections from inside the sandbox.
const MAX_INSIDE: usize = 256;
/// Timeout for the head of a request, and for idle connections, from inside the sandbox.
const HEAD_PATIENCE: Duration = Duration::from_secs(75);
/// Buffer size of a connection.
const BUFFER: usize = 64 << 10;
/// Limit on the head of a request; a signed URL with a long path is far smaller.
const MAX_HEAD: usize = 32 << 10;
const MAX_HEADERS: usize = 128;
/// Delay after a failed accept, which usually means that descriptors are exhausted.
const PAUSE: Duration = Duration::from_millis(50);

/// A Unix or TCP listener.
pub(crate) enum Listener {
    /// Bound to a path, or inherited.
    Unix(UnixListener),
    Tcp(TcpListener),
}

enum Stream {
    Unix(tokio::net::UnixStream),
    Tcp(tokio::net::TcpStream),
}

impl Listener {
    async fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Unix(listener) => Stream::Unix(listener.accept().await?.0),
            Self::Tcp(listener) => Stream::Tcp(listener.accept().await?.0),
        })
    }
}

/// Accepts connections for ever.
pub(crate) async fn serve(listener: Listener, routes: Arc<Routes>, origin: Origin) {
    let permits = Arc::new(Semaphore::new(if origin == Origin::Inside { MAX_INSIDE } else { MAX_HOST }));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let routes = Arc::clone(&routes);
        tokio::spawn(async move {
            match stream {
                Stream::Unix(stream) => serve_connection(stream, routes, origin).await,
                Stream::Tcp(stream) => {
                    // Best effort: frames are small and latency matters.
                    let _ = stream.set_nodelay(true);
                    serve_connection(stream, routes, origin).await;
                }
            }
            drop(permit);
        });
    }
}

async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    routes: Arc<Routes>,
    origin: Origin,
) {
    let stream = Lingering::new(stream);
    let unread = stream.unread();
    let service = service_fn(move |request: Request<Incoming>| {
        let (routes, unread) = (Arc::clone(&routes), Arc::clone(&unread));
        async move {
            let (request, drain) = cabana_body_drain::track(request);
            let response = Box::pin(routes.answer(request, origin)).await;
            let response = drain.finish(response, false).await;
            if response.headers().get(CONNECTION).is_some_and(|value| value == "close") {
                unread.store(true, Ordering::Relaxed);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let patience = (origin == Origin::Inside).then_some(HEAD_PATIENCE);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(BUFFER)
        .max_header_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // A connection error affects only its client.
    let _ = connection.await;
}
