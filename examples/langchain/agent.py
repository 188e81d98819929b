"""A LangChain agent, which runs on LangGraph, with a sandbox of its own."""

import asyncio
import os

from e2b import Sandbox
from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient

TASK = "Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints."


async def main(sandbox: Sandbox) -> None:
    cabana = {
        "transport": "streamable_http",
        "url": f"{os.environ['E2B_API_URL']}/mcp?sandbox={sandbox.sandbox_id}&tools=all",
        "headers": {"Authorization": f"Bearer {os.environ['E2B_API_KEY']}"},
        "timeout": 1800,
    }
    tools = await MultiServerMCPClient({"cabana": cabana}).get_tools()
    agent = create_agent("openai:gpt-5.4", tools, system_prompt="Work in the sandbox.")
    state = await agent.ainvoke({"messages": [{"role": "user", "content": TASK}]})
    print(state["messages"][-1].text)


with Sandbox.create(timeout=3600) as sandbox:
    asyncio.run(main(sandbox))
