"""An agent of the OpenAI Agents SDK with a sandbox of its own."""

import asyncio
import os

from agents import Agent, Runner
from agents.mcp import MCPServerStreamableHttp
from e2b import Sandbox

TASK = "Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints."


async def main(sandbox: Sandbox) -> None:
    params = {
        "url": f"{os.environ['E2B_API_URL']}/mcp?sandbox={sandbox.sandbox_id}&tools=all",
        "headers": {"Authorization": f"Bearer {os.environ['E2B_API_KEY']}"},
        "timeout": 1800,
    }
    # The SDK gives up on a tool after 5 seconds by default; a command may take up to 30 minutes.
    async with MCPServerStreamableHttp(params, client_session_timeout_seconds=1800) as tools:
        agent = Agent("Coder", instructions="Work in the sandbox.", model="gpt-5.4", mcp_servers=[tools])
        print((await Runner.run(agent, TASK)).final_output)


with Sandbox.create(timeout=3600) as sandbox:
    asyncio.run(main(sandbox))
