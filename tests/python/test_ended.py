"""Sandboxes that are gone: which, why, and their last lines; searching; who made them. E2B's clients do not find them, as before."""

import pytest
from e2b import Sandbox
from e2b.exceptions import NotFoundException

from file_api import refused
from tool_calls import Tools
from waiting import eventually


@pytest.fixture
def ended(api):
    def ask(query: str = "") -> list[dict]:
        answer = api.request("GET", f"/v2/sandboxes?state=ended{query}")
        assert answer.status == 200, answer.body
        return answer.json

    return ask


def row_of(rows: list[dict], id: str) -> dict:
    return next(row for row in rows if row["sandboxID"] == id)


def test_a_killed_sandbox_tells_why_and_what_it_did(api, boxes, ended):
    box = boxes(metadata={"task": "Tombstone-7"})
    assert all(row["sandboxID"] != box.id for row in ended())
    refused(api.request("GET", f"/sandboxes/{box.id}/tombstone"), 409, "sandbox_state_conflict")
    Tools(api, box.id).call("sandbox_run_command", {"command": "echo $'\\e[31m' <b>; exit 3"})
    api.kill(box)
    row = row_of(ended(), box.id)
    assert (row["phase"], row["state"], row["metadata"]) == ("ended", "paused", {"task": "Tombstone-7"})
    assert row["reason"].startswith("was killed by request of API key") and row["since"].startswith("20")
    assert 1 <= len(row["lastLines"]) <= 20
    assert any("ended: exit" in line for line in row["lastLines"]), row["lastLines"]
    assert all(line.isprintable() and len(line.encode()) <= 1024 for line in row["lastLines"])
    assert row["createdBy"]["kind"] == "key" and row["createdBy"]["name"] and row["createdBy"]["id"] in row["reason"]
    detail = api.request("GET", f"/sandboxes/{box.id}/tombstone").json
    assert {**detail, **row} == detail
    assert "envdAccessToken" not in detail, "its secrets are deleted"
    assert detail["lifecycle"]["onTimeout"] == "kill"


def test_older_clients_see_what_they_saw(api, boxes, server):
    box = boxes()
    listed = api.request("GET", "/v2/sandboxes").json
    mine = row_of(listed, box.id)
    assert "lastLines" not in mine and mine["createdBy"]["kind"] == "key"
    assert box.id in [info.sandbox_id for info in Sandbox.list().next_items()]
    api.kill(box)
    refused(api.request("GET", f"/sandboxes/{box.id}"), 404, "sandbox_not_found")
    assert all(row["sandboxID"] != box.id for row in api.request("GET", "/v2/sandboxes").json)
    assert all(info.sandbox_id != box.id for info in Sandbox.list().next_items())
    with pytest.raises(NotFoundException):
        Sandbox.connect(box.id)
    refused(api.request("GET", "/v2/sandboxes?state=ended,running"), 400, "invalid_request")
    refused(api.request("GET", "/v2/sandboxes?state=gone"), 400, "invalid_request")
    refused(api.request("GET", "/sandboxes/iaaaaaaaaaaaaaaaaaaaa/tombstone"), 404, "sandbox_not_found")


def test_pages_of_ended_sandboxes_have_no_gaps(api, boxes, ended):
    made = [boxes(metadata={"page": "ended"}) for _ in range(5)]
    order = [made[n] for n in (3, 0, 4, 1, 2)]
    for box in order:
        api.kill(box)
    wanted = [box.id for box in reversed(order)]
    found, token = [], ""
    while True:
        answer = api.request("GET", f"/v2/sandboxes?state=ended&metadata=page%3Dended&limit=2{token}")
        page = [row["sandboxID"] for row in answer.json]
        assert len(page) <= 2
        found += [id for id in page if id in wanted]
        if "x-next-token" not in answer.headers:
            break
        token = f"&nextToken={answer.headers['x-next-token']}"
    assert found == wanted, "the newest end first"
    assert [row["sandboxID"] for row in ended("&metadata=page%3Dended&order=asc") if row["sandboxID"] in wanted] == wanted[::-1]


def test_searching(api, boxes):
    box = boxes(metadata={"purpose": "Übung 100%_x"})
    other = boxes()

    def found(text: str, more: str = "") -> set[str]:
        answer = api.request("GET", f"/v2/sandboxes?q={text}{more}")
        assert answer.status == 200, answer.body
        return {row["sandboxID"] for row in answer.json} & {box.id, other.id}

    assert found(box.id[3:12]) == {box.id} and found(box.id.upper()) == {box.id}
    assert found("100%25_X") == {box.id} and found("100%25%25") == set() and found("purpose") == set()
    assert found("BAS") == {box.id, other.id}, "the template's alias"
    assert found("'%20or%201=1%20--") == set()
    api.kill(box)
    assert found("100%25_x") == set() and found("100%25_x", "&state=ended") == {box.id}
    refused(api.request("GET", f"/v2/sandboxes?q={'x' * 257}"), 400, "invalid_request")


def test_a_failed_sandbox_keeps_its_last_lines(server, api, boxes):
    """Its guest is gone; what it had noted when the sandbox last worked is known."""
    box = boxes()
    tools = Tools(api, box.id)
    tools.ok("run_command", command="echo the last thing; head -c 300M /dev/zero | sha256sum")
    # The journal is read with the measurements of the sandbox, every few seconds.
    eventually(lambda: len(api.request("GET", f"/sandboxes/{box.id}/metrics").json) >= 2, 30)
    server.kill_guest(box.id)
    row = eventually(lambda: row_of(api.request("GET", "/v2/sandboxes?state=failed").json, box.id))
    assert row["phase"] == "failed" and row["reason"], row
    assert any("sha256sum" in line for line in row["lastLines"]), row["lastLines"]
    assert api.request("GET", f"/sandboxes/{box.id}/tombstone").json["lastLines"] == row["lastLines"]
    api.kill(box)
    gone = api.request("GET", f"/sandboxes/{box.id}/tombstone").json
    assert (gone["phase"], gone["lastLines"]) == ("ended", row["lastLines"]), "they stay"
