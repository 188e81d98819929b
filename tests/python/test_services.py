"""Services over REST: what is asked for is what runs, states follow from facts and never get stuck, and bad input has no effect."""

import json
import random
import re
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

import inside
from services import OVER, Person, Refused, Services, fetch, host_of, second_team
from sockets import Live
from tool_calls import Tools
from waiting import eventually

APP = "app.py"


@pytest.fixture
def services(server) -> Services:
    return Services(server)


@pytest.fixture
def box(boxes, services):
    """A sandbox with the app."""
    box = boxes(timeout=600)
    services.write(box, APP, inside.APP)
    return box


@pytest.fixture
def restarted(server):
    """The server runs again after the test."""
    yield
    if server.process is None or server.process.poll() is not None:
        server.process = None
        server.start()


def app(port: int, address: str = "0.0.0.0") -> str:
    return f"exec python3 {APP} {address} {port}"


def seen(services: Services, service: dict, path: str = "/") -> dict | int | list:
    """What the app answers to a program with a key of the team."""
    answer = fetch(services.server, host_of(service), path, X_API_KEY=services.key or services.server.key)
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json


def is_open(services: Services, box, port: int) -> bool:
    return services.run(box, f"ss -Hltn 'sport = :{port}' | wc -l").strip() != "0"


# Time passes for these while other tests run.


@pytest.fixture(scope="module")
def slow(server):
    """Services that open no port, or another one than they were to."""
    services, client = Services(server), server.client()
    box = client.create(timeout=900)
    services.write(box, APP, inside.APP)
    made = {
        "never": services.start(box, "echo I wait; sleep 1000", wait=0, name="never", port=8001),
        "nowhere": services.start(box, "sleep 1000", wait=0, name="nowhere"),
        "elsewhere": services.start(box, app(8003), wait=0, name="elsewhere", port=8002),
    }
    yield services, made, time.monotonic()
    client.kill(box)
    client.close()


def test_life(slow, services, box):
    made = services.running(box, app(8000), port=8000, env={"SECRET": "hidden-value"}, cwd="/home/user")
    assert made["name"] == "web" and made["sandboxId"] == box.id and made["port"] == 8000 and made["chatId"] is None
    assert made["envKeys"] == ["SECRET"] and "hidden-value" not in json.dumps(made)
    assert (made["access"], made["onWake"], made["alwaysOn"], made["hostMode"], made["bridge"]) == ("private", "restart", False, "local", True)
    assert made["exitCode"] is None and made["reason"] is None and made["restarts"] == 0 and made["slug"] is None
    assert host_of(made).startswith(f"8000-{box.id}."), made["url"]
    assert services.get(made["id"]) == made
    assert services.listed(box) == [made]
    first = seen(services, made, "/pid")
    assert services.lines(made["id"])[0] == f"app begins as {first}"
    environment = services.run(box, f"tr '\\0' '\\n' </proc/{first}/environ; readlink /proc/{first}/cwd")
    assert "SECRET=hidden-value" in environment and "CABANA_SERVICE=service:" in environment and environment.endswith("/home/user\n")

    again = services.act(made["id"], "restart")
    assert (again["state"], again["id"], again["url"], again["restarts"]) == ("running", made["id"], made["url"], 1), again
    second = seen(services, made, "/pid")
    assert second != first
    stopped = services.act(made["id"], "stop")
    assert (stopped["state"], stopped["url"]) == ("stopped", made["url"]), stopped
    assert not is_open(services, box, 8000)
    assert services.act(made["id"], "stop")["state"] == "stopped", "twice is once"
    started = services.act(made["id"], "start")
    assert (started["state"], started["url"]) == ("running", made["url"]), started
    third = seen(services, made, "/pid")
    assert services.act(made["id"], "start")["state"] == "running"
    assert seen(services, made, "/pid") == third, "one that runs is not started again"

    services.forget(made["id"])
    assert not is_open(services, box, 8000)
    assert services.listed(box) == []
    services.refused(404, "service_not_found", "GET", f"/services/{made['id']}")
    services.refused(404, "service_not_found", "DELETE", f"/services/{made['id']}")
    services.refused(404, "service_not_found", "POST", f"/services/{made['id']}/restart", {})


