"""A model provider that follows scripts, on both wires at once: OpenAI's chat completions below `/v1`, Anthropic's messages at
`/v1/messages`, streaming or not. The newest message of a person that names a script chooses it. Every request is recorded, and refused
if the conversation in it could not have come about (model_checks.py)."""

import copy
import itertools
import json
import re
import select
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import canary
import model_checks
from model_answers import (
    ANTHROPIC,
    OPENAI,
    Answer,
    Chooser,
    Failure,
    Gate,
    Pause,
    Silence,
    Step,
    error,
    failure_body,
    stream,
    whole,
)
from model_checks import Conversation, Dishonest
from waiting import eventually

PATHS = {"/v1/chat/completions": OPENAI, "/v1/messages": ANTHROPIC}
MODEL = "scripted"
#: One that reads little, and how many tokens.
SMALL, WINDOW = "small", 6000
LONGEST = 64 << 20
#: Requests that are not of a conversation: names of chats, and summaries.
ASIDE = re.compile(r"\b(title|summar\w+)\b", re.I)


@dataclass
class Seen:
    """A request."""

    wire: str
    headers: dict[str, str]
    body: dict
    conversation: Conversation
    at: float = field(default_factory=time.monotonic)
    #: When the first delta of a text was sent.
    first_delta: float | None = None
    #: Set at the end of the response, and whether the client had left before.
    over: threading.Event = field(default_factory=threading.Event)
    left: bool = False

    @property
    def key(self) -> str:
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")


class Script:
    """Steps of one conversation. A message with `prompt` in it chooses this script."""

    def __init__(self, steps: list[Step] | Chooser, name: str):
        self.steps, self.name = steps, name
        self.requests: list[Seen] = []

    @property
    def prompt(self) -> str:
        return self.name

    @property
    def last(self) -> Seen:
        return self.requests[-1]

    def step(self, seen: Seen) -> Step:
        if callable(self.steps):
            return self.steps(seen.conversation)
        if not self.steps:
            raise Dishonest(f"the script {self.name} is over")
        return self.steps.pop(0)

    def wait(self, requests: int, within: float = 20) -> Seen:
        """The request of this number, once it has come."""
        eventually(lambda: len(self.requests) >= requests, within, what=f"{requests} requests of {self.name}")
        return self.requests[requests - 1]


class Gone(Exception):
    """The client has left, or is to be left."""


class ModelServer:
    def __init__(self):
        #: The key that requests must have.
        self.key = canary.remember("a model key", f"sk-scripted-{uuid.uuid4().hex}")
        self.scripts: dict[str, Script] = {}
        #: For requests that name none, in order.
        self.queue: list[Step] = []
        self.requests: list[Seen] = []
        self.asides: list[Seen] = []
        self.problems: list[str] = []
        #: What chats are called, and what is left of long ones.
        self.title, self.summary = "A scripted title", "A scripted summary"
        #: Answers with calls.
        self.issued: list[Answer] = []
        self.numbers, self.lock = itertools.count(1), threading.Lock()
        self.server = Listener(("127.0.0.1", 0), handler(self))
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def configuration(self) -> str:
        """For the server: a provider for each wire, named after it, and one whose key is wrong. Only one has a price."""
        providers = {OPENAI: (OPENAI, self.openai_url, self.key), ANTHROPIC: (ANTHROPIC, self.url, self.key)}
        providers["revoked"] = (OPENAI, self.openai_url, "sk-revoked")
        lines = [f'[models]\ndefault = "{OPENAI}/{MODEL}"']
        for name, (kind, url, key) in providers.items():
            lines.append(f'[models.providers.{name}]\nkind = "{kind}"\nbase_url = "{url}"\nkey = "{key}"\nmodels = ["{MODEL}", "{SMALL}"]')
        lines.append(f'[models.prices."{ANTHROPIC}/{MODEL}"]\ninput = 3000000\ncached = 300000\noutput = 15000000')
        lines.append("[models.windows]\n" + "\n".join(f'"{wire}/{SMALL}" = {WINDOW}' for wire in (OPENAI, ANTHROPIC)))
        return "\n".join(lines) + "\n"

    def script(self, *steps: Step, choose: Chooser | None = None, about: str = "") -> Script:
        """A script with the steps, one for each request, or with a function of the conversation."""
        name = f"{about or 'script'}-{uuid.uuid4().hex[:10]}"
        self.scripts[name] = Script(choose or list(steps), name)
        return self.scripts[name]

    def check(self) -> None:
        """Nothing was wrong with the requests so far."""
        problems, self.problems = self.problems, []
        assert not problems, "\n".join(problems)

    # One request.

    def take(self, wire: str, headers: dict[str, str], body: dict) -> tuple[Seen, Step]:
        """Raises `Dishonest` for a request that is not as it should be."""
        conversation = model_checks.read(wire, body)
        seen = Seen(wire, headers, body, conversation)
        with self.lock:
            self.requests.append(seen)
            if seen.key != self.key:
                return seen, Failure(401)
            model_checks.check_issued(conversation, body, self.issued)
            if is_aside(conversation):
                self.asides.append(seen)
                return seen, Answer(self.title if "title" in conversation.system else self.summary, usage=(10, 0, 3))
            return seen, self.issue(self.choose(seen))

    def choose(self, seen: Seen) -> Step:
        for said in reversed(seen.conversation.said):
            # One wire joins messages that follow each other: the last name counts.
            if named := [name for name in self.scripts if name in said]:
                script = self.scripts[max(named, key=said.rfind)]
                script.requests.append(seen)
                return script.step(seen)
        if not self.queue:
            raise Dishonest(f"no script is named by {seen.conversation.said[-1:]!r:.200}")
        return self.queue.pop(0)

    def issue(self, step: Step) -> Step:
        """Gives the calls of an answer ids of their own."""
        if not isinstance(step, Answer) or not step.calls:
            return step
        step = replace(step, calls=[replace(copy.copy(use), id=f"call_{next(self.numbers):06}") for use in step.calls])
        self.issued.append(step)
        return step


