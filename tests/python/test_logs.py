"""The log of a sandbox: its lifecycle and, while it runs, its guest's journal."""

import json
import time

from waiting import eventually


def lines(api, box, query: str = "") -> list[dict]:
    answer = api.get(f"/v2/sandboxes/{box.id}/logs?{query}")
    assert answer.status == 200, answer.body
    return answer.json["logs"]


def messages(api, box, query: str = "") -> list[str]:
    return [line["message"] for line in lines(api, box, query)]


def test_commands_are_noted(boxes, api):
    box = boxes()
    assert api.run(box, "echo hello; exit 7") == (7, "hello\n")
    eventually(lambda: any("ended" in message for message in messages(api, box)), what="the end is noted")
    noted = [line for line in lines(api, box) if line["fields"]["logger"] == "guest"]
    pid = noted[0]["fields"]["pid"]
    assert [(line["level"], line["message"]) for line in noted] == [
        ("info", f"Process {pid} started: /bin/bash -l -c echo hello; exit 7"),
        ("info", f"Process {pid} ended: exit status 7"),
    ]
    everything = lines(api, box)
    assert [line["timestamp"] for line in everything] == sorted(line["timestamp"] for line in everything)
    assert "Sandbox started" in messages(api, box), "the lifecycle is there, too"
    # From the end, from a time, by level, by text, and limited.
    assert messages(api, box, "direction=backward&limit=1") == [noted[1]["message"]]
    assert messages(api, box, f"cursor={int(time.time() * 1000) + 60_000}") == []
    assert not [message for message in messages(api, box, "level=warn") if "Process" in message]
    assert messages(api, box, "search=exit%20status") == [noted[1]["message"]]
    # The older form.
    older = api.get(f"/sandboxes/{box.id}/logs").json
    assert [json.loads(line["line"])["message"] for line in older["logs"]] == messages(api, box)
    # Only the host can reach the guest's journal; the lifecycle outlives the sandbox.
    assert api.request("GET", "/journal", headers=box.headers()).status == 404
    api.kill(box)
    after = lines(api, box)
    assert after and all(line["fields"]["logger"] == "lifecycle" for line in after)


def test_the_log_is_bounded(boxes, api):
    box = boxes()
    script = "for i in $(seq 600); do curl -s -o /dev/null http://127.0.0.1:49983/health; done"
    assert api.run(box, script)[0] == 0, "requests from inside leave nothing"
    for _ in range(3):
        assert api.run(box, ": " + "x" * 5000)[0] == 0
    noted = [line for line in lines(api, box, "limit=1000") if line["fields"]["logger"] == "guest"]
    assert 6 <= len(noted) <= 500 and all(len(line["message"]) <= 256 for line in noted)