def test_replaced_by_name(services, box):
    """The same name is the same service at the same address, with what it was told about access."""
    made = services.running(box, app(8000), port=8000)
    services.change(made["id"], access="public")
    before = seen(services, made, "/pid")
    again = services.running(box, f"echo other; {app(8000)}", port=8000)
    assert (again["id"], again["url"], again["access"]) == (made["id"], made["url"], "public"), again
    assert seen(services, again, "/pid") != before
    assert services.lines(again["id"])[0] == "other", "the log is that of the new command"
    moved = services.running(box, app(8010), port=8010, access="private")
    assert moved["id"] == made["id"] and moved["port"] == 8010 and moved["access"] == "private"
    assert host_of(moved).startswith("8010-") and not is_open(services, box, 8000)
    assert len(services.listed(box)) == 1


def test_several_side_by_side(services, box):
    made = [services.running(box, app(8000 + i), name=f"part-{i}", port=8000 + i) for i in range(3)]
    assert len({one["id"] for one in made}) == 3
    assert len({seen(services, one, "/pid") for one in made}) == 3
    assert [one["name"] for one in services.listed(box)] == ["part-0", "part-1", "part-2"]
    services.act(made[1]["id"], "stop")
    assert [one["state"] for one in services.listed(box)] == ["running", "stopped", "running"]
    seen(services, made[2])


def test_port_omitted(services, box):
    made = services.start(box, f"sleep 0.5; {app(8123)}", wait=0)
    assert made["state"] == "starting" and made["port"] is None and made["url"] is None, made
    found = services.until(made["id"], "running")
    assert found["port"] == 8123 and host_of(found).startswith("8123-"), found
    seen(services, found)
    again = services.act(made["id"], "restart")
    assert again["state"] == "running" and again["url"] == found["url"]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::", "0.0.0.0"])
def test_addresses_that_it_may_listen_on(services, box, address):
    made = services.running(box, app(8000, address), port=8000)
    headers = dict(seen(services, made)["headers"])
    assert headers["host"] == "localhost:8000"


def test_a_program_that_leaves(services, box):
    """It forks, leaves its session and its parent ends: it still belongs to the service."""
    leave = f"(setsid nohup python3 {APP} 0.0.0.0 8000 </dev/null >/dev/null 2>&1 &); exit 0"
    made = services.running(box, leave, port=8000)
    first = seen(services, made, "/pid")
    assert services.act(made["id"], "restart")["state"] == "running"
    assert seen(services, made, "/pid") != first
    services.act(made["id"], "stop")
    assert not is_open(services, box, 8000), "what it left behind is stopped with it"


ENDINGS = {
    "code": ("echo first; echo last >&2; exit 3", 3, "3", ["first", "last"]),
    "success": ("echo done", 0, "0", ["done"]),
    "signal": ("echo here; kill -9 $$", None, "kill", ["here"]),
    "unknown": ("no-such-program-at-all", 127, "127", None),
}


@pytest.mark.parametrize("kind", ENDINGS)
def test_a_command_that_ends(services, box, kind):
    command, code, reason, lines = ENDINGS[kind]
    made = services.start(box, command, port=8000)
    assert made["state"] == "error" and made["exitCode"] == code and reason in made["reason"], made
    assert lines is None or made["lastLines"] == lines, made
    assert services.lines(made["id"]) == made["lastLines"]
    again = services.act(made["id"], "restart")
    assert again["state"] == "error" and again["restarts"] == 1
    assert services.act(made["id"], "stop")["state"] == "stopped"


def test_last_lines_are_bounded(services, box):
    """Whatever is printed: at most twenty lines, each of at most 500 characters, and valid text."""
    made = services.start(box, r"seq 100; printf 'x%.0s' $(seq 5000); printf '\nbad \xff\xfe \x00 end\n'; exit 1", port=8000)
    assert made["state"] == "error" and len(made["lastLines"]) == 20, made
    assert made["lastLines"][0] == "83" and all(len(line) <= 501 for line in made["lastLines"])
    assert made["lastLines"][-1].startswith("bad ") and made["lastLines"][-1].endswith("end")


