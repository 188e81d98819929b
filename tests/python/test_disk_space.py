"""A server on a small disk of its own: what arrives never fills it, sandboxes do not take each other's space, and a disk that others
filled is survived."""

import base64
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import time
import uuid
from pathlib import Path

import pytest

from images import busybox_program
from server import Server
from waiting import eventually
from wire import Box, Client

MIB = 2**20
DISK, POOL = 1300 * MIB, 1100 * MIB

pytestmark = pytest.mark.skipif("CABANA_TEST_SERVER" in os.environ, reason="it needs a server of its own")


def run(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


def make_pool(data: Path) -> None:
    """A pool with a template `base` that is one program: building the real one takes minutes and more space."""
    build, image, mounted = str(uuid.uuid4()), data / "pool.img", data / "made"
    with image.open("wb") as file:
        file.truncate(POOL)
    run("mkfs.btrfs", "-q", "-m", "dup", image)
    mounted.mkdir()
    run("mount", "-o", "loop", image, mounted)
    try:
        (mounted / "templates").mkdir()
        run("btrfs", "subvolume", "create", mounted / "templates" / build)
        root = mounted / "templates" / build / "rootfs"
        for name in ("bin", "etc", "tmp", "home/user", "root", "dev", "proc", "sys", "run", "var"):
            (root / name).mkdir(parents=True)
        (root / "bin/busybox").write_bytes(busybox_program())
        (root / "bin/busybox").chmod(0o755)
        for name in ("sh", "dd", "sync", "cat", "rm", "echo", "mkdir", "sleep", "seq"):
            os.link(root / "bin/busybox", root / "bin" / name)
        (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
        (root / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
        os.chown(root / "home/user", 1000, 1000)
        (root / "tmp").chmod(0o1777)
    finally:
        run("umount", mounted)
        mounted.rmdir()
    (data / "base-build").write_text(f"2 {build}\n")


class Small:
    """A server whose data directory is a disk of its own."""

    def __init__(self, place: Path):
        self.place, self.disk = place, place / "disk"
        self.disk.mkdir(parents=True)
        with (place / "disk.img").open("wb") as file:
            file.truncate(DISK)
        run("mkfs.ext4", "-q", "-m", "0", place / "disk.img")
        run("mount", "-o", "loop", place / "disk.img", self.disk)
        data = self.disk / "data"
        data.mkdir(mode=0o700)
        make_pool(data)
        self.server = Server(data, CABANA_DISK_MB="8192")
        self.server.start()

    @property
    def api(self) -> Client:
        return self.server.client(timeout=30)

    def free(self) -> int:
        space = os.statvfs(self.disk)
        return space.f_bavail * space.f_frsize

    def fill(self) -> None:
        """Takes all the space of the disk, as another program would."""
        with (self.disk / "filler").open("wb") as file:
            left = self.free()
            while left:
                try:
                    os.posix_fallocate(file.fileno(), file.tell(), left)
                    file.seek(0, os.SEEK_END)
                except OSError:
                    left //= 2

    def empty(self) -> None:
        (self.disk / "filler").unlink(missing_ok=True)

    def status(self) -> dict:
        return self.api.get("/status").json["storage"]

    def state(self) -> str:
        return self.status()["state"]

    def close(self) -> None:
        try:
            self.empty()
            eventually(lambda: self.api.get("/health").status == 204, within=40, what="a server that can be stopped")
            self.server.end_all_sandboxes()
        finally:
            try:
                self.server.stop()
            finally:
                self.server.lock.close()
                for mounted in (self.server.data / "pool", self.disk):
                    run("umount", mounted)
                shutil.rmtree(self.place)


@pytest.fixture(scope="module")
def whole(server):
    # Not below /tmp, which may be memory.
    small = Small(server.data.parent / f"cabana-small-{os.getpid()}")
    yield small
    small.close()


@pytest.fixture
def small(whole):
    yield whole
    whole.empty()
    eventually(lambda: whole.api.get("/health").status == 204, within=40)
    whole.server.end_all_sandboxes()
    eventually(lambda: whole.state() == "ok", within=20)


def sh(api: Client, box: Box, command: str) -> tuple[int, str]:
    """Exit code and output of a command; the template has no bash."""
    output, code = b"", None
    process = {"process": {"cmd": "/bin/sh", "args": ["-c", command]}, "stdin": False}
    for message in api.stream(box, "process.Process/Start", process):
        event = message["event"]
        if "data" in event:
            output += base64.b64decode(event["data"].get("stdout", ""))
        elif "end" in event:
            code = event["end"].get("exitCode", 0)
    return code, output.decode(errors="replace")


def bomb(size: int) -> bytes:
    """A compressed archive with one file of zeros, and enough noise that its ratio is not suspicious."""
    noise, start = os.urandom(size // 200), io.BytesIO()
    with tarfile.open(fileobj=start, mode="w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo("noise")
        info.size = len(noise)
        archive.addfile(info, io.BytesIO(noise))
    head = start.getvalue()[: 512 + -(-len(noise) // 512) * 512]
    info = tarfile.TarInfo("zeros")
    info.size = size
    zeros = gzip.compress(bytes(16 * MIB), 1)
    pieces = [gzip.compress(head + info.tobuf(tarfile.GNU_FORMAT), 1), *[zeros] * (size // (16 * MIB))]
    return b"".join([*pieces, gzip.compress(bytes(1024), 1)])


def test_a_build_cannot_fill_the_disk(small):
    api = small.api
    neighbour = api.create()
    archive = bomb(1600 * MIB)
    name = hashlib.sha256(archive).hexdigest()
    made = api.request("POST", "/v3/templates", {"name": f"bomb-{name[:8]}", "minFreeDiskMb": 100_000})
    assert made.status == 202, made.body
    template, build = made.json["templateID"], made.json["buildID"]
    link = api.get(f"/templates/{template}/files/{name}").json["url"]
    assert api.request("PUT", link[link.index("/", 8) :], archive).status in (200, 201, 204)
    started = api.request(
        "POST",
        f"/v2/templates/{template}/builds/{build}",
        {"dockerfile": "FROM base\nCOPY . /x\n", "context": name},
    )
    assert started.status == 202, started.body
    least, reason = small.free(), None
    deadline = time.monotonic() + 60
    while reason is None and time.monotonic() < deadline:
        least = min(least, small.free())
        answer = api.get(f"/templates/{template}/builds/{build}/status").json
        assert answer["status"] != "ready", answer
        reason = answer.get("reason") if answer["status"] == "error" else None
        time.sleep(0.02)
    assert reason and "kept in reserve" in reason["message"], reason
    assert "its operator has to free space" in reason["message"], reason
    # What must stay free for sandboxes stayed free, and the neighbour noticed nothing.
    assert least > 256 * MIB, f"{least // MIB} MiB were left"
    assert sh(api, neighbour, "dd if=/dev/zero of=/home/user/x bs=1M count=8 2>/dev/null && sync && echo ok") == (0, "ok\n")
    # Nothing stays of it.
    eventually(lambda: not [n for n in os.listdir(small.server.data / "pool/layers") if n.startswith(".new-")], within=20)
    assert not (small.server.data / "work").exists()
    eventually(lambda: small.state() == "ok", within=20)
    api.kill(neighbour)


def test_one_sandbox_does_not_take_the_space_of_all(small):
    """Their limits promise more than there is. The last space is not given to the one that writes most."""
    api = small.api
    greedy, neighbour = api.create(), api.create()
    code, output = sh(api, greedy, "dd if=/dev/zero of=/home/user/big bs=1M 2>&1; echo $?")
    assert "quota" in output.lower(), output
    reasons = lambda box: [event["eventData"].get("reason") for event in api.events(box.id) if event["eventData"]]
    eventually(lambda: "disk_clamped" in reasons(greedy) and "disk_clamped" in reasons(neighbour))
    assert small.free() > 64 * MIB
    assert sh(api, neighbour, "dd if=/dev/zero of=/home/user/x bs=1M count=8 2>/dev/null && sync && echo ok") == (0, "ok\n")
    # Once the space is back, all have their own limits again.
    sh(api, greedy, "rm /home/user/big; sync")
    eventually(lambda: small.state() == "ok" and small.status()["clamped"] == 0, within=30, what="the limits are lifted")
    assert "disk_unclamped" in reasons(neighbour)
    # What was freed in the pool is given back to the disk around it a little later.
    left = lambda status: status["freeMB"] - status["reserveMB"]
    eventually(lambda: left(small.status()) > 300, within=60, what="the space is back")
    assert sh(api, neighbour, "dd if=/dev/zero of=/home/user/y bs=1M count=200 2>/dev/null && echo ok") == (0, "ok\n")
    api.kill(api.create())


def test_a_server_starts_on_a_full_disk(small):
    box = small.api.create(timeout=600)
    small.fill()
    small.server.crash()
    small.server.start()
    eventually(lambda: small.state() == "low")
    assert small.api.get(f"/sandboxes/{box.id}").json["state"] == "running"
    assert small.api.request("POST", "/v2/sandboxes", {"templateID": "base"}).status == 507
    # One that ends makes space.
    assert small.api.kill(box)
    small.empty()
    eventually(lambda: small.state() == "ok", within=20)
    small.api.kill(small.api.create())


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_a_full_disk_and_a_read_only_pool_are_survived(small, restarted):
    api = small.api
    box = api.create(timeout=600)
    assert sh(api, box, "echo kept > /home/user/kept; sync") == (0, "")
    small.fill()
    # Reads work; what writes says why it cannot.
    eventually(lambda: small.state() == "low")
    assert api.get(f"/sandboxes/{box.id}").status == 200
    answer = api.request("POST", "/v2/sandboxes", {"templateID": "base"})
    assert answer.status == 507, answer.body
    # The kernel gives the pool up when it cannot write its metadata.
    api.request("POST", f"/sandboxes/{box.id}/timeout", {"timeout": 600})
    write = "for i in $(seq 400); do dd if=/dev/zero of=/home/user/$i bs=64k count=4 2>/dev/null; sync; done"
    process = {"process": {"cmd": "/bin/sh", "args": ["-c", write]}, "stdin": False}
    stream = api.stream(box, "process.Process/Start", process)
    next(stream)
    other = small.api
    eventually(lambda: other.get("/status").json["storage"]["state"] == "read_only", within=40, what="a read-only pool")
    answer = other.get("/health")
    assert answer.status == 503 and "read-only" in answer.json["message"], answer.body
    assert other.request("POST", "/v2/sandboxes", {"templateID": "base"}).status in (503, 507)
    pid = small.server.pid
    if restarted:
        small.server.crash()
        small.empty()
        small.server.start()
    else:
        small.empty()
    api = small.api
    healthy = lambda: small.api.get("/health").status == 204 and small.state() == "ok"
    eventually(healthy, within=60, every=0.2, what="the pool is mounted again")
    assert restarted or small.server.pid == pid
    message = small.api.get(f"/sandboxes/{box.id}").json["message"]
    assert "disks were read-only" in message, message
    # Its disk is as it was some seconds before, and new sandboxes are created.
    assert small.api.request("POST", f"/sandboxes/{box.id}/recover", {}).status in (200, 201)
    shown = small.api.request("POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": 300}).json
    assert sh(small.api, Box(box.id, shown["envdAccessToken"]), "cat /home/user/kept") == (0, "kept\n")
    small.api.kill(small.api.create())
