//! How a command fails: the chain of causes, what to do next, and the exit code.

use std::any::Any;
use std::fmt;

/// Exit code when the caller can mend it: a wrong argument, a missing sandbox.
pub(crate) const YOURS: u8 = 1;
/// Exit code when the caller cannot: no server, a broken connection, a fault inside.
pub(crate) const OURS: u8 = 2;

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
    /// A failure that the caller can mend.
    pub(crate) fn yours(message: impl Into<String>) -> Self {
        Self { error: anyhow::Error::msg(message.into()), code: YOURS, hint: None, silent: false }
    }

    /// Says what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts what was tried in front.
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

    /// Nothing is to be printed: the reader of our output went away.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    pub(crate) fn chain(&self) -> impl Iterator<Item = String> {
        self.error.chain().map(ToString::to_string)
    }

    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The client's error inside, if it is one.
    pub(crate) fn client_error(&self) -> Option<&cabana_client::Error> {
        self.error.downcast_ref()
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let any: &dyn Any = &error;
        let (mut code, mut hint, mut silent) = (OURS, None, false);
        if let Some(client) = any.downcast_ref::<cabana_client::Error>() {
            code = if client.is_callers_fault() { YOURS } else { OURS };
            hint = hint_of(client);
        } else if let Some(io) = any.downcast_ref::<std::io::Error>() {
            code = YOURS;
            if io.kind() == std::io::ErrorKind::BrokenPipe {
                // As if the signal had ended us, which is what every other program does.
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
            "`cabana tls ca` on the server's machine prints the authority to trust; name its file in SSL_CERT_FILE"
                .to_owned(),
        ),
        E::Unreachable { .. } => Some(
            "start a server with `cabana server`, or name the one to use with --api-url or CABANA_API_URL".to_owned(),
        ),
        E::InvalidUrl { .. } => Some("give it as --api-url http://HOST:PORT or https://HOST:PORT".to_owned()),
        E::Api { status: 401, .. } => Some(
            "the key is in <data dir>/key on the server's machine; give it with --api-key or CABANA_API_KEY".to_owned(),
        ),
        E::Api { status: 404, code: Some(cabana_types::ErrorCode::SandboxNotFound), .. } | E::Gone { .. } => {
            Some("`cabana ls` shows the sandboxes that are up".to_owned())
        }
        E::Api { status: 502, .. } => Some("`cabana ls` shows the sandboxes that are up".to_owned()),
        E::Api { code: Some(cabana_types::ErrorCode::TemplateNotFound), .. } => {
            Some("`cabana template ls` shows the templates that there are".to_owned())
        }
        _ => None,
    }
}