def test_directory_that_is_missing(services, box):
    made = services.start(box, "true", port=8000, cwd="/no/such/directory")
    assert made["state"] == "error" and made["reason"], made


BAD = [
    {"port": 0}, {"port": 65536}, {"port": -1}, {"port": "8000"}, {"port": 1.5},
    {"name": ""}, {"name": "-a"}, {"name": "_a"}, {"name": "A"}, {"name": "a b"}, {"name": "a/b"}, {"name": "../a"}, {"name": "ä"}, {"name": "a.b"}, {"name": "x" * 41},
    {"name": "a\n"}, {"name": "a\0"}, {"name": 7},
    {"command": ""}, {"command": "x" * 65_537}, {"command": None}, {"command": "a\0b"},
    {"access": "everyone"}, {"onWake": "never"}, {"hostMode": "x"}, {"alwaysOn": "yes"}, {"unknown": 1},
    {"env": {"A=B": "x"}}, {"env": {"": "x"}}, {"env": {"A": "x\0"}}, {"env": {"A": 1}},
    {"slug": "ab"}, {"slug": "api"}, {"slug": "-ab"}, {"slug": "a--b"}, {"slug": "a.b"}, {"slug": "x" * 41}, {"slug": "p" + "a" * 26},
]  # fmt: skip


def test_bad_input(services, box):
    path = f"/sandboxes/{box.id}/services"
    for change in BAD:
        body = {"command": "true", "port": 8000, **({"access": "public"} if "slug" in change else {}), **change}
        services.refused(400, "invalid_request", "POST", path, body)
    services.refused(400, "invalid_request", "POST", path, {"port": 8000})
    services.refused(400, "invalid_request", "POST", f"{path}?waitSeconds=61", {"command": "true"})
    services.refused(400, "invalid_request", "POST", f"{path}?waitSeconds=x", {"command": "true"})
    assert services.send("POST", path, b"{", {"Content-Type": "application/json"}).status == 400
    guest = services.send("POST", path, {"command": "true", "port": 49983})
    assert guest.status in (400, 409), "the port of the sandbox's own server"
    assert services.listed(box) == [], "nothing was made"
    for id in ("svc_" + "a" * 20, "svc_x", "web", "%00"):
        services.refused(404, "service_not_found", "GET", f"/services/{id}")
    services.refused(404, "sandbox_not_found", "POST", f"/sandboxes/i{'0' * 20}/services", {"command": "true"})
    for name in ("a", "0", "my_app", "api-2", "x" * 40):
        assert services.start(box, "true", wait=0, name=name)["name"] == name


def test_ports_that_are_taken(services, box):
    first = services.running(box, app(8000), name="first", port=8000)
    path = f"/sandboxes/{box.id}/services"
    text = services.refused(409, "service_conflict", "POST", path, {"command": app(8000), "name": "second", "port": 8000})
    assert "first" in text or "8000" in text, text
    services.run(box, f"nohup python3 {APP} 0.0.0.0 8001 >/dev/null 2>&1 & until ss -Hltn 'sport = :8001' | grep -q .; do sleep 0.05; done")
    text = services.refused(409, "service_conflict", "POST", path, {"command": app(8001), "name": "third", "port": 8001})
    assert "8001" in text, text
    assert [one["id"] for one in services.listed(box)] == [first["id"]]
    services.act(first["id"], "stop")
    assert services.send("POST", path, {"command": app(8000), "name": "second", "port": 8000}).status == 409, "it may be started again"
    services.forget(first["id"])
    assert services.running(box, app(8000), name="second", port=8000)["port"] == 8000


