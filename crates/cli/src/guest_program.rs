//! Where the guest daemon's executable is.

use std::path::{Path, PathBuf};

use cabana_types::env;

/// Its name beside `cabana`.
const NAME: &str = "cabana-guest";

/// The file named by the environment, or the one beside this program. It may be missing.
pub(crate) fn locate() -> PathBuf {
    if let Some(named) = std::env::var_os(env::GUEST).filter(|v| !v.is_empty()) {
        return PathBuf::from(named);
    }
    let own = std::env::current_exe().unwrap_or_default();
    own.with_file_name(NAME)
}

/// Whether a file can be executed as the guest: inside a sandbox there are no shared libraries for it.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err("it is not an executable file".to_owned());
    }
    Ok(())
}
