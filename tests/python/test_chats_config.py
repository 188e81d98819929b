"""Agents, models and providers: what chats are made with. Keys of providers are never seen again, and teams cannot reach private addresses."""

import json
import sqlite3
import time
from urllib.parse import quote

import pytest

import canary
from chats import Unexpected, doing, run
from model_answers import Answer
from services import Person, Services
from waiting import eventually


def name(kind: str) -> str:
    return f"{kind}-{time.time_ns()}"


@pytest.fixture
def agents(chats):
    made: list[str] = []

    def make(**fields) -> dict:
        agent = chats.ask("POST", "/agents", {"name": name("agent"), **fields})
        made.append(agent["id"])
        return agent

    yield make
    for id in made:
        chats.send("DELETE", f"/agents/{id}")


def test_agents(chats, agents):
    limits = {"maxSteps": 7, "maxMinutes": 5, "maxCostMicros": 1000}
    agent = agents(description="Helps", system="Be kind.", model="anthropic/scripted", tools=[{"type": "ask"}], limits=limits, suggestions=["Try"])
    assert agent["id"].startswith("agent_") and agent["kind"] == "loop" and agent["limits"] == limits and agent["tools"] == [{"type": "ask"}]
    assert chats.ask("GET", f"/agents/{agent['id']}") == agent and agent in chats.ask("GET", "/agents")["agents"]
    changed = chats.ask("PATCH", f"/agents/{agent['id']}", {"system": "Be brief.", "model": ""})
    assert (changed["system"], changed["model"], changed["description"]) == ("Be brief.", None, "Helps")
    chats.refused(409, "agent_conflict", "POST", "/agents", {"name": agent["name"]})
    for body in ({}, {"name": ""}, {"name": "x" * 300}, {"name": "a\nb"}, {"name": name("x"), "kind": "robot"}, {"name": name("x"), "model": "no/such"}):
        assert chats.send("POST", "/agents", body).status == 400, body
    for body in ({"name": name("x"), "system": "x" * 65_537}, {"name": name("x"), "limits": {"maxSteps": 0}}, {"name": name("x"), "colour": 1}):
        assert chats.send("POST", "/agents", body).status == 400, list(body)
    assert chats.send("DELETE", f"/agents/{agent['id']}").status == 204
    chats.refused(404, "agent_not_found", "GET", f"/agents/{agent['id']}")
    assert chats.send("POST", "/chats", {"agentId": agent["id"]}).status in (400, 404)


def test_chat_with_an_agent(chats, model, agents):
    """Its instructions, tools, model and limits; a chat may choose another model and other tools."""
    script = model.script(*doing(run("echo by the agent"), answer="a"), Answer("b"))
    agent = agents(system="Answer like a pirate-4711.", model="anthropic/scripted", tools=[{"type": "sandbox", "allow": ["sandbox_run_command"]}])
    id, _ = chats.run_turn(script.prompt, agentId=agent["id"])
    asked = script.requests[0]
    assert asked.wire == "anthropic" and set(asked.conversation.tools) == {"sandbox_run_command"}
    assert "pirate-4711" in asked.conversation.system
    assert chats.chat(id)["agentId"] == agent["id"]
    chats.ask("PATCH", f"/agents/{agent['id']}", {"system": "Answer like a poet-0815."})
    chats.ended(id, chats.say(id, "more", model="openai/scripted")["id"])
    assert "poet-0815" in script.last.conversation.system and script.last.wire == "openai"
    other = model.script(Answer("c"))
    chats.run_turn(other.prompt, agentId=agent["id"], tools=[])
    assert other.last.conversation.tools == {}
    assert chats.send("DELETE", f"/agents/{agent['id']}").status in (204, 409)
    assert chats.messages(id), "its chats stay readable"