def test_as_many_as_there_may_be(services, box):
    made = [services.start(box, "true", wait=0, name=f"n{i}", port=10_000 + i) for i in range(100)]
    path = f"/sandboxes/{box.id}/services"
    services.refused(429, "limit_reached", "POST", path, {"command": "true", "name": "one-more"})
    services.start(box, "true", wait=0, name="n7", port=10_007)
    services.forget(made[0]["id"])
    services.start(box, "true", wait=0, name="one-more")
    settled = lambda: {one["state"] for one in services.listed(box)} == {"error"}
    eventually(settled, within=60, every=0.2, what="all have ended")
    assert len(services.listed(box)) == 100


def test_changes(services, box):
    made = services.running(box, app(8000), port=8000)
    first = seen(services, made, "/pid")
    for field, value in {"access": "link", "onWake": "leave", "alwaysOn": True, "hostMode": "public", "bridge": False}.items():
        assert services.change(made["id"], **{field: value})[field] == value
    assert services.get(made["id"])["access"] == "link", "what is omitted stays"
    assert seen(services, made, "/pid") == first, "nothing was restarted"
    for bad in ({"access": "x"}, {"command": "true"}, {"port": 9000}, {"alwaysOn": 1}, {"slug": "API"}):
        services.refused(400, "invalid_request", "PATCH", f"/services/{made['id']}", bad)


def test_slugs(services, box):
    one = services.running(box, app(8000), name="one", port=8000, access="public", slug="my-shop")
    assert one["slug"] == "my-shop"
    path = f"/sandboxes/{box.id}/services"
    services.refused(409, "service_conflict", "POST", path, {"command": "true", "name": "two", "port": 8001, "access": "public", "slug": "my-shop"})
    two = services.start(box, "true", wait=0, name="two", port=8001, access="public")
    services.refused(409, "service_conflict", "PATCH", f"/services/{two['id']}", {"slug": "my-shop"})
    assert services.change(one["id"], slug="my-shop")["slug"] == "my-shop", "one's own is no conflict"
    assert services.change(one["id"], slug="")["slug"] is None
    assert services.change(two["id"], slug="my-shop")["slug"] == "my-shop"
    services.forget(two["id"])
    assert services.change(one["id"], slug="my-shop")["slug"] == "my-shop", "a service that is gone leaves its name"


def test_links(services, box):
    made = services.running(box, app(8000), port=8000, access="link")
    base = f"/services/{made['id']}/links"
    link = services.link(made["id"])
    assert link["id"].startswith("grt_") and link["serviceId"] == made["id"] and link["opened"] == 0 and link["revokedAt"] is None
    (listed,) = services.ask("GET", base)
    assert listed["id"] == link["id"] and "url" not in listed, "only the answer that made it has the address"
    for seconds in (0, 2_592_001, -1, "x", 1.5):
        services.refused(400, "invalid_request", "POST", base, {"expiresInSeconds": seconds})
    services.refused(404, "service_not_found", "DELETE", f"{base}/grt_{'a' * 20}")
    other = services.running(box, app(8001), name="other", port=8001, access="link")
    services.refused(404, "service_not_found", "DELETE", f"/services/{other['id']}/links/{link['id']}")
    assert services.ask("DELETE", f"{base}/{link['id']}") is None
    assert all(one["revokedAt"] for one in services.ask("GET", base) if one["id"] == link["id"])
    for _ in range(100):
        services.link(made["id"])
    services.refused(429, "limit_reached", "POST", base, {})
    services.forget(made["id"])
    services.refused(404, "service_not_found", "GET", base)


# Logs


def test_log(services, box):
    made = services.running(box, f"seq 500; {app(8000)}", port=8000)
    lines = services.lines(made["id"], tail=1000)
    assert lines[:500] == [str(i) for i in range(1, 501)] and lines[500].startswith("app begins as")
    assert services.lines(made["id"], tail=3)[0] == "499" or len(services.lines(made["id"], tail=3)) == 3
    assert services.lines(made["id"], tail=0) == []
    for tail in ("-1", "x", "99999999"):
        assert services.send("GET", f"/services/{made['id']}/logs?tail={tail}").status in (200, 400), tail
    answer = services.ask("GET", f"/services/{made['id']}/logs")
    assert answer["dropped"] == 0 and len(answer["lines"]) == 200


