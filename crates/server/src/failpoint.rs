//! Points at which a test build of the server can be made to die, as by `kill -9`, while it runs: the file that `CABANA_FAILPOINT` names
//! holds the name of the point. Other builds have none of this.

/// Dies here, if a test asked for it.
#[cfg(feature = "failpoints")]
pub(crate) fn hit(name: &str) {
    static FILE: std::sync::LazyLock<Option<std::path::PathBuf>> =
        std::sync::LazyLock::new(|| std::env::var_os("CABANA_FAILPOINT").map(Into::into));
    let Some(file) = FILE.as_ref() else { return };
    if std::fs::read_to_string(file).is_ok_and(|asked| asked.trim() == name) {
        // Once only: the next server must get past it.
        let _ = std::fs::remove_file(file);
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Nothing.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn hit(_name: &str) {}
