//! Tests of the codec through its public interface.

mod disk;
mod layer;

use cabana_archive::{Error, Profile, Reader};

/// Reads an archive to its end.
fn read_all(bytes: &[u8], profile: Profile) -> Result<Vec<cabana_archive::Entry>, Error> {
    let mut reader = Reader::new(bytes, profile);
    let mut entries = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        entries.push(entry);
    }
    Ok(entries)
}
