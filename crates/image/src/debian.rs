//! The default root filesystem, installed from Debian packages.

mod certificates;
mod error;
mod progress;
mod python_index;
mod sources;
mod supervised_process;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cabana_fs::{beneath, program};
use tokio::sync::{mpsc, oneshot};

pub use error::Error;
use progress::Follower;
pub use progress::{Phase, Progress};
use supervised_process::SupervisedProcess;

/// Version of the recipe. A root filesystem that another version made is built again.
pub const RECIPE: u32 = 2;

/// Environment variables that sandboxes from this root filesystem need: Node is to trust the system's certificate authorities.
pub const ENVIRONMENT: [(&str, &str); 1] = [("NODE_USE_SYSTEM_CA", "1")];

const RELEASE: &str = "bookworm";
/// Debian's archive keys, where the host has them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Hook that creates `/bin` and the like as links from the start, so that no package has to convert them.
const MERGED_USR: &str = "/usr/share/mmdebstrap/hooks/merged-usr";
const TIMEOUT: Duration = Duration::from_secs(30 * 60);
const MAX_BUNDLE_BYTES: u64 = 8 << 20;

const PACKAGES: &[&str] = &[
    "build-essential",
    "ca-certificates",
    "curl",
    "file",
    "git",
    "iproute2",
    "iputils-ping",
    "jq",
    "less",
    "netbase",
    "openssh-client",
    "procps",
    "python-is-python3",
    "python3",
    "python3-pip",
    "python3-venv",
    "ripgrep",
    "sqlite3",
    "sudo",
    "tzdata",
    "unzip",
    "vim-tiny",
    "wget",
    "xz-utils",
    "zip",
];

