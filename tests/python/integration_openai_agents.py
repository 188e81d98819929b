"""Sandboxes of the OpenAI Agents SDK on E2B (`openai-agents[e2b]`): run by test_agents.py in its own environment."""

import asyncio
import io
from pathlib import Path

from agents.extensions.sandbox.e2b import E2BSandboxClient, E2BSandboxClientOptions
from agents.sandbox.manifest import Manifest


async def main() -> None:
    client = E2BSandboxClient()
    session = await client.create(options=E2BSandboxClientOptions("e2b", timeout=120), manifest=Manifest())
    try:
        async with session:
            await session.write(Path("a.txt"), io.BytesIO(b"text"))
            assert (await session.read(Path("a.txt"))).read() == b"text"
            done = await session.exec("cat a.txt; exit 3", shell=True)
            assert (done.exit_code, done.stdout) == (3, b"text"), (done.exit_code, done.stdout, done.stderr)
            assert b"a.txt" in (await session.persist_workspace()).read()
    finally:
        await client.delete(session)


asyncio.run(main())
print("works")
