"""Generated requests, valid and invalid, to everything in /openapi.json: the server never fails, and responds as documented."""

import os
import re
import subprocess
import sys

import pytest

# All checks but two: `object_level_authorization` needs a second team, and `positive_data_acceptance` has its own test.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
    "ensure_resource_availability",
    "ignored_auth",
)


@pytest.fixture
def key(api):
    """A key for this test: some requests create and delete keys, webhooks and templates."""
    before = {row["id"] for row in api.get("/api-keys").json}
    templates = {row["templateID"] for row in api.get("/templates").json}
    made = api.request("POST", "/api-keys", {"name": "generated requests"})
    assert made.status == 201, made.body
    yield made.json["key"]
    for row in api.get("/api-keys").json:
        if row["id"] not in before:
            api.request("DELETE", f"/api-keys/{row['id']}")
    for row in api.get("/templates").json:
        if row["templateID"] not in templates:
            api.request("DELETE", f"/templates/{row['templateID']}")
    for row in api.get("/events/webhooks").json:
        api.request("DELETE", f"/events/webhooks/{row['id']}")


@pytest.fixture
def document(api, tmp_path):
    """The server's OpenAPI document."""
    (tmp_path / "openapi.json").write_bytes(api.get("/openapi.json").body)
    return tmp_path / "openapi.json"


def generate(server, key, document, *options: str) -> int:
    """Sends requests generated from the document; returns their number. All responses were valid."""
    done = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", document, "--url", server.url,
            "--header", f"X-API-KEY: {key}",
            "--seed", "7", "--no-shrink", "--continue-on-failure", "--no-color",
            "--suppress-health-check", "all", "--warnings", "off",
            *options,
        ],
        env={**os.environ, "COLUMNS": "140"},
        cwd=document.parent,
        capture_output=True,
        text=True,
        timeout=900,  # only a safeguard; the duration of thousands of requests is not tested
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    return int(re.search(r"(\d+) generated", done.stdout)[1])


def test_generated_requests(server, key, document, world, figures):
    count = generate(server, key, document, "--checks", ",".join(CHECKS), "--max-examples", "5")
    server.end_all_sandboxes()
    world.assert_restored(30)
    figures.append(f"generated requests: {count} cases, all answered as described")
    assert count > 500


def test_valid_requests_are_accepted(server, key, document):
    """Reads with self-contained parameters. A `nextToken` or cursor comes from an earlier response and `start` is before `end`, which no
    document can express; nor that a request is to become a WebSocket; creations may name missing objects; this server has no wallets."""
    count = generate(
        server, key, document, "--checks", "positive_data_acceptance", "--mode", "positive", "--max-examples", "30",
        "--phases", "fuzzing", "--include-method", "GET", "--exclude-tag", "later",
        "--exclude-path-regex", "/metrics|^/chats$|^/v2/sandboxes$|^/v2/templates$|^/snapshots$|/tags/groups$|/assignments$|^/live$|/terminal$|^/usage$|^/wallet",
    )  # fmt: skip
    assert count > 200
