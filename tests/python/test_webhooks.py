"""Webhooks with the real server and real sandboxes: events are delivered, signed as E2B documents it, also after a crash."""

import base64
import hashlib
import json
import os
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from e2b import Sandbox

from waiting import eventually

SECRET = "secret-for-event-signature-verification"
EVENTS = ["sandbox.lifecycle.created", "sandbox.lifecycle.updated", "sandbox.lifecycle.killed"]

pytestmark = pytest.mark.skipif("CABANA_TEST_SERVER" in os.environ, reason="the server may not send to loopback")


@dataclass
class Delivery:
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict:
        return json.loads(self.body)

    def verify(self) -> None:
        """As in E2B's documentation, which has used both alphabets of base64."""
        digest = hashlib.sha256((SECRET + self.body.decode()).encode()).digest()
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            assert encode(digest).decode().rstrip("=") == self.headers["e2b-signature"]
        assert self.headers["e2b-signature-version"] == "v1"


class Receiver:
    """Receives requests on loopback; responds with `status`."""

    def __init__(self):
        self.got, self.status = [], 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(Delivery({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"

    def of(self, sandbox: str) -> list[str]:
        """Types of the events of a sandbox, in order of arrival."""
        return [d.event["type"] for d in self.got if d.event["sandboxId"] == sandbox]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def sending(server):
    """The server, restarted so that it may send to loopback; restored at the end."""
    before = server.settings
    server.stop()
    server.settings = {**before, "CABANA_WEBHOOKS_ALLOW_PRIVATE": "1", "CABANA_WEBHOOKS_RETRY_SECONDS": "1"}
    server.start()
    yield server
    client = server.client()
    for row in client.get("/events/webhooks").json:
        client.request("DELETE", f"/events/webhooks/{row['id']}")
    client.close()
    server.stop()
    server.settings = before
    server.start()


def add(client, url: str) -> str:
    made = client.request(
        "POST", "/events/webhooks", {"name": "n", "url": url, "enabled": True, "events": EVENTS, "signatureSecret": SECRET}
    )
    assert made.status == 201, made.body
    assert "signatureSecret" not in made.json
    return made.json["id"]


def test_private_addresses_are_refused(api):
    for url in ("http://127.0.0.1/", "http://localhost:3000/", "http://169.254.169.254/", "http://100.96.0.6/", "http://0x7f.1/"):
        answer = api.request(
            "POST", "/events/webhooks", {"name": "n", "url": url, "events": EVENTS, "signatureSecret": SECRET}
        )
        assert answer.status == 400, (url, answer.body)
    assert api.get("/events/webhooks").json == []


def test_events_of_a_sandbox_are_delivered(sending, receiver):
    api = sending.client()
    webhook = add(api, receiver.url)
    sandbox = Sandbox.create(timeout=60, metadata={"project": "x"})
    try:
        sandbox.set_timeout(120)
        eventually(lambda: len(receiver.of(sandbox.sandbox_id)) == 2, what="created and updated arrived")
    finally:
        sandbox.kill()
    eventually(lambda: receiver.of(sandbox.sandbox_id) == EVENTS, what="killed arrived")
    for delivery in receiver.got:
        delivery.verify()
        assert delivery.headers["e2b-webhook-id"] == webhook
        assert delivery.headers["content-type"] == "application/json"
        assert delivery.headers["user-agent"].startswith("cabana/")
        assert delivery.event["eventData"]["sandbox_metadata"] == {"project": "x"}
    told = {event["id"]: event for event in api.events(sandbox.sandbox_id)}
    for delivery in receiver.got:
        assert told[delivery.event["id"]]["timestamp"] == delivery.event["timestamp"]
    eventually(
        lambda: all(d["status"] == "delivered" for d in api.get(f"/events/webhooks/{webhook}/deliveries").json),
        what="the deliveries are noted",
    )
    assert api.request("DELETE", f"/events/webhooks/{webhook}").status == 200
    api.close()


def test_a_crash_loses_no_event(sending, receiver):
    api = sending.client()
    webhook = add(api, receiver.url)
    receiver.status = 503
    box = api.create()
    eventually(lambda: len(receiver.got) > 0, what="the first try")
    api.kill(box)
    api.close()
    sending.crash()
    receiver.status = 200
    before = len(receiver.got)
    sending.start()
    eventually(lambda: receiver.of(box.id)[before:] == [EVENTS[0], EVENTS[2]], what="both arrived after the restart")
    for delivery in receiver.got:
        delivery.verify()
    assert len({d.headers["e2b-delivery-id"] for d in receiver.got}) == len(receiver.got)
    api = sending.client()
    assert api.get(f"/events/webhooks/{webhook}").json["dropped"] == 0
    api.close()
