"""What a scripted model answers, and how that is written on the wires of OpenAI's chat completions (`openai`) and Anthropic's messages
(`anthropic`), whole or as a stream."""

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator

OPENAI, ANTHROPIC = "openai", "anthropic"


class Gate:
    """Holds a stream until a test lets it go on."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()

    def arrive(self, within: float = 20) -> None:
        """Waits until the stream is here."""
        assert self.reached.wait(within), f"the stream did not come to the gate within {within} s"

    def release(self) -> None:
        self.opened.set()


@dataclass(frozen=True)
class Pause:
    """Time in which nothing is sent."""

    seconds: float


Piece = str | Gate | Pause


@dataclass
class Use:
    """A call of a tool. `arguments` that are a text are sent as they are, so they may be malformed; `split` says where the text is cut."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    split: tuple[int, ...] = (3, 7)
    id: str = ""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)

    @property
    def pieces(self) -> list[str]:
        cuts = [0, *[cut for cut in self.split if cut < len(self.text)], len(self.text)]
        return [self.text[begin:end] for begin, end in zip(cuts, cuts[1:])]


@dataclass
class Answer:
    """What the model says. Every piece of `text` and `reasoning` is a delta of its own."""

    text: str | list[Piece] = ""
    calls: list[Use] = field(default_factory=list)
    reasoning: str | list[Piece] = ""
    signature: str = "signature-of-the-thought"
    refusal: str = ""
    #: `end`, `tools`, `length` or `refused`; follows from the rest if empty.
    stop: str = ""
    #: Input tokens with the cached ones, cached ones, output tokens.
    usage: tuple[int, int, int] = (100, 40, 20)
    #: The connection is cut after so many bytes of the stream; 0 is before the first one.
    cut: int | None = None
    #: … or after so many deltas.
    cut_after: int | None = None
    #: Seconds between bytes, for a stream that is sent byte by byte.
    slow: float | None = None
    #: A gate at a byte of the stream.
    gate_at: tuple[int, Gate] | None = None
    #: Sent in the middle of the stream, after the deltas of the text: an error, or nonsense.
    error: str = ""
    nonsense: bytes = b""

    @property
    def reason(self) -> str:
        return self.stop or ("refused" if self.refusal else "tools" if self.calls else "end")

    def whole(self, what: str) -> str:
        pieces = getattr(self, what)
        return pieces if isinstance(pieces, str) else "".join(piece for piece in pieces if isinstance(piece, str))


