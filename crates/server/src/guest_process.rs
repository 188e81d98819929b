//! The client of the guest's process service.

use std::io;

use cabana_guest_link::{GuestLink, Port};
use cabana_proto::process::ProcessClient;
use connectrpc::client::{BoxFuture, ClientBody, ClientConfig, ClientTransport};
use http::{Request, Response, Uri};
use hyper::body::Incoming;

/// Maximum size of a message from the guest.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// A client that connects to a port of the guest, once for each call.
pub(crate) fn client(link: GuestLink, port: Port) -> ProcessClient<Transport> {
    let config = ClientConfig::new(Uri::from_static("http://guest")).with_default_max_message_size(MAX_MESSAGE_BYTES);
    ProcessClient::new(Transport { link, port }, config)
}

/// A port of the guest.
#[derive(Debug, Clone)]
pub(crate) struct Transport {
    link: GuestLink,
    port: Port,
}

impl ClientTransport for Transport {
    type ResponseBody = Incoming;
    type Error = io::Error;

    fn send(&self, request: Request<ClientBody>) -> BoxFuture<'static, Result<Response<Incoming>, io::Error>> {
        let Self { link, port } = self.clone();
        Box::pin(async move { link.request(port, request).await })
    }
}
