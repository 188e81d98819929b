//! What `cabana doctor` says about storage.

use std::path::Path;

use cabana_fs::program;
use cabana_types::Fact;

use super::image;

/// The base template and a few sandboxes fit into this.
const COMFORTABLE: u64 = 10 << 30;

/// What this machine has for a pool in `data_dir`.
pub fn facts(data_dir: &Path) -> Vec<Fact> {
    vec![
        btrfs(),
        installed("btrfs-progs", "mkfs.btrfs", "btrfs-progs", "disk limits and instant snapshots"),
        loop_devices(),
        installed("mmdebstrap", "mmdebstrap", "mmdebstrap", "building the default template"),
        free_space(data_dir),
    ]
}

fn btrfs() -> Fact {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let loaded = known.lines().any(|l| l.trim() == "btrfs");
    let ok = loaded || has_module("btrfs");
    Fact {
        name: "btrfs",
        ok,
        required: false,
        detail: match (loaded, ok) {
            (true, _) => "in the kernel".to_owned(),
            (false, true) => "a module of the kernel, loaded when needed".to_owned(),
            (false, false) => "not in this kernel: sandboxes have no disk limit".to_owned(),
        },
        remedy: (!ok).then(|| "modprobe btrfs, or install the distribution's full kernel".to_owned()),
    }
}

/// Whether the running kernel has the module, built in or loadable.
fn has_module(name: &str) -> bool {
    let release = rustix::system::uname();
    let directory = Path::new("/lib/modules").join(release.release().to_string_lossy().as_ref());
    ["modules.dep", "modules.builtin"].iter().any(|list| {
        let text = std::fs::read_to_string(directory.join(list)).unwrap_or_default();
        let module = format!("/{name}.ko");
        text.lines().any(|l| l.split(':').next().is_some_and(|path| path.contains(&module)))
    })
}

fn installed(name: &'static str, program: &str, package: &str, purpose: &str) -> Fact {
    let found = program::find(program);
    Fact {
        name,
        ok: found.is_some(),
        required: false,
        detail: match &found {
            Some(path) => path.display().to_string(),
            None => format!("{program} is not installed; it is needed for {purpose}"),
        },
        remedy: found.is_none().then(|| format!("apt-get install {package}")),
    }
}

fn loop_devices() -> Fact {
    let ok = Path::new("/dev/loop-control").exists() || has_module("loop");
    Fact {
        name: "loop devices",
        ok,
        required: false,
        detail: if ok { "there" } else { "missing: a pool image cannot be mounted" }.to_owned(),
        remedy: (!ok).then(|| "modprobe loop".to_owned()),
    }
}

fn free_space(data_dir: &Path) -> Fact {
    let existing = data_dir.ancestors().find(|p| p.exists()).unwrap_or_else(|| Path::new("/"));
    let free = rustix::fs::statvfs(existing).map(|s| s.f_bavail.saturating_mul(s.f_frsize));
    let (ok, enough, detail) = match free {
        Ok(free) => (
            free >= COMFORTABLE,
            free >= image::SMALLEST,
            format!("{:.1} GiB free in {}", super::gib(free), existing.display()),
        ),
        Err(error) => (false, false, format!("{}: {error}", existing.display())),
    };
    Fact {
        name: "free disk space",
        ok,
        required: !enough,
        detail,
        remedy: (!ok).then(|| format!("free {} GiB, or put the data directory on a larger disk", COMFORTABLE >> 30)),
    }
}