@dataclass(frozen=True)
class Failure:
    """A response that is no answer. `body` is the provider's own for the status if empty."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    #: For a status with several meanings.
    kind: str = ""


@dataclass(frozen=True)
class Silence:
    """The request is taken, and nothing comes: no status, or no byte after it if `status` is set."""

    status: bool = False
    gate: Gate = field(default_factory=Gate)


Step = Answer | Failure | Silence

#: Words of both wires for a status.
KINDS = {
    400: ("invalid_request_error", "invalid_request_error"),
    401: ("invalid_api_key", "authentication_error"),
    403: ("permission_denied", "permission_error"),
    404: ("model_not_found", "not_found_error"),
    413: ("request_too_large", "request_too_large"),
    429: ("rate_limit_exceeded", "rate_limit_error"),
    500: ("server_error", "api_error"),
    503: ("server_error", "api_error"),
    529: ("server_error", "overloaded_error"),
}
TOO_LONG = {
    OPENAI: ("context_length_exceeded", "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."),
    ANTHROPIC: ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
}


def failure_body(wire: str, failure: Failure) -> bytes:
    if failure.body:
        return failure.body
    code, message = KINDS[failure.status][wire == ANTHROPIC], f"scripted failure {failure.status}"
    if failure.kind == "context":
        code, message = TOO_LONG[wire]
    return json.dumps(error(wire, code, message)).encode()


def error(wire: str, code: str, message: str) -> dict:
    if wire == ANTHROPIC:
        return {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_scripted"}
    kind = "server_error" if code == "server_error" else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def pieces(given: str | list[Piece]) -> list[Piece]:
    if not isinstance(given, str):
        return given
    return [given] if given else []


# Streams: bytes, and what happens between them.

Frames = Iterator[bytes | Gate | Pause]


def frame(data: dict | str, name: str | None = None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return ((f"event: {name}\n" if name else "") + f"data: {text}\n\n").encode()


def stream(wire: str, answer: Answer, model: str, usage: bool = True) -> Frames:
    """`usage`: whether a client of OpenAI asked for it."""
    return openai_stream(answer, model, usage) if wire == OPENAI else anthropic_stream(answer, model)


def broken(answer: Answer, wire: str) -> Frames:
    if answer.nonsense:
        yield answer.nonsense
    if answer.error:
        said = error(wire, answer.error, f"scripted {answer.error}")
        yield frame(said, "error" if wire == ANTHROPIC else None)


OPENAI_STOP = {"end": "stop", "tools": "tool_calls", "length": "length", "refused": "content_filter"}


def openai_usage(answer: Answer) -> dict:
    read, cached, wrote = answer.usage
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": read, "completion_tokens": wrote, "total_tokens": read + wrote, **details}


def openai_stream(answer: Answer, model: str, usage: bool) -> Frames:
    head = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": int(time.time()), "model": model}

    def chunk(delta: dict, reason: str | None = None) -> bytes:
        return frame({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield chunk({"role": "assistant", "content": ""})
    for key, given in (("reasoning_content", answer.reasoning), ("content", answer.text), ("refusal", answer.refusal)):
        for piece in pieces(given):
            yield chunk({key: piece}) if isinstance(piece, str) else piece
    yield from broken(answer, OPENAI)
    for index, use in enumerate(answer.calls):
        function = {"name": use.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": use.id, "type": "function", "function": function}]})
    # Pieces of several calls come in turns: only the index says whose they are.
    longest = max((len(use.pieces) for use in answer.calls), default=0)
    for number in range(longest):
        for index, use in enumerate(answer.calls):
            if number < len(use.pieces):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": use.pieces[number]}}]})
    yield chunk({}, "stop" if answer.refusal else OPENAI_STOP[answer.reason])
    if usage:
        yield frame({**head, "choices": [], "usage": openai_usage(answer)})
    yield frame("[DONE]")


def openai_whole(answer: Answer, model: str) -> dict:
    calls = [{"id": use.id, "type": "function", "function": {"name": use.name, "arguments": use.text}} for use in answer.calls]
    message = {"role": "assistant", "content": answer.whole("text") or None, "refusal": answer.refusal or None}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "finish_reason": "stop" if answer.refusal else OPENAI_STOP[answer.reason], "logprobs": None}
    head = {"id": "chatcmpl-scripted", "object": "chat.completion", "created": int(time.time()), "model": model}
    return {**head, "choices": [choice], "usage": openai_usage(answer)}


ANTHROPIC_STOP = {"end": "end_turn", "tools": "tool_use", "length": "max_tokens", "refused": "refusal"}


def anthropic_usage(answer: Answer) -> dict:
    """Their input tokens are those that were not cached."""
    read, cached, wrote = answer.usage
    return {"input_tokens": read - cached, "cache_read_input_tokens": cached, "cache_creation_input_tokens": 0, "output_tokens": wrote}


def anthropic_blocks(answer: Answer) -> list[dict]:
    blocks: list[dict] = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.whole("reasoning"), "signature": answer.signature})
    if text := answer.whole("text") or answer.refusal:
        blocks.append({"type": "text", "text": text})
    for use in answer.calls:
        arguments = use.arguments if isinstance(use.arguments, dict) else {}
        blocks.append({"type": "tool_use", "id": use.id, "name": use.name, "input": arguments})
    return blocks


def anthropic_stream(answer: Answer, model: str) -> Frames:
    def event(name: str, **fields: Any) -> bytes:
        return frame({"type": name, **fields}, name)

    def block(start: dict, kind: str, key: str, given: list[Piece], end: dict | None = None) -> Frames:
        nonlocal index
        yield event("content_block_start", index=index, content_block=start)
        for piece in given:
            yield event("content_block_delta", index=index, delta={"type": kind, key: piece}) if isinstance(piece, str) else piece
        if end:
            yield event("content_block_delta", index=index, delta=end)
        yield event("content_block_stop", index=index)
        index += 1

    index, usage = 0, anthropic_usage(answer)
    begun = {"id": "msg_scripted", "type": "message", "role": "assistant", "model": model, "content": []}
    yield event("message_start", message={**begun, "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}})
    yield event("ping")
    if answer.reasoning:
        signature = {"type": "signature_delta", "signature": answer.signature}
        empty = {"type": "thinking", "thinking": "", "signature": ""}
        yield from block(empty, "thinking_delta", "thinking", pieces(answer.reasoning), signature)
    if answer.text or answer.refusal:
        yield from block({"type": "text", "text": ""}, "text_delta", "text", pieces(answer.text or answer.refusal))
    yield from broken(answer, ANTHROPIC)
    for use in answer.calls:
        start = {"type": "tool_use", "id": use.id, "name": use.name, "input": {}}
        yield from block(start, "input_json_delta", "partial_json", ["", *use.pieces])
    stop = {"stop_reason": ANTHROPIC_STOP[answer.reason], "stop_sequence": None}
    yield event("message_delta", delta=stop, usage=usage)
    yield event("message_stop")


def anthropic_whole(answer: Answer, model: str) -> dict:
    head = {"id": "msg_scripted", "type": "message", "role": "assistant", "model": model, "content": anthropic_blocks(answer)}
    return {**head, "stop_reason": ANTHROPIC_STOP[answer.reason], "stop_sequence": None, "usage": anthropic_usage(answer)}


def whole(wire: str, answer: Answer, model: str) -> bytes:
    return json.dumps(openai_whole(answer, model) if wire == OPENAI else anthropic_whole(answer, model)).encode()


#: What decides about the next step from a request.
Chooser = Callable[[Any], Step]
