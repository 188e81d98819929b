//! An isolated machine per test: a network namespace as the host, and a second one behind it as the
//! outside. The real host's network is not touched, and everything is gone when the test's threads end.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cabana_net::{Error, InUse, Network, NetworkConfig, Slot};
use cabana_supervisor::Supervisor;
use cabana_types::egress::Bounds;
use cabana_types::{EgressPolicy, SandboxId};
use nix::sched::{CloneFlags, setns, unshare};
use tempfile::TempDir;

/// The host's address towards the outside, and the outside's own.
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// A public address on the outside.
pub(crate) const PUBLIC: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);

/// Addresses on the outside that a sandbox must not reach.
pub(crate) const FORBIDDEN: [Ipv4Addr; 10] = [
    Ipv4Addr::new(10, 1, 2, 3),
    Ipv4Addr::new(172, 16, 5, 5),
    Ipv4Addr::new(192, 168, 7, 7),
    Ipv4Addr::new(169, 254, 169, 254),
    Ipv4Addr::new(169, 254, 170, 2),
    Ipv4Addr::new(100, 100, 100, 200),
    Ipv4Addr::new(168, 63, 129, 16),
    Ipv4Addr::new(192, 0, 0, 192),
    Ipv4Addr::new(192, 88, 99, 1),
    Ipv4Addr::new(198, 18, 0, 1),
];

pub(crate) const BLOCK: Ipv4Addr = Ipv4Addr::new(100, 96, 0, 0);

pub(crate) struct Machine {
    pub(crate) outside: Arc<OwnedFd>,
    pub(crate) dir: TempDir,
}

/// Runs a test on a new machine.
pub(crate) fn on_machine<F: Future<Output = ()>>(test: impl FnOnce(Arc<Machine>) -> F + Send + 'static) {
    std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS).expect("these tests need root");
        sh("mount --make-rprivate /");
        let home = namespace();
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let outside = namespace();
        setns(&home, CloneFlags::CLONE_NEWNET).unwrap();
        // `ip` identifies a namespace by a process; ours is a thread, so the link is created here and moved from
        // inside.
        let path = format!("/proc/{}/task/{}/fd", std::process::id(), nix::unistd::gettid());
        let link = |fd: &OwnedFd| format!("{path}/{}", std::os::fd::AsRawFd::as_raw_fd(fd));
        sh("ip link set lo up");
        sh(&format!("ip link add up0 mtu 1400 type veth peer name in0 mtu 1400 netns {}", link(&outside)));
        sh(&format!("ip addr add {HOST}/24 dev up0; ip link set up0 up; ip route add default via {OUTSIDE}"));
        setns(&outside, CloneFlags::CLONE_NEWNET).unwrap();
        sh(&format!("ip link set lo up; ip addr add {OUTSIDE}/24 dev in0; ip link set in0 up"));
        for address in FORBIDDEN.into_iter().chain([PUBLIC]) {
            sh(&format!("ip addr add {address}/32 dev lo"));
        }
        setns(&home, CloneFlags::CLONE_NEWNET).unwrap();
        // The other end came up later; until the kernel has noticed, packets sent here are lost.
        sh("until ip -o link show up0 | grep -q 'state UP'; do sleep 0.01; done");
        // The runtime's threads are started here, so they are in this namespace.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let machine = Machine { outside: Arc::new(outside), dir: tempfile::tempdir().unwrap() };
        let machine = Arc::new(machine);
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(120), test(machine)).await.unwrap() });
    })
    .join()
    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

impl Machine {
    pub(crate) fn config(&self) -> NetworkConfig {
        NetworkConfig {
            instance: "t1".into(),
            run_dir: self.dir.path().join("run"),
            block: BLOCK,
            slots: 40,
            spare: 2,
            resolvers: vec!["127.0.0.1:9".parse().unwrap()],
            bounds: Bounds::default(),
        }
    }

    pub(crate) async fn open(&self) -> Network {
        Network::open(self.config(), vec![], &Supervisor::new()).await.unwrap()
    }

