//! Cold storage in a directory and in a bucket, with all kinds of faults.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cabana_storage::Error;
use cabana_storage::cold::{ColdConfig, ColdStore, Digest, Manifest, Source, Timeouts};
use cabana_storage::pack::{Limits, Packed, Selection, Unpacked};
use cabana_types::SandboxId;
use cabana_types::error;
use rand::{RngCore, SeedableRng};
use tokio_util::sync::CancellationToken;

use crate::s3::{Call, Fault, Server};
use crate::tree;

const MIB: usize = 1 << 20;

struct Place(tempfile::TempDir);

impl Place {
    /// A disk with a file of random bytes, which cannot be compressed, and some others.
    fn new(size: usize) -> Self {
        let place = Self(tempfile::Builder::new().prefix("cabana-cold-").tempdir().expect("a directory"));
        place.fill(size);
        place
    }

    fn fill(&self, size: usize) {
        fs::create_dir_all(self.path("from/upper/etc")).expect("made");
        let mut bytes = vec![0; size];
        rand::rngs::SmallRng::seed_from_u64(7).fill_bytes(&mut bytes);
        fs::write(self.path("from/upper/random"), bytes).expect("written");
        fs::write(self.path("from/upper/etc/text"), "text\n".repeat(1000)).expect("written");
        tree::set(&self.path("from/upper/etc/text"), b"user.e2b.a", b"b");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn directory(&self) -> ColdConfig {
        ColdConfig { location: self.path("cold").display().to_string(), ..ColdConfig::default() }
    }

    fn source(&self) -> Source {
        Source { disk: open(&self.path("from")), selection: Selection::Everything, limits: Limits::default() }
    }

    async fn put(&self, store: &ColdStore, generation: u64) -> Result<(Manifest, Packed), Error> {
        store.put(&id(), generation, self.source(), &CancellationToken::new()).await
    }

    async fn get(&self, store: &ColdStore, generation: u64) -> Result<(Manifest, Unpacked), Error> {
        self.get_expected(store, generation, None).await
    }

    async fn get_expected(
        &self,
        store: &ColdStore,
        generation: u64,
        expected: Option<&Digest>,
    ) -> Result<(Manifest, Unpacked), Error> {
        let _ = fs::remove_dir_all(self.path("to"));
        fs::create_dir(self.path("to")).expect("made");
        let (disk, limits) = (open(&self.path("to")), Limits::default());
        store.get(&id(), generation, expected, disk, &limits, &CancellationToken::new()).await
    }

    fn assert_back(&self) {
        tree::assert_same(&self.path("from/upper"), &self.path("to/upper"));
    }
}

fn open(path: &Path) -> OwnedFd {
    fs::File::open(path).expect("a directory").into()
}

fn id() -> SandboxId {
    "iabcdefghij".parse().expect("an id")
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("listed");
    let mut names: Vec<_> = entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

async fn life(place: &Place, store: &ColdStore) {
    assert_eq!(store.list().await.expect("listed"), []);
    let missing = place.get(store, 1).await.expect_err("nothing there");
    assert!(matches!(missing, Error::ColdMissing { .. }), "{missing:?}");
    let (manifest, packed) = place.put(store, 1).await.expect("put");
    assert_eq!((manifest.bytes, manifest.entries), (packed.bytes, packed.entries));
    assert_eq!((manifest.generation, &manifest.sandbox_id), (1, &id()));
    let (found, unpacked) = place.get_expected(store, 1, Some(&manifest.sha256)).await.expect("got");
    assert_eq!((found, unpacked.entries), (manifest.clone(), packed.entries));
    place.assert_back();
    let other = "0".repeat(64).parse().expect("a digest");
    let exchanged = place.get_expected(store, 1, Some(&other)).await.expect_err("another");
    assert!(matches!(exchanged, Error::ColdDamaged { .. }), "{exchanged:?}");
    place.put(store, 2).await.expect("put again");
    place.put(store, 12).await.expect("and again");
    let listed = store.list().await.expect("listed");
    let kept: Vec<_> = listed.iter().map(|kept| (kept.id.clone(), kept.generation, kept.complete)).collect();
    assert_eq!(kept, [(id(), 1, true), (id(), 2, true), (id(), 12, true)]);
    assert!(listed.iter().all(|kept| kept.bytes > manifest.length));
    for _ in 0..2 {
        store.delete(&id(), 1).await.expect("deleted");
        store.delete(&id(), 12).await.expect("deleted");
    }
    assert_eq!(store.list().await.expect("listed").len(), 1);
    place.get(store, 2).await.expect("got");
    place.assert_back();
    store.delete(&id(), 2).await.expect("deleted");
    assert_eq!(store.list().await.expect("listed"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_keeps_disks() {
    for size in [1000, 40 * MIB] {
        let place = Place::new(size);
        let store = ColdStore::open(&place.directory()).await.expect("a store");
        life(&place, &store).await;
        assert_eq!(names(&place.path("cold")), Vec::<String>::new());
        let mode = fs::metadata(place.path("cold")).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_disks() {
    for size in [1000, 16 * MIB, 40 * MIB] {
        let place = Place::new(size);
        let server = Server::start().await;
        // Foreign objects are ignored.
        server.put("some/prefixed/iother-1.json", "{}");
        server.put("some/prefix/readme.txt", "hello");
        server.put("some/prefix/below/iother-1.json", "{}");
        let store = ColdStore::open(&server.config()).await.expect("a store");
        life(&place, &store).await;
        assert_eq!(server.objects().len(), 3);
        assert_eq!(server.uploads(), 0);
        assert_eq!(server.calls(Call::Create) > 0, size > MIB);
        server.assert_well_spoken();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn part_of_a_disk_is_kept() {
    let place = Place::new(1000);
    let store = ColdStore::open(&place.directory()).await.expect("a store");
    let selection = Selection::Paths(vec!["etc/text".to_owned(), "home/user".to_owned()]);
    let source = Source { selection, ..place.source() };
    let (_, packed) = store.put(&id(), 3, source, &CancellationToken::new()).await.expect("put");
    assert_eq!(packed.missing, ["home/user"]);
    place.get(&store, 3).await.expect("got");
    assert_eq!(names(&place.path("to/upper")), ["etc"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_is_detected() {
    let place = Place::new(3 * MIB);
    let store = ColdStore::open(&place.directory()).await.expect("a store");
    let (manifest, _) = place.put(&store, 1).await.expect("put");
    let (data, beside) = (place.path("cold/iabcdefghij-1.tar.zst"), place.path("cold/iabcdefghij-1.json"));
    let good = fs::read(&data).expect("read");
    assert_eq!(good.len() as u64, manifest.length);
    let mut wrong = vec![good[..good.len() - 1].to_vec(), [good.as_slice(), b"x"].concat(), Vec::new()];
    for at in [0, 5, good.len() / 2, good.len() - 1] {
        let mut changed = good.clone();
        changed[at] ^= 1;
        wrong.push(changed);
    }
    for (number, bytes) in wrong.into_iter().enumerate() {
        fs::write(&data, bytes).expect("written");
        let error = place.get(&store, 1).await.expect_err("damaged");
        assert!(matches!(error, Error::ColdDamaged { .. } | Error::Archive { .. }), "{number}: {error:?}");
    }
    fs::remove_file(&data).expect("removed");
    assert!(matches!(place.get(&store, 1).await, Err(Error::ColdMissing { .. })));
    // A complete archive, but another one.
    fs::write(place.path("from/upper/etc/more"), "more").expect("written");
    place.put(&store, 2).await.expect("put");
    fs::copy(place.path("cold/iabcdefghij-2.tar.zst"), &data).expect("copied");
    let error = place.get(&store, 1).await.expect_err("another");
    assert!(matches!(error, Error::ColdDamaged { .. }), "{error:?}");
    fs::write(&data, &good).expect("written");
    place.get(&store, 1).await.expect("good again");
    for text in ["", "{", "{\"format\":9}", &"x".repeat(100_000)] {
        fs::write(&beside, text).expect("written");
        let error = place.get(&store, 1).await.expect_err("no manifest");
        assert!(matches!(error, Error::ColdDamaged { .. }), "{error:?}");
    }
    fs::copy(place.path("cold/iabcdefghij-2.json"), &beside).expect("copied");
    let error = place.get(&store, 1).await.expect_err("another manifest");
    assert!(error.to_string().contains("generation 2"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_cannot_be_packed_leaves_nothing() {
    let place = Place::new(40 * MIB);
    std::os::unix::fs::chown(place.path("from/upper/random"), Some(70_000), None).expect("owned");
    let server = Server::start().await;
    for config in [place.directory(), server.config()] {
        let store = ColdStore::open(&config).await.expect("a store");
        let error = place.put(&store, 1).await.expect_err("an owner");
        assert!(matches!(error, Error::Archive { .. }), "{error:?}");
        assert_eq!(store.list().await.expect("listed"), []);
    }
    assert_eq!(names(&place.path("cold")), Vec::<String>::new());
    assert_eq!((server.objects().len(), server.uploads()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_faults_are_retried() {
    let place = Place::new(40 * MIB);
    let server = Server::start().await;
    let store = ColdStore::open(&server.config()).await.expect("a store");
    let faults = [
        (Call::Create, Fault::Status(500)),
        (Call::Create, Fault::Status(503)),
        (Call::Create, Fault::Hang),
        (Call::Part, Fault::Status(500)),
        (Call::Part, Fault::Hang),
        (Call::Part, Fault::Lost),
        (Call::Complete, Fault::Status(503)),
        (Call::Complete, Fault::Lost),
        (Call::Put, Fault::Status(500)),
        (Call::Put, Fault::Hang),
        (Call::Put, Fault::Lost),
        (Call::Head, Fault::Status(500)),
        (Call::Head, Fault::Hang),
        (Call::Get, Fault::Status(429)),
        (Call::Get, Fault::Hang),
        (Call::Get, Fault::Cut),
        (Call::Get, Fault::HangInBody),
    ];
    for (generation, (call, fault)) in (1..).zip(faults) {
        // Each of these takes a request timeout.
        let times = if matches!(fault, Fault::Hang | Fault::HangInBody) { 1 } else { 2 };
        server.recover();
        server.fail(call, fault, times);
        place.put(&store, generation).await.unwrap_or_else(|e| panic!("{call:?} {fault:?}: {}", error::chain(&e)));
        server.fail(call, fault, times);
        place.get(&store, generation).await.unwrap_or_else(|e| panic!("{call:?} {fault:?}: {}", error::chain(&e)));
        place.assert_back();
        store.delete(&id(), generation).await.expect("deleted");
    }
    server.recover();
    server.fail(Call::List, Fault::Status(500), 2);
    server.fail(Call::Delete, Fault::Status(500), 2);
    place.put(&store, 99).await.expect("put");
    assert_eq!(store.list().await.expect("listed").len(), 1);
    store.delete(&id(), 99).await.expect("deleted");
    server.assert_well_spoken();
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_faults_fail_in_time() {
    let place = Place::new(40 * MIB);
    let server = Server::start().await;
    let store = ColdStore::open(&server.config()).await.expect("a store");
    // Where nothing hangs there is time: on a busy machine a slow answer is not a fault.
    let patient = Timeouts { stall: Duration::from_secs(15), ..server.config().timeouts };
    let patient = ColdStore::open(&ColdConfig { timeouts: patient, ..server.config() }).await.expect("a store");
    let faults = [
        (Call::Create, Fault::Status(500)),
        (Call::Create, Fault::Endless),
        (Call::Part, Fault::Hang),
        (Call::Part, Fault::Status(403)),
        (Call::Complete, Fault::Status(400)),
        (Call::Head, Fault::Hang),
        (Call::Get, Fault::Cut),
        (Call::Get, Fault::HangInBody),
        (Call::Get, Fault::Endless),
        (Call::Put, Fault::Status(500)),
    ];
    for (generation, (call, fault)) in (1..).zip(faults) {
        server.recover();
        server.fail(call, fault, usize::MAX);
        let begin = Instant::now();
        let store = if matches!(fault, Fault::Status(_) | Fault::Cut) { &patient } else { &store };
        let error = place.put(store, generation).await.expect_err("it cannot work");
        assert!(begin.elapsed() < Duration::from_secs(25), "{call:?} {fault:?} took {:?}", begin.elapsed());
        assert!(matches!(error, Error::Cold { .. }), "{call:?} {fault:?}: {error:?}");
        // Runs without a waiter.
        server.until("the end of what was sent", |s| s.objects().is_empty() && s.uploads() == 0).await;
    }
    server.recover();
    place.put(&store, 100).await.expect("put");
    for (call, fault) in [(Call::Get, Fault::Hang), (Call::Get, Fault::Endless), (Call::Get, Fault::Status(403))] {
        server.recover();
        server.fail(call, fault, usize::MAX);
        let begin = Instant::now();
        let error = place.get(&store, 100).await.expect_err("it cannot work");
        assert!(begin.elapsed() < Duration::from_secs(25), "{call:?} {fault:?} took {:?}", begin.elapsed());
        assert!(matches!(error, Error::Cold { .. }), "{call:?} {fault:?}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_changes_bytes_is_detected() {
    let server = Server::start().await;
    let store = ColdStore::open(&server.config()).await.expect("a store");
    for (size, call) in [(40 * MIB, Call::Part), (1000, Call::Put), (40 * MIB, Call::Get)] {
        let place = Place::new(size);
        server.recover();
        server.fail(call, Fault::Corrupt, 1);
        let error = place.put(&store, 1).await.expect_err("changed");
        assert!(matches!(error, Error::ColdDamaged { .. }), "{call:?}: {error:?}");
        // No manifest was written, and the rest is gone.
        assert_eq!(server.objects(), Vec::<String>::new());
    }
    let place = Place::new(40 * MIB);
    server.recover();
    let (manifest, _) = place.put(&store, 2).await.expect("put");
    let data = "some/prefix/iabcdefghij-2.tar.zst";
    let good = server.get(data).expect("there");
    for at in [10, good.len() / 2, good.len() - 2] {
        let mut changed = good.to_vec();
        changed[at] ^= 4;
        server.put(data, changed);
        let error = place.get(&store, 2).await.expect_err("changed");
        assert!(matches!(error, Error::ColdDamaged { .. } | Error::Archive { .. }), "{at}: {error:?}");
    }
    server.put(data, good.slice(..good.len() - 1));
    let error = place.get(&store, 2).await.expect_err("short");
    assert!(error.to_string().contains(&manifest.length.to_string()), "{error}");
    server.put(data, good);
    place.get(&store, 2).await.expect("good again");
    place.assert_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_ends_at_once() {
    let place = Place::new(40 * MIB);
    let server = Server::start().await;
    let config = ColdConfig { timeouts: Default::default(), ..server.config() };
    let store = ColdStore::open(&config).await.expect("a store");
    for call in [Call::Create, Call::Part, Call::Complete, Call::Head, Call::Get] {
        server.recover();
        server.fail(call, Fault::Hang, usize::MAX);
        let (cancel, before) = (CancellationToken::new(), server.calls(call));
        let (putting, source, stop) = (store.clone(), place.source(), cancel.clone());
        let put = tokio::spawn(async move { putting.put(&id(), 1, source, &stop).await });
        server.until("the request", |server| server.calls(call) > before).await;
        cancel.cancel();
        let result = tokio::time::timeout(Duration::from_secs(10), put).await.expect("in time").expect("joined");
        assert!(matches!(result, Err(Error::Cancelled)), "{call:?}: {result:?}");
        // What was begun is taken back in the background. (A hanging `Create` was never begun.)
        server.until("the end of the upload", |server| server.uploads() == 0).await;
        server.until("the end of the object", |server| server.objects().is_empty()).await;
    }
    server.recover();
    place.put(&store, 2).await.expect("put");
    server.fail(Call::Get, Fault::HangInBody, usize::MAX);
    let (cancel, before) = (CancellationToken::new(), server.calls(Call::Get));
    fs::create_dir(place.path("to")).expect("made");
    let (getting, disk, stop) = (store.clone(), open(&place.path("to")), cancel.clone());
    let get = tokio::spawn(async move { getting.get(&id(), 2, None, disk, &Limits::default(), &stop).await });
    server.until("the request", |server| server.calls(Call::Get) > before).await;
    cancel.cancel();
    let result = tokio::time::timeout(Duration::from_secs(10), get).await.expect("in time").expect("joined");
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
}

/// A store that stops responding does not block other operations; its uploads are removed when it responds again.
#[tokio::test(flavor = "multi_thread")]
async fn cancelling_does_not_wait_for_a_store_that_is_silent() {
    let place = Place::new(40 * MIB);
    let server = Server::start().await;
    let store = ColdStore::open(&server.config()).await.expect("a store");
    for (generation, call) in [(1, Call::Part), (2, Call::Get)] {
        for silent in [call, Call::Abort, Call::Delete] {
            server.fail(silent, Fault::Hang, usize::MAX);
        }
        let (cancel, before) = (CancellationToken::new(), server.calls(call));
        let (putting, source, stop) = (store.clone(), place.source(), cancel.clone());
        let put = tokio::spawn(async move { putting.put(&id(), generation, source, &stop).await });
        server.until("the request", |server| server.calls(call) > before).await;
        cancel.cancel();
        // The stall alone is a second, and cleaning up would have tried for four.
        let result = tokio::time::timeout(Duration::from_millis(900), put).await.expect("at once").expect("joined");
        assert!(matches!(result, Err(Error::Cancelled)), "{call:?}: {result:?}");
        // What is left while the store is silent goes with the housekeeping, as this does.
        server.recover();
        store.delete(&id(), generation).await.expect("deleted");
        assert_eq!(store.list().await.expect("listed"), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_upload_is_taken_back() {
    let place = Place::new(40 * MIB);
    let server = Server::start().await;
    let store = ColdStore::open(&server.config()).await.expect("a store");
    server.fail(Call::Part, Fault::Hang, usize::MAX);
    let (putting, source) = (store.clone(), place.source());
    let put = tokio::spawn(async move { putting.put(&id(), 1, source, &CancellationToken::new()).await });
    server.until("a part", |server| server.calls(Call::Part) > 0).await;
    put.abort();
    server.until("the end of the upload", |server| server.uploads() == 0).await;
    assert_eq!(store.list().await.expect("listed"), []);
}

/// The test below runs this in a process of its own, and kills it.
#[tokio::test(flavor = "multi_thread")]
async fn victim() {
    let Some(directory) = std::env::var_os("CABANA_TEST_COLD_VICTIM") else { return };
    let directory = PathBuf::from(directory);
    let config = ColdConfig { location: directory.join("cold").display().to_string(), ..ColdConfig::default() };
    let store = ColdStore::open(&config).await.expect("a store");
    let source =
        Source { disk: open(&directory.join("from")), selection: Selection::Everything, limits: Limits::default() };
    let _ = store.put(&id(), 1, source, &CancellationToken::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_upload_does_not_count() {
    let place = Place::new(0);
    // Large enough to be killed in the middle of it.
    let file = fs::File::create(place.path("from/upper/random")).expect("made");
    let mut bytes = vec![0; 16 * MIB];
    let mut random = rand::rngs::SmallRng::seed_from_u64(8);
    for part in 0..20 {
        random.fill_bytes(&mut bytes);
        file.write_all_at(&bytes, part * 16 * MIB as u64).expect("written");
    }
    let mut child = std::process::Command::new(std::env::current_exe().expect("ourselves"))
        .args(["--exact", "cold::victim"])
        .env("CABANA_TEST_COLD_VICTIM", place.0.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a process");
    let staged = place.path("cold/iabcdefghij-1.tar.zst#1");
    let end = Instant::now() + Duration::from_secs(60);
    while !fs::metadata(&staged).is_ok_and(|found| found.len() >= 16 * MIB as u64) {
        assert!(Instant::now() < end && child.try_wait().expect("asked").is_none(), "the upload did not come so far");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    assert_eq!(child.wait().expect("waited").signal(), Some(9));
    assert_eq!(names(&place.path("cold")), ["iabcdefghij-1.tar.zst#1"]);
    let store = ColdStore::open(&place.directory()).await.expect("a store");
    assert_eq!(store.list().await.expect("listed"), []);
    assert_eq!(names(&place.path("cold")), Vec::<String>::new());
    assert!(matches!(place.get(&store, 1).await, Err(Error::ColdMissing { .. })));
    place.put(&store, 2).await.expect("put");
    place.get(&store, 2).await.expect("got");
    place.assert_back();
}
