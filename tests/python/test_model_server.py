"""The scripted model server is honest: the official clients of both providers understand everything that it says, and what a client
could do wrong with a conversation is noticed."""

import json
import threading
import time
import urllib.error
import urllib.request

import anthropic
import openai
import pytest

from model_answers import ANTHROPIC, OPENAI, Answer, Failure, Gate, Pause, Silence, Use
from model_server import MODEL, ModelServer

WIRES = [OPENAI, ANTHROPIC]
TOOL = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TEXT = "Grüße, 世界! "


@pytest.fixture(autouse=True)
def log():
    """No server of ours is needed here."""


@pytest.fixture(scope="module")
def model():
    model = ModelServer()
    yield model
    model.close()


class Reader:
    """An official client in one form: a conversation of which every answer is streamed."""

    def __init__(self, model: ModelServer, wire: str, prompt: str, key: str | None = None):
        self.wire, self.messages = wire, [{"role": "user", "content": prompt}]
        given = {"api_key": key or model.key, "max_retries": 0, "timeout": 20}
        self.openai = openai.OpenAI(base_url=model.openai_url, **given)
        self.anthropic = anthropic.Anthropic(base_url=model.url, **given)

    def ask(self, stream: bool = True) -> dict:
        """Text, thought, calls, stop and usage of one answer, which joins the conversation."""
        return self.ask_openai(stream) if self.wire == OPENAI else self.ask_anthropic(stream)

    def ask_openai(self, stream: bool) -> dict:
        tools = [{"type": "function", "function": {"name": "read", "description": "", "parameters": TOOL}}]
        given = {"model": MODEL, "messages": self.messages, "tools": tools}
        if stream:
            with self.openai.chat.completions.stream(**given, stream_options={"include_usage": True}) as events:
                deltas = [choice.delta for event in events if event.type == "chunk" for choice in event.chunk.choices]
                try:
                    whole = events.get_final_completion()
                except (openai.LengthFinishReasonError, openai.ContentFilterFinishReasonError):
                    whole = events.current_completion_snapshot
            thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        else:
            whole, thought = self.openai.chat.completions.create(**given), ""
        choice = whole.choices[0]
        calls = choice.message.tool_calls or []
        back = {"role": "assistant", "content": choice.message.content or ""}
        made = [{"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": call.function.arguments}} for call in calls]
        self.messages.append({**back, "tool_calls": made} if made else back)
        usage = whole.usage
        return {
            **{"text": choice.message.content or "", "thought": thought, "refusal": choice.message.refusal, "stop": choice.finish_reason},
            "calls": [(call.id, call.function.name, call.function.arguments) for call in calls],
            "usage": (usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens),
        }

    def ask_anthropic(self, stream: bool) -> dict:
        tools = [{"name": "read", "description": "", "input_schema": TOOL}]
        given = {"model": MODEL, "messages": self.messages, "tools": tools, "max_tokens": 1000}
        if stream:
            with self.anthropic.messages.stream(**given) as events:
                whole = events.get_final_message()
        else:
            whole = self.anthropic.messages.create(**given)
        blocks = [block.model_dump(exclude_none=True) for block in whole.content]
        self.messages.append({"role": "assistant", "content": [{key: block[key] for key in FIELDS[block["type"]]} for block in blocks]})
        usage = whole.usage
        return {
            **{"text": "".join(one["text"] for one in blocks if one["type"] == "text"), "stop": whole.stop_reason, "refusal": None},
            "thought": "".join(one["thinking"] for one in blocks if one["type"] == "thinking"),
            "calls": [(one["id"], one["name"], json.dumps(one["input"])) for one in blocks if one["type"] == "tool_use"],
            "usage": (usage.input_tokens + usage.cache_read_input_tokens, usage.cache_read_input_tokens, usage.output_tokens),
        }

    def give(self, results: list[tuple[str, str]]) -> None:
        if self.wire == OPENAI:
            self.messages += [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results]
        else:
            blocks = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results]
            self.messages.append({"role": "user", "content": blocks})