def test_log_that_is_too_long(services, box):
    """The newest MiB is kept, and it says how much is not."""
    made = services.running(box, f"seq 100000 500000; {app(8000)}", port=8000)
    answer = services.ask("GET", f"/services/{made['id']}/logs?tail=5")
    assert answer["lines"][-1].startswith("app begins as"), answer
    assert answer["lines"][:-1] == [str(i) for i in range(499_997, 500_001)], answer
    written = 400_001 * 7 + len(answer["lines"][-1]) + 1
    assert written - 2**20 <= answer["dropped"] < written, answer["dropped"]


def test_followed_log(services, box):
    made = services.running(box, app(8000), port=8000)
    with services.following(made["id"]) as events:
        name, data = next(events)
        assert name == "lines" and data["lines"][0].startswith("app begins as"), data
        for i in range(3):
            seen(services, made, f"/step-{i}")
            name, data = next(events)
            assert name == "lines" and f"/step-{i}" in data["lines"][0], data
        services.act(made["id"], "stop")
        *_, (name, data) = [event for event in events]
    assert name == "end" and data["state"] == "stopped", data


def test_followed_log_ends_when_its_sandbox_is_paused(services, box):
    made = services.running(box, app(8000), port=8000)
    with services.following(made["id"]) as events:
        next(events)
        services.pause(box)
        *_, (name, data) = [event for event in events]
    assert name == "end" and data["state"] == "suspended", data
    assert services.phase(box) == "paused", "reading a log wakes nothing"
    answer = services.send("GET", f"/services/{made['id']}/logs")
    assert answer.status in (200, 409, 503) and services.phase(box) == "paused"


def test_followed_log_of_a_command_that_ends(services, box):
    made = services.start(box, "for i in 1 2 3; do echo $i; sleep 0.3; done; exit 4", wait=0, port=8000)
    with services.following(made["id"]) as events:
        collected = list(events)
    assert [line for name, data in collected if name == "lines" for line in data["lines"]] == ["1", "2", "3"]
    assert collected[-1][0] == "end" and collected[-1][1]["state"] == "error" and "4" in collected[-1][1]["reason"]


def test_followed_log_of_a_program_that_is_killed(services, box):
    """It ran: the log does not end by saying that it still does."""
    made = services.running(box, app(8000), port=8000)
    with services.following(made["id"]) as events:
        next(events)
        services.run(box, "pkill -9 -x python3")
        *_, (name, data) = [event for event in events]
    assert name == "end" and data["state"] == "error" and "kill" in data["reason"].lower(), data


# Live updates


def test_live(server, services, box):
    with Live(server, f"sandbox:{box.id}") as live:
        is_service = lambda frame: frame.get("type") == "service"
        made = services.start(box, app(8000), wait=0, port=8000)
        frame = live.until(lambda frame: is_service(frame) and frame["service"]["state"] == "running")
        assert frame["topic"] == f"sandbox:{box.id}" and frame["service"]["id"] == made["id"]
        assert frame["service"] == services.get(made["id"]), "the same as over REST"
        live.subscribe(f"service:{made['id']}")
        live.send({"presence": made["id"]})
        live.send({"presence": "svc_" + "0" * 20})
        services.pause(box)
        live.until(lambda frame: is_service(frame) and frame["service"]["state"] == "suspended")
        services.connect(box)
        live.until(lambda frame: is_service(frame) and frame["service"]["state"] == "running")
        services.run(box, "pkill -9 -f app.py")
        ended = live.until(lambda frame: is_service(frame) and frame["service"]["state"] == "error")
        assert ended["service"]["reason"]
        services.forget(made["id"])
        gone = live.until(lambda frame: is_service(frame) and "deleted" in frame)
        assert gone["deleted"] == made["id"] and gone["sandboxId"] == box.id


# Sandboxes that are paused, and ended


