"""CrewAI's tools for E2B (`crewai-tools`): run by test_agents.py in its own environment."""

from crewai_tools import E2BExecTool, E2BFileTool
from e2b import Sandbox

with Sandbox.create(timeout=120) as sandbox:
    run, files = E2BExecTool(sandbox_id=sandbox.sandbox_id), E2BFileTool(sandbox_id=sandbox.sandbox_id)
    assert files.run(action="write", path="/tmp/a", content="text")["bytes"] == 4
    done = run.run(command="cat /tmp/a")
    assert (done["exit_code"], done["stdout"]) == (0, "text"), done
    assert files.run(action="read", path="/tmp/a")["content"] == "text"
    assert "a" in [entry["name"] for entry in files.run(action="list", path="/tmp")["entries"]]
# Without a sandbox of the caller's, each call has its own.
assert E2BExecTool().run(command="test -e /tmp/a || echo none")["stdout"] == "none\n"
print("works")
