"""While a turn of a chat runs: further messages, stopping, and what a person or the client must do."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from chats import ASKING, SANDBOX, EventLog, doing, kinds, one, run, text, write
from model_answers import ANTHROPIC, Answer, Failure, Gate, Silence, Use
from waiting import eventually, within


@pytest.fixture
def held(chats, model):
    """A chat whose turn is held in the middle of its answer; the script goes on with what a test adds to it."""
    gate = Gate()
    script = model.script(Answer(["half ", gate, "whole"]))
    made = chats.create(script.prompt, tools=SANDBOX)
    gate.arrive()
    eventually(lambda: text(chats.messages(made["chat"]["id"])[-1]))
    yield made["chat"]["id"], made["turn"]["id"], script, gate
    gate.release()


def test_queue(chats, held):
    id, turn, script, gate = held
    script.steps += [Answer("first"), Answer("third")]
    queued = [chats.say(id, name) for name in ("one", "two", "three")]
    assert [one["status"] for one in queued] == ["queued"] * 3
    chat = chats.chat(id)
    assert [one["id"] for one in chat["queued"]] == [one["id"] for one in queued] and chat["turnId"] == turn
    assert [one["prompt"] for one in chat["queued"]] == ["one", "two", "three"]
    removed = chats.cancel(id, turnId=queued[1]["id"])
    assert (removed["id"], removed["status"]) == (queued[1]["id"], "cancelled")
    gate.release()
    assert chats.ended(id) == "idle"
    asked = [text(one) for one in chats.messages(id) if one["role"] == "user"]
    assert asked == [script.prompt, "one", "three"]
    events = chats.all_events(id)
    assert [event["turn"]["prompt"] for event in events if event.type == "turn.queued"] == ["one", "two", "three"]
    assert one(events, "turn.removed")["turnId"] == queued[1]["id"]
    EventLog().extend(events).check()


def test_queue_is_bounded(chats, held):
    id, _, script, gate = held
    script.steps += [Answer(f"answer {number}") for number in range(20)]
    with ThreadPoolExecutor(8) as pool:
        turns = list(pool.map(lambda number: chats.say(id, f"queued {number}"), range(20)))
    chats.refused(429, "limit_reached", "POST", f"/chats/{id}/messages", {"prompt": "one more"})
    chats.refused(409, "turn_running", "POST", f"/chats/{id}/messages", {"prompt": "x", "onBusy": "reject"})
    assert len({turn["id"] for turn in turns}) == 20 == len(chats.chat(id)["queued"])
    gate.release()
    assert chats.ended(id) == "idle"
    assert len(chats.messages(id)) == 42


@pytest.mark.parametrize("calls", [True, False], ids=["before-a-call", "after-the-last"])
def test_steer(chats, model, calls):
    """The running turn gets it before its next call of the model, even if it wanted to end."""
    gate = Gate()
    script = model.script(Answer(["half ", gate, "whole"], [run("true")] if calls else []), Answer("as you wish"))
    made = chats.create(script.prompt)
    id, turn = made["chat"]["id"], made["turn"]["id"]
    gate.arrive()
    steered = chats.say(id, "rather this", onBusy="steer")
    assert steered["id"] == turn
    gate.release()
    assert chats.ended(id) == "idle"
    assert script.last.conversation.said == [script.prompt, "rather this"]
    assert chats.answer(id) == "as you wish"
    log = EventLog().extend(chats.all_events(id)).check()
    assert [event["turn"]["id"] for event in log.ordered if event.type == "turn.started"] == [turn]
    assert "rather this" in [text(event["message"]) for event in log.ordered if event.type == "message.created"]


def test_steer_of_an_idle_chat_is_a_turn(chats, model):
    script = model.script(Answer("one"), Answer("two"))
    id, events = chats.run_turn(script.prompt, tools=[])
    turn = chats.say(id, "more", onBusy="steer")
    assert turn["id"] != one(events, "turn.complete")["turnId"]
    assert chats.ended(id, turn["id"]) == "complete" and chats.answer(id) == "two"


def test_many_send_at_once(chats, model):
    """Each message is one turn, and one runs at a time."""
    script = model.script(*[Answer(f"answer {number}") for number in range(12)])
    id = chats.create(tools=[])["chat"]["id"]
    names = [f"{script.prompt} {number}" for number in range(12)]
    with ThreadPoolExecutor(12) as pool:
        turns = list(pool.map(lambda name: chats.say(id, name)["id"], names))
    assert len(set(turns)) == 12 and chats.ended(id) == "idle"
    messages = chats.messages(id)
    assert sorted(text(one) for one in messages if one["role"] == "user") == sorted(names)
    assert [one["role"] for one in messages] == ["user", "assistant"] * 12
    EventLog().extend(chats.all_events(id)).check()


# Stopping.

MOMENTS = ["silence", "answer", "command", "approval", "function", "retry"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_cancel(chats, model, moment):
    """At any moment: everything has stopped when the answer comes, and the chat goes on."""
    gate = Gate()
    command = run("echo begun; echo $$ > pid; sleep 600 & sleep 600; echo survived > survived")
    steps, tools = {
        "silence": ([Silence(gate=gate)], []),
        "answer": ([Answer(["half", gate, "whole"])], []),
        "command": ([Answer("I run", [command])], SANDBOX),
        "approval": ([Answer("I ask", [run("touch never")])], ASKING),
        "function": ([Answer("I call", [Use("mine", {})])], [{"type": "function", "name": "mine"}]),
        "retry": ([Failure(503)], []),
    }[moment]
    script = model.script(*steps, Answer("on we go"))
    made = chats.create(script.prompt, tools=tools)
    id, turn = made["chat"]["id"], made["turn"]["id"]
    if moment in ("silence", "answer"):
        gate.arrive()
    elif moment == "retry":
        assert script.wait(1).over.wait(5)
    elif moment == "command":
        eventually(lambda: chats.calls(id) and "begun" in chats.calls(id)[0]["output"])
    else:
        eventually(lambda: chats.chat(id)["status"] == "waiting")
    begun = time.monotonic()
    stopped = chats.cancel(id)
    within(10, begun, "cancelling")
    assert (stopped["id"], stopped["status"]) == (turn, "cancelled"), stopped
    assert script.requests[0].over.wait(5)
    if moment in ("silence", "answer"):
        assert script.last.left, "the provider's call is dropped"
    if moment == "command":
        assert chats.run(chats.box(id), "pgrep -c sleep || true").strip() == "0"
        assert not chats.file(id, "survived")
    chat = chats.chat(id)
    assert (chat["status"], chat["turnId"]) == ("idle", None)
    chats.refused(409, "turn_not_running", "POST", f"/chats/{id}/cancel", {})
    events = chats.all_events(id)
    EventLog().extend(events).check()
    assert events[-1].type == "chat.updated" or kinds(events)[-1] == "turn.complete"
    if moment == "answer":
        last = chats.messages(id)[-1]
        assert (last["status"], text(last)) == ("cancelled", "half"), last
    assert all(call["status"] == "error" and call["error"]["code"] == "cancelled" for call in chats.calls(id))
    assert len(script.requests) == 1
    assert chats.ended(id, chats.say(id, "go on")["id"]) == "complete"
    assert chats.answer(id) == "on we go"


def test_cancel_twice_at_once(chats, held):
    id, turn, _, _ = held
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: chats.send("POST", f"/chats/{id}/cancel", {}), range(4)))
    assert {answer.status for answer in answers} <= {200, 409} and any(answer.status == 200 for answer in answers)
    assert chats.ended(id) == "idle"
    assert chats.send("POST", f"/chats/{id}/cancel", {"turnId": "turn_" + "a" * 20}).status in (404, 409)


# What a person decides.


def test_approvals(chats, model):
    script = model.script(
        *(Answer(calls=[run(f"echo {number} >> ran")]) for number in range(3)),
        Answer(calls=[run("echo x >> ran"), run("echo y >> ran")]),
        Answer("done"),
        *doing(run("echo later >> ran")),
    )
    with chats.create_stream({"prompt": script.prompt, "tools": ASKING}) as stream:
        id, events = stream.headers["x-chat-id"], list(stream)
    end = one(events, "turn.complete")
    assert end["status"] == "waiting" and events[-1].type in ("turn.complete", "chat.updated"), "the client can answer"
    call, asked = one(events, "tool.call")["toolCall"], one(events, "approval.requested")
    assert call["status"] == "approval" and asked["toolCallId"] == call["id"] and asked["why"], (call, asked)
    assert chats.chat(id)["status"] == "waiting" and chats.calls(id)[0]["status"] == "approval"
    turn = end["turnId"]
    chats.refused(404, "call_not_found", "POST", f"/chats/{id}/approvals/call_{'a' * 20}", {"decision": "allow"})
    assert chats.send("POST", f"/chats/{id}/approvals/{call['id']}", {"decision": "maybe"}).status == 400
    assert chats.send("POST", f"/chats/{id}/tool-results", {"results": [{"toolCallId": call["id"], "output": "x"}]}).status == 409
    assert chats.decide(id, call["id"], "allow")["id"] == call["id"]
    waiting = lambda count: eventually(lambda: (calls := chats.calls(id)) and len(calls) == count and calls[-1]["status"] == "approval" and calls[-1])
    second = waiting(2)
    chats.refused(409, "call_not_waiting", "POST", f"/chats/{id}/approvals/{call['id']}", {"decision": "deny"})
    chats.decide(id, second["id"], "deny", note="not that one, please")
    third = waiting(3)
    assert "not that one, please" in script.last.conversation.results[-1].text
    assert chats.calls(id)[1]["status"] == "error"
    chats.decide(id, third["id"], "always")
    assert chats.ended(id, turn) == "complete", "later calls are not asked about"
    assert chats.file(id, "ran") == "0\n2\nx\ny\n"
    assert chats.ended(id, chats.say(id, f"{script.prompt} again")["id"]) == "complete"
    assert chats.file(id, "ran").endswith("later\n")
    log = EventLog().extend(chats.all_events(id)).check()
    starts = [event["turn"]["id"] for event in log.ordered if event.type == "turn.started"]
    assert starts[:4] == [turn] * 4, "it goes on after each decision"


def test_approval_never(chats, model):
    script = model.script(*doing(run("echo x > ran"), write("kept", "k")))
    id, events = chats.run_turn(script.prompt, tools=[{"type": "sandbox", "approve": {"sandbox_*": "never", "sandbox_write_file": "auto"}}])
    first, second = [event for event in events if event.type == "tool.message"]
    assert (first["status"], second["status"]) == ("error", "success") and chats.file(id, "ran") == "" and chats.file(id, "kept") == "k"


def test_questions(chats, model):
    script = model.script(Answer("Hm.", [Use("ask_user", {"question": "Which colour?", "options": ["red", "blue"]})]), Answer("blue it is"))
    made = chats.create(script.prompt, tools=[{"type": "ask"}])
    id = made["chat"]["id"]
    call = eventually(lambda: chats.chat(id)["status"] == "waiting" and chats.calls(id)[0])
    assert (call["name"], call["status"], call["arguments"]["options"]) == ("ask_user", "client", ["red", "blue"])
    (done,) = chats.give(id, (call["id"], "blue"))
    assert (done["status"], done["output"]) == ("success", "blue")
    assert chats.ended(id, made["turn"]["id"]) == "complete"
    assert script.last.conversation.results[-1].text == "blue" and chats.answer(id) == "blue it is"


def test_functions_of_the_client(chats, model):
    """Several at once, answered in any order and all or nothing."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "name": "weather", "description": "Tells the weather", "parameters": schema}
    uses = [Use("weather", {"city": city}) for city in ("Paris", "Rome")]
    script = model.script(Answer(calls=uses), Answer("warm"))
    with chats.create_stream({"prompt": script.prompt, "tools": [tool]}) as stream:
        id, events = stream.headers["x-chat-id"], list(stream)
    assert script.last.conversation.tools == {"weather": schema}
    assert one(events, "turn.complete")["status"] == "waiting"
    first, second = [call["id"] for call in chats.calls(id)]
    assert [call["status"] for call in chats.calls(id)] == ["client", "client"]
    bad = {"results": [{"toolCallId": first, "output": "a"}, {"toolCallId": "call_" + "a" * 20, "output": "b"}]}
    chats.refused(404, "call_not_found", "POST", f"/chats/{id}/tool-results", bad)
    assert [call["status"] for call in chats.calls(id)] == ["client", "client"], "all or nothing"
    chats.give(id, (second, "no such city"), isError=True)
    assert chats.chat(id)["status"] == "waiting"
    chats.give(id, (first, json.dumps({"degrees": 21})))
    assert chats.ended(id) == "idle" and chats.answer(id) == "warm"
    results = {result.id: result.text for result in script.last.conversation.results}
    assert sorted(results.values()) == sorted(['{"degrees": 21}', results[script.requests[-1].conversation.results[1].id]])
    assert "no such city" in "".join(results.values())
    chats.refused(409, "call_not_waiting", "POST", f"/chats/{id}/tool-results", {"results": [{"toolCallId": first, "output": "again"}]})
    EventLog().extend(chats.all_events(id)).check()