def test_models(chats):
    page = chats.ask("GET", "/models")
    models = {one["id"]: one for one in page["models"]}
    assert {"demo/demo", "openai/scripted", "anthropic/scripted"} <= set(models)
    assert models["demo/demo"]["demo"] and not models["openai/scripted"]["demo"]
    assert [one["id"] for one in page["models"] if one["default"]] == ["openai/scripted"]
    assert models["anthropic/scripted"]["priced"] and not models["openai/scripted"]["priced"]
    assert all(one["contextWindow"] > 0 for one in models.values()) and len(page["suggestions"]) == 6


def test_cost(chats, model):
    """Of a model whose price is known; of others it is `null`, and never 0."""
    script = model.script(Answer("x", usage=(1000, 400, 200)))
    id, events = chats.run_turn(script.prompt, model="anthropic/scripted", tools=[], title="t")
    expected = 600 * 3 + 400 * 3 // 10 + 200 * 15
    assert events[-1]["costMicros"] == expected == chats.chat(id)["usage"]["costMicros"], events[-1]
    script = model.script(Answer("x"))
    id, events = chats.run_turn(script.prompt, model="openai/scripted", tools=[], title="t")
    assert events[-1]["costMicros"] is None and chats.chat(id)["usage"]["costMicros"] is None


def test_cost_limit(chats, model, agents):
    script = model.script(*[Answer(calls=[run(f"echo {number}")], usage=(1_000_000, 0, 0)) for number in range(5)])
    agent = agents(model="anthropic/scripted", limits={"maxCostMicros": 4_000_000}, tools=[{"type": "sandbox"}])
    id, events = chats.run_turn(script.prompt, agentId=agent["id"])
    assert (events[-1]["status"], events[-1]["reason"]) == ("failed", "cost_limit") and len(script.requests) == 2
    [turn] = chats.page(id)["turns"]
    assert (turn["status"], turn["reason"]) == ("failed", "cost_limit"), "who comes later learns why, too"


# Providers.


@pytest.fixture
def provider(chats):
    made: list[str] = []

    def make(**fields) -> dict:
        made.append(fields.setdefault("name", name("p")[:24]))
        return chats.ask("POST", "/model-providers", {"kind": "openai", "baseUrl": "https://models.example.com/v1", "models": ["m"], **fields})

    yield make
    for one in made:
        chats.send("DELETE", f"/model-providers/{quote(one, safe='')}")


def test_keys_of_providers_are_never_seen_again(server, chats, provider):
    key = canary.secret("a key of a provider")
    made = provider(key=key)
    assert made["hasKey"] is True and made["scope"] == "team" and made["models"] == ["m"]
    listed = chats.ask("GET", "/model-providers")
    assert {one["name"]: one["scope"] for one in listed["providers"]}[made["name"]] == "team"
    assert {one["name"]: one["scope"] for one in listed["providers"]}["openai"] == "server"
    person = Person(server)
    seen = [json.dumps(made), json.dumps(listed), *(chats.send("GET", path).body.decode() for path in ("/models", "/v1/models", "/agents"))]
    seen += [person.ask("GET", "/model-providers").text]
    for one in (key, chats_model_key(server)):
        assert not any(one in text for text in seen)
    for file in server.data.glob("cabana.db*"):
        assert key.encode() not in file.read_bytes(), f"in the clear in {file.name}"
    with sqlite3.connect(server.data / "cabana.db") as store:
        assert key not in "\n".join(store.iterdump())
    assert f"{made['name']}/m" in {one["id"] for one in chats.ask("GET", "/models")["models"]}
    again = provider(name=made["name"], models=["m", "n"])
    assert again["models"] == ["m", "n"], "replaced"
    assert chats.send("DELETE", f"/model-providers/{made['name']}").status == 204
    chats.refused(404, "provider_not_found", "DELETE", f"/model-providers/{made['name']}")
    assert chats.send("DELETE", "/model-providers/openai").status in (403, 404, 409), "it is the server's"


def chats_model_key(server) -> str:
    with open(server.settings["CABANA_CONFIG"]) as file:
        return next(line.split('"')[1] for line in file if line.startswith("key ="))


