"""Requests that must be refused: each with a 4xx in E2B's form, and without side effects."""

import json

import pytest

BIG = 2**63
LONG = "x" * 5000


def refused(answer, *statuses: int) -> None:
    """The response is an error in E2B's form."""
    allowed = statuses or range(400, 500)
    assert answer.status in allowed, (answer.status, answer.body[:300])
    body = answer.json
    assert body["code"] == answer.status
    assert isinstance(body["message"], str) and body["message"]
    assert body["error_code"] == body["error_code"].lower()


CREATE = {
    "no template": {},
    "template is a number": {"templateID": 7},
    "template is null": {"templateID": None},
    "template is empty": {"templateID": ""},
    "template is a path": {"templateID": "../../etc"},
    "template is long": {"templateID": LONG},
    "template has a NUL": {"templateID": "ba\0se"},
    "unknown template": {"templateID": "no-such-template"},
    "unknown tag": {"templateID": "base:no-such-tag"},
    "timeout negative": {"templateID": "base", "timeout": -1},
    "timeout huge": {"templateID": "base", "timeout": BIG},
    "timeout beyond the limit": {"templateID": "base", "timeout": 10**9},
    "timeout is text": {"templateID": "base", "timeout": "soon"},
    "timeout is a fraction": {"templateID": "base", "timeout": 1.5},
    "no cpu": {"templateID": "base", "cpuCount": 0},
    "negative cpu": {"templateID": "base", "cpuCount": -1},
    "too many cpus": {"templateID": "base", "cpuCount": 10**6},
    "little memory": {"templateID": "base", "memoryMB": 1},
    "memory huge": {"templateID": "base", "memoryMB": BIG},
    "memory negative": {"templateID": "base", "memoryMB": -(2**31)},
    "no disk": {"templateID": "base", "diskSizeMB": 0},
    "disk huge": {"templateID": "base", "diskSizeMB": BIG - 1},
    "metadata is a list": {"templateID": "base", "metadata": ["a"]},
    "metadata value is a number": {"templateID": "base", "metadata": {"a": 1}},
    "metadata value is long": {"templateID": "base", "metadata": {"a": "x" * 100_000}},
    "metadata name is long": {"templateID": "base", "metadata": {LONG: "x"}},
    "metadata has many entries": {"templateID": "base", "metadata": {str(n): "" for n in range(1000)}},
    "environment value is a list": {"templateID": "base", "envVars": {"A": []}},
    "environment name is empty": {"templateID": "base", "envVars": {"": "x"}},
    "environment name has =": {"templateID": "base", "envVars": {"A=B": "x"}},
    "environment name has a NUL": {"templateID": "base", "envVars": {"A\0": "x"}},
    "environment value has a NUL": {"templateID": "base", "envVars": {"A": "x\0y"}},
    "an unknown volume": {"templateID": "base", "volumeMounts": [{"name": "no-such", "path": "/mnt"}]},
    "secure is text": {"templateID": "base", "secure": "yes"},
    "a list": [],
    "a text": "base",
}


@pytest.mark.parametrize("path", ["/v2/sandboxes", "/sandboxes"])
def test_create(path, api, world):
    before = {row["sandboxID"] for row in api.sandboxes()}
    for name, body in CREATE.items():
        answer = api.request("POST", path, body)
        try:
            refused(answer, 400, 404, 422)
        except AssertionError as wrong:
            raise AssertionError(f"{name}: {wrong}") from None
    assert {row["sandboxID"] for row in api.sandboxes()} == before
    if not before:
        world.assert_restored()


def test_create_says_which_field(api):
    for field, value in (("timeout", -1), ("cpuCount", 0), ("memoryMB", 1), ("diskSizeMB", 0)):
        answer = api.request("POST", "/v2/sandboxes", {"templateID": "base", field: value})
        assert field in answer.json["message"], answer.body
        assert answer.json["error_code"] == "invalid_request"
    answer = api.request("POST", "/v2/sandboxes", {"templateID": "no-such-template"})
    assert (answer.status, answer.json["error_code"]) == (404, "template_not_found")


def test_invalid_json(api):
    for body in (
        b"",
        b"{",
        b"\xff\xfe",
        b"null",
        b'{"templateID":"base"',
        b"[" * 10_000,
        b'{"templateID":"base"}garbage',
    ):
        refused(api.request("POST", "/v2/sandboxes", body, {"Content-Type": "application/json"}), 400, 422)


def test_body_too_large(api):
    body = json.dumps({"templateID": "base", "metadata": {"a": "x" * (3 * 2**20)}}).encode()
    refused(api.request("POST", "/v2/sandboxes", body, {"Content-Type": "application/json"}), 400, 413)


@pytest.mark.parametrize("key", ["", "UPPER", "under_score", "x" * 256, "sp ace"])
def test_idempotency_key(key, api):
    answer = api.request("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 60}, {"Idempotency-Key": key})
    refused(answer, 400, 422)


@pytest.mark.parametrize(
    "identifier", ["inosuchsandbox", "I", "..", "%2e%2e", "..%2f..%2fetc", "a_b", "x" * 300, "%00", "%ff", "a%20b", "*"]
)
def test_ids(identifier, api):
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("POST", "/timeout", {"timeout": 1}),
        ("POST", "/refreshes", {"duration": 1}),
        ("POST", "/connect", {"timeout": 1}),
        ("GET", "/logs", None),
        ("GET", "/metrics", None),
    ):
        refused(api.request(method, f"/sandboxes/{identifier}{path}", body), 400, 404)
    refused(api.request("POST", f"/v2/sandboxes/{identifier}/connect", {}), 400, 404)


