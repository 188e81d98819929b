"""Pause and resume through the SDK: with memory, disk only, by timeout, by request, by idleness; and from the archive."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from e2b import Sandbox, SandboxQuery, SandboxState, TimeoutException

import inside
from waiting import eventually

BOOT = "cat /proc/sys/kernel/random/boot_id"
COUNT = "i=0; while true; do i=$((i+1)); echo $i > /tmp/count; sleep 0.02; done"


def counter(sandbox: Sandbox) -> int:
    return int(sandbox.files.read("/tmp/count") or 0)


def phase(api, sandbox: Sandbox) -> str:
    return api.get(f"/sandboxes/{sandbox.sandbox_id}").json["phase"]


def test_pause_keeps_everything(sandboxes, api, figures):
    sandbox = sandboxes(envs={"COLOUR": "blue"})
    boot = sandbox.commands.run(BOOT).stdout
    command = sandbox.commands.run(COUNT, background=True, timeout=0)
    eventually(lambda: counter(sandbox) > 3)
    sandbox.files.write("kept", "content")

    started = time.monotonic()
    assert sandbox.pause() is True
    paused = time.monotonic() - started
    assert sandbox.pause() is False, "paused already"
    assert not sandbox.is_running()
    info = Sandbox.get_info(sandbox.sandbox_id)
    assert info.state == SandboxState.PAUSED
    with pytest.raises(TimeoutException):
        sandbox.files.read("kept")

    started = time.monotonic()
    again = sandbox.connect(timeout=120)
    figures.append(f"pause {paused * 1e3:.1f} ms, resume {(time.monotonic() - started) * 1e3:.1f} ms (with memory)")
    assert again.is_running() and again.files.read("kept") == "content"
    assert again.commands.run(BOOT).stdout == boot
    assert again.commands.run("echo $COLOUR").stdout == "blue\n"
    assert command.pid in [process.pid for process in again.commands.list()]
    seen = counter(again)
    eventually(lambda: counter(again) > seen, what="the counter goes on")
    kinds = [event["type"].rsplit(".", 1)[1] for event in api.events(sandbox.sandbox_id)]
    assert kinds == ["requested", "created", "pausing", "paused", "resuming", "resumed"]


def test_a_paused_sandbox_uses_no_cpu(sandboxes, server):
    sandbox = sandboxes()
    sandbox.commands.run("while :; do :; done", background=True, timeout=0)
    sandbox.pause()
    usage = next(
        path / "cpuacct.usage" if (path / "cpuacct.usage").exists() else path / "cpu.stat"
        for path in server.cgroups(sandbox.sandbox_id)
        if (path / "cpuacct.usage").exists() or (path / "cpu.stat").exists()
    )
    before = usage.read_text()
    time.sleep(1)  # give it time to use CPU
    assert usage.read_text() == before


def test_filesystem_pause_boots_again(sandboxes, api):
    sandbox = sandboxes()
    boot = sandbox.commands.run(BOOT).stdout
    handler = "trap 'echo ended > ~/trap; exit' TERM; touch ~/armed; while :; do sleep 0.05; done"
    sandbox.commands.run(handler, background=True, timeout=0)
    sandbox.commands.run("until [ -e ~/armed ]; do sleep 0.01; done")
    sandbox.files.write("kept", "content")
    assert sandbox.pause(mode="filesystem") is True
    assert api.get(f"/sandboxes/{sandbox.sandbox_id}").json["pauseMode"] == "filesystem"
    again = sandbox.connect(timeout=120)
    assert again.commands.run(BOOT).stdout != boot
    assert again.files.read("kept") == "content"
    assert again.files.read("trap") == "ended\n", "processes were terminated"
    assert again.commands.list() == []


def test_memory_can_be_discarded_when_resuming(sandboxes, api):
    sandbox = sandboxes()
    boot = sandbox.commands.run(BOOT).stdout
    sandbox.pause()
    answer = api.request("POST", f"/v2/sandboxes/{sandbox.sandbox_id}/connect", {"memory": False})
    assert answer.status == 201
    assert sandbox.commands.run(BOOT).stdout != boot


def test_fifty_resumes_keep_the_files(sandboxes):
    sandbox = sandboxes(timeout=600)
    for round in range(1, 51):
        sandbox.files.write(f"file-{round}", f"content {round}")
        assert sandbox.pause(mode="filesystem" if round % 3 == 0 else "full") is True
        sandbox = sandbox.connect(timeout=600)
        if round in (2, 10, 50):
            for earlier in range(1, round + 1):
                assert sandbox.files.read(f"file-{earlier}") == f"content {earlier}"


def test_timeout_pauses_and_connect_resumes(sandboxes, api):
    sandbox = sandboxes(timeout=60, lifecycle={"on_timeout": "pause"})
    assert sandbox.get_info().lifecycle["on_timeout"] == "pause"
    sandbox.files.write("kept", "content")
    sandbox.set_timeout(0)
    eventually(lambda: phase(api, sandbox) == "paused")
    assert "reached its timeout" in api.get(f"/sandboxes/{sandbox.sandbox_id}").json["reason"]
    with pytest.raises(TimeoutException):
        sandbox.files.read("kept")
    sandbox.connect()
    assert sandbox.files.read("kept") == "content"


def test_requests_resume_a_paused_sandbox(sandboxes, server, api, figures):
    sandbox = sandboxes(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
    inside.serve(sandbox, inside.ECHO, "0.0.0.0", 8000)
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}

    def ask() -> int:
        return requests.get(server.url + "/", headers=headers, timeout=30).status_code

    assert ask() == 200
    times = []
    for _ in range(10):
        assert sandbox.pause() is True
        started = time.monotonic()
        assert ask() == 200
        times.append(time.monotonic() - started)
        assert phase(api, sandbox) == "running"
    figures.append(f"wake by a request through the edge: p50 {sorted(times)[5] * 1e3:.1f} ms, worst {max(times) * 1e3:.1f} ms")
    sandbox.pause()
    assert sandbox.commands.run("echo awake").stdout == "awake\n"
    sandbox.pause()
    big = b"x" * (20 << 20)
    sandbox.files.write("big", big)
    assert sandbox.files.read("big", format="bytes") == big
    # Reading its state does not resume it.
    sandbox.pause()
    sandbox.get_info(), sandbox.get_metrics(), Sandbox.list().next_items(), api.get(f"/sandboxes/{sandbox.sandbox_id}/logs")
    assert phase(api, sandbox) == "paused"


def test_concurrent_requests_resume_once(sandboxes, server, api):
    sandbox = sandboxes(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
    inside.serve(sandbox, inside.ECHO, "0.0.0.0", 8000)
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
    sandbox.pause()
    gate = threading.Barrier(100)

    def ask(_) -> int:
        gate.wait()
        return requests.get(server.url + "/", headers=headers, timeout=30).status_code

    with ThreadPoolExecutor(100) as pool:
        assert set(pool.map(ask, range(100))) == {200}
    kinds = [event["type"].rsplit(".", 1)[1] for event in api.events(sandbox.sandbox_id)]
    assert kinds.count("resumed") == 1


@pytest.fixture
def attentive(server, api):
    """The server checks for idle sandboxes every second. Returns a function that waits for a number of checks."""
    server.stop()
    server.settings["CABANA_METRICS_SECONDS"] = "1"
    server.start()
    team = api.get("/teams").json[0]["teamID"]
    rounds = lambda: len(api.get(f"/teams/{team}/metrics").json)

    def look(times: int) -> None:
        # A check is recorded when it begins, so one more must have begun.
        seen = rounds()
        eventually(lambda: rounds() > seen + times, within=60, every=0.2, what=f"{times} looks at every sandbox")

    yield look
    server.stop()
    del server.settings["CABANA_METRICS_SECONDS"]
    server.start()


def test_idle_sandboxes_are_paused(attentive, boxes, server, api):
    box = boxes(timeout=600, idleTimeout=2, autoResume={"enabled": True}, autoPause=True)
    state = lambda: api.get(f"/sandboxes/{box.id}").json["phase"]
    sandbox = Sandbox.connect(box.id, timeout=600)
    # A waiting command is activity, even without a client.
    waiting = sandbox.commands.run("sleep 1000", background=True, timeout=0)
    waiting.disconnect()
    attentive(6)
    assert state() == "running"
    sandbox.commands.kill(waiting.pid)
    # So is a process that uses CPU, even if it is not a command.
    pid = sandbox.commands.run("setsid sh -c 'while :; do :; done' >/dev/null 2>&1 & echo $!").stdout.strip()
    attentive(6)
    assert state() == "running"
    sandbox.commands.run(f"kill {pid}")
    eventually(lambda: state() == "paused", within=40)
    assert "idle" in api.get(f"/sandboxes/{box.id}").json["reason"]
    assert sandbox.commands.run("echo awake").stdout == "awake\n"


def test_listings_show_the_states(sandboxes):
    running, paused = sandboxes(metadata={"t": "states"}), sandboxes(metadata={"t": "states"})
    paused.pause()
    ids = lambda *states: {
        row.sandbox_id for row in Sandbox.list(query=SandboxQuery(metadata={"t": "states"}, state=list(states) or None)).next_items()
    }
    assert ids() == {running.sandbox_id, paused.sandbox_id}
    assert ids(SandboxState.RUNNING) == {running.sandbox_id}
    assert ids(SandboxState.PAUSED) == {paused.sandbox_id}
    assert paused.kill() is True
    assert ids() == {running.sandbox_id}


def test_archive_and_restore(sandboxes, api, server, figures):
    sandbox = sandboxes(timeout=60, lifecycle={"on_timeout": "pause", "auto_resume": True})
    sandbox.commands.run("mkdir -p deep/er && head -c 30000000 /dev/urandom > deep/er/random && ln -s deep link && rm -rf ~/.bashrc")
    digest = sandbox.commands.run("sha256sum deep/er/random").stdout
    started = time.monotonic()
    assert api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/archive", {}).status == 204
    took = time.monotonic() - started
    assert phase(api, sandbox) == "archived"
    assert sandbox.sandbox_id not in server.disks()
    assert any(sandbox.sandbox_id in path.name for path in (server.data / "archive").rglob("*"))
    started = time.monotonic()
    assert sandbox.commands.run("sha256sum deep/er/random").stdout == digest, "a request restores and resumes it"
    figures.append(f"archive of 30 MB {took:.2f} s, restore by a touch {time.monotonic() - started:.2f} s")
    assert sandbox.commands.run("readlink link; ls -a ~ | grep -c bashrc || true").stdout == "deep\n0\n"
    eventually(lambda: not any(sandbox.sandbox_id in path.name for path in (server.data / "archive").rglob("*")))


def test_recycling_keeps_marked_paths(boxes, api):
    box = boxes(timeout=600, keep=["notes.txt", "/opt/mine"])
    sandbox = Sandbox.connect(box.id, timeout=600)
    sandbox.commands.run("mkdir -p artifacts user-uploads other; echo 1 > artifacts/a; echo 2 > user-uploads/b; echo 3 > other/c; echo 4 > notes.txt")
    sandbox.commands.run("mkdir /opt/mine && echo 5 > /opt/mine/d", user="root")
    assert api.request("POST", f"/sandboxes/{box.id}/archive", {"recycle": True}).status == 204
    assert phase(api, sandbox) == "recycled"
    again = Sandbox.connect(box.id, timeout=600)
    assert again.commands.run("cat artifacts/a user-uploads/b notes.txt /opt/mine/d; ls -d other 2>&1 || true").stdout == (
        "1\n2\n4\n5\nls: cannot access 'other': No such file or directory\n"
    )


def test_a_failed_sandbox_can_be_recovered(sandboxes, api, server):
    sandbox = sandboxes()
    sandbox.files.write("kept", "content")
    server.kill_guest(sandbox.sandbox_id)
    answer = eventually(lambda: (a := api.get(f"/sandboxes/{sandbox.sandbox_id}")).status == 404 and a)
    assert "its disk is kept" in answer.json["message"]
    assert [row["sandboxID"] for row in api.sandboxes("&state=failed")] == [sandbox.sandbox_id]
    assert api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/recover").status == 200
    assert sandbox.files.read("kept") == "content"
