"""A smolagents agent with a sandbox of its own."""

import os

import httpx
from e2b import Sandbox
from smolagents import OpenAIModel, Tool, ToolCallingAgent

TASK = "Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints."
cabana = httpx.Client(base_url=os.environ["E2B_API_URL"], headers={"X-API-KEY": os.environ["E2B_API_KEY"]}, timeout=1800)


class SandboxTool(Tool):
    output_type, skip_forward_signature_validation = "string", True

    def __init__(self, spec: dict):
        self.name, self.description, schema = spec["name"], spec["description"], spec["inputSchema"]
        basis = {"type": "string", "description": ""}
        self.inputs = {key: {**basis, **one, "nullable": key not in schema["required"]} for key, one in schema["properties"].items()}
        super().__init__()

    def forward(self, **arguments) -> str:
        done = cabana.post(f"/sandboxes/{sandbox.sandbox_id}/tools/{self.name}", json=arguments).json()
        return done.get("output") or str(done)


with Sandbox.create(timeout=3600) as sandbox:
    tools = [SandboxTool(spec) for spec in cabana.get("/tools?format=mcp").raise_for_status().json()]
    print(ToolCallingAgent(tools, OpenAIModel("gpt-5.4"), instructions="Work in the sandbox.").run(TASK))
