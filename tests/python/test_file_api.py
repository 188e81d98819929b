"""Files of a sandbox for people: listing, reading, writing with preconditions, moving, deleting; hostile names and special files."""

import concurrent.futures
import hashlib
import http.client
import time
from urllib.parse import quote

import pytest

from building import context
from file_api import Files, refused
from tool_calls import Tools
from uploads import KIND, file, form
from waiting import eventually

HOME = "/home/user"


@pytest.fixture
def box(boxes):
    return boxes()


@pytest.fixture
def files(api, box) -> Files:
    return Files(api, box.id)


@pytest.fixture
def run(api, box):
    """Runs a command as the sandbox's user and returns its output."""
    tools = Tools(api, box.id)
    return lambda command: tools.ok("run_command", command=command)["output"]


def etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()}"'


def test_a_directory_is_listed(files, run):
    run("mkdir -p d/inner d/.cache && echo hello > d/b.txt && chmod 640 d/b.txt && ln -s b.txt d/a && mkfifo d/pipe && touch d/.env")
    listed = files.listing("d")
    assert (listed["path"], listed["truncated"]) == (f"{HOME}/d", False)
    kinds = [(entry["name"], entry["type"], entry["target"]) for entry in listed["entries"]]
    assert kinds == [
        ("inner", "directory", None),
        ("a", "symlink", "b.txt"),
        ("b.txt", "file", None),
        ("pipe", "other", None),
    ]
    text = listed["entries"][2]
    assert (text["path"], text["size"], text["mode"]) == (f"{HOME}/d/b.txt", 6, "0640")
    assert text["modifiedAt"].startswith("20") and text["modifiedAt"].endswith("Z")
    assert set(text) == {"name", "path", "type", "size", "mode", "modifiedAt", "target"}
    assert files.names("d", hidden="true")[0] == ".cache"
    assert "d" in files.names() and files.listing()["path"] == HOME, "the working directory by default"
    assert "etc" in files.names("/") and files.listing("/etc")["entries"][0]["path"].startswith("/etc/")
    assert files.names("~/d/../d/.") == files.names("d")
    refused(files.ask("GET", "/files", {"path": "d/b.txt"}), 400, "not_a_directory")
    refused(files.ask("GET", "/files", {"path": "d/a"}), 400, "not_a_directory")
    refused(files.ask("GET", "/files", {"path": "nothing"}), 404, "file_not_found")
    refused(files.ask("GET", "/files", {"path": "/root"}), 403, "permission_denied")
    refused(files.ask("GET", "/files", {"path": "x" * 4096}), 400, "invalid_request")
    refused(files.ask("GET", "/files", {"path": "d", "hidden": "maybe"}), 400, "invalid_request")


def test_a_large_directory_is_cut(files, run):
    run("mkdir many && cd many && seq -f %05g 1 10000 | xargs touch && mkdir zzz")
    listed = files.listing("many")
    assert (len(listed["entries"]), listed["truncated"]) == (2000, True)
    names = [entry["name"] for entry in listed["entries"]]
    assert names[:2] == ["zzz", "00001"] and names[-1] == "01999", "directories first, and the first by name"


def test_hostile_names_are_names(files, run):
    names = ["new\nline", 'quo"te', "back\\slash", "<img src=x onerror=alert(1)>", "ü\u202e", "%2e%2e%2f", "-rf", "x" * 255, " "]
    for number, name in enumerate(names):
        assert files.written(f"{HOME}/h/{name}", b"%d" % number)["size"] == 1
    assert sorted(files.names("h")) == sorted(names)
    for number, name in enumerate(names):
        answer = files.get(f"h/{name}")
        assert (answer.status, answer.body) == (200, b"%d" % number)
        assert "\n" not in answer.headers["content-disposition"]
        assert answer.headers["content-disposition"].startswith("attachment; ")
        assert files.stat(f"h/{name}")["name"] == name
    assert files.move("h/new\nline", "h/moved").status == 204
    assert files.delete("h/-rf").status == 204
    # A name that is no UTF-8 is shown, and cannot be asked for.
    run("cd h && touch $'bad\\xff'")
    assert "bad\ufffd" in files.names("h")
    refused(files.ask("GET", "/files/stat", {"path": "h/bad\ufffd"}), 404, "file_not_found")
    refused(files.put("h/" + "y" * 256, b""), 400, "invalid_request")
    refused(files.put("h/nul\0", b""), 400, "invalid_request")
    refused(files.put("", b""), 400, "invalid_request")


