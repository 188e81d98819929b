"""What is metered, with the real server and real sandboxes: sums agree with intervals, nothing is lost when the server dies, and what a
team used is its own."""

import csv
import io
import subprocess
from datetime import datetime

from server import CABANA
from waiting import eventually


def used(api, sandbox: str) -> dict:
    answer = api.get(f"/sandboxes/{sandbox}/usage")
    assert answer.status == 200, answer.body
    return answer.json


def open_kinds(api, sandbox: str) -> set[str]:
    return {one["kind"] for one in used(api, sandbox)["intervals"] if one["closedAt"] is None}


def totals(usage: dict) -> dict[str, float]:
    return {row["kind"]: float(row["amount"]) for row in usage["totals"]}


def spans(usage: dict, kind: str) -> float:
    time = datetime.fromisoformat
    mine = [one for one in usage["intervals"] if one["kind"] == kind]
    return sum(one["quantity"] * (time(one["closedAt"]) - time(one["openedAt"])).total_seconds() for one in mine)


def is_rated(api, sandbox: str) -> bool:
    usage = used(api, sandbox)
    kinds = {one["kind"] for one in usage["intervals"]}
    return "vcpu" in totals(usage) and all(abs(totals(usage).get(kind, 0) - spans(usage, kind)) < 1e-5 for kind in kinds)


def test_a_life_is_metered(api, boxes):
    """Running, paused with memory, resumed, killed: each has its intervals, and after its end the sums are those of the intervals."""
    box = boxes(cpuCount=1, memoryMB=128)
    assert {"vcpu", "memory_mib"} <= open_kinds(api, box.id)
    assert api.run(box, "head -c 30M /dev/urandom > /home/user/big && sync")[0] == 0
    assert api.request("POST", f"/sandboxes/{box.id}/pause").status == 204
    paused = open_kinds(api, box.id)
    assert "vcpu" not in paused and "memory_mib" not in paused and {"paused_memory_mib", "disk_mib"} <= paused
    disk = next(one["quantity"] for one in used(api, box.id)["intervals"] if one["kind"] == "disk_mib")
    assert 29 <= disk <= 200
    assert api.request("POST", f"/sandboxes/{box.id}/connect", {"timeout": 60}).status in (200, 201)
    assert {"vcpu", "memory_mib", "disk_mib"} <= open_kinds(api, box.id)
    assert api.kill(box)
    assert open_kinds(api, box.id) == set()
    eventually(lambda: is_rated(api, box.id), 40)
    assert totals(used(api, box.id))["vcpu"] > 0


def test_sums_outlive_crashes(server, api, boxes, tmp_path):
    """The server dies before and after what it rates is written, and at once after that; nothing is lost or counted twice."""
    box = boxes(cpuCount=1, memoryMB=128)
    armed = tmp_path / "point"
    server.settings["CABANA_FAILPOINT"] = str(armed)
    try:
        server.stop()
        server.start()
        for point in ["rate.begin", "rate.written"]:
            # It rates every ten seconds.
            armed.write_text(point)
            assert server.process.wait(timeout=30) == -9
            server.process = None
            server.start()
        server.crash()
        server.start()
    finally:
        del server.settings["CABANA_FAILPOINT"]
        server.stop()
        server.start()
    client = server.client()
    assert client.kill(box)
    eventually(lambda: is_rated(client, box.id), 40)
    assert len([one for one in used(client, box.id)["intervals"] if one["kind"] == "vcpu"]) == 1, "the server's death changes nothing"
    client.close()


