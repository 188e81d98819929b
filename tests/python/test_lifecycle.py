"""The lifecycle of a sandbox through the SDK: create, find, extend, expire, kill, and errors after its end."""

import time
import uuid
from datetime import datetime, timedelta, timezone

import pytest
from e2b import (
    AuthenticationException,
    NotFoundException,
    Sandbox,
    SandboxException,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)

from waiting import eventually, within


def test_create_run_kill(sandboxes):
    sandbox = sandboxes()
    assert sandbox.sandbox_id.isalnum() and sandbox.sandbox_id.islower()
    assert sandbox.commands.run("echo hello").stdout == "hello\n"
    assert sandbox.is_running()
    assert sandbox.kill() is True
    assert not sandbox.is_running()
    assert sandbox.kill() is False


def test_context_manager(server):
    with Sandbox.create(timeout=60) as sandbox:
        assert sandbox.commands.run("true").exit_code == 0
    assert not sandbox.is_running()


def test_info(sandboxes):
    before = datetime.now(timezone.utc)
    sandbox = sandboxes(metadata={"purpose": "info"}, timeout=100)
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id
    assert info.metadata == {"purpose": "info"}
    assert info.state == SandboxState.RUNNING
    assert info.name == "base"
    assert info.cpu_count >= 1 and info.memory_mb >= 128
    assert abs(info.started_at - before) < timedelta(seconds=10)
    assert timedelta(seconds=90) < info.end_at - info.started_at < timedelta(seconds=110)
    assert info.lifecycle == {"on_timeout": "kill", "auto_resume": False}


def test_default_timeout_is_five_minutes(server):
    with Sandbox.create() as sandbox:
        info = sandbox.get_info()
        assert timedelta(seconds=290) < info.end_at - info.started_at < timedelta(seconds=310)


def test_environment_of_the_sandbox(sandboxes):
    sandbox = sandboxes(envs={"COLOUR": "blue", "SPACED": "a b\tc 'd' \"e\" $f"})
    assert sandbox.commands.run("echo $COLOUR").stdout == "blue\n"
    assert sandbox.commands.run('printf %s "$SPACED"').stdout == "a b\tc 'd' \"e\" $f"
    assert sandbox.commands.run("echo $COLOUR", envs={"COLOUR": "red"}).stdout == "red\n"
    assert sandbox.commands.run("echo $E2B_SANDBOX").stdout == "true\n"
    assert sandbox.commands.run("echo $E2B_SANDBOX_ID").stdout == sandbox.sandbox_id + "\n"


def test_connect_to_a_running_sandbox(sandbox):
    other = Sandbox.connect(sandbox.sandbox_id)
    other.files.write("/tmp/shared", "from the other")
    assert sandbox.files.read("/tmp/shared") == "from the other"


def test_connect_never_shortens(sandboxes):
    sandbox = sandboxes(timeout=300)
    end = sandbox.get_info().end_at
    sandbox.connect(timeout=10)
    assert sandbox.get_info().end_at == end
    sandbox.connect(timeout=900)
    assert sandbox.get_info().end_at > end + timedelta(seconds=500)


def test_set_timeout_both_ways(sandboxes):
    sandbox = sandboxes(timeout=300)
    sandbox.set_timeout(30)
    left = sandbox.get_info().end_at - datetime.now(timezone.utc)
    assert timedelta(seconds=20) < left <= timedelta(seconds=31)
    sandbox.set_timeout(600)
    assert sandbox.get_info().end_at - datetime.now(timezone.utc) > timedelta(seconds=590)


def test_expiry(sandboxes):
    sandbox = sandboxes(timeout=2)
    started = time.monotonic()
    eventually(lambda: not sandbox.is_running(), within=10)
    assert time.monotonic() - started > 0.5
    within(6, started, "expiry after 2 s")
    assert sandbox.kill() is False


def test_timeout_zero_ends_it_now(sandboxes):
    sandbox = sandboxes()
    sandbox.set_timeout(0)
    eventually(lambda: not sandbox.is_running(), within=5)


def test_errors_for_ended_sandboxes(sandboxes):
    sandbox = sandboxes()
    sandbox.kill()
    with pytest.raises(NotFoundException):
        sandbox.get_info()
    with pytest.raises(NotFoundException):
        sandbox.set_timeout(10)
    with pytest.raises(NotFoundException):
        Sandbox.connect(sandbox.sandbox_id)
    with pytest.raises(TimeoutException):
        sandbox.commands.run("true")
    with pytest.raises(TimeoutException):
        sandbox.files.read("/etc/hostname")


def test_errors_name_the_end_cause(boxes, api):
    killed, expired = boxes(), boxes(timeout=1)
    api.kill(killed)
    eventually(lambda: api.get(f"/sandboxes/{expired.id}").status == 404)
    told = api.get(f"/sandboxes/{killed.id}")
    assert told.status == 404 and "killed" in told.json["message"], told.body
    told = api.get(f"/sandboxes/{expired.id}")
    assert told.status == 404 and "timeout" in told.json["message"], told.body


def test_events_of_a_lifecycle(boxes, api):
    box = boxes()
    api.kill(box)
    events = eventually(lambda: (e := api.events(box)) and e[-1]["type"].endswith("killed") and e)
    kinds = [event["type"] for event in events]
    assert kinds.index("sandbox.lifecycle.created") < kinds.index("sandbox.lifecycle.killed")
    for event in events:
        assert event["version"] == "v1" and event["id"] and event["sandboxId"] == box.id
        datetime.fromisoformat(event["timestamp"])


