"""The server is killed at bad moments. Sandboxes keep running, acknowledged changes are kept, and nothing is left over."""

import threading
import time

import pytest
import requests
from e2b import Sandbox

import inside
from waiting import eventually, within


@pytest.fixture
def restarted(server):
    """Ensures that the server runs again after the test."""
    yield
    if server.process is None or server.process.poll() is not None:
        server.process = None
        server.start()


def test_sandboxes_outlive_the_server(sandboxes, server, restarted, figures):
    first, second = sandboxes(metadata={"who": "first"}, timeout=300), sandboxes(timeout=300)
    inside.serve(first, inside.ECHO, "127.0.0.1", 8000)
    first.files.write("kept", "content")
    counter = first.commands.run(
        "i=0; while true; do i=$((i+1)); echo $i > /tmp/count; echo tick $i; sleep 0.05; done",
        background=True,
        timeout=0,
    )
    boot = first.commands.run("cat /proc/sys/kernel/random/boot_id").stdout
    info = first.get_info()
    counted = int(eventually(lambda: first.files.read("/tmp/count").strip()))

    server.crash()
    time.sleep(0.5)  # the sandbox must keep running by itself; it cannot be observed
    started = time.monotonic()
    server.start()
    figures.append(f"restart after kill -9 with 2 sandboxes: {time.monotonic() - started:.2f} s")

    again = first.get_info()
    assert (again.metadata, again.started_at, again.end_at) == (info.metadata, info.started_at, info.end_at)
    assert {row.sandbox_id for row in Sandbox.list().next_items()} >= {first.sandbox_id, second.sandbox_id}
    assert first.is_running() and second.is_running()
    assert first.commands.run("cat /proc/sys/kernel/random/boot_id").stdout == boot
    assert first.files.read("kept") == "content"
    assert int(first.files.read("/tmp/count")) >= counted + 5, "the background command kept running while the server was down"
    assert counter.pid in [process.pid for process in first.commands.list()]
    reconnected = first.commands.connect(counter.pid)
    assert "tick" in next(iter(reconnected))[0]
    reconnected.disconnect()
    headers = {"E2b-Sandbox-Id": first.sandbox_id, "E2b-Sandbox-Port": "8000"}
    assert requests.get(server.url + "/", headers=headers).status_code == 200
    assert requests.get(first.download_url("kept")).text == "content"
    first.set_timeout(600)
    assert second.kill() is True
    assert not second.is_running()


def test_graceful_restart_keeps_sandboxes(sandboxes, server, restarted):
    sandbox = sandboxes()
    sandbox.commands.run("sleep 1000", background=True, timeout=0)
    server.stop()
    server.start()
    assert sandbox.is_running()
    assert sandbox.commands.run("pgrep -x sleep | wc -l").stdout == "1\n"


def test_expiry_while_the_server_is_down(sandboxes, server, api, restarted):
    sandbox = sandboxes(timeout=1)
    server.crash()
    time.sleep(1.2)
    server.start()
    eventually(lambda: not sandbox.is_running(), within=5)
    assert "timeout" in eventually(
        lambda: (a := api.get(f"/sandboxes/{sandbox.sandbox_id}")).status == 404 and a.json["message"]
    )


def test_killed_stays_killed(sandboxes, server, restarted):
    """An acknowledged kill holds, even if the server dies right after."""
    made = [sandboxes() for _ in range(5)]
    for sandbox in made:
        assert sandbox.kill() is True
    server.crash()
    server.start()
    assert not {row.sandbox_id for row in Sandbox.list().next_items()} & {sandbox.sandbox_id for sandbox in made}
    assert not any(sandbox.is_running() for sandbox in made)


@pytest.mark.parametrize("delay", [0.005, 0.02, 0.06, 0.15])
def test_crash_during_creates(delay, server, world, restarted):
    """Every acknowledged create survives; nothing is left of the others."""
    acknowledged, lock = [], threading.Lock()

    def create():
        try:
            client = server.client(timeout=10)
            box = client.create(timeout=300)
            with lock:
                acknowledged.append(box)
        except Exception:
            pass  # the server was killed on purpose

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(delay)
    server.crash()
    for thread in threads:
        thread.join()
    started = time.monotonic()
    server.start()
    within(15, started, "a restart after a crash during creates")
    client = server.client()
    listed = {row["sandboxID"] for row in client.sandboxes()}
    for box in acknowledged:
        assert box.id in listed, "an acknowledged create was lost"
        assert client.run(box, "echo alive") == (0, "alive\n")
    for identifier in listed:
        client.kill(identifier)
    world.assert_restored()


def test_crash_during_kills(server, world, restarted):
    client = server.client()
    made = [client.create(timeout=300) for _ in range(8)]

    def kill(box):
        try:
            server.client(timeout=10).kill(box)
        except Exception:
            pass

    threads = [threading.Thread(target=kill, args=(box,)) for box in made]
    for thread in threads:
        thread.start()
    time.sleep(0.01)
    server.crash()
    for thread in threads:
        thread.join()
    server.start()
    client = server.client()
    for box in made:
        client.kill(box)
    assert not {row["sandboxID"] for row in client.sandboxes()} & {box.id for box in made}
    world.assert_restored()


def test_several_crashes_in_a_row(sandboxes, server, restarted):
    sandbox = sandboxes(timeout=300)
    for n in range(4):
        server.crash()
        server.start()
        assert sandbox.commands.run(f"echo {n}").stdout == f"{n}\n"


def test_second_server_on_the_same_data_is_refused(server):
    import os
    import subprocess

    from server import CABANA, free_port

    environment = {**os.environ, "CABANA_DATA_DIR": str(server.data), "CABANA_LISTEN": f"127.0.0.1:{free_port()}"}
    second = subprocess.run([CABANA, "server"], env=environment, capture_output=True, text=True, timeout=30)
    assert second.returncode != 0
    assert str(server.data) in second.stdout + second.stderr
    assert server.ready()
