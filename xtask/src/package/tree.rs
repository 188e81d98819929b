//! The files of the package.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};

use super::{output, run};

const DEFAULTS: &str = "crates/server/src/defaults.toml";

/// A directory that becomes the package, as seen from `/`.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file.
    pub(super) fn file(&mut self, path: &str, content: &[u8], mode: u32) -> Result<PathBuf> {
        let target = self.root.join(path);
        self.directory_of(&target)?;
        fs::write(&target, content).with_context(|| format!("writing {}", target.display()))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
        Ok(target)
    }

    /// Creates the directories above a file, readable for all whatever the umask.
    fn directory_of(&self, target: &Path) -> Result<()> {
        let directory = target.parent().context("a file has a directory")?;
        fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
        for directory in directory.ancestors().take_while(|d| d.starts_with(&self.root)) {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    /// The program, without its debug information.
    pub(super) fn program(&mut self, program: &Path) -> Result<()> {
        // Its exit code does not matter: this machine may lack what a server needs.
        let report = Command::new(program).arg("doctor").env_remove("CABANA_GUEST").output();
        let report = report.with_context(|| format!("running {}", program.display()))?;
        if !String::from_utf8_lossy(&report.stdout).contains("embedded") {
            bail!("{} has no guest embedded", program.display());
        }
        let target = self.root.join("usr/bin/cabana");
        self.directory_of(&target)?;
        run(Command::new("strip").arg("-o").arg(&target).arg(program))?;
        fs::set_permissions(&target, fs::Permissions::from_mode(0o755))?;
        Ok(())
    }

    pub(super) fn unit(&mut self, repository: &Path) -> Result<()> {
        let unit = fs::read(repository.join("packaging/cabana.service"))?;
        self.file("usr/lib/systemd/system/cabana.service", &unit, 0o644)?;
        // Loaded by the operator: see docs/hardening.md.
        let profile = fs::read(repository.join("packaging/apparmor/cabana-sandbox"))?;
        self.file("usr/share/cabana/apparmor/cabana-sandbox", &profile, 0o644)?;
        Ok(())
    }

    /// The configuration file: every setting with its default, commented out.
    pub(super) fn configuration(&mut self, repository: &Path) -> Result<()> {
        let defaults = fs::read_to_string(repository.join(DEFAULTS)).with_context(|| format!("reading {DEFAULTS}"))?;
        let mut text = String::from(
            "# Settings of the Cabana server. The values are the defaults; remove the `#` before a line and the `[section]` above it to\n\
             # change one, then run `systemctl restart cabana`. Sandboxes keep running.\n\n",
        );
        text.push_str(&commented_out(&defaults));
        self.file("etc/cabana/config.toml", text.as_bytes(), 0o644)?;
        Ok(())
    }

    pub(super) fn completions(&mut self, program: &Path) -> Result<()> {
        for (shell, path) in [
            ("bash", "usr/share/bash-completion/completions/cabana"),
            ("zsh", "usr/share/zsh/vendor-completions/_cabana"),
            ("fish", "usr/share/fish/vendor_completions.d/cabana.fish"),
        ] {
            let script = output(Command::new(program).args(["completions", shell]))?;
            self.file(path, script.as_bytes(), 0o644)?;
        }
        Ok(())
    }

    pub(super) fn manual_pages(&mut self, program: &Path) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        run(Command::new(program).arg("man").arg(scratch.path()))?;
        for entry in fs::read_dir(scratch.path())? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a manual page has a plain name")?;
            self.file(&format!("usr/share/man/man1/{name}.gz"), &compress(&fs::read(entry.path())?)?, 0o644)?;
        }
        Ok(())
    }

    pub(super) fn documentation(&mut self, repository: &Path) -> Result<()> {
        let directory = "usr/share/doc/cabana";
        let changes = fs::read(repository.join("CHANGELOG.md"))?;
        self.file(&format!("{directory}/changelog.gz"), &compress(&changes)?, 0o644)?;
        self.file(&format!("{directory}/operating.md"), &fs::read(repository.join("docs/operating.md"))?, 0o644)?;
        self.file(&format!("{directory}/copyright"), include_bytes!("../../../packaging/debian/copyright"), 0o644)?;
        Ok(())
    }

    /// The size of all files, KiB.
    pub(super) fn size_kib(&self) -> Result<u64> {
        let report = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(&self.root))?;
        Ok(report.split_whitespace().next().context("du prints a number")?.parse()?)
    }
}

/// gzip without a time stamp, so that the same input gives the same package.
fn compress(content: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(content)?;
    Ok(encoder.finish()?)
}

fn commented_out(defaults: &str) -> String {
    let comment = |line: &str| match line.trim() {
        "" => "\n".to_owned(),
        text if text.starts_with('#') => format!("{line}\n"),
        _ => format!("#{line}\n"),
    };
    defaults.lines().map(comment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commented_out_file_sets_nothing() {
        let text = commented_out("# about\nlisten = \"x\"\n\n[tls]\nmode = \"off\"\n");
        assert_eq!(text, "# about\n#listen = \"x\"\n\n#[tls]\n#mode = \"off\"\n");
    }
}
