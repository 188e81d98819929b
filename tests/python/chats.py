"""Chats over raw HTTP: calls of the API, streams of events that can be resumed, and a log of events that knows the rules of their order."""

import http.client
import json
import socket
import time
import uuid
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator
from urllib.parse import quote, urlencode

from model_answers import Answer, Use
from server import Server
from services import Reply, Services
from waiting import eventually
from wire import Box

PATIENCE = 30
DONE = ("complete", "failed", "cancelled", "interrupted")
ALWAYS = {"type", "chatId", "turnId", "at"}
#: Tools of a chat in which every command must be allowed.
ASKING = [{"type": "sandbox", "approve": {"sandbox_run_command": "ask"}}]
SANDBOX = [{"type": "sandbox"}]
#: Reserves all the room that a sandbox has, in ever smaller pieces.
FILL = "i=0; for size in 8G 1G 128M 16M 2M 256K; do while fallocate -l $size big-$i 2>/dev/null; do i=$((i + 1)); done; done; rm -f big-$i; ls big-* | wc -l"


@dataclass(frozen=True)
class Event:
    id: int | None
    type: str
    data: dict

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    @property
    def turn(self) -> str | None:
        return self.data.get("turnId")


def once(pairs: list[tuple[str, Any]]) -> dict:
    """An object whose names are all different."""
    assert len(dict(pairs)) == len(pairs), f"a name comes twice: {[name for name, _ in pairs]}"
    return dict(pairs)


