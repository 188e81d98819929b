"""Large and endless transfers: memory stays flat, a stalled reader blocks nobody, a kill cuts every stream at once."""

import hashlib
import threading
import time

import pytest
import requests
from e2b import Sandbox, TimeoutException

from waiting import eventually, within
from wire import Box, StreamError

SIZE = 200 * 2**20
FLAT = 48 * 2**20


class Peak:
    """Peak resident memory of the server during the block, relative to its beginning."""

    def __init__(self, server):
        self.server, self.done = server, threading.Event()

    def __enter__(self):
        self.before = self.most = self.server.memory()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.done.wait(0.01):
            self.most = max(self.most, self.server.memory())

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    @property
    def growth(self) -> int:
        return self.most - self.before


def test_download_of_200_mb(sandbox, server, figures):
    sandbox.commands.run(f"head -c {SIZE} /dev/urandom > big")
    expected = sandbox.commands.run("sha256sum big").stdout.split()[0]
    digest, started = hashlib.sha256(), time.monotonic()
    with Peak(server) as peak, sandbox.files.read("big", format="stream") as stream:
        for chunk in stream:
            digest.update(chunk)
    took = time.monotonic() - started
    assert digest.hexdigest() == expected
    assert peak.growth < FLAT, f"the server grew by {peak.growth >> 20} MB"
    figures.append(f"download of 200 MB: {SIZE / took / 1e6:.0f} MB/s, server grew by {peak.growth >> 20} MB")


