//! The control files of the package.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::tree::Tree;

/// Programs that the server runs.
const DEPENDS: &str = "btrfs-progs, ca-certificates, iproute2, libgcc-s1, mmdebstrap, mount, nftables, util-linux";
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Writes `DEBIAN/`.
pub(super) fn write(tree: &mut Tree, repository: &Path, version: &str, architecture: &str) -> Result<()> {
    let program = fs::read(tree.root().join("usr/bin/cabana"))?;
    let (major, minor) = glibc(&program).context("the program uses glibc")?;
    let size = tree.size_kib()?;
    let control = format!(
        "\
Package: cabana
Version: {version}
Architecture: {architecture}
Maintainer: The authors of Cabana <cabana@localhost>
Installed-Size: {size}
Depends: libc6 (>= {major}.{minor}), {DEPENDS}
Recommends: debian-archive-keyring
Section: admin
Priority: optional
Description: self-hosted sandboxes for AI agents
 Cabana runs many small isolated Linux machines on one host and serves them by
 the API that E2B's clients use. It creates, pauses, resumes, forks, archives
 and snapshots them, and builds templates from Dockerfiles.
"
    );
    tree.file("DEBIAN/control", control.as_bytes(), 0o644)?;
    tree.file("DEBIAN/conffiles", b"/etc/cabana/config.toml\n", 0o644)?;
    for script in SCRIPTS {
        let content = fs::read(repository.join("packaging/debian").join(script))?;
        tree.file(&format!("DEBIAN/{script}"), &content, 0o755)?;
    }
    Ok(())
}

/// The newest version of glibc whose symbols a program uses: the names are in its table of strings.
fn glibc(program: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"\0GLIBC_";
    let version = |start: usize| {
        let rest = program.get(start + PREFIX.len()..)?;
        let end = rest.iter().take(16).position(|byte| *byte == 0)?;
        let (major, minor) = std::str::from_utf8(&rest[..end]).ok()?.split_once('.')?;
        Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
    };
    let starts = program.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX);
    starts.filter_map(|(start, _)| version(start)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_version_counts() {
        assert_eq!(glibc(b"x\0GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.2.5\0GLIBC_PRIVATE\0"), Some((2, 34)));
        assert_eq!(glibc(b"static"), None);
    }
}
