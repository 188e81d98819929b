"""A model server that follows a script: it calls tools in a fixed order, and then answers with what the last one returned. It speaks
OpenAI's chat completions and responses, and Anthropic's messages. Each request must offer Cabana's tools with their schemas, repeat
the calls so far, and carry their results; what does not fit is answered with an error and kept in `problems`."""

import json
import re
import socket
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Iterable

import model_wires
from model_wires import Request, Turn

KEY = "sk-scripted-model"
PATH, STRING, NUMBER, FLAG, LIST, MAP = "string", "string", "integer", "boolean", "array", "object"

#: Properties of every tool with their types; a name that ends in `*` is required.
TOOLS: dict[str, dict[str, str]] = {
    "sandbox_read_file": {"path*": PATH, "start_line": NUMBER, "end_line": NUMBER},
    "sandbox_write_file": {"path*": PATH, "content*": STRING, "create_only": FLAG, "executable": FLAG},
    "sandbox_delete_file": {"path*": PATH, "recursive": FLAG},
    "sandbox_list_directory": {"path": PATH, "depth": NUMBER, "hidden": FLAG, "limit": NUMBER},
    "sandbox_run_command": {
        **{"command*": STRING, "cwd": PATH, "timeout_seconds": NUMBER, "background": FLAG, "env": MAP, "stdin": STRING},
    },
    "sandbox_grep_files": {
        **{"pattern*": STRING, "path": PATH, "include": LIST, "exclude": LIST, "literal": FLAG, "case": STRING},
        **{"context": NUMBER, "output": STRING, "limit": NUMBER, "ignored": FLAG},
    },
    "sandbox_find_files": {"query*": STRING, "path": PATH, "kind": STRING, "limit": NUMBER, "ignored": FLAG},
    "sandbox_apply_patch": {"patch*": STRING, "cwd": PATH, "dry_run": FLAG},
    "sandbox_find_replace": {
        **{"path*": PATH, "find*": STRING, "replace*": STRING, "all": FLAG, "regex": FLAG, "expected_count": NUMBER},
    },
    "sandbox_download_url": {"path*": PATH, "expires_in_seconds": NUMBER, "filename": STRING},
}
#: Values that a model may choose from.
CHOICES = {
    ("sandbox_grep_files", "case"): {"smart", "sensitive", "insensitive"},
    ("sandbox_grep_files", "output"): {"lines", "files", "count"},
    ("sandbox_find_files", "kind"): {"file", "directory", "any"},
}


@dataclass(frozen=True)
class Call:
    """One call of a tool, and what must be found in the text that comes back."""

    tool: str
    arguments: dict[str, Any]
    #: A regular expression.
    returns: str


@dataclass
class Record:
    """What was asked for."""

    wires: set[str] = field(default_factory=set)
    requests: int = 0
    #: Text of the results, in order.
    results: list[str] = field(default_factory=list)
    answered: bool = False


