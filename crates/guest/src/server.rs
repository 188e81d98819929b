//! Listeners and connections: the host's two Unix sockets and, for programs inside, TCP.

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

/// Connections of the host, on each socket; its edge bounds what it lets in.
const MAX_HOST: usize = 2048;
/// Connections of programs inside.
const MAX_INSIDE: usize = 256;
/// How long a program inside may take for a request's head, and may stay idle.
const HEAD_PATIENCE: Duration = Duration::from_secs(75);
/// Buffers of a connection.
const BUFFER: usize = 64 << 10;
/// The largest head of a request; a signed URL with a long path is far smaller.
const MAX_HEAD: usize = 32 << 10;
const MAX_HEADERS: usize = 128;
/// After a failed accept, which is mostly a lack of descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A listener of either kind.
pub(crate) enum Listener {
    /// Named or inherited.
    Unix(UnixListener),
    /// By address.
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

/// Serves for ever.
pub(crate) async fn serve(listener: Listener, routes: Arc<Routes>, origin: Origin) {
    let places = Arc::new(Semaphore::new(if origin == Origin::Inside { MAX_INSIDE } else { MAX_HOST }));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
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
                Stream::Unix(stream) => converse(stream, routes, origin).await,
                Stream::Tcp(stream) => {
                    // Frames are small and wanted at once; it works without, too.
                    let _ = stream.set_nodelay(true);
                    converse(stream, routes, origin).await;
                }
            }
            drop(place);
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, routes: Arc<Routes>, origin: Origin) {
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
    // A broken connection concerns only its client.
    let _ = connection.await;
}
