"""What a server has made in the kernel and on disk: processes, cgroups, mounts, network, subvolumes. Two pictures of the world, one before
and one after, must be the same when every sandbox in between has ended.

Only what belongs to the server under test is looked at, so that several servers may run on one machine."""

import json
import os
import re
import subprocess
from pathlib import Path

from waiting import eventually


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def cgroups() -> set[str]:
    """Every cgroup directory below one that is named for Cabana, in all hierarchies."""
    found = set()
    for root, directories, _ in os.walk("/sys/fs/cgroup"):
        if "cabana" in root:
            found.add(root.removeprefix("/sys/fs/cgroup/"))
        elif root.count("/") > 7:
            directories.clear()
    return found


def processes() -> set[str]:
    """Processes in such a cgroup."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if "cabana" in (entry / "cgroup").read_text():
                found.add(f"{entry.name} {(entry / 'comm').read_text().strip()}")
        except OSError:
            pass  # it ended while we looked
    return found


def mounts(data: Path) -> set[str]:
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split()[4]
        if target.startswith((str(data), "/run/cabana")):
            found.add(target)
    return found


def loops(data: Path) -> set[str]:
    table = json.loads(run("losetup", "--json", "--list") or '{"loopdevices":[]}')
    return {row["back-file"] for row in table["loopdevices"] if row["back-file"].startswith(str(data))}


def links() -> set[str]:
    table = json.loads(run("ip", "-json", "link", "show") or "[]")
    return {row["ifname"] for row in table if re.match(r"cab|cb", row["ifname"])}


def namespaces() -> set[str]:
    places = [Path("/run/netns"), *Path("/run").glob("cabana*/**/netns")]
    return {str(name) for place in places if place.is_dir() for name in place.iterdir()}


def run_files() -> set[str]:
    return {str(path) for path in Path("/run").glob("cabana*/**/*")}


def subvolumes(data: Path) -> set[str]:
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if " - btrfs " in line and fields[4].startswith(str(data)):
            found |= {row.split(" path ", 1)[1] for row in run("btrfs", "subvolume", "list", fields[4]).splitlines()}
    return found


def qgroups(data: Path) -> set[str]:
    found = set()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if " - btrfs " in line and fields[4].startswith(str(data)):
            found |= {row.split()[0] for row in run("btrfs", "qgroup", "show", fields[4]).splitlines()[2:] if row.split()}
    return found


def rules() -> set[str]:
    """nftables: tables, chains, sets and the elements in them."""
    found = set()
    for item in json.loads(run("nft", "--json", "list", "ruleset") or '{"nftables":[]}')["nftables"]:
        (kind, body), *_ = item.items()
        if "cabana" not in json.dumps(body):
            continue
        body = {k: v for k, v in body.items() if k != "handle"}
        for element in body.pop("elem", []):
            found.add(f"{kind} {body.get('name')} element {json.dumps(element, sort_keys=True)}")
        if kind != "rule":
            found.add(f"{kind} {json.dumps(body, sort_keys=True)}")
    return found


class World:
    """A picture of everything that a server has made."""

    def __init__(self, data: Path):
        self.data = data
        self.parts: dict[str, set[str]] = {
            "processes": processes(),
            "cgroups": cgroups(),
            "mounts": mounts(data),
            "loop devices": loops(data),
            "network links": links(),
            "network namespaces": namespaces(),
            "run-time files": run_files(),
            "subvolumes": subvolumes(data),
            "quota groups": qgroups(data),
            "nftables": rules(),
        }

    def differences(self, later: "World") -> list[str]:
        found = []
        for name, before in self.parts.items():
            after = later.parts[name]
            found += [f"{name}: new {item}" for item in sorted(after - before)]
            found += [f"{name}: lost {item}" for item in sorted(before - after)]
        return found

    def assert_restored(self, within: float = 15.0) -> None:
        """Waits until the world is again as in this picture; what is removed in the background has that long."""
        last: list[str] = []

        def same() -> bool:
            last[:] = self.differences(World(self.data))
            return not last

        try:
            eventually(same, within, every=0.2)
        except AssertionError:
            raise AssertionError("left in the world:\n  " + "\n  ".join(last[:40])) from None