PRIVATE = [
    *("http://127.0.0.1:{port}/v1", "http://localhost:{port}/v1", "https://127.0.0.1/v1", "http://[::1]:{port}/v1", "http://0.0.0.0:{port}/v1"),
    *("http://2130706433:{port}/v1", "http://0x7f.1:{port}/v1", "http://[::ffff:127.0.0.1]:{port}/v1", "http://169.254.169.254/v1"),
    *("http://10.0.0.1/v1", "http://192.168.1.1/v1", "http://100.64.0.1/v1", "http://[fd00::1]/v1", "http://127.0.0.1.nip.test:{port}/v1"),
]


@pytest.mark.parametrize("url", PRIVATE)
def test_teams_do_not_reach_private_addresses(chats, model, provider, url):
    """Refused at once, or when the address is connected to. The model server here sees no request."""
    before = len(model.requests)
    try:
        made = provider(baseUrl=url.format(port=model.port), key=model.key)
    except Exception as refused:
        assert getattr(refused, "status", None) == 400, refused
        return
    try:
        id = chats.create("hello", model=f"{made['name']}/m", tools=[])["chat"]["id"]
        chats.ended(id, within=60)
        assert chats.chat(id)["status"] == "failed"
    except Unexpected as refused:
        assert refused.status == 400
    assert len(model.requests) == before


def test_bad_providers(chats, provider):
    for fields in (
        *({"name": bad} for bad in ("", "a/b", "A b", "x" * 65, "demo", "../x")),
        *({"baseUrl": bad} for bad in ("ftp://x.example/v1", "nonsense", "file:///etc/passwd", "https://user:pw@x.example/v1")),
        *({"kind": "telepathy"}, {"models": [""]}, {"models": ["x" * 300]}, {"models": ["a\nb"]}, {"colour": "red"}),
    ):
        with pytest.raises(Exception) as refused:
            provider(**fields)
        assert getattr(refused.value, "status", None) == 400, (fields, refused.value)


def test_revoked_key(chats, model):
    """The person is told, and a chat goes on with another model."""
    script = model.script(Answer("fine"))
    id, events = chats.run_turn(script.prompt, model="revoked/scripted", tools=[])
    told = next(event for event in events if event.type == "error")
    assert told["code"] == "model_key_refused" and told["retryable"] is False and told["hint"], told
    assert events[-1]["status"] == "failed" and chats.chat(id)["status"] == "failed"
    assert chats.ended(id, chats.say(id, script.prompt, model="openai/scripted")["id"]) == "complete"
    assert chats.chat(id)["status"] == "idle"


def test_the_demo(chats, server):
    """A suggestion works from beginning to end: real calls, a service that answers."""
    suggestion = chats.ask("GET", "/models")["suggestions"][0]
    id, events = chats.run_turn(suggestion, model="demo/demo")
    assert events[-1]["status"] == "complete" and any(event.type == "tool.message" and event["status"] == "success" for event in events)
    assert any(event.type == "service.updated" for event in events)
    services = Services(server)
    (service,) = services.listed(chats.chat(id)["sandboxId"])
    assert service["chatId"] == id and services.until(service["id"], "running")
    id, events = chats.run_turn("Something that is no suggestion", model="demo/demo")
    assert events[-1]["status"] == "complete" and "key" in chats.answer(id)


def test_every_suggestion_of_the_demo_ends(chats):
    suggestions = chats.ask("GET", "/models")["suggestions"][1:]
    (csv,) = chats.uploaded(("sales.csv", b"month,sum\nJan,3\nFeb,5\n", "text/csv"))
    ids = [chats.create(text, model="demo/demo", **({"attachments": [csv["id"]]} if "csv" in text.lower() else {}))["chat"]["id"] for text in suggestions]
    for id, suggestion in zip(ids, suggestions):
        assert eventually(lambda: chats.chat(id)["turnId"] is None, within=90, every=0.1, what=suggestion)
        assert chats.chat(id)["status"] == "idle", suggestion
        assert chats.calls(id), suggestion