def test_tools_of_a_turn(chats, model):
    script = model.script(Answer("a"), Answer("b"), Answer("c"))
    id, _ = chats.run_turn(script.prompt, tools=[])
    assert script.last.conversation.tools == {} and chats.chat(id)["sandboxId"] is None
    allowed = [{"type": "sandbox", "allow": ["sandbox_read_*", "sandbox_grep_files"]}]
    chats.ended(id, chats.say(id, "b", tools=allowed)["id"])
    assert set(script.last.conversation.tools) == {"sandbox_read_file", "sandbox_grep_files"}
    chats.ended(id, chats.say(id, "c", model="anthropic/scripted")["id"])
    assert script.last.conversation.tools == {} and script.last.wire == ANTHROPIC, "for that turn only"
    assert chats.chat(id)["model"] == "anthropic/scripted", "from that turn on"


def test_reads_run_at_once_and_writes_in_order(chats, model):
    """What changes something sees what was called before it."""
    changes = [write("a", "1\n"), run("cat a > b; echo 2 >> b"), run("cat b > c; echo 3 >> c")]
    script = model.script(Answer(calls=changes), Answer(calls=[Use("sandbox_read_file", {"path": path}) for path in "abc"]), Answer("ok"))
    id, events = chats.run_turn(script.prompt)
    assert chats.file(id, "c") == "1\n2\n3\n"
    order = [event.type for event in events if event.type in ("tool.call", "tool.message")]
    assert order[:6] == ["tool.call", "tool.message"] * 3, "one after the other"
    texts = [result.text for result in script.last.conversation.results[3:]]
    assert len(texts) == 3 and "3" in texts[2]
    assert sorted(order[6:]) == ["tool.call"] * 3 + ["tool.message"] * 3


