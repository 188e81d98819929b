"""A loop around Anthropic's API, without a framework, with a sandbox of its own."""

import os

import anthropic
import httpx

TASK = "Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints."

model, messages = anthropic.Anthropic(), [{"role": "user", "content": TASK}]
cabana = httpx.Client(base_url=os.environ["E2B_API_URL"], headers={"X-API-KEY": os.environ["E2B_API_KEY"]}, timeout=1800)
tools = cabana.get("/tools?format=anthropic").raise_for_status().json()
sandbox = cabana.post("/sandboxes", json={"templateID": "base", "timeout": 3600}).raise_for_status().json()["sandboxID"]
try:
    while True:
        answer = model.messages.create(model="claude-sonnet-5", max_tokens=8000, tools=tools, messages=messages)
        messages.append({"role": "assistant", "content": answer.content})
        if answer.stop_reason != "tool_use":
            break
        results = []
        for call in (block for block in answer.content if block.type == "tool_use"):
            done = cabana.post(f"/sandboxes/{sandbox}/tools/{call.name}", json=call.input).json()
            text, failed = done.get("output") or str(done), done.get("status") != "success"
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": failed})
        messages.append({"role": "user", "content": results})
    print("".join(block.text for block in answer.content if block.type == "text"))
finally:
    cabana.delete(f"/sandboxes/{sandbox}")