def test_timeouts(boxes, api):
    box = boxes()
    end = api.get(f"/sandboxes/{box.id}").json["endAt"]
    for body in (
        {"timeout": -1},
        {"timeout": BIG},
        {"timeout": 10**9},
        {"timeout": "x"},
        {"timeout": None},
        {},
        [],
        b"{",
    ):
        refused(api.request("POST", f"/sandboxes/{box.id}/timeout", body), 400, 422)
    for body in ({"duration": -1}, {"duration": 3601}, {"duration": "x"}):
        refused(api.request("POST", f"/sandboxes/{box.id}/refreshes", body), 400, 422)
    for body in ({"timeout": -1}, {"timeout": "x"}, b"{"):
        refused(api.request("POST", f"/v2/sandboxes/{box.id}/connect", body), 400, 422)
    assert api.get(f"/sandboxes/{box.id}").json["endAt"] == end


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=x",
        "nextToken=garbage",
        "nextToken=%00",
        "state=bogus",
        "order=sideways",
        "startedAfter=yesterday",
    ],
)
def test_listing(query, api):
    refused(api.get(f"/v2/sandboxes?{query}"), 400, 422)


def test_routes_and_methods(api):
    for path in ("/", "/nowhere", "/v9/sandboxes", "/sandboxes/a/b/c", "/v2", "//sandboxes", "/sandboxes/.."):
        refused(api.get(path), 404)
    for method, path in (("PATCH", "/sandboxes/iabc"), ("PUT", "/v2/sandboxes"), ("DELETE", "/v2/sandboxes")):
        refused(api.request(method, path), 405)


def test_keys(api, server):
    for headers in (
        {},
        {"X-API-KEY": ""},
        {"X-API-KEY": "e2b_" + "0" * 40},
        {"X-API-KEY": api.key + "0"},
        {"X-API-KEY": api.key[:-1]},
    ):
        api_without = server.client()
        api_without.key = None
        for method, path in (
            ("GET", "/v2/sandboxes"),
            ("POST", "/v2/sandboxes"),
            ("GET", "/sandboxes/iabc"),
            ("GET", "/templates"),
        ):
            refused(api_without.request(method, path, None, headers), 401)
        api_without.close()


def test_cors_allows_any_origin(api):
    preflight = api.request(
        "OPTIONS",
        "/v2/sandboxes",
        headers={
            "Origin": "https://example.test",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-api-key,content-type",
        },
    )
    assert preflight.status in (200, 204)
    assert preflight.headers["access-control-allow-origin"] == "*"
    answer = api.request("GET", "/v2/sandboxes", headers={"Origin": "https://example.test"})
    assert answer.headers["access-control-allow-origin"] == "*"


def test_guest_without_its_token(boxes, api):
    box, other = boxes(), boxes()
    routed = {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "49983"}
    for token in ({}, {"X-Access-Token": "wrong"}, {"X-Access-Token": other.token}, {"X-Access-Token": ""}):
        headers = {**routed, **token}
        assert api.request("GET", "/files?path=/etc/hostname", headers=headers).status == 401
        assert api.request("POST", "/files?path=/tmp/x", b"x", headers).status == 401
        assert api.request("GET", "/metrics", headers=headers).status == 401
        assert api.request("GET", "/envs", headers=headers).status == 401
        for method in ("process.Process/List", "filesystem.Filesystem/Stat"):
            answer = api.request("POST", f"/{method}", {}, headers)
            assert answer.status == 401, (method, answer.body)
    assert api.request("GET", "/health", headers=routed).status == 204


def test_control_paths_are_closed(boxes, api):
    box = boxes()
    for path in (
        "/init",
        "/freeze",
        "/unfreeze",
        "/fsfreeze",
        "/fsthaw",
        "/collapse",
        "/journal",
        "/bridge?port=22",
        "//init",
        "/%69nit",
        "/init/",
    ):
        for method in ("POST", "GET"):
            assert api.request(method, path, headers=box.headers()).status in (400, 404, 405), (method, path)


def test_invalid_guest_calls(boxes, api):
    box = boxes()
    for method, message in {
        "process.Process/Start": {"process": {}},
        "process.Process/NoSuch": {},
        "no.Such/Thing": {},
        "filesystem.Filesystem/Stat": {"path": 7},
        "filesystem.Filesystem/ListDir": {"path": "/", "depth": -1},
        "process.Process/SendSignal": {"process": {"pid": 1}, "signal": "SIGNAL_BOGUS"},
        "process.Process/SendInput": {"process": {"pid": 99999}, "input": {"stdin": "!!not base64!!"}},
        "process.Process/Update": {"process": {"pid": 99999}, "pty": {"size": {"cols": 2**32, "rows": 1}}},
    }.items():
        answer = api.call(box, method, message)
        assert 400 <= answer.status < 600 and answer.status not in (500, 502), (method, answer.status, answer.body)
    for body in (b"", b"{", b"\xff", b"[" * 5000):
        answer = api.request(
            "POST", "/process.Process/List", body, {**box.headers(), "Content-Type": "application/json"}
        )
        assert answer.status < 500, (body[:10], answer.status)
    for body in (b"", b"\0", b"\0\xff\xff\xff\xff{}", b"\x01\0\0\0\x02{}", b"\x7f\0\0\0\x02{}", b"\0\0\0\0\x03{}}"):
        response = api.open(
            "POST", "/process.Process/Start", body, {**box.headers(), "Content-Type": "application/connect+json"}
        )
        text = response.read()
        assert response.status < 500 and (response.status != 200 or b'"error"' in text), (body, response.status, text)
    assert api.run(box, "echo alive") == (0, "alive\n")
