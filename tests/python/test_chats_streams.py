"""Streams of chats: whatever happens to a connection, what a client has received in the end is what was sent, once."""

import json
import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed

from chats import Chats, Event, EventLog, core, doing, final, one, run, text
from model_answers import Answer, Gate, Pause
from services import second_team
from sockets import Live
from waiting import eventually, within

TURNS, DISCONNECTS = 20, 500
SEED = random.SystemRandom().randrange(1 << 32)


@pytest.fixture(scope="module")
def other_key(server) -> str:
    """Of another team. Making one restarts the server."""
    return second_team(server)


@pytest.fixture(scope="module", autouse=True)
def idle(server, other_key):
    """A stream on which nothing happens while the other tests run."""
    chats = Chats(server)
    id = chats.create()["chat"]["id"]
    stream, begun = chats.events(id, timeout=25), time.monotonic()
    lines: list[float] = []

    def read() -> None:
        try:
            for raw in stream.response:
                if raw.startswith(b"event: ping") or raw.startswith(b"event:ping"):
                    lines.append(time.monotonic() - begun)
        except (OSError, ValueError, AttributeError):
            pass  # closed at the end of the module

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield lines
    stream.close()
    chats.close()


def frame_event(frame: dict) -> Event:
    return Event(frame["id"], frame["type"], {name: value for name, value in frame.items() if name not in ("topic", "id")})


class Flaky(threading.Thread):
    """A client that loses its connection again and again, and comes back each time by one of the two ways."""

    def __init__(self, chats: Chats, id: str, dice: random.Random, cuts: int):
        super().__init__(daemon=True)
        self.chats, self.id, self.dice, self.left = chats, id, dice, cuts
        self.log, self.last, self.cuts, self.problem = EventLog(), 0, 0, None
        self.start()

    @property
    def over(self) -> bool:
        return any(final()(event) for event in self.log.events.values())

    def run(self) -> None:
        try:
            while not self.over:
                # The last ones read to the end.
                most = self.dice.randrange(4) if self.left > 0 else 1 << 30
                (self.by_stream if self.dice.random() < 0.5 else self.by_socket)(most)
                self.left -= 1
                self.cuts += 1
        except Exception as problem:
            self.problem = problem

    def take(self, event: Event) -> bool:
        """Whether it was the last one."""
        assert event.id > self.last, f"{event.id} after {self.last}"
        self.log.add(event)
        self.last = event.id
        return final()(event)

    def by_stream(self, most: int) -> None:
        with self.chats.events(self.id, after=self.last) as stream:
            for number, event in enumerate(stream):
                if event.id and self.take(event) or number >= most:
                    return

    def by_socket(self, most: int) -> None:
        live = Live(self.chats.server)
        try:
            live.send({"subscribe": f"chat:{self.id}", "after": self.last})
            number = 0
            while number <= most:
                frame = live.next()
                if frame.get("topic") == f"chat:{self.id}" and "id" in frame:
                    number += 1
                    if self.take(frame_event(frame)):
                        return
        finally:
            live.socket.socket.shutdown(socket.SHUT_RDWR)
            live.socket.close()