def test_several_sandboxes(chats, model):
    script = model.script(Answer(calls=[write("where", "main")]), Answer("made"))
    id, _ = chats.run_turn(script.prompt, tools=[{"type": "sandbox", "names": ["main", "other"]}])
    made = chats.ask("POST", f"/chats/{id}/sandboxes", {"name": "copy", "from": "fork"})
    assert (made["name"], made["role"], made["state"]) == ("copy", "code", "running")
    assert chats.file(id, "where", "copy") == "main", "a copy of the computer"
    chats.ask("POST", f"/chats/{id}/sandboxes", {"name": "other"})
    more = model.script(Answer(calls=[Use("sandbox_write_file", {"path": "where", "content": "other", "sandbox": "other"})]), Answer("there"))
    assert chats.ended(id, chats.say(id, more.prompt)["id"]) == "complete"
    assert (chats.file(id, "where"), chats.file(id, "where", "other")) == ("main", "other")
    call = chats.calls(id)[-1]
    chat = chats.chat(id)
    assert {one["name"]: one["sandboxId"] for one in chat["sandboxes"]}["other"] == call["sandboxId"] != chat["sandboxId"]
    assert chats.send("POST", f"/chats/{id}/sandboxes", {"name": "other"}).status == 409
    for name in ("", "a b", "../x", "x" * 65):
        assert chats.send("POST", f"/chats/{id}/sandboxes", {"name": name}).status == 400, name
    gone = next(one["sandboxId"] for one in chat["sandboxes"] if one["name"] == "copy")
    assert chats.send("DELETE", f"/chats/{id}/sandboxes/copy").status == 204
    assert chats.send("GET", f"/sandboxes/{gone}").status == 404
    assert chats.send("DELETE", f"/chats/{id}/sandboxes/copy").status == 404
    assert {one["name"] for one in chats.chat(id)["sandboxes"]} == {"main", "other"}


def test_turns_of_a_team_are_bounded(chats, model):
    """Eight run; the ninth runs when one of them has ended."""
    gates = [Gate() for _ in range(9)]
    scripts = [model.script(Answer([gate, "end"])) for gate in gates]
    ids = [chats.create(script.prompt, tools=[])["chat"]["id"] for script in scripts]
    eventually(lambda: sum(gate.reached.is_set() for gate in gates) == 8)
    late = next(gate for gate in gates if not gate.reached.is_set())
    assert not late.reached.wait(0.3)
    next(gate for gate in gates if gate is not late).release()
    late.arrive()
    for gate in gates:
        gate.release()
    for id in ids:
        assert chats.ended(id) == "idle"
