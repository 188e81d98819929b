//! Settings that are never shown, and keys of model providers from the environment.

use toml::{Table, Value};

use super::{Settings, Source};
use crate::config::ConfigError;

/// The setting that is never shown.
pub(super) const SECRET: &str = "archive.secret";
/// The setting whose tables have one that is never shown.
pub(super) const PROVIDERS: &str = "models.providers";
/// Providers that exist once their key is in the environment. Their name is their kind.
const WELL_KNOWN: [&str; 2] = ["anthropic", "openai"];

/// A setting as it may be printed.
pub(super) fn shown(name: &str, value: &Value) -> String {
    match (name, value) {
        (SECRET, Value::String(text)) if !text.is_empty() => format!("{name} = \"…\""),
        (PROVIDERS, Value::Table(providers)) => {
            let mut providers = providers.clone();
            for (_, provider) in &mut providers {
                if let Some(key) = provider.as_table_mut().and_then(|table| table.get_mut("key")) {
                    *key = Value::String("…".into());
                }
            }
            format!("{name} = {}", Value::Table(providers))
        }
        _ => format!("{name} = {value}"),
    }
}

/// Refuses a secret that is no text: what is said about it later would contain it.
pub(super) fn check_type(name: &str, value: &Value, source: &Source) -> Result<(), ConfigError> {
    let wrong = |name: &str| {
        let message = format!("{name}: expected text in quotes");
        Err(ConfigError::Invalid { origin: source.clone(), message })
    };
    match (name, value) {
        (SECRET, value) if !value.is_str() => wrong(name),
        (PROVIDERS, Value::Table(providers)) => {
            let mut keys = providers.iter().filter_map(|(name, table)| Some((name, table.as_table()?.get("key")?)));
            keys.find(|(_, key)| !key.is_str()).map_or(Ok(()), |(of, _)| wrong(&format!("{name}.{of}.key")))
        }
        _ => Ok(()),
    }
}

/// Takes the keys of providers from the environment.
pub(super) fn read_keys(settings: &mut Settings, variable: impl Fn(&str) -> Option<String>) {
    let Some((Value::Table(providers), source)) = settings.get_mut(PROVIDERS) else { return };
    let names: Vec<String> = providers.keys().cloned().chain(WELL_KNOWN.map(str::to_owned)).collect();
    for name in names {
        let named = format!("CABANA_MODELS_{}_KEY", name.to_ascii_uppercase().replace('-', "_"));
        let Some(key) = variable(&named).filter(|key| !key.trim().is_empty()) else { continue };
        let provider = providers.entry(name.clone()).or_insert_with(|| {
            let kind = Value::String(name);
            Value::Table(Table::from_iter([("kind".to_owned(), kind)]))
        });
        if let Value::Table(table) = provider {
            table.insert("key".into(), Value::String(key.trim().to_owned()));
            *source = Source::Variable(named.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use cabana_agent::provider::Kind;

    use super::super::Loaded;
    use super::super::tests::{complaint, read};
    use super::*;

    #[test]
    fn no_secret_is_ever_shown() {
        let file = "[archive]\nkey_id = \"visible\"\nsecret = \"hunter2\"\n";
        let from_file = read(Some(file), &[], &[]).expect("valid");
        let from_variable = read(None, &[("CABANA_ARCHIVE_SECRET", "hunter2")], &[]).expect("valid");
        let from_flag = read(None, &[], &[(SECRET, "hunter2")]).expect("valid");
        for loaded in [from_file, from_variable, from_flag] {
            assert_eq!(loaded.config.archive.secret.expose(), "hunter2");
            shows_no(&loaded, "hunter2");
        }
        // Also where it is no text, so that what is wrong with it must be said.
        for file in [
            "[archive]\nsecret = 271828",
            "[archive]\nsecret = [\"271828\"]",
            "[archive]\nsecret = \"271828",
            "[models.providers.a]\nkind = \"openai\"\nkey = 271828",
            "[models.providers.a]\nkind = \"openai\"\nkey = \"271828 \"",
        ] {
            assert!(!complaint(file, &[], &[]).contains("271828"), "{}", complaint(file, &[], &[]));
        }
    }

    fn shows_no(loaded: &Loaded, secret: &str) {
        for text in [format!("{loaded:?}"), format!("{loaded:#?}"), format!("{:?}", loaded.config), loaded.describe()] {
            assert!(!text.contains(secret), "{text}");
            assert!(text.contains("max_sandboxes"), "the rest is there: {text}");
        }
    }

    #[test]
    fn keys_of_providers_come_from_the_environment() {
        let file =
            "[models.providers.my-vllm]\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:8000/v1\"\nkey = \"old\"";
        let variables = [
            ("CABANA_MODELS_ANTHROPIC_KEY", "hunter2"),
            ("CABANA_MODELS_OPENAI_KEY", ""),
            ("CABANA_MODELS_MY_VLLM_KEY", "hunter2"),
            ("CABANA_MODELS_DEFAULT", "anthropic/some"),
        ];
        let loaded = read(Some(file), &variables, &[]).expect("valid");
        let providers = &loaded.config.models.providers;
        assert_eq!(providers.keys().collect::<Vec<_>>(), ["anthropic", "my-vllm"]);
        assert_eq!(providers["anthropic"].kind, Kind::Anthropic);
        for provider in providers.values() {
            assert_eq!(provider.key.as_ref().expect("a key").expose(), "hunter2");
        }
        shows_no(&loaded, "hunter2");
        assert!(loaded.describe().contains("# CABANA_MODELS_ANTHROPIC_KEY"), "the last one: {}", loaded.describe());
    }

    #[test]
    fn mistakes_in_models_are_named() {
        for (file, said) in [
            ("[models]\ndefault = \"x/y\"", "models.default: there is no provider \"x\"; there are demo"),
            ("[models]\ndefault = \"x\"", "models.default: \"x\" is not a model: write PROVIDER/MODEL"),
            ("[models.providers.demo]\nkind = \"openai\"", "demo is built in"),
            ("[models.providers.Local]\nkind = \"openai\"", "1 to 32 of a-z, 0-9 and -"),
            ("[models.providers.a]\nkind = \"ollama\"", "kind must be \"openai\" or \"anthropic\""),
            ("[models.providers.a]\nkind = \"openai\"\nbase_url = \"ftp://x\"", "must begin with https://"),
            ("[models.providers.a]\nkind = \"openai\"\nbase_url = \"http://u:p@x/\"", "must not have a user"),
            ("[models.providers.a]\nkind = \"openai\"\nmodels = [\"a b\"]", "is not the name of a model"),
            ("[models.prices.\"a\"]\ninput = 1\noutput = 2", "is not a model"),
            ("[models.prices.\"a/b\"]\ninput = -1\noutput = 2", "config.toml"),
            ("[models.windows]\n\"a/b\" = 3", "must be between 1000 and 100000000, not 3"),
            ("[models.windows]\n\"a/b\" = \"many\"", "config.toml"),
            ("[chat]\nidle_seconds = 3", "chat.idle_seconds: must be between 30 and 86400, not 3"),
        ] {
            let text = complaint(file, &[], &[]);
            assert!(text.contains(said), "{file}: {text}");
        }
        let list = "[models]\ndefault = \"a/n\"\n[models.providers.a]\nkind = \"openai\"\nmodels = [\"m\"]";
        assert!(complaint(list, &[], &[]).contains("provider a has no model \"n\"; it has m"));
        assert!(read(Some(&list.replace("a/n", "a/m")), &[], &[]).is_ok());
    }
}
