"""A Pydantic AI agent with a sandbox of its own."""

import os

from e2b import Sandbox
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

TASK = "Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints."

with Sandbox.create(timeout=3600) as sandbox:
    tools = MCPToolset(
        f"{os.environ['E2B_API_URL']}/mcp?sandbox={sandbox.sandbox_id}&tools=all",
        auth=os.environ["E2B_API_KEY"],
        read_timeout=1800,
        # A command that fails is a result for the model, not a reason to give up after some retries.
        tool_error_behavior="failed",
    )
    agent = Agent("openai:gpt-5.4", instructions="Work in the sandbox.", toolsets=[tools])
    print(agent.run_sync(TASK).output)
