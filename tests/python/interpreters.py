"""Sandboxes of the code interpreter's template. It is built once per run; its steps are cached in the data directory."""

import os
import subprocess
from contextlib import contextmanager

from e2b_code_interpreter import Sandbox

from server import CABANA, Server
from world import World

TEMPLATE = "code-interpreter-v1"


def build(server: Server) -> None:
    done = subprocess.run(
        [CABANA, "template", "get", TEMPLATE],
        env={**os.environ, **server.environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{TEMPLATE}\n"
    # It stays until the end of the run.
    server.idle = World.at_rest(server.data)


@contextmanager
def interpreter(**options):
    sandbox = Sandbox.create(**{"timeout": 120, **options})
    try:
        yield sandbox
    finally:
        sandbox.kill()
