//! Archives that clients upload for their builds. Each has a name that its client chose, a hash of what is in it; a file is there whole or
//! not at all, and only for the team that sent it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cabana_types::TeamId;
use futures_util::{Stream, StreamExt};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

/// Uploads under way at once; more wait.
const AT_ONCE: usize = 16;
/// For how long they do.
const TURN: Duration = Duration::from_secs(60);
/// Time for the next bytes to arrive.
const SILENCE: Duration = Duration::from_secs(60);
/// Time for all of them.
const WHOLE: Duration = Duration::from_secs(2 * 3600);
/// The beginning of a name that is not an upload's yet.
const DRAFT: &str = "draft-";
/// A block of a tar archive.
const BLOCK: usize = 512;

/// The archives.
#[derive(Debug, Clone)]
pub struct Files {
    dir: PathBuf,
    turns: Arc<Semaphore>,
}

/// Why an archive was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// It is too large.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// It ended early, or took too long.
    #[error("{0}")]
    Broken(String),
    /// It is no archive.
    #[error("it is neither a tar archive nor one packed with gzip")]
    NotAnArchive,
    /// Too many others are being sent.
    #[error("too many uploads are under way")]
    Busy,
    /// It could not be written.
    #[error("write an upload")]
    Io(#[from] io::Error),
}

impl Files {
    /// Uses a directory, which is made if it is not there. What an earlier server did not finish is removed.
    pub fn open(dir: &Path) -> io::Result<Self> {
        make_dir(dir)?;
        let files = Self { dir: dir.to_owned(), turns: Arc::new(Semaphore::new(AT_ONCE)) };
        files.each(|path, _| is_draft(path))?;
        Ok(files)
    }

    /// Whether a team has sent an archive; then it is not swept for a while.
    pub fn has(&self, team: &TeamId, hash: &str) -> bool {
        let touched = OpenOptions::new().append(true).open(self.path(team, hash));
        touched.and_then(|file| file.set_modified(SystemTime::now())).is_ok()
    }

    /// An archive of a team: a tar, perhaps packed with gzip.
    pub fn read(&self, team: &TeamId, hash: &str) -> io::Result<File> {
        File::open(self.path(team, hash))
    }

    /// Takes an archive of at most `most` bytes. The one of the same name before is replaced when this one is complete; if it is not,
    /// nothing of it stays.
    pub async fn receive<S, E>(
        &self,
        team: &TeamId,
        hash: &str,
        most: u64,
        length: Option<u64>,
        body: S,
    ) -> Result<(), ReceiveError>
    where
        S: Stream<Item = Result<Bytes, E>> + Send,
        E: std::fmt::Display,
    {
        if length.is_some_and(|length| length > most) {
            return Err(ReceiveError::TooLarge(most));
        }
        let turn = tokio::time::timeout(TURN, Arc::clone(&self.turns).acquire_owned()).await;
        let Ok(Ok(_turn)) = turn else { return Err(ReceiveError::Busy) };
        let draft = self.draft(team)?;
        let mut file = tokio::fs::File::from_std(draft.file.try_clone()?);
        let received = tokio::time::timeout(WHOLE, Box::pin(copy(body, &mut file, most))).await;
        let received =
            received.map_err(|_| broken(format!("it did not arrive within {} h", WHOLE.as_secs() / 3600)))??;
        if let Some(length) = length.filter(|length| *length != received) {
            return Err(broken(format!("it has {received} bytes, not the {length} that were announced")));
        }
        file.sync_all().await?;
        let path = self.path(team, hash);
        tokio::task::spawn_blocking(move || draft.keep(&path)).await.map_err(io::Error::other)??;
        Ok(())
    }

    /// Removes archives that nobody has asked about since a time. Answers how many.
    pub fn sweep(&self, older_than: SystemTime) -> io::Result<usize> {
        self.each(|path, modified| !is_draft(path) && modified < older_than)
    }

    fn path(&self, team: &TeamId, hash: &str) -> PathBuf {
        let name: String = Sha256::digest(hash).iter().map(|b| format!("{b:02x}")).collect();
        self.dir.join(team.as_str()).join(name)
    }