def is_aside(conversation: Conversation) -> bool:
    return not conversation.tools and bool(ASIDE.search(conversation.system[:400]))


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address) -> None:
        """Clients that leave are part of the tests."""


def handler(model: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if self.path.split("?")[0] != "/v1/models":
                return self.send_error(404)
            row = {"id": MODEL, "object": "model", "type": "model", "created": 0, "owned_by": "scripts", "display_name": MODEL}
            self.reply(200, json.dumps({"object": "list", "data": [row], "has_more": False}).encode())

        def do_POST(self) -> None:
            wire = PATHS.get(self.path.split("?")[0])
            length = int(self.headers.get("Content-Length", "-1"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                if wire is None or not 0 <= length <= LONGEST:
                    raise Dishonest(f"{self.path} with {length} bytes")
                seen, step = model.take(wire, headers, json.loads(self.rfile.read(length)))
            except Exception as problem:
                model.problems.append(f"{type(problem).__name__}: {problem}")
                body = error(wire or OPENAI, "invalid_request_error", f"the scripted model does not take this: {problem}")
                return self.reply(400, json.dumps(body).encode())
            try:
                self.answer(seen, step)
            except (Gone, OSError):
                seen.left = True
                self.close_connection = True
            finally:
                seen.over.set()

        def answer(self, seen: Seen, step: Step) -> None:
            if isinstance(step, Failure):
                return self.reply(step.status, failure_body(seen.wire, step), **step.headers)
            if isinstance(step, Silence):
                if step.status:
                    self.begin()
                self.hold(step.gate)
                raise Gone
            if not seen.conversation.stream:
                return self.reply(200, whole(seen.wire, step, seen.conversation.model))
            if step.cut == 0:
                raise Gone
            self.begin()
            Sender(self, seen, step).send()
            self.wfile.write(b"0\r\n\r\n")

        def begin(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()

        def chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

        def hold(self, gate: Gate) -> None:
            """Waits for a gate; a client that leaves meanwhile is noticed."""
            gate.reached.set()
            while not gate.opened.wait(0.01):
                if select.select([self.connection], [], [], 0)[0] and not self.connection.recv(1, socket.MSG_PEEK):
                    raise Gone

        def reply(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    return Handler


class Sender:
    """Sends one stream as its script wants it."""

    def __init__(self, connection, seen: Seen, answer: Answer):
        self.connection, self.seen, self.step = connection, seen, answer
        self.sent = self.deltas = 0

    def send(self) -> None:
        asked = (self.seen.body.get("stream_options") or {}).get("include_usage")
        for frame in stream(self.seen.wire, self.step, self.seen.conversation.model, bool(asked)):
            if isinstance(frame, Gate):
                self.connection.hold(frame)
            elif isinstance(frame, Pause):
                time.sleep(frame.seconds)
            else:
                self.frame(frame)

    def frame(self, frame: bytes) -> None:
        delta = any(mark in frame for mark in (b'{"content": ', b'"text_delta"', b'"thinking_delta"', b'{"reasoning_content": '))
        if delta:
            if self.step.cut_after is not None and self.deltas >= self.step.cut_after:
                raise Gone
            self.deltas += 1
            self.seen.first_delta = self.seen.first_delta or time.monotonic()
        end = self.sent + len(frame)
        if self.step.gate_at and self.sent <= self.step.gate_at[0] < end:
            at = self.step.gate_at[0] - self.sent
            self.raw(frame[:at])
            self.connection.hold(self.step.gate_at[1])
            frame = frame[at:]
        if self.step.cut is not None and end > self.step.cut:
            self.raw(frame[: max(self.step.cut - self.sent, 0)])
            raise Gone
        self.raw(frame)

    def raw(self, data: bytes) -> None:
        if self.step.slow is None:
            data and self.connection.chunk(data)
        else:
            for at in range(len(data)):
                self.connection.chunk(data[at : at + 1])
                time.sleep(self.step.slow)
        self.sent += len(data)
