//! The end of a build: its tree becomes a build of the template. If there is a start command or a ready check, it is
//! tried in a sandbox.

use std::io::Write;
use std::os::fd::AsFd;

use cabana_image::Digest;
use cabana_runtime::{DiskSource, Root};
use cabana_store::{CacheKey, CacheKind};
use rustix::fs::{Mode, OFlags};

use super::accounts;
use super::build_task::{BuildOutput, BuildTask};
use super::failure::{Failure, short};
use crate::failpoint;
use crate::lifecycle::BuildSandboxSpec;

/// The step name in the log.
pub(super) const FINALIZE: &str = "finalize";
/// A file by which programs detect that they run in a sandbox, as in E2B's sandboxes.
const ORIGIN: &str = ".e2b";
/// The directory that login shells read, and our file in it.
const PROFILES: &str = "etc/profile.d";
const PROFILE: &str = "zz-template.sh";
const PLACE: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

impl BuildTask {
    pub(super) async fn finish(&self, output: &BuildOutput) -> Result<(), Failure> {
        let build = &self.spec.build;
        let failed = |error: cabana_storage::Error| Failure::storage(FINALIZE, &error);
        let new = self.pool.begin_build_from(build, &output.layer.tree).await.map_err(failed)?;
        let root = new.open().map_err(failed)?;
        let text = format!("TEMPLATE_ID={}\nBUILD_ID={build}\n", self.spec.template);
        let path = output.boot.env.get("PATH").map(|path| profile(path));
        self.blocking(FINALIZE, move || {
            let written = write_new(&root, ORIGIN, &text).and_then(|()| {
                match (path, accounts::open_inside(&root, PROFILES, PLACE)) {
                    (Some(path), Ok(directory)) => write_new(&directory, PROFILE, &path),
                    _ => Ok(()),
                }
            });
            written
                .map_err(|source| cabana_image::Error::Io { action: "write the files that name the template", source })
        })
        .await?;
        new.commit().await.map_err(failed)?;
        failpoint::hit("build.committed");
        if output.boot.start.is_some() || output.boot.ready.is_some() {
            self.try_start_once(output).await?;
        }
        Ok(())
    }

    /// Tries the result, unless the same was tried before.
    async fn try_start_once(&self, output: &BuildOutput) -> Result<(), Failure> {
        let tried =
            format!("{:?} {:?} {:?} {:?}", output.layer.key, output.boot, self.spec.resources, self.spec.template);
        let key = CacheKey::new(CacheKind::Start, Digest::of(tried.as_bytes()).hex());
        let known = self.builds.store.is_cached(&key).await.map_err(|error| Failure::store(FINALIZE, &error))?;
        if !self.spec.force && known {
            self.log.info(FINALIZE, "CACHED the start command was tried before");
        } else {
            self.try_start(output).await?;
        }
        self.note_use(key);
        Ok(())
    }

    /// Starts a sandbox as users will, and removes it.
    async fn try_start(&self, output: &BuildOutput) -> Result<(), Failure> {
        self.log.info(FINALIZE, "trying the start command");
        let spec = BuildSandboxSpec {
            template: self.spec.template.clone(),
            root: Root::Build { build: self.spec.build.clone(), disk: DiskSource::New },
            resources: self.spec.resources,
            boot: output.boot.clone(),
        };
        let sandbox = self.builds.lifecycle.build_sandbox(spec).await.map_err(|e| Failure::sandbox(FINALIZE, &e))?;
        let ready = sandbox.ready(self.builds.lifecycle.ready_limit().min(self.time_left())).await;
        sandbox.remove().await;
        ready.map_err(|message| {
            let shown = |what, command: &Option<Vec<String>>| {
                command
                    .as_ref()
                    .map(|command| format!("\nThe {what} command: {}", short(&command.join(" "))))
                    .unwrap_or_default()
            };
            let (start, check) = (shown("start", &output.boot.start), shown("ready", &output.boot.ready));
            Failure::hinted(FINALIZE, format!("{message}{start}{check}"))
        })
    }
}

/// Restores the template's `PATH` in login shells, which reset it; E2B's clients run commands with login shells.
fn profile(path: &str) -> String {
    format!("PATH='{}'\nexport PATH\n", path.replace('\'', "'\\''"))
}

/// Writes a file, replacing an existing one. A directory of that name is left alone.
fn write_new(directory: impl AsFd, name: &str, text: &str) -> std::io::Result<()> {
    if rustix::fs::unlinkat(&directory, name, rustix::fs::AtFlags::empty()) == Err(rustix::io::Errno::ISDIR) {
        return Ok(());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o644))?;
    std::fs::File::from(file).write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_replace_links_and_leave_directories() {
        let root = tempfile::tempdir().unwrap();
        let outside = root.path().join("outside");
        std::fs::write(&outside, "").unwrap();
        std::os::unix::fs::symlink(&outside, root.path().join("link")).unwrap();
        std::fs::create_dir(root.path().join("directory")).unwrap();
        let open = std::fs::File::open(root.path()).unwrap();
        for name in ["link", "directory", "new"] {
            write_new(&open, name, "x").unwrap();
        }
        assert_eq!(std::fs::read_to_string(outside).unwrap(), "");
        assert_eq!(std::fs::read_to_string(root.path().join("link")).unwrap(), "x");
        assert!(root.path().join("directory").is_dir());
        assert_eq!(profile("/a'b:/c"), "PATH='/a'\\''b:/c'\nexport PATH\n");
    }
}
