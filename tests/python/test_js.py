"""Runs the tests of the JS SDK (tests/js), one process per file, against the same server; those of the core also with the
previous SDK generation, which uses other routes."""

import os
import re
import subprocess

import pytest

from interpreters import build
from server import ROOT

FILES = sorted((ROOT / "tests/js").glob("*.test.mjs"))
CORE = ("commands.test.mjs", "files.test.mjs", "git.test.mjs", "lifecycle.test.mjs", "pause.test.mjs")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_js(file, server, js_counts, registries, internet):
    options = ()
    if file.name == "interpreter.test.mjs":
        build(server)
        # The SDK leaves timers of a minute behind.
        options = ("--test-force-exit",)
    closed = registries.has("team/busybox:v1").closed.host
    run(file, server, js_counts, *options, CABANA_TEST_OPEN=registries.open.host, CABANA_TEST_CLOSED=closed)


@pytest.mark.parametrize("file", [file for file in FILES if file.name in CORE], ids=lambda file: file.name)
def test_js_of_the_generation_before(file, server, js_counts):
    run(file, server, js_counts, "--import", "./previous.mjs")


def run(file, server, js_counts, *options: str, **environment: str) -> None:
    done = subprocess.run(
        ["node", *options, "--test", "--test-reporter=tap", file.name],
        cwd=file.parent,
        env={**os.environ, **server.environment, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    numbers = {
        name: int(count)
        for name, count in re.findall(r"^# (pass|fail|cancelled|skipped|todo) (\d+)$", done.stdout, re.M)
    }
    js_counts["passed"] += numbers.get("pass", 0)
    js_counts["failed"] += numbers.get("fail", 0) + numbers.get("cancelled", 0)
    js_counts["skipped"] += numbers.get("skipped", 0) + numbers.get("todo", 0)
    if done.returncode != 0:
        bad = [
            block
            for block in re.split(r"(?m)^(?=(?:    )?(?:not )?ok )", done.stdout)
            if block.lstrip().startswith("not ok")
        ]
        pytest.fail("\n".join(bad)[-6000:] + done.stderr[-2000:], pytrace=False)
    assert numbers.get("pass", 0) > 0, done.stdout
