"""The asynchronous SDK: the same server, other code paths (streams instead of polling, many requests on one connection)."""

import asyncio
import uuid

import pytest
from e2b import (
    AsyncSandbox,
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    NotFoundException,
    PtySize,
    SandboxQuery,
    TimeoutException,
)


async def until(condition, within: float = 10.0) -> None:
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.01)


async def test_life(server):
    tag = uuid.uuid4().hex
    sandbox = await AsyncSandbox.create(timeout=60, metadata={"run": tag})
    listed = await AsyncSandbox.list(SandboxQuery(metadata={"run": tag})).next_items()
    assert [row.sandbox_id for row in listed] == [sandbox.sandbox_id]
    assert (await sandbox.get_info()).metadata == {"run": tag}
    await sandbox.set_timeout(90)
    other = await AsyncSandbox.connect(sandbox.sandbox_id)
    assert await other.is_running()
    assert await sandbox.kill() is True
    assert not await other.is_running()
    with pytest.raises(NotFoundException):
        await sandbox.get_info()


async def test_commands(async_sandbox):
    result = await async_sandbox.commands.run("echo out; echo err >&2; echo $A", envs={"A": "b"})
    assert (result.stdout, result.stderr, result.exit_code) == ("out\nb\n", "err\n", 0)
    with pytest.raises(CommandExitException) as caught:
        await async_sandbox.commands.run("exit 9")
    assert caught.value.exit_code == 9
    with pytest.raises(TimeoutException):
        await async_sandbox.commands.run("sleep 1000", timeout=0.5)


async def test_background_and_input(async_sandbox):
    seen = []
    handle = await async_sandbox.commands.run("cat", background=True, stdin=True, on_stdout=seen.append)
    await handle.send_stdin("hello\n")
    await until(lambda: "".join(seen) == "hello\n")
    await handle.disconnect()
    again = await async_sandbox.commands.connect(handle.pid)
    await again.send_stdin("again\n")
    await again.close_stdin()
    assert (await again.wait()).exit_code == 0
    assert "again\n" in again.stdout


async def test_fifty_commands_at_once(async_sandbox):
    results = await asyncio.gather(*(async_sandbox.commands.run(f"sleep 0.1; echo {n}") for n in range(50)))
    assert [result.stdout for result in results] == [f"{n}\n" for n in range(50)]


async def test_terminal(async_sandbox):
    seen = bytearray()
    terminal = await async_sandbox.pty.create(PtySize(rows=30, cols=100), on_data=seen.extend)
    await async_sandbox.pty.send_stdin(terminal.pid, b"stty size\n")
    await until(lambda: b"30 100" in seen)
    await async_sandbox.pty.resize(terminal.pid, PtySize(rows=40, cols=120))
    await async_sandbox.pty.send_stdin(terminal.pid, b"stty size\n")
    await until(lambda: b"40 120" in seen)
    assert await async_sandbox.pty.kill(terminal.pid)


async def test_files(async_sandbox):
    blob = bytes(range(256)) * 4000
    await async_sandbox.files.write("dir/blob", blob)
    assert await async_sandbox.files.read("dir/blob", format="bytes") == blob
    stream = await async_sandbox.files.read("dir/blob", format="stream")
    assert b"".join([chunk async for chunk in stream]) == blob
    assert [entry.name for entry in await async_sandbox.files.list("dir")] == ["blob"]
    await async_sandbox.files.rename("dir/blob", "dir/moved")
    assert await async_sandbox.files.exists("dir/moved")
    await async_sandbox.files.remove("dir")
    with pytest.raises(FileNotFoundException):
        await async_sandbox.files.read("dir/moved")


async def test_watch(async_sandbox):
    await async_sandbox.files.make_dir("watched")
    seen, ended = [], []
    handle = await async_sandbox.files.watch_dir("watched", seen.append, on_exit=ended.append, recursive=True)
    await async_sandbox.files.write("watched/new", "x")
    await until(lambda: len(seen) >= 3)
    assert [event.type for event in seen] == [
        FilesystemEventType.CREATE,
        FilesystemEventType.CHMOD,
        FilesystemEventType.WRITE,
    ]
    await handle.stop()
    assert ended == [None]


async def test_watch_ends_with_the_sandbox(server):
    sandbox = await AsyncSandbox.create(timeout=60)
    await sandbox.files.make_dir("watched")
    ended = []
    await sandbox.files.watch_dir("watched", lambda _: None, on_exit=ended.append)
    await sandbox.kill()
    await until(lambda: ended)
    assert isinstance(ended[0], TimeoutException), ended


async def test_ten_sandboxes_at_once(server):
    sandboxes = await asyncio.gather(*(AsyncSandbox.create(timeout=60) for _ in range(10)))
    assert len({sandbox.sandbox_id for sandbox in sandboxes}) == 10
    results = await asyncio.gather(*(s.commands.run("echo $E2B_SANDBOX_ID") for s in sandboxes))
    assert [result.stdout.strip() for result in results] == [s.sandbox_id for s in sandboxes]
    assert all(await asyncio.gather(*(sandbox.kill() for sandbox in sandboxes)))
