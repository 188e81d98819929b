"""The door for clients of OpenAI's chat completions: agents and models of Cabana as models, with the official client."""

import time

import openai
import pytest

from chats import Chats, run
from model_answers import Answer, Failure, Gate
from waiting import eventually


@pytest.fixture
def client(server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=server.key, max_retries=0, timeout=30)


@pytest.fixture
def agent(chats):
    agent = chats.ask("POST", "/agents", {"name": f"door-{time.time_ns()}", "system": "You are at the door-4711.", "tools": [{"type": "sandbox"}]})
    yield agent
    chats.send("DELETE", f"/agents/{agent['id']}")


@pytest.fixture(autouse=True)
def tidy(server):
    """Chats that a request made are deleted."""
    before = {one["id"] for one in Chats(server).listed()}
    yield
    after = Chats(server)
    for chat in after.listed():
        if chat["id"] not in before:
            after.send("DELETE", f"/chats/{chat['id']}")


def ask(prompt: str) -> list[dict]:
    return [{"role": "user", "content": prompt}]


def test_models(client, agent):
    ids = {model.id for model in client.models.list()}
    assert {"demo/demo", "openai/scripted", "anthropic/scripted"} <= ids
    assert ids & {f"agent/{agent['name']}", f"agent/{agent['id']}"}, ids


def test_answer(client, model):
    script = model.script(Answer(["Hel", "lo"], usage=(120, 70, 5)))
    answer = client.chat.completions.create(model="anthropic/scripted", messages=ask(script.prompt))
    assert answer.object == "chat.completion" and answer.model == "anthropic/scripted" and len(answer.choices) == 1
    assert (answer.choices[0].message.role, answer.choices[0].message.content, answer.choices[0].finish_reason) == ("assistant", "Hello", "stop")
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens) == (120, 5, 125)


def test_stream(client, model):
    gate = Gate()
    script = model.script(Answer(["Hel", gate, "lo"], usage=(120, 70, 5)))
    options = {"stream": True, "stream_options": {"include_usage": True}}
    said, reasons, usage = [], [], None
    for chunk in client.chat.completions.create(model="openai/scripted", messages=ask(script.prompt), **options):
        assert chunk.object == "chat.completion.chunk"
        usage = chunk.usage or usage
        for choice in chunk.choices:
            said += [choice.delta.content] if choice.delta.content else []
            reasons += [choice.finish_reason] if choice.finish_reason else []
        if said:
            assert said[0] == "Hel", "as it comes"
            gate.release()
    assert "".join(said) == "Hello" and reasons == ["stop"] and usage.prompt_tokens == 120


@pytest.mark.parametrize("name", ["name", "id"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_agent(client, model, agent, stream, name):
    """Its instructions and its computer; the client sees the answer."""
    script = model.script(Answer("I look. ", [run("echo $((6 * 7)) > answer; cat answer")]), Answer("It is 42."))
    given = {"model": f"agent/{agent[name]}", "messages": ask(script.prompt)}
    if stream:
        chunks = list(client.chat.completions.create(**given, stream=True))
        said = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        assert chunks[-1].choices[0].finish_reason == "stop"
    else:
        said = client.chat.completions.create(**given).choices[0].message.content
    assert said.endswith("It is 42."), said
    assert "door-4711" in script.last.conversation.system and "42" in script.last.conversation.results[0].text


def test_conversation(client, model):
    """The client keeps the conversation: what it sends is what the model reads."""
    script = model.script(Answer("Yes, blue."))
    messages = [
        {"role": "system", "content": "Speak like a poet-0815."},
        {"role": "user", "content": f"{script.prompt}: my colour is blue"},
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": [{"type": "text", "text": "Do you remember?"}]},
    ]
    answer = client.chat.completions.create(model="openai/scripted", messages=messages)
    assert answer.choices[0].message.content == "Yes, blue."
    seen = script.last.conversation
    everything = "\n".join([seen.system, *seen.said, *seen.answers])
    assert all(words in everything for words in ("poet-0815", "my colour is blue", "I see.", "Do you remember?")), everything


def test_refusals(server, client, model):
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="e2b_" + "0" * 40, max_retries=0).models.list()
    with pytest.raises((openai.NotFoundError, openai.BadRequestError)):
        client.chat.completions.create(model="no/such", messages=ask("x"))
    with pytest.raises((openai.NotFoundError, openai.BadRequestError)):
        client.chat.completions.create(model="agent/nobody", messages=ask("x"))
    for given in ({"messages": []}, {"messages": ask("x"), "n": 3}, {"messages": [{"role": "robot", "content": "x"}]}, {"messages": ask("x" * 300_000)}):
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="openai/scripted", **given)
        assert refused.value.body["message"], refused.value


def test_failure_of_the_provider(client, model):
    script = model.script(Failure(401), Failure(401))
    with pytest.raises(openai.APIStatusError) as refused:
        client.chat.completions.create(model="openai/scripted", messages=ask(script.prompt))
    assert refused.value.status_code >= 400 and "model_key_refused" in str(refused.value.body)
    with pytest.raises(openai.APIError):
        for _ in client.chat.completions.create(model="openai/scripted", messages=ask(script.prompt), stream=True):
            pass


def test_demo(client):
    answer = client.chat.completions.create(model="demo/demo", messages=ask("Hello"))
    assert answer.choices[0].message.content


def test_leaving(client, model):
    """A client that goes away leaves nothing running for ever."""
    gate = Gate()
    script = model.script(Answer(["Hel", gate, "lo"]))
    stream = client.chat.completions.create(model="openai/scripted", messages=ask(script.prompt), stream=True)
    next(chunk for chunk in stream if chunk.choices and chunk.choices[0].delta.content)
    stream.close()
    gate.release()
    assert eventually(lambda: script.last.over.is_set())
