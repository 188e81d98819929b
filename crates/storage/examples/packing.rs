//! Times packing and unpacking against `tar` with `zstd`: `packing DIRECTORY [ROUNDS]`. `DIRECTORY` (a root filesystem, say) is taken
//! for a disk's upper directory and must lie on a filesystem of its own or beside scratch space. Needs root.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use cabana_storage::pack::{Limits, Selection, pack, unpack};
use tokio_util::sync::CancellationToken;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (directory, rounds) = match &args[..] {
        [directory] => (PathBuf::from(directory), 3),
        [directory, rounds] => (PathBuf::from(directory), rounds.parse().unwrap()),
        _ => panic!("usage: packing DIRECTORY [ROUNDS]"),
    };
    let scratch = tempfile::Builder::new().prefix("packing-").tempdir_in(directory.parent().unwrap()).unwrap();
    let disk = scratch.path().join("disk");
    fs::create_dir(&disk).unwrap();
    run(Command::new("cp").arg("-a").arg(&directory).arg(disk.join("upper")));
    let (limits, cancel) = (Limits::default(), CancellationToken::new());
    let mut best = [Cost { wall: f64::MAX, cpu: f64::MAX }; 4];
    for _ in 0..rounds {
        let (ours, theirs) = (scratch.path().join("ours.tar.zst"), scratch.path().join("theirs.tar.zst"));
        best[0] = best[0].min(timed(|| {
            let file = BufWriter::new(fs::File::create(&ours).unwrap());
            let packed = pack(fs::File::open(&disk).unwrap(), &Selection::Everything, file, &limits, &cancel).unwrap();
            println!("{} entries, {} MiB of data", packed.entries, packed.bytes >> 20);
        }));
        best[1] = best[1].min(timed(|| {
            let script =
                r#"tar --xattrs --xattrs-include='*' --format=posix -cf - -C "$1" upper | zstd -3 -q -f -o "$2""#;
            run(Command::new("sh").args(["-c", script, "sh"]).arg(&disk).arg(&theirs));
        }));
        println!("packed to {} MiB; tar and zstd: {} MiB", mib(&ours), mib(&theirs));
        let empty = |name: &str| {
            let target = scratch.path().join(name);
            let _ = fs::remove_dir_all(&target);
            fs::create_dir(&target).unwrap();
            target
        };
        let target = empty("to");
        best[2] = best[2].min(timed(|| {
            unpack(fs::File::open(&ours).unwrap(), fs::File::open(&target).unwrap(), &limits, &cancel).unwrap();
        }));
        let target = empty("to");
        best[3] = best[3].min(timed(|| {
            let script = r#"zstd -dcq "$1" | tar --xattrs --xattrs-include='*' --same-owner -xpf - -C "$2""#;
            run(Command::new("sh").args(["-c", script, "sh"]).arg(&theirs).arg(&target));
        }));
    }
    for (what, ours, theirs) in [("pack", best[0], best[1]), ("unpack", best[2], best[3])] {
        println!("{what}: {:.2} s beside {:.2} s, ratio {:.2}", ours.wall, theirs.wall, ours.wall / theirs.wall);
        println!("{what}: {:.2} s of CPU beside {:.2} s, ratio {:.2}", ours.cpu, theirs.cpu, ours.cpu / theirs.cpu);
    }
}

/// Seconds that something took, and of the processors' time for ourselves and those we ran.
#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

impl Cost {
    fn min(self, other: Self) -> Self {
        Self { wall: self.wall.min(other.wall), cpu: self.cpu.min(other.cpu) }
    }
}

fn timed(work: impl FnOnce()) -> Cost {
    let (begin, before) = (Instant::now(), cpu());
    work();
    Cost { wall: begin.elapsed().as_secs_f64(), cpu: cpu() - before }
}

fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(4);
    fields.map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

fn mib(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len() >> 20
}
