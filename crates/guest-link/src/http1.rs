//! One request over a link. Bodies and time are bounded by the caller.

use std::io;

use cabana_http1::{Head, handshake};
use http::{Request, Response};
use hyper::body::{Body, Incoming};

use crate::{GuestLink, Port};

impl GuestLink {
    /// Sends one request on its own connection, which ends when the response's body was read or dropped, or when the
    /// guest ends.
    pub async fn request<B>(&self, port: Port, request: Request<B>) -> io::Result<Response<Incoming>>
    where
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let head = Head::default();
        let (mut sender, connection) = handshake(head.plain(self.connect(port).await?), head).await?;
        tokio::spawn(connection);
        Ok(sender.send(request).await?)
    }
}
