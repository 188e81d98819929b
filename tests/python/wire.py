"""A minimal client for the wire protocol: REST and Connect over keep-alive HTTP/1.1, without any SDK. It can send what an SDK never
sends, and it measures the server rather than an SDK."""

import base64
import http.client
import json
import ssl
import struct
from dataclasses import dataclass
from typing import Any, Iterator
from urllib.parse import urlsplit

import canary

GUEST_PORT = 49983


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Box:
    """A sandbox as returned by create."""

    id: str
    token: str | None

    def headers(self, port: int = GUEST_PORT) -> dict[str, str]:
        """Routing headers for one of its ports."""
        routing = {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": str(port)}
        return {**routing, "X-Access-Token": self.token} if self.token and port == GUEST_PORT else routing


class Client:
    """One keep-alive connection. Not thread-safe."""

    def __init__(self, url: str, key: str | None, timeout: float = 60.0, ca: str | None = None):
        """`ca` is the trusted authority of an https:// URL."""
        parts = urlsplit(url)
        self.host, self.port, self.key = parts.hostname, parts.port, key
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=ca)
            self.connection = http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=context)
        else:
            self.connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def close(self) -> None:
        self.connection.close()

    def open(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> http.client.HTTPResponse:
        """Sends a request and returns the unread response. A connection that the server has closed is reopened once."""
        fresh = self.connection.sock is None
        try:
            self.connection.request(method, path, body, headers)
            return self.connection.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self.connection.close()
            if fresh:
                raise
            self.connection.request(method, path, body, headers)
            return self.connection.getresponse()
        except BaseException:
            self.connection.close()
            raise

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """A request and its whole response. A `body` that is not bytes is sent as JSON."""
        headers = dict(headers or {})
        if self.key is not None:
            headers.setdefault("X-API-KEY", self.key)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        response = self.open(method, path, body, headers)
        answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        if response.will_close:
            self.connection.close()
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, headers=headers)

    # Sandboxes

    def create(self, template: str = "base", **fields: Any) -> Box:
        answer = self.request("POST", "/v2/sandboxes", {"templateID": template, "timeout": 120, **fields})
        assert answer.status == 201, (answer.status, answer.body)
        token = canary.remember("an access token", answer.json["envdAccessToken"])
        return Box(answer.json["sandboxID"], token or None)

    def kill(self, box: Box | str) -> bool:
        answer = self.request("DELETE", f"/sandboxes/{box if isinstance(box, str) else box.id}")
        assert answer.status in (204, 404), (answer.status, answer.body)
        return answer.status == 204

    def sandboxes(self, query: str = "") -> list[dict]:
        """Every sandbox, over all pages."""
        rows, token = [], ""
        while True:
            answer = self.get(f"/v2/sandboxes?limit=100{query}" + (f"&nextToken={token}" if token else ""))
            assert answer.status == 200, (answer.status, answer.body)
            rows += answer.json
            token = answer.headers.get("x-next-token", "")
            if not token:
                return rows

    def events(self, box: Box | str) -> list[dict]:
        answer = self.get(f"/events/sandboxes/{box if isinstance(box, str) else box.id}?limit=100&orderAsc=true")
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    # The guest

    def call(self, box: Box, method: str, message: dict) -> Answer:
        """A unary call, e.g. `filesystem.Filesystem/Stat`."""
        headers = {**box.headers(), "Connect-Protocol-Version": "1"}
        return self.request("POST", f"/{method}", message, headers)

    def stream(self, box: Box, method: str, message: dict, headers: dict[str, str] | None = None) -> Iterator[dict]:
        """A server stream: its messages; raises `StreamError` if it ends with one."""
        body = json.dumps(message).encode()
        response = self.open(
            "POST",
            f"/{method}",
            b"\0" + struct.pack(">I", len(body)) + body,
            {
                **box.headers(),
                "Content-Type": "application/connect+json",
                "Connect-Protocol-Version": "1",
                **(headers or {}),
            },
        )
        if response.status != 200:
            raise StreamError(f"HTTP {response.status}", response.read().decode(errors="replace"))
        while True:
            head = response.read(5)
            if len(head) < 5:
                raise StreamError("cut", "the stream ended without its end frame")
            flag, length = struct.unpack(">BI", head)
            frame = json.loads(response.read(length) or b"{}")
            if flag & 2:
                response.read()
                if "error" in frame:
                    raise StreamError(frame["error"].get("code", ""), frame["error"].get("message", ""))
                return
            yield frame

    def run(self, box: Box, command: str) -> tuple[int, str]:
        """A command's exit code and standard output, run as the SDK does."""
        process = {"cmd": "/bin/bash", "args": ["-l", "-c", command]}
        output, code = b"", None
        for message in self.stream(box, "process.Process/Start", {"process": process, "stdin": False}):
            event = message["event"]
            if "data" in event:
                output += base64.b64decode(event["data"].get("stdout", ""))
            elif "end" in event:
                code = event["end"].get("exitCode", 0)
        assert code is not None, "no end event"
        return code, output.decode(errors="replace")


class StreamError(Exception):
    """How a stream failed: the Connect code, `HTTP n`, or `cut`."""

    def __init__(self, code: str, message: str):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message