FIELDS = {"text": ("type", "text"), "thinking": ("type", "thinking", "signature"), "tool_use": ("type", "id", "name", "input")}
ERRORS = {OPENAI: openai, ANTHROPIC: anthropic}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("wire", WIRES)
def test_conversation(model, wire, stream):
    """Thought, text, three calls at once whose arguments are cut anywhere, results, an answer."""
    uses = [Use("read", {"path": TEXT * count}, split=tuple(range(0, 400, count))) for count in (1, 2, 3)]
    first = Answer(["I ", "look"], uses, reasoning=["Let me ", "think"], usage=(120, 70, 33))
    script = model.script(first, Answer(["It is ", TEXT], usage=(200, 120, 5)))
    reader = Reader(model, wire, f"{script.prompt} please")
    said = reader.ask(stream)
    assert said["text"] == "I look" and said["usage"] == (120, 70, 33), said
    assert said["thought"] == ("" if wire == OPENAI and not stream else "Let me think")
    assert said["stop"] == {OPENAI: "tool_calls", ANTHROPIC: "tool_use"}[wire]
    assert [(name, json.loads(text)) for _, name, text in said["calls"]] == [("read", use.arguments) for use in uses]
    reader.give([(id, f"result of {id}") for id, _, _ in said["calls"]])
    said = reader.ask(stream)
    assert said["text"] == f"It is {TEXT}" and said["stop"] == {OPENAI: "stop", ANTHROPIC: "end_turn"}[wire] and said["usage"] == (200, 120, 5)
    back = script.last.conversation
    assert [result.text for result in back.results] == [f"result of {id}" for id in back.calls]
    assert script.last.key == model.key and back.said == [f"{script.prompt} please"] and back.tools == {"read": TOOL}
    model.check()


@pytest.mark.parametrize("wire", WIRES)
def test_ends(model, wire):
    for answer, expected in [
        (Answer("half", stop="length"), {OPENAI: "length", ANTHROPIC: "max_tokens"}),
        (Answer("no", stop="refused"), {OPENAI: "content_filter", ANTHROPIC: "refusal"}),
        (Answer(""), {OPENAI: "stop", ANTHROPIC: "end_turn"}),
    ]:
        said = Reader(model, wire, model.script(answer).prompt).ask()
        assert (said["stop"], said["text"]) == (expected[wire], answer.text), said
    said = Reader(model, wire, model.script(Answer(refusal="I will not.")).prompt).ask()
    assert (said["refusal"] or said["text"]) == "I will not."
    huge = "x" * 1000
    assert Reader(model, wire, model.script(Answer([huge] * 500)).prompt).ask()["text"] == huge * 500
    assert Reader(model, wire, model.script(Answer("slow as bytes", slow=0.0001)).prompt).ask()["text"] == "slow as bytes"
    model.check()


STATUSES = {
    401: "AuthenticationError",
    404: "NotFoundError",
    429: "RateLimitError",
    500: "InternalServerError",
    529: {OPENAI: "InternalServerError", ANTHROPIC: "OverloadedError"},
    400: "BadRequestError",
}


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("wire", WIRES)
def test_failures(model, wire, status):
    failure = Failure(status, {"retry-after": "7"}, kind="context" if status == 400 else "")
    name = STATUSES[status] if isinstance(STATUSES[status], str) else STATUSES[status][wire]
    wanted = getattr(ERRORS[wire], name, None) or ERRORS[wire].InternalServerError
    with pytest.raises(wanted) as caught:
        Reader(model, wire, model.script(failure).prompt).ask()
    assert caught.value.status_code == status and caught.value.response.headers["retry-after"] == "7"
    if status == 400:
        assert ("maximum context length" if wire == OPENAI else "prompt is too long") in str(caught.value)
    with pytest.raises(ERRORS[wire].AuthenticationError):
        Reader(model, wire, model.script(Answer("never")).prompt, key="sk-other").ask()


@pytest.mark.parametrize("wire", WIRES)
def test_breaks(model, wire):
    """What a client sees when the stream breaks off, contains an error, or nonsense."""
    nonsense = b"data: {]\n\n" if wire == OPENAI else b"event: content_block_delta\ndata: {]\n\n"
    for answer in (Answer(cut=0), Answer("some text", cut=200), Answer(["a", "b", "c"], cut_after=2), Answer("some", nonsense=nonsense)):
        with pytest.raises(Exception) as caught:
            Reader(model, wire, model.script(answer).prompt).ask()
        assert not isinstance(caught.value, AssertionError), caught.value
    with pytest.raises(ERRORS[wire].APIError) as caught:
        Reader(model, wire, model.script(Answer("some", error="overloaded_error")).prompt).ask()
    assert "scripted overloaded_error" in str(caught.value)
    quiet = model.script(Silence())
    reader = Reader(model, wire, quiet.prompt)
    reader.openai, reader.anthropic = reader.openai.with_options(timeout=0.2), reader.anthropic.with_options(timeout=0.2)
    with pytest.raises(ERRORS[wire].APITimeoutError):
        reader.ask()
    assert quiet.wait(1).over.wait(5) and quiet.last.left, "a client that leaves is noticed"
    model.check()


