"""The package langchain-e2b, a backend of LangChain's Deep Agents: run by test_agents.py in its own environment."""

from e2b import Sandbox
from langchain_e2b import E2BSandbox

with Sandbox.create(timeout=120) as sandbox:
    backend = E2BSandbox(sandbox=sandbox)
    done = backend.execute("echo out; echo err >&2; exit 3")
    assert (done.exit_code, done.output.split()) == (3, ["out", "err"]), done
    assert backend.write("/home/user/a.txt", "one\ntwo\n").error is None
    assert backend.edit("/home/user/a.txt", "two", "three").occurrences == 1
    assert backend.read("/home/user/a.txt").file_data["content"] == "one\nthree"
    assert "/home/user/a.txt" in [entry["path"] for entry in backend.ls("/home/user").entries]
    assert [match["line"] for match in backend.grep("three", "/home/user").matches] == [2]
    assert [match["path"] for match in backend.glob("*.txt", "/home/user").matches] == ["a.txt"]
    assert backend.upload_files([("/home/user/b", b"\0\1")])[0].error is None
    assert backend.download_files(["/home/user/b"])[0].content == b"\0\1"
print("works")
