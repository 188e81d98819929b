"""Every example of examples/ as a user runs it, in an environment of its own, with a model that follows a script (scripted_model.py) and
without a network. Four of them by default; `CABANA_TEST_AGENTS=all` runs all, with a command that takes longer than the frameworks' own
limits, and integrations of E2B. An MCP client uses the configurations for Claude Code and Cursor as they stand in docs/agents/."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from offline import Offline
from other_sdk import python_with
from scripted_model import TOOLS, Call, ScriptedModel
from server import CABANA, CACHE, ROOT

ALL = os.environ.get("CABANA_TEST_AGENTS") == "all"
#: Seconds that the last command takes. Frameworks give up on a tool after 5 or 30 seconds unless told otherwise.
SLOW = 35 if ALL else 0
#: Opt-outs of what frameworks send to their makers.
QUIET = {
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
    "LANGSMITH_TRACING": "false",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True)
class Example:
    name: str
    #: The model provider's wire that it uses.
    wire: str
    default: bool = False


EXAMPLES = [
    Example("anthropic", "messages", default=True),
    Example("openai", "chat", default=True),
    Example("openai-agents", "responses", default=True),
    Example("vercel-ai", "responses", default=True),
    Example("crewai", "chat"),
    Example("langchain", "chat"),
    Example("llamaindex", "chat/stream"),
    Example("pydantic-ai", "responses"),
    Example("smolagents", "chat"),
]

BROKEN = "print('sum:', sum(n for n in range(2, 100) if all(n % d for d in range(2, n)))\n"
#: Writes a program, sees it fail, repairs it, and runs it again.
SCRIPT = [
    Call("sandbox_write_file", {"path": "primes.py", "content": BROKEN}, r"primes\.py"),
    Call("sandbox_run_command", {"command": "python3 primes.py"}, "SyntaxError"),
    Call("sandbox_find_replace", {"path": "primes.py", "find": "n)))", "replace": "n))))"}, r"\b1\b"),
    Call("sandbox_run_command", {"command": f"sleep {SLOW}; python3 primes.py; echo in $E2B_SANDBOX_ID"}, r"sum: 1060"),
]


@pytest.fixture(scope="module")
def offline(server):
    offline = Offline()
    try:
        offline.forward(server.port)
        yield offline
    finally:
        offline.close()


@pytest.mark.parametrize("example", [e for e in EXAMPLES if ALL or e.default], ids=lambda e: e.name)
def test_example(example, server, offline, api, figures, tmp_path):
    started = time.monotonic()
    command = installed(example.name)
    ready, before = time.monotonic(), ids(api)
    offline.leaving()
    model = ScriptedModel(SCRIPT, offline.listen(), secrets=[server.key])
    try:
        environment = {
            **{"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"},
            **server.environment,
            **model.environment,
            **QUIET,
        }
        done = subprocess.run(
            offline.command(*command), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=150
        )
    finally:
        model.close()
    said = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert not model.problems, "\n".join([*model.problems, said])
    assert done.returncode == 0, said
    model.assert_finished()
    assert "It prints: sum: 1060" in done.stdout, said
    assert model.record.wires == {example.wire}
    assert not (leaving := offline.leaving()), f"{example.name} tried to reach the network:\n" + "\n".join(leaving)
    # It used one sandbox, and has killed it.
    id = re.search(r"in (i[0-9a-z]+)", model.record.results[-1])[1]
    assert id not in before and ids(api) == before
    kinds = [event["type"] for event in api.events(id)]
    assert "sandbox.lifecycle.created" in kinds and "sandbox.lifecycle.killed" in kinds, kinds
    figures.append(f"agent {example.name}: installed in {ready - started:.1f} s, ran for {time.monotonic() - ready:.1f} s")


def ids(api) -> set[str]:
    return {row["sandboxID"] for row in api.sandboxes()}


@pytest.mark.skipif(not ALL, reason="CABANA_TEST_AGENTS=all runs it")
@pytest.mark.parametrize("name", ["deepagents", "openai-agents", "crewai"])
def test_e2b_integration(name, server, api):
    """Integrations of E2B that others publish work unchanged."""
    before, program = ids(api), Path(__file__).with_name(f"integration_{name.replace('-', '_')}.py")
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **server.environment, **QUIET}
    done = subprocess.run([python_with(name), program], env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and done.stdout.endswith("works\n"), done.stdout[-3000:] + done.stderr[-3000:]
    assert ids(api) == before


# Environments.


def installed(name: str) -> list[Path | str]:
    """Command line of an example; its packages are installed if they have changed."""
    source, place = ROOT / "examples" / name, CACHE / "agents" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    node = (source / "package.json").exists()
    wanted = [source / file for file in (["package.json", "package-lock.json"] if node else ["requirements.txt", "constraints.txt"])]
    state = "\n".join([sys.version, *(file.read_text() for file in wanted)])
    stamp = place / ".installed"
    with open(place.parent / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != state:
            shutil.rmtree(place, ignore_errors=True)
            install_node(place, wanted) if node else install_python(place, wanted)
            stamp.write_text(state)
        if node:  # modules are found from where the program is
            return ["node", shutil.copy(source / "agent.mjs", place)]
    return [place / "bin/python", source / "agent.py"]


def install_python(place: Path, wanted: list[Path]) -> None:
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    pip = [place / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", wanted[0], "--constraint", wanted[1]], check=True)


def install_node(place: Path, wanted: list[Path]) -> None:
    place.mkdir()
    for file in wanted:
        shutil.copy(file, place)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"], cwd=place, check=True)


# The documentation.


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_page(example):
    """The page of an example shows its script, which is short, and the index has the tested versions."""
    program = next((ROOT / "examples" / example.name).glob("agent.*"))
    script = program.read_text()
    assert blocks(f"{example.name}.md", "js" if program.suffix == ".mjs" else "python") == [script]
    assert len(script.splitlines()) <= 30
    row = re.search(rf"^.*\(agents/{example.name}\.md\).*$", (ROOT / "docs/agents.md").read_text(), re.M)[0]
    for package, version in re.findall(r"`([^`]+)` ([\d.]+)", row):
        assert version in pins(program.parent)[package], (package, version)


def pins(source: Path) -> dict[str, str]:
    if (source / "package.json").exists():
        return json.loads((source / "package.json").read_text())["dependencies"]
    return {re.split(r"[\[=]", line)[0]: line.split("==")[1] for line in (source / "requirements.txt").read_text().split()}


# Claude Code and Cursor: only their configuration is ours.


def blocks(page: str, language: str) -> list[str]:
    """Code blocks of a page of the documentation."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "docs/agents" / page).read_text(), re.M | re.S)


