"""Terminals by WebSocket: a shell for a person, which outlives the connection."""

import hashlib
import json
import random
import re
import threading
import time
from datetime import datetime

import pytest
from websockets.exceptions import InvalidStatus

from sockets import Terminal, connect
from test_pause import attentive  # noqa: F401
from test_streams import Peak
from waiting import eventually, within


def terminals(api, box) -> list[dict]:
    answer = api.get(f"/sandboxes/{box.id}/terminals")
    assert answer.status == 200, answer.body
    return answer.json


def test_a_shell(server, api, boxes):
    box = boxes()
    with Terminal(server, box.id) as terminal:
        assert terminal.started == {"pid": terminal.pid, "replay": False, "dropped": False}
        assert terminal.run("whoami; pwd; echo $TERM $LANG; tty -s && echo tty").split("\n")[:4] == [
            "user", "/home/user", "xterm-256color C.UTF-8", "tty",
        ]  # fmt: skip
        assert terminal.run("stty size").strip() == "30 100"
        terminal.resize(132, 43)
        eventually(lambda: terminal.run("stty size").strip() == "43 132", what="the new size")
        [listed] = terminals(api, box)
        assert (listed["pid"], listed["command"]) == (terminal.pid, "/bin/bash -l")
        assert listed["startedAt"].endswith("Z")
        assert terminal.run("echo héllo; printf '\\xf0\\x9f\\x8c\\xb4'").startswith("héllo\n🌴")
        terminal.type("exit 7\r")
        terminal.rest()
        assert terminal.ended == {"exitCode": 7, "reason": None}
        assert terminal.code == 1000
    eventually(lambda: terminals(api, box) == [], what="no terminal is left")


def test_where_it_begins(server, boxes):
    box = boxes()
    with Terminal(server, box.id, cwd="/tmp") as terminal:
        assert terminal.run("pwd").strip() == "/tmp"
    with Terminal(server, box.id, cwd="/none") as terminal:
        assert terminal.started is None and terminal.code == 4400
        assert "does not exist" in terminal.ended["reason"]
    for query in ("cols=0", "rows=5000", "pid=x", "cwd=" + "x" * 5000):
        with pytest.raises(InvalidStatus) as refused:
            connect(server, f"/sandboxes/{box.id}/terminal?{query}")
        assert refused.value.response.status_code == 400, query


def test_several_tabs_of_one_terminal(server, boxes):
    box = boxes()
    with Terminal(server, box.id) as first:
        first.run("echo one")
        with Terminal(server, box.id, pid=first.pid) as second:
            assert second.started["replay"]
            second.until(b"one")
            first.type("echo t''wo\r")
            for terminal in (first, second):
                terminal.until(b"two")
            assert first.run("stty size").strip() == "30 100"
            others = [Terminal(server, box.id, pid=first.pid) for _ in range(6)]
            with Terminal(server, box.id, pid=first.pid) as ninth:
                assert ninth.code == 4429 and "8 sockets" in ninth.ended["reason"], ninth.ended
            for terminal in others:
                terminal.socket.close()


def test_replay_has_no_hole(server, boxes):
    """Numbers are printed while the socket is closed and opened again at random: each time everything is there once, in order."""
    box, seed = boxes(), random.randrange(2**32)
    chance = random.Random(seed)
    terminal = Terminal(server, box.id)
    pid = terminal.pid
    loop = "for n in $(seq 1 4000); do echo \"<$n>\"; [ $((n % 20)) = 0 ] && sleep 0.01; done; echo a''ll"
    terminal.type(f"stty -echo; PS1=; {loop}\r")
    reconnects = 0
    while b"all" not in terminal.output:
        for _ in range(chance.randrange(1, 60)):
            if b"all" in terminal.output:
                break
            terminal.read()
        else:
            terminal.cut()
            terminal = Terminal(server, box.id, pid=pid)
            reconnects += 1
            assert terminal.started["replay"] and not terminal.started["dropped"], f"seed {seed}"
    numbers = [int(n) for n in re.findall(rb"<(\d+)>", terminal.output)]
    assert numbers == list(range(1, 4001)), f"seed {seed}"
    assert reconnects > 3, reconnects
    terminal.socket.close()


