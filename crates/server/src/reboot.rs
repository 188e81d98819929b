//! Sandboxes that ran when the machine was rebooted boot again from their disks. Their processes are gone, and nobody asked for that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cabana_store::Store;
use cabana_types::SandboxId;
use cabana_types::sandbox::{PauseCause, State};
use futures_util::StreamExt;
use jiff::Timestamp;

use crate::error::Error;
use crate::lifecycle::Lifecycle;

/// Differs after each boot of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Where the last server's boot id is kept in the data directory.
const FILE: &str = "boot-id";
/// Sandboxes that boot at the same time.
const CONCURRENCY: usize = 4;

/// The boot of the machine that this server runs in.
#[derive(Debug)]
pub(crate) struct Reboot {
    file: PathBuf,
    current: String,
    /// Whether the machine was down since the last server ran.
    pub(crate) machine_died: bool,
    /// Sandboxes that ran in an earlier boot and have not reached their timeout.
    interrupted: Vec<SandboxId>,
}

impl Reboot {
    /// Compares the boot id with the last server's. Call it before recovery, which marks lost sandboxes as failed.
    pub(crate) async fn detect(data_dir: &Path, store: &Store) -> Result<Self, Error> {
        let file = data_dir.join(FILE);
        let read = |path: &Path| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
        let (earlier, current) = (read(&file), read(Path::new(BOOT_ID)));
        let mut interrupted = Vec::new();
        let machine_died = !earlier.is_empty() && !current.is_empty() && earlier != current;
        if machine_died {
            let now = Timestamp::now();
            let ran = store.live_sandboxes().await?.into_iter();
            interrupted.extend(ran.filter(|s| s.state == State::Running && s.end_at > now).map(|s| s.id));
        }
        Ok(Self { file, current, machine_died, interrupted })
    }

    /// Boots the interrupted sandboxes. Call it after recovery. One that fails stays failed: its disk is kept, and it can
    /// be recovered by request.
    pub(crate) async fn boot_again(self, lifecycle: Arc<Lifecycle>) {
        if let Err(error) = cabana_fs::atomic::write(&self.file, self.current.as_bytes(), 0o600) {
            tracing::warn!(%error, file = %self.file.display(), "could not write the boot id");
        }
        let boot = |id: SandboxId| {
            let lifecycle = Arc::clone(&lifecycle);
            async move {
                let why = PauseCause::Failed { reason: "was lost when the machine restarted".to_owned() };
                match lifecycle.recover_sandbox(&id, why).await {
                    Ok(_) => tracing::info!(sandbox = %id, "booted a sandbox again after a reboot of the machine"),
                    Err(error) => {
                        tracing::warn!(sandbox = %id, %error, "could not boot a sandbox again after a reboot")
                    }
                }
            }
        };
        futures_util::stream::iter(self.interrupted).for_each_concurrent(CONCURRENCY, boot).await;
    }
}
