"""WebSockets of the API: live updates and terminals."""

import json
import socket
import ssl
import time
import uuid
from urllib.parse import urlencode

import websockets.sync.client
from websockets.exceptions import ConnectionClosed


def connect(server, path: str, key: str | None = None, **options):
    """A WebSocket to the API, with the server's first key or another one."""
    url = server.url.replace("http", "ws", 1) + path
    if server.secure:
        options.setdefault("ssl", ssl.create_default_context(cafile=server.ca))
    headers = {"X-API-KEY": server.key if key is None else key}
    return websockets.sync.client.connect(
        url,
        additional_headers=headers,
        compression=None,
        proxy=None,
        open_timeout=60,
        close_timeout=5,
        legacy=True,
        **options,
    )


class Live:
    """A socket for live updates."""

    def __init__(self, server, *topics: str, **options):
        self.socket = connect(server, "/live", **options)
        for topic in topics:
            self.subscribe(topic)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, frame: dict) -> None:
        self.socket.send(json.dumps(frame))

    def subscribe(self, topic: str, **more) -> None:
        self.send({"subscribe": topic, **more})
        self.until(lambda frame: frame.get("type") == "subscribed" and frame["topic"] == topic)

    def next(self, within: float = 20) -> dict:
        """The next frame that is not a ping; pings are answered."""
        deadline = time.monotonic() + within
        while True:
            frame = json.loads(self.socket.recv(timeout=max(deadline - time.monotonic(), 0.001)))
            if frame["type"] != "ping":
                return frame
            self.send({"pong": True})

    def until(self, wanted, within: float = 20) -> dict:
        """The first frame that is wanted; others are dropped."""
        deadline = time.monotonic() + within
        while True:
            frame = self.next(max(deadline - time.monotonic(), 0.001))
            if wanted(frame):
                return frame

    def event(self, kind: str, sandbox: str, within: float = 20) -> dict:
        """The next frame with this event of a sandbox."""
        name = f"sandbox.lifecycle.{kind}"
        return self.until(
            lambda frame: frame["type"] == "event"
            and frame["event"]["type"] == name
            and frame["event"]["sandboxId"] == sandbox,
            within,
        )


class Terminal:
    """A socket of a terminal. What it says is collected in `output`."""

    def __init__(self, server, sandbox: str, options: dict | None = None, **query):
        query = {"cols": 100, "rows": 30, **query}
        self.socket = connect(server, f"/sandboxes/{sandbox}/terminal?{urlencode(query)}", **(options or {}))
        self.output = bytearray()
        self.started = self.ended = None
        self.code = self.reason = None
        while self.started is None and self.code is None:
            self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def cut(self) -> None:
        """Breaks the connection off, as a network does."""
        self.socket.socket.shutdown(socket.SHUT_RDWR)

    @property
    def pid(self) -> int:
        return self.started["pid"]

    def read(self, within: float = 20) -> None:
        """Reads one frame; afterwards `code` is set if it was the last."""
        try:
            frame = self.socket.recv(timeout=within)
        except ConnectionClosed as closed:
            self.code, self.reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
            return
        if isinstance(frame, bytes):
            self.output += frame
            return
        message = json.loads(frame)
        self.started = message.get("started", self.started)
        self.ended = message.get("ended", self.ended)

    def type(self, text: str) -> None:
        self.socket.send(text.encode())

    def resize(self, cols: int, rows: int) -> None:
        self.socket.send(json.dumps({"resize": {"cols": cols, "rows": rows}}))

    def until(self, text: bytes, within: float = 20) -> bytes:
        """Reads until the output has a text; returns all output until then, and forgets it."""
        deadline, searched = time.monotonic() + within, 0
        while (at := self.output.find(text, searched)) < 0:
            assert self.code is None, (self.code, self.reason, self.output[-500:])
            assert time.monotonic() < deadline, self.output[-500:]
            searched = max(len(self.output) - len(text), 0)
            self.read(max(deadline - time.monotonic(), 0.001))
        found = bytes(self.output[: at + len(text)])
        del self.output[: at + len(text)]
        return found

    def run(self, command: str, within: float = 20) -> str:
        """Runs a command and returns what it printed. The marks are new each time, and their echo does not match."""
        mark = uuid.uuid4().hex[:8]
        self.type(f"echo be''gin-{mark}; {command}; echo do''ne-{mark}-$?-\r")
        self.until(f"begin-{mark}\r\n".encode(), within)
        printed = self.until(f"done-{mark}-".encode(), within)
        assert self.until(b"-", within) == b"0-", (command, printed)
        return printed.decode(errors="replace").replace("\r", "").removesuffix(f"done-{mark}-")

    def rest(self, within: float = 20) -> None:
        """Reads to the end."""
        deadline = time.monotonic() + within
        while self.code is None:
            self.read(max(deadline - time.monotonic(), 0.001))
