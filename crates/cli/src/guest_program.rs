//! The guest executable: embedded in released programs, a file in development.

use std::borrow::Cow;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cabana_types::env;

use crate::failure::Failure;

/// Set by `build.rs` if the guest is embedded.
#[cfg(embedded_guest)]
static EMBEDDED: Option<&[u8]> = Some(include_bytes!(env!("CABANA_EMBEDDED_GUEST")));
#[cfg(not(embedded_guest))]
static EMBEDDED: Option<&[u8]> = None;

/// File name next to `cabana`.
const NAME: &str = "cabana-guest";

pub(crate) const REMEDY: &str = "put cabana-guest next to cabana, or set CABANA_GUEST to its path";

/// The file to use: from the environment or, if none is embedded, next to this program.
pub(crate) fn file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(env::GUEST).filter(|v| !v.is_empty()) {
        return Some(PathBuf::from(named));
    }
    let own = || std::env::current_exe().unwrap_or_default();
    EMBEDDED.is_none().then(|| own().with_file_name(NAME))
}

/// Describes the guest that will be used, or why there is none.
pub(crate) fn check() -> Result<String, String> {
    let Some(path) = file() else { return Ok("embedded".to_owned()) };
    let metadata = fs::metadata(&path).map_err(|e| format!("{} cannot be used: {e}", path.display()))?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return Err(format!("{} cannot be used: it is not an executable file", path.display()));
    }
    Ok(path.display().to_string())
}

/// Reads the file, or returns the embedded guest if none is given.
pub(crate) fn read(file: Option<&Path>) -> Result<Cow<'static, [u8]>, Failure> {
    match (file, EMBEDDED) {
        (Some(path), _) => match fs::read(path) {
            Ok(bytes) => Ok(Cow::Owned(bytes)),
            Err(e) => Err(Failure::from(e).context(format!("cannot read the guest program {}", path.display()))),
        },
        (None, Some(bytes)) => Ok(Cow::Borrowed(bytes)),
        (None, None) => Err(Failure::user_error("no guest program is embedded").hint(REMEDY)),
    }
}
