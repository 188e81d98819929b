"""Requests to a scripted model, on both wires: read into one form, and checked for what real providers refuse or silently do wrong."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from model_answers import ANTHROPIC, OPENAI, Answer, anthropic_blocks

#: Names and ids of calls that both providers take.
WORD = re.compile(r"[A-Za-z0-9_-]{1,64}")


def word(name: str) -> str:
    """The nearest name that they take."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]


class Dishonest(ValueError):
    """A conversation that does not follow from what was said."""


@dataclass
class Result:
    """The result of a call as it came back."""

    id: str
    text: str
    is_error: bool = False
    images: int = 0


@dataclass
class Conversation:
    """A request in one form."""

    wire: str
    model: str
    stream: bool
    system: str
    #: Schemas of the offered tools.
    tools: dict[str, dict]
    #: What people said, in order, and how many images were in it.
    said: list[str] = field(default_factory=list)
    images: int = 0
    #: Names and arguments of calls by id, and results, in order.
    calls: dict[str, tuple[str, Any]] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    thoughts: list[dict] = field(default_factory=list)

    @property
    def last(self) -> str:
        return self.said[-1] if self.said else ""


def read(wire: str, body: dict) -> Conversation:
    return (read_openai if wire == OPENAI else read_anthropic)(body)


def text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if part.get("type") == "text")


def parts(content: Any, kind: str) -> list[dict]:
    return [part for part in content if part.get("type") == kind] if isinstance(content, list) else []


def read_openai(body: dict) -> Conversation:
    tools = {tool["function"]["name"]: tool["function"].get("parameters", {}) for tool in body.get("tools") or []}
    found = Conversation(OPENAI, body["model"], bool(body.get("stream")), "", tools)
    open_calls: list[str] = []
    for message in body["messages"]:
        role, content = message["role"], message.get("content")
        if role != "tool" and open_calls:
            raise Dishonest(f"{open_calls} have no result before the next message")
        if role in ("system", "developer"):
            found.system += text(content)
        elif role == "user":
            found.said.append(text(content))
            found.images += len(parts(content, "image_url"))
        elif role == "assistant":
            if not content and not message.get("tool_calls"):
                raise Dishonest("an empty message of the assistant")
            found.answers.append(text(content))
            for call in message.get("tool_calls") or []:
                arguments = json.loads(call["function"]["arguments"])
                found.calls[call["id"]] = (call["function"]["name"], arguments)
                open_calls.append(call["id"])
        elif role == "tool":
            if message["tool_call_id"] not in open_calls:
                raise Dishonest(f"{message['tool_call_id']} has a result, but was not called")
            open_calls.remove(message["tool_call_id"])
            found.results.append(Result(message["tool_call_id"], text(content)))
        else:
            raise Dishonest(f"the role {role}")
    if open_calls:
        raise Dishonest(f"{open_calls} have no result")
    return found


def read_anthropic(body: dict) -> Conversation:
    tools = {tool["name"]: tool.get("input_schema", {}) for tool in body.get("tools") or []}
    found = Conversation(ANTHROPIC, body["model"], bool(body.get("stream")), text(body.get("system")), tools)
    if not isinstance(body.get("max_tokens"), int):
        raise Dishonest("max_tokens is missing")
    if body["messages"] and body["messages"][0]["role"] != "user":
        raise Dishonest("the first message is not the user's")
    open_calls: list[str] = []
    for message in body["messages"]:
        role, content = message["role"], message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks or any(one["type"] == "text" and not one["text"].strip() for one in blocks):
            raise Dishonest(f"an empty message or text of the {role}")
        if role == "assistant":
            if open_calls:
                raise Dishonest(f"{open_calls} have no result before the next message")
            found.answers.append(text(blocks))
            found.thoughts += parts(blocks, "thinking")
            for one in parts(blocks, "tool_use"):
                if not isinstance(one["input"], dict):
                    raise Dishonest(f"the input of {one['id']} is no object")
                found.calls[one["id"]] = (one["name"], one["input"])
                open_calls.append(one["id"])
            continue
        results = parts(blocks, "tool_result")
        if [one["type"] for one in blocks[: len(results)]] != ["tool_result"] * len(results):
            raise Dishonest("results must come first")
        for one in results:
            if one["tool_use_id"] not in open_calls:
                raise Dishonest(f"{one['tool_use_id']} has a result, but was not called")
            open_calls.remove(one["tool_use_id"])
            content = one.get("content") or ""
            found.results.append(Result(one["tool_use_id"], text(content), bool(one.get("is_error")), len(parts(content, "image"))))
        if open_calls:
            raise Dishonest(f"{open_calls} have no result in the next message")
        if said := text(blocks):
            found.said.append(said)
        found.images += len(parts(blocks, "image"))
    if open_calls:
        raise Dishonest(f"{open_calls} have no result")
    return found


def check_issued(found: Conversation, body: dict, issued: list[Answer]) -> None:
    """Calls come back as they were made, and thoughts verbatim before the calls that followed from them."""
    by_id = {use.id: use for answer in issued for use in answer.calls}
    for id, (name, arguments) in found.calls.items():
        if id not in by_id:
            raise Dishonest(f"{id} ({name}) was never called")
        if not WORD.fullmatch(name) or not WORD.fullmatch(id):
            raise Dishonest(f"providers do not take {name!r} or {id!r}")
        if name != word(by_id[id].name):
            raise Dishonest(f"{id} comes back as {name} instead of {by_id[id].name}")
        if isinstance(by_id[id].arguments, dict) and arguments != by_id[id].arguments:
            raise Dishonest(f"{id} comes back with {arguments}")
    if found.wire != ANTHROPIC:
        return
    for message in body["messages"]:
        uses = parts(message["content"], "tool_use")
        if message["role"] != "assistant" or not uses:
            continue
        answer = next(one for one in issued if any(use.id == uses[0]["id"] for use in one.calls))
        thought = anthropic_blocks(answer)[:1] if answer.reasoning else []
        back = [{key: one[key] for key in ("type", "thinking", "signature") if key in one} for one in parts(message["content"], "thinking")]
        if back != thought:
            raise Dishonest(f"the thought {thought} came back as {back}")
        if thought and message["content"][0].get("type") != "thinking":
            raise Dishonest("a thought must come first")