def test_paused_with_memory(services, box):
    """The same process goes on."""
    made = services.running(box, app(8000), port=8000)
    before = seen(services, made, "/pid")
    services.pause(box)
    assert services.get(made["id"])["state"] == "suspended"
    assert services.listed(box)[0]["state"] == "suspended"
    assert services.phase(box) == "paused", "looking wakes nothing"
    services.connect(box)
    after = services.until(made["id"], "running")
    assert (after["url"], after["restarts"]) == (made["url"], 0)
    assert seen(services, made, "/pid") == before


def test_booted_from_disk(services, box):
    """Those that want it are started again, the others are not."""
    again = services.running(box, app(8000), name="again", port=8000)
    left = services.running(box, app(8001), name="left", port=8001, onWake="leave")
    stopped = services.running(box, app(8002), name="stopped", port=8002)
    services.act(stopped["id"], "stop")
    services.pause(box, memory=False)
    assert [one["state"] for one in services.listed(box)] == ["suspended", "suspended", "stopped"]
    services.connect(box)
    assert services.until(again["id"], "running")["url"] == again["url"]
    seen(services, again)
    after = services.get(left["id"])
    assert after["state"] in ("stopped", "error") and not is_open(services, box, 8001), after
    assert services.get(stopped["id"])["state"] == "stopped" and not is_open(services, box, 8002)
    assert services.act(left["id"], "start")["state"] == "running"


def test_archived(services, box):
    made = services.running(box, app(8000), port=8000)
    services.ask("POST", f"/sandboxes/{box.id}/archive", {})
    eventually(lambda: services.get(made["id"])["state"] == "suspended", within=30)
    eventually(lambda: services.phase(box) in ("archived", "paused"), within=30)
    services.connect(box)
    assert services.until(made["id"], "running", within=60)["url"] == made["url"]
    seen(services, made)


def test_acts_on_a_paused_sandbox(services, box):
    """Starting and restarting wake it, stopping does not have to; nothing is lost."""
    made = services.running(box, app(8000), port=8000)
    services.pause(box)
    assert services.act(made["id"], "restart")["state"] == "running"
    services.pause(box)
    services.act(made["id"], "stop", wait=0)
    services.connect(box)
    services.until(made["id"], "stopped")
    eventually(lambda: not is_open(services, box, 8000), within=20)


def test_killed(services, box, api):
    made = services.running(box, app(8000), port=8000)
    api.kill(box)
    answer = services.send("GET", f"/services/{made['id']}")
    assert answer.status == 404 or (answer.json["state"] == "stopped" and "sandbox" in answer.json["reason"]), answer.body
    services.refused(404, "sandbox_not_found", "POST", f"/sandboxes/{box.id}/services", {"command": "true"})
    assert services.send("POST", f"/services/{made['id']}/start", {}).status in (404, 409)


def test_failed_sandbox(services, box, server, log):
    """Its guest dies: the service says so, and runs again after a recovery."""
    log += ["guest", "exited"]
    made = services.running(box, app(8000), port=8000)
    server.kill_guest(box.id)
    after = services.until(made["id"], "error")
    assert "sandbox" in after["reason"], after
    services.ask("POST", f"/sandboxes/{box.id}/recover")
    services.until(made["id"], "running")


def test_always_on(services, boxes):
    """It outlives the sandbox's timeout, which counts again when it is not always on any more."""
    kept, control = boxes(timeout=3), boxes(timeout=3)
    services.write(kept, APP, inside.APP)
    made = services.running(kept, app(8000), port=8000, alwaysOn=True)
    ended = lambda box: services.send("GET", f"/sandboxes/{box.id}").status == 404
    eventually(lambda: ended(control), within=20, every=0.1)
    time.sleep(1)  # it would have ended by now, too
    assert services.get(made["id"])["state"] == "running"
    seen(services, made)
    services.change(made["id"], alwaysOn=False)
    end = datetime.fromisoformat(services.ask("GET", f"/sandboxes/{kept.id}")["endAt"])
    assert end - datetime.now(UTC) < timedelta(hours=24), "the timeout begins again"
    services.ask("POST", f"/sandboxes/{kept.id}/timeout", {"timeout": 1})
    eventually(lambda: ended(kept), within=20, every=0.1)


