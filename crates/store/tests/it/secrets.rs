//! Secrets, signing keys and certificate authorities: isolated, unique, and deleted with their owner.

use std::collections::BTreeMap;

use cabana_store::{SealedAuthority, SealedSecret, SecretChange, SecretInserted, SecretRef, SigningKey};
use cabana_types::sandbox::EndCause;
use cabana_types::{SecretId, TeamId};

use crate::{TestDatabase, at, insert, other_team, sandbox, sandbox_id, team};

fn secret(n: u8, team: TeamId, name: &str) -> SealedSecret {
    SealedSecret {
        id: SecretId::from_uuid([n; 16]),
        team,
        name: name.into(),
        version: 1,
        value: vec![n; 30],
        metadata: BTreeMap::from([("k".into(), "v".into())]),
        hosts: vec!["api.example.com".into()],
        description: Some("d".into()),
        placeholder: format!("p{n}"),
        created_at: at(i64::from(n)),
        updated_at: at(i64::from(n)),
    }
}

#[tokio::test]
async fn names_are_unique_in_a_team_in_any_case() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    store.add_team(cabana_store::Team { id: other_team(), name: "other".into(), ..team() }).await.expect("team");
    let add = async |n, team, name| store.insert_secret(secret(n, team, name), 3).await.expect("insert");
    assert_eq!(add(1, team().id, "Key").await, SecretInserted::New);
    assert_eq!(add(2, team().id, "kEY").await, SecretInserted::Exists);
    assert_eq!(add(3, other_team(), "key").await, SecretInserted::New);
    assert_eq!(add(4, team().id, "b").await, SecretInserted::New);
    assert_eq!(add(5, team().id, "c").await, SecretInserted::New);
    assert_eq!(add(6, team().id, "d").await, SecretInserted::Full);
    assert_eq!(add(6, team().id, "KEY").await, SecretInserted::Exists, "the name is what is wrong");

    let find = async |team: &TeamId, secret: SecretRef| store.secret(team, &secret).await.expect("read");
    assert_eq!(find(&team().id, SecretRef::Name("KEY".into())).await, Some(secret(1, team().id, "Key")));
    assert_eq!(find(&team().id, SecretRef::Id(SecretId::from_uuid([3; 16]))).await, None, "it is another team's");
    let page = store.secrets(&team().id, Some(&SecretId::from_uuid([1; 16])), 1).await.expect("page");
    assert_eq!(page.iter().map(|secret| secret.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(store.secrets(&team().id, None, 10).await.expect("page").len(), 3);
    assert!(!format!("{page:?}").contains("value"), "{page:?}");
}

#[tokio::test]
async fn a_change_keeps_what_it_does_not_name() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let (id, own) = (SecretId::from_uuid([1; 16]), team().id);
    store.insert_secret(secret(1, own.clone(), "key"), 9).await.expect("insert");
    let change = |metadata, binding| SecretChange { value: vec![9], metadata, binding };
    let changed = store.change_secret(own.clone(), id.clone(), change(None, None), at(50)).await.expect("change");
    let expected = SealedSecret { version: 2, value: vec![9], updated_at: at(50), ..secret(1, own.clone(), "key") };
    assert_eq!(changed, Some(expected.clone()));
    let all = change(Some(BTreeMap::new()), Some((vec!["b.org".into()], None)));
    let changed =
        store.change_secret(own.clone(), id.clone(), all.clone(), at(60)).await.expect("change").expect("found");
    assert_eq!((changed.version, changed.metadata.len(), changed.description), (3, 0, None));
    assert_eq!(changed.hosts, ["b.org"]);
    assert_eq!(store.change_secret(other_team(), id.clone(), all.clone(), at(61)).await.expect("change"), None);
    assert!(!store.remove_secret(other_team(), id.clone()).await.expect("remove"));
    assert!(store.remove_secret(own.clone(), id.clone()).await.expect("remove"));
    assert!(!store.remove_secret(own.clone(), id.clone()).await.expect("remove"));
    assert_eq!(store.change_secret(own, id, all, at(62)).await.expect("change"), None);
}

#[tokio::test]
async fn an_authority_ends_with_its_sandbox() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let authority = |n: u8| SealedAuthority { certificate: format!("certificate {n}"), key: vec![n] };
    assert!(!store.insert_authority(sandbox_id(1), authority(1)).await.expect("no such sandbox"));
    insert(&store, sandbox(1)).await;
    assert_eq!(store.sandbox(&sandbox_id(1)).await.expect("read").expect("row").iam, sandbox(1).iam);
    assert!(store.insert_authority(sandbox_id(1), authority(1)).await.expect("first"));
    assert!(!store.insert_authority(sandbox_id(1), authority(2)).await.expect("second"));
    assert!(store.authority(&sandbox_id(1)).await.expect("read") == Some(authority(1)));
    store.started(sandbox_id(1), at(1), at(301)).await.expect("up");
    store.end(sandbox_id(1), EndCause::OutOfMemory, at(2)).await.expect("end");
    store.removed(sandbox_id(1), at(3)).await.expect("removed");
    assert!(store.authority(&sandbox_id(1)).await.expect("read").is_none());
    assert!(!store.insert_authority(sandbox_id(1), authority(3)).await.expect("too late"));
}

#[tokio::test]
async fn retired_signing_keys_are_kept_for_a_while() {
    let database = TestDatabase::new();
    let store = database.populated().await;
    let key = |n: u8| SigningKey {
        id: format!("k{n}"),
        key: vec![n],
        public: vec![n, n],
        created_at: at(i64::from(n) * 100),
        retired_at: None,
    };
    for n in 1..=3 {
        store.rotate_signing_key(key(n), at(i64::from(n) * 100 - 150)).await.expect("rotate");
    }
    let ids = |keys: Vec<SigningKey>| keys.into_iter().map(|key| (key.id, key.retired_at)).collect::<Vec<_>>();
    let expected = [("k3".to_owned(), None), ("k2".into(), Some(at(300))), ("k1".into(), Some(at(200)))];
    assert_eq!(ids(store.signing_keys().await.expect("keys")), expected);
    store.rotate_signing_key(key(4), at(250)).await.expect("rotate");
    assert_eq!(store.signing_keys().await.expect("keys").len(), 3, "k1 was retired before");
    store.forget_sealed().await.expect("forget");
    assert!(store.signing_keys().await.expect("keys").is_empty());
}
