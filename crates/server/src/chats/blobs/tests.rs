//! Tests of what is kept, and what is not.

use std::time::SystemTime;

use cabana_types::AttachmentId;
use jiff::Timestamp;

use super::*;

const MOST: u64 = 1000;
const TEAM_MOST: u64 = 1500;

async fn open(dir: &tempfile::TempDir) -> Arc<Blobs> {
    let store = Store::open(&dir.path().join("cabana.db")).await.expect("store");
    let team = cabana_store::Team { id: team(), name: "a".into(), created_at: Timestamp::now() };
    // Another server may have opened it before.
    let _ = store.add_team(team).await;
    Blobs::open(&dir.path().join("blobs"), store, Space::unlimited(), TEAM_MOST).expect("open")
}

fn team() -> TeamId {
    "a".parse().expect("team")
}

fn names(dir: &tempfile::TempDir) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir.path().join("blobs/a")) else { return vec![] };
    entries.map(|entry| entry.expect("entry").file_name().into_string().expect("name")).collect()
}

async fn refer(blobs: &Blobs, blob: &Blob, number: u8) -> AttachmentId {
    let id = AttachmentId::from_random([number; 20]);
    let row = cabana_store::AttachmentRow {
        id: id.clone(),
        team: team(),
        chat: None,
        kind: Default::default(),
        name: "f".into(),
        media_type: "text/plain".into(),
        size: blob.size,
        sha256: blob.sha256.clone(),
        status: Default::default(),
        path: None,
        error: None,
        created_at: Timestamp::now(),
        created_by: None,
    };
    blobs.store.insert_attachments(vec![row]).await.expect("inserted");
    id
}

#[tokio::test]
async fn a_file_is_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("directory");
    let blobs = open(&dir).await;
    let mut draft = blobs.begin(&team(), MOST).await.expect("begun");
    draft.write(b"abc").await.expect("written");
    assert!(names(&dir)[0].starts_with("draft-"));
    drop(draft);
    assert_eq!(names(&dir), Vec::<String>::new());

    let mut draft = blobs.begin(&team(), MOST).await.expect("begun");
    draft.write(&[0; 900]).await.expect("written");
    assert!(matches!(draft.write(&[0; 101]).await, Err(BlobError::TooLarge(MOST))));
    drop(draft);

    let blob = blobs.put(&team(), b"hello").await.expect("kept");
    assert_eq!(blob.sha256, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    assert_eq!((blob.size, blob.head.as_slice()), (5, &b"hello"[..]));
    assert_eq!(names(&dir), std::slice::from_ref(&blob.sha256));
    assert_eq!(blobs.content(&team(), &blob.sha256, 5).await.expect("read"), b"hello");
    assert!(blobs.content(&team(), &blob.sha256, 4).await.is_err());
    let again = blobs.put(&team(), b"hello").await.expect("kept");
    assert_eq!((again.sha256.as_str(), names(&dir).len()), (blob.sha256.as_str(), 1));
    let empty = blobs.put(&team(), b"").await.expect("kept");
    assert_eq!((empty.size, names(&dir).len()), (0, 2));
}

#[tokio::test]
async fn a_file_stays_while_something_refers_to_it_or_will() {
    let dir = tempfile::tempdir().expect("directory");
    let blobs = open(&dir).await;
    let blob = blobs.put(&team(), b"one").await.expect("kept");
    let name = blob.sha256.clone();
    assert!(!blobs.remove_unused(&team(), &name).await.expect("looked"), "it is held");
    let id = refer(&blobs, &blob, 1).await;
    drop(blob);
    assert!(!blobs.remove_unused(&team(), &name).await.expect("looked"), "a row has it");
    let pin = blobs.hold(&team(), &name).await.expect("there");
    assert!(blobs.store.delete_attachment(id).await.expect("deleted"));
    assert!(!blobs.remove_unused(&team(), &name).await.expect("looked"));
    drop(pin);
    let soon = SystemTime::now() + Duration::from_secs(60);
    assert_eq!(blobs.sweep(SystemTime::now() - Duration::from_secs(60)).await, 0, "it is young");
    assert_eq!(blobs.sweep(soon).await, 1);
    assert_eq!(names(&dir), Vec::<String>::new());
    assert!(blobs.hold(&team(), &name).await.is_none());
    assert!(!blobs.remove_unused(&team(), &name).await.expect("looked"));
}

#[tokio::test]
async fn an_upload_that_no_chat_has_is_removed() {
    let dir = tempfile::tempdir().expect("directory");
    let blobs = open(&dir).await;
    let blob = blobs.put(&team(), b"one").await.expect("kept");
    let id = refer(&blobs, &blob, 1).await;
    drop(blob);
    assert_eq!(blobs.sweep(SystemTime::now() - Duration::from_secs(60)).await, 0, "it is young");
    assert!(blobs.store.attachment(&id).await.expect("read").is_some());
    assert_eq!(blobs.sweep(SystemTime::now() + Duration::from_secs(60)).await, 1);
    assert!(blobs.store.attachment(&id).await.expect("read").is_none());
    assert_eq!(names(&dir), Vec::<String>::new());
}

#[tokio::test]
async fn drafts_of_an_earlier_server_are_removed() {
    let dir = tempfile::tempdir().expect("directory");
    std::fs::create_dir_all(dir.path().join("blobs/a")).expect("directory");
    std::fs::write(dir.path().join("blobs/a/draft-x"), "x").expect("written");
    let blobs = open(&dir).await;
    assert_eq!(names(&dir), Vec::<String>::new());
    std::fs::write(dir.path().join("blobs/a/draft-y"), "y").expect("written");
    blobs.sweep(SystemTime::now() - Duration::from_secs(60)).await;
    assert_eq!(names(&dir), ["draft-y"], "one that may still be written stays");
    blobs.sweep(SystemTime::now() + Duration::from_secs(60)).await;
    assert_eq!(names(&dir), Vec::<String>::new());
}

#[tokio::test]
async fn a_team_has_so_many_bytes() {
    let dir = tempfile::tempdir().expect("directory");
    let blobs = open(&dir).await;
    let first = blobs.put(&team(), &[1; 800]).await.expect("kept");
    // What no row refers to yet counts too.
    assert!(matches!(blobs.put(&team(), &[2; 701]).await, Err(BlobError::Full(TEAM_MOST))));
    refer(&blobs, &first, 1).await;
    drop(first);
    let second = blobs.put(&team(), &[2; 700]).await.expect("kept");
    refer(&blobs, &second, 2).await;
    drop(second);
    assert!(matches!(blobs.put(&team(), &[3; 1]).await, Err(BlobError::Full(TEAM_MOST))));
    blobs.put(&"b".parse().expect("team"), &[3; 800]).await.expect("another team has its own");
}
