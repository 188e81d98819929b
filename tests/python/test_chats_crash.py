"""The server is killed at every failpoint of a chat. A client that tries again with the same key and resumes its stream sees each event
once, no call runs twice, and everything ends."""

import re
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from chats import Chats, EventLog, Unexpected, final, ignoring_the_end, run, text, write
from model_answers import Answer, Gate, Silence, Use
from model_checks import Conversation
from model_server import ModelServer
from server import ROOT, Server
from services import Refused
from waiting import eventually

SOURCE = ROOT / "crates/server/src"
TOOLS = [{"type": "sandbox", "approve": {"sandbox_find_replace": "ask"}}]
AWAY = (OSError, EOFError, ValueError, Unexpected, Refused, AssertionError)


def points() -> list[str]:
    found = "".join(path.read_text() for path in SOURCE.rglob("*.rs"))
    return sorted(set(re.findall(r'failpoint::hit\(\s*"(chat\.[^"]+)"', found)))


class Watcher(threading.Thread):
    """A client that follows a chat and comes back whenever its stream ends."""

    def __init__(self, chats: Chats, id: str):
        super().__init__(daemon=True)
        self.chats, self.id, self.log, self.over = chats, id, EventLog(), threading.Event()
        self.problem: BaseException | None = None
        self.last = 0
        self.start()

    def run(self) -> None:
        while not self.over.is_set():
            try:
                with self.chats.events(self.id, after=self.last, timeout=2) as stream:
                    for event in stream:
                        self.log.add(event)
                        self.last = max(self.last, event.id or 0)
                        if self.over.is_set():
                            return
            except AssertionError as problem:
                if "in the middle of an event" not in str(problem):
                    self.problem = problem
                    return
            except Unexpected as problem:
                if problem.status == 404:
                    return
            except Exception:
                time.sleep(0.02)  # the server is away

    def finish(self, last: int) -> EventLog:
        """Its log, once everything up to an event is in it."""
        eventually(lambda: self.last >= last or self.problem, within=20, what=f"event {last}, so far {self.last}")
        self.over.set()
        assert self.problem is None, self.problem
        return self.log