def test_what_a_path_is(files, run):
    run(r"printf '\x89PNG\r\n\x1a\n\0\0' > a.png; printf text > t; printf 'a\0b' > b; ln -s t l; ln -s /nowhere dead; ln -s /etc e")
    text = files.stat("t")
    assert (text["type"], text["etag"], text["binary"], text["mediaType"]) == ("file", etag(b"text"), False, None)
    assert (text["name"], text["path"], text["target"]) == ("t", f"{HOME}/t", None)
    link = files.stat("l")
    assert (link["type"], link["etag"], link["target"], link["path"]) == ("file", etag(b"text"), "t", f"{HOME}/l")
    image = files.stat("a.png")
    assert (image["binary"], image["mediaType"]) == (True, "image/png")
    assert files.stat("b")["binary"] and files.stat("b")["mediaType"] == "application/octet-stream"
    directory = files.stat("e")
    assert (directory["type"], directory["etag"], directory["target"]) == ("directory", None, "/etc")
    assert files.stat("/")["name"] == "/"
    assert "link" in refused(files.ask("GET", "/files/stat", {"path": "dead"}), 404, "file_not_found")
    # Not readable for the user, but it can be described.
    shadow = files.stat("/etc/shadow")
    assert (shadow["type"], shadow["etag"], shadow["binary"]) == ("file", None, False)


def test_links_to_devices_and_fifos_are_not_read(files, run):
    run("mkfifo pipe; ln -s /dev/zero zero; ln -s /dev/tty tty; ln -s /proc/self/environ own; ln -s loop loop")
    for path, code in [("pipe", "not_a_file"), ("zero", "not_a_file"), ("/", "not_a_file"), ("loop", "invalid_request")]:
        refused(files.get(path), 400, code)
    assert files.get("tty").status in (400, 403, 409)
    refused(files.get("own"), 403, "permission_denied")
    refused(files.get("/etc/shadow"), 403, "permission_denied")
    refused(files.put("zero", b"x"), 400, "not_a_file")
    refused(files.put("pipe", b"x"), 400, "not_a_file")
    refused(files.put("/etc/passwd", b"x"), 403, "permission_denied")
    refused(files.put("/proc/self/comm", b"x"), 403, "permission_denied")
    assert files.stat("pipe")["type"] == "other"