    fn draft(&self, team: &TeamId) -> io::Result<Draft> {
        let dir = self.dir.join(team.as_str());
        make_dir(&dir)?;
        let path = dir.join(format!("{DRAFT}{}", uuid::Uuid::new_v4()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Draft { path, file, dir, kept: false })
    }

    /// Removes the files that the test accepts. One that goes meanwhile is no error.
    fn each(&self, test: impl Fn(&Path, SystemTime) -> bool) -> io::Result<usize> {
        let mut removed = 0;
        for team in std::fs::read_dir(&self.dir)? {
            let team = team?;
            if !team.file_type()?.is_dir() {
                continue;
            }
            for entry in std::fs::read_dir(team.path())? {
                let path = entry?.path();
                let modified = match std::fs::symlink_metadata(&path).and_then(|m| m.modified()) {
                    Ok(modified) => modified,
                    Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                    Err(e) => return Err(e),
                };
                if test(&path, modified) {
                    match std::fs::remove_file(&path) {
                        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                        _ => removed += 1,
                    }
                }
            }
        }
        Ok(removed)
    }
}

/// A file that is removed unless it is kept.
struct Draft {
    path: PathBuf,
    file: File,
    dir: PathBuf,
    kept: bool,
}

impl Draft {
    fn keep(mut self, path: &Path) -> io::Result<()> {
        std::fs::rename(&self.path, path)?;
        self.kept = true;
        File::open(&self.dir)?.sync_all()
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

fn is_draft(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(DRAFT.as_bytes()))
}

fn broken(text: String) -> ReceiveError {
    ReceiveError::Broken(text)
}

/// Writes what arrives, and answers how much it was.
async fn copy<S, E>(body: S, file: &mut tokio::fs::File, most: u64) -> Result<u64, ReceiveError>
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
        file.write_all(&bytes).await?;
    }
    file.flush().await?;
    if is_archive(&head) { Ok(received) } else { Err(ReceiveError::NotAnArchive) }
}

/// Whether this may be the beginning of a tar archive, packed or not. An empty one has only zeros.
fn is_archive(head: &[u8]) -> bool {
    let gzip = head.starts_with(&[0x1f, 0x8b]);
    let tar = head.len() == BLOCK && (head[257..262] == *b"ustar" || head.iter().all(|b| *b == 0));
    gzip || tar
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

    async fn send(files: &Files, hash: &str, most: u64, length: Option<u64>, bytes: &[u8]) -> Result<(), ReceiveError> {
        let parts: Vec<_> = bytes.chunks(100).map(|part| Ok::<_, Infallible>(Bytes::copy_from_slice(part))).collect();
        files.receive(&team("a"), hash, most, length, stream::iter(parts)).await
    }

    fn all(dir: &Path) -> usize {
        std::fs::read_dir(dir.join("a")).map_or(0, Iterator::count)
    }

    #[tokio::test]
    async fn an_archive_is_there_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("directory");
        let files = Files::open(dir.path()).expect("open");
        let sent = tar(1500);
        for (most, length, bytes) in [
            (1000, Some(1500), &sent[..]),
            (1000, None, &sent[..]),
            (9000, Some(2000), &sent[..]),
            (9000, None, b"not an archive"),
            (9000, None, b""),
            (9000, None, &sent[..BLOCK - 1]),
        ] {
            assert!(send(&files, "h", most, length, bytes).await.is_err());
            assert!(!files.has(&team("a"), "h") && all(dir.path()) == 0, "{most} {length:?}");
        }
        let broken = vec![Ok(Bytes::from(tar(600))), Err("connection reset")];
        let error = files.receive(&team("a"), "h", 9000, None, stream::iter(broken)).await.expect_err("broken");
        assert!(error.to_string().contains("connection reset") && all(dir.path()) == 0, "{error}");
        // One whose client goes away leaves nothing either.
        let endless = stream::pending::<Result<Bytes, Infallible>>();
        let short = Duration::from_millis(20);
        assert!(tokio::time::timeout(short, files.receive(&team("a"), "h", 9, None, endless)).await.is_err());
        assert_eq!(all(dir.path()), 0);

        send(&files, "h", 1500, Some(1500), &sent).await.expect("received");
        assert!(files.has(&team("a"), "h") && !files.has(&team("a"), "H") && !files.has(&team("b"), "h"));
        let mut read = vec![];
        files.read(&team("a"), "h").expect("there").read_to_end(&mut read).expect("read");
        assert_eq!(read, sent);
        send(&files, "h", 1500, None, &tar(700)).await.expect("again");
        assert_eq!(files.read(&team("a"), "h").expect("there").metadata().expect("stat").len(), 700);
        send(&files, "../../../etc/passwd", 1500, None, &[0; BLOCK]).await.expect("any name, and empty");
        assert_eq!(all(dir.path()), 2);
    }

    #[tokio::test]
    async fn what_nobody_asks_about_is_swept() {
        let dir = tempfile::tempdir().expect("directory");
        let files = Files::open(dir.path()).expect("open");
        send(&files, "old", 9000, None, &tar(600)).await.expect("received");
        send(&files, "new", 9000, None, &tar(600)).await.expect("received");
        let past = SystemTime::now() - Duration::from_secs(3600);
        for hash in ["old", "new"] {
            let file = OpenOptions::new().append(true).open(files.path(&team("a"), hash)).expect("open");
            file.set_modified(past).expect("time");
        }
        assert!(files.has(&team("a"), "new"));
        assert_eq!(files.sweep(past + Duration::from_secs(1)).expect("sweep"), 1);
        assert!(!files.has(&team("a"), "old") && files.has(&team("a"), "new"));
        // What a server that was killed has left.
        std::fs::write(dir.path().join("a/draft-x"), b"half").expect("write");
        let files = Files::open(dir.path()).expect("open");
        assert_eq!(all(dir.path()), 1);
        assert!(files.has(&team("a"), "new"));
    }
}
