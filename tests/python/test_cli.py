"""The two command lines: ours, and E2B's own against this server."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from server import CABANA, ROOT
from waiting import eventually

E2B = ROOT / "tests/js/node_modules/.bin/e2b"


def cabana(*arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([CABANA, *arguments], capture_output=True, text=True, timeout=60, **options)


@pytest.fixture
def environment(server):
    return {
        **os.environ,
        **server.environment,
        "CABANA_API_URL": server.url,
        "CABANA_API_KEY": server.key,
        "NO_COLOR": "1",
    }


def test_run_in_a_fresh_sandbox(environment, api):
    before = {row["sandboxID"] for row in api.sandboxes()}
    done = cabana("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7", env=environment)
    assert (done.stdout, done.returncode) == ("out\n", 7), done
    assert "err" in done.stderr
    done = cabana("run", "--", "cat", env=environment, input="through stdin\n")
    assert (done.stdout, done.returncode) == ("through stdin\n", 0), done
    assert {row["sandboxID"] for row in api.sandboxes()} == before, "the sandbox of `cabana run` ends with it"


def test_run_passes_arguments_unchanged(environment):
    odd = ["a b", "$HOME", "'", '"', "*", "", "\\", "ž", "-n", "--"]
    done = cabana(
        "run", "--", "python3", "-c", "import sys, json; print(json.dumps(sys.argv[1:]))", *odd, env=environment
    )
    assert json.loads(done.stdout) == odd, done


def test_errors_are_clear(environment):
    done = cabana(
        "run",
        "--",
        "true",
        env={**environment, "CABANA_API_URL": "http://127.0.0.1:1", "E2B_API_URL": "http://127.0.0.1:1"},
    )
    assert done.returncode not in (0, 101) and "127.0.0.1:1" in done.stderr, done
    done = cabana("run", "--", "true", env={**environment, "CABANA_API_KEY": "wrong", "E2B_API_KEY": "wrong"})
    assert done.returncode not in (0, 101) and "key" in done.stderr.lower(), done
    assert "panicked" not in done.stderr


def test_help_and_version():
    assert cabana("--version").stdout.startswith("cabana ")
    assert "server" in cabana("--help").stdout


# Pause, fork, snapshot


@pytest.fixture
def made(environment, api):
    """Creates sandboxes with `cabana create`; they are killed at the end."""
    identifiers: list[str] = []

    def make(*options: str) -> str:
        done = cabana("create", "--timeout", "2m", *options, env=environment)
        assert done.returncode == 0, done
        identifiers.append(done.stdout.strip())
        return identifiers[-1]

    yield make
    for identifier in identifiers:
        api.kill(identifier)


def ask(environment, *arguments: str) -> str:
    done = cabana(*arguments, env=environment)
    assert done.returncode == 0, done
    return done.stdout


def listed(environment, identifier: str, *options: str) -> list[str]:
    """The columns of a sandbox in `cabana ls`, piped."""
    rows = [line.split("\t") for line in ask(environment, "ls", *options).splitlines()]
    return next(row for row in rows if row[0] == identifier)


def test_pause_and_resume(environment, made):
    identifier = made()
    ask(environment, "exec", identifier, "--", "sh", "-c", "echo content > kept")
    boot = ("exec", identifier, "--", "cat", "/proc/sys/kernel/random/boot_id")
    before = ask(environment, *boot)
    assert ask(environment, "pause", identifier) == f"{identifier}\n"
    row = listed(environment, identifier)
    assert row[2] == "paused" and row[9].endswith("Z") and "API key" in row[10], row
    assert identifier not in ask(environment, "ls", "-q", "--state", "running")
    assert identifier in ask(environment, "ls", "-q", "--state", "paused")
    again = cabana("pause", identifier, env=environment)
    assert again.returncode == 1 and "paused" in again.stderr, again
    assert ask(environment, "resume", identifier, "--timeout", "1h") == f"{identifier}\n"
    assert listed(environment, identifier)[2] == "running"
    assert ask(environment, *boot) == before
    # A request resumes it.
    ask(environment, "pause", identifier)
    assert ask(environment, "exec", identifier, "--", "cat", "kept") == "content\n"
    ask(environment, "pause", identifier, "--disk")
    assert ask(environment, *boot) != before


def test_cp_with_a_paused_sandbox(environment, made, tmp_path):
    identifier = made()
    (tmp_path / "file").write_text("content")
    ask(environment, "pause", identifier)
    ask(environment, "cp", str(tmp_path / "file"), f"{identifier}:/home/user/file")
    ask(environment, "pause", identifier)
    ask(environment, "cp", f"{identifier}:/home/user/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "content"


def test_recover(environment, made, server):
    identifier = made()
    ask(environment, "exec", identifier, "--", "sh", "-c", "echo content > kept")
    assert ask(environment, "recover", identifier) == f"{identifier}\n", "a healthy sandbox is unchanged"
    server.kill_guest(identifier)
    row = eventually(lambda: listed(environment, identifier, "--state", "failed"))
    assert row[2] == "failed" and row[9].endswith("Z") and row[10], row
    assert identifier not in ask(environment, "ls", "-q")
    refused = cabana("exec", identifier, "--", "true", env=environment)
    assert refused.returncode in (1, 2) and "its disk is kept" in refused.stderr, refused
    assert ask(environment, "recover", identifier) == f"{identifier}\n"
    assert ask(environment, "exec", identifier, "--", "cat", "kept") == "content\n"
    assert listed(environment, identifier)[2] == "running"


def test_replace(environment, made, server):
    identifier = made("--replace")
    ask(environment, "exec", identifier, "--", "sh", "-c", "echo content > kept")
    server.kill_guest(identifier)
    back = lambda: cabana("exec", identifier, "--", "cat", "kept", env=environment).stdout == "content\n"
    eventually(back, within=20, every=0.2, what="it boots afresh by itself")


def test_archive(environment, made):
    identifier = made("--keep-path", "notes")
    ask(environment, "exec", identifier, "--", "sh", "-c", "echo 1 > notes; echo 2 > other")
    assert ask(environment, "archive", identifier) == f"{identifier}\n"
    assert listed(environment, identifier)[2] == "archived"
    assert ask(environment, "exec", identifier, "--", "cat", "notes", "other") == "1\n2\n"
    ask(environment, "archive", identifier, "--recycle")
    assert listed(environment, identifier)[2] == "recycled"
    done = ask(environment, "exec", identifier, "--", "sh", "-c", "cat notes; ls other 2>/dev/null || echo gone")
    assert done == "1\ngone\n"


def test_resize(environment, made):
    identifier = made("--memory", "512", "--disk", "1G")
    done = cabana("resize", identifier, "--cpu", "1", "--disk", "2G", env=environment)
    assert done.returncode == 0, done
    done = cabana("resize", identifier, "--memory", "1G", env=environment)
    assert done.returncode == 0, done
    assert listed(environment, identifier)[3:6] == ["1", "1024", "2048"]
    done = cabana("resize", identifier, "--disk", "1G", env=environment)
    assert done.returncode == 1 and "only grows" in done.stderr, done
    assert cabana("resize", identifier, env=environment).returncode not in (0, 101)


def test_fork(environment, made, api):
    identifier = made()
    ask(environment, "exec", identifier, "--", "sh", "-c", "echo content > kept")
    forks = ask(environment, "fork", identifier, "--count", "2", "--timeout", "1m").split()
    try:
        assert len({*forks, identifier}) == 3
        for fork in forks:
            assert ask(environment, "exec", fork, "--", "cat", "kept") == "content\n"
    finally:
        for fork in forks:
            api.kill(fork)
    done = cabana("fork", identifier, "--count", "21", env=environment)
    assert done.returncode == 1 and "count" in done.stderr, done


def test_snapshot(environment, made):
    identifier, name = made(), f"cli-{os.urandom(4).hex()}"
    ask(environment, "exec", identifier, "--", "sh", "-c", "echo content > kept")
    plain = ask(environment, "snapshot", "create", identifier).strip()
    named = ask(environment, "snapshot", "create", identifier, "--name", name).strip()
    rows = [line.split("\t") for line in ask(environment, "snapshot", "ls", identifier).splitlines()]
    assert [row[:2] for row in rows] == [[named, identifier], [plain, identifier]] and all(row[2] for row in rows)
    shown = json.loads(ask(environment, "snapshot", "ls", "--json"))
    assert {plain, named} <= {row["snapshotID"] for row in shown}
    for template in (plain, name):
        assert ask(environment, "exec", made("--template", template), "--", "cat", "kept") == "content\n"
    assert ask(environment, "snapshot", "rm", plain, name) == f"{plain}\n{name}\n"
    assert ask(environment, "snapshot", "ls", identifier) == ""
    done = cabana("snapshot", "rm", name, env=environment)
    assert done.returncode == 1 and name in done.stderr, done


def test_create_with_idle_timeout(environment, made):
    identifier = made("--auto-pause", "--auto-resume")
    ask(environment, "timeout", identifier, "0")
    eventually(lambda: listed(environment, identifier)[2] == "paused")
    assert "timeout" in listed(environment, identifier)[10]
    disk = made("--auto-pause", "disk")
    boot = ("exec", disk, "--", "cat", "/proc/sys/kernel/random/boot_id")
    before = ask(environment, *boot)
    ask(environment, "timeout", disk, "0")
    eventually(lambda: listed(environment, disk)[2] == "paused")
    assert ask(environment, *boot) != before
    idle = made("--idle", "1")
    eventually(lambda: listed(environment, idle)[2] == "paused", within=30)
    assert "idle" in listed(environment, idle)[10]


def test_doctor_finds_leftovers(environment, made, server):
    for identifier, *how in ((made(),), (made(), "pause"), (made(), "archive")):
        if how:
            ask(environment, *how, identifier)
    done = cabana("doctor", "--check", env=environment)
    assert (done.stdout, done.returncode) == ("", 0), done
    assert json.loads(ask(environment, "doctor", "--check", "--json")) == []
    # A disk without an owner.
    stray = server.data / "pool/sandboxes" / f"i{'0' * 20}"
    subprocess.run(["btrfs", "subvolume", "create", stray], check=True, capture_output=True)
    try:
        done = cabana("doctor", "--check", env=environment)
        assert done.returncode == 1 and stray.name in done.stdout, done
    finally:
        subprocess.run(["btrfs", "subvolume", "delete", stray], check=True, capture_output=True)
    away = {**environment, "CABANA_API_URL": "http://127.0.0.1:1"}
    assert cabana("doctor", "--check", env=away).returncode == 2


# E2B's command line.


def e2b(environment, *arguments: str, **options) -> subprocess.CompletedProcess:
    if not E2B.exists():
        pytest.fail("E2B's command line is not installed: ./test does it")
    return subprocess.run([E2B, *arguments], env=environment, capture_output=True, text=True, timeout=60, **options)


def without_colours(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07", "", text)


def test_e2b_sandbox_life(environment, api):
    before = {row["sandboxID"] for row in api.sandboxes()}
    done = e2b(environment, "sandbox", "create", "base", "--detach", "--timeout", "120")
    assert done.returncode == 0, done
    (identifier,) = {row["sandboxID"] for row in api.sandboxes()} - before
    assert identifier in without_colours(done.stdout)
    listed = json.loads(e2b(environment, "sandbox", "list", "--format", "json").stdout)
    assert identifier in [row["sandboxId"] for row in listed]
    assert identifier in without_colours(e2b(environment, "sandbox", "list").stdout)
    info = json.loads(e2b(environment, "sandbox", "info", identifier, "--format", "json").stdout)
    assert info["sandboxId"] == identifier
    done = e2b(environment, "sandbox", "exec", "-u", "root", identifier, "sh", "-c", "whoami; exit 3")
    assert (done.stdout, done.returncode) == ("root\n", 3), done
    done = e2b(environment, "sandbox", "exec", identifier, "cat", input="piped\n")
    assert done.stdout == "piped\n", done
    logs = e2b(environment, "sandbox", "logs", identifier)
    assert logs.returncode == 0 and "error" not in logs.stderr.lower(), logs
    assert "Sandbox started" in logs.stdout and "exit status 3" in logs.stdout, logs
    done = e2b(environment, "sandbox", "kill", identifier)
    assert done.returncode == 0 and identifier in without_colours(done.stdout), done
    assert identifier not in {row["sandboxID"] for row in api.sandboxes()}
    again = e2b(environment, "sandbox", "kill", identifier)
    assert "wasn't found" in without_colours(again.stdout + again.stderr) or again.returncode != 0, again


def test_e2b_pause(environment, made, api):
    identifier = made()
    api.request("POST", f"/sandboxes/{identifier}/timeout", {"timeout": 120})
    phase = lambda: api.get(f"/sandboxes/{identifier}").json["phase"]
    done = e2b(environment, "sandbox", "pause", identifier)
    assert done.returncode == 0 and identifier in without_colours(done.stdout) and phase() == "paused", done
    shown = json.loads(e2b(environment, "sandbox", "list", "--state", "paused", "--format", "json").stdout)
    assert identifier in [row["sandboxId"] for row in shown]
    done = e2b(environment, "sandbox", "resume", identifier)
    assert done.returncode == 0 and phase() == "running", done


def test_e2b_snapshots(environment, made):
    identifier, name = made(), f"cli-{os.urandom(4).hex()}"
    done = e2b(environment, "sandbox", "snapshot", "create", identifier, "--name", name)
    assert done.returncode == 0 and name in without_colours(done.stdout), done
    done = e2b(environment, "sandbox", "snapshot", "list", identifier, "--format", "json")
    assert done.returncode == 0 and name in done.stdout, done
    (row,) = json.loads(done.stdout)
    done = e2b(environment, "sandbox", "snapshot", "delete", row["snapshotId"])
    assert done.returncode == 0, done
    assert json.loads(e2b(environment, "sandbox", "snapshot", "list", identifier, "--format", "json").stdout) == []


def test_e2b_template_list(environment):
    done = e2b(environment, "template", "list", "--format", "json")
    assert done.returncode == 0, done
    assert any("base" in row.get("aliases", []) for row in json.loads(done.stdout)), done.stdout


def test_e2b_terminal(environment, api):
    """`sandbox create` opens a terminal in the new sandbox and kills it at exit."""
    before = {row["sandboxID"] for row in api.sandboxes()}
    child, terminal = pty.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(environment, TERM="xterm")
        os.execv(E2B, [str(E2B), "sandbox", "create", "base"])
    seen, deadline, typed = b"", time.monotonic() + 30, 0
    script = [(b"$ ", b"echo ma$((40+2))rk; tty\n"), (b"ma42rk", b"exit\n")]
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([terminal], [], [], 0.2)
            if ready:
                try:
                    seen += os.read(terminal, 65536)
                except OSError:
                    break  # the other side has closed
            if typed < len(script) and script[typed][0] in seen:
                os.write(terminal, script[typed][1])
                typed += 1
        _, status = os.waitpid(child, os.WNOHANG if time.monotonic() >= deadline else 0)
    finally:
        os.close(terminal)
        for identifier in {row["sandboxID"] for row in api.sandboxes()} - before:
            api.kill(identifier)
    assert typed == len(script) and b"/dev/pts/" in seen, seen
    assert os.waitstatus_to_exitcode(status) == 0, seen


def test_node_is_there():
    assert shutil.which("node"), "the JS tests need Node: ./test installs it"
