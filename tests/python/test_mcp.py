"""MCP with the official client: over HTTP and over standard input and output (`cabana mcp`), in the current revision of the protocol and
in the one before. What is no MCP is in crates/server/tests/it/mcp.rs; the older revisions are in tests/js/mcp.test.mjs."""

import asyncio
import base64
import json
import os
import signal
import struct
import subprocess
import time
import zlib
from contextlib import asynccontextmanager

import httpx2
import jsonschema
import pytest
import requests
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from server import CABANA
from waiting import eventually

MODES = {
    "http": ("http", "auto"),
    "http-before": ("http", "legacy"),
    "stdio": ("stdio", "auto"),
    "stdio-before": ("stdio", "legacy"),
}


def environment(server) -> dict[str, str]:
    return {"CABANA_API_URL": server.url, "CABANA_API_KEY": server.key, "SSL_CERT_FILE": server.ca, "HOME": "/root"}


@asynccontextmanager
async def connected(
    server, how: str, mode: str, sandbox: str | None = None, tools: str | None = None, key: str | None = None
):
    """A client; over HTTP with a connection of its own."""
    if how == "stdio":
        args = ["mcp", *(["--sandbox", sandbox] if sandbox else []), *(["--tools", tools] if tools else [])]
        parameters = StdioServerParameters(command=str(CABANA), args=args, env=environment(server))
        async with Client(parameters, mode=mode) as client:
            yield client
        return
    query = httpx2.QueryParams({name: value for name, value in (("sandbox", sandbox), ("tools", tools)) if value})
    headers = {"Authorization": f"Bearer {key or server.key}"}
    verify = server.ca if server.secure else True
    async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=120), verify=verify) as http:
        transport = streamable_http_client(f"{server.url}/mcp?{query}", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.fixture(params=MODES.values(), ids=MODES.keys())
def connect(request, server):
    how, mode = request.param
    return lambda **options: connected(server, how, mode, **options)


async def text(client, tool: str, **arguments) -> str:
    """The text of a call that succeeds."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.content[0].text


async def run(client, command: str, **arguments) -> str:
    return (await text(client, "sandbox_run_command", command=command, **arguments)).removesuffix("\n")


async def test_the_server_describes_itself(connect):
    async with connect() as client:
        assert (client.server_info.name, client.server_info.title) == ("cabana", "Cabana")
        assert client.server_capabilities.tools is not None and client.server_capabilities.resources is None
        assert client.instructions.count(".") == 2 and "sandbox" in client.instructions
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert len(tools) == 18 and {"sandbox_run_command", "sandbox_create"} <= tools.keys()
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
            assert tool.input_schema["type"] == tool.output_schema["type"] == "object"
            assert tool.description and tool.title and len(tool.name) <= 64
            hints = tool.annotations
            assert None not in (
                hints.read_only_hint,
                hints.destructive_hint,
                hints.idempotent_hint,
                hints.open_world_hint,
            )
        assert tools["sandbox_read_file"].annotations.read_only_hint
        assert tools["sandbox_delete_file"].annotations.destructive_hint
    async with connect(tools="read,sandbox_list") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "sandbox_read_file",
            "sandbox_list_directory",
            "sandbox_grep_files",
            "sandbox_find_files",
            "sandbox_download_url",
            "sandbox_list",
        ]


async def test_an_agent_repairs_a_failing_test(connect, server):
    """Files, a failing run, a search, a patch, a run that passes, and the result as a download; through MCP alone."""
    code = "def slug(title):\n    return title.lower().replace(' ', '-')\n"
    tests = (
        "import unittest\nfrom slug import slug\n\n\nclass Slugs(unittest.TestCase):\n"
        "    def test_words(self):\n        self.assertEqual(slug('Two Words'), 'two-words')\n\n"
        "    def test_spaces(self):\n        self.assertEqual(slug(' Many  spaces '), 'many-spaces')\n"
    )
    async with connect() as client:
        made = await client.call_tool("sandbox_create", {"name": "repair", "timeout_seconds": 300})
        box = made.structured_content["sandboxId"]
        here = {"sandbox": box}
        try:
            await text(client, "sandbox_write_file", path="work/slug.py", content=code, **here)
            await text(client, "sandbox_write_file", path="work/test_slug.py", content=tests, **here)
            failed = await client.call_tool(
                "sandbox_run_command", {"command": "python3 -m unittest", "cwd": "work", **here}
            )
            assert failed.is_error and failed.structured_content["error"]["code"] == "command_failed"
            assert "FAIL: test_spaces" in failed.content[0].text and "test_slug.py" in failed.content[0].text
            assert failed.structured_content["data"]["exitCode"] == 1
            found = await text(
                client, "sandbox_grep_files", pattern=r"replace\(", path="work", include=["*.py"], **here
            )
            assert "slug.py:2:" in found
            assert "2\t    return title.lower()" in await text(client, "sandbox_read_file", path="work/slug.py", **here)
            patch = (
                "--- a/slug.py\n+++ b/slug.py\n@@ -1,2 +1,3 @@\n def slug(title):\n"
                "-    return title.lower().replace(' ', '-')\n"
                "+    words = title.lower().split()\n+    return '-'.join(words)\n"
            )
            await text(client, "sandbox_apply_patch", patch=patch, cwd="work", **here)
            assert "OK" in await run(client, "python3 -m unittest 2>&1", cwd="work", **here)
            link = await client.call_tool("sandbox_download_url", {"path": "work/slug.py", **here})
            url = link.structured_content["data"]["url"]
            assert "split()" in requests.get(url, timeout=30, verify=server.ca if server.secure else True).text
        finally:
            await client.call_tool("sandbox_kill", {"sandbox": box})


async def test_results_have_text_images_and_structure(connect, boxes):
    box = boxes()

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(b"\0\xff")) + chunk(b"IEND", b"")
    async with connect(sandbox=box.id) as client:
        schema = (await client.list_tools()).tools[0].output_schema
        await run(client, f"echo {base64.b64encode(png).decode()} | base64 -d > dot.png")
        image = await client.call_tool("sandbox_read_file", {"path": "dot.png"})
        pictures = [part for part in image.content if part.type == "image"]
        assert [(base64.b64decode(part.data), part.mime_type) for part in pictures] == [(png, "image/png")]
        assert "images" not in image.structured_content, "they would be there twice"
        for result in (image, await client.call_tool("sandbox_read_file", {"path": "none"})):
            jsonschema.validate(result.structured_content, schema)
            assert result.structured_content["sandboxId"] == box.id
            assert result.content[0].text == result.structured_content["output"]
        assert result.is_error and result.structured_content["error"]["code"] == "file_not_found"
        wrong = await client.call_tool("sandbox_read_file", {"path": "x", "start_line": 0})
        assert wrong.is_error and "start_line must be at least 1" in wrong.content[0].text
        with pytest.raises(MCPError, match="Unknown tool") as unknown:
            await client.call_tool("sandbox_format_disk", {})
        assert unknown.value.code == -32602


async def test_progress_arrives_while_the_command_runs(connect, boxes):
    begin, seen = time.monotonic(), []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((time.monotonic() - begin, done, message))

    box = boxes()
    async with connect(sandbox=box.id) as client:
        command = "for i in 1 2 3 4; do echo line $i; sleep 1; done; seq 100000"
        begin = time.monotonic()
        result = await client.call_tool("sandbox_run_command", {"command": command}, progress_callback=progress)
        took = time.monotonic() - begin
        assert not result.is_error
        assert len(seen) >= 4 and seen[0][0] < took - 2, (took, seen)
        assert len(seen) <= took * 2 + 1, "at most twice a second"
        values = [done for _, done, _ in seen]
        assert values == sorted(set(values)), "progress only grows"
        said = "\n".join(message for _, _, message in seen)
        assert all(f"line {i}" in said for i in (1, 2, 3, 4)), said
        assert all(len(message) <= 2000 for _, _, message in seen)
        seen.clear()
        # Nothing is told of calls that are short.
        await client.call_tool("sandbox_list_directory", {"path": "/"}, progress_callback=progress)
        assert seen == []


async def running(client, mark: str) -> int:
    return int(await run(client, f"pgrep -fc '^sleep {mark}' || true"))


async def test_cancelling_ends_the_command(connect, boxes):
    box, mark = boxes(), "98765"
    async with connect(sandbox=box.id) as client, connect(sandbox=box.id) as other:
        for progress in (None, lambda *_: asyncio.sleep(0)):
            script = f"trap 'echo ended > ended; exit' TERM; rm -f ended; sleep {mark} & wait"
            call = asyncio.ensure_future(
                client.call_tool("sandbox_run_command", {"command": script}, progress_callback=progress)
            )
            await until(lambda: running(other, mark), 1)
            if progress:
                await asyncio.sleep(1.5)  # until answers are events
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            await until(lambda: running(other, mark), 0)
            assert await run(other, "cat ended") == "ended"
        # The client goes on.
        assert await run(client, "echo still here") == "still here"


async def until(count, expected: int, within: float = 20) -> None:
    async with asyncio.timeout(within):
        while await count() != expected:
            await asyncio.sleep(0.05)


async def test_a_client_that_leaves_ends_its_commands(connect, boxes, server):
    box, mark, began = boxes(), "87654", asyncio.Event()

    async def leave(other) -> None:
        async with connect(sandbox=box.id) as client:
            call = asyncio.ensure_future(client.call_tool("sandbox_run_command", {"command": f"sleep {mark}"}))
            await until(lambda: running(other, mark), 1)
            began.set()
            call.cancel()

    async with connect(sandbox=box.id) as other:
        # The client's library may fail when it is closed in the middle of a call: only what the server does counts.
        await asyncio.gather(leave(other), return_exceptions=True)
        assert began.is_set()
        await until(lambda: running(other, mark), 0)


async def test_calls_without_a_sandbox_share_the_one_of_the_key(connect, api):
    async with connect() as one, connect() as two:
        await run(one, "echo from one > note")
        assert await run(two, "cat note") == "from one"
        listed = (await two.call_tool("sandbox_list", {})).structured_content["data"]["sandboxes"]
        assert [row["metadata"].get("name") for row in listed].count("mcp") == 1
    own = [row for row in api.sandboxes() if row["metadata"].get("name") == "mcp"]
    assert len(own) == 1
    api.kill(own[0]["sandboxID"])


async def test_twenty_calls_at_once(connect, boxes, figures, request):
    box = boxes()
    async with connect(sandbox=box.id) as client:
        begin = time.monotonic()
        answers = await asyncio.gather(*(run(client, f"sleep 0.2; echo {i}") for i in range(20)))
        figures.append(f"MCP, 20 calls of 0.2 s at once ({request.node.callspec.id}): {time.monotonic() - begin:.2f} s")
        assert answers == [str(i) for i in range(20)]


async def test_a_large_file_in_both_directions(connect, boxes):
    box = boxes()
    content = "".join(f"line {i} äöü\n" for i in range(200_000))
    async with connect(sandbox=box.id) as client:
        await text(client, "sandbox_write_file", path="large.txt", content=content)
        assert int(await run(client, "wc -c < large.txt")) == len(content.encode())
        too_large = await client.call_tool("sandbox_write_file", {"path": "x", "content": "x" * (5 * 1024 * 1024 + 1)})
        assert too_large.is_error and "5242881 characters" in too_large.content[0].text


async def test_a_paused_sandbox_is_resumed(connect, boxes, api):
    box = boxes()
    async with connect(sandbox=box.id) as client:
        await run(client, "echo kept > note")
        assert "paused" in await text(client, "sandbox_pause", sandbox=box.id)
        assert await run(client, "cat note") == "kept"


async def test_a_wrong_key_is_refused(server):
    for mode in ("auto", "legacy"):
        with pytest.RaisesGroup(MCPError, flatten_subgroups=True):
            async with connected(server, "http", mode, key="e2b_" + "f" * 40):
                pass


# The bridge, without a client of MCP between.


class Bridge:
    """`cabana mcp` as a program sees it."""

    def __init__(self, *args: str, **env: str):
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CABANA_", "E2B_"))}
        self.process = subprocess.Popen(
            [CABANA, "mcp", *args],
            env={**inherited, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def send(self, message) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, params: dict | None = None, id: object = 1) -> dict:
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})
        return self.read()

    def initialize(self) -> dict:
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        return self.ask("initialize", about)

    def close(self) -> tuple[int, bytes, bytes]:
        """Ends its input; its exit code and what is left of its output."""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err

    def __enter__(self) -> "Bridge":
        return self

    def __exit__(self, *_) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def test_the_bridge_says_what_to_do_without_a_server(tmp_path):
    with Bridge(CABANA_API_URL="http://127.0.0.1:9", CABANA_API_KEY="e2b_" + "0" * 40) as bridge:
        error = bridge.initialize()["error"]
        assert error["code"] == -32000
        assert "cannot reach the server at http://127.0.0.1:9" in error["message"]
        assert "start a server with `cabana server`" in error["message"]
        assert bridge.close() == (0, b"", b"")
    with Bridge(CABANA_DATA_DIR=str(tmp_path)) as bridge:
        message = bridge.initialize()["error"]["message"]
        assert "no API key" in message and "cabana server" in message
        assert bridge.close() == (0, b"", b"")


def test_the_bridge_survives_what_is_no_message(server):
    with Bridge(**environment(server)) as bridge:
        for line, code in (
            (b"nonsense", -32700),
            (b"{", -32700),
            (b"\xff\xfe", -32700),
            (b"[]", -32600),
            (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
            (b'"text"', -32600),
            (b'{"id":5,"method":"ping"}', -32600),
            (b"x" * (17 << 20), -32600),
        ):
            bridge.send(line)
            assert bridge.read()["error"]["code"] == code, line[:50]
        for line in (
            b"",
            b"  ",
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            b'{"jsonrpc":"2.0","method":"notifications/none"}',
        ):
            bridge.send(line)  # nothing to answer
        huge = {"name": "sandbox_write_file", "arguments": {"path": "x", "content": "x" * (13 << 20)}}
        assert "larger than" in bridge.ask("tools/call", huge, "huge")["error"]["message"]
        assert bridge.initialize()["result"]["protocolVersion"] == "2025-06-18"
        assert bridge.ask("ping", id="text id") == {"jsonrpc": "2.0", "id": "text id", "result": {}}
        assert bridge.ask("no/such", id=3)["error"]["code"] == -32601
        assert bridge.close() == (0, b"", b"")
    with Bridge("--tools", "rm", **environment(server)) as bridge:
        assert 'no tool or set of tools "rm"' in bridge.initialize()["error"]["message"]
    with Bridge(**{**environment(server), "CABANA_API_KEY": "e2b_" + "0" * 40}) as bridge:
        assert "CABANA_API_KEY" in bridge.initialize()["error"]["message"]


def test_the_end_of_the_input_ends_the_bridge_and_its_commands(server, api, boxes):
    box = boxes()

    def alive() -> int:
        return int(api.run(box, "pgrep -fc '^sleep 76543' || true")[1])

    for end in ("close", "kill"):
        with Bridge("--sandbox", box.id, **environment(server)) as bridge:
            bridge.initialize()
            call = {"name": "sandbox_run_command", "arguments": {"command": "sleep 76543"}}
            bridge.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
            eventually(lambda: alive() == 1, within=20, what="the command runs")
            # Others are answered meanwhile; an id may not be used twice.
            assert bridge.ask("ping", id=3)["result"] == {}
            assert "in progress" in bridge.ask("ping", id=2)["error"]["message"]
            if end == "close":
                assert bridge.close()[0] == 0
        eventually(lambda: alive() == 0, within=20, what="the command has ended")


def test_the_bridge_finds_a_server_that_comes_back(server, boxes):
    box = boxes()
    with Bridge("--sandbox", box.id, **environment(server)) as bridge:
        bridge.initialize()
        server.stop()
        server.start()
        call = {"name": "sandbox_run_command", "arguments": {"command": "echo again"}}
        answer = bridge.ask("tools/call", call, 2)
        if "error" in answer:  # a connection that the old server had kept
            answer = bridge.ask("tools/call", call, 3)
        assert answer["result"]["content"][0]["text"] == "again\n", answer