def test_always_on_does_not_become_idle(services, boxes):
    kept, control = (boxes(timeout=600, idleTimeout=2, autoPause=True) for _ in range(2))
    for box in (kept, control):
        services.write(box, APP, inside.APP)
    made = services.running(kept, app(8000), port=8000, alwaysOn=True)
    services.running(control, app(8000), port=8000)
    eventually(lambda: services.phase(control) == "paused", within=30, every=0.1, what="a service alone is no activity")
    time.sleep(1)
    assert services.phase(kept) == "running" and services.get(made["id"])["state"] == "running"


def test_screenshots_need_a_browser_sandbox(services, box):
    made = services.start(box, "true", wait=0, port=8000)
    answer = services.send("POST", f"/services/{made['id']}/screenshot", {})
    assert answer.status in (400, 501) and answer.json["error_code"] == "not_supported", answer.body


# Tools


def test_tools(api, services, box):
    tools = Tools(api, box.id)
    result = tools.ok("start_service", command=app(8000), port=8000, env={"A": "b"}, cwd="/home/user")
    (made,) = services.listed(box)
    assert made["state"] == "running" and made["name"] == "web" and made["envKeys"] == ["A"], made
    assert made["url"] in result["output"] or made["url"] in json.dumps(result["data"]), result
    assert "runs on port 8000" in tools.ok("service", name="web", action="status")["output"]
    assert "app begins as" in tools.ok("service", name="web", action="logs")["output"]
    before = seen(services, made, "/pid")
    tools.ok("service", name="web", action="restart")
    assert seen(services, made, "/pid") != before
    tools.ok("service", name="web", action="stop")
    assert services.get(made["id"])["state"] == "stopped"
    tools.ok("start_service", name="api", command=app(8001))
    assert [one["name"] for one in services.listed(box)] == ["api", "web"] or len(services.listed(box)) == 2


def test_tools_say_what_is_wrong(api, services, box):
    tools = Tools(api, box.id)
    broken = tools.start_service(command="echo the reason; exit 3", port=8000)
    assert "does not run" in broken["output"] and "the reason" in broken["output"] and re.search("exit (code|status) 3", broken["output"]), broken
    missing = tools.service(name="nothing", action="status")
    assert missing["status"] == "error" and "nothing" in missing["output"], missing
    for tool, arguments in (
        ("sandbox_start_service", {}), ("sandbox_start_service", {"command": ""}), ("sandbox_start_service", {"command": "x", "port": 0}),
        ("sandbox_start_service", {"command": "x", "name": "../x"}), ("sandbox_service", {"name": "web"}),
        ("sandbox_service", {"name": "web", "action": "explode"}), ("sandbox_service", {"name": "web", "action": "stop", "x": 1}),
    ):  # fmt: skip
        answer = tools.send(tool, arguments)
        assert answer.status == 400 or (answer.status == 200 and answer.json["status"] == "error"), (tool, arguments, answer.body)


# The services of the beginning


def test_ports_that_never_open(slow):
    services, made, since = slow
    never, nowhere, elsewhere = (made[name]["id"] for name in ("never", "nowhere", "elsewhere"))
    for id in (never, nowhere, elsewhere):
        now = services.get(id)
        assert now["state"] == "error" or time.monotonic() - since < 75, now
        services.until(id, "error", within=max(75 - (time.monotonic() - since), 1))
    assert "8001" in services.get(never)["reason"] and services.get(never)["lastLines"] == ["I wait"]
    assert "port" in services.get(nowhere)["reason"]
    assert "8002" in services.get(elsewhere)["reason"]
    assert services.get(never)["exitCode"] is None
    assert services.act(never, "stop")["state"] == "stopped"


# Crashes


