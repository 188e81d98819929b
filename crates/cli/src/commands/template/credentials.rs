//! For the registry of an image. A password is never an argument, where every user of the machine could see it.

use std::io::Read;

use cabana_types::wire::RegistryCredentials;
use cabana_types::{Secret, env};

use crate::connection::variable;
use crate::failure::Failure;

/// A password is one short line; more is not read.
const MAX_PASSWORD_BYTES: u64 = 4096;

/// Who asks the registry.
#[derive(Debug, clap::Args)]
pub(super) struct Login {
    /// User for the registry of its images; the password is in CABANA_REGISTRY_PASSWORD
    #[arg(long, value_name = "USER")]
    registry_user: Option<String>,
    /// Read the password from standard input instead
    #[arg(long, requires = "registry_user")]
    registry_password_stdin: bool,
}

impl Login {
    /// With the password, if a user is named.
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
            Failure::yours(format!("there is no password for {user}"))
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
