//! The launcher: a resident single-threaded process that clones sandboxes on request. The multi-threaded server never
//! clones itself: code between clone and exec could deadlock on a lock that another thread held at the time of the
//! clone.
//!
//! This file is the server's handle; `launcher/serve.rs` is the process. They communicate over a socket: a request is a
//! [`Plan`] with its descriptors, a response names the sandbox. A running sandbox does not depend on the launcher.

mod serve;

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cabana_types::SandboxId;
use rustix::net::RecvFlags;

use crate::channel;
use crate::error::{During, Error};
use crate::plan::{Answer, Descriptors, Plan};

pub use serve::main;

/// A sandbox's first process, just started.
#[derive(Debug)]
pub struct Launched {
    /// Its pid on the host.
    pub pid: i32,
    /// Its pidfd.
    pub pidfd: OwnedFd,
}

/// Callback for the launcher's response. Called on the launcher's reader thread: must not block.
pub type Reply = Box<dyn FnOnce(Result<Launched, Error>) + Send>;

/// The server's handle to the launcher. Restarts it if it has died.
pub struct Launcher {
    program: PathBuf,
    guest: Option<PathBuf>,
    running: Mutex<Option<Running>>,
}

struct Running {
    process: Child,
    socket: Arc<OwnedFd>,
    waiting: Arc<Mutex<HashMap<SandboxId, Reply>>>,
}

impl Launcher {
    /// Starts the launcher: `program launcher [guest]`. Without a guest, the program has one embedded.
    pub fn start(program: &Path, guest: Option<&Path>) -> Result<Self, Error> {
        let guest = guest.map(Path::to_owned);
        let launcher = Self { program: program.to_owned(), guest, running: Mutex::new(None) };
        launcher.lock().replace(launcher.spawn()?);
        Ok(launcher)
    }

    /// Launches a sandbox. The descriptors are duplicated, and may be closed when this returns.
    pub fn launch(&self, plan: &Plan, fds: &Descriptors<'_>, reply: Reply) {
        if let Err((error, reply)) = self.request(plan, fds, reply) {
            reply(Err(error));
        }
    }

    fn request(&self, plan: &Plan, fds: &Descriptors<'_>, reply: Reply) -> Result<(), (Error, Reply)> {
        let bytes = match serde_json::to_vec(plan) {
            Ok(bytes) if bytes.len() <= channel::MAX_BYTES => bytes,
            _ => return Err((Error::Launcher("does not accept a plan of this size"), reply)),
        };
        let mut running = self.lock();
        let gone = |running: &mut Running| !matches!(running.process.try_wait(), Ok(None));
        if running.as_mut().is_none_or(gone) {
            match self.spawn() {
                Ok(fresh) => *running = Some(fresh),
                Err(error) => return Err((error, reply)),
            }
        }
        let Some(current) = running.as_ref() else { return Err((Error::Launcher("is not running"), reply)) };
        lock(&current.waiting).insert(plan.id.clone(), reply);
        match channel::send(&*current.socket, &bytes, fds.as_slice()).during("send a plan to the launcher") {
            Ok(()) => Ok(()),
            Err(error) => match lock(&current.waiting).remove(&plan.id) {
                Some(reply) => Err((error, reply)),
                // The reader thread noticed first that the launcher is gone, and has called the callback.
                None => Ok(()),
            },
        }
    }

    fn spawn(&self) -> Result<Running, Error> {
        let (ours, theirs) = channel::pair().during("make the launcher's socket")?;
        let process = Command::new(&self.program)
            .arg("launcher")
            .args(&self.guest)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| Error::Path { action: "start", path: self.program.clone(), source })?;
        let socket = Arc::new(ours);
        let waiting = Arc::new(Mutex::new(HashMap::new()));
        let reader = (Arc::clone(&socket), Arc::clone(&waiting));
        std::thread::Builder::new()
            .name("launcher-answers".into())
            .spawn(move || read_answers(&reader.0, &reader.1))
            .map_err(|source| Error::Path { action: "start a thread for", path: self.program.clone(), source })?;
        Ok(Running { process, socket, waiting })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        lock(&self.running)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Some(mut running) = self.lock().take() {
            // The launcher exits when its socket is closed.
            let _ = rustix::net::shutdown(&*running.socket, rustix::net::Shutdown::Both);
            let _ = running.process.wait();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_answers(socket: &OwnedFd, waiting: &Mutex<HashMap<SandboxId, Reply>>) {
    while let Ok(Some((bytes, mut fds))) = channel::receive(socket.as_fd(), RecvFlags::empty()) {
        let Ok(answer) = serde_json::from_slice(&bytes) else { break };
        let (id, result) = match answer {
            Answer::Launched { id, pid } => match fds.pop() {
                Some(pidfd) => (id, Ok(Launched { pid, pidfd })),
                None => (id, Err(Error::Launcher("sent no process descriptor"))),
            },
            Answer::Failed { id, message } => (id, Err(Error::Launch(message))),
        };
        if let Some(reply) = lock(waiting).remove(&id) {
            reply(result);
        }
    }
    let left: Vec<Reply> = lock(waiting).drain().map(|(_, reply)| reply).collect();
    for reply in left {
        reply(Err(Error::Launcher("has died")));
    }
}