    /// All network state: links, addresses, routes, rules, mounts.
    pub(crate) fn network_state(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let pins = mounts.lines().filter(|line| line.contains(self.dir.path().to_str().unwrap())).count();
        let seen = sh("ip -o link | cut -d: -f2; ip -o -4 addr | cut -d' ' -f2-7; ip route; nft list ruleset");
        format!("{seen}pins {pins}")
    }
}

/// The open policy, or one that allows nothing.
pub(crate) fn policy(internet: bool) -> Arc<EgressPolicy> {
    Arc::new(if internet { EgressPolicy::default() } else { EgressPolicy::offline() })
}

/// The id of the sandbox that uses every slot here.
pub(crate) fn owner() -> SandboxId {
    SandboxId::from_random([1; 20])
}

pub(crate) async fn acquire(network: &Network, internet: bool) -> Result<Slot, Error> {
    network.acquire(&owner(), policy(internet)).await
}

/// A slot that an earlier server left in use.
pub(crate) fn in_use(index: u32, internet: bool) -> InUse {
    InUse { index, owner: owner(), policy: policy(internet) }
}

fn namespace() -> OwnedFd {
    std::fs::File::open("/proc/thread-self/ns/net").unwrap().into()
}

/// Runs commands in the calling thread's namespace.
pub(crate) fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a function inside a namespace, on its own thread.
pub(crate) async fn inside<T: Send + 'static>(netns: &Arc<OwnedFd>, f: impl FnOnce() -> T + Send + 'static) -> T {
    let netns = Arc::clone(netns);
    let (send, receive) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        setns(&*netns, CloneFlags::CLONE_NEWNET).unwrap();
        let _ = send.send(f());
    });
    receive.await.expect("the thread inside panicked")
}

/// A listener in a namespace that answers every connection with the peer's address and then echoes. It ends with the
/// machine.
pub(crate) async fn listen(netns: &Arc<OwnedFd>, address: Ipv4Addr) -> u16 {
    inside(netns, move || start_echo(address)).await
}

/// The same in the calling thread's namespace.
pub(crate) fn start_echo(address: Ipv4Addr) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let peer = stream.peer_addr().unwrap().ip().to_string();
                let _ = stream.write_all(format!("{peer}\n").as_bytes());
                let mut buffer = [0; 64];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// Timeouts for what must happen and for what must not.
const PATIENCE: Duration = Duration::from_secs(5);
const SILENCE: Duration = Duration::from_millis(700);

/// The greeting of a listener; `None` if it cannot be reached.
pub(crate) fn greeting(to: SocketAddr) -> Option<String> {
    greeting_within(to, PATIENCE)
}

fn greeting_within(to: SocketAddr, time: Duration) -> Option<String> {
    let stream = TcpStream::connect_timeout(&to, time).ok()?;
    stream.set_read_timeout(Some(time)).unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stream), &mut said).ok()?;
    Some(said.trim().to_owned())
}

pub(crate) async fn reach(slot: &Slot, address: Ipv4Addr, port: u16) -> Option<String> {
    inside(&slot.netns, move || greeting((address, port).into())).await
}

/// Whether nothing responds.
pub(crate) fn no_greeting(to: SocketAddr) -> bool {
    greeting_within(to, SILENCE).is_none()
}

pub(crate) async fn no_reach(slot: &Slot, address: Ipv4Addr, port: u16) -> bool {
    inside(&slot.netns, move || no_greeting((address, port).into())).await
}

/// Whether an open connection still carries data.
pub(crate) fn alive(stream: &mut TcpStream) -> bool {
    echoes(stream, PATIENCE)
}

/// Whether an open connection carries no data any more.
pub(crate) fn cut(stream: &mut TcpStream) -> bool {
    !echoes(stream, SILENCE)
}

fn echoes(stream: &mut TcpStream, time: Duration) -> bool {
    stream.set_read_timeout(Some(time)).unwrap();
    let mut answer = [0; 4];
    stream.write_all(b"ping").is_ok() && stream.read_exact(&mut answer).is_ok() && &answer == b"ping"
}
