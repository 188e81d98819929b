"""Requests and responses of model providers: OpenAI's chat completions (`chat`) and responses (`responses`), Anthropic's messages
(`messages`). Only what frameworks send and read when they call tools."""

import ast
import json
import time
from dataclasses import dataclass
from typing import Any


@dataclass
class Turn:
    """A call of a tool and its result."""

    name: str
    arguments: dict[str, Any]
    result: str


@dataclass
class Request:
    model: str
    stream: bool
    #: Schemas of the offered tools.
    tools: dict[str, dict]
    turns: list[Turn]


Response = tuple[str, bytes]


def read(wire: str, body: dict) -> Request:
    return {"chat": read_chat, "responses": read_responses, "messages": read_messages}[wire](body)


def text(content: Any) -> str:
    """The text of a string or of a list of parts."""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


# Requests.


def read_chat(body: dict) -> Request:
    tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", [])}
    calls, turns = {}, []
    for message in body["messages"]:
        for call in message.get("tool_calls") or []:
            calls[call["id"]] = (call["function"]["name"], json.loads(call["function"]["arguments"]))
        if message["role"] == "tool":
            name, arguments = calls.pop(message["tool_call_id"])
            turns.append(Turn(name, arguments, text(message["content"])))
    if calls:
        raise ValueError(f"calls without a result: {calls}")
    return Request(body["model"], bool(body.get("stream")), tools, turns or told_turns(body["messages"]))


def told_turns(messages: list[dict]) -> list[Turn]:
    """smolagents tells calls and results as plain text."""
    told, results = [], []
    for message in messages:
        content = text(message["content"])
        if message["role"] == "assistant" and (at := content.find("Calling tools:\n")) >= 0:
            told += [call["function"] for call in ast.literal_eval(content[at:].split("\n", 1)[1])]
        elif content.startswith("Observation:\n"):
            results.append(content.split("\n", 1)[1])
    if len(told) != len(results):
        raise ValueError(f"{len(told)} calls and {len(results)} results are told")
    return [Turn(call["name"], call["arguments"], result) for call, result in zip(told, results)]


def read_responses(body: dict) -> Request:
    tools = {tool["name"]: tool["parameters"] for tool in body.get("tools", []) if tool["type"] == "function"}
    calls, turns = {}, []
    for item in body["input"] if isinstance(body["input"], list) else []:
        if item.get("type") == "function_call":
            calls[item["call_id"]] = (item["name"], json.loads(item["arguments"]))
        elif item.get("type") == "function_call_output":
            name, arguments = calls.pop(item["call_id"])
            turns.append(Turn(name, arguments, text(item["output"])))
    if calls:
        raise ValueError(f"calls without a result: {calls}")
    return Request(body["model"], bool(body.get("stream")), tools, turns)


def read_messages(body: dict) -> Request:
    tools = {tool["name"]: tool["input_schema"] for tool in body.get("tools", [])}
    calls, turns = {}, []
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else []:
            if block["type"] == "tool_use":
                calls[block["id"]] = (block["name"], block["input"])
            elif block["type"] == "tool_result":
                name, arguments = calls.pop(block["tool_use_id"])
                turns.append(Turn(name, arguments, text(block["content"])))
    if calls:
        raise ValueError(f"calls without a result: {calls}")
    return Request(body["model"], bool(body.get("stream")), tools, turns)


# Responses.


def write_call(wire: str, request: Request, id: str, name: str, arguments: dict) -> Response:
    given = json.dumps(arguments)
    if wire == "chat":
        call = {"id": id, "type": "function", "function": {"name": name, "arguments": given}}
        return chat(request, {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")
    if wire == "responses":
        item = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": given, "status": "completed"}
        return responses(request, item)
    return messages(request, {"type": "tool_use", "id": id, "name": name, "input": arguments}, "tool_use")


def write_text(wire: str, request: Request, answer: str) -> Response:
    if wire == "chat":
        return chat(request, {"role": "assistant", "content": answer}, "stop")
    if wire == "responses":
        part = {"type": "output_text", "text": answer, "annotations": []}
        return responses(request, {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]})
    return messages(request, {"type": "text", "text": answer}, "end_turn")


def chat(request: Request, message: dict, reason: str) -> Response:
    head = {"id": "chatcmpl-1", "created": int(time.time()), "model": request.model}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if not request.stream:
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return reply({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
    deltas = [{"role": "assistant", "content": ""}]
    for call in message.get("tool_calls", []):
        function = call["function"]
        begin, rest = function["arguments"][:5], function["arguments"][5:]
        deltas += [
            {"tool_calls": [{"index": 0, **call, "function": {"name": function["name"], "arguments": begin}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": rest}}]},
        ]
    deltas += [{"content": word + " "} for word in (message["content"] or "").split()]
    chunks = [{**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    chunks.append({**chunks[0], "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage})
    return events([(None, json.dumps(chunk)) for chunk in chunks] + [(None, "[DONE]")])


def responses(request: Request, item: dict) -> Response:
    if request.stream:
        raise ValueError("streamed responses are not part of this server: no example asks for them")
    return reply(
        {
            **{"id": "resp_1", "object": "response", "created_at": int(time.time()), "status": "completed", "model": request.model},
            **{"output": [item], "error": None, "incomplete_details": None, "instructions": None, "metadata": {}},
            **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0},
            "usage": {
                **{"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}},
                **{"output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2},
            },
        }
    )


def messages(request: Request, block: dict, reason: str) -> Response:
    if request.stream:
        raise ValueError("streamed messages are not part of this server: no example asks for them")
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.model}
    return reply({**head, "content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage})


def reply(body: dict) -> Response:
    return "application/json", json.dumps(body).encode()


def events(stream: list[tuple[str | None, str]]) -> Response:
    lines = [(f"event: {name}\n" if name else "") + f"data: {data}\n\n" for name, data in stream]
    return "text/event-stream", "".join(lines).encode()
