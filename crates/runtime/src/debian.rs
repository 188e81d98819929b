//! The default root filesystem, made from Debian packages.

mod certificates;
mod leash;
mod progress;
mod sources;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cabana_types::BuildId;
use tokio::sync::{mpsc, oneshot};

use cabana_fs::{inside, program};
use cabana_storage::{NewTree, Pool};

use crate::Error;
use leash::Leash;
use progress::Follower;
pub use progress::{Phase, Progress};

/// The recipe's version: another number means that what it makes is different, and has to be made anew.
pub const RECIPE: u32 = 1;

const RELEASE: &str = "bookworm";
/// Debian's keys, on a host that has them.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Makes `/bin` and its like links from the start, so that no package has to convert them.
const MERGED_USR: &str = "/usr/share/mmdebstrap/hooks/merged-usr";
const LONGEST: Duration = Duration::from_secs(30 * 60);
const LARGEST_BUNDLE: u64 = 8 << 20;

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
    "nodejs",
    "npm",
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

/// What `dpkg` leaves out, then and later, and that it need not wait for the disk: a sandbox's disk does not outlive a power failure.
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

/// What about the default root filesystem can be chosen.
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

/// Builds the default root filesystem into the pool. If it fails, is dropped, or the server ends, nothing is left of it.
pub async fn build_base(pool: &Pool, build: &BuildId, progress: impl Fn(Progress) + Send) -> Result<(), Error> {
    Base::default().build(pool, build, progress).await
}

impl Base {
    /// Like [`build_base`], with choices.
    pub async fn build(self, pool: &Pool, build: &BuildId, progress: impl Fn(Progress) + Send) -> Result<(), Error> {
        let new = pool.begin_build(build).await?;
        let leash = Arc::new(Leash::default());
        // Also when this future is dropped.
        let guard = PullOnDrop(Arc::clone(&leash));
        let (reports, mut reported) = mpsc::unbounded_channel();
        let (done, result) = oneshot::channel();
        // A thread of its own: it lives as long as the programs that it starts, and shares its filter with them alone.
        let worker = move || {
            leash::never_wait_for_the_disk();
            let report = |progress| {
                // Nobody may be listening any more.
                let _ = reports.send(progress);
            };
            let _ = done.send(self.fill(new, &leash, report));
        };
        let thread = std::thread::Builder::new().name("base-build".to_owned()).spawn(worker);
        thread.map_err(|source| Error::Io { action: "start a thread", source })?;

        let end = tokio::time::sleep(LONGEST);
        tokio::pin!(end, result);
        let mut late = false;
        let filled = loop {
            tokio::select! {
                biased;
                Some(report) = reported.recv() => progress(report),
                result = &mut result => break result,
                () = &mut end, if !late => {
                    late = true;
                    guard.0.pull();
                }
            }
        };
        let gone = || Error::Io { action: "build the base", source: std::io::Error::other("its thread died") };
        match filled.map_err(|_| gone())? {
            Err(Error::Program { program, output }) if late => {
                let minutes = LONGEST.as_secs() / 60;
                Err(Error::Program { program, output: format!("{output}\nnot done after {minutes} minutes") })
            }
            Err(error) => Err(error),
            Ok(new) => {
                new.commit().await?;
                progress(Progress { phase: Phase::Finishing, fraction: 1.0 });
                Ok(())
            }
        }
    }

    /// Fills the directory. On an error it is removed before the error is told.
    fn fill(self, new: NewTree, leash: &Leash, report: impl Fn(Progress)) -> Result<NewTree, Error> {
        let mut follower = Follower::new();
        leash.run("mmdebstrap", arguments(new.rootfs()), proxies(), String::new(), |line| {
            tracing::debug!(line, "mmdebstrap");
            if let Some(progress) = follower.line(line) {
                report(progress);
            }
        })?;
        report(follower.finishing());
        let certificates = if self.host_certificates { host_certificates(new.rootfs())? } else { Vec::new() };
        let chroot = vec![OsString::from(new.rootfs()), OsString::from("/bin/sh")];
        leash.run("chroot", chroot, Vec::new(), script(&certificates), |line| tracing::debug!(line, "finish"))?;
        Ok(new)
    }
}

struct PullOnDrop(Arc<Leash>);

impl Drop for PullOnDrop {
    fn drop(&mut self) {
        self.0.pull();
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
        // Given as options, mmdebstrap would filter every package through a program of its own, which takes longer than it saves.
        format!("--essential-hook=printf '%s' '{DPKG_OPTIONS}' > \"$1/etc/dpkg/dpkg.cfg.d/cabana\"").into(),
    ];
    if Path::new(MERGED_USR).is_dir() {
        arguments.push(format!("--hook-dir={MERGED_USR}").into());
    }
    arguments.extend([RELEASE.into(), rootfs.into()]);
    // Without any, mmdebstrap uses Debian's own for this release, with its updates.
    arguments.extend(sources::host_mirrors(RELEASE, keyring).into_iter().map(OsString::from));
    arguments
}

/// The proxies that the host's package manager uses, if any.
fn proxies() -> Vec<(OsString, OsString)> {
    let names = ["http_proxy", "https_proxy", "no_proxy"];
    let mut found: Vec<_> = names.iter().filter_map(|n| Some((OsString::from(n), std::env::var_os(n)?))).collect();
    let asked = ["shell", "http_proxy", "Acquire::http::Proxy", "https_proxy", "Acquire::https::Proxy"];
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

/// What the host trusts and the new root filesystem does not.
fn host_certificates(rootfs: &Path) -> Result<Vec<String>, Error> {
    let path: PathBuf = rootfs.join("etc/ssl/certs/ca-certificates.crt");
    let failed = |source: std::io::Error| Error::Path { action: "read", path: path.clone(), source };
    let root = File::open(rootfs).map_err(failed)?;
    let bundle = inside::open(&root, "/etc/ssl/certs/ca-certificates.crt").map_err(failed)?;
    let mut known = String::new();
    File::from(bundle).take(LARGEST_BUNDLE).read_to_string(&mut known).map_err(failed)?;
    Ok(certificates::beyond(&known))
}

/// The finishing script. It is read whole before it runs, because it comes through the standard input.
fn script(certificates: &[String]) -> String {
    let mut text = FINISH.to_owned();
    text.push_str("extra_certificates() {\n:\n");
    for (n, certificate) in certificates.iter().enumerate() {
        text.push_str(&format!("cat > /usr/local/share/ca-certificates/host-{n}.crt <<'END'\n{certificate}END\n"));
    }
    if !certificates.is_empty() {
        text.push_str("update-ca-certificates\n");
    }
    text.push_str("}\nfinish < /dev/null\n");
    text
}
