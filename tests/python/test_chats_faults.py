"""What goes wrong in a turn: every fault of a provider on both wires, and of a sandbox. Each ends in a documented event, and in a state
from which the chat goes on."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from chats import FILL, SANDBOX, Chats, Event, EventLog, core, doing, one, run, text, write
from model_answers import ANTHROPIC, OPENAI, Answer, Failure, Pause, Use
from model_server import ModelServer, Script
from waiting import eventually

WIRES = [OPENAI, ANTHROPIC]
#: Calls of a model for which the provider was asked six times: once, and five times again.
TRIES = 6
SOON = {"retry-after": "0"}


@dataclass
class Fault:
    """What the provider does, and what becomes of it."""

    steps: list
    status: str = "complete"
    #: Code of the error that is told, if the turn fails.
    code: str | None = None
    requests: int | None = None
    answer: str | None = None
    #: Messages that broke off.
    interrupted: int = 0
    reason: str | None = None
    stop: str | None = None
    retryable: bool | None = None


def faults(wire: str) -> dict[str, Fault]:
    back = Answer("recovered")
    # A number where a text should be: something that no client can read as an answer.
    odd = b"data: {]\n\n" if wire == OPENAI else b"event: content_block_delta\ndata: {]\n\n"
    overloaded = "server_error" if wire == OPENAI else "overloaded_error"
    again = lambda *steps: Fault([*steps, back], answer="recovered", requests=len(steps) + 1)
    broken = lambda step: Fault([step, back], answer="recovered", requests=2, interrupted=1)
    refused = lambda step, code: Fault([step], "failed", code, 1, retryable=False)
    return {
        # Before the first delta: asked again, and nobody notices.
        "429": again(Failure(429, {"retry-after": "1"})),
        "529": again(Failure(529, SOON), Failure(529)),
        "500": again(Failure(500)),
        "503-html": again(Failure(503, {"Content-Type": "text/html"}, b"<html>Service unavailable</html>")),
        "cut-before-anything": again(Answer(cut=0)),
        "cut-before-the-first-delta": again(Answer("never", cut_after=0)),
        # After it: what was said is interrupted, and the model is called again.
        "cut-after-deltas": broken(Answer(["some ", "of ", "it"], cut_after=2)),
        "cut-in-a-call": Fault([Answer("x", [run("echo never > ran")], cut=900), back], answer="recovered", interrupted=1),
        "nonsense-after-deltas": broken(Answer("some", nonsense=odd)),
        "error-in-the-stream": broken(Answer("some", error=overloaded)),
        "cut-always": Fault([Answer(["some", "text"], cut_after=1)] * 3, "interrupted", None, 3, interrupted=3),
        # What does not get better.
        "401": refused(Failure(401), "model_key_refused"),
        "403": refused(Failure(403), "model_key_refused"),
        "404": refused(Failure(404), "model_not_found"),
        "400": refused(Failure(400), "model_rejected_request"),
        "context": Fault([Failure(400, kind="context")] * 3, "failed", "context_too_long", retryable=False),
        "429-always": Fault([Failure(429, SOON)] * TRIES, "failed", "model_overloaded", TRIES, retryable=True),
        "500-always": Fault([Failure(500, SOON)] * TRIES, "failed", "model_unavailable", TRIES, retryable=True),
        "answer-is-a-page": Fault([Failure(200, {"Content-Type": "text/html"}, b"<html>Please sign in</html>")] * TRIES, "failed", "model_garbled"),
        # Odd, but answers.
        "refusal": Fault([Answer(refusal="I will not.")], stop="refused", answer="I will not."),
        "refused-by-a-filter": Fault([Answer("I w", stop="refused")], stop="refused", answer="I w"),
        "length": Fault([Answer("half an ans", stop="length")], stop="length", answer="half an ans"),
        "slow": Fault([Answer("byte by byte", slow=0.0005)], answer="byte by byte"),
        "pauses": Fault([Answer(["a", Pause(0.3), "b", Pause(0.3), "c"])], answer="abc"),
    }


@dataclass
class Outcome:
    id: str
    events: list[Event]
    script: Script
    after: str = ""
    errors: list[str] = field(default_factory=list)


NAMES = list(faults(OPENAI))


def suffer(chats: Chats, model: ModelServer, wire: str, fault: Fault) -> Outcome:
    """A turn with the fault, and then one without."""
    script = model.script(*fault.steps)
    id, events = chats.run_turn(script.prompt, model=f"{wire}/scripted", tools=SANDBOX, title="faulty")
    left = len(script.requests)
    good = model.script(Answer("on we go"))
    after = chats.ended(id, chats.say(id, good.prompt)["id"], within=60)
    assert len(script.requests) == left
    return Outcome(id, events, script, f"{after}: {chats.answer(id)}")


@pytest.fixture(scope="module", autouse=True)
def outcomes(server, model_server):
    """All faults, several at a time, while the other tests run: some of them are waited for. A few turns are left for those."""
    chats = Chats(server)
    chosen = [(wire, name, fault) for wire in WIRES for name, fault in faults(wire).items()]
    # Those first that are asked for again and again: that takes half a minute.
    chosen.sort(key=lambda one: -len(one[2].steps))
    with ThreadPoolExecutor(6) as pool:
        yield {(wire, name): pool.submit(suffer, chats, model_server, wire, fault) for wire, name, fault in chosen}
    chats.close()


@pytest.mark.parametrize("wire", WIRES)
def test_empty_answer(chats, model, wire):
    """The turn ends, nothing empty is sent back, and the chat goes on."""
    script = model.script(*[Answer("")] * 3, Answer("something"))
    id, events = chats.run_turn(script.prompt, model=f"{wire}/scripted", tools=[])
    end = one(events, "turn.complete")
    assert end["status"] in ("complete", "failed")
    assert end["status"] == "complete" or [event for event in events if event.type == "error"]
    script.steps = [Answer("something")]
    assert chats.ended(id, chats.say(id, "well?")["id"]) == "complete" and chats.answer(id) == "something"


def test_huge_answer(server, chats, model):
    """It is cut off or kept, and costs the server little."""
    before = server.memory()
    script = model.script(Answer(["x" * 4096] * 8192))
    id, events = chats.run_turn(script.prompt, tools=[])
    end = one(events, "turn.complete")
    assert end["status"] in ("complete", "failed"), end
    if end["status"] == "failed":
        assert [event["code"] for event in events if event.type == "error"][-1] == "model_answer_too_large"
    assert server.memory() - before < 300 << 20
    good = model.script(Answer("small"))
    assert chats.ended(id, chats.say(id, good.prompt)["id"]) == "complete"


BAD_CALLS = {
    "cut-off": Use("sandbox_run_command", '{"command": "echo'),
    "no-json": Use("sandbox_run_command", "echo hi"),
    "a-list": Use("sandbox_run_command", "[1, 2]"),
    "empty": Use("sandbox_run_command", ""),
    "wrong-type": Use("sandbox_run_command", {"command": 7}),
    "more-than-there-is": Use("sandbox_run_command", {"command": "true", "colour": "red"}),
    "nested": Use("sandbox_run_command", "[" * 500),
    "unknown-tool": Use("rm_rf", {"path": "/"}),
    "strange-name": Use("sandbox_run_command\u202e<b>", {"command": "true"}),
    "other-sandbox": Use("sandbox_run_command", {"command": "true", "sandbox": "i00000000000000000000"}),
}


@pytest.mark.parametrize("wire", WIRES)
def test_bad_calls(chats, model, wire):
    """They go back to the model, which goes on; good ones beside them run."""
    for name, use in BAD_CALLS.items():
        script = model.script(Answer(calls=[use, run("echo good")]), Answer("sorry"))
        id, events = chats.run_turn(script.prompt, model=f"{wire}/scripted")
        bad, good = [event for event in events if event.type == "tool.message"]
        assert (bad["status"], good["status"]) == ("error", "success"), (name, bad.data)
        assert bad["error"]["message"] and bad["error"]["hint"], name
        if use.name == "sandbox_run_command" and name != "other-sandbox":
            assert bad["error"]["code"] == "invalid_arguments", (name, bad["error"])
        assert len(script.requests) == 2 and chats.answer(id) == "sorry", name
        results = script.last.conversation.results
        assert bad["error"]["code"] in results[0].text or bad["error"]["message"] in results[0].text, (name, results)
        EventLog().extend(events).check()


def test_stuck(chats, model):
    """The same call with the same result: a note at the third, the end at the fifth."""
    script = model.script(*[Answer(calls=[run("echo same")])] * 9)
    id, events = chats.run_turn(script.prompt)
    end = one(events, "turn.complete")
    assert (end["status"], end["reason"]) == ("failed", "stuck") and len(script.requests) == 5
    texts = [[result.text for result in seen.conversation.results] for seen in script.requests]
    assert texts[3][-1] != texts[2][-1] and texts[3][-1].startswith(texts[2][-1].rstrip("\n")), "a note"
    different = model.script(*[Answer(calls=[run(f"echo {number}")]) for number in range(6)], Answer("fine"))
    assert chats.ended(id, chats.say(id, different.prompt)["id"]) == "complete"


def test_step_limit(chats, model):
    agent = chats.ask("POST", "/agents", {"name": "three-steps", "limits": {"maxSteps": 3}, "tools": SANDBOX})
    script = model.script(*[Answer(calls=[run(f"echo {number}")]) for number in range(9)])
    id, events = chats.run_turn(script.prompt, agentId=agent["id"])
    end = one(events, "turn.complete")
    assert (end["status"], end["reason"]) == ("failed", "step_limit") and len(script.requests) == 3
    good = model.script(Answer("fine"))
    assert chats.ended(id, chats.say(id, good.prompt)["id"]) == "complete"
    chats.send("DELETE", f"/agents/{agent['id']}")


@pytest.mark.parametrize("wire", WIRES)
def test_long_conversation(chats, model, wire):
    """Older turns become a summary for the model. People see everything, and calls keep their results."""
    words = "word " * 1200
    steps = [step for number in range(6) for step in (Answer(calls=[run(f"echo {number}")]), Answer(f"answer {number}"))]
    script = model.script(*steps)
    id, events = chats.run_turn(f"{script.prompt} {words}", model=f"{wire}/small", tools=[{"type": "sandbox", "allow": ["sandbox_run_command"]}], title="t")
    for number in range(1, 6):
        assert chats.ended(id, chats.say(id, f"{number} {script.prompt} {words}")["id"]) == "complete"
    events = chats.all_events(id)
    compacted = [event for event in events if event.type == "context.compacted"]
    assert compacted and all(event["afterTokens"] < event["beforeTokens"] for event in compacted), compacted
    last = script.last.conversation
    assert model.summary in "\n".join([last.system, *last.said]) and len(str(script.last.body)) < 40_000
    assert last.said[-1].startswith("5 ")
    assert [text(message)[:2] for message in chats.messages(id) if message["role"] == "user"][1:] == [f"{number} " for number in range(1, 6)]
    EventLog().extend(events).check()


# Sandboxes.


def test_command_that_takes_too_long(chats, model):
    script = model.script(*doing(run("echo begun; sleep 60", timeout_seconds=1)))
    id, events = chats.run_turn(script.prompt)
    result = one(events, "tool.message")
    assert result["error"]["code"] == "command_timeout" and "begun" in result["output"], result.data
    assert chats.run(chats.box(id), "pgrep -c sleep || true").strip() == "0"


@pytest.mark.parametrize("deed", ["kill", "guest dies"])
def test_sandbox_that_ends_during_a_call(server, chats, model, deed, log):
    """The model is told, and the next call has a computer again."""
    again = Answer(calls=[run("echo new > file")])
    steps = lambda seen: Answer(calls=[run("echo begun; sleep 60")]) if not seen.results else again
    script = model.script(choose=lambda seen: Answer("went on") if any("[no output]" in one.text for one in seen.results) else steps(seen))
    id = chats.create(script.prompt)["chat"]["id"]
    eventually(lambda: chats.calls(id) and "begun" in chats.calls(id)[0]["output"])
    sandbox = chats.chat(id)["sandboxId"]
    log += [sandbox]
    if deed == "kill":
        assert chats.send("DELETE", f"/sandboxes/{sandbox}").status == 204
    else:
        server.kill_guest(sandbox)
    assert chats.ended(id, within=60) == "idle"
    first, *_, second = chats.calls(id)
    assert len(chats.calls(id)) <= 3, "it is told at most once more that it was replaced"
    assert first["status"] == "error" and first["error"]["code"] in ("sandbox_unavailable", "interrupted") and first["error"]["hint"], first
    assert second["status"] == "success" and chats.file(id, "file") == "new\n", second
    assert script.requests[1].conversation.results[0].text and chats.answer(id) == "went on"
    EventLog().extend(chats.all_events(id)).check()


def test_full_disk_and_memory(chats, model):
    """Both come back as errors of the call."""
    fill = run(FILL)
    script = model.script(
        Answer(calls=[fill]),
        Answer(calls=[write("more.txt", "x" * 4_000_000)]),
        Answer(calls=[run("rm -f big-*")]),
        Answer(calls=[run("exec tail -c 3G /dev/zero | tail")]),
        Answer(calls=[run("echo alive > alive")]),
        Answer("done"),
    )
    id, events = chats.run_turn(script.prompt, tools=[{"type": "sandbox", "memoryMB": 512}])
    full, memory = [event for event in events if event.type == "tool.message"][1:4:2]
    assert full["status"] == "error" and full["error"]["code"] in ("disk_full", "no_room", "quota_exceeded"), full.data
    assert memory["status"] in ("error", "success") and core(events)[-1] == "turn.complete"
    assert chats.file(id, "alive") == "alive\n" and one(events, "turn.complete")["status"] == "complete"


# Providers. These come last: see `outcomes`.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wire", WIRES)
def test_fault_of_a_provider(outcomes, model, wire, name):
    fault, outcome = faults(wire)[name], outcomes[wire, name].result()
    events = outcome.events
    EventLog().extend(events).check()
    end = one(events, "turn.complete")
    assert (end["status"], end["reason"]) == (fault.status, end["reason"]) and (fault.status == "complete") == (end["reason"] is None), end
    told = [event for event in events if event.type == "error"]
    if fault.code:
        assert told and told[-1]["code"] == fault.code, [event.data for event in told]
        assert told[-1]["message"] and told[-1]["hint"], told[-1]
        assert fault.retryable is None or told[-1]["retryable"] is fault.retryable, told[-1]
        assert model.key not in str(told)
    if fault.requests is not None:
        assert len(outcome.script.requests) == fault.requests, [seen.at for seen in outcome.script.requests]
    messages = [event["message"] for event in events if event.type == "message.complete"]
    assert [message["status"] for message in messages].count("interrupted") == fault.interrupted, [message["status"] for message in messages]
    if fault.answer is not None:
        assert text(messages[-1]) == fault.answer
    if fault.stop:
        assert [event["stopReason"] for event in events if event.type == "message.complete"] == [fault.stop]
    if name == "429":
        first, second = outcome.script.requests
        assert second.at - first.at >= 1, "it waits as long as the provider wants"
    if fault.status == "complete":
        assert not told or all(event["retryable"] for event in told)
    assert outcome.after == "complete: on we go"
