//! A handle to one sandbox: commands (`command.rs`) and files (`files.rs`), through the server's edge.

use base64::Engine;
use cabana_proto::filesystem::FilesystemClient;
use cabana_proto::process::ProcessClient;
use cabana_types::routing::{ACCESS_TOKEN_HEADER, GUEST_PORT, SANDBOX_ID_HEADERS, SANDBOX_PORT_HEADERS};
use cabana_types::{SandboxId, Secret};
use connectrpc::client::{CallOptions, ClientConfig};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::Client;
use crate::api::USER_AGENT;
use crate::error::{Error, Result};
use crate::http::{CALL_TIMEOUT, Http};

/// Largest message of the guest that is read; listings of directories are large.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// Commands and files of one sandbox. Cheap to clone.
#[derive(Clone)]
pub struct SandboxHandle {
    client: Client,
    id: SandboxId,
    headers: HeaderMap,
    user: Option<String>,
    processes: ProcessClient<Http>,
    filesystem: FilesystemClient<Http>,
}

impl std::fmt::Debug for SandboxHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SandboxHandle").field("id", &self.id).field("user", &self.user).finish_non_exhaustive()
    }
}

impl SandboxHandle {
    pub(crate) fn new(client: Client, id: SandboxId, token: Option<&Secret>) -> Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static(SANDBOX_ID_HEADERS[0]), ascii(id.as_str())?);
        headers.insert(HeaderName::from_static(SANDBOX_PORT_HEADERS[0]), GUEST_PORT.into());
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        if let Some(token) = token {
            let mut value = ascii(token.expose())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(ACCESS_TOKEN_HEADER), value);
        }
        Self::build(client, id, headers, None)
    }

    fn build(client: Client, id: SandboxId, headers: HeaderMap, user: Option<String>) -> Result<Self> {
        let config = ClientConfig::new(client.http().uri("")?)
            .with_default_headers(headers.clone())
            .with_default_max_message_size(MAX_MESSAGE_BYTES);
        let processes = ProcessClient::new(client.http().clone(), config.clone());
        let filesystem = FilesystemClient::new(client.http().clone(), config);
        Ok(Self { client, id, headers, user, processes, filesystem })
    }

    /// The same sandbox, with commands and files as another user of it.
    pub fn as_user(&self, user: &str) -> Result<Self> {
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{user}:"));
        let mut headers = self.headers.clone();
        headers.insert(header::AUTHORIZATION, ascii(&format!("Basic {basic}"))?);
        Self::build(self.client.clone(), self.id.clone(), headers, Some(user.to_owned()))
    }

    /// The sandbox's id.
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// The client it was made from.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn http(&self) -> &Http {
        self.client.http()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(crate) fn processes(&self) -> &ProcessClient<Http> {
        &self.processes
    }

    pub(crate) fn filesystem(&self) -> &FilesystemClient<Http> {
        &self.filesystem
    }

    /// Options of unary calls.
    pub(crate) fn unary() -> CallOptions {
        CallOptions::default().with_timeout(CALL_TIMEOUT)
    }

    /// Translates an error of a unary call.
    pub(crate) fn error(&self, action: &'static str, error: connectrpc::ConnectError) -> Error {
        self.http().rpc_error(action, error)
    }

    /// Why a stream broke: if the sandbox has ended, the server's reason.
    pub(crate) async fn explain(&self, broken: Error) -> Error {
        use connectrpc::ErrorCode as Code;
        let cut = match &broken {
            Error::Guest { code, .. } => {
                matches!(code, Code::Internal | Code::Unavailable | Code::Unknown | Code::Canceled | Code::DataLoss)
            }
            other => other.is_connection(),
        };
        if !cut {
            return broken;
        }
        match self.client.get(&self.id).await {
            Err(Error::Api { status: 404, message, .. }) => Error::Gone { id: self.id.clone(), reason: message },
            _ => broken,
        }
    }
}

fn ascii(text: &str) -> Result<HeaderValue> {
    HeaderValue::from_str(text)
        .map_err(|_| Error::InvalidInput("a token or user has characters that cannot be sent".to_owned()))
}