def test_replay_is_bounded(server, boxes):
    """Of long output the newest part is kept, without a hole from there to the end."""
    box = boxes()
    with Terminal(server, box.id) as terminal:
        terminal.run("stty -echo; PS1=; seq -f '<%.0f>' 1 400000", within=60)
        terminal.socket.close()
        with Terminal(server, box.id, pid=terminal.pid) as again:
            assert again.started == {"pid": terminal.pid, "replay": True, "dropped": True}
            again.until(b"<399999>")
            again.run("true")
        with Terminal(server, box.id, pid=terminal.pid) as again:
            text = again.until(b"<400000>")
            numbers = [int(n) for n in re.findall(rb"<(\d+)>", text)]
            assert numbers == list(range(numbers[0], 400001)) and 400 * 1024 < len(text) <= 1024 * 1024
            assert b"cabana" not in text, "no line of ours is in between"


def test_endless_output_and_an_interrupt(server, api, boxes):
    box = boxes()
    with Peak(server) as peak, Terminal(server, box.id) as terminal:
        terminal.run("true")
        terminal.type("yes endless\r")
        terminal.until(b"endless\r\nendless\r\n")
        # Nobody reads: the program waits, the server keeps nothing.
        cpu = lambda: api.run(box, "cut -d' ' -f14,15 /proc/$(pgrep -x yes)/stat")
        eventually(lambda: cpu() == cpu(), within=30, what="the program waits")
        started = time.monotonic()
        terminal.type("\x03")
        terminal.until(b"^C", within=20)
        assert terminal.run("echo alive").strip() == "alive"
        within(20, started, "the interrupt")
    assert peak.growth < 24 * 2**20, f"the server grew by {peak.growth >> 20} MB"


def test_a_large_paste(server, boxes):
    box = boxes()
    with Terminal(server, box.id) as terminal:
        terminal.run("stty -echo -icanon; PS1=")
        terminal.type("echo re''ady; head -c 1000000 | sha256sum\r")
        terminal.until(b"ready")
        for _ in range(5):
            terminal.type("x" * 200_000)
        terminal.until(hashlib.sha256(b"x" * 1_000_000).hexdigest().encode(), within=60)


def test_kill_in_use(server, api, boxes):
    box = boxes()
    with Terminal(server, box.id) as terminal:
        terminal.run("true")
        assert api.kill(box)
        terminal.rest()
        assert terminal.code == 4404 and terminal.ended["exitCode"] is None
        assert terminal.ended["reason"].startswith("the sandbox was killed"), terminal.ended
    with Terminal(server, box.id) as terminal:
        assert terminal.started is None and terminal.code == 4404 and "killed" in terminal.ended["reason"]


def test_pause_in_use(server, api, boxes):
    """The terminal says so, and is there again when the sandbox is resumed, which connecting does."""
    box = boxes()
    with Terminal(server, box.id) as terminal:
        terminal.run("stty -echo; PS1=; cd /tmp; x=kept")
        assert api.request("POST", f"/sandboxes/{box.id}/pause", {}).status == 204
        terminal.rest()
        assert (terminal.code, terminal.reason) == (4409, "paused")
        assert terminal.ended["reason"].startswith("the sandbox was paused"), terminal.ended
    assert terminals(api, box) == [], "a list does not resume"
    with Terminal(server, box.id, pid=terminal.pid) as again:
        assert again.started["replay"]
        assert again.run("echo $x $PWD").strip() == "kept /tmp"
    assert api.request("POST", f"/sandboxes/{box.id}/pause", {"memory": False}).status == 204
    with Terminal(server, box.id, pid=terminal.pid) as gone:
        assert gone.code == 4404 and "no terminal" in gone.ended["reason"], "processes are not kept without memory"
    with Terminal(server, box.id) as fresh:
        assert fresh.run("echo new").strip() == "new"


def test_death_in_use(server, boxes, log):
    box = boxes()
    with Terminal(server, box.id) as terminal:
        server.kill_guest(box.id)
        terminal.rest()
        assert terminal.code == 4404 and "guest" in terminal.ended["reason"], terminal.ended


