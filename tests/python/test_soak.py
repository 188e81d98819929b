"""Eight clients perform random operations for a minute: all responses match their models, and afterwards the server is as before."""

import json
import os
import subprocess
import sys
from pathlib import Path

from waiting import eventually

SECONDS = float(os.environ.get("CABANA_SOAK_SECONDS", "25"))
CLIENTS = 8
SEED = 20261


def soak(server, seconds: float, seed: int) -> dict:
    done = subprocess.run(
        [sys.executable, "soak.py", str(seconds), str(CLIENTS), str(seed)],
        cwd=Path(__file__).parent,
        env={**os.environ, **server.environment},
        capture_output=True,
        text=True,
        timeout=seconds + 120,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout)
    assert not report["errors"], f"{len(report['errors'])} errors (seed {seed}):\n" + "\n".join(report["errors"][:5])
    return report


def tasks(server) -> int:
    return len(os.listdir(f"/proc/{server.pid}/task"))


def test_soak(server, world, figures):
    soak(server, 5, SEED)  # warm-up: buffers, threads and connections of the first use
    world.assert_restored(30)
    before = server.memory(), server.descriptors(), tasks(server)
    report = soak(server, SECONDS, SEED + CLIENTS)
    world.assert_restored(30)
    eventually(lambda: server.descriptors() <= before[1] + 4, within=20, what="descriptors as before")
    eventually(lambda: tasks(server) <= before[2] + 4, within=30, what="threads as before")
    after = server.memory(), server.descriptors(), tasks(server)
    figures.append(
        f"soak: {sum(report['done'].values())} steps of {CLIENTS} clients in {SECONDS:.0f} s, {report['done'].get('do_create', 0)} of them "
        f"creations or kills, 0 errors; memory {before[0] >> 20} → {after[0] >> 20} MiB, descriptors {before[1]} → {after[1]}, "
        f"threads {before[2]} → {after[2]}"
    )
    # A leak of a kilobyte per step would exceed this.
    assert after[0] - before[0] < 16 * 2**20, f"memory {before[0]} → {after[0]}"
    assert len(report["done"]) >= 17, report["done"]
