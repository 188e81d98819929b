"""Calls agent tools over REST, with JSON or server-sent events."""

import http.client
import json
from typing import Any, Iterator

from wire import Answer, Client


class Tools:
    """The tools of one sandbox. `tools.read_file(path="x")` calls `sandbox_read_file`."""

    def __init__(self, client: Client, id: str):
        self.client, self.id = client, id

    def __getattr__(self, name: str):
        return lambda **arguments: self.call(f"sandbox_{name}", arguments)

    def send(self, tool: str, arguments: Any = None, query: str = "", headers: dict[str, str] | None = None) -> Answer:
        return self.client.request("POST", f"/sandboxes/{self.id}/tools/{tool}{query}", arguments, headers)

    def call(self, tool: str, arguments: dict) -> dict:
        """The result of a call, whether it succeeded or not."""
        answer = self.send(tool, arguments)
        assert answer.status == 200, (answer.status, answer.body)
        result = answer.json
        assert result["tool"] == tool and result["sandboxId"] == self.id
        assert (result["status"] == "success") == (result["error"] is None), result
        if result["error"]:
            assert result["error"]["message"] and result["error"]["hint"], result
            assert result["error"]["code"] in result["output"], result
        return result

    def ok(self, tool: str, **arguments: Any) -> dict:
        result = self.call(f"sandbox_{tool}", arguments)
        assert result["status"] == "success", result["output"]
        return result

    def fails(self, code: str, tool: str, **arguments: Any) -> dict:
        result = self.call(f"sandbox_{tool}", arguments)
        assert result["status"] == "error" and result["error"]["code"] == code, result
        return result

    def bytes(self, path: str) -> bytes:
        """A file as it is, by base64 in a command, so that no file tool tests itself."""
        import base64

        return base64.b64decode(self.ok("run_command", command=f"base64 -w0 -- '{path}'")["output"])


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, dict]]:
    """Server-sent events as they arrive."""
    name, data = "", ""
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data += line[5:].strip()
        elif not line and data:
            yield name, json.loads(data)
            name, data = "", ""
