//! Archives for the server: images in files. What is there already is known by its hash, and not sent again.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::path::Path;

use cabana_image::digest::Hasher;
use cabana_image::dockerfile::Ignore;
use flate2::Compression;

use super::context::{Directory, template_name};
use crate::failure::Failure;

/// What stands for standard input.
const STDIN: &str = "-";
/// How much is read at once.
const CHUNK: usize = 256 * 1024;
/// What to do about an image that is too large.
const LESS: &str = "push it to a registry and name it with FROM, or raise builds.max_upload_mb on the server";

/// An archive to be sent, at its beginning.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) file: File,
    pub(super) length: u64,
    /// Of what is in it.
    pub(super) hash: String,
    /// In words.
    pub(super) what: String,
    /// What to do if it is too large.
    pub(super) less: String,
}

/// An image in a file, as `docker save` writes it, or in an OCI layout: a directory or an archive of one. Blocks.
pub(super) fn image(path: &Path) -> Result<Upload, Failure> {
    let failed = |e: io::Error| Failure::from(e).context(format!("cannot read {}", path.display()));
    if path.is_dir() {
        // Its layers are packed already.
        let packed = Directory::open(path)?.pack(&Ignore::default(), Compression::none())?;
        let empty = || Failure::yours(format!("{} is empty", path.display())).hint("give an OCI layout");
        return packed.map(|packed| described(packed, path)).ok_or_else(empty);
    }
    let mut file = if path.as_os_str() == STDIN {
        if io::stdin().is_terminal() {
            return Err(Failure::yours("no image is piped in")
                .hint("for example: docker save app | cabana template import - --name app"));
        }
        keep(&mut io::stdin().lock()).map_err(failed)?
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
    let upload = Upload { file, length, hash: hasher.finish().hex(), what: String::new(), less: String::new() };
    Ok(described(upload, path))
}

/// A name for a template after an image's file: `app` of `app.tar.gz`.
pub(super) fn image_name(path: &Path) -> Option<String> {
    let real;
    let path = match path.file_name() {
        Some(_) => path,
        // `.` and the like.
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
    Upload { what, less: LESS.to_owned(), ..upload }
}

/// Everything that comes, in a file that has no name.
fn keep(input: &mut impl Read) -> io::Result<File> {
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
    fn an_image_is_known_by_what_is_in_it() {
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