def test_disconnects(server, chats, model, figures):
    """500 of them while 20 turns run: what arrived in pieces is what arrived in one piece."""
    dice = random.Random(SEED)
    pieces = [piece for number in range(60) for piece in (f"word {number} ", Pause(0.015))]
    output = run("for i in $(seq 30); do echo line $i; sleep 0.02; done")
    ids, whole, flaky, begun = [], [], [], time.monotonic()
    with ThreadPoolExecutor(TURNS) as pool:
        for number in range(TURNS):
            script = model.script(Answer(pieces, [output]), Answer(pieces), about=f"disconnects-{number}")
            ids.append(chats.create(title="t")["chat"]["id"])
            stream = chats.events(ids[-1], after=0, timeout=60)
            whole.append(pool.submit(lambda stream=stream: stream.until(final(), within=60)))
            flaky.append(Flaky(chats, ids[-1], random.Random(dice.random()), 2 * DISCONNECTS // TURNS))
            chats.say(ids[-1], script.prompt)
        logs = [future.result() for future in whole]
    for client in flaky:
        client.join(60)
    assert not [client.problem for client in flaky if client.problem], [str(client.problem)[:500] for client in flaky if client.problem]
    for events, client in zip(logs, flaky):
        expected = EventLog().extend(events).check(exact=True)
        until = events[-1].id
        received = {id: event for id, event in client.log.events.items() if id <= until}
        odd = [(received if id in received else expected.events)[id] for id in sorted(expected.events.keys() ^ received.keys())]
        assert not odd, (SEED, len(odd), odd[:2])
        different = [(received[id].data, event.data) for id, event in expected.events.items() if received[id] != event]
        assert not different, (SEED, different[:1])
    cuts = sum(client.cuts for client in flaky)
    figures.append(f"chats: {cuts} disconnects in {TURNS} turns, {sum(map(len, logs))} events, {time.monotonic() - begun:.1f} s")
    assert cuts >= DISCONNECTS, cuts


def test_slow_reader(server, chats, model):
    """Somebody who does not read costs the others nothing, and gets the rest when they come back."""
    id = chats.create(title="t", tools=[])["chat"]["id"]
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.connect(("127.0.0.1", server.port))
    slow.sendall(f"GET /chats/{id}/events?after=0 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nX-API-KEY: {server.key}\r\nAccept: text/event-stream\r\n\r\n".encode())
    assert slow.recv(12) == b"HTTP/1.1 200"
    script = model.script(Answer(["y" * 40_000, Pause(0.045)] * 30))
    before = server.memory()
    with chats.events(id, after=0) as stream:
        begun = time.monotonic()
        chats.say(id, script.prompt)
        events = stream.until(final())
        within(15, begun, "the turn beside a slow reader")
    assert server.memory() - before < 120 << 20
    assert sum(len(event["delta"].get("text", "")) for event in events if event.type == "message.delta") == 30 * 40_000
    # It reads on: what it gets is right, or it is told that it lost the connection.
    slow.settimeout(10)
    received = b""
    while b"event: turn.complete" not in received and b"event: stream.end" not in received and (more := slow.recv(1 << 20)):
        received += more
    slow.close()
    last = max((int(line[3:]) for line in received.split(b"\n") if line.startswith(b"id: ") and line[4:].strip().isdigit()), default=0)
    with chats.events(id, after=last) as stream:
        if last < events[-1].id:
            assert final()(stream.until(final())[-1])


def test_longest_age(chats, model):
    gate = Gate()
    script = model.script(Answer(["Hel", gate, "lo"]))
    id = chats.create(tools=[], title="t")["chat"]["id"]
    begun = time.monotonic()
    with chats.say_stream(id, script.prompt, "?maxAge=1") as stream:
        events = list(stream)
    assert 0.9 < time.monotonic() - begun < 5
    end = events[-1]
    assert (end.type, end["reason"], end["resume"]) == ("stream.end", "max_age", f"/chats/{id}/resume"), end
    assert end["lastEventId"] == max(event.id for event in events if event.id)
    with chats.events(id, after=end["lastEventId"], path="resume") as stream:
        gate.release()
        rest = stream.until(final())
    EventLog().extend(events).extend(rest).check(exact=True)
    assert chats.answer(id) == "Hello"


def test_leaving_stops_nothing(chats, model):
    gate = Gate()
    script = model.script(Answer(["Hel", gate, "lo"]))
    stream = chats.create_stream({"prompt": script.prompt, "tools": []})
    id = stream.headers["x-chat-id"]
    gate.arrive()
    stream.close()
    gate.release()
    assert chats.ended(id) == "idle" and chats.answer(id) == "Hello" and not script.last.left


def test_deltas_are_joined(chats, model):
    """The first one comes at once, the others at most every 40 ms; together they are the text."""
    gate = Gate()
    words = [f"w{number} " for number in range(400)]
    script = model.script(Answer(["first ", gate, *[piece for word in words for piece in (word, Pause(0.002))]]))
    with chats.create_stream({"prompt": script.prompt, "tools": []}) as stream:
        first = stream.until("message.delta")[-1]
        assert first["delta"] == {"text": "first "} and not gate.opened.is_set()
        gate.release()
        begun = time.monotonic()
        deltas = [event for event in stream.until(final()) if event.type == "message.delta"]
        took = time.monotonic() - begun
    assert "".join(event["delta"]["text"] for event in deltas) == "".join(words)
    assert len(deltas) <= took / 0.04 + 5, f"{len(deltas)} deltas in {took:.2f} s"


def test_output_is_bounded(chats, model):
    """64 KiB a second for each call; what is left out is counted."""
    size = 3 << 20
    script = model.script(*doing(run(f"yes 0123456789 | head -c {size}; sleep 1.2; echo; echo the end")))
    _, events = chats.run_turn(script.prompt)
    outputs = [event for event in events if event.type == "tool.output"]
    sent, dropped = sum(len(event["text"].encode()) for event in outputs), sum(event["dropped"] for event in outputs)
    seconds = one(events, "tool.message")["durationMs"] / 1000
    assert sent <= (seconds + 2) * 65_536 and dropped > 0, (sent, dropped, seconds)
    assert sent + dropped == size + len("\nthe end\n"), (sent, dropped)
    assert "".join(event["text"] for event in outputs).endswith("the end\n")
    result = one(events, "tool.message")
    assert result["truncated"] and len(result["output"]) <= 40_000


def test_two_tabs(chats, model):
    """Both send at once by their own way, and both see the same."""
    script = model.script(*[Answer(f"answer {number}") for number in range(8)])
    id = chats.create(tools=[], title="t")["chat"]["id"]
    logs: list[list[Event]] = [[], []]

    def by_stream() -> None:
        with chats.events(id, after=0) as stream:
            ready.wait()
            for event in stream:
                logs[0].append(event)
                if sum(final()(one) for one in logs[0]) == 8:
                    return

    def by_socket() -> None:
        with Live(chats.server) as live:
            live.send({"subscribe": f"chat:{id}", "after": 0})
            ready.wait()
            while sum(final()(one) for one in logs[1]) < 8:
                frame = live.next()
                if "id" in frame:
                    logs[1].append(frame_event(frame))

    ready = threading.Barrier(3)
    readers = [threading.Thread(target=way, daemon=True) for way in (by_stream, by_socket)]
    for reader in readers:
        reader.start()
    ready.wait()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: chats.say(id, f"{script.prompt} {number}"), range(8)))
    for reader in readers:
        reader.join(20)
    assert logs[0] and EventLog().extend(logs[0]).check(exact=True).events == EventLog().extend(logs[1]).events
    assert len(chats.messages(id)) == 16


