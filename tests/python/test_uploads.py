"""Files for sandboxes as forms: names, clashes, many at once, broken connections, full disks, paused sandboxes, and creation with files."""

import concurrent.futures
import os
import socket

import pytest

import uploads
from building import context
from tool_calls import Tools
from uploads import KIND, Uploads, file, form, sha256
from waiting import eventually

HOME = "/home/user/user-uploads"


@pytest.fixture
def box(boxes):
    return boxes()


@pytest.fixture
def tools(api, box) -> Tools:
    return Tools(api, box.id)


@pytest.fixture
def upload(api, box) -> Uploads:
    return Uploads(api, box.id)


def found(tools: Tools) -> list[str]:
    """Every path in the directory of uploads."""
    command = f"cd {HOME} 2>/dev/null && find . -mindepth 1 | sort"
    return tools.call("sandbox_run_command", {"command": f"{command} || true"})["output"].split("\n")[:-1]


def test_files_and_their_names(upload, tools):
    random = os.urandom(3_000_000)
    files = upload(file("a b.txt", b"one"), file("dir/deep/ü.bin", random), file("empty", b""), file("./x", b"y"))
    assert [f["status"] for f in files] == ["uploaded"] * 4
    assert [f["path"] for f in files] == [f"{HOME}/{name}" for name in ("a b.txt", "dir/deep/ü.bin", "empty", "x")]
    assert [f["name"] for f in files] == ["a b.txt", "dir/deep/ü.bin", "empty", "./x"]
    assert (files[1]["size"], files[1]["sha256"]) == (len(random), sha256(random))
    sums = tools.ok("run_command", command=f"cd {HOME} && sha256sum dir/deep/ü.bin && stat -c '%U %a' 'a b.txt' dir")
    assert sums["output"].split("\n")[:3] == [f"{sha256(random)}  dir/deep/ü.bin", "user 644", "user 755"]
    assert found(tools) == ["./a b.txt", "./dir", "./dir/deep", "./dir/deep/ü.bin", "./empty", "./x"]


def test_names_that_are_refused(upload, tools):
    names = ["/etc/cron.d/x", "../../escape", "a/../../b", "..", "a//b", "d/", "tab\there", "x" * 256, ""]
    files = upload(*[file(name, b"no") for name in names], file("good", b"yes"))
    assert [f["status"] for f in files] == ["failed"] * len(names) + ["uploaded"]
    assert all("name" in f["error"] for f in files[:-1]), files
    assert found(tools) == ["./good"]


def test_links_inside_do_not_lead_out(upload, tools):
    """Uploads have the permissions of the sandbox's user, wherever links inside lead."""
    tools.ok("run_command", command=f"mkdir -p {HOME}; ln -s /etc {HOME}/etc; ln -s /nowhere {HOME}/dangling")
    files = upload(file("etc/uploaded", b"x"), file("dangling", b"x"))
    assert files[0]["status"] == "failed", files
    assert files[1]["path"] == f"{HOME}/dangling (2)", "a link that leads nowhere is not followed"
    tools.fails("file_not_found", "read_file", path="/etc/uploaded")


def test_clashing_names_get_numbers(upload, tools):
    for number, name in enumerate(["a.txt", "a (2).txt", "a (3).txt"], 1):
        assert upload(file("a.txt", b"%d" % number))[0]["path"] == f"{HOME}/{name}"
    files = upload(file("x.tar.gz", b"1"), file("x.tar.gz", b"2"), file(".env", b"1"), file(".env", b"2"))
    assert [f["path"].rsplit("/", 1)[1] for f in files] == ["x.tar.gz", "x (2).tar.gz", ".env", ".env (2)"]
    assert tools.ok("read_file", path=f"{HOME}/a.txt")["output"] == "1\t1\n"
    # A file where a directory is needed.
    failed = upload(file(".env/below", b"x"))[0]
    assert failed["status"] == "failed" and "director" in failed["error"], failed


