"""The scripted model notices what is wrong with a request: each fault that a framework could make, one at a time."""

import copy
import json
import urllib.error
import urllib.request

import pytest

from scripted_model import KEY, TOOLS, Call, ScriptedModel

SECRET = "e2b_a_secret_of_the_server"
SCRIPT = [Call("sandbox_read_file", {"path": "a"}, "text of a"), Call("sandbox_run_command", {"command": "ls"}, r"\ba\b")]


@pytest.fixture
def model():
    model = ScriptedModel(SCRIPT, secrets=[SECRET])
    yield model
    model.close()


def offered() -> list[dict]:
    tools = []
    for tool, properties in TOOLS.items():
        schema = {
            "type": "object",
            "properties": {name.rstrip("*"): {"type": kind} for name, kind in properties.items()},
            "required": [name.rstrip("*") for name in properties if name.endswith("*")],
        }
        tools.append({"type": "function", "function": {"name": tool, "description": "", "parameters": schema}})
    search, find = tools[5]["function"]["parameters"]["properties"], tools[6]["function"]["parameters"]["properties"]
    search["case"]["enum"], search["output"]["enum"] = ["smart", "sensitive", "insensitive"], ["lines", "files", "count"]
    find["kind"]["enum"] = ["file", "directory", "any"]
    return tools


def ask(model: ScriptedModel, body: dict, key: str = KEY) -> dict:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    url = f"{model.environment['OPENAI_BASE_URL']}/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers), timeout=10) as response:
        return json.load(response)["choices"][0]["message"]


def conversation(model: ScriptedModel) -> dict:
    """The request after the first result."""
    body = {"model": "m", "messages": [{"role": "user", "content": "do it"}], "tools": offered()}
    call = ask(model, body)
    body["messages"] += [call, {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": "text of a"}]
    return body


def test_script_is_followed(model):
    body = conversation(model)
    call = ask(model, body)
    assert call["tool_calls"][0]["function"] == {"name": "sandbox_run_command", "arguments": '{"command": "ls"}'}
    with pytest.raises(AssertionError, match="stopped after 1 of 2"):
        model.assert_finished()
    body["messages"] += [call, {"role": "tool", "tool_call_id": call["tool_calls"][0]["id"], "content": [{"type": "text", "text": "a b"}]}]
    assert ask(model, body)["content"] == "It prints: a"
    model.assert_finished()


def parameters(body: dict, at: int) -> dict:
    return body["tools"][at]["function"]["parameters"]


FAULTS = {
    "is not offered": lambda body: body["tools"].pop(),
    "more tools than asked for": lambda body: body["tools"].append({"function": {"name": "sandbox_kill", "parameters": {}}}),
    "has the properties": lambda body: parameters(body, 0)["properties"].pop("end_line"),
    "requires": lambda body: parameters(body, 1)["required"].remove("content"),
    "became required": lambda body: parameters(body, 0)["required"].append("end_line"),
    "is not of type integer": lambda body: parameters(body, 0)["properties"].update(end_line={"type": "string"}),
    "has the choices": lambda body: parameters(body, 6)["properties"]["kind"].pop("enum"),
    "calls without a result": lambda body: body["messages"].pop(),
    "is repeated as": lambda body: body["messages"][1]["tool_calls"][0]["function"].update(arguments='{"path": "b"}'),
    "which does not match": lambda body: body["messages"][2].update(content="[object Object]"),
    "a secret of the sandbox server": lambda body: body["messages"][0].update(content=f"the key is {SECRET}"),
}


@pytest.mark.parametrize("problem", FAULTS)
def test_fault_is_noticed(problem, model):
    body = copy.deepcopy(conversation(model))
    FAULTS[problem](body)
    refused(model, body, problem)


def test_other_keys_are_noticed(model):
    refused(model, {"model": "m", "messages": [], "tools": offered()}, "has not the model's key", key="sk-other")


def refused(model: ScriptedModel, body: dict, problem: str, **options) -> None:
    with pytest.raises(urllib.error.HTTPError) as error:
        ask(model, body, **options)
    assert error.value.code == 400 and problem in json.load(error.value)["error"]["message"]
    assert len(model.problems) == 1 and problem in model.problems[0]
    with pytest.raises(AssertionError):
        model.assert_finished()
