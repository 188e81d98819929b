"""Other clients in their own Python environments (tests/.cache), because their requirements conflict with the newest SDK's."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from server import CABANA, CACHE

HERE = Path(__file__).parent


def python_with(name: str) -> Path:
    """Interpreter of an environment with `requirements-<name>.txt`; rebuilt when that file changes."""
    wanted, place = HERE / f"requirements-{name}.txt", CACHE / f"venv-{name}"
    stamp = place / ".installed"
    CACHE.mkdir(exist_ok=True)
    with open(CACHE / f"venv-{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted.read_text():
            subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
            subprocess.run(
                [place / "bin/python", "-m", "pip", "install", "--quiet", "--requirement", wanted], check=True
            )
            stamp.write_text(wanted.read_text())
    return place / "bin/python"


def pytest_with(name: str, server, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs tests in that environment against the server of this run."""
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("CABANA_", "E2B_", "NOVITA_"))}
    attached = {
        "CABANA_TEST_SERVER": server.handle,
        "CABANA_TEST_DATA": str(server.data),
        "CABANA_TEST_BINARY": str(CABANA),
    }
    return subprocess.run(
        [python_with(name), "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=HERE,
        env={**outside, **attached, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
