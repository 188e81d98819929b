"""Live updates by WebSocket: what changes is told at once, completely, and to its own team only (tests/it/live.rs)."""

import json
import threading
import time

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sockets import Live, connect
from waiting import eventually, within


def test_events_come_with_the_row_of_the_listing(server, api, boxes):
    with Live(server, "sandboxes") as live:
        box = boxes(metadata={"who": "me"})
        requested = live.event("requested", box.id)
        assert requested["topic"] == "sandboxes" and requested["sandbox"] is None, requested
        created = live.event("created", box.id)
        row = next(row for row in api.sandboxes() if row["sandboxID"] == box.id)
        assert created["sandbox"] == row
        event = next(event for event in api.events(box) if event["id"] == created["event"]["id"])
        assert created["event"] == event
        assert api.request("POST", f"/sandboxes/{box.id}/pause", {}).status == 204
        paused = live.event("paused", box.id)
        assert (paused["sandbox"]["state"], paused["sandbox"]["phase"]) == ("paused", "paused"), paused
        assert paused["sandbox"] == next(row for row in api.sandboxes() if row["sandboxID"] == box.id)
        assert api.kill(box)
        assert live.event("killed", box.id)["sandbox"] is None


def test_one_sandbox(server, api, boxes):
    one, other = boxes(), boxes()
    with Live(server, f"sandbox:{one.id}") as live:
        for box in (other, one):
            assert api.request("POST", f"/sandboxes/{box.id}/timeout", {"timeout": 600}).status == 204
        frame = live.next()
        assert (frame["topic"], frame["event"]["sandboxId"]) == (f"sandbox:{one.id}", one.id), frame
        live.send({"unsubscribe": f"sandbox:{one.id}"})
        assert live.next()["type"] == "unsubscribed"
        assert api.request("POST", f"/sandboxes/{one.id}/timeout", {"timeout": 700}).status == 204
        live.subscribe("server")
        assert live.next()["topic"] == "server", "no more events of the sandbox"


def test_nothing_is_lost_between_listing_and_events(server, api):
    """A client that subscribes and then lists knows every sandbox, whatever is created meanwhile."""
    made, stop = [], threading.Event()

    def create():
        client = server.client()
        while not stop.is_set():
            made.append(client.create().id)
            client.kill(made[-1])
        client.close()

    thread = threading.Thread(target=create)
    thread.start()
    try:
        for _ in range(5):
            with Live(server, "sandboxes") as live:
                count = len(made)
                known = {row["sandboxID"] for row in api.sandboxes()}
                eventually(lambda: len(made) >= count + 2, what="two more sandboxes", within=30)
                wanted = made[count + 1]
                while wanted not in known:
                    known.add(live.next()["event"]["sandboxId"])
    finally:
        stop.set()
        thread.join()


def test_a_burst_reaches_many_sockets(server, api, boxes, figures):
    box = boxes()
    sockets = [Live(server, "sandboxes") for _ in range(20)]
    try:
        started = time.monotonic()
        for number in range(200):
            answer = api.request("POST", f"/sandboxes/{box.id}/timeout", {"timeout": 300 + number})
            assert answer.status == 204
        last = api.events(box)[-1]
        for live in sockets:
            live.until(lambda frame: frame["type"] == "event" and frame["event"]["id"] == last["id"])
        took = time.monotonic() - started
        within(30, started, "200 events to 20 sockets")
        figures.append(f"live updates: 200 events to 20 sockets in {took:.1f} s, requests included")
    finally:
        for live in sockets:
            live.socket.close()


def test_malformed_frames_are_answered(server):
    with Live(server) as live:
        for frame in (b"bytes", "", "null", "[1]", "{", '{"subscribe": 1}', '{"subscribe": "a", "pong": true}', "\0"):
            live.socket.send(frame)
            answer = live.next()
            assert answer["type"] == "error" and answer["message"], (frame, answer)
        for topic in ("nothing", "sandbox:inone", "sandbox:../..", "build:base/none", "build:x", "s" * 3000):
            live.send({"subscribe": topic})
            answer = live.next()
            assert answer["type"] == "error" and topic.startswith(answer["topic"].removesuffix("…")), answer
        live.subscribe("sandboxes")
        live.subscribe("sandboxes")
        live.socket.send("x" * 5000)
        with pytest.raises(ConnectionClosed) as closed:
            live.next()
        assert closed.value.rcvd.code == 1009


def test_topics_are_bounded(server, api, boxes):
    made = [boxes().id for _ in range(2)]
    with Live(server, "sandboxes", "templates", "server", *(f"sandbox:{id}" for id in made)) as live:
        build = api.get("/templates").json[0]
        # The same build by names that differ.
        names = [f"build:{build['templateID']}/{build['buildID']}", f"build:base/{build['buildID']}"]
        for name in names:
            live.subscribe(name)
        assert len(made) + 3 + len(names) < 64


