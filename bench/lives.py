#!/usr/bin/env python3
"""Times whole lives of sandboxes (create → first output → kill) through the API of a running server, beside bare sandboxes of the same kernel.

usage: bench/lives.py [--count N] [--url URL] [--key KEY]
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
from wire import Client  # noqa: E402


def quantile(values, part):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round((len(ordered) - 1) * part))]


def floors(directory):
    """Programs that make a sandbox, run `true` in it and take it away."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="lives to measure (default 100, at most 10000)")
    parser.add_argument("--url", default=os.environ.get("E2B_API_URL", "http://127.0.0.1:3000"))
    parser.add_argument("--key", default=os.environ.get("E2B_API_KEY"))
    options = parser.parse_args()
    count = max(1, min(options.count, 10_000))
    key = options.key or pathlib.Path("/var/lib/cabana/key").read_text().strip()
    client = Client(options.url, key)

    lives = []
    with tempfile.TemporaryDirectory() as directory:
        bare = {name: (command, []) for name, command in floors(directory)}
        # In turns, so that whatever else the machine does meets all of them alike.
        for number in range(count + 3):
            begin = time.perf_counter()
            box = client.create(timeout=60)
            created = time.perf_counter()
            assert client.run(box, "echo alive") == (0, "alive\n")
            answered = time.perf_counter()
            assert client.kill(box)
            ended = time.perf_counter()
            if number >= 3:
                lives.append((created - begin, answered - created, ended - answered, ended - begin))
            for command, times in bare.values():
                begin = time.perf_counter()
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                if number >= 3:
                    times.append(time.perf_counter() - begin)

    rows = [(f"cabana: {part}", values) for part, values in zip(("create", "command", "kill", "whole life"), zip(*lives))]
    rows += [(f"floor: {name}", times) for name, (_, times) in bare.items()]
    whole = statistics.median(life[3] for life in lives)
    print(f"{count} lives, milliseconds{'':24}p50      p99    whole life is")
    for name, values in rows:
        ratio = f"{whole / statistics.median(values):6.1f}×" if name.startswith("floor") else ""
        print(f"{name:40}{statistics.median(values) * 1e3:10.2f}{quantile(values, 0.99) * 1e3:9.2f}    {ratio}")


if __name__ == "__main__":
    main()
