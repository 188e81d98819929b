//! The guest of a fake sandbox: enough HTTP for a conformance test and for uploads. Health on both sockets, a journal, stat and renames on
//! control, files on traffic.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use cabana_guest_link::GuestLink;
use cabana_types::SandboxId;
use cabana_types::guest::tools::{Action, Changed, Edit, EditAnswer, EntryKind, Refusal, StatAnswer};
use cabana_types::tool::ToolErrorCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::world::World;

/// Bytes of a request's head.
const MAX_HEAD: usize = 16 << 10;
/// The working directory.
const HOME: &str = "/home/user";

/// A running guest; dropped with its sandbox.
#[derive(Debug)]
pub(super) struct FakeGuest {
    control: PathBuf,
    traffic: PathBuf,
    frozen: watch::Sender<bool>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl FakeGuest {
    pub(super) fn start(world: Weak<World>, id: &SandboxId, dir: &Path) -> std::io::Result<Self> {
        let [control, traffic] = ["control", "traffic"].map(|port| dir.join(format!("{id}.{port}")));
        let (frozen, _) = watch::channel(false);
        let serve = |path: &Path, is_control: bool| {
            let _ = std::fs::remove_file(path);
            let listener = UnixListener::bind(path)?;
            let (world, id, frozen) = (world.clone(), id.clone(), frozen.subscribe());
            Ok::<_, std::io::Error>(AbortOnDropHandle::new(tokio::spawn(async move {
                // Ends with its connections: a destroyed guest does not respond.
                let mut connections = tokio::task::JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    connections.spawn(answer(stream, world.clone(), id.clone(), is_control, frozen.clone()));
                }
            })))
        };
        let tasks = [serve(&control, true)?, serve(&traffic, false)?];
        Ok(Self { control, traffic, frozen, _tasks: tasks })
    }

    pub(super) fn link(&self) -> GuestLink {
        GuestLink::Unix { control: self.control.clone(), traffic: self.traffic.clone(), address: Ipv4Addr::LOCALHOST }
    }

    pub(super) fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }
}

impl Drop for FakeGuest {
    fn drop(&mut self) {
        for path in [&self.control, &self.traffic] {
            let _ = std::fs::remove_file(path);
        }
    }
}

async fn answer(
    mut stream: UnixStream,
    world: Weak<World>,
    id: SandboxId,
    is_control: bool,
    mut frozen: watch::Receiver<bool>,
) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => read_chunks(&mut stream).await,
        false => {
            let mut body = vec![0; length.unwrap_or_default()];
            stream.read_exact(&mut body).await.map(|_| body)
        }
    };
    let Ok(body) = body else { return };
    if frozen.wait_for(|frozen| !frozen).await.is_err() {
        return;
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (status, content) = match (is_control, method, path) {
        (_, "GET", "/health") => ("204 No Content", Vec::new()),
        (true, "GET", "/journal") => ("200 OK", b"[]".to_vec()),
        (true, "GET", "/activity") => ("200 OK", br#"{"commands":0}"#.to_vec()),
        (true, "POST", "/stop") => ("204 No Content", Vec::new()),
        (true, "POST", "/stat") => {
            let answer = StatAnswer {
                path: HOME.into(),
                kind: EntryKind::Directory,
                size: 0,
                mode: 0o755,
                asked: HOME.into(),
                modified: 0,
                target: None,
                content: None,
            };
            ("200 OK", serde_json::to_vec(&answer).unwrap_or_default())
        }
        (true, "POST", "/edit") => edit(&world, &id, &body),
        (false, "GET" | "POST", "/files") => files(&world, &id, method == "POST", query, body),
        _ => ("404 Not Found", Vec::new()),
    };
    let length = match status.starts_with("204") {
        true => String::new(),
        false => format!("content-length: {}\r\n", content.len()),
    };
    let head = format!("HTTP/1.1 {status}\r\n{length}connection: close\r\n\r\n");
    let _ = stream.write_all(&[head.into_bytes(), content].concat()).await;
}

async fn read_chunks(stream: &mut UnixStream) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") && line.len() < MAX_HEAD {
            line.push(stream.read_u8().await?);
        }
        let length = std::str::from_utf8(&line).ok().and_then(|text| usize::from_str_radix(text.trim(), 16).ok());
        let length = length.ok_or(std::io::ErrorKind::InvalidData)?;
        let mut chunk = vec![0; length + 2];
        stream.read_exact(&mut chunk).await?;
        if length == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..length]);
    }
}

/// Renames and deletes files.
fn edit(world: &Weak<World>, id: &SandboxId, body: &[u8]) -> (&'static str, Vec<u8>) {
    let refused = |code| {
        let refusal = Refusal { code, message: "refused".into(), path: None, size: None, media_type: None };
        ("422 Unprocessable Entity", serde_json::to_vec(&refusal).unwrap_or_default())
    };
    let Ok(edit) = serde_json::from_slice::<Edit>(body) else { return refused(ToolErrorCode::InvalidArguments) };
    let Some(world) = world.upgrade() else { return refused(ToolErrorCode::SandboxUnavailable) };
    let changed = world.disk(id, |disk| {
        let mut changes = Vec::new();
        for change in edit.changes {
            let path = match change.action {
                Action::Rename { to, .. } if disk.files.contains_key(&to) => return Err(ToolErrorCode::AlreadyExists),
                Action::Rename { to, .. } => {
                    let content = disk.files.remove(&change.path).ok_or(ToolErrorCode::FileNotFound)?;
                    disk.files.insert(to.clone(), content);
                    to
                }
                Action::Delete { .. } => {
                    disk.files.remove(&change.path).ok_or(ToolErrorCode::FileNotFound)?;
                    change.path
                }
                Action::Write { .. } => return Err(ToolErrorCode::InvalidArguments),
            };
            changes.push(Changed { path, created: false, removed: 0 });
        }
        Ok(EditAnswer { changes })
    });
    match changed {
        Some(Ok(answer)) => ("200 OK", serde_json::to_vec(&answer).unwrap_or_default()),
        Some(Err(code)) => refused(code),
        None => refused(ToolErrorCode::SandboxUnavailable),
    }
}

/// A value of a query, decoded.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(if *first == b'+' { b' ' } else { *first }));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn files(world: &Weak<World>, id: &SandboxId, write: bool, query: &str, body: Vec<u8>) -> (&'static str, Vec<u8>) {
    let name = query.split('&').find_map(|pair| pair.strip_prefix("path=")).unwrap_or_default();
    let name = decoded(name);
    let Some(world): Option<Arc<World>> = world.upgrade() else { return ("404 Not Found", Vec::new()) };
    let missing = ("404 Not Found", Vec::new());
    let answer = world.disk(id, |disk| match write {
        true if disk.used() + body.len() as u64 > disk.limit => Some(("507 Insufficient Storage", Vec::new())),
        true => {
            disk.files.insert(name, body);
            Some(("200 OK", b"[]".to_vec()))
        }
        false => disk.files.get(&name).map(|content| ("200 OK", content.clone())),
    });
    answer.flatten().unwrap_or(missing)
}
