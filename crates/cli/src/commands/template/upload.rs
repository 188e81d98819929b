//! Image archives for the server, identified by hash, so that an existing one is not uploaded again.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::path::Path;

use cabana_image::digest::Hasher;
use cabana_image::dockerfile::Ignore;
use flate2::Compression;

use super::context::{Directory, template_name};
use crate::failure::Failure;

/// Stands for standard input.
const STDIN: &str = "-";
/// Chunk size.
const CHUNK: usize = 256 * 1024;
/// Hint for an image that is too large.
const TOO_LARGE_HINT: &str = "push it to a registry and use it with FROM, or raise builds.max_upload_mb on the server";

/// An archive to upload, positioned at its start.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) file: File,
    pub(super) length: u64,
    /// Hash of the contents.
    pub(super) hash: String,
    /// Description for messages.
    pub(super) what: String,
    /// Hint if it is too large.
    pub(super) too_large_hint: String,
}

/// Opens an image file as written by `docker save`, or an OCI layout (a directory or an archive of one). Blocks.
pub(super) fn image(path: &Path) -> Result<Upload, Failure> {
    let failed = |e: io::Error| Failure::from(e).context(format!("cannot read {}", path.display()));
    if path.is_dir() {
        // Layers are compressed already.
        let packed = Directory::open(path)?.pack(&Ignore::default(), Compression::none())?;
        let empty = || Failure::user_error(format!("{} is empty", path.display())).hint("give an OCI layout");
        return packed.map(|packed| described(packed, path)).ok_or_else(empty);
    }
    let mut file = if path.as_os_str() == STDIN {
        if io::stdin().is_terminal() {
            return Err(Failure::user_error("standard input is a terminal, not an image")
                .hint("for example: docker save app | cabana template import - --name app"));
        }
        spool(&mut io::stdin().lock()).map_err(failed)?
    } else {
        File::open(path).map_err(failed)?
    };
    let mut hasher = Hasher::default();
    let length = each_piece(&mut file, |piece| {
        hasher.update(piece);
        Ok(())
    });
    let length = length.map_err(failed)?;
    file.rewind().map_err(failed)?;
    let upload =
        Upload { file, length, hash: hasher.finish().hex(), what: String::new(), too_large_hint: String::new() };
    Ok(described(upload, path))
}

/// A template name derived from an image file: `app` for `app.tar.gz`.
pub(super) fn image_name(path: &Path) -> Option<String> {
    let real;
    let path = match path.file_name() {
        Some(_) => path,
        // For example `.`.
        None => {
            real = path.canonicalize().ok()?;
            &real
        }
    };
    let name = path.file_name()?.to_str()?;
    template_name(name.split_once('.').map_or(name, |(name, _)| name))
}

fn described(upload: Upload, path: &Path) -> Upload {
    let what = if path.as_os_str() == STDIN { "image".to_owned() } else { format!("image {}", path.display()) };
    Upload { what, too_large_hint: TOO_LARGE_HINT.to_owned(), ..upload }
}

/// Copies the input to an unnamed temporary file.
fn spool(input: &mut impl Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    each_piece(input, |piece| file.write_all(piece))?;
    file.rewind()?;
    Ok(file)
}

fn each_piece(input: &mut impl Read, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<u64> {
    let (mut piece, mut length) = (vec![0; CHUNK], 0);
    loop {
        match input.read(&mut piece) {
            Ok(0) => return Ok(length),
            Ok(n) => {
                take(&piece[..n])?;
                length += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_identified_by_content() {
        let place = tempfile::tempdir().expect("directory");
        let file = place.path().join("My App.tar.gz");
        std::fs::write(&file, "bytes").expect("write");
        let upload = image(&file).expect("image");
        assert_eq!((upload.length, upload.hash), (5, cabana_image::Digest::of(b"bytes").hex()));
        assert!(upload.what.ends_with("My App.tar.gz"), "{}", upload.what);
        assert_eq!(image_name(&file).as_deref(), Some("my-app"));
        assert!(image(&place.path().join("missing")).is_err());
        let layout = place.path().join("layout");
        std::fs::create_dir(&layout).expect("directory");
        assert!(image(&layout).is_err(), "nothing is in it");
        std::fs::write(layout.join("index.json"), "{}").expect("write");
        assert_eq!(image(&layout).expect("image").hash, image(&layout).expect("again").hash);
    }
}
