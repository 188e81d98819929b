//! Tests of which models there are for whom.

use cabana_types::Secret;
use jiff::Timestamp;

use super::*;
use crate::config::Loaded;

const FILE: &str = r#"
[models]
default = "local/small"
[models.providers.local]
kind = "openai"
base_url = "http://127.0.0.1:1/v1"
key = "hunter2"
[models.providers.few]
kind = "anthropic"
models = ["one", "two/three"]
[models.prices."few/one"]
input = 2
output = 4
[models.prices."mine/x"]
input = 2
output = 4
[models.windows]
"few/one" = 200000
"#;

async fn open(dir: &tempfile::TempDir) -> (Arc<Models>, Store) {
    let file = dir.path().join("config.toml");
    std::fs::write(&file, FILE).expect("write");
    let config = Loaded::read(Some(&file), |_| None, &[]).expect("valid").config;
    let store = Store::open(&dir.path().join("cabana.db")).await.expect("store");
    for id in [team(), other()] {
        let team = cabana_store::Team { name: id.to_string(), id, created_at: Timestamp::now() };
        store.add_team(team).await.expect("team");
    }
    (Models::open(&config.models, store.clone(), ProviderKeys::for_tests()), store)
}

fn team() -> TeamId {
    "a".parse().expect("team")
}

fn other() -> TeamId {
    "b".parse().expect("team")
}

fn row(name: &str, models: &[&str]) -> ProviderRow {
    ProviderRow {
        team: team(),
        name: name.into(),
        kind: "openai".into(),
        base_url: Some("https://models.example.com/v1".into()),
        key: None,
        models: models.iter().map(|name| (*name).to_owned()).collect(),
        created_at: Timestamp::now(),
    }
}

#[tokio::test]
async fn models_have_a_provider_a_window_and_perhaps_a_price() {
    let dir = tempfile::tempdir().expect("directory");
    let (models, _) = open(&dir).await;
    let demo = models.resolve(&team(), "demo/demo").await.unwrap_or_else(|unknown| panic!("{unknown:?}"));
    assert!(demo.demo && demo.window == 32_000 && demo.price.is_none());
    let one = models.resolve(&team(), "few/one").await.unwrap_or_else(|unknown| panic!("{unknown:?}"));
    assert_eq!((one.name.as_str(), one.window, one.price.is_some(), one.demo), ("one", 200_000, true, false));
    let three = models.resolve(&team(), "few/two/three").await.unwrap_or_else(|unknown| panic!("{unknown:?}"));
    assert_eq!((three.id.as_str(), three.name.as_str(), three.window), ("few/two/three", "two/three", 128_000));
    assert!(models.resolve(&team(), "local/anything:7b").await.is_ok(), "a provider without names has any");
    for (id, said) in [
        ("few/four", "Provider few has no model \"four\"; it has one, two/three"),
        ("demo/other", "Provider demo has no model \"other\"; it has demo"),
        ("mine/x", "There is no model provider \"mine\"; there are demo, few, local"),
        ("gpt", "\"gpt\" is not a model: write PROVIDER/MODEL"),
        ("/x", "\"/x\" is not a model: write PROVIDER/MODEL"),
        ("few/", "\"few/\" is not a model: write PROVIDER/MODEL"),
        ("few/a b", "\"few/a b\" is not a model: write PROVIDER/MODEL"),
    ] {
        let unknown = models.resolve(&team(), id).await.err().expect(id);
        assert_eq!(unknown.message, said);
        assert!(!unknown.hint.is_empty());
    }
    assert!(!format!("{models:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_team_has_its_own_providers_and_no_other_has_them() {
    let dir = tempfile::tempdir().expect("directory");
    let (models, store) = open(&dir).await;
    let keys = ProviderKeys::for_tests();
    let mut mine = row("mine", &[]);
    let sealed = keys.seal(&team(), "mine", mine.base_url.as_deref(), &Secret::new("k")).expect("sealed");
    mine.key = Some(sealed);
    store.set_provider(mine.clone()).await.expect("set");
    assert!(models.resolve(&team(), "mine/x").await.is_ok_and(|found| found.price.is_some()));
    let unknown = models.resolve(&other(), "mine/x").await.err().expect("another team");
    assert!(!unknown.message.contains("mine,") && unknown.message.ends_with("demo, few, local"), "{}", unknown.message);
    // A key that was sealed for another address does not open.
    store
        .set_provider(ProviderRow { base_url: Some("https://evil.example".into()), ..mine.clone() })
        .await
        .expect("set");
    let unknown = models.resolve(&team(), "mine/x").await.err().expect("refused");
    assert!(unknown.message.contains("cannot be read") && unknown.hint.contains("Set it again"), "{unknown:?}");
    assert!(store.delete_provider(team(), "mine".into()).await.expect("deleted"));
    assert!(models.resolve(&team(), "mine/x").await.is_err(), "from now on");
    // The operator's provider counts where both have the name.
    store.set_provider(row("few", &["five"])).await.expect("set");
    assert!(models.resolve(&team(), "few/five").await.is_err());
}

#[tokio::test]
async fn models_are_listed_with_what_is_known_of_them() {
    let dir = tempfile::tempdir().expect("directory");
    let (models, store) = open(&dir).await;
    store.set_provider(row("mine", &[])).await.expect("set");
    store.set_provider(row("named", &["b", "a"])).await.expect("set");
    let page = models.list(&team()).await.expect("listed");
    let ids: Vec<&str> = page.models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["demo/demo", "few/one", "few/two/three", "local/small", "mine/x", "named/b", "named/a"]);
    let defaults: Vec<&str> = page.models.iter().filter(|model| model.default).map(|model| model.id.as_str()).collect();
    assert_eq!(defaults, ["local/small"]);
    let providers = models.providers(&team()).await.expect("listed");
    let shown: Vec<_> = providers.iter().map(|one| (one.name.as_str(), one.scope.as_str(), one.has_key)).collect();
    assert_eq!(
        shown,
        [("few", "server", false), ("local", "server", true), ("mine", "team", false), ("named", "team", false)]
    );
    assert!(providers.iter().all(|one| (one.scope == "team") == one.base_url.is_some()));
    assert_eq!(models.list(&other()).await.expect("listed").models.len(), 4);
}

/// Calls of a team's provider never reach this machine or a private network, whatever its name resolves to.
#[tokio::test]
async fn a_teams_provider_is_on_the_internet() {
    let dir = tempfile::tempdir().expect("directory");
    let (models, store) = open(&dir).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("listen");
    let port = listener.local_addr().expect("address").port();
    for host in ["127.0.0.1", "localhost", "[::1]", "169.254.169.254"] {
        let base_url = Some(format!("http://{host}:{port}/v1"));
        store.set_provider(ProviderRow { base_url, ..row("mine", &[]) }).await.expect("set");
        let found = models.resolve(&team(), "mine/x").await.unwrap_or_else(|unknown| panic!("{unknown:?}"));
        let (pieces, _received) = tokio::sync::mpsc::channel(1);
        let request = cabana_agent::model::ModelRequest { model: found.name, ..Default::default() };
        let error = found.model.call(&request, &pieces).await.expect_err("refused");
        assert!(!error.code.is_retryable() || error.message.contains("address"), "{host}: {error:?}");
    }
    let accepted = tokio::time::timeout(std::time::Duration::from_millis(100), listener.accept()).await;
    assert!(accepted.is_err(), "nothing was connected to");
}
