"""Chats over REST: turns, messages and their events; what comes while a turn runs; stopping; what a person must decide."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from chats import Chats, EventLog, Stream, Unexpected, core, doing, final, one, run, text
from model_answers import ANTHROPIC, OPENAI, Answer, Gate
from services import second_team
from waiting import eventually

WIRES = [OPENAI, ANTHROPIC]
NO_CHAT = "chat_" + "a" * 20
PLAIN = ["turn.started", "message.created", "message.created", "message.delta", "message.complete", "turn.complete"]


@pytest.fixture(scope="module")
def stranger(server) -> Chats:
    """Another team."""
    return Chats(server, second_team(server))


@pytest.mark.parametrize("wire", WIRES)
def test_turn(chats, model, wire):
    """A thought, a text, a call, an answer: everything is told in order, and is there afterwards."""
    first = Answer(["I lo", "ok."], [run("echo out; echo err >&2")], reasoning=["Let me ", "think."], usage=(120, 70, 33))
    script = model.script(first, Answer(["It ", "prints."], usage=(200, 120, 5)))
    id, events = chats.run_turn(f"{script.prompt}: print", model=f"{wire}/scripted", title="A title")
    EventLog().extend(events).check(exact=True)
    step = ["message.created", "message.delta", "message.complete"]
    assert core(events) == ["turn.started", "message.created", *step, "tool.call", "tool.output", "tool.message", *step, "turn.complete"]
    assert all(event["chatId"] == id and event["at"].endswith("Z") for event in events)

    asked, said = [event["message"] for event in events if event.type == "message.created"][:2]
    assert (asked["role"], asked["status"], text(asked)) == ("user", "complete", f"{script.prompt}: print"), asked
    assert (said["role"], said["status"], said["content"]) == ("assistant", "streaming", []), said
    thought = "".join(event["delta"].get("reasoning", "") for event in events if event.type == "message.delta")
    assert thought == "Let me think."
    complete, last = [event for event in events if event.type == "message.complete"]
    assert [part["type"] for part in complete["message"]["content"]] == ["reasoning", "text", "tool_call"], complete
    assert (complete["stopReason"], last["stopReason"]) == ("tools", "end")
    assert {name: complete["usage"][name] for name in ("inputTokens", "cachedTokens", "outputTokens")} == {
        **{"inputTokens": 120, "cachedTokens": 70, "outputTokens": 33},
    }
    call, result = one(events, "tool.call")["toolCall"], one(events, "tool.message")
    assert (call["name"], call["status"], call["arguments"]) == ("sandbox_run_command", "running", {"command": "echo out; echo err >&2"})
    assert call["title"].startswith("Run echo out") and call["messageId"] == complete["message"]["id"], call
    assert (result["toolCallId"], result["status"], result["error"], result["truncated"]) == (call["id"], "success", None, False)
    assert result["data"]["exitCode"] == 0 and "out" in result["output"] and result["durationMs"] >= 0 and result["attachments"] == []
    outputs = [event for event in events if event.type == "tool.output"]
    assert {event["stream"]: event["text"] for event in outputs} == {"stdout": "out\n", "stderr": "err\n"}, outputs
    turn = one(events, "turn.complete")
    assert (turn["status"], turn["reason"]) == ("complete", None) and turn["usage"]["inputTokens"] == 320, turn

    chat = chats.chat(id)
    assert (chat["status"], chat["turnId"], chat["queued"], chat["title"], chat["access"]) == ("idle", None, [], "A title", "private")
    assert chat["sandboxId"] == chat["sandboxes"][0]["sandboxId"] and chat["sandboxes"][0]["state"] == "running"
    assert call["sandboxId"] in (None, chat["sandboxId"]), "the first call makes it"
    assert chat["model"] == f"{wire}/scripted" and chat["contextTokens"] > 0 and chat["lastEventId"] >= events[-1].id
    back = script.last.conversation
    assert len(back.results) == 1 and "out" in back.results[0].text and back.tools.keys() >= {"sandbox_run_command", "ask_user", "sandbox_start_service"}
    messages = chats.messages(id)
    assert [(one["role"], one["status"], text(one)) for one in messages] == [
        ("user", "complete", f"{script.prompt}: print"),
        ("assistant", "complete", "I look."),
        ("assistant", "complete", "It prints."),
    ]
    assert messages[1]["toolCalls"][0]["output"] == result["output"] and messages[1]["toolCalls"][0]["sandboxId"] == chat["sandboxId"]
    assert messages[1]["model"] == f"{wire}/scripted"
    assert [event for event in events if event.type.startswith("sandbox.")][0].data.keys() >= {"name", "sandboxId", "state"}
    with chats.events(id, after=0) as stream:
        stored = stream.until(final())
    EventLog().extend(events).extend([event for event in stored if event.type != "message.snapshot"]).check()


def test_post_streams_end_with_the_turn(chats, model):
    script = model.script(Answer("one"), Answer("two"))
    with chats.create_stream({"prompt": script.prompt, "tools": []}) as stream:
        events = list(stream)
        id = stream.headers["x-chat-id"]
    assert core(events) == PLAIN and final()(next(event for event in reversed(events) if event.type == "turn.complete"))
    with chats.say_stream(id, "more") as stream:
        assert core(list(stream)) == PLAIN
    assert [text(one) for one in chats.messages(id)] == [script.prompt, "one", "more", "two"]


def test_chat_without_a_message(chats, model):
    made = chats.create(metadata={"a": {"b": [1]}}, title="Empty")
    chat = made["chat"]
    assert (chat["status"], chat["title"], chat["metadata"], chat["sandboxId"]) == ("idle", "Empty", {"a": {"b": [1]}}, None)
    assert chat["projectId"] == "default" and chat["parentId"] is None and chat["agentId"] is None and chat["browserSandboxId"] is None
    assert [tool["type"] for tool in chat["tools"]] == ["sandbox", "services", "ask"]
    assert chats.page(chat["id"]) == {"messages": [], "turns": [], "more": False, "lastEventId": chats.chat(chat["id"])["lastEventId"]}
    script = model.script(Answer("yes"))
    content = [{"type": "text", "text": script.prompt}, {"type": "text", "text": " and more"}]
    turn = chats.post(f"/chats/{chat['id']}/messages", {"content": content})["turn"]
    assert chats.ended(chat["id"], turn["id"]) == "complete" and turn["prompt"].startswith(script.prompt)
    assert script.last.conversation.said[0].replace("\n", "") == f"{script.prompt} and more"


def test_titles(chats, model):
    """The first words at once; later, perhaps, better ones. One that a person gave stays."""
    script = model.script(Answer("a"), Answer("b"))
    made = chats.create(f"{script.prompt} Make me a page", tools=[])
    assert made["chat"]["title"].startswith(script.prompt[:20]), made["chat"]["title"]
    chats.ended(made["chat"]["id"])
    id = made["chat"]["id"]
    changed = chats.ask("PATCH", f"/chats/{id}", {"title": "Mine", "metadata": {"x": 1}, "model": "anthropic/scripted"})
    assert (changed["title"], changed["metadata"], changed["model"]) == ("Mine", {"x": 1}, "anthropic/scripted")
    chats.ended(id, chats.say(id, "more")["id"])
    assert chats.chat(id)["title"] == "Mine" and script.last.wire == ANTHROPIC


def test_list_and_search(chats, model):
    mark = f"mark{time.time_ns()}"
    script = model.script(*[Answer(f"the answer has {mark}-said")] * 3)
    ids = [chats.create(f"{script.prompt} {mark}-asked", tools=[], title=f"{mark} {number}")["chat"]["id"] for number in range(3)]
    for id in ids:
        assert chats.ended(id) == "idle"
    assert [one["id"] for one in chats.listed(q=mark, limit=1)] == ids[::-1], "the newest first, over pages"
    for words in (f"{mark}-said", f"{mark}-asked", f"{mark} 1".upper()):
        assert {one["id"] for one in chats.listed(q=words)} == ({ids[1]} if words.endswith(" 1") else set(ids)), words
    script.steps.append(Answer("again"))
    chats.ended(ids[0], chats.say(ids[0], script.prompt)["id"])
    rows = chats.listed(q=mark)
    assert rows[0]["id"] == ids[0] and [row["updatedAt"] for row in rows] == sorted((row["updatedAt"] for row in rows), reverse=True)
    assert {one["id"] for one in chats.listed(q=mark, status="idle")} == set(ids) and not chats.listed(q=mark, status="running")
    assert chats.listed(q="%") == chats.listed(q="%_") == [], "no pattern, but text"
    assert not chats.listed(q=f"{mark}' or 1=1 --")


def test_delete(chats, model):
    """It ends turns, kills sandboxes, and is gone."""
    gate = Gate()
    script = model.script(Answer(calls=[run("true")]), Answer([gate, "never"]))
    made = chats.create(script.prompt)
    id = made["chat"]["id"]
    gate.arrive()
    sandbox = chats.chat(id)["sandboxId"]
    with chats.events(id, timeout=5) as watching:
        assert chats.send("DELETE", f"/chats/{id}").status == 204
        assert not [event for event in watching if event.type == "message.complete" and text(event["message"]) == "never"], "the stream ends"
    assert script.last.over.wait(10) and script.last.left, "the provider's call is dropped"
    chats.refused(404, "chat_not_found", "GET", f"/chats/{id}")
    eventually(lambda: chats.send("GET", f"/sandboxes/{sandbox}").status == 404)
    assert id not in {one["id"] for one in chats.listed()}
    kept = model.script(*doing(run("true")))
    id, _ = chats.run_turn(kept.prompt)
    sandbox = chats.chat(id)["sandboxId"]
    assert chats.send("DELETE", f"/chats/{id}?keepSandbox=true").status == 204
    assert chats.send("GET", f"/sandboxes/{sandbox}").status == 200
    chats.send("DELETE", f"/sandboxes/{sandbox}")


def test_idempotency(chats, model):
    script = model.script(Answer("one"), Answer("two"))
    key = f"key-{time.time_ns()}"
    first = chats.create(script.prompt, key, tools=[])
    again = chats.create(script.prompt, key, tools=[])
    assert (again["chat"]["id"], again["turn"]["id"]) == (first["chat"]["id"], first["turn"]["id"])
    with pytest.raises(Unexpected) as refused:
        chats.create("something else", key, tools=[])
    assert (refused.value.status, refused.value.code) == (422, "idempotency_mismatch")
    id = first["chat"]["id"]
    assert chats.ended(id) == "idle"
    turns = {chats.say(id, "more", f"{key}-2")["id"] for _ in range(3)}
    assert len(turns) == 1
    with ThreadPoolExecutor(8) as pool:
        assert {turn["id"] for turn in pool.map(lambda _: chats.say(id, "more", f"{key}-2"), range(16))} == turns
    with pytest.raises(Unexpected) as refused:
        chats.say(id, "less", f"{key}-2")
    assert refused.value.code == "idempotency_mismatch"
    assert chats.ended(id) == "idle"
    assert len(script.requests) == 2 and len(chats.messages(id)) == 4
    forks = {chats.post(f"/chats/{id}/fork", {"withSandbox": False}, f"{key}-3")["chat"]["id"] for _ in range(2)}
    assert len(forks) == 1


def test_pages_of_messages(chats, model):
    script = model.script(*[Answer(f"answer {number}") for number in range(4)])
    id, _ = chats.run_turn(script.prompt, tools=[])
    for number in range(1, 4):
        chats.ended(id, chats.say(id, f"question {number}")["id"])
    everything = chats.messages(id)
    assert len(everything) == 8 and text(everything[-1]) == "answer 3"
    newest = chats.page(id, limit=3)
    assert newest["messages"] == everything[-3:] and newest["more"] is True
    before = chats.page(id, limit=5, before=newest["messages"][0]["id"])
    assert before["messages"] == everything[:5] and before["more"] is False
    assert newest["lastEventId"] == chats.chat(id)["lastEventId"]
    for query in ("limit=0", "limit=201", "limit=x"):
        assert chats.send("GET", f"/chats/{id}/messages?{query}").status == 400
    chats.refused(404, "message_not_found", "GET", f"/chats/{id}/messages?before=msg_{'a' * 20}")


def test_reading_while_it_is_written(chats, model):
    """What is read, and the events after it, are the whole: nothing is missed, nothing doubled."""
    gate, later = Gate(), Gate()
    wait = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two"
    script = model.script(Answer(["Hel", gate, "lo"], [run(wait)]), Answer([later, "end"]))
    id = chats.create(script.prompt)["chat"]["id"]
    gate.arrive()
    reading = lambda: (page := chats.page(id)) and text(page["messages"][-1]) and page
    page = eventually(reading)
    assert (page["messages"][-1]["status"], text(page["messages"][-1])) == ("streaming", "Hel")
    with chats.events(id, after=page["lastEventId"]) as stream:
        gate.release()
        events = stream.until("message.complete")
    assert "".join(event["delta"]["text"] for event in events if event.type == "message.delta") == "lo"
    running = lambda: (page := chats.page(id)) and "one" in page["messages"][-1].get("toolCalls", [{}])[0].get("output", "") and page
    page = eventually(running)
    assert page["messages"][-1]["toolCalls"][0]["status"] == "running"
    with chats.events(id, after=page["lastEventId"]) as stream:
        chats.run(chats.box(id), "touch go")
        events = stream.until("tool.message")
    assert [event["text"] for event in events if event.type == "tool.output"] == ["two\n"]
    later.release()
    assert chats.ended(id) == "idle"


def test_events_from_now_and_from_before(chats, model):
    script = model.script(Answer("one"), Answer("two"))
    id, events = chats.run_turn(script.prompt, tools=[])
    with chats.events(id) as stream:
        first = next(iter(stream))
        assert first.type == "chat.updated" and first["chat"]["id"] == id, first
        chats.say(id, "again")
        new = stream.until(final())
    assert core(new)[0] in ("turn.queued", "turn.started") and min(event.id for event in new if event.id) > events[-1].id
    # What is not kept may be missing when nobody had the chat open in between.
    kept = lambda events: [event.id for event in events if event.type not in ("message.delta", "chat.updated")]
    for path in ("events", "resume"):
        with chats.events(id, last=events[-1].id, path=path) as stream:
            later = kept(stream.until(final()))
        with chats.events(id, after=events[-1].id, path=path) as stream:
            assert kept(stream.until(final())) == later == kept(new)
    for query in ("after=-1", "after=x", "maxAge=0", "maxAge=x"):
        with pytest.raises(Unexpected) as refused:
            Stream(chats.server, "GET", f"/chats/{id}/events?{query}", chats.server.key)
        assert refused.value.status == 400, query


# Others, and bad input.


def test_other_teams_see_nothing(chats, model, stranger):
    script = model.script(*doing(run("true")))
    id, _ = chats.run_turn(script.prompt)
    (attachment,) = chats.uploaded(("a.txt", b"a", "text/plain"))
    agent = chats.ask("POST", "/agents", {"name": f"mine-{time.time_ns()}"})
    turn = chats.messages(id)[0]["turnId"]
    for method, path, body in [
        *[(method, f"/chats/{id}", {}) for method in ("GET", "DELETE")],
        ("PATCH", f"/chats/{id}", {"title": "x"}),
        ("POST", f"/chats/{id}/messages", {"prompt": "x"}),
        *[("GET", f"/chats/{id}/{what}", None) for what in ("messages", "events", "resume", "attachments", "checkpoints")],
        ("POST", f"/chats/{id}/cancel", {}),
        ("POST", f"/chats/{id}/fork", {}),
        ("POST", f"/chats/{id}/attachments/sync", {}),
        ("POST", f"/chats/{id}/sandboxes", {"name": "x"}),
        ("POST", f"/chats/{id}/checkpoints/{turn}/restore", {}),
        ("POST", f"/chats/{id}/approvals/{chats.calls(id)[0]['id']}", {"decision": "allow"}),
        ("GET", f"/attachments/{attachment['id']}", None),
        ("GET", f"/attachments/{attachment['id']}/content", None),
        ("DELETE", f"/attachments/{attachment['id']}", None),
        ("GET", f"/agents/{agent['id']}", None),
        ("DELETE", f"/agents/{agent['id']}", None),
        ("POST", "/chats", {"prompt": "x", "attachments": [attachment["id"]]}),
        ("POST", "/chats", {"prompt": "x", "agentId": agent["id"]}),
    ]:
        answer = stranger.send(method, path, body)
        assert answer.status == 404, (method, path, answer.status, answer.body)
        assert chats.server.key not in answer.body.decode()
    assert id not in {one["id"] for one in stranger.listed()} and not stranger.listed(q=script.prompt)
    chats.ask("DELETE", f"/agents/{agent['id']}")
    assert chats.send("GET", "/chats", headers={"X-API-KEY": "e2b_" + "0" * 40}).status == 401


BAD_CHATS = [
    {"prompt": ""},
    {"prompt": "x", "content": [{"type": "text", "text": "y"}]},
    {"content": []},
    {"content": [{"type": "video"}]},
    {"content": [{"type": "tool_call", "toolCallId": "call_" + "a" * 20, "name": "x", "arguments": {}}]},
    {"content": [{"type": "text", "text": "x"}] * 251},
    {"prompt": "x" * 262_145},
    {"prompt": 7},
    {"unknown": 1},
    {"title": "x" * 201},
    {"model": "nothing/there"},
    {"model": ""},
    {"tools": [{"type": "teleport"}]},
    {"tools": [{"type": "sandbox", "cpus": 2}]},
    {"tools": [{"type": "sandbox", "approve": {"*": "perhaps"}}]},
    {"tools": [{"type": "sandbox", "names": ["x" * 65]}]},
    {"tools": [{"type": "function", "name": "bad name"}]},
    {"tools": [{"type": "function", "name": "sandbox_run_command"}, {"type": "sandbox"}]},
    {"tools": [{"type": "function", "name": f"f{number}"} for number in range(65)]},
    {"metadata": {"x": "y" * 16_384}},
    {"metadata": []},
    {"attachments": ["nothing"]},
]


@pytest.mark.parametrize("body", BAD_CHATS, ids=lambda body: json.dumps(body)[:40])
def test_bad_chats(chats, body):
    before = {one["id"] for one in chats.listed()}
    answer = chats.send("POST", "/chats", body)
    assert answer.status == 400, (answer.status, answer.body[:300])
    assert answer.json["message"] and answer.json["error_code"], answer.body
    assert {one["id"] for one in chats.listed()} == before


def test_bad_requests(chats, model):
    script = model.script(Answer("ok"))
    id, _ = chats.run_turn(script.prompt, tools=[])
    for method, path, body in [
        ("POST", f"/chats/{id}/messages", {}),
        ("POST", f"/chats/{id}/messages", {"prompt": "x", "onBusy": "panic"}),
        ("POST", f"/chats/{id}/messages", {"prompt": "x", "model": "no/such"}),
        ("POST", f"/chats/{id}/messages", {"prompt": "x", "title": "y"}),
        ("PATCH", f"/chats/{id}", {"title": ""}),
        ("PATCH", f"/chats/{id}", {"status": "idle"}),
        ("POST", f"/chats/{id}/fork", {"messageId": "x"}),
        ("GET", "/chats?limit=0", None),
        ("GET", "/chats?limit=101", None),
        ("GET", "/chats?status=happy", None),
        ("GET", "/chats?cursor=nonsense", None),
        ("POST", f"/chats/{id}/tool-results", {"results": []}),
        ("POST", f"/chats/{id}/attachments", {"ids": ["x"]}),
    ]:
        answer = chats.send(method, path, body)
        assert answer.status == 400, (method, path, body, answer.status, answer.body)
    raw = {"Content-Type": "application/json"}
    for body in (b"{", b"[]", b"\xff", b'{"prompt": "\\ud800"}'):
        assert chats.send("POST", "/chats", body, raw).status == 400, body
    chats.refused(404, "project_not_found", "POST", "/chats", {"prompt": "x", "projectId": "another"})
    chats.refused(404, "chat_not_found", "GET", f"/chats/{NO_CHAT}")
    chats.refused(404, "chat_not_found", "POST", f"/chats/{NO_CHAT}/messages", {"prompt": "x"})
    assert chats.send("GET", "/chats/..%2f..%2fetc").status == 404
    assert len(script.requests) == 1