class Story:
    """What a client does with a chat, whatever happens to the server: each request is made again until it is answered."""

    def __init__(self, server: Server, model: ModelServer, mark: str, arm=lambda: None):
        """`arm` is called after the first turn."""
        self.server, self.chats, self.mark, self.arm = server, Chats(server), mark, arm
        self.script = model.script(choose=self.choose)
        self.silent: Gate | None = None
        self.died = False

    def choose(self, conversation: Conversation) -> Answer | Silence:
        """By what has been said, so that a call that is made again has the same answer."""
        said, results = conversation.last, len(conversation.results)
        if "stop me" in said:
            self.silent = Gate()
            return Silence(gate=self.silent)
        if "second" in said and not any(use[1].get("command", "").startswith("echo c") for use in conversation.calls.values()):
            return Answer("I go on", [run("echo c >> counter; sleep 0.2; echo d >> counter")])
        if "first" in said and results == 0:
            return Answer(["I be", "gin"], [run("echo a >> counter"), write("edited", "x"), run("echo b >> counter")])
        if "first" in said and results == 3:
            return Answer("May I?", [Use("sandbox_find_replace", {"path": "edited", "find": "x", "replace": "xx", "all": True})])
        return Answer(["All ", "done"])

    def retry(self, deed):
        """Does something until it works, and restarts the server when it has died."""
        deadline = time.monotonic() + 40
        while True:
            self.revive()
            try:
                return deed()
            except AWAY as problem:
                if time.monotonic() > deadline:
                    raise AssertionError(f"it never worked: {problem}") from problem
                time.sleep(0.02)

    def revive(self) -> None:
        if self.server.process is not None and self.server.process.poll() is not None:
            assert self.server.process.returncode == -9, f"the server ended with {self.server.process.returncode}:\n{self.server.log_tail()}"
            assert not self.died, "it died twice"
            self.died, self.server.process = True, None
            self.server.start()

    def done(self, id: str) -> bool:
        chat = self.chats.chat(id)
        if chat["status"] == "waiting":
            for call in self.chats.calls(id):
                if call["status"] == "approval":
                    self.chats.send("POST", f"/chats/{id}/approvals/{call['id']}", {"decision": "allow"})
        assert chat["turnId"] is None and not chat["queued"], chat["status"]
        return True

    def tell(self) -> None:
        chats, key = self.chats, self.mark
        made = self.retry(lambda: chats.create(f"{self.script.prompt} first", f"{key}-1", tools=TOOLS, title="t"))
        id = made["chat"]["id"]
        watcher = Watcher(chats, id)
        acts = [
            lambda: None,
            lambda: chats.say(id, "second", f"{key}-2"),
            lambda: self.stop(id, chats.say(id, "stop me", f"{key}-3")["id"]),
            lambda: chats.uploaded(("a.txt", b"a", "text/plain"), path=f"/chats/{id}/attachments"),
        ]
        for act in acts:
            self.retry(act)
            self.retry(lambda: self.done(id))
            self.check(id, watcher)
            if self.died:
                break
            if act is acts[0]:
                self.arm()
        else:
            self.more(id, watcher)
        watcher.over.set()

    def stop(self, id: str, turn: str) -> None:
        answer = self.chats.send("POST", f"/chats/{id}/cancel", {"turnId": turn})
        assert answer.status == 200 or answer.json["error_code"] == "turn_not_running", answer.body

    def more(self, id: str, watcher: Watcher) -> None:
        """Restoring, forking and deleting: all or nothing."""
        chats = self.chats
        turn = next(message["turnId"] for message in chats.messages(id) if text(message) == "second")
        back = self.retry(lambda: chats.send("POST", f"/chats/{id}/checkpoints/{turn}/restore", {}).status in (200, 404) or None)
        assert back
        eventually(lambda: "second" not in [text(message) for message in chats.messages(id)])
        assert chats.file(id, "counter") == "a\nb\n"
        if not self.died:
            fork = self.retry(lambda: chats.post(f"/chats/{id}/fork", {}, f"{self.mark}-4"))["chat"]["id"]
            self.retry(lambda: self.has_counter(fork))
            others = [one for one in self.retry(lambda: chats.listed(limit=100)) if one["parentId"] == id]
            assert len(others) == 1, "forked once"
        self.retry(lambda: chats.send("DELETE", f"/chats/{id}").status in (204, 404))
        self.retry(lambda: self.gone(id))

    def gone(self, id: str) -> None:
        assert self.chats.send("GET", f"/chats/{id}").status == 404, "it is still there"

    def has_counter(self, id: str) -> bool:
        assert self.chats.file(id, "counter") == "a\nb\n"
        return True

    def check(self, id: str, watcher: Watcher) -> None:
        """No call ran twice, and no event is missing or doubled."""
        chats = self.chats
        lines = chats.file(id, "counter").split()
        assert len(lines) == len(set(lines)), f"a call ran twice: {lines}"
        calls = chats.calls(id)
        assert all(call["status"] in ("success", "error") for call in calls), calls
        cut = [call for call in calls if call["status"] == "error"]
        assert len(cut) <= 1 and all(call["error"]["code"] in ("interrupted", "cancelled") for call in cut), cut
        if not cut:
            assert lines == ["a", "b", "c", "d"][: len(lines)] and chats.file(id, "edited") == "xx", (lines, chats.file(id, "edited"))
        chat = chats.chat(id)
        assert chat["status"] == "idle", chat
        stored = chats.all_events(id)
        log = EventLog().extend(stored).check()
        seen = watcher.finish(chat["lastEventId"]) if self.died else watcher.log
        if self.died:
            missing = [event for number, event in log.events.items() if number not in seen.events and event.type not in ("message.snapshot", "tool.output")]
            assert not missing, f"the watcher missed {missing[:3]}"
            EventLog().extend([event for event in seen.ordered]).check()
        ends = [event for event in log.ordered if final()(event)]
        assert len({event["turnId"] for event in ends}) == len(ends)


@pytest.fixture(scope="module")
def armed(server, tmp_path_factory):
    """The file that names the failpoint."""
    file = tmp_path_factory.mktemp("failpoint") / "point"
    server.settings["CABANA_FAILPOINT"] = str(file)
    server.stop()
    server.start()
    yield file
    file.unlink(missing_ok=True)
    del server.settings["CABANA_FAILPOINT"]
    if server.process is None or server.process.poll() is not None:
        server.process = None
        server.start()
    server.stop()
    server.start()


def test_there_are_failpoints():
    assert len(points()) >= 5, points()