class ScriptedModel:
    """`listener` is a listening socket, e.g. of another network namespace. No request may contain one of `secrets`."""

    def __init__(self, script: list[Call], listener: socket.socket | None = None, secrets: Iterable[str] = ()):
        self.script, self.secrets = script, [secret.encode() for secret in secrets]
        self.problems: list[str] = []
        self.record = Record()
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self), bind_and_activate=False)
        self.server.socket.close()
        self.server.socket = listener or socket.create_server(("127.0.0.1", 0))
        self.server.daemon_threads = True
        self.port = self.server.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """What users set to choose a server and a key."""
        url = f"http://127.0.0.1:{self.port}"
        return {
            **{"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY},
            "OPENAI_API_BASE": f"{url}/v1",  # LlamaIndex
            **{"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY},
        }

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def assert_finished(self) -> None:
        """The script ran to its end, and nothing was wrong on the way."""
        assert not self.problems, "\n".join(self.problems)
        assert self.record.answered, f"the script stopped after {len(self.record.results)} of {len(self.script)} calls"

    # One request.

    def respond(self, wire: str, raw: bytes, headers: dict[str, str]) -> tuple[str, bytes]:
        """Content type and body of the response. Raises `ValueError` for a request that is not as it should be."""
        for secret in self.secrets:
            if secret in raw or any(secret in value.encode() for value in headers.values()):
                raise ValueError("a secret of the sandbox server was sent to the model")
        if headers.get("authorization") != f"Bearer {KEY}" and headers.get("x-api-key") != KEY:
            raise ValueError("the request has not the model's key")
        request = model_wires.read(wire, json.loads(raw))
        self.check_tools(request.tools)
        self.check_turns(request.turns)
        done = len(request.turns)
        with self.lock:
            self.record.wires.add(wire + ("/stream" if request.stream else ""))
            self.record.requests += 1
            self.record.results = [turn.result for turn in request.turns]
            self.record.answered |= done == len(self.script)
        if done < len(self.script):
            call = self.script[done]
            return model_wires.write_call(wire, request, f"call_{done}", call.tool, call.arguments)
        answer = self.answer(request)
        if "final_answer" in request.tools:  # smolagents ends with a call
            return model_wires.write_call(wire, request, f"call_{done}", "final_answer", {"answer": answer})
        return model_wires.write_text(wire, request, answer)

    def answer(self, request: Request) -> str:
        found = re.search(self.script[-1].returns, request.turns[-1].result)
        return f"It prints: {found[0]}"

    def check_tools(self, offered: dict[str, dict]) -> None:
        if more := [name for name in offered if name.startswith("sandbox_") and name not in TOOLS]:
            raise ValueError(f"more tools than asked for: {more}")
        for tool, properties in TOOLS.items():
            if tool not in offered:
                raise ValueError(f"{tool} is not offered, only {sorted(offered)}")
            self.check_schema(tool, properties, offered[tool])

    def check_schema(self, tool: str, properties: dict[str, str], schema: dict) -> None:
        there = schema.get("properties", {})
        wanted = {name.rstrip("*") for name in properties}
        if set(there) - {"sandbox"} != wanted:
            raise ValueError(f"{tool} has the properties {sorted(there)} instead of {sorted(wanted)}")
        required = {name.rstrip("*") for name in properties if name.endswith("*")}
        said = set(schema.get("required", []))
        if not required <= said:
            raise ValueError(f"{tool} requires {sorted(said)} instead of {sorted(required)}")
        for name, kind in properties.items():
            name = name.rstrip("*")
            forms = [there[name], *there[name].get("anyOf", [])]
            if name in said - required and not any("null" in types(form) for form in forms):
                raise ValueError(f"{name} of {tool} became required")
            choices = {value for form in forms for value in form.get("enum", []) if value is not None}
            if kind not in {one for form in forms for one in types(form)} and not choices:
                raise ValueError(f"{name} of {tool} is not of type {kind}: {there[name]}")
            if choices != CHOICES.get((tool, name), set()):
                raise ValueError(f"{name} of {tool} has the choices {sorted(choices)}")

    def check_turns(self, turns: list[Turn]) -> None:
        if len(turns) > len(self.script):
            raise ValueError(f"{len(turns)} results came back, but only {len(self.script)} calls were made")
        for number, (turn, call) in enumerate(zip(turns, self.script), 1):
            if (turn.name, turn.arguments) != (call.tool, call.arguments):
                raise ValueError(f"call {number} is repeated as {turn.name} {turn.arguments}")
            if not re.search(call.returns, turn.result):
                raise ValueError(f"call {number} ({call.tool}) returned {turn.result!r}, which does not match {call.returns!r}")


def types(form: dict) -> list[str]:
    kind = form.get("type", [])
    return [kind] if isinstance(kind, str) else kind


PATHS = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "messages"}
LONGEST = 4 << 20


def handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            try:
                wire = PATHS.get(self.path.split("?")[0])
                if wire is None:
                    raise ValueError(f"no model has the path {self.path}")
                length = int(self.headers.get("Content-Length", "-1"))
                if not 0 <= length <= LONGEST:
                    raise ValueError(f"a body of {length} bytes")
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, (kind, body) = 200, model.respond(wire, self.rfile.read(length), headers)
            except Exception as error:
                model.problems.append(f"{type(error).__name__}: {error}")
                status, kind = 400, "application/json"
                body = json.dumps({"error": {"type": "invalid_request_error", "message": str(error)}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            model.problems.append(f"unexpected: GET {self.path}")
            self.send_error(404)

        def log_message(self, *arguments) -> None:
            pass

    return Handler
