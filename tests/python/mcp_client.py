"""An MCP client, run by test_agents.py in an environment that has the package `mcp`: reads one entry of `mcpServers` from its input,
connects as that says, and prints what the tools are and what one returns. Its argument is the generation: `auto` or `legacy`."""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client


async def main(entry: dict, mode: str) -> None:
    if "url" in entry:
        async with create_mcp_http_client(headers=entry["headers"]) as http:
            await use(streamable_http_client(entry["url"], http_client=http), mode)
    else:
        program = StdioServerParameters(command=entry["command"], args=entry.get("args", []), env=dict(os.environ))
        await use(stdio_client(program), mode)


async def use(transport, mode: str) -> None:
    async with Client(transport, mode=mode) as client:
        tools = (await client.list_tools()).tools
        done = await client.call_tool("sandbox_run_command", {"command": "echo $((6 * 7))"})
        answer = {
            "tools": [tool.name for tool in tools],
            "text": "\n".join(part.text for part in done.content if part.type == "text"),
            "failed": done.is_error,
            "sandbox": done.structured_content["sandboxId"],
        }
        print(json.dumps(answer))


asyncio.run(main(json.load(sys.stdin), sys.argv[1]))
