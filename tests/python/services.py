"""Services and their previews: calls of the API, requests as browsers and programs send them, and people who are signed in without a
browser. Every request has a connection of its own, because the server may have been restarted."""

import hashlib
import http.client
import json
import os
import socket
import sqlite3
import ssl
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator
from urllib.parse import parse_qs, urlsplit

import websockets.sync.client

import canary
from server import Server
from tool_calls import events
from waiting import eventually
from wire import Answer, Box

#: What browsers add to their requests.
NAVIGATION = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html,*/*;q=0.8"}
FRAMED = {**NAVIGATION, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}
SCRIPTED = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty", "Accept": "*/*"}
PREFETCHED = {**NAVIGATION, "Sec-Purpose": "prefetch;prerender"}
#: How long a service may take on a machine that is busy with other things.
PATIENCE = 30
OVER = ("running", "error", "stopped")


@dataclass
class Reply:
    """An answer whose headers may be repeated."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]

    def header(self, name: str) -> str:
        return ", ".join(self.all(name))

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        """The code of an error."""
        try:
            return self.json.get("error_code")
        except ValueError:
            return None


class Refused(Exception):
    def __init__(self, answer: Answer):
        super().__init__(f"{answer.status} {answer.body[:600].decode(errors='replace')}")
        self.status, self.code = answer.status, answer.json.get("error_code") if answer.body.startswith(b"{") else None


class Services:
    """The API, with a key."""

    def __init__(self, server: Server, key: str | None = None):
        self.server, self.key = server, key

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, timeout: float = 90) -> Answer:
        client = self.server.client(timeout)
        try:
            return client.request(method, path, body, {"X-API-KEY": self.key or self.server.key, **(headers or {})})
        finally:
            client.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The body of an answer that is not an error."""
        answer = self.send(method, path, body)
        if not 200 <= answer.status < 300:
            raise Refused(answer)
        return answer.json if answer.body else None

    def start(self, box: Box | str, command: str, wait: int = PATIENCE, **fields: Any) -> dict:
        made = self.ask("POST", f"/sandboxes/{getattr(box, 'id', box)}/services?waitSeconds={wait}", {"command": command, **fields})
        assert made["id"].startswith("svc_") and made["command"] == command, made
        return made

    def running(self, box: Box | str, command: str, **fields: Any) -> dict:
        made = self.start(box, command, **fields)
        assert made["state"] == "running", made
        return made

    def refused(self, status: int, code: str, method: str, path: str, body: Any = None) -> str:
        """The message of an error that is expected."""
        answer = self.send(method, path, body)
        assert (answer.status, answer.json.get("error_code")) == (status, code), (answer.status, answer.body)
        assert answer.json["code"] == status and answer.json["message"], answer.body
        return answer.json["message"]

    def listed(self, box: Box | str) -> list[dict]:
        return self.ask("GET", f"/sandboxes/{getattr(box, 'id', box)}/services")

    def get(self, id: str) -> dict:
        return self.ask("GET", f"/services/{id}")

    def change(self, id: str, **fields: Any) -> dict:
        return self.ask("PATCH", f"/services/{id}", fields)

    def act(self, id: str, action: str, wait: int = PATIENCE) -> dict:
        """`start`, `stop` or `restart`."""
        return self.ask("POST", f"/services/{id}/{action}?waitSeconds={wait}", {})

    def forget(self, id: str) -> None:
        self.ask("DELETE", f"/services/{id}")

    def until(self, id: str, *states: str, within: float = PATIENCE) -> dict:
        """Waits for one of the states."""
        found = lambda: (now := self.get(id))["state"] in states and now
        try:
            return eventually(found, within, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{self.get(id)} is not {states} after {within} s") from error

    def lines(self, id: str, tail: int = 200) -> list[str]:
        return self.ask("GET", f"/services/{id}/logs?tail={tail}")["lines"]

    def says(self, id: str, text: str, within: float = PATIENCE) -> None:
        eventually(lambda: any(text in line for line in self.lines(id)), within, every=0.1, what=f"{text!r} in the log of {id}")

    @contextmanager
    def following(self, id: str, tail: int = 200, timeout: float = 60) -> Iterator[Iterator[tuple[str, dict]]]:
        """Events of a log that is followed."""
        client = self.server.client(timeout)
        try:
            headers = {"X-API-KEY": self.key or self.server.key, "Accept": "text/event-stream"}
            response = client.open("GET", f"/services/{id}/logs?tail={tail}&follow=true", None, headers)
            assert response.status == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream"), response.headers
            yield events(response)
        finally:
            client.close()

    def open(self, id: str, **fields: Any) -> dict:
        return self.ask("POST", f"/services/{id}/open", fields)

    def link(self, id: str, **fields: Any) -> dict:
        made = self.ask("POST", f"/services/{id}/links", fields)
        canary.remember("a link to a service", urlsplit(made["url"]).hostname.split(".")[0])
        return made

    # Sandboxes

    def pause(self, box: Box, memory: bool = True) -> None:
        self.ask("POST", f"/sandboxes/{box.id}/pause", {"memory": memory})

    def connect(self, box: Box, timeout: int = 600) -> None:
        self.ask("POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": timeout})

    def phase(self, box: Box) -> str:
        return self.ask("GET", f"/sandboxes/{box.id}")["phase"]

    def write(self, box: Box, path: str, content: str | bytes) -> None:
        raw = {"Content-Type": "application/octet-stream"}
        content = content.encode() if isinstance(content, str) else content
        answer = self.send("PUT", f"/sandboxes/{box.id}/files/content?path={path}", content, raw)
        assert answer.status == 200, answer.body

    def run(self, box: Box, command: str) -> str:
        client = self.server.client()
        try:
            code, said = client.run(box, command)
        finally:
            client.close()
        assert code == 0, (command, code, said)
        return said


