"""The whole public API of E2B's Python SDK: every method is called by a test, or is unsupported and then fails
with a clear error of the SDK. The JS SDK: tests/js/surface.test.mjs."""

import asyncio
import enum
import inspect
import re
from pathlib import Path

import e2b
import pytest
from e2b import AsyncSandbox, NotFoundException, PtySize, Sandbox, SandboxException
from e2b.exceptions import SecretException, VolumeException
from e2b.sandbox_async.commands.command import Commands as AsyncCommands
from e2b.sandbox_async.commands.pty import Pty as AsyncPty
from e2b.sandbox_async.filesystem.filesystem import Filesystem as AsyncFilesystem
from e2b.sandbox_async.git import Git as AsyncGit
from e2b.sandbox_sync.commands.command import Commands
from e2b.sandbox_sync.commands.pty import Pty
from e2b.sandbox_sync.filesystem.filesystem import Filesystem
from e2b.template.main import TemplateBuilder

from surface import CALLED, LATER, LOCAL, WITHOUT_GATEWAY
from waiting import eventually

# Reached through a sandbox, not exported by name.
PARTS = {
    "Commands": Commands,
    "AsyncCommands": AsyncCommands,
    "Pty": Pty,
    "AsyncPty": AsyncPty,
    "Filesystem": Filesystem,
    "AsyncFilesystem": AsyncFilesystem,
    "AsyncGit": AsyncGit,
    "TemplateBuilder": TemplateBuilder,
}
OURS = (SandboxException, e2b.TemplateException, e2b.BuildException, VolumeException, SecretException)
NOT_YET = r"not available on this server yet"


async def done(answer):
    return await answer if inspect.isawaitable(answer) else answer


def exported() -> dict[str, type]:
    """The SDK's own classes with methods: neither exceptions nor plain values."""
    found = dict(PARTS)
    for name in e2b.__all__:
        thing = getattr(e2b, name)
        if (
            inspect.isclass(thing)
            and thing.__module__.startswith("e2b")
            and not issubclass(thing, (BaseException, dict, enum.Enum))
        ):
            found[name] = thing
    return found


def methods(of: type) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_") and callable(getattr(of, name))}


def accounted(name: str) -> list[str]:
    called = " ".join(CALLED.get(name, {}).values()).split()
    return called + LOCAL.get(name, "").split() + list(LATER.get(name, {})) + WITHOUT_GATEWAY.get(name, "").split()


