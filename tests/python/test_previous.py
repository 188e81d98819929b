"""The Python SDK of the generation before, which asks other routes: the tests of the core run again with it, in an environment of its own."""

import re

import pytest

from other_sdk import pytest_with

FILES = [f"test_{name}.py" for name in ("commands", "files", "lifecycle", "links", "async", "git", "sleep", "snapshots")]

# What that SDK does not have: input as a stream, idempotency keys, the status code of an error, `mode` of a pause. And tests that
# restart the server, which is not their own here.
NEWER = (
    "test_commands.py::test_streamed_input",
    "test_commands.py::test_interrupt_in_a_terminal",
    "test_lifecycle.py::test_idempotency_key",
    "test_lifecycle.py::test_unknown_template",
    "test_lifecycle.py::test_invalid_values",
    "test_sleep.py::test_filesystem_pause_boots_afresh",
    "test_sleep.py::test_idle_means_idle",
    "test_snapshots.py::test_forks_of_a_paused_one[filesystem]",
    "test_snapshots.py::test_forks_that_find_no_room",
    "test_snapshots.py::test_of_a_paused_one[filesystem]",
)


@pytest.mark.parametrize("file", FILES)
def test_previous(file, server):
    without = [f"--deselect={test}" for test in NEWER if test.startswith(file)]
    done = pytest_with("previous", server, file, *without, **server.environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout
