//! Archives that clients upload for their builds. The client names each by a hash of its content. An archive exists
//! only when it is complete, and only for the team that uploaded it.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cabana_fs::space::{Reservation, Space};
use cabana_types::TeamId;
use futures_util::{Stream, StreamExt};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

/// Maximum number of concurrent uploads; further ones wait.
const AT_ONCE: usize = 16;
/// How long an upload waits for others.
const TURN: Duration = Duration::from_secs(60);
/// Timeout for the next bytes.
const SILENCE: Duration = Duration::from_secs(60);
/// Timeout for a whole upload.
const WHOLE: Duration = Duration::from_secs(2 * 3600);
/// How long an archive is kept at least after it was uploaded or checked for: its build may be about to start.
const YOUNG: Duration = Duration::from_secs(3600);
/// The name prefix of unfinished uploads.
const DRAFT: &str = "draft-";
/// A block of a tar archive.
const BLOCK: usize = 512;

/// Size limits, bytes.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Of one archive.
    pub one: u64,
    /// Of all archives of a team.
    pub team: u64,
}

/// The uploaded archives.
#[derive(Debug, Clone)]
pub struct Files {
    dir: PathBuf,
    room: Room,
    space: Space,
    turns: Arc<Semaphore>,
    /// Held while a team's archives are counted.
    admission: Arc<Mutex<()>>,
}

/// Why an archive was refused.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// It is too large.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// The team has uploaded too much.
    #[error("the team's uploads would have more than {0} bytes")]
    Full(u64),
    /// It ended early, or took too long.
    #[error("{0}")]
    Broken(String),
    /// It is not an archive.
    #[error("it is not a tar archive, neither plain nor packed with gzip or zstd")]
    NotAnArchive,
    /// The disk would be too full; the text says how full it is.
    #[error("{0}")]
    NoSpace(io::Error),
    /// Too many uploads are in progress.
    #[error("too many uploads are in progress")]
    Busy,
    /// It could not be written.
    #[error("write an upload")]
    Io(#[from] io::Error),
}

impl Files {
    /// Opens a directory, which is created if missing, and removes unfinished uploads of an earlier server.
    pub fn open(dir: &Path, room: Room, space: Space) -> io::Result<Self> {
        make_dir(dir)?;
        let turns = Arc::new(Semaphore::new(AT_ONCE));
        let files = Self { dir: dir.to_owned(), room, space, turns, admission: Arc::default() };
        files.each(|path, _| is_draft(path))?;
        Ok(files)
    }

    /// Whether a team has uploaded an archive; if so, it is not swept for a while.
    pub fn has(&self, team: &TeamId, hash: &str) -> bool {
        let touched = OpenOptions::new().append(true).open(self.path(team, hash));
        touched.and_then(|file| file.set_modified(SystemTime::now())).is_ok()
    }

    /// An archive of a team: a tar, possibly compressed with gzip or zstd.
    pub fn read(&self, team: &TeamId, hash: &str) -> io::Result<File> {
        File::open(self.path(team, hash))
    }

    /// Receives an archive. It replaces one of the same name when it is complete; an incomplete one leaves nothing.
    pub async fn receive<S, E>(
        &self,
        team: &TeamId,
        hash: &str,
        length: Option<u64>,
        body: S,
    ) -> Result<(), ReceiveError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: std::fmt::Display,
    {
        let most = self.room.one;
        if length.is_some_and(|length| length > most) {
            return Err(ReceiveError::TooLarge(most));
        }
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(_turn)) = turn else { return Err(ReceiveError::Busy) };
        let (files, sender) = (self.clone(), team.clone());
        let admitted = tokio::task::spawn_blocking(move || files.admit(&sender, length.unwrap_or(most)));
        let mut draft = admitted.await.map_err(io::Error::other)??;
        let mut file = tokio::fs::File::from_std(draft.file.try_clone()?);
        let received = tokio::time::timeout(WHOLE, Box::pin(copy(body, &mut file, &mut draft.space, most))).await;
        let received =
            received.map_err(|_| broken(format!("it did not arrive within {} h", WHOLE.as_secs() / 3600)))??;
        if let Some(length) = length.filter(|length| *length != received) {
            return Err(broken(format!("it has {received} bytes, not the {length} that were announced")));
        }
        file.set_len(received).await?;
        file.flush().await?;
        let path = self.path(team, hash);
        tokio::task::spawn_blocking(move || draft.keep(&path)).await.map_err(io::Error::other)??;
        Ok(())
    }

    /// Removes archives that were not used since a time. Returns their number.
    pub fn sweep(&self, older_than: SystemTime) -> io::Result<usize> {
        self.each(|path, modified| !is_draft(path) && modified < older_than)
    }

    /// The path of a team's archive, if it exists.
    pub fn path(&self, team: &TeamId, hash: &str) -> PathBuf {
        let name: String = Sha256::digest(hash).iter().map(|b| format!("{b:02x}")).collect();
        self.dir.join(team.as_str()).join(name)
    }

    /// Reserves space for an archive and creates its draft. The reservation counts for concurrent uploads.
    fn admit(&self, team: &TeamId, length: u64) -> Result<Draft, ReceiveError> {
        let _alone = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
        let mut draft = self.draft(team)?;
        draft.file.set_len(length)?;
        self.make_room(team)?;
        draft.space = self.space.reserve(length).map_err(ReceiveError::NoSpace)?;
        Ok(draft)
    }

    /// Removes a team's oldest archives until the rest is within its limit.
    fn make_room(&self, team: &TeamId) -> Result<(), ReceiveError> {
        let (mut used, mut old) = (0, Vec::new());
        let young = SystemTime::now() - YOUNG;
        for entry in std::fs::read_dir(self.dir.join(team.as_str()))? {
            let path = entry?.path();
            let Ok(about) = std::fs::symlink_metadata(&path) else { continue };
            used += about.len();
            let modified = about.modified()?;
            if modified < young && !is_draft(&path) {
                old.push((modified, about.len(), path));
            }
        }
        old.sort();
        for (_, length, path) in old {
            if used <= self.room.team {
                break;
            }
            remove(&path)?;
            used -= length;
        }
        if used <= self.room.team { Ok(()) } else { Err(ReceiveError::Full(self.room.team)) }
    }

    fn draft(&self, team: &TeamId) -> io::Result<Draft> {
        let dir = self.dir.join(team.as_str());
        make_dir(&dir)?;
        let path = dir.join(format!("{DRAFT}{}", uuid::Uuid::new_v4()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let space = Space::unlimited().reserve(0)?;
        Ok(Draft { path, file, space, kept: false })
    }

    /// Removes the files that match, and returns their number.
    fn each(&self, test: impl Fn(&Path, SystemTime) -> bool) -> io::Result<usize> {
        let mut removed = 0;
        self.visit(|path, about| {
            if test(path, about.modified()?) {
                remove(path)?;
                removed += 1;
            }
            Ok(())
        })?;
        Ok(removed)
    }

    /// Calls a function with every file of every team. A file that is deleted concurrently is no error.
    fn visit(&self, mut show: impl FnMut(&Path, &Metadata) -> io::Result<()>) -> io::Result<()> {
        for team in std::fs::read_dir(&self.dir)? {
            let team = team?;
            if !team.file_type()?.is_dir() {
                continue;
            }
            for entry in std::fs::read_dir(team.path())? {
                let path = entry?.path();
                match std::fs::symlink_metadata(&path) {
                    Ok(about) => show(&path, &about)?,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }
}

/// A file that is removed on drop unless it is kept.
struct Draft {
    path: PathBuf,
    file: File,
    space: Reservation,
    kept: bool,
}

impl Draft {
    fn keep(mut self, path: &Path) -> io::Result<()> {
        cabana_fs::atomic::publish(&self.file, &self.path, path)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.kept {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn is_draft(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(DRAFT.as_bytes()))
}

fn broken(text: String) -> ReceiveError {
    ReceiveError::Broken(text)
}

/// Writes the body to a file, and returns its length.
async fn copy<S, E>(
    body: S,
    file: &mut tokio::fs::File,
    space: &mut Reservation,
    most: u64,
) -> Result<u64, ReceiveError>
where
    S: Stream<Item = Result<Bytes, E>>,
    E: std::fmt::Display,
{
    let mut body = std::pin::pin!(body);
    let (mut received, mut head) = (0, Vec::with_capacity(BLOCK));
    loop {
        let next = tokio::time::timeout(SILENCE, body.next()).await;
        let next = next.map_err(|_| broken(format!("nothing arrived for {} s", SILENCE.as_secs())))?;
        let Some(bytes) = next else { break };
        let bytes = bytes.map_err(|e| broken(format!("it broke off: {e}")))?;
        received += bytes.len() as u64;
        if received > most {
            return Err(ReceiveError::TooLarge(most));
        }
        head.extend_from_slice(&bytes[..bytes.len().min(BLOCK - head.len())]);
        space.spend(bytes.len() as u64).map_err(ReceiveError::NoSpace)?;
        file.write_all(&bytes).await?;
    }
    file.flush().await?;
    if is_archive(&head) { Ok(received) } else { Err(ReceiveError::NotAnArchive) }
}

/// Whether this may be the beginning of a tar archive, compressed or not. An empty one has only zeros.
fn is_archive(head: &[u8]) -> bool {
    let packed = head.starts_with(&[0x1f, 0x8b]) || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]);
    let tar = head.len() == BLOCK && (head[257..262] == *b"ustar" || head.iter().all(|b| *b == 0));
    packed || tar
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::Read;

    use futures_util::stream;

    use super::*;

    fn team(name: &str) -> TeamId {
        name.parse().expect("team")
    }

    fn tar(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length.max(BLOCK)];
        bytes[257..262].copy_from_slice(b"ustar");
        bytes
    }

    /// The size limit of the tests.
    const ROOM: Room = Room { one: 9000, team: 90_000 };

    async fn send(files: &Files, hash: &str, length: Option<u64>, bytes: &[u8]) -> Result<(), ReceiveError> {
        let parts: Vec<_> = bytes.chunks(100).map(|part| Ok::<_, Infallible>(Bytes::copy_from_slice(part))).collect();
        files.receive(&team("a"), hash, length, stream::iter(parts)).await
    }

    fn age(files: &Files, hash: &str, by: Duration) {
        let file = OpenOptions::new().append(true).open(files.path(&team("a"), hash)).expect("open");
        file.set_modified(SystemTime::now() - by).expect("time");
    }

    fn all(dir: &Path) -> usize {
        std::fs::read_dir(dir.join("a")).map_or(0, Iterator::count)
    }

    #[tokio::test]
    async fn an_archive_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("directory");
        let files = Files::open(dir.path(), ROOM, Space::unlimited()).expect("open");
        let (sent, large) = (tar(1500), tar(9001));
        for (length, bytes) in [
            (Some(9001), &large[..]),
            (None, &large[..]),
            (Some(2000), &sent[..]),
            (None, b"not an archive"),
            (None, b""),
            (None, &sent[..BLOCK - 1]),
        ] {
            assert!(send(&files, "h", length, bytes).await.is_err());
            assert!(!files.has(&team("a"), "h") && all(dir.path()) == 0, "{} {length:?}", bytes.len());
        }
        let broken = vec![Ok(Bytes::from(tar(600))), Err("connection reset")];
        let error = files.receive(&team("a"), "h", None, stream::iter(broken)).await.expect_err("broken");
        assert!(error.to_string().contains("connection reset") && all(dir.path()) == 0, "{error}");
        // A client that disconnects leaves nothing either.
        let endless = stream::pending::<Result<Bytes, Infallible>>();
        let short = Duration::from_millis(20);
        assert!(tokio::time::timeout(short, files.receive(&team("a"), "h", None, endless)).await.is_err());
        assert_eq!(all(dir.path()), 0);

        send(&files, "h", Some(1500), &sent).await.expect("received");
        assert!(files.has(&team("a"), "h") && !files.has(&team("a"), "H") && !files.has(&team("b"), "h"));
        let mut read = vec![];
        files.read(&team("a"), "h").expect("there").read_to_end(&mut read).expect("read");
        assert_eq!(read, sent);
        send(&files, "h", None, &tar(700)).await.expect("again");
        assert_eq!(files.read(&team("a"), "h").expect("there").metadata().expect("stat").len(), 700);
        send(&files, "../../../etc/passwd", None, &[0; BLOCK]).await.expect("any name, and empty");
        assert_eq!(all(dir.path()), 2);
        for packed in [&b"\x1f\x8b and so on"[..], b"\x28\xb5\x2f\xfd and so on"] {
            send(&files, "packed", None, packed).await.expect("packed");
        }
    }

    #[tokio::test]
    async fn old_archives_make_room_for_new_ones() {
        let dir = tempfile::tempdir().expect("directory");
        let files = Files::open(dir.path(), Room { one: 9000, team: 3000 }, Space::unlimited()).expect("open");
        for hash in ["a", "b", "c"] {
            send(&files, hash, Some(1000), &tar(1000)).await.expect("received");
        }
        // All of them may be needed soon.
        assert!(matches!(send(&files, "d", Some(600), &tar(600)).await, Err(ReceiveError::Full(3000))));
        assert!(files.has(&team("a"), "a") && all(dir.path()) == 3);
        age(&files, "a", 2 * YOUNG);
        age(&files, "b", 3 * YOUNG);
        send(&files, "d", Some(600), &tar(600)).await.expect("received");
        let there = |hash: &str| files.has(&team("a"), hash);
        assert!(there("a") && !there("b") && there("c") && there("d"), "the oldest goes, and no more than must");
        // Without a content length, the maximum is reserved.
        assert!(matches!(send(&files, "e", None, &tar(600)).await, Err(ReceiveError::Full(3000))));
        let other = stream::iter([Ok::<_, Infallible>(Bytes::from(tar(2000)))]);
        files.receive(&team("b"), "a", Some(2000), other).await.expect("another team's");
    }

    #[tokio::test]
    async fn announced_bytes_count_as_written() {
        let dir = tempfile::tempdir().expect("directory");
        let free = rustix::fs::statvfs(dir.path()).expect("there");
        // So large that other activity on this disk does not matter.
        let part = free.f_bavail * free.f_frsize / 8;
        let room = Room { one: u64::MAX, team: u64::MAX };
        let files = Files::open(dir.path(), room, Space::of(dir.path(), 4 * part).expect("space")).expect("open");
        assert!(matches!(files.admit(&team("a"), 6 * part), Err(ReceiveError::NoSpace(_))));
        let first = files.admit(&team("a"), 3 * part).expect("there is room");
        assert!(matches!(files.admit(&team("b"), 3 * part), Err(ReceiveError::NoSpace(_))), "the first may take it");
        drop(first);
        drop(files.admit(&team("b"), 3 * part).expect("there is room again"));
        assert_eq!(all(dir.path()), 0);
    }

    #[tokio::test]
    async fn unused_archives_are_deleted() {
        let dir = tempfile::tempdir().expect("directory");
        let files = Files::open(dir.path(), ROOM, Space::unlimited()).expect("open");
        for hash in ["old", "new"] {
            send(&files, hash, None, &tar(600)).await.expect("received");
            age(&files, hash, YOUNG);
        }
        assert!(files.has(&team("a"), "new"));
        assert_eq!(files.sweep(SystemTime::now() - YOUNG / 2).expect("sweep"), 1);
        assert!(!files.has(&team("a"), "old") && files.has(&team("a"), "new"));
        // Left by a killed server.
        std::fs::write(dir.path().join("a/draft-x"), b"half").expect("write");
        let files = Files::open(dir.path(), ROOM, Space::unlimited()).expect("open");
        assert_eq!(all(dir.path()), 1);
        assert!(files.has(&team("a"), "new"));
    }
}
