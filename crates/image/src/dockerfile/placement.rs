//! Where the files of a `COPY` go, by Docker's rules, and the archive that puts them there.

use std::io::Write;

use cabana_archive::{Entry, Kind, Time, Writer};

use super::context::{Context, ContextEntry, ContextKind, Selection};
use super::evaluate::Copy;
use crate::digest::{Digest, Hasher};
use crate::error::{Error, Result};
use crate::stop::Stop;

/// The time of everything that is copied: the same at every build, and late enough for archives that begin with 1980.
pub const EPOCH: i64 = 315_619_200;

/// One thing to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// Absolute.
    pub target: String,
    /// What: an entry of the context, or a text of the Dockerfile.
    pub what: Placed,
}

/// What is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// An entry of the context.
    Entry(ContextEntry),
    /// A file with this content.
    Inline(String),
}

/// Numeric owner of what an archive makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Copy {
    /// Where everything goes. `into_directory` says whether the destination is a directory already; it matters only for
    /// a single file and a destination without a slash at its end. The content of a directory is copied, not the
    /// directory itself.
    pub fn placements(&self, selection: &Selection, into_directory: bool) -> Result<Vec<Placement>> {
        let several = selection.named.len() + self.inline.len() > 1;
        let is_directory = self.destination.ends_with('/') || into_directory;
        if several && !is_directory {
            let reason = format!("several files cannot become {}: end it with a slash", self.destination);
            return Err(Error::Context(reason));
        }
        let base = self.destination.trim_end_matches('/');
        let mut placements = Vec::new();
        for (named, entries) in &selection.named {
            // All but the context itself begin with what was named.
            let is_file =
                entries.first().is_some_and(|first| first.path == *named && first.kind != ContextKind::Directory);
            for entry in entries {
                let target = if is_file {
                    let name = entry.path.rsplit('/').next().unwrap_or_default();
                    if is_directory { format!("{base}/{name}") } else { base.to_owned() }
                } else {
                    match entry.path.strip_prefix(named.as_str()).map(|rest| rest.trim_start_matches('/')) {
                        Some("") | None => continue,
                        Some(rest) => format!("{base}/{rest}"),
                    }
                };
                placements.push(Placement { target, what: Placed::Entry(entry.clone()) });
            }
        }
        for file in &self.inline {
            let target = if is_directory { format!("{base}/{}", file.name) } else { base.to_owned() };
            placements.push(Placement { target, what: Placed::Inline(file.content.clone()) });
        }
        Ok(placements)
    }

    /// The digest of what is copied, for the key of the step: of the selection and the texts of the Dockerfile.
    pub fn digest(&self, selection: &Selection) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(selection.digest.to_string().as_bytes());
        for file in &self.inline {
            hasher.update(Digest::of(file.content.as_bytes()).to_string().as_bytes());
        }
        hasher.finish()
    }
}

impl Context {
    /// Writes an archive with everything at its place (names relative to the root of the template). Times are all
    /// the same, so that the same files give the same archive. Blocks.
    pub fn archive<W: Write>(
        &self,
        placements: &[Placement],
        owner: Owner,
        mode: Option<u32>,
        out: W,
        stop: &Stop,
    ) -> Result<W> {
        let mut writer = Writer::new(out);
        for placement in placements {
            stop.check("packing the build context")?;
            let target = placement.target.trim_start_matches('/');
            let mut entry = Entry {
                uid: owner.uid.into(),
                gid: owner.gid.into(),
                mtime: Time::from_seconds(EPOCH),
                ..Entry::new(Kind::File, target, mode.unwrap_or(0o644))
            };
            if entry.path.is_empty() {
                return Err(Error::Context("a file cannot become the root".to_owned()));
            }
            let write = Error::io("pack the build context");
            match &placement.what {
                Placed::Inline(content) => {
                    entry.size = content.len() as u64;
                    writer.append(&entry, &mut content.as_bytes()).map_err(write)?;
                }
                Placed::Entry(source) => {
                    entry.mode = mode.unwrap_or(source.mode);
                    match &source.kind {
                        ContextKind::Directory => {
                            entry.kind = Kind::Directory;
                            // A mode for files would make directories unusable.
                            entry.mode = mode.map_or(source.mode, |mode| mode | (mode & 0o444) >> 2);
                            writer.append(&entry, &mut std::io::empty()).map_err(write)?;
                        }
                        ContextKind::Symlink(target) => {
                            entry.kind = Kind::Symlink;
                            entry.mode = 0o777;
                            entry.link = target.clone().into_bytes();
                            writer.append(&entry, &mut std::io::empty()).map_err(write)?;
                        }
                        ContextKind::File => {
                            entry.size = source.size;
                            let mut file = self.open(&source.path)?;
                            writer.append(&entry, &mut file).map_err(write)?;
                        }
                    }
                }
            }
        }
        writer.finish().map_err(Error::io("pack the build context"))
    }
}