def test_no_key_and_a_wrong_key(server, api):
    for key in ("", "e2b_" + "0" * 40):
        with pytest.raises(InvalidStatus) as refused:
            connect(server, "/live", key=key)
        assert refused.value.response.status_code == 401
    assert api.get("/live").status == 400, "not a WebSocket"
    made = api.request("POST", "/api-keys", {"name": "soon gone"}).json
    with Live(server, "server", key=made["key"]) as live:
        assert api.request("DELETE", f"/api-keys/{made['id']}").status == 204
        with pytest.raises(ConnectionClosed) as closed:
            for _ in range(10):
                live.next(within=30)
        assert closed.value.rcvd.code == 4401, "the key is gone"


def test_a_reader_that_is_too_slow(server, api, boxes):
    """It does not read at all while more is sent than fits anywhere; then it is told what it lost, or its socket was closed."""
    box = boxes(metadata={str(n): "x" * 200 for n in range(40)})
    with Live(server, "sandboxes", max_queue=1) as live:
        before = server.memory()
        for number in range(1500):
            assert api.request("POST", f"/sandboxes/{box.id}/timeout", {"timeout": 300 + number}).status == 204
        assert server.memory() - before < 32 * 2**20
        last = api.events(box)[-1]["id"]
        try:
            frame = live.until(
                lambda frame: frame["type"] == "lagged" or (frame["type"] == "event" and frame["event"]["id"] == last),
                within=60,
            )
            assert frame["type"] == "lagged" and frame["topic"] == "sandboxes", "more was sent than fits"
        except ConnectionClosed as closed:
            assert closed.rcvd is None or closed.rcvd.code == 4408


def test_server_status(server):
    with Live(server, "server") as live:
        for _ in range(2):
            frame = live.next()
            assert (frame["topic"], frame["type"]) == ("server", "status")
            assert frame["status"]["version"] and "capacity" in frame["status"], frame


def test_a_build(server, api, builder):
    """All lines in order, then how it ended; a second subscription continues where the first was."""
    with Live(server, "templates") as live:
        lines = [f"line {n}" for n in range(250)]
        made = api.request("POST", "/v3/templates", {"name": "live-build"}).json
        template, build = made["templateID"], made["buildID"]
        assert live.next() == {"topic": "templates", "type": "changed", "templateID": template}
        topic = f"build:{template}/{build}"
        live.subscribe(topic)
        assert live.until(lambda frame: frame["topic"] == topic)["status"] == "waiting"
        steps = [{"type": "RUN", "args": ["for n in $(seq 0 249); do echo line $n; done; exit 3"]}]
        started = api.request("POST", f"/v2/templates/{template}/builds/{build}", {"fromTemplate": "base", "steps": steps})
        assert started.status == 202, started.body
        seen, statuses, offset = [], [], 0
        while statuses[-1:] != ["error"]:
            frame = live.until(lambda frame: frame["topic"] == topic, within=120)
            if frame["type"] == "log":
                seen += frame["lines"]
                offset = frame["next"]
                assert offset == len(seen)
            else:
                statuses.append(frame["status"])
        assert [line["message"] for line in seen if line["message"].startswith("line ")] == lines
        assert statuses == ["building", "error"] and frame["reason"], frame
        rows = []
        while page := api.get(f"/templates/{template}/builds/{build}/status?logsOffset={len(rows)}").json["logEntries"]:
            rows += page
        assert seen == rows
    with Live(server) as live:
        live.subscribe(topic, after=offset - 3)
        assert [frame["lines"] for frame in [live.next()]] == [rows[-3:]]
        assert live.next()["status"] == "error"
        live.subscribe("sandboxes")
    assert api.request("DELETE", f"/templates/{template}").status == 204


def test_restart_of_the_server(server, boxes):
    """Sockets are closed with 1012 at once; after the restart a new one works."""
    box = boxes()
    sockets = [Live(server, "sandboxes", f"sandbox:{box.id}") for _ in range(10)]
    started = time.monotonic()
    server.stop()
    took = time.monotonic() - started
    server.start()
    for live in sockets:
        with pytest.raises(ConnectionClosed) as closed:
            live.next()
        assert closed.value.rcvd and closed.value.rcvd.code == 1012
    assert took < 5, "a restart does not wait for sockets"
    with Live(server, "sandboxes") as live:
        assert server.client().kill(box)
        live.event("killed", box.id)


def test_pings(server):
    """A client that answers stays, one that is silent is told to go."""
    quiet = {"ping_interval": None}  # the library would show that it is there by itself
    with Live(server, "sandboxes", **quiet) as silent, Live(server, "sandboxes", **quiet) as polite:
        begin = time.monotonic()
        kinds = []
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                kinds.append(json.loads(silent.socket.recv(timeout=80))["type"])
                if kinds[-1] == "ping":
                    polite.send({"pong": True})
        assert closed.value.rcvd.code == 4408
        assert kinds == ["ping"] * len(kinds) and 2 <= len(kinds) <= 4, kinds
        assert 40 < time.monotonic() - begin < 75
        polite.send({"unsubscribe": "sandboxes"})
        polite.until(lambda frame: frame["type"] == "unsubscribed")
