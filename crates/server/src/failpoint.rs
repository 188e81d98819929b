//! Points at which a test build of the server can be made to fail while it runs. The file that `CABANA_FAILPOINT` names
//! holds the name of a point, at which the process dies as by `kill -9`, or `panic:` and the name of a supervised task,
//! which panics. Other builds have none of this.

#[cfg(feature = "failpoints")]
pub(crate) use on::{hit, panic_tasks};

#[cfg(not(feature = "failpoints"))]
pub(crate) use off::{hit, panic_tasks};

#[cfg(feature = "failpoints")]
mod on {
    use std::path::PathBuf;
    use std::sync::LazyLock;
    use std::time::Duration;

    use cabana_supervisor::{Restart, Supervisor};

    static FILE: LazyLock<Option<PathBuf>> = LazyLock::new(|| std::env::var_os("CABANA_FAILPOINT").map(Into::into));
    const EVERY: Duration = Duration::from_millis(50);

    /// Kills this process if a test has set this failpoint.
    pub(crate) fn hit(name: &str) {
        let Some(file) = FILE.as_ref() else { return };
        if std::fs::read_to_string(file).is_ok_and(|text| text.trim() == name) {
            // Only once, so that the next server gets past it.
            let _ = std::fs::remove_file(file);
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// Panics the tasks that tests ask for.
    pub(crate) fn panic_tasks(supervisor: &Supervisor) {
        let Some(file) = FILE.as_ref() else { return };
        let panicking = supervisor.clone();
        supervisor.restart("failpoints", Restart::forever(), move |stop| {
            let panicking = panicking.clone();
            async move {
                while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
                    let asked = std::fs::read_to_string(file).unwrap_or_default();
                    if let Some(task) = asked.trim().strip_prefix("panic:") {
                        let _ = std::fs::remove_file(file);
                        panicking.inject_panic(task);
                    }
                }
            }
        });
    }
}

#[cfg(not(feature = "failpoints"))]
mod off {
    /// Does nothing in this build.
    pub(crate) fn hit(_name: &str) {}

    /// Does nothing in this build.
    pub(crate) fn panic_tasks(_supervisor: &cabana_supervisor::Supervisor) {}
}
