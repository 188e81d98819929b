"""Files through the SDK: reading and writing in every form, listing, moving, watching, and what is refused."""

import gzip
import io
from pathlib import Path

import pytest
from e2b import (
    AuthenticationException,
    FileNotFoundException,
    FilesystemEventType,
    FileType,
    InvalidArgumentException,
    SandboxException,
)

from waiting import eventually


def test_text_and_bytes(sandbox):
    info = sandbox.files.write("notes.txt", "first ž 🐎\n")
    assert (info.name, info.path, info.type) == ("notes.txt", "/home/user/notes.txt", FileType.FILE)
    assert sandbox.files.read("notes.txt") == "first ž 🐎\n"
    assert sandbox.files.read("~/notes.txt") == "first ž 🐎\n"
    blob = bytes(range(256)) * 1000
    sandbox.files.write("/tmp/deep/er/blob", blob)
    assert sandbox.files.read("/tmp/deep/er/blob", format="bytes") == blob
    sandbox.files.write("/tmp/deep/er/blob", b"short")
    assert sandbox.files.read("/tmp/deep/er/blob", format="bytes") == b"short"
    assert sandbox.commands.run("stat -c '%U %a' notes.txt").stdout == "user 644\n"


def test_empty_file(sandbox):
    sandbox.files.write("empty", "")
    assert sandbox.files.read("empty") == ""
    assert sandbox.files.read("empty", format="bytes") == b""


def test_streams(sandbox):
    blob = bytes(i * 7 % 256 for i in range(3_000_000))
    sandbox.files.write("streamed", io.BytesIO(blob))
    with sandbox.files.read("streamed", format="stream") as stream:
        assert b"".join(stream) == blob
    sandbox.files.write("zipped", blob, gzip=True)
    assert sandbox.files.read("zipped", format="bytes") == blob
    assert sandbox.files.read("zipped", format="bytes", gzip=True) == blob
    sandbox.files.write("octets", "text", use_octet_stream=True)
    assert sandbox.files.read("octets") == "text"


def test_several_in_one_request(sandbox):
    written = sandbox.files.write_files([{"path": f"many/{n}.txt", "data": f"file {n}"} for n in range(20)])
    assert [info.path for info in written] == [f"/home/user/many/{n}.txt" for n in range(20)]
    assert all(sandbox.files.read(f"many/{n}.txt") == f"file {n}" for n in range(20))


def test_metadata_of_a_file(sandbox):
    sandbox.files.write("tagged", "x", metadata={"Owner": "me", "purpose": "test"})
    assert sandbox.files.get_info("tagged").metadata == {"owner": "me", "purpose": "test"}
    sandbox.files.write("tagged", "y", metadata={"purpose": "again"})
    assert sandbox.files.get_info("tagged").metadata == {"purpose": "again"}


def test_users(sandbox):
    sandbox.files.write("/root/secret", "s", user="root")
    assert sandbox.files.read("/root/secret", user="root") == "s"
    assert sandbox.commands.run("stat -c %U /root/secret", user="root").stdout == "root\n"
    with pytest.raises(AuthenticationException):
        sandbox.files.read("/tmp", user="nobody-here")


def test_list(sandbox):
    sandbox.commands.run("mkdir -p tree/a/b && echo 1234 > tree/file && ln -s file tree/link && chmod 750 tree/a")
    entries = {entry.name: entry for entry in sandbox.files.list("tree")}
    assert list(entries) == ["a", "file", "link"]
    assert entries["a"].type == FileType.DIR and entries["a"].path == "/home/user/tree/a"
    assert entries["a"].mode == 0o750 and entries["a"].permissions.endswith("rwxr-x---")
    assert entries["a"].size == sandbox.files.get_info("tree/a/b").size == 4096, "also if it is empty"
    assert entries["file"].size == 5 and entries["file"].owner == "user" and entries["file"].group == "user"
    assert entries["link"].symlink_target == "/home/user/tree/file"
    assert [entry.path for entry in sandbox.files.list("tree", depth=2)] == [
        "/home/user/tree/a",
        "/home/user/tree/a/b",
        "/home/user/tree/file",
        "/home/user/tree/link",
    ]
    with pytest.raises(FileNotFoundException):
        sandbox.files.list("nowhere")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.list("tree/file")


