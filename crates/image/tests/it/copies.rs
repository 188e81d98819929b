//! From a `COPY` and a build context to files in a root filesystem.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use cabana_image::dockerfile::{Action, Context, ContextLimits, Copy, Dockerfile, DockerfileError, Ignore, Owner};
use cabana_image::manifest::Defaults;
use cabana_image::unpack::{self, Limits, Whiteouts};
use cabana_image::{Error, Result, Stop};

struct Build {
    context: tempfile::TempDir,
    root: tempfile::TempDir,
}

fn stop() -> Stop {
    Stop::after(Duration::from_secs(20))
}

fn copy(instruction: &str) -> Copy {
    let plan = Dockerfile::parse(&format!("FROM x\nWORKDIR /app\n{instruction}"))
        .unwrap()
        .plan(None, &BTreeMap::new())
        .unwrap();
    let mut done = plan.evaluate_all(|_| Ok::<_, DockerfileError>(Defaults::default())).unwrap();
    match done.remove(0).steps.pop().unwrap().action {
        Action::Copy(copy) => copy,
        other => panic!("{other:?}"),
    }
}

impl Build {
    fn new() -> Self {
        let context = tempfile::tempdir().unwrap();
        for (path, content) in
            [("a.txt", "a"), ("b.txt", "b"), ("dir/x", "x"), ("dir/sub/y", "y"), ("dir/.wh.odd", "odd")]
        {
            let path = context.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::set_permissions(context.path().join("dir/x"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", context.path().join("dir/link")).unwrap();
        Self { context, root: tempfile::tempdir().unwrap() }
    }

    /// Does it, and says which files are there then.
    fn run(&self, instruction: &str, into_directory: bool) -> Result<Vec<String>> {
        let copy = copy(instruction);
        let directory = fs::File::open(self.context.path()).unwrap();
        let context = Context::read(directory.as_fd(), &Ignore::default(), &ContextLimits::default(), &stop())?;
        let selection = context.select(&copy.sources, &copy.excludes, &stop())?;
        let placements = copy.placements(&selection, into_directory)?;
        let bytes = context.archive(&placements, Owner { uid: 7, gid: 8 }, copy.mode, Vec::new(), &stop())?;
        let again = context.archive(&placements, Owner { uid: 7, gid: 8 }, copy.mode, Vec::new(), &stop())?;
        assert_eq!(bytes, again, "the same files give the same archive");
        let root = fs::File::open(self.root.path()).unwrap();
        unpack::apply(&bytes[..], root.as_fd(), Whiteouts::Ignore, &Limits::default(), &stop())?;
        let mut found = Vec::new();
        list(self.root.path(), "", &mut found);
        Ok(found)
    }

    fn status(&self, path: &str) -> fs::Metadata {
        self.root.path().join(path).symlink_metadata().unwrap()
    }
}

fn list(at: &std::path::Path, prefix: &str, found: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(at).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), &format!("{name}/"), found);
        } else {
            found.push(name);
        }
    }
}

#[test]
fn dockers_rules() {
    for (instruction, into, expected) in [
        ("COPY a.txt new", false, "app/new"),
        ("COPY a.txt existing", true, "app/existing/a.txt"),
        ("COPY a.txt new/", false, "app/new/a.txt"),
        ("COPY a.txt /x/y", false, "x/y"),
        ("COPY *.txt ./", false, "app/a.txt app/b.txt"),
        ("COPY dir .", false, "app/.wh.odd app/link app/sub/y app/x"),
        ("COPY dir/ new", false, "app/new/.wh.odd app/new/link app/new/sub/y app/new/x"),
        ("COPY dir/sub a.txt new/", false, "app/new/a.txt app/new/y"),
        ("COPY d* /", false, ".wh.odd link sub/y x"),
        ("COPY --exclude=**/y --exclude=link dir /e/", false, "e/.wh.odd e/x"),
        ("COPY . /c", false, "c/a.txt c/b.txt c/dir/.wh.odd c/dir/link c/dir/sub/y c/dir/x"),
        ("COPY <<one <<two /etc/\n1\none\n2\ntwo", false, "etc/one etc/two"),
        ("COPY <<one /etc/file\n1\none", false, "etc/file"),
    ] {
        let build = Build::new();
        assert_eq!(build.run(instruction, into).unwrap().join(" "), expected, "{instruction}");
    }
    let build = Build::new();
    assert!(matches!(build.run("COPY *.txt new", false), Err(Error::Context(_))));
    build.run("COPY dir /d", false).unwrap();
    let x = build.status("d/x");
    assert_eq!((x.uid(), x.gid(), x.mode() & 0o7777), (7, 8, 0o755));
    assert!(build.status("d/link").is_symlink());
    build.run("COPY --chmod=640 dir /m", false).unwrap();
    assert_eq!((build.status("m/x").mode() & 0o7777, build.status("m/sub").mode() & 0o7777), (0o640, 0o750));
}