def test_every_method_is_accounted_for():
    classes = exported()
    assert len(classes) > 20, "the walk found too little"
    wrong = []
    for name, thing in classes.items():
        there, listed = methods(thing), accounted(name)
        wrong += [f"{name}.{method} is neither tested nor listed" for method in sorted(there - set(listed))]
        wrong += [f"{name}.{method} is listed but the SDK has none" for method in sorted(set(listed) - there)]
        wrong += [f"{name}.{method} is listed twice" for method in sorted(set(listed)) if listed.count(method) > 1]
    wrong += [f"{name} is listed but the SDK has none" for name in {*CALLED, *LATER, *LOCAL} - set(classes)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", CALLED)
def test_the_named_test_calls_it(name):
    for file, called in CALLED[name].items():
        text = (Path(__file__).parent / f"{file}.py").read_text()
        missing = [method for method in called.split() if not re.search(rf"\.{method}\(", text)]
        assert not missing, f"{file}.py does not call {missing} of {name}"


# Not covered by other tests.


def test_close_stdin_by_pid(sandbox):
    handle = sandbox.commands.run("cat; echo end", background=True, stdin=True)
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "end\n"


async def test_async_commands(async_sandbox):
    commands = async_sandbox.commands
    cat = await commands.run("cat", background=True, stdin=True)
    assert cat.pid in [process.pid for process in await commands.list()]
    await commands.send_stdin(cat.pid, "one\n")
    async with commands.stream_input(cat.pid) as stream:
        await stream.send("two\n")
    stream = commands.stream_input(cat.pid)
    await stream.send(b"three\n")
    await stream.close()
    await commands.close_stdin(cat.pid)
    assert (await cat.wait()).stdout == "one\ntwo\nthree\n"
    sleeping = await commands.run("sleep 1000", background=True)
    assert await sleeping.kill() is True
    sleeping = await commands.run("sleep 1000", background=True)
    assert await commands.kill(sleeping.pid) is True


async def test_async_terminal(async_sandbox):
    seen = bytearray()
    terminal = await async_sandbox.pty.create(PtySize(rows=24, cols=80), on_data=lambda _: None)
    await terminal.disconnect()
    await async_sandbox.pty.connect(terminal.pid, on_data=seen.extend)
    async with async_sandbox.pty.stream_input(terminal.pid) as stream:
        await stream.send(b"echo $((40+")
        await stream.send(b"2))\n")
    async with asyncio.timeout(10):
        while b"42" not in seen:
            await asyncio.sleep(0.01)
    assert await async_sandbox.pty.kill(terminal.pid)


async def test_async_files_and_links(async_sandbox):
    written = await async_sandbox.files.write_files([{"path": f"many/{n}", "data": f"{n}"} for n in range(3)])
    assert [info.path for info in written] == [f"/home/user/many/{n}" for n in range(3)]
    assert (await async_sandbox.files.get_info("many/1")).size == 1
    for url in (async_sandbox.download_url("many/1"), async_sandbox.upload_url("many/1")):
        assert "signature=v1_" in url
    assert async_sandbox.get_host(8080).startswith(f"8080-{async_sandbox.sandbox_id}.")
    async with asyncio.timeout(15):
        while not (metrics := await async_sandbox.get_metrics()):
            await asyncio.sleep(0.2)
    assert metrics[-1].mem_total > 0


@pytest.mark.parametrize("template", [e2b.Template, e2b.AsyncTemplate], ids=["sync", "async"])
async def test_templates_that_exist(server, template):
    assert await done(template.exists("base")) is True
    assert await done(template.alias_exists("no-such-template")) is False


def test_templates_as_text():
    """Client-side only, or only for templates that this server does not have: nothing is sent."""
    template = e2b.Template().from_image("busybox").run_cmd("true").bun_install("tsx", g=True)
    assert "bun install -g tsx" in e2b.Template.to_json(template)
    assert e2b.Template.to_dockerfile(template).startswith("FROM busybox")
    for call in (
        lambda: template.add_mcp_server("exa"),
        lambda: template.beta_dev_container_prebuild("/x"),
        lambda: template.beta_set_dev_container_start("/x"),
    ):
        with pytest.raises(e2b.BuildException):
            call()


def test_deprecated_pause(sandbox):
    assert sandbox.beta_pause() is True
    assert sandbox.beta_pause() is False
    sandbox.connect(timeout=60)
    assert sandbox.commands.run("echo awake").stdout == "awake\n"


def test_client_object(server):
    """`E2B` binds its own configuration, whatever the environment says."""
    client = e2b.E2B(api_url=server.url, sandbox_url=server.url, api_key=server.key)
    sandbox = client.Sandbox.create(timeout=60)
    try:
        assert sandbox.commands.run("echo bound").stdout == "bound\n"
    finally:
        assert sandbox.kill()


# Unsupported features.


def subject(name: str, sandbox, server):
    """The object on which a method of this class is called."""
    kind = name.removeprefix("Async")
    if kind == "Sandbox":
        return sandbox
    if kind == "Volume":
        # The server issues no volume tokens, because there are no volumes; its key is used instead.
        return getattr(e2b, name)("id", "name", server.key)
    return getattr(e2b, name)


@pytest.mark.parametrize("name", LATER)
async def test_unsupported_methods_fail_clearly(server, name, monkeypatch):
    monkeypatch.setenv("E2B_VOLUME_API_URL", server.url)
    sandbox = await done((AsyncSandbox if name.startswith("Async") else Sandbox).create(timeout=60))
    try:
        for method, call in LATER[name].items():
            async with asyncio.timeout(20):
                with pytest.raises(OURS, match=NOT_YET):
                    await done(call(subject(name, sandbox, server)))
                    pytest.fail(f"{name}.{method} did not fail")
        assert (await done(sandbox.commands.run("echo alive"))).stdout == "alive\n"
    finally:
        await done(sandbox.kill())


@pytest.mark.parametrize(
    "options",
    [
        {"volume_mounts": {"/data": "volume"}},
    ],
    ids=lambda options: next(iter(options)),
)
def test_unsupported_create_options_fail_clearly(server, options, api):
    before = len(api.sandboxes())
    with pytest.raises(OURS, match=NOT_YET):
        Sandbox.create(timeout=60, **options)
    eventually(lambda: len(api.sandboxes()) == before)


@pytest.mark.parametrize("mcp", [{"browserbase": {"apiKey": "k", "projectId": "p"}}, {"duckduckgo": {}}])
def test_mcp_without_a_gateway(server, mcp, api):
    """The SDK starts the gateway in the sandbox. Without that program, creation fails as with E2B, leaving nothing."""
    before = len(api.sandboxes())
    with pytest.raises(SandboxException, match="Failed to start MCP gateway"):
        Sandbox.create("base", timeout=60, mcp=mcp)
    eventually(lambda: len(api.sandboxes()) == before)
    with pytest.raises(OURS, match='"mcp-gateway" was not found; there are: .*build it with'):
        Sandbox.create(timeout=60, mcp=mcp)


def test_mcp_token_without_a_gateway(sandbox):
    with pytest.raises(NotFoundException):
        sandbox.get_mcp_token()