def test_content_is_a_download_and_never_a_page(files):
    html = b"<script>alert(1)</script>"
    files.written("page.html", html)
    for query in ({}, {"inline": "1"}):
        answer = files.get("page.html", query)
        assert answer.body == html
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith('attachment; filename="page.html"')
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["cache-control"] == "private, no-store"
        assert answer.headers["etag"] == etag(html)
    files.written("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    assert files.get("a.svg", {"inline": "1"}).headers["content-type"] == "application/octet-stream"
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    files.written("really.html", png)
    assert files.get("really.html").headers["content-type"] == "application/octet-stream"
    shown = files.get("really.html", {"inline": "1"})
    assert shown.headers["content-type"] == "image/png", "by its content, not by its name"
    assert shown.headers["content-disposition"].startswith("inline; ")
    assert shown.headers["content-security-policy"] == "sandbox; default-src 'none'"
    files.written("fake.png", html)
    assert files.get("fake.png", {"inline": "1"}).headers["content-type"] == "application/octet-stream"


def test_ranges(files):
    content = bytes(range(256)) * 1000
    tag = files.written("r", content)["etag"]
    part = files.get("r", Range="bytes=10-19")
    assert (part.status, part.body) == (206, content[10:20])
    assert (part.headers["content-range"], part.headers["etag"]) == (f"bytes 10-19/{len(content)}", tag)
    assert files.get("r", Range="bytes=-5").body == content[-5:]
    assert files.get("r", Range=f"bytes={len(content)}-").status == 416
    assert files.get("r", Range="bytes=1-2", **{"If-Range": tag}).status == 206
    assert files.get("r", Range="bytes=1-2", **{"If-Range": etag(b"other")}).body == content
    assert files.get("r", Range="lines=1-2").body == content


def test_a_huge_file_is_told_at_once_and_streamed(server, files, run, figures):
    run("truncate -s 500M huge && printf end | dd of=huge bs=1 seek=524287997 conv=notrunc status=none")
    begin = time.monotonic()
    huge = files.stat("huge")
    took = time.monotonic() - begin
    assert (huge["size"], huge["etag"], huge["binary"]) == (500 << 20, None, True)
    assert took < 1, "it is not read for that"
    files.get("huge", Range="bytes=0-9")
    before = server.memory()
    response = files.client.open(
        "GET", f"{files.base}/files/content?path=huge", None, {"X-API-KEY": files.client.key}
    )
    assert "etag" not in {name.lower() for name, _ in response.getheaders()}
    received, last, most = 0, b"", 0
    while piece := response.read(4 << 20):
        received, last, most = received + len(piece), piece[-3:], max(most, server.memory())
    assert (received, last) == (500 << 20, b"end")
    grown = (most - before) >> 20
    figures.append(f"a file of 500 MB: stat {took * 1000:.0f} ms, read with {grown} MiB more memory of the server")
    assert grown < 32
    assert files.get("huge", Range="bytes=-3").body == b"end"
    refused(files.put("huge", b"x" * ((5 << 20) + 1)), 413, "body_too_large")
    # Replacing it does not read it either.
    assert files.written("huge", b"small")["size"] == 5


def test_only_the_version_that_was_read_is_replaced(files, run):
    first = files.written("f", b"one", If_None_Match="*")
    assert first["etag"] == etag(b"one") and first["size"] == 3 and first["modifiedAt"].startswith("20")
    refused(files.put("f", b"two", If_None_Match="*"), 409, "already_exists")
    second = files.written("f", b"two", If_Match=first["etag"])
    late = files.put("f", b"three", If_Match=first["etag"])
    refused(late, 412, "file_changed")
    assert late.headers["etag"] == second["etag"]
    assert files.get("f").body == b"two"
    # Changed by a program inside.
    run("echo -n inside > f")
    late = files.put("f", b"mine", If_Match=second["etag"])
    refused(late, 412, "file_changed")
    assert late.headers["etag"] == etag(b"inside")
    run("rm f")
    gone = files.put("f", b"mine", If_Match=second["etag"])
    refused(gone, 412, "file_changed")
    assert "etag" not in gone.headers
    for wrong in ("*", "one", f"W/{first['etag']}", f"{first['etag']}, {first['etag']}"):
        refused(files.put("f", b"x", If_Match=wrong), 400, "invalid_request")
    refused(files.put("f", b"x", If_None_Match=first["etag"]), 400, "invalid_request")
    assert "f" not in files.names()
    files.written("f", b"without a condition")
    # Mode and links stay as they are.
    run("chmod 751 f && ln -s f link")
    files.written("link", b"#!", If_Match=etag(b"without a condition"))
    assert run("stat -c '%a %F' f link").split("\n")[:2] == ["751 regular file", "777 symbolic link"]
    assert files.get("f").body == b"#!"


def test_two_writers_with_the_same_version(server, box, files):
    tag = files.written("shared", b"start")["etag"]

    def write(number: int):
        client = server.client()
        try:
            return Files(client, box.id).put("shared", b"%d" % number, If_Match=tag)
        finally:
            client.close()

    for _ in range(5):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(write, range(4)))
        won = [number for number, answer in enumerate(answers) if answer.status == 200]
        assert len(won) == 1, [(answer.status, answer.body) for answer in answers]
        assert files.get("shared").body == b"%d" % won[0]
        for answer in answers:
            if answer.status != 200:
                refused(answer, 412, "file_changed")
        tag = files.written("shared", b"start")["etag"]
    assert not [name for name in files.names(hidden="true") if ".cabana-" in name]


def test_directories_and_moves(files, run):
    made = files.make("a/b/c")
    assert (made.status, made.json) == (201, {"path": f"{HOME}/a/b/c"})
    refused(files.make("a/b"), 409, "already_exists")
    refused(files.make("/etc/mine"), 403, "permission_denied")
    files.written("a/b/c/file", b"x")
    assert files.move("a/b", "moved/deep").status == 204
    assert files.get("moved/deep/c/file").body == b"x" and files.names("a") == []
    files.written("other", b"y")
    refused(files.move("other", "moved"), 409, "already_exists")
    refused(files.move("missing", "z"), 404, "file_not_found")
    refused(files.move("moved", "moved/into/itself"), 400, "invalid_request")
    refused(files.move("/etc/passwd", "mine"), 403, "permission_denied")
    refused(files.move(HOME, "/tmp/home"), 403, "permission_denied")
    refused(files.ask("POST", "/files/move", None, {"from": "other"}), 400, "invalid_request")
    # To another filesystem: it is copied.
    run("chmod 705 moved/deep && ln -s c moved/link")
    assert files.move("moved", "/dev/shm/elsewhere").status == 204
    assert run("cd /dev/shm/elsewhere && stat -c %a deep && readlink link && cat deep/c/file").split("\n")[:3] == ["705", "c", "x"]
    assert files.names() == ["a", "other"]