def test_live_list(server, chats, model):
    """All chats of the team in one subscription, and of no other team."""
    script = model.script(Answer("x"))
    with Live(server, "chats") as live:
        id = chats.create(script.prompt, tools=[], title="before")["chat"]["id"]
        seen = live.until(lambda frame: frame["type"] == "chat.updated" and frame["chat"]["id"] == id)
        assert seen["topic"] == "chats" and seen["chat"]["title"] == "before"
        chats.ended(id)
        chats.ask("PATCH", f"/chats/{id}", {"title": "after"})
        live.until(lambda frame: frame["type"] == "chat.updated" and frame["chat"]["title"] == "after")
        chats.send("DELETE", f"/chats/{id}")
        gone = live.until(lambda frame: frame["type"] == "chat.removed")
        assert gone["chatId"] == id


def test_sockets_of_other_chats(server, chats, model, other_key):
    """A chat that is not there, or of another team, is refused, and the socket goes on."""
    with Live(server) as live:
        live.send({"subscribe": f"chat:chat_{'a' * 20}", "after": 0})
        refused = live.next()
        assert refused["type"] == "error", refused
        live.subscribe("server")
    id = chats.create(tools=[])["chat"]["id"]
    with Live(server, key=other_key) as live:
        live.send({"subscribe": f"chat:{id}", "after": 0})
        assert live.next()["type"] == "error"
        live.subscribe("chats")
        other = model.script(Answer("secret"))
        chats.ended(id, chats.say(id, other.prompt)["id"])
        live.subscribe("server")
        try:
            while (frame := live.next(0.5))["topic"] == "server":
                pass
        except (TimeoutError, ConnectionClosed):
            frame = {}
        assert "secret" not in json.dumps(frame) and frame.get("topic") not in ("chats", f"chat:{id}")


def test_resuming_is_quick(chats, model, figures):
    script = model.script(*doing(run("seq 100")))
    id, events = chats.run_turn(script.prompt)
    times = []
    for _ in range(30):
        begun = time.monotonic()
        with chats.events(id, after=0) as stream:
            next(iter(stream))
        times.append(time.monotonic() - begun)
    figures.append(f"chats: resume after the turn {sorted(times)[15] * 1000:.1f} ms at the median")
    assert sorted(times)[15] < 0.2
    assert core(events)[-1] == "turn.complete" and text(chats.messages(id)[-1]) == "Done."


def test_pings(idle):
    """Every 15 s on a stream on which nothing happens. Runs last."""
    eventually(lambda: idle, within=20, what="a ping")
    assert 10 < idle[0] < 20, idle