@pytest.mark.parametrize("late", [False, True], ids=["at-first", "later"])
@pytest.mark.parametrize("point", points())
def test_death_at(point, late, server, model, armed, figures):
    story = Story(server, model, f"{point}-{time.time_ns()}", (lambda: armed.write_text(point)) if late else lambda: None)
    if not late:
        armed.write_text(point)
    begun = time.monotonic()
    try:
        story.tell()
        assert story.died, f"the server did not come to {point}; is it built with the feature failpoints?"
    finally:
        armed.unlink(missing_ok=True)
        story.revive()
        story.chats.close()
    figures.append(f"chats: death at {point}{' later' if late else ''}, whole after {time.monotonic() - begun:.1f} s")


def test_death_at_any_time(server, model, armed):
    """Three times in a turn, at times that nobody chose: it ends, and what ran ran once."""
    story = Story(server, model, f"any-{time.time_ns()}")
    chats = story.chats
    command = "; ".join(f"echo {number} >> counter; sleep 0.1" for number in range(20))
    script = model.script(choose=lambda seen: Answer("Yes", [run(command)]) if not seen.results else Answer("done"))
    id = chats.create(script.prompt, title="t")["chat"]["id"]
    watcher = Watcher(chats, id)
    for number in range(3):
        eventually(lambda: len(chats.file(id, "counter").split()) > number * 4 or chats.chat(id)["turnId"] is None, within=20)
        server.crash()
        server.start()
    assert chats.ended(id, within=40) == "idle"
    lines = chats.file(id, "counter").split()
    assert lines == [str(number) for number in range(len(lines))], f"it ran twice: {lines}"
    (call,) = chats.calls(id)
    assert call["status"] == "success" and len(lines) == 20 or call["error"]["code"] == "interrupted", call
    log = watcher.finish(chats.chat(id)["lastEventId"])
    EventLog().extend(chats.all_events(id)).check()
    log.check()
    chats.close()


def test_waiting_survives(server, model, armed):
    """A turn that waits for a person still waits after a crash, and then goes on."""
    chats = Chats(server)
    script = model.script(Answer(calls=[Use("ask_user", {"question": "Which?"})]), Answer("thanks"))
    id = chats.create(script.prompt, tools=[{"type": "ask"}])["chat"]["id"]
    eventually(lambda: chats.chat(id)["status"] == "waiting")
    server.crash()
    server.start()
    assert chats.chat(id)["status"] == "waiting"
    chats.give(id, (chats.calls(id)[0]["id"], "this"))
    assert chats.ended(id) == "idle" and chats.answer(id) == "thanks" and len(script.requests) == 2
    EventLog().extend(chats.all_events(id)).check()
    chats.close()


def test_stopping_survives(server, model, armed):
    """A cancel that was asked for is finished by the next server."""
    chats = Chats(server)
    gate = Gate()
    script = model.script(Answer(calls=[run("trap '' TERM; echo begun; sleep 600")]), Answer([gate, "x"]))
    id = chats.create(script.prompt)["chat"]["id"]
    eventually(lambda: chats.calls(id) and "begun" in chats.calls(id)[0]["output"])

    def ask() -> None:
        with ignoring_the_end():
            chats.send("POST", f"/chats/{id}/cancel", {})

    threading.Thread(target=ask, daemon=True).start()
    # It is written at once, and the command takes seconds to end.
    with closing(sqlite3.connect(server.data / "cabana.db")) as store:
        asked = lambda: store.execute("select cancel from turns where chat = ?", (id,)).fetchone() == (1,)
        eventually(asked, what="the cancel is written")
    server.crash()
    server.start()
    assert chats.ended(id, within=30) in ("idle", "failed")
    eventually(lambda: chats.run(chats.box(id), "pgrep -c sleep || true").strip() == "0", within=15, what="the command was stopped")
    assert len(script.requests) == 1
    chats.close()


def test_stopping_the_server_gracefully(server, model, armed):
    """Streams are told, and the turn goes on afterwards."""
    chats = Chats(server)
    script = model.script(choose=lambda seen: Answer(["Hel", Gate()]) if len(script.requests) == 1 else Answer("Hello"))
    id = chats.create(script.prompt, tools=[])["chat"]["id"]
    with chats.events(id, after=0) as stream:
        stream.until("message.delta")
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        try:
            end = stream.until("stream.end")[-1]
        finally:
            stopping.join()
            server.start()
        assert end["reason"] == "shutdown" and end["resume"] == f"/chats/{id}/resume" and end["lastEventId"] >= stream.last
    assert chats.ended(id) == "idle" and chats.answer(id) == "Hello"
    statuses = [message["status"] for message in chats.messages(id)]
    assert statuses == ["complete", "interrupted", "complete"], statuses
    EventLog().extend(chats.all_events(id)).check()
    chats.close()