def test_parallel_uploads_of_the_same_name(server, box, tools):
    def send(number: int) -> str:
        client = server.client()
        try:
            return Uploads(client, box.id)(file("new/same.txt", b"%d" % number))[0]["path"]
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        paths = list(pool.map(send, range(32)))
    assert len(set(paths)) == 32, "every file has a name of its own"
    contents = {tools.bytes(path) for path in paths}
    assert contents == {b"%d" % number for number in range(32)}, "none was replaced"
    assert len(found(tools)) == 33, found(tools)


def test_two_hundred_files(upload, tools):
    files = upload(*[file(f"many/{n}.txt", b"%d" % n) for n in range(200)])
    assert [f["status"] for f in files] == ["uploaded"] * 200
    assert len(found(tools)) == 201
    more = upload(*[file(f"more/{n}.txt", b"x") for n in range(203)])
    assert len(more) == 201 and more[199]["status"] == "uploaded" and "200 files" in more[200]["error"]


def test_memory_of_the_server_stays_flat(server, box, api, upload, figures):
    upload(file("first", b"x"))
    before, size = server.memory(), 300 << 20
    chunk = os.urandom(1 << 20)

    def body():
        yield file("large", b"")[:-2]
        for _ in range(size >> 20):
            yield chunk
        yield b"\r\n" + form()

    client = server.client(timeout=300)
    client.connection.request(
        "POST", f"/sandboxes/{box.id}/uploads", body(), {**KIND, "X-API-KEY": server.key}, encode_chunked=True
    )
    response = client.connection.getresponse()
    assert response.status == 200
    assert b'"uploaded"' in response.read()
    grown = server.memory() - before
    client.close()
    figures.append(f"upload of 300 MiB: the server's memory grew by {grown >> 20} MiB")
    assert grown < 64 << 20


def test_a_broken_connection_leaves_nothing(server, box, upload, tools):
    upload(file("before", b"x"))
    connection = server.connect()
    head = f"POST /sandboxes/{box.id}/uploads HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {server.key}\r\n"
    head += f"Content-Type: {KIND['Content-Type']}\r\nContent-Length: 99999999\r\n\r\n"
    connection.sendall(head.encode() + file("whole", b"x") + file("cut", os.urandom(2_000_000))[:-2])
    eventually(lambda: any(name.startswith("./.upload-") for name in found(tools)), what="the second file has begun")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()
    eventually(lambda: found(tools) == ["./before", "./whole"], what="nothing of the second file is left")


def test_a_form_that_ends_too_early(upload, tools):
    answer = upload.client.request("POST", upload.path, file("a", b"x") + file("b", b"y"), KIND)
    assert answer.status == 200
    first, second = answer.json["files"]
    assert first["status"] == "uploaded" and second["status"] == "failed" and "unexpected end" in second["error"]
    assert found(tools) == ["./a"]
    for body, headers in ((b"", KIND), (b"nonsense", KIND), (form(), KIND), (b"{}", {}), (b"x", {"Content-Type": "multipart/form-data"})):
        assert upload.client.request("POST", upload.path, body, headers).status == 400, (body, headers)


def test_a_full_disk_is_said(boxes, api):
    box = boxes(diskSizeMB=64)
    tools, upload = Tools(api, box.id), Uploads(api, box.id)
    files = upload(file("small", b"x" * 1000), file("large", os.urandom(100 << 20)), file("after", b"y" * 1000))
    assert [f["status"] for f in files] == ["uploaded", "failed", "uploaded"], files
    assert "disk is full" in files[1]["error"]
    assert found(tools) == ["./after", "./small"]


def test_a_paused_sandbox_is_resumed(api, box, upload, tools):
    upload(file("before", b"1"))
    for memory in (True, False):
        assert api.request("POST", f"/sandboxes/{box.id}/pause", {"memory": memory}).status == 204
        assert upload(file("after", b"2"))[0]["status"] == "uploaded"
    assert found(tools) == ["./after", "./after (2)", "./before"]