def test_a_directory_of_the_template_can_be_moved(builder, api, boxes, tmp_path):
    """An overlay cannot rename it: it is copied."""
    name, steps = builder.name("moving"), "cd /home/user && mkdir -p project/src && echo x > project/src/f && chown -R user ."
    builder.build(context(tmp_path, Dockerfile=f"FROM base\nRUN {steps}\nUSER user\nWORKDIR /home/user\n"), name)
    files = Files(api, boxes(templateID=name).id)
    assert files.move("project", "renamed").status == 204
    assert files.names() == ["renamed"] and files.get("renamed/src/f").body == b"x\n"
    assert files.move("renamed/src/f", "f").status == 204


def test_deleting(files, run):
    run("mkdir -p d/e && echo x > d/e/f && echo y > g && ln -s d link && mkdir empty")
    assert "recursive" in refused(files.delete("d"), 400, "not_a_file")
    assert files.delete("link").status == 204, "a link is not followed"
    assert files.delete("empty").status == 204
    assert files.delete("d", recursive="true").status == 204
    assert files.delete("g").status == 204
    assert files.names() == []
    refused(files.delete("g"), 404, "file_not_found")
    for protected in ("/", HOME, "/proc", "/etc/passwd"):
        refused(files.delete(protected, recursive="true"), 403, "permission_denied")


def test_a_paused_sandbox_is_resumed(api, box, files):
    files.written("kept", b"x")
    for memory in (True, False):
        assert api.request("POST", f"/sandboxes/{box.id}/pause", {"memory": memory}).status == 204
        assert files.names() == ["kept"]
        assert api.request("GET", f"/sandboxes/{box.id}").json["state"] == "running"


def test_a_sandbox_that_is_killed_in_the_middle(server, api, boxes):
    box = boxes()
    files = Files(api, box.id)
    Tools(api, box.id).ok("run_command", command="truncate -s 2G large")
    response = api.open("GET", f"/sandboxes/{box.id}/files/content?path=large", None, {"X-API-KEY": api.key})
    assert response.status == 200 and response.read(1000)
    other = server.client()
    other.kill(box)
    received = 1000
    try:
        while piece := response.read(1 << 20):
            received += len(piece)
    except (http.client.HTTPException, OSError):
        pass
    assert received < 2 << 30, "it is cut"
    api.close()
    again = Files(server.client(), box.id)
    refused(again.get("large"), 404, "sandbox_not_found")
    refused(again.put("large", b"x"), 404, "sandbox_not_found")
    assert files.base == again.base


def test_a_full_disk(api, boxes):
    box = boxes(diskSizeMB=64)
    files = Files(api, box.id)
    Tools(api, box.id).call("sandbox_run_command", {"command": "head -c 100M /dev/urandom > fill; sync"})
    refused(files.put("more", b"x" * (4 << 20)), 507, "sandbox_disk_full")
    assert "more" not in files.names()


def test_uploads_to_a_directory(api, box, files, run):
    def send(directory: str, *parts: bytes):
        return api.request("POST", f"/sandboxes/{box.id}/uploads?directory={quote(directory)}", form(*parts), KIND)

    names = ["a.txt", "dir/deep/b.txt", "../up", "/abs", "d/" * 64 + "f", "dir/../../x"]
    answer = send("project/new dir", *[file(name, b"1") for name in names])
    assert answer.status == 200, answer.body
    manifest = answer.json
    assert manifest["directory"] == f"{HOME}/project/new dir"
    assert [entry["status"] for entry in manifest["files"]] == ["uploaded"] * 2 + ["failed"] * 4
    assert manifest["files"][1]["path"] == f"{HOME}/project/new dir/dir/deep/b.txt"
    assert run("find project -type f | sort").split("\n")[:2] == ["project/new dir/a.txt", "project/new dir/dir/deep/b.txt"]
    assert files.names("project/new dir", hidden="true") == ["dir", "a.txt"], "nothing else is left"
    assert send("/tmp", file("t", b"1")).json["files"][0]["path"] == "/tmp/t"
    refused(send("/etc", file("t", b"1")), 403, "permission_denied")
    run("ln -s /etc way && touch plain")
    refused(send("way", file("t", b"1")), 403, "permission_denied")
    refused(send("plain", file("t", b"1")), 400, "not_a_directory")
    refused(send("x" * 1025, file("t", b"1")), 400, "invalid_request")
    assert [name for name in files.names("/etc", hidden="true") if "upload" in name] == []


def test_ports(api, box, files, run):
    assert files.ask("GET", "/ports").json == []
    Tools(api, box.id).ok("run_command", command="(python3 -m http.server --bind 127.0.0.1 8123 >/dev/null 2>&1 &)")
    found = eventually(lambda: files.ask("GET", "/ports").json)
    assert [(port["port"], port["address"], port["url"]) for port in found] == [(8123, "127.0.0.1", None)]
    assert found[0]["process"] == "python3" and found[0]["pid"] > 1
