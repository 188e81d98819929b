"""The attempts and classes of tests/escape, the outcomes of a run, and the table of results."""

import csv
import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from server import ROOT

PLACE = ROOT / "tests/escape"
PROGRAM = PLACE / "attempt.py"
# Kept by continuous integration.
RESULTS = ROOT / "target/escape"
TABLE = tomllib.loads((PLACE / "attempts.toml").read_text())
CLASSES = tomllib.loads((PLACE / "classes.toml").read_text())["class"]
# Outcomes of a machine that lacks what an attempt uses.
LACKING = {"ENOSYS", "ENOENT", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT"}
# How each kind of the table is tried: `namespace` in three ways.
WAYS = {
    "call": ["call"],
    "namespace": ["unshare", "clone", "setns"],
    "socket": ["socket"],
    "write": ["write"],
    "read": ["read"],
    "code": ["code"],
}
USERS = ["user", "root"]


@dataclass
class Attempt:
    name: str
    kind: str
    row: dict
    outcomes: dict[str, str] = field(default_factory=dict)

    @property
    def classes(self) -> list[int]:
        number = self.row["class"]
        return number if isinstance(number, list) else [number]

    def is_safe(self, outcome: str, user: str) -> bool:
        if "safe_only" in self.row:
            return outcome in self.row["safe_only"]
        safe = TABLE["outcomes"]["denied"] + TABLE["outcomes"].get(self.kind, []) + self.row.get("safe", [])
        return outcome in safe + (self.row.get("safe_root", []) if user == "root" else [])

    def got_through(self, outcome: str) -> bool:
        """Outside."""
        refused = outcome in TABLE["outcomes"]["denied"] + self.row.get("safe", [])
        return not refused or self.row.get("reached") == outcome

    def control(self, outcome: str) -> str:
        """What the outcome outside says about the attempt: `yes` if it proves something here, or why not."""
        if self.got_through(outcome):
            return "yes"
        if reason := self.row.get("uncontrolled"):
            return reason
        if self.row.get("absent") and outcome in LACKING:
            return f"not on this machine: {TABLE['absent'][self.row['absent']]}"
        return ""


def attempts() -> dict[str, Attempt]:
    found = {}
    for kind, ways in WAYS.items():
        for row in TABLE[kind]:
            for way in ways:
                name = f"{way} {row['name']}"
                if name not in ("clone time", "setns time"):  # only `unshare` has it
                    found[name] = Attempt(name, kind, row)
    return found


def outside() -> dict[str, str]:
    """Outcomes as root on the host, in scratch namespaces."""
    table = RESULTS / "attempts.json"
    RESULTS.mkdir(parents=True, exist_ok=True)
    table.write_text(json.dumps(TABLE))
    namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = ["unshare", *namespaces, sys.executable, str(PROGRAM), str(table), "--control"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)["outcomes"]


def inside(sandbox, user: str) -> dict:
    """Outcomes and facts of a sandbox."""
    sandbox.files.write(f"/tmp/{user}/attempt.py", PROGRAM.read_text(), user=user)
    sandbox.files.write(f"/tmp/{user}/attempts.json", json.dumps(TABLE), user=user)
    done = sandbox.commands.run(f"cd /tmp/{user} && python3 attempt.py attempts.json", user=user, timeout=60)
    return json.loads(done.stdout)


def write_results(control: dict[str, str], found: dict[str, dict]) -> Path:
    """results.csv and results.md: one row for each attempt."""
    head = ["attempt", "classes", "as user", "as root", "safe", "gets through outside"]
    rows = []
    for name, attempt in attempts().items():
        outcomes = [found[user]["outcomes"][name] for user in USERS]
        safe = all(attempt.is_safe(outcome, user) for outcome, user in zip(outcomes, USERS))
        rows.append(
            [name, " ".join(map(str, attempt.classes)), *outcomes, "yes" if safe else "NO", attempt.control(control[name]) or "NO"]
        )
    with (RESULTS / "results.csv").open("w") as file:
        csv.writer(file).writerows([head, *rows])
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    (RESULTS / "results.md").write_text("\n".join(lines) + "\n")
    return RESULTS / "results.md"
