"""A CrewAI agent with a sandbox of its own."""

import os

import httpx
from crewai import LLM, Agent
from crewai.tools import BaseTool
from crewai.utilities.pydantic_schema_utils import create_model_from_schema

TASK = "Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints."

cabana = httpx.Client(base_url=os.environ["E2B_API_URL"], headers={"X-API-KEY": os.environ["E2B_API_KEY"]}, timeout=1800)


class SandboxTool(BaseTool):
    def _run(self, **arguments) -> str:
        done = cabana.post(f"/sandboxes/{sandbox}/tools/{self.name}", json=arguments).json()
        return done.get("output") or str(done)


specs = cabana.get("/tools?format=mcp").raise_for_status().json()
schemas = [create_model_from_schema(spec["inputSchema"]) for spec in specs]
tools = [SandboxTool(name=spec["name"], description=spec["description"], args_schema=schema) for spec, schema in zip(specs, schemas)]
sandbox = cabana.post("/sandboxes", json={"templateID": "base", "timeout": 3600}).raise_for_status().json()["sandboxID"]
try:
    agent = Agent(role="Coder", goal="Solve the task", backstory="You work in a sandbox.", llm=LLM("openai/gpt-5.4"), tools=tools)
    print(agent.kickoff(TASK).raw)
finally:
    cabana.delete(f"/sandboxes/{sandbox}")
