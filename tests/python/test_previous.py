"""The previous generation of the Python SDK, which uses other routes: the core tests run again with it, in its own environment."""

import re

import pytest

from other_sdk import pytest_with

FILES = [f"test_{name}.py" for name in ("commands", "files", "lifecycle", "links", "async", "git", "pause", "snapshots")]

# Features that this SDK lacks: streamed input, idempotency keys, the status code of an error, `mode` of a pause. And tests that
# restart the server, which belongs to another run here.
NEWER = (
    "test_commands.py::test_streamed_input",
    "test_commands.py::test_interrupt_in_a_terminal",
    "test_lifecycle.py::test_idempotency_key",
    "test_lifecycle.py::test_unknown_template",
    "test_lifecycle.py::test_invalid_values",
    "test_pause.py::test_filesystem_pause_boots_again",
    "test_pause.py::test_idle_sandboxes_are_paused",
    "test_snapshots.py::test_forks_of_a_paused_sandbox[filesystem]",
    "test_snapshots.py::test_forks_beyond_the_limit",
    "test_snapshots.py::test_of_a_paused_sandbox[filesystem]",
)


@pytest.mark.parametrize("file", FILES)
def test_previous(file, server):
    without = [f"--deselect={test}" for test in NEWER if test.startswith(file)]
    done = pytest_with("previous", server, file, *without, **server.environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout
