"""Quotas with the real server and real sandboxes: nothing passes a limit, whatever way it is asked for, and limits outlive a crash."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2b import Sandbox
from e2b.exceptions import RateLimitException
from playwright.sync_api import expect

from server import CABANA

QUOTAS = "/admin/teams/default/quotas"


@pytest.fixture
def limit(api):
    """Sets limits of the team, until the test ends."""

    def limit(**limits: int | None) -> dict:
        answer = api.request("PUT", QUOTAS, {"limits": limits})
        assert answer.status == 200, answer.body
        return {one["kind"]: one for one in answer.json["quotas"]}

    yield limit
    assert api.request("DELETE", QUOTAS).status == 200


def refused(answer, kind: str) -> dict:
    assert answer.status == 429, answer.body
    body = answer.json
    assert (body["error_code"], body["details"]["kind"]) == ("quota_exceeded", kind)
    return body


def used(api, kind: str) -> int:
    return next(one["used"] for one in api.get("/quotas").json["quotas"] if one["kind"] == kind)


def test_races_never_pass_a_limit(server, api, limit):
    """A hundred creations at once with room for ten more: ten succeed, ninety are told why not."""
    limit(instances=used(api, "instances") + 10)
    body = {"templateID": "base", "timeout": 120, "cpuCount": 1, "memoryMB": 128}

    def create(_) -> tuple[int, dict]:
        client = server.client()
        try:
            answer = client.request("POST", "/v2/sandboxes", body)
            return answer.status, answer.json
        finally:
            client.close()

    with ThreadPoolExecutor(100) as pool:
        answers = list(pool.map(create, range(100)))
    made = [body["sandboxID"] for status, body in answers if status == 201]
    try:
        others = [body for status, body in answers if status != 201]
        assert len(made) == 10, others[:1]
        assert all(body["error_code"] == "quota_exceeded" for body in others)
        assert sum(user["used"] for user in others[-1]["details"]["users"]) >= 1
        with pytest.raises(RateLimitException, match="kill sandboxes"):
            Sandbox.create(timeout=60)
    finally:
        for id in made:
            assert api.kill(id)


def test_every_way_to_use_more(api, boxes, limit):
    """Resuming, forking, resizing and snapshots are refused like creating, and what exists stays as it is."""
    first = boxes(cpuCount=1, memoryMB=256)
    assert api.request("POST", f"/sandboxes/{first.id}/pause", {"memory": False}).status == 204
    second = boxes(cpuCount=1, memoryMB=256)
    limit(vcpu=used(api, "vcpu"))
    body = refused(api.request("POST", f"/sandboxes/{first.id}/connect", {"timeout": 60}), "vcpu")
    assert "pause or kill" in body["message"]
    assert api.get(f"/sandboxes/{first.id}").json["state"] == "paused"
    forked = api.request("POST", f"/sandboxes/{second.id}/fork", {}).json[0]
    assert forked["error"]["details"]["kind"] == "vcpu"
    limit(vcpu=None, memory_mb=used(api, "memory_mb"))
    refused(api.request("POST", f"/sandboxes/{second.id}/resize", {"memoryMB": 512}), "memory_mb")
    assert api.get(f"/sandboxes/{second.id}").json["memoryMB"] == 256

    # Below what is used: it keeps running, and may do everything but grow.
    limit(memory_mb=0, instances=0, snapshots=0, templates=0)
    assert api.run(second, "echo still here") == (0, "still here\n")
    assert api.request("POST", f"/sandboxes/{second.id}/timeout", {"timeout": 100}).status == 204
    refused(api.request("POST", f"/sandboxes/{second.id}/snapshots", {}), "snapshots")
    refused(api.request("POST", "/v3/templates", {"name": "one-too-many"}), "templates")
    limit(memory_mb=None)
    assert api.request("POST", f"/sandboxes/{first.id}/connect", {"timeout": 60}).status == 201


def test_limits_survive_a_crash(server, api, limit):
    """Also those of a plan, and the team's own come first."""
    plan = {"name": "Crash", "limits": {"instances": 0, "snapshots": 7}}
    assert api.request("PUT", "/admin/plans/crash-test", plan).status == 200
    try:
        assert api.request("PUT", "/admin/teams/default/plan", {"plan": "crash-test"}).status == 200
        limit(instances=1000)
        server.crash()
        server.start()
        found = server.client().get("/quotas").json
        limits = {one["kind"]: (one["limit"], one["source"]) for one in found["quotas"]}
        assert (limits["instances"], limits["snapshots"]) == ((1000, "team"), (7, "plan"))
        assert server.client().request("DELETE", "/admin/plans/crash-test").status == 409
    finally:
        client = server.client()
        assert client.request("PUT", "/admin/teams/default/plan", {"plan": "self-hosted"}).status == 200
        assert client.request("DELETE", "/admin/plans/crash-test").status == 204


def test_the_command_line(server, api, limit):
    def cabana(*arguments: str) -> subprocess.CompletedProcess:
        command = [CABANA, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, env=server.environment)

    shown = cabana("quota", "set", "default", "instances=77", "vcpu=9")
    assert shown.returncode == 0, shown.stderr
    rows = [line.split("\t") for line in cabana("quota", "ls").stdout.splitlines()]
    assert ["77", "team"] in [row[2:] for row in rows if row[0] == "instances"]
    assert cabana("quota", "unset", "default", "vcpu").returncode == 0
    assert cabana("quota", "set", "default", "gpu=1").returncode != 0
    assert cabana("plan", "set", "cli-test", "turns=2").stdout == "cli-test\n"
    assert "turns=2" in cabana("plan", "ls").stdout
    assert "built in" in cabana("plan", "rm", "self-hosted").stderr
    assert cabana("plan", "rm", "cli-test").returncode == 0


def test_the_page(api, limit, console):
    """An operator sees what is used and changes a limit."""
    limit(instances=1234)
    page = console.open("/settings/limits")
    expect(page.get_by_text("of 1,234")).to_be_visible()
    page.get_by_role("button", name="Change limits…").click()
    field = page.get_by_role("textbox", name="Sandboxes")
    field.fill("-1")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    field.fill("4321")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("of 4,321")).to_be_visible()