def test_unknown_terminals_and_other_commands(server, api, boxes):
    box = boxes()
    with Terminal(server, box.id, pid=999999) as unknown:
        assert unknown.code == 4404 and unknown.started is None
    stream = api.stream(box, "process.Process/Start", {"process": {"cmd": "/bin/sleep", "args": ["100"]}})
    pid = next(stream)["event"]["start"]["pid"]
    with Terminal(server, box.id, pid=pid) as other:
        assert other.code == 4404, "it is a command, not a terminal"
    client = server.client()
    assert client.request("DELETE", f"/sandboxes/{box.id}/terminals/{pid}").status == 404
    assert client.request("DELETE", f"/sandboxes/{box.id}/terminals/none").json["error_code"] == "terminal_not_found"
    assert client.get(f"/sandboxes/{box.id}/terminal").status == 400, "not a WebSocket"
    with pytest.raises(InvalidStatus) as refused:
        connect(server, "/sandboxes/inone/terminal")
    assert refused.value.response.status_code == 404
    api.close()


def test_ending_a_terminal(server, api, boxes):
    box = boxes()
    with Terminal(server, box.id) as terminal:
        terminal.type("sleep 1000\r")
        terminal.until(b"sleep 1000")
        assert api.request("DELETE", f"/sandboxes/{box.id}/terminals/{terminal.pid}").status == 204
        terminal.rest()
        assert terminal.code == 1000 and "killed" in terminal.ended["reason"], terminal.ended
    assert terminals(api, box) == []
    eventually(lambda: api.run(box, "pgrep -x sleep || true")[1] == "", what="its foreground job ends as well")


def test_at_most_32_terminals(server, api, boxes):
    box = boxes()
    opened, lock = [], threading.Lock()

    def open_some():
        for _ in range(10):
            terminal = Terminal(server, box.id)
            with lock:
                opened.append((terminal.started is not None, terminal.code))
            terminal.socket.close()

    threads = [threading.Thread(target=open_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(started for started, _ in opened) == 32, "also when they are opened at the same time"
    assert {code for started, code in opened if not started} == {4429}
    listed = terminals(api, box)
    assert len(listed) == 32
    assert listed == sorted(listed, key=lambda row: datetime.fromisoformat(row["startedAt"]))


def test_restart_of_the_server(server, boxes):
    """The shell goes on; the socket is closed with 1012, and connecting again replays."""
    box = boxes()
    terminal = Terminal(server, box.id)
    terminal.run("stty -echo; PS1=; x=1")
    terminal.type("for n in 1 2 3; do echo \"<$n>\"; sleep 1; done; echo a''ll\r")
    terminal.until(b"<1>")
    server.stop()
    terminal.rest()
    assert terminal.code == 1012 and terminal.ended is None
    server.start()
    with Terminal(server, box.id, pid=terminal.pid) as again:
        assert re.findall(rb"<(\d)>", again.until(b"all")) == [b"1", b"2", b"3"]
        assert again.run("echo $x").strip() == "1"


def test_a_terminal_is_activity(attentive, server, api, boxes):
    """As every command: while the shell runs the sandbox is not idle, whether anyone watches or not."""
    box = boxes(timeout=600, idleTimeout=2, autoPause=True)
    state = lambda: api.get(f"/sandboxes/{box.id}").json["phase"]
    with Terminal(server, box.id) as terminal:
        terminal.run("true")
    attentive(6)
    assert state() == "running"
    assert api.request("DELETE", f"/sandboxes/{box.id}/terminals/{terminal.pid}").status == 204
    eventually(lambda: state() == "paused", within=40, what="idle once the shell has ended")


def test_strange_frames_do_no_harm(server, boxes):
    box = boxes()
    with Terminal(server, box.id) as terminal:
        for frame in ("", "x", "{}", "[]", '{"resize": 1}', '{"resize": {"cols": -1, "rows": 99999}}', "\0"):
            terminal.socket.send(frame)
        terminal.socket.send(b"")
        terminal.socket.send(json.dumps({"resize": {"cols": 90, "rows": 20}}))
        eventually(lambda: terminal.run("stty size").strip() == "20 90", what="the size")
        terminal.socket.send(b"x" * (257 * 1024))
        terminal.rest()
        assert terminal.code == 1009