def test_make_dir_rename_remove_exists(sandbox):
    assert sandbox.files.make_dir("a/b/c") is True
    assert sandbox.files.make_dir("a/b/c") is False
    assert sandbox.commands.run("stat -c %U a a/b a/b/c").stdout == "user\nuser\nuser\n"
    sandbox.files.write("a/file", "content")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.make_dir("a/file")
    moved = sandbox.files.rename("a/file", "x/y/moved")
    assert moved.path == "/home/user/x/y/moved" and moved.name == "moved"
    assert not sandbox.files.exists("a/file") and sandbox.files.exists("x/y/moved")
    sandbox.files.remove("x")
    assert not sandbox.files.exists("x/y/moved") and not sandbox.files.exists("x")
    sandbox.files.remove("never-was-there")
    with pytest.raises(FileNotFoundException):
        sandbox.files.rename("never-was-there", "b")


def test_info(sandbox):
    sandbox.files.write("info.txt", "12345")
    info = sandbox.files.get_info("info.txt")
    assert (info.name, info.type, info.path) == ("info.txt", FileType.FILE, "/home/user/info.txt")
    assert (info.size, info.mode, info.owner, info.group) == (5, 0o644, "user", "user")
    assert info.permissions.endswith("rw-r--r--")
    assert info.modified_time.tzinfo is not None
    with pytest.raises(FileNotFoundException):
        sandbox.files.get_info("nowhere")


def test_refused(sandbox):
    with pytest.raises(FileNotFoundException):
        sandbox.files.read("nowhere")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.read("/tmp")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.write("/tmp", "a directory")
    for path in ("n\0ul", "x" * 5000, "a/" * 3000):
        with pytest.raises(SandboxException):
            sandbox.files.write(path, "x")


def test_names_are_only_names(sandbox):
    for name in (
        "sp ace",
        "new\nline",
        "tab\t",
        "-rf",
        "quote'\"",
        "$(id)",
        "<img onerror=x>",
        "\x1b[31mred",
        "ünï",
        "%2e%2e",
    ):
        sandbox.files.write(f"odd/{name}", name)
        assert sandbox.files.read(f"odd/{name}") == name
    assert len(sandbox.files.list("odd")) == 10


def test_links_stay_inside(sandbox):
    sandbox.commands.run(
        "ln -s /etc etc; ln -s /proc/1/root root; ln -s loop loop; ln -s ../../../../../../../etc/hostname up"
    )
    assert sandbox.files.read("etc/hostname") == sandbox.commands.run("cat /etc/hostname").stdout
    assert sandbox.files.read("up") == sandbox.commands.run("cat /etc/hostname").stdout
    with pytest.raises(SandboxException):
        sandbox.files.read("loop")
    # A client with the token may write everywhere inside, as with E2B; but only inside.
    host = Path("/etc/hostname").read_text() if Path("/etc/hostname").exists() else None
    sandbox.files.write("etc/hostname", "changed inside")
    assert sandbox.files.read("/etc/hostname") == "changed inside"
    with pytest.raises(SandboxException):
        sandbox.files.write("root/etc/hostname", "by a magic link")
    assert (Path("/etc/hostname").read_text() if Path("/etc/hostname").exists() else None) == host


def test_special_files_do_not_hang(sandbox, server):
    sandbox.commands.run("mkfifo /tmp/fifo")
    before = server.memory()
    for path in ("/tmp/fifo", "/dev/zero", "/proc/kmsg"):
        with pytest.raises(Exception):
            sandbox.files.read(path, request_timeout=3)
    assert sandbox.commands.run("echo alive").stdout == "alive\n"
    assert server.memory() - before < 64 * 2**20