class Stream:
    """Server-sent events of one response."""

    def __init__(self, server: Server, method: str, path: str, key: str, body: Any = None, timeout: float = PATIENCE, **headers: str):
        self.link = server.client(timeout).connection
        sent = {"X-API-KEY": key, "Accept": "text/event-stream", "Accept-Encoding": "gzip, br", **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        self.link.request(method, path, json.dumps(body).encode() if body is not None else None, sent)
        self.response = self.link.getresponse()
        self.status, self.headers = self.response.status, {name.lower(): value for name, value in self.response.getheaders()}
        if self.status >= 300:
            reply = Reply(self.status, self.response.getheaders(), self.response.read())
            self.close()
            raise Unexpected(reply)
        assert self.headers["content-type"].startswith("text/event-stream"), self.headers
        assert {word.strip() for word in self.headers["cache-control"].split(",")} == {"no-store", "no-transform"}, self.headers
        assert self.headers["x-accel-buffering"] == "no" and "content-encoding" not in self.headers, self.headers
        self.last, self.pings, self.patience, self.heard = -1, 0, timeout, time.monotonic()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        """Leaves, as a client does whose network is gone."""
        if self.link.sock is not None:
            try:
                self.link.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.response.close() if hasattr(self, "response") else None
        self.link.close()

    def __iter__(self) -> Iterator[Event]:
        """Until the server ends it. Every event is checked for the form that all have."""
        id, name, data = None, "", []
        for raw in self.response:
            line = raw.decode().rstrip("\n")
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "id":
                id = int(value)
            elif field == "event":
                name = value
            elif field == "data":
                data.append(value)
            elif not line and data:
                yield from self.checked(Event(id, name, json.loads("\n".join(data), object_pairs_hook=once)))
                id, name, data = None, "", []
        assert not data, "the stream ends in the middle of an event"

    def checked(self, event: Event) -> Iterator[Event]:
        if event.type == "ping":
            assert event.id is None, event
            self.pings += 1
            if time.monotonic() - self.heard > self.patience:
                raise TimeoutError(f"nothing but pings for {self.patience} s")
            return
        self.heard = time.monotonic()
        assert event.data.get("type") == event.type and ALWAYS <= set(event.data), event
        if event.id is not None:
            assert event.id > self.last, f"{event.id} comes after {self.last}"
            self.last = event.id
        else:
            assert event.type in ("stream.end", "chat.updated"), event
        yield event

    def until(self, wanted: str | Callable[[Event], Any], within: float = PATIENCE) -> list[Event]:
        """Events up to the wanted one."""
        test = (lambda event: event.type == wanted) if isinstance(wanted, str) else wanted
        found, deadline = [], time.monotonic() + within
        for event in self:
            found.append(event)
            if test(event):
                return found
            assert time.monotonic() < deadline, f"not within {within} s; so far {kinds(found)}"
        raise AssertionError(f"the stream ended after {kinds(found)}")


class Unexpected(Exception):
    """A response that is not a stream."""

    def __init__(self, reply: Reply):
        super().__init__(f"{reply.status} {reply.text[:600]}")
        self.status, self.code = reply.status, reply.code


def kinds(events: list[Event]) -> list[str]:
    """Types in order; deltas and output in a row are one."""
    found: list[str] = []
    for event in events:
        if not (found and found[-1] == event.type and event.type in ("message.delta", "tool.output")):
            found.append(event.type)
    return found


#: Events that come in between, whenever something becomes so.
BESIDE = ("sandbox.updated", "chat.updated", "service.updated", "artifact.created", "attachment.updated")


def core(events: list[Event]) -> list[str]:
    """Types of the events of messages, calls and turns."""
    return kinds([event for event in events if event.type not in BESIDE])


def one(events: list[Event], kind: str) -> Event:
    """The only event of a type."""
    (found,) = [event for event in events if event.type == kind]
    return found


def final(turn: str | None = None) -> Callable[[Event], bool]:
    """Whether an event is the end of a turn."""
    return lambda event: event.type == "turn.complete" and event["status"] in DONE and turn in (None, event["turnId"])


class Chats(Services):
    """The API for chats, with a key. Chats that were made here can be forgotten together."""

    def __init__(self, server: Server, key: str | None = None):
        super().__init__(server, key)
        self.made: list[str] = []

    def close(self) -> None:
        for id in self.made:
            answer = self.send("DELETE", f"/chats/{id}")
            assert answer.status in (204, 404), (answer.status, answer.body)

    def post(self, path: str, body: Any, idempotency: str | None = None) -> dict:
        headers = {"Idempotency-Key": idempotency} if idempotency else {}
        answer = self.send("POST", path, body, headers)
        if not 200 <= answer.status < 300:
            raise Unexpected(Reply(answer.status, list(answer.headers.items()), answer.body))
        made = answer.json
        if path == "/chats" or path.endswith("/fork"):
            self.made.append(made["chat"]["id"])
        return made

    def create(self, prompt: str | None = None, idempotency: str | None = None, **fields: Any) -> dict:
        """`{chat, turn}`."""
        body = {**({"prompt": prompt} if prompt is not None else {}), **fields}
        made = self.post("/chats", body, idempotency)
        assert made["chat"]["id"].startswith("chat_") and (made["turn"] is None) == (prompt is None and "content" not in fields), made
        return made

    def say(self, chat: str, prompt: str, idempotency: str | None = None, **fields: Any) -> dict:
        """The turn of a message."""
        made = self.post(f"/chats/{chat}/messages", {"prompt": prompt, **fields}, idempotency)
        return made["turn"]

    def chat(self, id: str) -> dict:
        return self.ask("GET", f"/chats/{id}")

    def listed(self, **query: Any) -> list[dict]:
        """Every chat that fits, over all pages."""
        rows, cursor = [], None
        while True:
            page = self.ask("GET", f"/chats?{urlencode({**query, **({'cursor': cursor} if cursor else {})})}")
            rows += page["chats"]
            cursor = page["nextCursor"]
            if cursor is None:
                return rows

    def page(self, id: str, **query: Any) -> dict:
        return self.ask("GET", f"/chats/{id}/messages?{urlencode(query)}")

    def messages(self, id: str) -> list[dict]:
        return self.page(id, limit=200)["messages"]

    def answer(self, id: str) -> str:
        """The text of the newest message."""
        return text(self.messages(id)[-1])

    def calls(self, id: str) -> list[dict]:
        return [call for message in self.messages(id) for call in message.get("toolCalls", [])]

    def cancel(self, id: str, **body: Any) -> dict:
        return self.ask("POST", f"/chats/{id}/cancel", body)

    def decide(self, id: str, call: str, decision: str, **more: Any) -> dict:
        return self.ask("POST", f"/chats/{id}/approvals/{call}", {"decision": decision, **more})

    def give(self, id: str, *results: tuple[str, str], **more: Any) -> list[dict]:
        body = {"results": [{"toolCallId": call, "output": output, **more} for call, output in results]}
        return self.ask("POST", f"/chats/{id}/tool-results", body)["toolCalls"]

    def events(self, id: str, after: int | None = None, last: int | None = None, path: str = "events", timeout: float = PATIENCE, **query: Any) -> Stream:
        query |= {"after": after} if after is not None else {}
        headers = {"Last-Event-ID": str(last)} if last is not None else {}
        return Stream(self.server, "GET", f"/chats/{id}/{path}?{urlencode(query)}", self.key or self.server.key, timeout=timeout, **headers)

    def create_stream(self, body: dict, **headers: str) -> Stream:
        stream = Stream(self.server, "POST", "/chats", self.key or self.server.key, body, **headers)
        assert stream.headers["x-chat-id"].startswith("chat_"), stream.headers
        self.made.append(stream.headers["x-chat-id"])
        return stream

    def say_stream(self, id: str, prompt: str, query: str = "", **fields: Any) -> Stream:
        return Stream(self.server, "POST", f"/chats/{id}/messages{query}", self.key or self.server.key, {"prompt": prompt, **fields})

    def all_events(self, id: str, wanted: str | Callable[[Event], Any] | None = None) -> list[Event]:
        """Everything that is kept from the first event on, up to the wanted one, else up to the last one that is known."""
        last = self.chat(id)["lastEventId"]
        with self.events(id, after=0) as stream:
            return stream.until(wanted or (lambda event: (event.id or 0) >= last))

    def ended(self, id: str, turn: str | None = None, within: float = PATIENCE) -> str:
        """Waits for the end of a turn, or of all turns; its status, or the chat's."""
        if turn is not None:
            with self.events(id, after=0, timeout=within) as stream:
                return stream.until(final(turn), within)[-1]["status"]
        rest = lambda: (chat := self.chat(id))["turnId"] is None and not chat["queued"] and chat["status"]
        return eventually(rest, within, every=0.05, what=f"the end of the turns of {id}")

    def run_turn(self, prompt: str, **fields: Any) -> tuple[str, list[Event]]:
        """A chat with one turn: its id and the events of the turn."""
        with self.create_stream({"prompt": prompt, **fields}) as stream:
            return stream.headers["x-chat-id"], stream.until(final())

    # Files

    def upload(self, *files: tuple[str, bytes, str], path: str = "/attachments", **fields: str) -> Reply:
        """Files as `(name, content, media type)`."""
        body, kind = multipart(files, fields)
        answer = self.send("POST", path, body, {"Content-Type": kind})
        return Reply(answer.status, list(answer.headers.items()), answer.body)

    def uploaded(self, *files: tuple[str, bytes, str], path: str = "/attachments", **fields: str) -> list[dict]:
        reply = self.upload(*files, path=path, **fields)
        assert reply.status == (201 if path == "/attachments" else 200), (reply.status, reply.body[:600])
        return reply.json["attachments"]

    def content(self, id: str, query: str = "", **headers: str) -> Reply:
        answer = self.send("GET", f"/attachments/{id}/content{query}", headers={name.replace("_", "-"): value for name, value in headers.items()})
        return Reply(answer.status, list(answer.headers.items()), answer.body)

    def box(self, id: str, name: str = "main") -> Box:
        """A sandbox of a chat, for commands."""
        sandbox = next(one["sandboxId"] for one in self.chat(id)["sandboxes"] if one["name"] == name)
        return Box(sandbox, self.ask("GET", f"/sandboxes/{sandbox}").get("envdAccessToken"))

    def file(self, id: str, path: str, name: str = "main") -> str:
        """A file of a chat's sandbox; an empty text if there is none."""
        sandbox = next((one["sandboxId"] for one in self.chat(id)["sandboxes"] if one["name"] == name), "none")
        answer = self.send("GET", f"/sandboxes/{sandbox}/files/content?path={quote(path)}")
        return answer.body.decode(errors="replace") if answer.status == 200 else ""


def multipart(files: tuple[tuple[str, bytes, str], ...], fields: dict[str, str]) -> tuple[bytes, str]:
    mark = uuid.uuid4().hex
    parts = [f'--{mark}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in fields.items()]
    for name, content, kind in files:
        escaped = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{escaped}"\r\nContent-Type: {kind}\r\n\r\n'
        parts.append(head.encode() + content + b"\r\n")
    return b"".join(parts) + f"--{mark}--\r\n".encode(), f"multipart/form-data; boundary={mark}"


def text(message: dict) -> str:
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


def run(command: str, **more: Any) -> Use:
    """A call that runs a command."""
    return Use("sandbox_run_command", {"command": command, **more})


def write(path: str, content: str) -> Use:
    return Use("sandbox_write_file", {"path": path, "content": content})


def doing(*calls: Use, answer: str = "Done.") -> list[Answer]:
    """A turn that makes calls one after the other, and answers."""
    return [*(Answer(calls=[call]) for call in calls), Answer(answer)]


class EventLog:
    """Events of one chat from any number of connections: the same id is always the same event."""

    def __init__(self):
        self.events: dict[int, Event] = {}

    def add(self, event: Event) -> None:
        if event.id is None:
            return
        known = self.events.setdefault(event.id, event)
        assert known == event, f"{event.id} was {known}, and now is {event}"

    def extend(self, events: list[Event]) -> "EventLog":
        for event in events:
            self.add(event)
        return self

    @property
    def ordered(self) -> list[Event]:
        return [self.events[id] for id in sorted(self.events)]

    def check(self, whole: bool = True, exact: bool = False) -> "EventLog":
        """The order rules. `whole`: every turn in it has ended. `exact`: no delta is missing; only a stream that was followed from the
        beginning has all of them."""
        turns, running, waits = Turns(exact), None, False
        for event in self.ordered:
            if event.type == "turn.started":
                assert running is None or waits and running == event["turn"]["id"], f"{event['turn']['id']} starts while {running} runs"
                running, waits = event["turn"]["id"], False
            elif event.type == "turn.complete":
                # One that waits can be stopped.
                assert running == event["turnId"], f"{event['turnId']} ends, but {running} runs"
                waits = event["status"] == "waiting"
                running = running if waits else None
            elif event.type.startswith(("message.", "tool.")) and event.turn is not None:
                assert running == event.turn, f"{event} while {running} runs"
            turns.add(event)
        if whole:
            assert running is None, f"{running} has not ended"
            turns.check_over()
        return self


class Turns:
    """Messages and calls: each is created once, ends once, and has nothing after its end."""

    def __init__(self, exact: bool):
        self.exact = exact
        self.messages: dict[str, str] = {}
        self.text: dict[str, str] = defaultdict(str)
        self.calls: dict[str, str] = {}
        self.of: dict[str, str] = {}

    def add(self, event: Event) -> None:
        name = "on_" + event.type.replace(".", "_")
        if hasattr(self, name):
            getattr(self, name)(event)

    def on_message_created(self, event: Event) -> None:
        message = event["message"]
        assert message["id"] not in self.messages, f"{message['id']} is created twice"
        assert message["status"] == ("complete" if message["role"] == "user" else "streaming"), message
        self.messages[message["id"]] = message["status"]

    def on_message_delta(self, event: Event) -> None:
        assert self.messages[event["messageId"]] == "streaming", f"a delta of a message that is over: {event}"
        assert set(event["delta"]) in ({"text"}, {"reasoning"}), event
        self.text[event["messageId"]] += event["delta"].get("text", "")

    def on_message_snapshot(self, event: Event) -> None:
        self.messages.setdefault(event["message"]["id"], "streaming")
        self.text[event["message"]["id"]] = text(event["message"])

    def on_message_complete(self, event: Event) -> None:
        message = event["message"]
        assert self.messages[message["id"]] == "streaming", f"{message['id']} ends twice"
        assert message["status"] in ("complete", "interrupted", "cancelled", "failed"), message
        self.messages[message["id"]] = message["status"]
        if self.exact:
            assert text(message) == self.text[message["id"]], "the deltas are not the message"
        for part in message["content"]:
            if part["type"] == "tool_call":
                self.of[part["toolCallId"]] = message["id"]

    def on_tool_call(self, event: Event) -> None:
        call = event["toolCall"]
        assert self.messages[call["messageId"]] == "complete" and self.of[call["id"]] == call["messageId"], event
        before = self.calls.get(call["id"])
        assert before in (None, "approval"), f"{call['id']} begins twice: {before}, {call['status']}"
        self.calls[call["id"]] = call["status"]

    def on_tool_output(self, event: Event) -> None:
        assert self.calls[event["toolCallId"]] in ("running", "approval"), event

    def on_tool_message(self, event: Event) -> None:
        assert self.calls[event["toolCallId"]] not in ("success", "error"), f"{event['toolCallId']} has two results"
        assert event["status"] in ("success", "error") and (event["error"] is None) == (event["status"] == "success"), event
        self.calls[event["toolCallId"]] = event["status"]

    def check_over(self) -> None:
        assert "streaming" not in self.messages.values(), self.messages
        assert set(self.calls.values()) <= {"success", "error"}, self.calls


@contextmanager
def ignoring_the_end() -> Iterator[None]:
    """Around something during which the server ends."""
    try:
        yield
    except (OSError, http.client.HTTPException, AssertionError):
        pass