def test_the_working_directory_of_the_template(builder, api, boxes, tmp_path):
    name = builder.name("uploads")
    builder.build(context(tmp_path, Dockerfile="FROM base\nWORKDIR /home/user/app\n"), name)
    upload = Uploads(api, boxes(template=name).id)
    assert upload(file("a", b"x"))[0]["path"] == "/home/user/app/user-uploads/a"


def test_unknown_and_ended_sandboxes(api, boxes):
    box = boxes()
    api.kill(box)
    for id in (box.id, "i" + "a" * 19):
        answer = Uploads(api, id).send(file("a", b"x"))
        assert answer.status == 404 and answer.json["error_code"] == "sandbox_not_found", answer.body


# Creation with files


@pytest.fixture
def created(api):
    """Creates a sandbox from parts; it is killed at the end."""
    made: list[str] = []

    def create(*parts: bytes, path: str = "/v2/sandboxes", headers: dict | None = None):
        answer = api.request("POST", path, form(*parts), {**KIND, **(headers or {})})
        if answer.status == 201:
            made.append(answer.json["sandboxID"])
        return answer

    yield create
    for id in made:
        api.kill(id)


def test_creation_with_files(api, created):
    content = os.urandom(500_000)
    for path in ("/sandboxes", "/v2/sandboxes"):
        answer = created(uploads.sandbox(), file("data/a.bin", content), file("data/a.bin", b"2"), path=path)
        assert answer.status == 201, answer.body
        made = answer.json
        assert [f["path"] for f in made["uploads"]] == [f"{HOME}/data/a.bin", f"{HOME}/data/a (2).bin"]
        tools = Tools(api, made["sandboxID"])
        assert tools.ok("run_command", command=f"sha256sum < {HOME}/data/a.bin")["output"].startswith(sha256(content))
    assert created(uploads.sandbox()).json["uploads"] == []


def test_the_timeout_begins_after_the_upload(server, api, created):
    """A creation by the older route has 15 s by default; one with a short timeout is not killed while its files arrive."""
    answer = created(uploads.sandbox(timeout=5), file("large", os.urandom(40 << 20)))
    assert answer.status == 201, answer.body
    assert api.get(f"/sandboxes/{answer.json['sandboxID']}").status == 200


def test_a_creation_that_fails_leaves_nothing(api, created):
    before = {row["sandboxID"] for row in api.sandboxes()}
    cases = [
        (400, "../up", [uploads.sandbox(), file("good", b"x"), file("../up", b"x")]),
        (507, "large", [uploads.sandbox(diskSizeMB=64), file("large", os.urandom(100 << 20))]),
        (400, "named sandbox", [file("a", b"x"), uploads.sandbox()]),
        (400, "named sandbox", []),
        (400, "2 MiB", [uploads.sandbox(metadata={"a": "x" * (2 << 20)}), file("a", b"x")]),
        (400, "templateID", [uploads.part('name="sandbox"', b"{}"), file("a", b"x")]),
        (404, "no-such", [uploads.sandbox(templateID="no-such"), file("a", b"x")]),
    ]
    for status, words, parts in cases:
        answer = created(*parts)
        assert answer.status == status, (words, answer.status, answer.body)
        assert words in answer.json["message"], answer.body
    answer = created(uploads.sandbox(), file("a", b"x"), headers={"Idempotency-Key": "one"})
    assert answer.status == 400 and "Idempotency-Key" in answer.json["message"]
    assert {row["sandboxID"] for row in api.sandboxes()} == before


def test_a_client_that_stops_during_creation_leaves_nothing(server, api, world):
    before = {row["sandboxID"] for row in api.sandboxes()}
    others = lambda: {row["sandboxID"] for row in api.sandboxes()} - before
    connection = server.connect()
    head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-KEY: {server.key}\r\n"
    head += f"Content-Type: {KIND['Content-Type']}\r\nContent-Length: 99999999\r\n\r\n"
    connection.sendall(head.encode() + uploads.sandbox() + file("a", b"x") + file("b", os.urandom(1_000_000))[:-2])
    eventually(others, what="the sandbox is there")
    connection.close()
    eventually(lambda: not others(), what="the sandbox is killed")
    world.assert_restored(30)