def test_server_killed(server, services, box, restarted):
    """What was wanted is what is found afterwards: the same processes, stopped ones stopped, and those that were starting run."""
    kept = services.running(box, app(8000), name="kept", port=8000)
    stopped = services.running(box, app(8001), name="stopped", port=8001)
    pid = seen(services, kept, "/pid")
    services.act(stopped["id"], "stop")
    starting = services.start(box, f"sleep 1; {app(8002)}", wait=0, name="starting", port=8002)
    server.crash()
    time.sleep(0.2)
    server.start()
    assert services.until(kept["id"], "running")["restarts"] == 0
    assert seen(services, kept, "/pid") == pid, "it was not restarted"
    assert services.lines(kept["id"])[0] == f"app begins as {pid}", "and its log is there"
    assert services.get(stopped["id"])["state"] == "stopped"
    services.until(starting["id"], "running")
    assert len(services.listed(box)) == 3


@pytest.mark.parametrize("action", ["start", "restart", "stop"])
def test_server_killed_while_it_acts(server, services, box, restarted, action):
    made = services.running(box, app(8000), port=8000)
    if action == "start":
        services.act(made["id"], "stop")
    asked = threading.Thread(target=lambda: ignore(lambda: services.act(made["id"], action)))
    asked.start()
    time.sleep(random.uniform(0, 0.3))
    server.crash()
    asked.join()
    server.start()
    after = services.until(made["id"], *OVER, within=60)
    assert after["state"] in ("running", "stopped"), after
    assert is_open(services, box, 8000) == (after["state"] == "running")
    assert services.act(made["id"], "restart")["state"] == "running"
    seen(services, made)


def ignore(act) -> None:
    try:
        act()
    except Exception:  # noqa: S110: the server was killed meanwhile
        pass


def test_states_do_not_get_stuck(services, box):
    """Contradicting requests at once: what was said last holds, and nothing is left of the others."""
    made = services.running(box, app(8000), port=8000)
    until = time.monotonic() + 4

    def worry(seed: int) -> None:
        chance = random.Random(seed)
        while time.monotonic() < until:
            try:
                services.act(made["id"], chance.choice(["start", "stop", "restart"]), wait=0)
            except Refused as refused:
                assert refused.status in (409, 429), refused

    threads = [threading.Thread(target=worry, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert services.act(made["id"], "stop", wait=60)["state"] == "stopped"
    assert services.run(box, "pgrep -xc python3 || true").strip() == "0", "no process is left over"
    assert services.act(made["id"], "start")["state"] == "running"
    seen(services, made)
    assert services.run(box, "pgrep -xc python3").strip() == "1"


# Teams


def test_teams_do_not_see_each_other(server, services, box, restarted):
    made = services.running(box, app(8000), port=8000, access="link")
    link = services.link(made["id"])
    other = Services(server, second_team(server))
    id = made["id"]
    for method, path, body in (
        ("GET", f"/services/{id}", None), ("PATCH", f"/services/{id}", {"access": "public"}), ("DELETE", f"/services/{id}", None),
        ("POST", f"/services/{id}/start", {}), ("POST", f"/services/{id}/stop", {}), ("POST", f"/services/{id}/restart", {}),
        ("GET", f"/services/{id}/logs", None), ("GET", f"/services/{id}/logs?follow=true", None), ("POST", f"/services/{id}/open", {}),
        ("GET", f"/services/{id}/links", None), ("POST", f"/services/{id}/links", {}), ("DELETE", f"/services/{id}/links/{link['id']}", None),
    ):  # fmt: skip
        other.refused(404, "service_not_found", method, path, body)
    for method, body in (("GET", None), ("POST", {"command": "true"})):
        other.refused(404, "sandbox_not_found", method, f"/sandboxes/{box.id}/services", body)
    with Live(server, key=other.key) as live:
        live.send({"subscribe": f"service:{id}"})
        refused = live.next()
        assert refused["type"] != "subscribed", refused
        live.send({"presence": id})
    assert fetch(server, host_of(made), X_API_KEY=other.key).status == 403
    stranger = Person(server, other.key)
    assert stranger.ask("POST", f"/services/{id}/open", {}).status == 404
    stranger.sign_out()
    assert services.get(id)["state"] == "running" and services.get(id)["access"] == "link"