def test_list_by_metadata(sandboxes):
    tag = uuid.uuid4().hex
    odd = "a b&c=d %2F/ü"
    wanted = sandboxes(metadata={"run": tag, "name with space": odd})
    sandboxes(metadata={"run": tag})
    found = Sandbox.list(SandboxQuery(metadata={"run": tag, "name with space": odd})).next_items()
    assert [row.sandbox_id for row in found] == [wanted.sandbox_id]
    assert found[0].metadata == {"run": tag, "name with space": odd}
    assert len(Sandbox.list(SandboxQuery(metadata={"run": tag})).next_items()) == 2
    assert Sandbox.list(SandboxQuery(metadata={"run": "another"})).next_items() == []


def test_list_in_pages(sandboxes):
    tag = uuid.uuid4().hex
    ids = [sandboxes(metadata={"run": tag}).sandbox_id for _ in range(5)]
    query = SandboxQuery(metadata={"run": tag}, state=[SandboxState.RUNNING])
    for order, expected in (("asc", ids), ("desc", ids[::-1]), (None, ids[::-1])):
        pages, paginator = [], Sandbox.list(query, limit=2, order=order)
        while paginator.has_next:
            pages.append([row.sandbox_id for row in paginator.next_items()])
        assert [len(page) for page in pages if page] == [2, 2, 1], (order, pages)
        assert sum(pages, []) == expected, order


def test_list_by_template_time_and_state(sandboxes):
    tag = uuid.uuid4().hex
    first = sandboxes(metadata={"run": tag})
    started = first.get_info().started_at
    metadata = {"run": tag}

    def listed(**query) -> list[str]:
        return [row.sandbox_id for row in Sandbox.list(SandboxQuery(metadata=metadata, **query)).next_items()]

    assert listed(template="base") == [first.sandbox_id]
    assert listed(template=first.get_info().template_id) == [first.sandbox_id]
    assert listed(template="no-such-template") == []
    assert listed(started_after=started - timedelta(seconds=1)) == [first.sandbox_id]
    assert listed(started_after=started + timedelta(seconds=5)) == []
    assert listed(state=[SandboxState.PAUSED]) == []


def test_killed_sandboxes_are_not_listed(sandboxes):
    tag = uuid.uuid4().hex
    sandbox = sandboxes(metadata={"run": tag})
    sandbox.kill()
    assert Sandbox.list(SandboxQuery(metadata={"run": tag})).next_items() == []


def test_unknown_template(server):
    with pytest.raises(SandboxException, match="no-such-template") as caught:
        Sandbox.create("no-such-template")
    assert caught.value.status_code == 404


def test_wrong_key(server):
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "0" * 40)
    with pytest.raises(AuthenticationException):
        Sandbox.list(api_key="e2b_" + "0" * 40).next_items()


def test_invalid_values(server):
    for options in ({"timeout": -1}, {"timeout": 10**9}, {"metadata": {"k": "v" * 10**6}}):
        with pytest.raises(SandboxException) as caught:
            Sandbox.create(**options)
        assert caught.value.status_code == 400, options


def test_idempotency_key(sandboxes):
    key = str(uuid.uuid4())
    first = sandboxes(idempotency_key=key, metadata={"a": "b"})
    again = Sandbox.create(idempotency_key=key, timeout=120, metadata={"a": "b"})
    assert again.sandbox_id == first.sandbox_id
    with pytest.raises(SandboxException) as caught:
        Sandbox.create(idempotency_key=key, timeout=121)
    assert caught.value.status_code in (409, 422)


def test_metrics(sandbox):
    sandbox.commands.run("head -c 20M /dev/zero > /tmp/blob")
    metrics = eventually(lambda: sandbox.get_metrics(), within=15, every=0.2)
    latest = metrics[-1]
    assert latest.cpu_count == sandbox.get_info().cpu_count
    assert 0 <= latest.cpu_used_pct <= 100 * latest.cpu_count + 10
    assert 0 < latest.mem_used <= latest.mem_total == sandbox.get_info().memory_mb * 2**20
    assert 0 <= latest.disk_used <= latest.disk_total


def test_resources_of_one_sandbox(boxes, api):
    box = boxes(cpuCount=1, memoryMB=256, diskSizeMB=128)
    detail = api.get(f"/sandboxes/{box.id}").json
    assert (detail["cpuCount"], detail["memoryMB"], detail["diskSizeMB"]) == (1, 256, 128)
    code, output = api.run(box, "head -c 200M /dev/zero > ~/blob; stat -c %s ~/blob")
    assert int(output) < 160 * 2**20, "the disk limit holds"


def test_v1_create(api):
    answer = api.request("POST", "/sandboxes", {"templateID": "base"})
    assert answer.status == 201, answer.body
    body = answer.json
    assert not body.get("envdAccessToken") and body["clientID"] and body["envdVersion"]
    info = api.get(f"/sandboxes/{body['sandboxID']}").json
    life = datetime.fromisoformat(info["endAt"]) - datetime.fromisoformat(info["startedAt"])
    assert timedelta(seconds=10) < life < timedelta(seconds=20)
    # Ids with E2B's former suffix mean the same sandbox.
    assert api.get(f"/sandboxes/{body['sandboxID']}-{body['clientID']}").status == 200
    answer = api.request("POST", f"/sandboxes/{body['sandboxID']}/refreshes", {"duration": 60})
    assert answer.status == 204
    assert api.request("POST", f"/sandboxes/{body['sandboxID']}/connect", {"timeout": 90}).status == 200
    assert any(row["sandboxID"] == body["sandboxID"] for row in api.get("/sandboxes").json)
    assert api.kill(body["sandboxID"])
    secure = api.request("POST", "/sandboxes", {"templateID": "base", "secure": True})
    assert secure.status == 201 and secure.json["envdAccessToken"]
    assert api.kill(secure.json["sandboxID"])
