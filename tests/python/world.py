"""Kernel and disk objects of a server: processes, cgroups, mounts, network, subvolumes. Two records, one before
and one after, must be equal when every sandbox in between has ended.

Only objects with the name of the server under test are considered, so that several servers may run on one machine."""

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

from waiting import eventually


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def instance(data: Path) -> str:
    """The instance name in a server's objects."""
    return json.loads((data / "instance.json").read_text())["name"]


def counted(names) -> set[str]:
    """Network slots have different numbers in every run, so only their count is compared."""
    return {
        f"{count} × {name}"
        for name, count in Counter(re.sub(r"\d+(?=$|\.offline$)", "*", name) for name in names).items()
    }


def cgroups(name: str) -> set[str]:
    found = set()
    for root, directories, _ in os.walk("/sys/fs/cgroup"):
        if f"/cabana-{name}" in root:
            found.add(root.removeprefix("/sys/fs/cgroup/"))
        elif root.count("/") > 6:
            directories.clear()
    return found


def processes(name: str) -> set[str]:
    """Processes in the server's cgroups."""
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f"/cabana-{name}/" in (entry / "cgroup").read_text():
                found.add(f"{entry.name} {(entry / 'comm').read_text().strip()}")
        except OSError:
            pass  # it ended in between
    return found


def mounts(*below: Path) -> list[list[str]]:
    """Lines of the mount table, split, whose target is below one of the directories."""
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [fields for fields in lines if any(Path(fields[4]).is_relative_to(place) for place in below)]


def btrfs(data: Path) -> list[str]:
    return [fields[4] for fields in mounts(data) if fields[fields.index("-") + 1] == "btrfs"]


def loops(data: Path) -> set[str]:
    table = json.loads(run("losetup", "--json", "--list") or '{"loopdevices":[]}')
    return {row["back-file"] for row in table["loopdevices"] if row["back-file"].startswith(f"{data}/")}


def links(name: str) -> set[str]:
    table = json.loads(run("ip", "-json", "link", "show") or "[]")
    return counted(row["ifname"] for row in table if row["ifname"].startswith(f"cb{name}-"))


def run_files(name: str) -> set[str]:
    return counted(str(path) for path in Path("/run/cabana", name).glob("**/*"))


def volumes(data: Path) -> dict[str, str]:
    """Path of every subvolume → its number."""
    rows = [row.split() for place in btrfs(data) for row in run("btrfs", "subvolume", "list", place).splitlines()]
    return {row[-1]: row[1] for row in rows}


def kept(path: str) -> bool:
    """Whether it is a cached build layer: those come and go by themselves."""
    return path.startswith("layers/")


def subvolumes(data: Path) -> set[str]:
    return {path for path in volumes(data) if not kept(path)}


STALE = " without a subvolume"


def qgroups(data: Path) -> set[str]:
    """All but those of the build cache. That includes groups whose subvolume is gone: data is counted where it was written first, for as long as
    any subvolume has it. One that counts nothing is left over."""
    paths = {f"0/{number}": path for path, number in volumes(data).items()} | {"0/5": "/"}
    found = set()
    for place in btrfs(data):
        for row in run("btrfs", "qgroup", "show", "--raw", place).splitlines()[2:]:
            group, used = row.split()[:2]
            if group in paths and not kept(paths[group]):
                found.add(group)
            elif group.startswith("0/") and group not in paths and int(used) == 0:
                found.add(f"{group}{STALE}")
    return found


def rules(name: str) -> set[str]:
    """nftables: contents of the server's table. Handles and counters change; names of links are counted."""
    listed = run("nft", "list", "table", "inet", f"cabana_{name}")
    listed = re.sub(rf"cb{name}-\d+", f"cb{name}-*", re.sub(r"counter packets \d+ bytes \d+", "counter", listed))
    return counted(line.strip() for line in listed.splitlines())


class World:
    """A record of all objects of a server."""

    def __init__(self, data: Path):
        name = instance(data)
        self.data = data
        self.parts: dict[str, set[str]] = {
            "processes": processes(name),
            "cgroups": cgroups(name),
            "mounts": counted(fields[4] for fields in mounts(data, Path("/run/cabana", name))),
            "loop devices": loops(data),
            "network links": links(name),
            "run-time files": run_files(name),
            "subvolumes": subvolumes(data),
            "quota groups": qgroups(data),
            "nftables": rules(name),
        }

    @classmethod
    def at_rest(cls, data: Path) -> "World":
        """A record of an idle server: two in a row are equal."""
        pictures = [cls(data)]

        def still() -> bool:
            pictures.append(cls(data))
            return not pictures[-2].differences(pictures[-1])

        eventually(still, within=20, every=0.5)
        return pictures[-1]

    def differences(self, later: "World") -> list[str]:
        found = []
        for name, before in self.parts.items():
            after = later.parts[name]
            found += [f"{name}: new {item}" for item in sorted(after - before)]
            # Objects left over before that are gone now are fine.
            found += [f"{name}: gone {item}" for item in sorted(before - after) if not item.endswith(STALE)]
        return found

    def assert_restored(self, within: float = 15.0) -> None:
        """Waits until the objects are as in this record; background work has that long."""
        last: list[str] = []

        def same() -> bool:
            last[:] = self.differences(World(self.data))
            return not last

        try:
            eventually(same, within, every=0.1)
        except AssertionError:
            raise AssertionError("the world is not as before:\n  " + "\n  ".join(last[:40])) from None


def assert_nothing_runs(data: Path) -> None:
    """After a server has ended with no sandbox left: none of its processes, cgroups, links, rules or namespaces exist."""
    name = instance(data)
    left = {
        "processes": processes(name),
        "cgroups": cgroups(name),
        "links": links(name),
        "rules": rules(name),
        "namespaces": {fields[4] for fields in mounts(Path("/run/cabana", name))},
    }
    left = {kind: found for kind, found in left.items() if found}
    assert not left, f"left behind by the server: {left}"