class Person:
    """Somebody who is signed in; what their browser would send, without one."""

    def __init__(self, server: Server, key: str | None = None):
        """By a code of the operator's, or with a key."""
        self.server = server
        if key is None:
            made = Services(server).ask("POST", "/auth/codes")
            path, body = "/auth/welcome", {"code": made["url"].partition("#")[2]}
        else:
            path, body = "/auth/sign-in", {"apiKey": key}
        answer = fetch(server, console_host(server), path, "POST", body=body, **self.own)
        assert answer.status == 200, (answer.status, answer.body)
        self.session, self.team = answer.json["id"], answer.json["team"]["id"]
        (self.cookie,) = [line.split(";")[0] for line in answer.all("set-cookie")]
        canary.remember("a session", self.cookie.partition("=")[2])

    @property
    def own(self) -> dict[str, str]:
        """What the console's own requests have."""
        return {"Origin": console_origin(self.server), "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}

    def ask(self, method: str, path: str, body: Any = None) -> Reply:
        headers = {**self.own, "Cookie": self.cookie, "X-Cabana-Team": self.team}
        return fetch(self.server, console_host(self.server), path, method, body=body, **headers)

    def open(self, id: str, path: str = "/", frame: bool = False) -> dict:
        answer = self.ask("POST", f"/services/{id}/open", {"path": path, "frame": frame})
        assert answer.status == 200, (answer.status, answer.body)
        return answer.json

    def enter(self, id: str, path: str = "/") -> "Entered":
        """Opens a service as a tab does."""
        opened = urlsplit(self.open(id, path)["url"])
        assert opened.path == "/.cabana/enter", opened
        canary.remember("a ticket", parse_qs(opened.query)["ticket"][0])
        answer = fetch(self.server, opened.netloc, f"{opened.path}?{opened.query}", **NAVIGATION)
        assert answer.status in (302, 303), (answer.status, answer.body)
        (cookie,) = [line.split(";")[0] for line in answer.all("set-cookie")]
        canary.remember("a view", cookie.partition("=")[2])
        return Entered(opened.netloc, cookie, answer)

    def sign_out(self) -> None:
        assert self.ask("DELETE", "/auth/session").status == 204


@dataclass
class Entered:
    """A browser that may see one preview."""

    host: str
    cookie: str
    reply: Reply


def console_host(server: Server) -> str:
    return f"{server.settings['CABANA_DOMAIN'] if server.secure else 'localhost'}:{server.port}"


def console_origin(server: Server) -> str:
    return f"{'https' if server.secure else 'http'}://{console_host(server)}"


def host_of(service: dict) -> str:
    return urlsplit(service["url"]).netloc


def view_cookie(server: Server) -> str:
    return "__Host-cabana_view" if server.secure else f"cabana_view_{server.port}"


def connection(server: Server, timeout: float = 60) -> http.client.HTTPConnection:
    if server.secure:
        context = ssl.create_default_context(cafile=server.ca)
        return http.client.HTTPSConnection("127.0.0.1", server.port, timeout=timeout, context=context)
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)


def fetch(server: Server, host: str, path: str = "/", method: str = "GET", body: Any = None, timeout: float = 60, **headers: str) -> Reply:
    """One request to a host of the server. Underscores in names of headers are hyphens."""
    sent = {"Host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body is not None and not isinstance(body, bytes):
        body, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
    link = connection(server, timeout)
    try:
        link.request(method, path, body, sent)
        response = link.getresponse()
        return Reply(response.status, response.getheaders(), response.read())
    finally:
        link.close()


@contextmanager
def streaming(server: Server, host: str, path: str, timeout: float = 60, **headers: str) -> Iterator[http.client.HTTPResponse]:
    """A response that is read while it arrives."""
    link = connection(server, timeout)
    try:
        link.request("GET", path, None, {"Host": host, **headers})
        yield link.getresponse()
    finally:
        link.close()


def websocket(server: Server, host: str, path: str = "/", **headers: str):
    """A WebSocket to a host of the server."""
    scheme, options = "ws", {}
    if server.secure:
        scheme, options = "wss", {"ssl": ssl.create_default_context(cafile=server.ca), "server_hostname": "127.0.0.1"}
    sock = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    return websockets.sync.client.connect(
        f"{scheme}://{host}{path}", sock=sock, additional_headers=headers, proxy=None, compression=None, open_timeout=30, close_timeout=5, **options
    )


def second_team(server: Server) -> str:
    """A key of another team; there is no call that makes one. Restarts the server, which keeps keys in memory."""
    key, now = f"e2b_{os.urandom(20).hex()}", int(time.time() * 1e6)
    server.stop()
    with sqlite3.connect(server.data / "cabana.db") as store:
        store.execute("insert or ignore into teams (id, name, created_at) values ('second', 'second', ?)", (now,))
        store.execute("delete from api_keys where team = 'second'")
        row = (str(uuid.uuid4()), "second", hashlib.sha256(key.encode()).digest(), "second", key[:6], key[-4:], now)
        store.execute("insert into api_keys (id, team, hash, name, prefix, suffix, created_at) values (?, ?, ?, ?, ?, ?, ?)", row)
    store.close()
    server.start()
    return canary.remember("an API key", key)
