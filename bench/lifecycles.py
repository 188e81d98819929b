#!/usr/bin/env python3
"""Times whole lifecycles of sandboxes (create → first output → kill) through the API of a running server, compared with bare sandboxes on the same kernel.

usage: bench/lifecycles.py [--count N] [--url URL] [--key KEY]
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from measure import WARM_UP, Times, client, options

WHOLE = "cabana: whole lifecycle"


def floors(directory):
    """Programs that create a sandbox, run `true` in it and remove it."""
    yield "unshare (all namespaces)", ["unshare", "-Urmpiunf", "--mount-proc", "true"]
    if shutil.which("bwrap"):
        yield "bubblewrap", ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    # crun refuses machines that mount both versions of cgroups.
    if shutil.which("crun") and not os.path.exists("/sys/fs/cgroup/unified"):
        subprocess.run(["crun", "spec"], cwd=directory, check=True)
        path = pathlib.Path(directory) / "config.json"
        spec = json.loads(path.read_text())
        spec["process"].update(args=["true"], terminal=False)
        spec["root"] = {"path": "/", "readonly": True}
        path.write_text(json.dumps(spec))
        yield "crun run", ["crun", "run", "--bundle", directory, f"bench-{os.getpid()}"]


def main():
    chosen = options(__doc__, "lifecycles", 100)
    server, times = client(chosen), Times()
    with tempfile.TemporaryDirectory() as directory:
        bare = list(floors(directory))
        # Alternating, so that other load affects all of them alike.
        for number in range(chosen.count + WARM_UP):
            counts = number >= WARM_UP
            with times.take(WHOLE, counts):
                with times.take("cabana: create", counts):
                    box = server.create(timeout=60)
                with times.take("cabana: command", counts):
                    assert server.run(box, "echo alive") == (0, "alive\n")
                with times.take("cabana: kill", counts):
                    assert server.kill(box)
            for name, command in bare:
                with times.take(name, counts):
                    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    times.show(f"{chosen.count} lifecycles, milliseconds", {WHOLE: bare[-1][0]})


if __name__ == "__main__":
    main()