def test_reports(server, api, boxes):
    """JSON, CSV and the command line have the same rows; wrong questions are refused with what to do."""
    box = boxes(cpuCount=1, memoryMB=128)
    id = box.id
    assert api.kill(box)
    eventually(lambda: is_rated(api, id), 40)
    path = f"/usage?group=hour,kind,sandbox&sandbox={id}"
    rows = api.get(path).json["rows"]
    assert {row["kind"] for row in rows} >= {"vcpu", "memory_mib"} and all(row["subjectId"] == id for row in rows)
    text = api.get(f"{path}&format=csv").body
    read = list(csv.DictReader(io.StringIO(text if isinstance(text, str) else text.decode())))
    assert [(row["kind"], row["amount"]) for row in read] == [(row["kind"], row["amount"]) for row in rows]
    for bad in [
        "group=week", "group=day,hour", "from=yesterday", "format=xml", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        "from=2020-01-01T00:00:00Z", "group=sandbox&from=2026-01-01T00:00:00Z&to=2026-03-01T00:00:00Z",
    ]:
        answer = api.get(f"/usage?{bad}")
        assert answer.status == 400 and answer.json["error_code"] == "invalid_request", (bad, answer.body)
    assert api.get("/usage?project=*").json["error_code"] == "project_not_found"
    assert api.get("/sandboxes/i0000000000000000000a/usage").status == 404


    command = [CABANA, "usage", "--csv", "--group", "hour,kind,sandbox", "--sandbox", id]
    printed = subprocess.run(command, env=server.environment, capture_output=True, text=True, timeout=30, check=True).stdout
    assert [line["amount"] for line in csv.DictReader(io.StringIO(printed))] == [row["amount"] for row in rows]


def test_money_is_off_by_default(api):
    for path in ["/wallet", "/wallet/entries"]:
        answer = api.get(path)
        assert answer.json["error_code"] == "not_supported", answer.body
    assert api.get("/prices").json["billing"] == "off"
    top_up = {"amountMicros": 1, "currency": "EUR", "reference": "a"}
    assert api.request("POST", "/admin/teams/default/top-ups", top_up).json["error_code"] == "not_supported"


def test_money(server, api, boxes, tmp_path):
    """Prices hold from when they are set; the ledger and the sums agree to the micro-unit; a reference is paid once."""
    server.settings["CABANA_BILLING_MODE"] = "postpaid"
    server.stop()
    server.start()
    try:
        client = server.client()
        prices = {"vcpu": 3_600_000_000, "memory_mib": 1_000_000}
        assert client.request("PUT", "/admin/prices", {"prices": prices}).status == 200
        before = client.get("/wallet").json["balanceMicros"]
        top_up = {"amountMicros": 5_000_000, "currency": "EUR", "reference": f"test-{server.port}-{before}", "memo": "a gift"}
        for _ in range(2):
            answer = client.request("POST", "/admin/teams/default/top-ups", top_up)
            assert answer.json["balanceMicros"] == before + 5_000_000, answer.body
        for wrong in [{"amountMicros": -1}, {"amountMicros": 0}, {"amountMicros": 10**16}, {"currency": "USD"}, {"reference": ""}]:
            assert client.request("POST", "/admin/teams/default/top-ups", top_up | wrong).status == 400, wrong
        for wrong in [{"vcpu": -1}, {"output_tokens": 1}, {}]:
            assert client.request("PUT", "/admin/prices", {"prices": wrong}).status == 400, wrong
        past = {"prices": {"vcpu": 1}, "effectiveFrom": "2020-01-01T00:00:00Z"}
        assert client.request("PUT", "/admin/prices", past).status == 400
        box = client.create(cpuCount=1, memoryMB=128)
        assert client.kill(box)
        eventually(lambda: is_rated(client, box.id), 40)
        cost = {row["kind"]: row["costMicros"] for row in used(client, box.id)["totals"]}
        # 3,600 units of the currency for a vCPU-hour are one for a second.
        assert abs(cost["vcpu"] - totals(used(client, box.id))["vcpu"] * 1_000_000) <= 1

        def agrees() -> bool:
            entries = client.get("/wallet/entries?limit=500").json["entries"]
            balance, newest = client.get("/wallet").json["balanceMicros"], entries[0]
            older = [one for one in entries if one["amountMicros"] > 0 or one["kind"] == "usage"]
            chained = all(a["balanceMicros"] == b["balanceMicros"] + a["amountMicros"] for a, b in zip(older, older[1:]))
            return newest["balanceMicros"] == balance and chained

        eventually(agrees, 10)
        client.close()
    finally:
        del server.settings["CABANA_BILLING_MODE"]
        server.stop()
        server.start()
