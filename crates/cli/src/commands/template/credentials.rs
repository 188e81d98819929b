//! Registry credentials. A password is never passed as an argument, which other users of the machine could see.

use std::io::Read;

use cabana_types::wire::RegistryCredentials;
use cabana_types::{Secret, env};

use crate::connection::variable;
use crate::failure::Failure;

/// Limit on the length of a password.
const MAX_PASSWORD_BYTES: u64 = 4096;

/// Registry credentials.
#[derive(Debug, clap::Args)]
pub(super) struct Login {
    /// User for the images' registry; the password is read from CABANA_REGISTRY_PASSWORD
    #[arg(long, value_name = "USER")]
    registry_user: Option<String>,
    /// Read the password from standard input instead
    #[arg(long, requires = "registry_user")]
    registry_password_stdin: bool,
}

impl Login {
    /// Reads the password if a user is given.
    pub(super) fn credentials(&self) -> Result<Option<RegistryCredentials>, Failure> {
        let Some(user) = &self.registry_user else { return Ok(None) };
        let password = if self.registry_password_stdin {
            let mut text = String::new();
            std::io::stdin().lock().take(MAX_PASSWORD_BYTES).read_to_string(&mut text)?;
            Some(text.trim_end_matches(['\r', '\n']).to_owned()).filter(|text| !text.is_empty())
        } else {
            variable(env::REGISTRY_PASSWORD)
        };
        let missing = || {
            Failure::user_error(format!("there is no password for {user}"))
                .hint("set CABANA_REGISTRY_PASSWORD, or pipe it in with --registry-password-stdin")
        };
        Ok(Some(RegistryCredentials {
            kind: "registry".to_owned(),
            username: Some(user.clone()),
            password: Some(Secret::new(password.ok_or_else(missing)?)),
            aws_access_key_id: None,
            aws_secret_access_key: None,
            aws_region: None,
            service_account_json: None,
        }))
    }
}