/// Files that `dpkg` skips, now and later, and no fsync: a sandbox's disk does not survive a power failure anyway.
const DPKG_OPTIONS: &str = "\
force-unsafe-io
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-include=/usr/share/locale/locale.alias
path-exclude=/usr/share/man/*
";

const FINISH: &str = include_str!("debian/finish.sh");
const PYTHON_REQUIREMENTS: &str = include_str!("debian/requirements.txt");

/// Options of the default root filesystem.
#[derive(Debug, Clone, Copy)]
pub struct Base {
    /// Trust the certificate authorities that the host trusts beyond Debian's own.
    pub host_certificates: bool,
}

impl Default for Base {
    fn default() -> Self {
        Self { host_certificates: true }
    }
}

impl Base {
    /// Installs the root filesystem into the empty directory `rootfs`.
    ///
    /// `tree` owns that directory (dropping it may remove it). It is returned on success, and otherwise dropped when no
    /// process writes into the directory any more, also when this future is dropped.
    pub async fn install<T: Send + 'static>(
        self,
        rootfs: PathBuf,
        tree: T,
        progress: impl Fn(Progress) + Send,
    ) -> Result<T, Error> {
        let process = Arc::new(SupervisedProcess::default());
        let guard = KillOnDrop(Arc::clone(&process));
        let (reports, mut reported) = mpsc::unbounded_channel();
        let (done, result) = oneshot::channel();
        // A dedicated thread: the programs die with the thread that started them, and inherit its seccomp filter.
        let worker = move || {
            supervised_process::disable_fsync();
            let report = |progress| {
                // The receiver may be gone.
                let _ = reports.send(progress);
            };
            let filled = self.fill(&rootfs, &process, report).map(|()| tree);
            let _ = done.send(filled);
        };
        let thread = std::thread::Builder::new().name("base-build".to_owned()).spawn(worker);
        thread.map_err(|source| Error::Io { action: "start a thread", source })?;

        let timeout = tokio::time::sleep(TIMEOUT);
        tokio::pin!(timeout, result);
        let mut timed_out = false;
        let filled = loop {
            tokio::select! {
                biased;
                Some(report) = reported.recv() => progress(report),
                result = &mut result => break result,
                () = &mut timeout, if !timed_out => {
                    timed_out = true;
                    guard.0.kill();
                }
            }
        };
        let panicked = || Error::Io { action: "build the base", source: std::io::Error::other("its thread panicked") };
        match filled.map_err(|_| panicked())? {
            Err(Error::Program { program, output }) if timed_out => {
                let minutes = TIMEOUT.as_secs() / 60;
                Err(Error::Program { program, output: format!("{output}\nnot done after {minutes} minutes") })
            }
            filled => filled,
        }
    }

    fn fill(self, rootfs: &Path, process: &SupervisedProcess, report: impl Fn(Progress)) -> Result<(), Error> {
        let mut follower = Follower::new();
        process.run("mmdebstrap", arguments(rootfs), proxies(), String::new(), |line| {
            tracing::debug!(line, "mmdebstrap");
            if let Some(progress) = follower.line(line) {
                report(progress);
            }
        })?;
        report(follower.finishing());
        let certificates = if self.host_certificates { host_certificates(rootfs)? } else { Vec::new() };
        let chroot = vec![OsString::from(rootfs), OsString::from("/bin/sh")];
        let environment = [proxies(), python_index::environment()].concat();
        process.run("chroot", chroot, environment, script(&certificates), |line| tracing::debug!(line, "finish"))?;
        report(Progress { phase: Phase::Finishing, fraction: 1.0 });
        Ok(())
    }
}

struct KillOnDrop(Arc<SupervisedProcess>);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill();
    }
}

fn arguments(rootfs: &Path) -> Vec<OsString> {
    let keyring = Some(Path::new(KEYRING)).filter(|k| k.exists());
    let mut arguments: Vec<OsString> = vec![
        "--verbose".into(),
        "--mode=root".into(),
        "--variant=minbase".into(),
        "--format=directory".into(),
        format!("--include={}", PACKAGES.join(",")).into(),
        "--aptopt=APT::Install-Recommends \"false\"".into(),
        "--aptopt=Acquire::Languages \"none\"".into(),
        "--aptopt=Acquire::Retries \"3\"".into(),
        // Not mmdebstrap's --dpkgopt: it would filter every package through another program, which costs more than it saves.
        format!("--essential-hook=printf '%s' '{DPKG_OPTIONS}' > \"$1/etc/dpkg/dpkg.cfg.d/cabana\"").into(),
    ];
    if Path::new(MERGED_USR).is_dir() {
        arguments.push(format!("--hook-dir={MERGED_USR}").into());
    }
    arguments.extend([RELEASE.into(), rootfs.into()]);
    // Without mirrors, mmdebstrap uses Debian's own for this release, with its updates.
    arguments.extend(sources::host_mirrors(RELEASE, keyring).into_iter().map(OsString::from));
    arguments
}

/// The proxies from the environment, then those of the host's apt configuration.
fn proxies() -> Vec<(OsString, OsString)> {
    let names = ["http_proxy", "https_proxy", "no_proxy"];
    let mut found: Vec<_> = names.iter().filter_map(|n| Some((OsString::from(n), std::env::var_os(n)?))).collect();
    let asked = ["shell", "http_proxy", "Acquire::http::Proxy", "https_proxy", "Acquire::https::Proxy"];
    // Hosts without apt have no such configuration.
    let answer = program::run("apt-config", &asked.map(std::ffi::OsStr::new)).unwrap_or_default();
    for line in answer.lines() {
        if let Some((name, value)) = line.split_once('=')
            && !found.iter().any(|(n, _)| n == name)
        {
            found.push((name.into(), value.trim_matches('\'').into()));
        }
    }
    found
}

/// The certificate authorities that the host trusts and the new root filesystem does not.
fn host_certificates(rootfs: &Path) -> Result<Vec<String>, Error> {
    let path: PathBuf = rootfs.join("etc/ssl/certs/ca-certificates.crt");
    let failed = |source: std::io::Error| Error::Path { action: "read", path: path.clone(), source };
    let root = File::open(rootfs).map_err(failed)?;
    let bundle = beneath::read_in_root(&root, "/etc/ssl/certs/ca-certificates.crt").map_err(|e| failed(e.into()))?;
    let mut known = String::new();
    File::from(bundle).take(MAX_BUNDLE_BYTES).read_to_string(&mut known).map_err(failed)?;
    Ok(certificates::beyond(&known))
}

/// The finishing script. One function, so that the shell reads all of it from standard input before it runs any.
fn script(certificates: &[String]) -> String {
    let mut text = FINISH.to_owned();
    text.push_str("python_requirements() {\n");
    text.push_str(&here_document("cat", PYTHON_REQUIREMENTS));
    text.push_str("}\nhost_network_settings() {\n:\n");
    for file in ["/etc/resolv.conf", "/etc/hosts"] {
        // Emptied again before the end. Without them pip may still have a proxy.
        let content = std::fs::read_to_string(file).unwrap_or_default();
        text.push_str(&here_document(&format!("rm -f {file}; cat > {file}"), &content));
    }
    text.push_str("}\nextra_certificates() {\n:\n");
    for (n, certificate) in certificates.iter().enumerate() {
        let write = format!("cat > /usr/local/share/ca-certificates/host-{n}.crt");
        text.push_str(&here_document(&write, certificate));
    }
    if !certificates.is_empty() {
        text.push_str("update-ca-certificates\n");
    }
    text.push_str("}\nfinish < /dev/null\n");
    text
}

/// A command with text on its standard input.
fn here_document(command: &str, text: &str) -> String {
    const END: &str = "END_OF_CABANA_TEXT";
    let lines: String = text.lines().filter(|line| *line != END).map(|line| format!("{line}\n")).collect();
    format!("{command} <<'{END}'\n{lines}{END}\n")
}
