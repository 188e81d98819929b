"""`cabana tool`, uploads with `cabana cp`, `cabana create --upload` and `cabana run --upload`."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from server import CABANA, ROOT
from tool_calls import Tools
from waiting import eventually, within

HOME = "/home/user/user-uploads"


@pytest.fixture
def cabana(server):
    environment = {**os.environ, "CABANA_API_URL": server.url, "CABANA_API_KEY": server.key, "NO_COLOR": "1"}

    def run(*arguments: str, **options) -> subprocess.CompletedProcess:
        return subprocess.run(
            [CABANA, *arguments], capture_output=True, text=True, timeout=60, env=environment, **options
        )

    run.environment = environment
    return run


@pytest.fixture
def box(boxes):
    return boxes()


@pytest.fixture
def tools(api, box) -> Tools:
    return Tools(api, box.id)


def ok(done: subprocess.CompletedProcess) -> str:
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done.stdout


def test_listing(cabana):
    rows = [line.split("\t") for line in ok(cabana("tool")).splitlines()]
    assert len(rows) == 11 and all(len(row) == 3 and row[0].startswith("sandbox_") for row in rows), rows
    assert ok(cabana("tool", "ls")) == ok(cabana("tool"))
    read = next(row for row in rows if row[0] == "sandbox_read_file")
    assert read[1] == "path [end_line] [start_line]" and "line numbers" in read[2]
    about = ok(cabana("tool", "ls", "run_command", "sandbox_grep_files"))
    assert "timeout_seconds: integer, 1 to 1800, default 180" in about and "smart | sensitive" in about
    assert json.loads(ok(cabana("tool", "ls", "--raw", "read_file")))[0]["name"] == "sandbox_read_file"
    done = cabana("tool", "ls", "nonsense")
    assert done.returncode == 1 and "sandbox_nonsense" in done.stderr


def test_files(cabana, box, tools):
    call = lambda name, *arguments, **options: cabana("tool", name, "--sandbox", box.id, *arguments, **options)
    ok(call("write_file", "path=a=b.txt", "content=one\ntwo\n", "executable=true"))
    assert ok(call("sandbox_read_file", "path=a=b.txt", "start_line=2")).startswith("2\ttwo\n")
    assert ok(call("read_file", "--json", '{"path": "a=b.txt", "start_line": 2}', "start_line=1")).startswith("1\tone\n")
    ok(call("write_file", "--json", "-", input=json.dumps({"path": "in", "content": "from stdin"})))
    assert tools.bytes("in") == b"from stdin"
    assert "in" in ok(call("grep_files", "pattern=stdin", "include=*", "include=in", "output=files"))
    raw = json.loads(ok(call("read_file", "path=in", "--raw")))
    assert raw["status"] == "success" and raw["data"]["size"] == 10 and raw["sandboxId"] == box.id


def test_exit_codes_and_errors(cabana, box):
    call = lambda name, *arguments: cabana("tool", name, "-s", box.id, *arguments)
    missing = call("read_file", "path=missing")
    assert missing.returncode == 1 and "file_not_found" in missing.stdout, missing
    assert call("run_command", "command=exit 7").returncode == 7
    assert call("run_command", "command=kill -9 $$").returncode == 137
    slow = call("run_command", "command=echo begun; sleep 60", "timeout_seconds=1")
    assert slow.returncode == 1 and slow.stdout == "begun\n" and "command_timeout" in slow.stderr, slow
    raw = call("run_command", "command=exit 3", "--raw")
    assert raw.returncode == 3 and json.loads(raw.stdout)["error"]["code"] == "command_failed"
    for arguments, words in (
        (["read_file", "start_line=x", "path=a"], "whole number"),
        (["read_file", "nonsense=1"], "end_line"),
        (["read_file"], "path"),
        (["nonsense"], "sandbox_nonsense"),
        (["read_file", "--json", "{"], "not JSON"),
    ):
        done = call(*arguments)
        assert done.returncode == 1 and words in done.stderr and "panicked" not in done.stderr, done
    unknown = cabana("tool", "read_file", "-s", "i" + "a" * 19, "path=a")
    assert unknown.returncode == 1 and "not found" in unknown.stderr
    down = subprocess.run(
        [CABANA, "tool"], capture_output=True, text=True, timeout=60,
        env={**cabana.environment, "CABANA_API_URL": "http://127.0.0.1:1"},
    )  # fmt: skip
    assert down.returncode == 2 and "127.0.0.1:1" in down.stderr


def test_output_is_live(cabana, box):
    command = "echo first; echo wrong >&2; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo last"
    running = subprocess.Popen(
        [CABANA, "tool", "run_command", "-s", box.id, f"command={command}"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cabana.environment,
    )  # fmt: skip
    assert running.stdout.readline() == "first\n", "before the command has ended"
    ok(cabana("tool", "write_file", "-s", box.id, "path=/tmp/go", "content="))
    out, err = running.communicate(timeout=30)
    assert (out, err, running.returncode) == ("last\n", "wrong\n", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_cancels(cabana, box, tools, number):
    running = subprocess.Popen(
        [CABANA, "tool", "run_command", "-s", box.id, "command=echo begun; exec sleep 555"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cabana.environment,
    )  # fmt: skip
    assert running.stdout.readline() == "begun\n"
    running.send_signal(number)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 128 + number and "cancelled" in err
    ended = lambda: "555" not in tools.ok("run_command", command="ps -eo args | grep -v grep; true")["output"]
    eventually(ended, what="the command has ended")


def test_a_new_sandbox_for_one_call(cabana, api):
    before = {row["sandboxID"] for row in api.sandboxes()}
    assert ok(cabana("tool", "run_command", "command=echo $((6 * 7))")) == "42\n"
    assert cabana("tool", "read_file", "path=missing").returncode == 1
    assert {row["sandboxID"] for row in api.sandboxes()} == before, "it is killed afterwards"
    done = cabana("tool", "run_command", "--detach", "command=true")
    assert done.returncode == 1 and "--sandbox" in done.stderr


def test_detached(cabana, box, api):
    started = time.monotonic()
    path = ok(cabana("tool", "run_command", "-s", box.id, "--detach", "command=sleep 2; echo done")).strip()
    within(2, started, "a detached call")
    assert path.startswith(f"/sandboxes/{box.id}/calls/call_")
    assert api.get(path).status == 202
    result = eventually(lambda: (answer := api.get(path)).status == 200 and answer.json)
    assert result["output"] == "done\n"


def test_the_examples_of_the_documentation(cabana, server, api, tmp_path):
    """Runs every shell example of docs/tools.md in its order, as one script."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs/tools.md").read_text(), re.M | re.S)
    assert len(blocks) >= 6
    for name in ("data.csv", "notes.txt"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src/main.py").write_text("print(1)\n")
    before = {row["sandboxID"] for row in api.sandboxes()}
    environment = {**cabana.environment, **server.environment, "PATH": f"{CABANA.parent}:{os.environ['PATH']}"}
    # The id of the detached call is what its request has answered.
    script = "\n".join(blocks).replace("?detach=true\"", "?detach=true\" -o detached.json").replace(
        "$call", "$(sed 's/.*\"callId\":\"\\([^\"]*\\).*/\\1/' detached.json)"
    )
    script = script.replace("curl ", "curl -S --fail-with-body ")
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            capture_output=True, text=True, timeout=120, cwd=tmp_path, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"status":"running"' in done.stdout and done.stdout.count('"status":"uploaded"') >= 3, done.stdout
        assert 'event: tool.message' in done.stdout and "1 user-uploads/data.csv" in done.stdout, done.stdout
        assert "docs/notes.txt" in done.stdout and '"function"' in done.stdout
    finally:
        for row in api.sandboxes():
            if row["sandboxID"] not in before:
                api.kill(row["sandboxID"])


# Uploads


@pytest.fixture
def local(tmp_path):
    (tmp_path / "src/deep").mkdir(parents=True)
    (tmp_path / "a.csv").write_text("a")
    (tmp_path / "b ü.csv").write_text("b")
    (tmp_path / "src/deep/c.txt").write_text("c")
    return tmp_path


def test_cp_uploads(cabana, box, tools, local):
    sources = [str(local / name) for name in ("a.csv", "b ü.csv", "src")]
    rows = [line.split("\t") for line in ok(cabana("cp", *sources, f"{box.id}:")).splitlines()]
    assert rows == [
        ["a.csv", "uploaded", "1", f"{HOME}/a.csv"],
        ["b ü.csv", "uploaded", "1", f"{HOME}/b ü.csv"],
        ["src/deep/c.txt", "uploaded", "1", f"{HOME}/src/deep/c.txt"],
    ]
    assert ok(cabana("cp", sources[0], f"{box.id}:")).endswith(f"{HOME}/a (2).csv\n")
    assert tools.bytes(f"{HOME}/src/deep/c.txt") == b"c"
    # Several sources into a directory, as they are.
    ok(cabana("cp", *sources[:2], f"{box.id}:/tmp/into"))
    assert tools.bytes("/tmp/into/b ü.csv") == b"b"
    for arguments, words in (
        ([str(local / "missing"), f"{box.id}:"], "missing"),
        (["-", f"{box.id}:"], "no name"),
        ([f"{box.id}:/etc/hosts", sources[0], f"{box.id}:"], "on this machine"),
        ([f"{box.id}:", "."], "no path"),
        ([*sources, str(local)], "in a sandbox"),
        ([sources[0], "-u", "root", f"{box.id}:"], "--user"),
    ):
        done = cabana("cp", *arguments)
        assert done.returncode == 1 and words in done.stderr, done


def test_more_files_than_one_request_takes(cabana, box, tools, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for number in range(450):
        (many / f"{number}.txt").write_text(str(number))
    assert ok(cabana("cp", str(many), f"{box.id}:")).count("\tuploaded\t") == 450
    assert tools.ok("run_command", command=f"ls {HOME}/many | wc -l")["output"] == "450\n"
    done = cabana("create", "--upload", str(many))
    assert done.returncode == 1 and "200 files" in done.stderr, done


def test_a_full_disk(cabana, boxes, tmp_path):
    box = boxes(diskSizeMB=64)
    (tmp_path / "large").write_bytes(os.urandom(100 << 20))
    done = cabana("cp", str(tmp_path / "large"), f"{box.id}:")
    assert done.returncode == 1 and "failed" in done.stdout and "disk is full" in done.stdout, done


def test_create_with_files(cabana, api, local):
    done = cabana("create", "--timeout", "2m", "--json", "--upload", str(local / "a.csv"), str(local / "src"))
    made = json.loads(ok(done))
    try:
        assert [f["path"] for f in made["uploads"]] == [f"{HOME}/a.csv", f"{HOME}/src/deep/c.txt"]
        assert Tools(api, made["sandboxID"]).bytes(f"{HOME}/a.csv") == b"a"
    finally:
        api.kill(made["sandboxID"])
    done = cabana("create", "--upload", str(local / "a.csv"), "--idempotency-key", "k")
    assert done.returncode == 1 and "--upload" in done.stderr, done


def test_run_with_files(cabana, api, local):
    before = {row["sandboxID"] for row in api.sandboxes()}
    done = cabana("run", "--upload", str(local / "a.csv"), str(local / "src"), "--", "sh", "-c", f"cat {HOME}/a.csv {HOME}/src/deep/*")
    assert ok(done) == "ac"
    (local / "large").write_bytes(os.urandom(100 << 20))
    done = cabana("run", "--disk", "64", "--upload", str(local / "large"), "--", "true")
    assert done.returncode == 2 and "large" in done.stderr and "disk is full" in done.stderr, done
    assert {row["sandboxID"] for row in api.sandboxes()} == before
