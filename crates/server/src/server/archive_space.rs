//! The space that archives may take.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cabana_fs::space::Space;

use crate::config::Config;
use crate::error::Error;

/// What archives leave free on a disk of their own.
const ARCHIVE_RESERVE: u64 = 256 << 20;

/// Where archives have to fit: beside everything else if they are on the disk of the data directory.
pub(super) fn archive_space(config: &Config, around_pool: Option<&Space>) -> Result<Space, Error> {
    let location = config.cold_storage().location;
    let path = Path::new(&location);
    if !path.is_absolute() {
        return Ok(Space::unlimited());
    }
    let failed = |source| Error::Path { action: "look at", path: path.to_owned(), source };
    let device = |path: &Path| std::fs::metadata(path).map(|about| about.dev());
    match around_pool {
        Some(space) if device(path).map_err(failed)? == device(&config.data_dir).map_err(failed)? => Ok(space.clone()),
        _ => Space::of(path, ARCHIVE_RESERVE).map_err(failed),
    }
}
