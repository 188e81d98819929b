"""Secrets are never logged: they are sent here in every way, valid and not; the logs are checked at the end of the run (conftest.py)."""

import json

import pytest

import canary
from wire import Client


@pytest.fixture
def cleared(api):
    yield
    for row in api.get("/events/webhooks").json:
        api.request("DELETE", f"/events/webhooks/{row['id']}")
    for row in api.get("/secrets").json:
        api.request("DELETE", f"/secrets/{row['secretID']}")


def test_secrets_are_sent_in_every_way(server, api, boxes, cleared):
    env = canary.secret("environment variable")
    box = boxes(envVars={"TOKEN": env}, metadata={"purpose": "canary"})
    assert api.run(box, "echo $TOKEN") == (0, env + "\n")

    hook = {"name": "canary", "url": "https://example.com/", "events": ["sandbox.lifecycle.paused"]}
    bad = {**hook, "url": "nonsense"}
    for body in (hook, bad):
        answer = api.request("POST", "/events/webhooks", {**body, "signatureSecret": canary.secret("webhook secret")})
        assert answer.status < 500, answer.body

    for name in ("CANARY", "not a name"):
        answer = api.request("POST", "/secrets", {"name": name, "value": canary.secret("secret value"), "hosts": ["a.org"]})
        assert answer.status < 500, answer.body

    proxy = {"address": "192.0.2.1:1080", "username": "u", "password": canary.secret("egress proxy password")}
    answer = api.request("POST", "/v2/sandboxes", {"templateID": "none", "network": {"egressProxy": proxy}})
    assert 400 <= answer.status < 500, answer.body

    registry = {"type": "registry", "username": "u", "password": canary.secret("registry password")}
    made = api.request("POST", "/v3/templates", {"name": "canary"})
    assert made.status < 300, made.body
    template, build = made.json["templateID"], made.json["buildID"]
    spec = {"fromImage": "127.0.0.1:1/none:1", "fromImageRegistry": registry, "steps": []}
    answer = api.request("POST", f"/v2/templates/{template}/builds/{build}", spec)
    assert answer.status < 500, answer.body
    api.request("DELETE", f"/templates/{template}")

    # In wrong places, malformed, and with errors.
    for path in ("/v2/sandboxes", "/events/webhooks", "/api-keys", "/secrets", "/v3/templates"):
        value = canary.secret("a malformed body")
        for body in (f'{{"value": "{value}", ', f'["{value}"]', json.dumps({"envVars": [value], "name": {"a": value}})):
            assert api.request("POST", path, body.encode()).status < 500
    wrong = canary.remember("a wrong API key", "e2b_" + canary.secret("a wrong API key"))
    for headers in ({"X-API-KEY": wrong}, {"X-API-KEY": "", "Authorization": f"Bearer {wrong}"}):
        assert api.request("GET", "/teams", headers=headers).status == 401
    token = canary.secret("a wrong access token")
    stranger = Client(server.url, None)
    for headers in (
        {"X-Access-Token": token},
        {**box.headers(), "X-Access-Token": token},
        {**box.headers(8000), "e2b-traffic-access-token": token, "Authorization": f"Bearer {token}"},
    ):
        assert stranger.request("GET", "/files?path=/etc/hosts", headers=headers).status >= 400
    signature = canary.secret("a signature")
    assert stranger.request("GET", f"/files?path=/etc/hosts&signature=v1_{signature}").status == 401
    stranger.close()
    assert not canary.leaks(server.log.read_text(errors="replace"))


def test_a_logged_secret_is_found(tmp_path):
    """The control of the check itself."""
    value = canary.secret("control")
    log = tmp_path / "server-1.log"
    log.write_text(f"2026-01-01 INFO request value={value}\n")
    canary.check(log)
    assert [leak for leak in canary.found() if "control" in leak and "request value=" in leak]
    canary.found()[:] = [leak for leak in canary.found() if "control" not in leak]
