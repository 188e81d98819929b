//! The end of a build: its tree becomes a build of the template, and where it has a start command or a ready check, a sandbox of it is tried.

use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

use cabana_runtime::{DiskSource, Root};
use rustix::fs::{Mode, OFlags};

use super::failure::Failure;
use super::job::{Job, Made};
use crate::failpoint;
use crate::lifecycle::BenchSpec;

/// The name of the log's part that is about it.
pub(super) const FINALIZE: &str = "finalize";
/// A file that tells programs inside where they are, as in E2B's sandboxes.
const ORIGIN: &str = ".e2b";
/// How long a start command may take to be ready, at most.
const READY: Duration = Duration::from_secs(600);

impl Job {
    pub(super) async fn finish(&self, made: &Made) -> Result<(), Failure> {
        let build = &self.order.build;
        let failed = |error: cabana_runtime::Error| Failure::backend(FINALIZE, &error);
        let new = self.pool.begin_build_from(build, &made.ground.tree).await.map_err(failed)?;
        let root = new.open().map_err(failed)?;
        let text = format!("TEMPLATE_ID={}\nBUILD_ID={build}\n", self.order.template);
        self.blocking(FINALIZE, move || {
            write_origin(root.as_fd(), &text)
                .map_err(|source| cabana_image::Error::Io { action: "write the file that names the template", source })
        })
        .await?;
        new.commit().await.map_err(failed)?;
        failpoint::hit("build.committed");
        if made.boot.start.is_some() || made.boot.ready.is_some() {
            self.try_start(made).await?;
        }
        Ok(())
    }

    /// Brings a sandbox up as its users will, and throws it away.
    async fn try_start(&self, made: &Made) -> Result<(), Failure> {
        self.log.info(FINALIZE, "trying the start command");
        let spec = BenchSpec {
            template: self.order.template.clone(),
            root: Root::Build { build: self.order.build.clone(), disk: DiskSource::New },
            resources: self.order.resources,
            boot: made.boot.clone(),
        };
        let bench = self.builds.lifecycle.bench(spec).await.map_err(|e| Failure::bench(FINALIZE, &e))?;
        let ready = bench.ready(READY.min(self.time_left())).await;
        bench.remove().await;
        ready.map_err(|message| Failure::hinted(FINALIZE, message))
    }
}

fn write_origin(root: impl AsFd, text: &str) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::unlinkat(&root, ORIGIN, rustix::fs::AtFlags::empty()) {
        // A directory of that name is the image's own affair.
        Err(rustix::io::Errno::ISDIR) => return Ok(()),
        _ => {}
    }
    let file = rustix::fs::openat(root, ORIGIN, flags | OFlags::EXCL, Mode::from_raw_mode(0o644))?;
    std::fs::File::from(file).write_all(text.as_bytes())
}
