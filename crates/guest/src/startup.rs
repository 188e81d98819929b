//! Startup: descriptors or arguments, the runtime, the listeners.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use cabana_types::error::chain;
use cabana_types::guest::{CONFIG_FD, CONTROL_FD, GuestConfig, READY_FD, TRAFFIC_FD};
use cabana_types::routing::GUEST_PORT;
use rustix::fs::Mode;
use rustix::process::DumpableBehavior;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::error::Error;
use crate::guest::Guest;
use crate::route::{Origin, Routes};
use crate::server::{self, Listener};
use crate::{readiness, reaper};

const MAX_CONFIG: u64 = 4 << 20;
/// Limit on threads for file operations; they are started on demand.
const MAX_THREADS: usize = 16;
const THREAD_STACK: usize = 1 << 20;

/// How the daemon was started.
enum Start {
    /// By the launcher.
    Inherited { control: UnixListener, traffic: UnixListener, ready: File },
    /// Manually, on Unix sockets at these paths.
    Unix { control: Option<String>, traffic: String },
    /// Manually, on TCP.
    Tcp(SocketAddr),
}

/// Starts the daemon. Returns on SIGTERM or SIGINT if it was started manually.
pub(crate) fn run() -> Result<(), Error> {
    let (start, config) = parse_arguments()?;
    // Processes inside the sandbox must not read the daemon's memory, which contains the token.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(Error::system("protect the daemon's memory"))?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    let is_init = std::process::id() == 1;
    if is_init {
        ignore_signals();
    } else {
        // Makes orphans of its commands its children, as for process 1.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(Error::system("become a subreaper"))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_THREADS)
        .thread_stack_size(THREAD_STACK)
        .build()
        .map_err(Error::system("start the runtime"))?;
    let authority = config.authority.clone();
    let guest = Arc::new(Guest::new(config));
    // Not in an ordinary process, as in development: the files are those of the machine.
    if is_init {
        guest.trust(authority.as_deref());
    }
    let served = runtime.block_on(serve(start, Arc::clone(&guest), is_init));
    guest.commands.kill_all();
    // Do not wait for threads that are blocked in a filesystem.
    runtime.shutdown_background();
    served
}

/// Reports a startup error to the host, through the stderr that the launcher set up.
pub(crate) fn report(error: &Error) {
    let text = format!("cabana-guest: {}\n", chain(error));
    // There is nowhere else to report an error.
    let _ = io::stderr().write_all(text.as_bytes());
}

fn parse_arguments() -> Result<(Start, GuestConfig), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (start, config) = match text.as_slice() {
        [] => {
            let config = File::from(inherited(CONFIG_FD)?);
            let start = Start::Inherited {
                control: UnixListener::from(inherited(CONTROL_FD)?),
                traffic: UnixListener::from(inherited(TRAFFIC_FD)?),
                ready: File::from(inherited(READY_FD)?),
            };
            (start, config)
        }
        ["--listen", address, "--config", file, rest @ ..] => {
            let config = File::open(file).map_err(Error::system("open the configuration"))?;
            let start = match (address.strip_prefix("unix:"), rest) {
                (Some(traffic), []) => Start::Unix { control: None, traffic: traffic.to_owned() },
                (Some(traffic), ["--control", control]) => {
                    Start::Unix { control: Some((*control).to_owned()), traffic: traffic.to_owned() }
                }
                (None, []) => Start::Tcp(address.parse().map_err(|_| Error::Usage)?),
                _ => return Err(Error::Usage),
            };
            (start, config)
        }
        _ => return Err(Error::Usage),
    };
    let mut text = Vec::new();
    config.take(MAX_CONFIG).read_to_end(&mut text).map_err(Error::system("read the configuration"))?;
    Ok((start, serde_json::from_slice(&text).map_err(Error::InvalidConfig)?))
}

/// Takes ownership of an inherited descriptor and sets close-on-exec.
fn inherited(number: i32) -> Result<OwnedFd, Error> {
    // SAFETY: F_GETFD is harmless on a descriptor that is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(Error::System { doing: "use an inherited descriptor", cause: io::Error::last_os_error() });
    }
    // SAFETY: the descriptor is open, as just checked, and the launcher passed it: this is its only owner.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Process 1 ends only with its sandbox. The kernel already drops unhandled signals from inside; this covers the rest.
fn ignore_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2] {
        // SAFETY: ignoring a signal installs no handler; commands get the default back before exec.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

async fn serve(start: Start, guest: Arc<Guest>, is_init: bool) -> Result<(), Error> {
    let children = reaper::listen()?;
    tokio::spawn(reaper::run(children, Arc::clone(&guest.commands)));
    let routes = Arc::new(Routes::new(Arc::clone(&guest)));
    match start {
        Start::Inherited { control, traffic, mut ready } => {
            for (listener, origin) in [(control, Origin::Control), (traffic, Origin::Traffic)] {
                listener.set_nonblocking(true).map_err(Error::system("use an inherited socket"))?;
                let listener =
                    tokio::net::UnixListener::from_std(listener).map_err(Error::system("use an inherited socket"))?;
                tokio::spawn(server::serve(Listener::Unix(listener), Arc::clone(&routes), origin));
            }
            // Readiness byte for the host; a failed write means that the host is gone.
            let _ = ready.write_all(b"1");
            drop(ready);
            // For programs inside the sandbox; optional.
            if let Ok(listener) = TcpListener::bind((Ipv4Addr::UNSPECIFIED, GUEST_PORT)).await {
                tokio::spawn(server::serve(Listener::Tcp(listener), routes, Origin::Inside));
            }
        }
        Start::Unix { control, traffic } => {
            for (path, origin) in
                control.map(|path| (path, Origin::Control)).into_iter().chain([(traffic, Origin::Traffic)])
            {
                let listener = tokio::net::UnixListener::bind(path).map_err(Error::system("listen"))?;
                tokio::spawn(server::serve(Listener::Unix(listener), Arc::clone(&routes), origin));
            }
        }
        Start::Tcp(address) => {
            let listener = TcpListener::bind(address).await.map_err(Error::system("listen"))?;
            tokio::spawn(server::serve(Listener::Tcp(listener), routes, Origin::Inside));
        }
    }
    tokio::spawn(readiness::prepare(guest));
    if is_init {
        std::future::pending::<()>().await;
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::system("listen for SIGTERM"))?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::system("listen for SIGINT"))?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