def claude_code(server, scratch: Path) -> list[dict]:
    """What `claude mcp add` is given: its command lines in the documentation, run with a program that notes its arguments."""
    noted, program = scratch / "noted", scratch / "claude"
    program.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]), file=open({str(noted)!r}, 'a'))\n")
    program.chmod(0o755)
    lines = [line for block in blocks("claude-code.md", "sh") for line in block.splitlines() if line.startswith("claude mcp add")]
    environment = {"PATH": f"{scratch}:{os.environ['PATH']}", **server.environment}
    subprocess.run(["bash", "-euc", "\n".join(lines)], env=environment, check=True)
    return [parsed(json.loads(line)) for line in noted.read_text().splitlines()]


def parsed(arguments: list[str]) -> dict:
    """`mcp add [--transport http] [--header "NAME: VALUE"] NAME URL` or `mcp add NAME -- COMMAND…`"""
    assert arguments[:2] == ["mcp", "add"]
    rest, command = arguments[2:], []
    if "--" in rest:
        rest, command = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    options, plain = {}, []
    while rest:
        word = rest.pop(0)
        options.update({word: rest.pop(0)}) if word.startswith("--") else plain.append(word)
    assert plain[0] == "cabana" and set(options) <= {"--transport", "--header", "--scope"}, arguments
    if command:
        return {"command": command[0], "args": command[1:]}
    assert options["--transport"] == "http"
    name, value = options["--header"].split(": ", 1)
    return {"url": plain[1], "headers": {name: value}}


def from_files(page: str, server) -> list[dict]:
    """Servers of the JSON files of a page, with variables as Cursor (`${env:NAME}`) and Claude Code (`${NAME}`) fill them in."""
    fill = lambda text: re.sub(r"\$\{(?:env:)?(\w+)\}", lambda found: server.environment[found[1]], text)
    return [entry for block in blocks(page, "json") for entry in json.loads(fill(block))["mcpServers"].values()]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("client", ["claude-code", "cursor"])
def test_configuration(client, mode, server, api, tmp_path):
    """Each documented configuration gives the tools, by both generations of MCP."""
    python = installed("openai-agents")[0]
    entries = from_files(f"{client}.md", server) + (claude_code(server, tmp_path) if client == "claude-code" else [])
    assert {"url", "command"} <= {key for entry in entries for key in entry}, "over HTTP and stdio"
    used = set()
    try:
        for entry in entries:
            environment = {"PATH": f"{CABANA.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), **server.environment}
            done = subprocess.run(
                [python, Path(__file__).with_name("mcp_client.py"), mode],
                input=json.dumps(entry),
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, f"{entry}:\n{done.stderr[-3000:]}"
            answer = json.loads(done.stdout)
            assert set(TOOLS) <= set(answer["tools"]), answer["tools"]
            assert "42" in answer["text"] and not answer["failed"], answer
            used.add(answer["sandbox"])
        assert len(used) == 1, f"one sandbox belongs to the key, but {used} were used"
    finally:
        for id in used:
            api.kill(id)
