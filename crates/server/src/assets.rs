//! Where the files of the web console come from. The program embeds them; the server does not depend on them, so that a
//! changed page recompiles only the program.

use std::borrow::Cow;
use std::fmt::Debug;
use std::path::{Component, Path, PathBuf};

/// Bytes of a file beyond which a directory does not serve it.
const MAX_BYTES: u64 = 64 << 20;

/// The files of the web console.
pub trait Assets: Debug + Send + Sync {
    /// A file by its path, such as `index.html` or `assets/x.js.br`.
    fn get(&self, path: &str) -> Option<Cow<'static, [u8]>>;
}

/// No console.
#[derive(Debug)]
pub struct NoAssets;

impl Assets for NoAssets {
    fn get(&self, _path: &str) -> Option<Cow<'static, [u8]>> {
        None
    }
}

/// A directory that is read for every request, for work on the console.
#[derive(Debug)]
pub struct AssetsDirectory(pub PathBuf);

impl Assets for AssetsDirectory {
    fn get(&self, path: &str) -> Option<Cow<'static, [u8]>> {
        let path = Path::new(path);
        if !path.components().all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        let path = self.0.join(path);
        let about = std::fs::metadata(&path).ok()?;
        (about.is_file() && about.len() <= MAX_BYTES).then_some(())?;
        std::fs::read(path).ok().map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_serves_only_what_is_in_it() {
        let directory = tempfile::tempdir().expect("directory");
        std::fs::create_dir(directory.path().join("dist")).expect("dist");
        std::fs::write(directory.path().join("dist/index.html"), "page").expect("page");
        std::fs::write(directory.path().join("secret"), "secret").expect("secret");
        let assets = AssetsDirectory(directory.path().join("dist"));
        assert_eq!(assets.get("index.html").as_deref(), Some(&b"page"[..]));
        for path in ["../secret", "/etc/passwd", "a/../../secret", ".", "", "none"] {
            assert_eq!(assets.get(path), None, "{path}");
        }
    }
}
