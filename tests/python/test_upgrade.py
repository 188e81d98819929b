"""This version migrates a data directory of the previous version, with sandboxes in every state, templates and a snapshot.

It needs a program of that version: CABANA_TEST_OLD names it (commit 993d761 or later, built by ./run). Its data directory is kept, because
the base template in it takes minutes to build: CABANA_TEST_OLD_DATA (/var/lib/cabana-test-old). Without that program, what a database of that
version says is checked by crates/store/tests/it/upgrade.rs."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from server import CABANA, Server
from waiting import eventually

OLD = os.environ.get("CABANA_TEST_OLD")
DATA = Path(os.environ.get("CABANA_TEST_OLD_DATA", "/var/lib/cabana-test-old"))
COUNT = "i=0; while :; do i=$((i+1)); echo $i > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.1; done"
STATES = ("running", "memory", "disk", "archived", "failed", "killed", "source")

pytestmark = pytest.mark.skipif(not OLD, reason="CABANA_TEST_OLD does not name a program of the version before")


@pytest.fixture
def upgraded():
    """A server of the previous version, whose program can be exchanged."""
    server = Server(DATA)
    server.program = Path(OLD)
    # The old program refuses a migrated database: each test starts from the one it made first.
    database, original = DATA / "cabana.db", DATA / "original.db"
    if original.exists():
        for suffix in ("-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        shutil.copy(original, database)
    try:
        server.start(within=1800)  # the first time, it builds the base template
        if not original.exists():
            server.stop()
            shutil.copy(database, original)
            server.start()
        yield server
        server.end_all_sandboxes()
    finally:
        server.stop()
        server.lock.close()


def cli(server: Server, *arguments: str) -> str:
    environment = {**os.environ, "CABANA_API_URL": server.url, "CABANA_API_KEY": server.key}
    done = subprocess.run([server.program, *arguments], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"cabana {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


def shell(server: Server, id: str, script: str) -> str:
    return cli(server, "exec", id, "--", "sh", "-c", script)


@pytest.mark.parametrize("end", ["stop", "crash"])
def test_data_is_migrated(upgraded, end):
    server = upgraded
    ids = {name: cli(server, "create", "--timeout", "1h") for name in STATES}
    for name, id in ids.items():
        shell(server, id, f"echo {name} > kept; cat /proc/sys/kernel/random/boot_id > boot; nohup sh -c '{COUNT}' >/dev/null 2>&1 &")
    before = int(eventually(lambda: shell(server, ids["running"], "cat /tmp/count 2>/dev/null || true")))
    cli(server, "pause", ids["memory"])
    cli(server, "pause", "--disk", ids["disk"])
    cli(server, "pause", "--disk", ids["archived"])
    cli(server, "archive", ids["archived"])
    cli(server, "snapshot", "create", ids["source"], "--name", "old-snapshot")
    cli(server, "commit", ids["source"], "old-template")
    cli(server, "kill", ids["killed"], ids["source"])
    server.kill_guest(ids["failed"])
    eventually(lambda: ids["failed"] in cli(server, "ls", "--state", "failed"), what="the sandbox has failed")

    getattr(server, end)()
    server.program = CABANA
    server.start()

    same_boot = "cat kept; cmp -s boot /proc/sys/kernel/random/boot_id && echo same || echo new"
    assert shell(server, ids["running"], same_boot).split() == ["running", "same"]
    assert int(shell(server, ids["running"], "cat /tmp/count")) > before, "its processes ran on"
    assert shell(server, ids["memory"], same_boot).split() == ["memory", "same"]
    counted = int(shell(server, ids["memory"], "cat /tmp/count"))
    eventually(lambda: int(shell(server, ids["memory"], "cat /tmp/count")) > counted, what="its processes go on")
    for name in ("disk", "archived"):
        assert shell(server, ids[name], same_boot).split() == [name, "new"]
    cli(server, "recover", ids["failed"])
    assert shell(server, ids["failed"], same_boot).split() == ["failed", "new"]
    for template in ("old-snapshot", "old-template"):
        assert cli(server, "run", "--template", template, "--", "cat", "kept") == "source"
    assert cli(server, "run", "--", "echo", "base") == "base"
    # Sandboxes started by the old version can be paused, resumed and killed by the new one.
    cli(server, "pause", ids["running"])
    assert shell(server, ids["running"], same_boot).split() == ["running", "same"]
    cli(server, "kill", *(ids[name] for name in ("running", "memory", "disk", "archived", "failed")))
    assert server.errors_since(0) == []
