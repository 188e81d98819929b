//! Signing in and out, over restarts.

use cabana_store::{ApiKey, Store, Team};
use cabana_types::{KeyId, TeamId};
use jiff::Timestamp;

use super::{Accounts, Client, SignInError};

struct World {
    directory: tempfile::TempDir,
    store: Store,
}

fn team() -> TeamId {
    "default".parse().expect("id")
}

async fn world() -> World {
    let directory = tempfile::tempdir().expect("directory");
    let store = Store::open(&directory.path().join("cabana.db")).await.expect("store");
    let now = Timestamp::now();
    let key = ApiKey {
        id: KeyId::from_random([1; 16]),
        team: team(),
        hash: [1; 32],
        name: "first".into(),
        prefix: "e2b_".into(),
        suffix: "0000".into(),
        created_at: now,
        last_used_at: None,
        scopes: cabana_types::Permissions::PLAIN_KEY,
        expires_at: None,
        cidrs: vec![],
        created_by: None,
        project: None,
    };
    store.create_first_team(Team { id: team(), name: "default".into(), created_at: now }, key).await.expect("team");
    World { directory, store }
}

#[tokio::test]
async fn a_code_signs_in_once() {
    let world = world().await;
    let accounts = Accounts::open(world.store.clone()).await.expect("accounts");
    let (code, _) = accounts.make_code().await.expect("code");
    let first = accounts.sign_in_by_code(code.expose(), team(), Client::default()).await.expect("signed in");
    let again = accounts.sign_in_by_code(code.expose(), team(), Client::default()).await;
    assert!(matches!(again, Err(SignInError::InvalidCode)));
    for wrong in ["", "x", &"x".repeat(1000)] {
        let answer = accounts.sign_in_by_code(wrong, team(), Client::default()).await;
        assert!(matches!(answer, Err(SignInError::InvalidCode)), "{wrong}");
    }
    // The next code enters the same account.
    let (code, _) = accounts.make_code().await.expect("code");
    let second = accounts.sign_in_by_code(code.expose(), team(), Client::default()).await.expect("signed in");
    assert_eq!(first.session.user.id, second.session.user.id);
    assert_ne!(first.token.expose(), second.token.expose());
    assert_eq!(accounts.sessions_of(&first.session.user.id).len(), 2);
}

#[tokio::test]
async fn a_session_survives_a_restart_and_ends_when_signed_out() {
    let world = world().await;
    let accounts = Accounts::open(world.store.clone()).await.expect("accounts");
    let (code, _) = accounts.make_code().await.expect("code");
    let signed_in = accounts.sign_in_by_code(code.expose(), team(), Client::default()).await.expect("signed in");
    accounts.record().await.expect("recorded");
    drop(accounts);
    world.store.close().await;
    let store = Store::open(&world.directory.path().join("cabana.db")).await.expect("store");
    let accounts = Accounts::open(store).await.expect("accounts");
    let session = accounts.session(signed_in.token.expose()).expect("session");
    assert_eq!((&session.id, &session.user.name[..]), (&signed_in.session.id, "admin"));
    assert!(accounts.session("another").is_none());
    assert!(accounts.sign_out(&session.user.id, &session.id).await.expect("signed out"));
    assert!(session.ended.is_cancelled() && accounts.session(signed_in.token.expose()).is_none());
    assert!(!accounts.sign_out(&session.user.id, &session.id).await.expect("signed out before"));
}

#[tokio::test]
async fn a_session_ends_with_its_key() {
    let world = world().await;
    let accounts = Accounts::open(world.store.clone()).await.expect("accounts");
    let key = KeyId::from_random([1; 16]);
    let by_key = accounts.sign_in_by_key(key.clone(), team(), None, Client::default()).await.expect("signed in");
    let (code, _) = accounts.make_code().await.expect("code");
    let by_code = accounts.sign_in_by_code(code.expose(), team(), Client::default()).await.expect("signed in");
    accounts.key_removed(&key).await.expect("ended");
    assert!(accounts.session(by_key.token.expose()).is_none());
    assert!(accounts.session(by_code.token.expose()).is_some());
    assert_eq!(world.store.sessions().await.expect("rows").len(), 1);
}

#[tokio::test]
async fn a_user_has_a_bounded_number_of_sessions() {
    let world = world().await;
    let accounts = Accounts::open(world.store.clone()).await.expect("accounts");
    let key = KeyId::from_random([1; 16]);
    let first = accounts.sign_in_by_key(key.clone(), team(), None, Client::default()).await.expect("signed in");
    for _ in 0..100 {
        accounts.sign_in_by_key(key.clone(), team(), None, Client::default()).await.expect("signed in");
    }
    assert!(first.session.ended.is_cancelled() && accounts.session(first.token.expose()).is_none());
    assert_eq!(accounts.sessions_of(&first.session.user.id).len(), 100);
    assert_eq!(world.store.sessions().await.expect("rows").len(), 100);
}
