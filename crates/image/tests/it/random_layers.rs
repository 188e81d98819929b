//! Random layers in sequence, and layers with random bytes changed: they are taken or refused, nothing outside changes
//! (`Scene` looks), nothing panics, and what is there afterwards is plain. For longer runs: `PROPTEST_CASES=20000`,
//! with `TMPDIR` in memory.

use std::path::Path;

use proptest::prelude::*;

use crate::archive::{Item, checksum, file, gzip, item, tar};
use crate::scene::Scene;

/// Few names, so that entries meet.
fn name() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        8 => Just("a"), 8 => Just("b"), 4 => Just("c"), 2 => Just(".."), 1 => Just("."), 1 => Just(""), 2 => Just(".wh.a"),
        1 => Just(".wh..wh..opq"), 1 => Just(".wh..."), 1 => Just("outside"), 1 => Just("secret"), 1 => Just("root"),
    ];
    proptest::collection::vec(part, 1..5).prop_map(|parts| parts.join("/"))
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![4 => name(), 1 => Just("OUTSIDE".to_owned()), 1 => Just("OUTSIDE/secret".to_owned()), 1 => Just("/".to_owned()),
        2 => Just("../outside".to_owned()), 1 => Just("../outside/secret".to_owned()), 1 => Just("/proc/self/cwd".to_owned())]
}

fn entry() -> impl Strategy<Value = Item> {
    let flag = prop_oneof![6 => Just(b'0'), 4 => Just(b'5'), 5 => Just(b'2'), 3 => Just(b'1'), 1 => Just(b'3'), 1 => Just(b'6')];
    (name(), flag, target(), 0_u32..0o10000, 0_u64..70_000, proptest::collection::vec(any::<u8>(), 0..20)).prop_map(
        |(path, flag, link, mode, uid, content)| {
            let mut entry = item(path, flag).mode(mode).owner(uid, uid);
            if flag == b'0' {
                entry.content = content;
            }
            if matches!(flag, b'1' | b'2') {
                entry.link = link.into_bytes();
            }
            entry
        },
    )
}

fn check_plain(at: &Path, depth: usize) {
    assert!(depth < 50);
    for entry in std::fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.symlink_metadata().unwrap().file_type();
        assert!(kind.is_file() || kind.is_dir() || kind.is_symlink(), "{path:?}");
        if kind.is_dir() {
            check_plain(&path, depth + 1);
        }
    }
}

proptest! {
    #[test]
    fn layers_in_sequence(layers in proptest::collection::vec(proptest::collection::vec(entry(), 1..12), 1..4)) {
        let scene = Scene::new();
        let outside = scene.outside().to_str().unwrap().to_owned();
        for mut layer in layers {
            for entry in &mut layer {
                if let Ok(link) = std::str::from_utf8(&entry.link) {
                    entry.link = link.replace("OUTSIDE", &outside).into_bytes();
                }
            }
            // One by one as well: else the first refusal hides the rest.
            let _ = scene.apply(&layer);
            for entry in layer {
                let _ = scene.apply(&[entry]);
            }
        }
        check_plain(&scene.root(), 0);
    }

    #[test]
    fn changed_bytes(
        entries in proptest::collection::vec(entry(), 1..6),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        mend in any::<bool>(),
        compress in any::<bool>(),
    ) {
        let scene = Scene::new();
        let mut bytes = tar(&[vec![file("long", "x").pax("path", "a/b/c").pax("mtime", "1.5")], entries].concat());
        let flip = |bytes: &mut Vec<u8>| {
            for (index, byte) in &changes {
                let at = index.index(bytes.len());
                bytes[at] = *byte;
            }
        };
        if compress {
            bytes = gzip(&bytes);
            flip(&mut bytes);
        } else {
            flip(&mut bytes);
            if mend {
                // Headers with wrong fields but a right checksum get further.
                for block in bytes.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
                    checksum(block);
                }
            }
        }
        let _ = scene.apply_bytes(&bytes);
        check_plain(&scene.root(), 0);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let _ = Scene::new().apply_bytes(&bytes);
    }
}
