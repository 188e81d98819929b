//! How a command fails: the chain of causes, a hint, and the exit code.

use std::any::Any;
use std::fmt;

/// Exit code for errors that the caller can fix: a wrong argument, a missing sandbox.
pub(crate) const USER_ERROR: u8 = 1;
/// Exit code for other errors: no server, a broken connection, an internal error.
pub(crate) const SYSTEM_ERROR: u8 = 2;

/// Result of a command: its exit code, or why it failed.
pub(crate) type Outcome = Result<u8, Failure>;

/// Why a command failed. Not an error type itself, so that `?` turns every error into one.
#[derive(Debug)]
pub(crate) struct Failure {
    error: anyhow::Error,
    code: u8,
    hint: Option<String>,
    silent: bool,
}

impl Failure {
    /// A failure that the caller can fix.
    pub(crate) fn user_error(message: impl Into<String>) -> Self {
        Self { error: anyhow::Error::msg(message.into()), code: USER_ERROR, hint: None, silent: false }
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds context in front of the message.
    pub(crate) fn context(mut self, context: impl fmt::Display + Send + Sync + 'static) -> Self {
        self.error = self.error.context(context);
        self
    }

    /// Sets the exit code.
    pub(crate) fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    pub(crate) fn exit_code(&self) -> u8 {
        self.code
    }

    /// Whether nothing is printed: the reader of our output has gone.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    pub(crate) fn chain(&self) -> impl Iterator<Item = String> {
        self.error.chain().map(ToString::to_string)
    }

    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The client's error, if it was caused by one.
    pub(crate) fn client_error(&self) -> Option<&cabana_client::Error> {
        self.error.downcast_ref()
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        let (mut code, mut hint, mut silent) = (SYSTEM_ERROR, None, false);
        if let Some(client) = any.downcast_ref::<cabana_client::Error>() {
            code = if client.is_callers_fault() { USER_ERROR } else { SYSTEM_ERROR };
            hint = hint_of(client);
        } else if let Some(io) = any.downcast_ref::<std::io::Error>() {
            code = USER_ERROR;
            if io.kind() == std::io::ErrorKind::BrokenPipe {
                // The exit code of a process that was killed by SIGPIPE.
                (code, silent) = (128 + 13, true);
            }
        }
        Self { error: error.into(), code, hint, silent }
    }
}

fn hint_of(error: &cabana_client::Error) -> Option<String> {
    use cabana_client::Error as E;
    match error {
        E::Unreachable { source, .. } if source.to_string().contains("certificate") => Some(
            "`cabana tls ca` on the server's machine prints the authority to trust; set SSL_CERT_FILE to its file"
                .to_owned(),
        ),
        E::Unreachable { .. } => {
            Some("start a server with `cabana server`, or choose one with --api-url or CABANA_API_URL".to_owned())
        }
        E::InvalidUrl { .. } => Some("give it as --api-url http://HOST:PORT or https://HOST:PORT".to_owned()),
        E::Api { status: 401, .. } => Some(
            "the key is in <data dir>/key on the server's machine; give it with --api-key or CABANA_API_KEY".to_owned(),
        ),
        E::Api { status: 404, code: Some(cabana_types::ErrorCode::SandboxNotFound), .. } | E::Gone { .. } => {
            Some("`cabana ls` lists the sandboxes".to_owned())
        }
        E::Api { code: Some(cabana_types::ErrorCode::ServiceNotFound), .. } => {
            Some("`cabana service ls` lists the services".to_owned())
        }
        E::Api { code: Some(cabana_types::ErrorCode::ChatNotFound), .. } => {
            Some("`cabana chat ls` lists the chats".to_owned())
        }
        E::Api { code: Some(cabana_types::ErrorCode::ModelNotFound), .. } => {
            Some("`cabana model ls` lists the models; `cabana provider add` adds those of a provider".to_owned())
        }
        E::Api { status: 502, .. } => Some("`cabana ls` lists the sandboxes".to_owned()),
        E::Api { code: Some(cabana_types::ErrorCode::TemplateNotFound), .. } => {
            Some("`cabana template ls` lists the templates".to_owned())
        }
        _ => None,
    }
}