@pytest.mark.parametrize("wire", WIRES)
def test_gates(model, wire):
    """A stream can be held between two deltas and inside one, and released."""
    middle, inside = Gate(), Gate()
    script = model.script(Answer(["one ", middle, "two", Pause(0.001)], gate_at=(100, inside)))
    said: list[dict] = []
    thread = threading.Thread(target=lambda: said.append(Reader(model, wire, script.prompt).ask()))
    begun = time.monotonic()
    thread.start()
    inside.arrive()
    assert script.last.first_delta is None and not middle.reached.is_set()
    inside.release()
    middle.arrive()
    assert begun < script.last.first_delta < time.monotonic() and not script.last.over.is_set()
    middle.release()
    thread.join(20)
    assert said[0]["text"] == "one two" and script.last.over.wait(5) and not script.last.left


def post(model: ModelServer, path: str, body: dict) -> str:
    """What the server says against a request."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {model.key}"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(f"{model.url}{path}", json.dumps(body).encode(), headers), timeout=10)
    assert caught.value.code == 400
    problem = json.load(caught.value)["error"]["message"]
    assert len(model.problems) == 1 and model.problems.pop()
    return problem


def call(id: str, arguments: str = '{"path": "a"}') -> dict:
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": {"name": "read", "arguments": arguments}}]}


def test_dishonest_openai_conversations_are_noticed(model):
    script = model.script(Answer(calls=[Use("read", {"path": "a"})]))
    reader = Reader(model, OPENAI, script.prompt)
    id = reader.ask()["calls"][0][0]
    user, result = {"role": "user", "content": script.prompt}, {"role": "tool", "tool_call_id": id, "content": "x"}
    for problem, messages in {
        "have no result": [user, call(id)],
        "before the next message": [user, call(id), user, result],
        "was not called": [user, result],
        "was never called": [user, call("call_x"), {**result, "tool_call_id": "call_x"}],
        "comes back with": [user, call(id, '{"path": "b"}'), result],
        "JSONDecodeError": [user, call(id, "{"), result],
        "an empty message": [user, {"role": "assistant", "content": ""}],
        "the role": [user, {"role": "robot", "content": "x"}],
        "is over": [user, call(id), result],
        "no script is named": [{"role": "user", "content": "hello"}],
    }.items():
        found = post(model, "/v1/chat/completions", {"model": MODEL, "messages": messages})
        assert problem in found or problem == "JSONDecodeError", found


def test_dishonest_anthropic_conversations_are_noticed(model):
    script = model.script(Answer(calls=[Use("read", {"path": "a"})], reasoning="hm"))
    reader = Reader(model, ANTHROPIC, script.prompt)
    id = reader.ask()["calls"][0][0]
    user, said = reader.messages
    thought, use = said["content"]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]}
    late = {"role": "user", "content": [{"type": "text", "text": "and"}, *result["content"]]}
    other = {**thought, "signature": "another"}
    for problem, messages in {
        "have no result": [user, said],
        "in the next message": [user, said, user, result],
        "was not called": [user, result],
        "results must come first": [user, said, late],
        "came back as []": [user, {**said, "content": [use]}, result],
        "another": [user, {**said, "content": [other, use]}, result],
        "a thought must come first": [user, {**said, "content": [use, thought]}, result],
        "is no object": [user, {**said, "content": [thought, {**use, "input": "a"}]}, result],
        "an empty message or text": [{"role": "user", "content": [{"type": "text", "text": " "}]}],
        "is not the user's": [said, result],
    }.items():
        body = {"model": MODEL, "messages": messages, "max_tokens": 10}
        assert problem in post(model, "/v1/messages", body), problem
    assert "max_tokens" in post(model, "/v1/messages", {"model": MODEL, "messages": [user]})


def test_asides_take_no_step(model):
    script = model.script(Answer("the answer"))
    client = openai.OpenAI(base_url=model.openai_url, api_key=model.key, max_retries=0)
    title = [{"role": "system", "content": "Write a title for this conversation."}, {"role": "user", "content": script.prompt}]
    assert client.chat.completions.create(model=MODEL, messages=title).choices[0].message.content == "A scripted title"
    assert Reader(model, OPENAI, script.prompt).ask()["text"] == "the answer"
