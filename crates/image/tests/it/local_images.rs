//! Images in local files: OCI layouts as directories and archives, and what `docker save` writes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cabana_image::blobs::Blobs;
use cabana_image::{Digest, Error, Image, Result, Stop, layout};
use serde_json::json;

use crate::archive::{Item, directory, file, gzip, symlink, tar};
use crate::sample::Sample;

/// How much a packed archive may become.
const MOST: u64 = 1 << 20;

struct Place {
    directory: tempfile::TempDir,
    blobs: Blobs,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(&directory.path().join("blobs")).unwrap();
        Self { directory, blobs }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn import(&self, path: &Path, name: Option<&str>) -> Result<Image> {
        let result = layout::import(path, name, &self.blobs, MOST, &Stop::after(Duration::from_secs(20)));
        assert_eq!(std::fs::read_dir(self.path("blobs/partial")).unwrap().count(), 0, "a part is left");
        result
    }

    fn import_archive(&self, bytes: &[u8], name: Option<&str>) -> Result<Image> {
        let path = self.path("archive");
        std::fs::write(&path, bytes).unwrap();
        self.import(&path, name)
    }
}

/// The files of a layout with one or more images.
fn files(samples: &[(&Sample, &str)]) -> Vec<Item> {
    let mut items = vec![file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#), directory("blobs/sha256")];
    let mut manifests = Vec::new();
    for (sample, name) in samples {
        for (digest, bytes) in &sample.blobs {
            items.push(file(format!("blobs/sha256/{}", digest.hex()), bytes));
        }
        items.push(file(format!("blobs/sha256/{}", sample.digest().hex()), &sample.manifest));
        let annotations = json!({"org.opencontainers.image.ref.name": name});
        manifests
            .push(json!({"mediaType": sample.media_type, "digest": sample.digest(), "size": sample.manifest.len(),
            "annotations": annotations}));
    }
    let index = json!({"schemaVersion": 2, "manifests": manifests});
    items.push(file("index.json", serde_json::to_vec(&index).unwrap()));
    items
}

fn write(at: &Path, items: &[Item]) {
    for item in items {
        let path = at.join(std::str::from_utf8(&item.path).unwrap());
        if item.flag == b'5' {
            std::fs::create_dir_all(path).unwrap();
        } else {
            std::fs::write(path, &item.content).unwrap();
        }
    }
}

#[test]
fn layouts_in_directories_and_archives() {
    let place = Place::new();
    let (one, two) = (Sample::new(), Sample::of(&[vec![file("x", "two")]]));
    let both = files(&[(&one, "one"), (&two, "localhost/app:two")]);
    std::fs::create_dir(place.path("layout")).unwrap();
    write(&place.path("layout"), &both);
    assert_eq!(place.import(&place.path("layout"), Some("one")).unwrap().digest, one.digest());
    assert_eq!(place.import(&place.path("layout"), Some("localhost/app:two")).unwrap().digest, two.digest());
    for unclear in [Some("three"), None] {
        let error = place.import(&place.path("layout"), unclear).unwrap_err();
        assert!(error.to_string().ends_with("say which of one, localhost/app:two"), "{error}");
    }
    for bytes in [tar(&both), gzip(&tar(&both)), zstd::encode_all(&tar(&both)[..], 3).unwrap()] {
        let place = Place::new();
        let image = place.import_archive(&bytes, Some("one")).unwrap();
        assert_eq!((image.digest, image.layers.len()), (one.digest(), 2));
    }
    for name in [None, Some("whatever")] {
        let alone = place.import_archive(&tar(&files(&[(&two, "two")])), name).unwrap();
        assert_eq!(alone.digest, two.digest());
    }
}

#[test]
fn what_docker_save_writes() {
    let place = Place::new();
    let layers = [tar(&[file("a", "1")]), tar(&[file("b", "2")])];
    let config = json!({"os": "linux", "architecture": cabana_image::manifest::Platform::here().architecture,
        "config": {"Cmd": ["sh"]}, "rootfs": {"diff_ids": [Digest::of(&layers[0]), Digest::of(&layers[1]), Digest::of(&layers[0])]}});
    let list = json!([{"Config": "config.json", "RepoTags": ["app:v1", "app:latest"], "Layers": ["1/layer.tar", "2/layer.tar", "3/layer.tar"]},
        {"Config": "missing.json", "RepoTags": null, "Layers": []}]);
    let items = [
        file("config.json", config.to_string()),
        file("1/layer.tar", &layers[0]),
        file("2/layer.tar", &layers[1]),
        symlink("3/layer.tar", "../1/layer.tar"),
        file("manifest.json", list.to_string()),
    ];
    let image = place.import_archive(&tar(&items), Some("app")).unwrap();
    assert_eq!(image.layers.iter().map(|layer| layer.diff_id).collect::<Vec<_>>(), image.config.diff_ids());
    assert_eq!(image.layers[0].digest, image.layers[2].digest);
    assert_eq!(Image::load(&place.blobs, image.digest).unwrap().layers, image.layers);
    for unclear in [Some("other"), None] {
        let error = place.import_archive(&tar(&items), unclear).unwrap_err();
        assert!(error.to_string().ends_with("say which of app:v1, app:latest"), "{error}");
    }
}

#[test]
fn wrong_files_are_refused() {
    let place = Place::new();
    let sample = Sample::new();
    let good = files(&[(&sample, "x")]);
    // Each blob in turn is changed, or missing.
    for wrong in 2..good.len() - 1 {
        let mut items = good.clone();
        items[wrong].content[0] ^= 1;
        let fresh = Place::new();
        let error = fresh.import_archive(&tar(&items), None).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        items.remove(wrong);
        // Nor does it help that somebody else has brought it.
        place.import_archive(&tar(&good), None).unwrap();
        for place in [&fresh, &place] {
            let error = place.import_archive(&tar(&items), None).unwrap_err();
            assert!(matches!(error, Error::NotAnImage(_)), "{error}");
        }
    }
    for bytes in [
        &b""[..],
        b"not an archive",
        &tar(&[]),
        &tar(&[file("index.json", "{}")]),
        &tar(&[file("manifest.json", "[]")]),
    ] {
        place.import_archive(bytes, None).unwrap_err();
    }
    // What is small only as long as it is packed is not unpacked to the end.
    let bloated = gzip(&tar(&[file("zeros", vec![0; 2 << 20])]));
    let error = place.import_archive(&bloated, None).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: MOST, .. }), "{error}");
    let circle = [file("manifest.json", r#"[{"Config":"a","Layers":[]}]"#), symlink("a", "b"), symlink("b", "a")];
    assert!(place.import_archive(&tar(&circle), None).unwrap_err().to_string().contains("circles"));
    // Links out of a directory are not followed.
    let layout = place.path("layout");
    std::fs::create_dir(&layout).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", layout.join("index.json")).unwrap();
    assert!(place.import(&layout, None).is_err());
    assert!(place.import(Path::new("/nonexistent"), None).is_err());
}