def test_upload_of_200_mb(sandbox, server, figures):
    block = bytes(range(256)) * 4096
    digest = hashlib.sha256()

    def blocks():
        for _ in range(SIZE // len(block)):
            digest.update(block)
            yield block

    started = time.monotonic()
    with Peak(server) as peak:
        sandbox.files.write("big", blocks())
    took = time.monotonic() - started
    assert sandbox.commands.run("sha256sum big").stdout.split()[0] == digest.hexdigest()
    assert peak.growth < FLAT, f"the server grew by {peak.growth >> 20} MB"
    figures.append(f"upload of 200 MB: {SIZE / took / 1e6:.0f} MB/s, server grew by {peak.growth >> 20} MB")


def test_stalled_reader_of_endless_output(boxes, api, server):
    box = boxes()
    other = server.client()
    with Peak(server) as peak:
        stream = api.stream(box, "process.Process/Start", {"process": {"cmd": "/usr/bin/yes"}, "stdin": False})
        pid = next(stream)["event"]["start"]["pid"]
        next(stream)
        # Nobody reads any more. Other requests to the same sandbox still work.
        for _ in range(20):
            started = time.monotonic()
            assert other.run(box, "echo alive") == (0, "alive\n")
            within(5, started, "a command beside a stalled stream")
        assert (
            other.call(box, "process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}).status
            == 200
        )
    assert peak.growth < FLAT, f"the server grew by {peak.growth >> 20} MB"
    api.close()


def test_kill_cuts_a_command(boxes, api, server):
    box = boxes()
    stream = api.stream(
        box, "process.Process/Start", {"process": {"cmd": "/bin/sleep", "args": ["1000"]}, "stdin": False}
    )
    next(stream)
    killer = server.client()
    started = time.monotonic()
    assert killer.kill(box)
    with pytest.raises((StreamError, OSError, Exception)) as caught:
        list(stream)
    within(3, started, "noticing the kill")
    if isinstance(caught.value, StreamError):
        assert caught.value.code in ("cut", "unavailable"), caught.value
    assert killer.request("GET", "/health", headers=box.headers()).status == 502


def test_kill_during_a_command_as_the_sdk_sees_it(sandboxes):
    sandbox = sandboxes()
    handle = sandbox.commands.run("sleep 1000", background=True)
    threading.Timer(0.3, lambda: Sandbox.kill(sandbox.sandbox_id)).start()
    started = time.monotonic()
    with pytest.raises(TimeoutException):
        handle.wait()
    within(6, started, "noticing the kill")


def test_kill_during_a_download(sandboxes, server):
    sandbox = sandboxes()
    sandbox.commands.run("truncate -s 50G endless")
    headers = {
        "E2b-Sandbox-Id": sandbox.sandbox_id,
        "E2b-Sandbox-Port": "49983",
        "X-Access-Token": sandbox._envd_access_token,
    }
    answer = requests.get(server.url + "/files?path=endless", headers=headers, stream=True, timeout=10)
    chunks = answer.iter_content(65536)
    next(chunks)
    sandbox.kill()
    started = time.monotonic()
    with pytest.raises(requests.exceptions.RequestException):
        for _ in chunks:
            within(5, started, "noticing the kill")


def test_kill_during_an_upload(sandboxes, server):
    sandbox = sandboxes()
    headers = {
        "E2b-Sandbox-Id": sandbox.sandbox_id,
        "E2b-Sandbox-Port": "49983",
        "X-Access-Token": sandbox._envd_access_token,
    }
    killed, started = threading.Event(), time.monotonic()

    def endless():
        yield b"x" * 65536
        sandbox.kill()
        killed.set()
        while time.monotonic() - started < 10:
            yield b"x" * 65536

    try:
        answer = requests.post(
            server.url + "/files?path=up",
            data=endless(),
            headers={**headers, "Content-Type": "application/octet-stream"},
        )
        assert answer.status_code == 502
    except requests.exceptions.RequestException:
        pass
    assert killed.is_set()
    within(8, started, "noticing the kill")


def test_disconnected_clients_are_cleaned_up(boxes, api, server):
    """Connections dropped in the middle of streams are closed by the server too."""
    box = boxes()
    before = server.descriptors()
    for _ in range(30):
        client = server.client()
        stream = client.stream(
            box, "process.Process/Start", {"process": {"cmd": "/bin/sleep", "args": ["3"]}, "stdin": False}
        )
        next(stream)
        client.close()
        client.connection.close()
        stream.close()
    eventually(lambda: server.descriptors() <= before + 5, within=15)


def test_keepalive_frames(boxes, api):
    box = boxes()
    message = {"process": {"cmd": "/bin/sleep", "args": ["2.5"]}, "stdin": False}
    kinds = [
        next(iter(frame["event"]))
        for frame in api.stream(box, "process.Process/Start", message, {"Keepalive-Ping-Interval": "1"})
    ]
    assert kinds[0] == "start" and kinds[-1] == "end" and kinds.count("keepalive") >= 1, kinds


def test_deadline_of_a_stream_kills_the_process(boxes, api):
    box = boxes()
    message = {"process": {"cmd": "/bin/sleep", "args": ["1000"]}, "stdin": False}
    started = time.monotonic()
    with pytest.raises(StreamError) as caught:
        list(api.stream(box, "process.Process/Start", message, {"Connect-Timeout-Ms": "500"}))
    assert caught.value.code == "deadline_exceeded"
    within(4, started, "a deadline of 0.5 s")
    eventually(lambda: api.run(box, "pgrep -x sleep || echo none")[1] == "none\n")
    assert isinstance(box, Box)


def test_late_readers_learn_how_much_was_dropped(sandbox):
    """The newest megabyte of a command's output is kept; a line of standard error stands for the rest."""
    script = "head -c 3000000 /dev/zero | tr '\\0' x; echo end; touch /tmp/written; sleep 1000"
    handle = sandbox.commands.run(script, background=True, timeout=0)
    handle.disconnect()
    eventually(lambda: sandbox.files.exists("/tmp/written"), within=20, what="everything is written")
    again = sandbox.commands.connect(handle.pid)
    seen, told = "", ""
    for out, err, _ in again:
        seen, told = seen + (out or ""), told + (err or "")
        if seen.endswith("end\n"):
            break
    missed = int(told.removeprefix("[cabana: ").removesuffix(" bytes of output were dropped]\n"))
    assert missed + len(seen) == 3_000_004 and len(seen) > 500_000, (missed, len(seen))
    assert sandbox.commands.kill(handle.pid)
