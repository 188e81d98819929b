//! The `secrets` of a request to create a sandbox, as Novita's clients send them: each becomes a placeholder in the environment.

use std::collections::BTreeMap;

use cabana_store::SecretRef;
use cabana_types::TeamId;
use cabana_types::egress::Placeholder;
use cabana_types::limits::MAX_PLACEHOLDERS;

use super::App;
use crate::error::{ApiError, short};

impl App {
    /// Placeholders for secrets, which are added to the environment under the given names.
    pub(super) async fn placeholders(
        &self,
        team: &TeamId,
        secrets: &BTreeMap<String, String>,
        environment: &mut BTreeMap<String, String>,
    ) -> Result<Vec<Placeholder>, ApiError> {
        if secrets.len() > MAX_PLACEHOLDERS {
            let text = format!("secrets has {} entries; at most {MAX_PLACEHOLDERS} are taken", secrets.len());
            return Err(ApiError::invalid(text));
        }
        let mut placeholders = Vec::new();
        for (variable, name) in secrets {
            let wrong = |reason: &str| {
                ApiError::invalid(format!("secrets: {:?} for the variable {:?} {reason}", short(name), short(variable)))
            };
            if environment.contains_key(variable) {
                return Err(wrong("is in envVars, too: a variable has one value"));
            }
            let found = self.store.secret(team, &SecretRef::Name(name.clone())).await?;
            let found = found.ok_or_else(|| wrong("does not exist: create it first"))?;
            let hosts: Vec<_> = found.hosts.iter().filter_map(|host| host.parse().ok()).collect();
            if hosts.is_empty() {
                return Err(wrong("has no hosts that it is for: set them with PUT /secrets/{name}"));
            }
            let placeholder = Placeholder::from_random(rand::random(), found.name, hosts);
            environment.insert(variable.clone(), placeholder.text.clone());
            placeholders.push(placeholder);
        }
        Ok(placeholders)
    }
}
