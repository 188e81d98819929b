"""A loop around OpenAI's chat completions, which many model servers speak, without a framework, with a sandbox of its own."""

import json
import os

import httpx
import openai

TASK = "Write primes.py, which prints the sum of the primes below 100. Run it, and tell me what it prints."

model, messages = openai.OpenAI(), [{"role": "user", "content": TASK}]
cabana = httpx.Client(base_url=os.environ["E2B_API_URL"], headers={"X-API-KEY": os.environ["E2B_API_KEY"]}, timeout=1800)
tools = cabana.get("/tools?format=openai").raise_for_status().json()
sandbox = cabana.post("/sandboxes", json={"templateID": "base", "timeout": 3600}).raise_for_status().json()["sandboxID"]
try:
    while True:
        answer = model.chat.completions.create(model="gpt-5.4", messages=messages, tools=tools).choices[0].message
        messages.append(answer)
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            path, arguments = f"/sandboxes/{sandbox}/tools/{call.function.name}", json.loads(call.function.arguments)
            done = cabana.post(path, json=arguments).json()
            messages.append({"role": "tool", "tool_call_id": call.id, "content": done.get("output") or str(done)})
    print(answer.content)
finally:
    cabana.delete(f"/sandboxes/{sandbox}")
