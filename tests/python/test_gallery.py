"""Curated templates: what is listed, the build by the first creation, and what happens around it."""

import os
import subprocess

import pytest

from server import CABANA
from waiting import eventually

SMALL = "redis"


@pytest.fixture
def gone(api, server):
    """The smallest curated template, not built; deleted afterwards."""

    def forget():
        for row in api.get("/templates").json:
            if SMALL in row["aliases"]:
                eventually(lambda: api.request("DELETE", f"/templates/{row['templateID']}").status in (204, 404), 60)

    forget()
    yield
    forget()


def card(api) -> dict:
    return api.get(f"/templates/gallery/{SMALL}").json


def test_the_gallery_is_listed(api, server):
    cards = api.get("/templates/gallery").json
    names = [one["name"] for one in cards]
    assert names == sorted(names) and {"code-interpreter-v1", "postgres", "redis", "node"} <= set(names)
    for one in cards:
        assert one["licence"] and one["sizeMB"] > 0 and one["versions"] and "FROM base" in one["dockerfile"]
    environment = {**os.environ, **server.environment}
    done = subprocess.run([CABANA, "template", "gallery"], env=environment, capture_output=True, text=True, timeout=30)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == names
    done = subprocess.run(
        [CABANA, "template", "gallery", "--dockerfile", SMALL], env=environment, capture_output=True, text=True, timeout=30
    )
    assert done.stdout == card(api)["dockerfile"]


def test_the_first_creation_builds_it(api, server, gone, boxes, internet):
    assert card(api)["state"] == "absent"
    first = api.request("POST", "/v2/sandboxes", {"templateID": SMALL})
    assert first.status == 409 and first.json["error_code"] == "template_not_ready", first.json
    assert int(first.headers["retry-after"]) > 0 and f"cabana template get {SMALL}" in first.json["message"]
    build = card(api)
    assert build["state"] == "building"
    # Neither another creation nor a request starts a second one.
    assert api.request("POST", "/v2/sandboxes", {"templateID": SMALL}).status == 409
    assert api.request("POST", f"/templates/gallery/{SMALL}").json["buildID"] == build["buildID"]
    eventually(lambda: card(api)["state"] == "ready", within=150)
    assert card(api)["buildID"] == build["buildID"]
    assert api.run(boxes(template=SMALL), "redis-cli set a 1 && redis-cli get a") == (0, "OK\n1\n")
    mine = [row for row in api.get("/templates").json if SMALL in row["aliases"]]
    assert len(mine) == 1 and mine[0]["public"] and mine[0]["buildCount"] == 1


def test_a_template_of_the_same_name_is_left_alone(api, server, gone):
    taken = api.request("POST", "/v3/templates", {"name": SMALL})
    assert taken.status == 202
    assert card(api)["state"] == "taken"
    assert api.request("POST", f"/templates/gallery/{SMALL}").status == 409
    assert api.request("POST", "/v2/sandboxes", {"templateID": SMALL}).json["error_code"] == "template_not_ready"
    assert card(api)["state"] == "taken", "nothing was built"