def test_sparse_file_is_streamed(sandbox, server):
    sandbox.commands.run("truncate -s 100G /tmp/sparse")
    before = server.memory()
    with sandbox.files.read("/tmp/sparse", format="stream") as stream:
        read = 0
        for chunk in stream:
            read += len(chunk)
            if read > 50 * 2**20:
                break
    assert server.memory() - before < 64 * 2**20


def test_gzip_bomb_meets_the_quota(boxes, api):
    box = boxes(diskSizeMB=128)
    bomb = gzip.compress(bytes(2**20)) * 1024  # a gigabyte in a megabyte
    answer = api.request(
        "POST",
        "/files?path=/home/user/bomb",
        bomb,
        {**box.headers(), "Content-Type": "application/octet-stream", "Content-Encoding": "gzip"},
    )
    assert answer.status in (400, 413, 507), (answer.status, answer.body)
    assert api.run(box, "echo alive") == (0, "alive\n")


def test_range_and_head_of_a_download(sandbox, api):
    from wire import Box

    sandbox.files.write("ranged", "0123456789")
    box = Box(sandbox.sandbox_id, sandbox._envd_access_token)
    answer = api.request("GET", "/files?path=ranged", headers={**box.headers(), "Range": "bytes=2-5"})
    assert (answer.status, answer.body) == (206, b"2345")
    answer = api.request("GET", "/files?path=ranged", headers=box.headers())
    assert (
        answer.headers["content-disposition"].startswith("inline") and "ranged" in answer.headers["content-disposition"]
    )
    assert answer.headers["content-length"] == "10"


# Watching. A new file written through the API causes exactly three events.


def events_of(handle, names: set[str], within: float = 5) -> list:
    seen: list = []

    def all_there() -> bool:
        seen.extend(handle.get_new_events())
        return names <= {event.name for event in seen}

    eventually(all_there, within)
    return seen


def test_watch(sandbox):
    sandbox.files.make_dir("watched")
    handle = sandbox.files.watch_dir("watched")
    sandbox.files.write("watched/new.txt", "x")
    seen = []
    eventually(lambda: seen.extend(handle.get_new_events()) or len(seen) >= 3)
    assert [(event.name, event.type) for event in seen] == [
        ("new.txt", FilesystemEventType.CREATE),
        ("new.txt", FilesystemEventType.CHMOD),
        ("new.txt", FilesystemEventType.WRITE),
    ]
    sandbox.files.remove("watched/new.txt")
    assert FilesystemEventType.REMOVE in [event.type for event in events_of(handle, {"new.txt"})]
    handle.stop()
    with pytest.raises(SandboxException):
        handle.get_new_events()


def test_watch_recursively(sandbox):
    sandbox.files.make_dir("tree/sub")
    flat, deep = sandbox.files.watch_dir("tree"), sandbox.files.watch_dir("tree", recursive=True)
    sandbox.files.write("tree/sub/a", "x")
    sandbox.files.make_dir("tree/later")
    events_of(deep, {"sub/a", "later"})
    sandbox.files.write("tree/later/b", "x")
    events_of(deep, {"later/b"})
    names = {event.name for event in flat.get_new_events()}
    assert "later" in names and "sub/a" not in names and "later/b" not in names
    flat.stop(), deep.stop()


def test_watch_with_entries(sandbox):
    sandbox.files.make_dir("watched")
    handle = sandbox.files.watch_dir("watched", include_entry=True)
    sandbox.files.write("watched/new.txt", "12345")
    seen = []
    eventually(lambda: seen.extend(handle.get_new_events()) or len(seen) >= 3)
    assert seen[-1].entry.path == "/home/user/watched/new.txt" and seen[-1].entry.size == 5
    handle.stop()


def test_watch_refused(sandbox):
    with pytest.raises(FileNotFoundException):
        sandbox.files.watch_dir("nowhere")
    sandbox.files.write("file", "x")
    with pytest.raises(InvalidArgumentException):
        sandbox.files.watch_dir("file")
