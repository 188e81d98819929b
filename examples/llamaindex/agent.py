"""A LlamaIndex agent with a sandbox of its own."""

import asyncio
import os

from e2b import Sandbox
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

TASK = "Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints."


class Client(BasicMCPClient):
    async def call_tool(self, *args, **kwargs) -> str:
        """The text alone: without this, the model reads the whole MCP message with everything twice."""
        return "\n".join(part.text for part in (await super().call_tool(*args, **kwargs)).content if part.type == "text")


async def main(sandbox: Sandbox) -> None:
    url, headers = os.environ["E2B_API_URL"], {"Authorization": f"Bearer {os.environ['E2B_API_KEY']}"}
    client = Client(f"{url}/mcp?sandbox={sandbox.sandbox_id}&tools=all", headers=headers, timeout=1800, sse_read_timeout=1800)
    tools = await McpToolSpec(client).to_tool_list_async()
    agent = FunctionAgent(tools=tools, llm=OpenAI("gpt-5.4"), system_prompt="Work in the sandbox.")
    print(await agent.run(TASK))


with Sandbox.create(timeout=3600) as sandbox:
    asyncio.run(main(sandbox))
