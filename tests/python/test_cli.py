"""The two command lines that people use: ours, and E2B's own against this server."""

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


def test_e2b_template_list(environment):
    done = e2b(environment, "template", "list", "--format", "json")
    assert done.returncode == 0, done
    assert any("base" in row.get("aliases", []) for row in json.loads(done.stdout)), done.stdout


def test_e2b_terminal(environment, api):
    """`sandbox create` opens a terminal in the new sandbox and ends it at exit."""
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
