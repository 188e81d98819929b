//! `POST /init`: the host changes settings of a running sandbox. Fields that are missing stay unchanged.

use std::collections::BTreeMap;

use cabana_types::Secret;
use serde::Deserialize;

use crate::guest::Settings;

/// Request body; other fields that E2B's hosts send are ignored.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Request {
    /// Variables to set; `null` removes one.
    env_vars: Option<BTreeMap<String, Option<String>>>,
    /// The new token; an empty one disables authentication.
    access_token: Option<Secret>,
    default_user: Option<String>,
    default_workdir: Option<String>,
}

impl Request {
    /// Applies the request to the settings.
    pub(crate) fn apply(self, settings: &mut Settings) {
        for (name, value) in self.env_vars.unwrap_or_default() {
            match value {
                // Such a name cannot be passed to a process.
                Some(_) if name.is_empty() || name.contains(['=', '\0']) => {}
                Some(value) => drop(settings.env.insert(name, value)),
                None => drop(settings.env.remove(&name)),
            }
        }
        if let Some(token) = self.access_token {
            settings.access_token = Some(token).filter(|t| !t.expose().is_empty());
        }
        if let Some(user) = self.default_user.filter(|u| !u.is_empty()) {
            settings.default_user = user;
        }
        if let Some(workdir) = self.default_workdir {
            settings.default_workdir = Some(workdir).filter(|w| !w.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_changes() {
        let mut settings = Settings {
            access_token: Some(Secret::new("old")),
            env: BTreeMap::from([("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())]),
            trust: Vec::new(),
            default_user: "user".to_owned(),
            default_workdir: None,
        };
        let request = |text: &str| serde_json::from_str::<Request>(text).unwrap();
        request("{}").apply(&mut settings);
        assert_eq!(settings.access_token, Some(Secret::new("old")));
        request(
            r#"{"envVars":{"B":null,"C":"3","x=y":"4"},"defaultWorkdir":"/app","timestamp":"t","volumeMounts":[]}"#,
        )
        .apply(&mut settings);
        assert_eq!(settings.env.keys().collect::<Vec<_>>(), ["A", "C"]);
        assert_eq!(settings.default_workdir.as_deref(), Some("/app"));
        request(r#"{"accessToken":"","defaultUser":"root"}"#).apply(&mut settings);
        assert_eq!((settings.access_token, settings.default_user.as_str()), (None, "root"));
    }
}
