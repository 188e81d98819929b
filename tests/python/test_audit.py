"""The audit log with the real server: verified from the running server, from its database and from exports; tampered with; long; on its page."""

import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import time
from datetime import datetime
from pathlib import Path

import pytest
from playwright.sync_api import expect

from pages import title
from server import CABANA

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cabana(server):
    def cabana(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([CABANA, *arguments], capture_output=True, text=True, timeout=60, env=server.environment)

    return cabana


@pytest.fixture
def database(server, api, tmp_path) -> Path:
    """A copy of the server's database, to be tampered with. It has an entry."""
    assert api.request("DELETE", "/sandboxes/inothing").status == 404
    path = tmp_path / "copy.db"
    with sqlite3.connect(f"file:{server.data / 'cabana.db'}?mode=ro", uri=True) as source, sqlite3.connect(path) as copy:
        source.backup(copy)
    return path


def documented_hash():
    """The function that docs/audit.md gives to everybody."""
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs/audit.md").read_text(), re.DOTALL)
    assert code
    names = {"hashlib": hashlib, "datetime": datetime}
    exec(code.group(1), names)
    return names["entry_hash"]


def tamper(path: Path, sql: str) -> None:
    with sqlite3.connect(path) as connection:
        for (trigger,) in connection.execute("select name from sqlite_master where type = 'trigger' and name like 'audit%'").fetchall():
            connection.execute(f"drop trigger {trigger}")
        connection.executescript(sql)


def test_exports_are_verified_without_the_server(server, api, boxes, cabana, tmp_path):
    for number in range(5):
        assert api.request("DELETE", f"/sandboxes/inothing{number}").status == 404
    box = boxes()
    found = api.get(f"/audit?target={box.id}").json["entries"]
    assert [entry["action"] for entry in found] == ["create_sandbox"]
    export = tmp_path / "audit.jsonl"
    export.write_text(cabana("audit", "export").stdout)
    lines = [json.loads(line) for line in export.read_text().splitlines()]
    entries = [line for line in lines if "chain" not in line]
    entry_hash, previous = documented_hash(), None
    for entry in entries:
        assert entry_hash(entry) == entry["hash"], entry
        assert previous in (None, entry["previousHash"])
        previous = entry["hash"]
    done = cabana("audit", "verify", "--file", str(export))
    assert (done.returncode, f"default\t{entries[-1]['seq']}\t{previous}" in done.stdout) == (0, True), done
    for number, change in [
        (2, lambda text: text.replace('"status":2', '"status":3', 1)),
        (3, lambda text: ""),
        (len(lines) - 1, lambda text: ""),
    ]:
        texts = export.read_text().splitlines()
        texts[number] = change(texts[number])
        other = tmp_path / "changed.jsonl"
        other.write_text("\n".join(texts))
        done = cabana("audit", "verify", "--file", str(other), "--json")
        problems = json.loads(done.stdout)["problems"]
        assert done.returncode == 1 and problems[0]["seq"] == lines[number]["seq"], (number, problems)
    assert cabana("audit", "verify", "--file", str(CABANA.parent / "cabana.d")).returncode == 1


def test_tampering_with_the_database_is_found(server, cabana, database):
    assert cabana("audit", "verify", "--database", str(database)).returncode == 0
    with sqlite3.connect(database) as connection:
        (last,) = connection.execute("select max(seq) from audit where team = 'default'").fetchone()
    for sql, seq, kind in [
        (f"update audit set actor = 'somebody' where team = 'default' and seq = {last}", last, "changed"),
        (f"delete from audit where team = 'default' and seq = {last}", last, "missing"),
    ]:
        copy = database.with_name("tampered.db")
        shutil.copy(database, copy)
        tamper(copy, sql)
        done = cabana("audit", "verify", "--database", str(copy), "--json")
        problems = [problem for problem in json.loads(done.stdout)["problems"] if problem.get("teamID") == "default"]
        assert done.returncode == 1 and [(problem["seq"], problem["kind"]) for problem in problems] == [(seq, kind)], problems
    # The triggers of the real one refuse it.
    with sqlite3.connect(database) as connection, pytest.raises(sqlite3.IntegrityError, match="never changed"):
        connection.execute("update audit set actor = 'somebody'")


def test_ten_thousand_entries(database, cabana):
    """Written as the documentation says, they are a valid chain; pages and filters of a long log stay quick."""
    entry_hash, previous = documented_hash(), "0" * 64
    with sqlite3.connect(database) as connection:
        for seq in range(1, 10_001):
            entry = {"teamID": "long", "seq": seq, "at": f"2026-01-01T00:00:00.{seq:06}+00:00", "actor": f"a{seq % 7}", "action": "x_y"}
            entry |= {"target": f"t{seq}", "result": "ok", "status": 200, "details": {"name": "ä\n"}, "previousHash": previous}
            previous = entry_hash(entry)
            micros = 1767225600_000_000 + seq
            row = ("long", seq, micros, entry["actor"], "x_y", f"t{seq}", "ok", 200, '{"name":"ä\\n"}')
            hashes = (bytes.fromhex(entry["previousHash"]), bytes.fromhex(previous))
            connection.execute(
                "insert into audit (team, seq, at, actor, action, target, result, status, details, previous_hash, hash)"
                " values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row + hashes,
            )
        start, end = bytes(32), bytes.fromhex(previous)
        connection.execute("insert into audit_chains values ('long', 0, ?, 10000, ?)", (start, end))
    begin = time.monotonic()
    done = cabana("audit", "verify", "--database", str(database), "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["entries"] >= 10_000, report["problems"]
    assert time.monotonic() - begin < 20


def test_the_command_line(server, api, cabana):
    assert api.request("DELETE", "/sandboxes/inothing").status == 404
    rows = [line.split("\t") for line in cabana("audit", "ls", "--result", "refused", "--target", "inothing").stdout.splitlines()]
    assert rows and rows[0][2:6] == ["kill_sandbox", "inothing", "refused", "404"]
    csv = cabana("audit", "export", "--csv", "--all").stdout.splitlines()
    assert csv[0].startswith("team,seq,at,actor") and len(csv) > 1
    assert "30 days ago" in cabana("audit", "prune", "--before", "2099-01-01T00:00:00Z").stderr
    assert cabana("audit", "prune", "--before", "2020-01-01T00:00:00Z").stdout == "0 entries removed\n"
    assert cabana("audit", "verify", "--all").returncode == 0
    plain = api.request("POST", "/api-keys", {"name": "plain"}).json
    try:
        environment = {**server.environment, "E2B_API_KEY": plain["key"], "CABANA_API_KEY": plain["key"]}
        done = subprocess.run([CABANA, "audit", "ls"], capture_output=True, text=True, timeout=30, env=environment)
        assert done.returncode != 0 and "audit:read" in done.stderr, done
    finally:
        assert api.request("DELETE", f"/api-keys/{plain['id']}").status == 204


def test_the_page(server, api, console):
    """Filters are in the URL, a row opens its JSON, and what a stranger wrote is text."""
    hostile = "<img src=x onerror=alert(1)>"
    assert api.request("DELETE", "/sandboxes/ihostile", headers={"User-Agent": hostile}).status == 404
    page = console.open("/settings/audit")
    expect(title(page)).to_have_text("Audit")
    page.get_by_role("searchbox", name="Action").fill("kill_sandbox")
    page.get_by_role("button", name="Result").click()
    page.get_by_role("menuitem", name="Refused").click()
    expect(page).to_have_url(re.compile("action=kill_sandbox.*result=refused|result=refused.*action=kill_sandbox"))
    row = page.get_by_role("row").filter(has_text="ihostile").first
    row.get_by_role("button", name="Details of kill_sandbox").click()
    expect(page.get_by_text(hostile)).to_be_visible()
    console.inspect("audit")
    page.get_by_role("button", name="Only this target").click()
    expect(page.get_by_role("button", name="target ihostile")).to_be_visible()
    page.reload()
    expect(page.get_by_role("row").filter(has_text="ihostile").first).to_be_visible()
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="JSON lines").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines and all(json.loads(line)["target"] == "ihostile" for line in lines)
    page.goto(page.url.split("?")[0] + "?action=nothing_like_this")
    expect(page.get_by_text("No entry matches")).to_be_visible()
