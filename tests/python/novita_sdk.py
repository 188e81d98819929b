"""The tests that test_novita.py runs with Novita's SDK."""

import asyncio
import time
import uuid

import pytest
from novita_sandbox.core import (
    AsyncSandbox,
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxException,
    SandboxQuery,
    Template,
)


@pytest.fixture
def sandbox():
    sandbox = Sandbox.create("base", timeout=120, metadata={"made": "by novita"}, envs={"COLOUR": "blue"})
    yield sandbox
    sandbox.kill()


def test_lifecycle():
    tag = uuid.uuid4().hex
    sandbox = Sandbox.create("base", timeout=60, metadata={"run": tag})
    info = sandbox.get_info()
    assert info.sandbox_id == sandbox.sandbox_id and info.metadata == {"run": tag}
    listed = Sandbox.list(SandboxQuery(metadata={"run": tag})).next_items()
    assert [row.sandbox_id for row in listed] == [sandbox.sandbox_id]
    sandbox.set_timeout(90)
    assert sandbox.is_running()
    # This SDK sends routing headers to the API with it.
    same = Sandbox.connect(sandbox.sandbox_id, timeout=120)
    assert same.sandbox_id == sandbox.sandbox_id and same.commands.run("echo same").stdout == "same\n"
    assert sandbox.kill() is True
    assert not sandbox.is_running()
    assert sandbox.kill() is False
    with pytest.raises(NotFoundException):
        sandbox.get_info()


def test_commands(sandbox):
    assert sandbox.commands.run("echo $COLOUR; whoami").stdout == "blue\nuser\n"
    with pytest.raises(CommandExitException) as caught:
        sandbox.commands.run("exit 7")
    assert caught.value.exit_code == 7
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    assert handle.pid in [process.pid for process in sandbox.commands.list()]
    sandbox.commands.send_stdin(handle.pid, "typed\n")
    again = sandbox.commands.connect(handle.pid)
    assert again.kill() is True
    # Read to the end: this SDK can hang if an unfinished stream is collected while another request starts.
    for stream in (handle, again):
        with pytest.raises(CommandExitException):
            stream.wait()


def test_terminal(sandbox):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
    seen = bytearray()
    terminal.wait(on_pty=seen.extend)
    assert b"30 100" in seen


def test_files(sandbox):
    blob = bytes(range(256)) * 1000
    sandbox.files.write("dir/blob", blob)
    assert sandbox.files.read("dir/blob", format="bytes") == blob
    assert [entry.name for entry in sandbox.files.list("dir")] == ["blob"]
    sandbox.files.rename("dir/blob", "dir/moved")
    assert sandbox.files.exists("dir/moved") and not sandbox.files.exists("dir/blob")
    assert sandbox.files.make_dir("dir/sub") is True
    watch = sandbox.files.watch_dir("dir/sub")
    sandbox.files.write("dir/sub/new", "x")
    deadline, seen = time.monotonic() + 10, []
    while FilesystemEventType.WRITE not in seen and time.monotonic() < deadline:
        seen += [event.type for event in watch.get_new_events()]
    assert FilesystemEventType.WRITE in seen
    watch.stop()
    sandbox.files.remove("dir")
    with pytest.raises(FileNotFoundException):
        sandbox.files.read("dir/moved")


def test_quota(sandbox):
    quota = Sandbox.get_quota()
    assert 1 <= quota.usage.concurrent_instances <= quota.limit.concurrent_instances
    assert quota.usage.concurrent_vcpu >= 1 and quota.usage.concurrent_ram_mb >= 128
    assert quota.limit.max_vcpu >= 1 and quota.limit.max_length_hours >= 1


def test_events():
    sandbox = Sandbox.create("base", timeout=60)
    sandbox.set_timeout(90)
    sandbox.kill()
    told = Sandbox.get_events(sandbox_id=sandbox.sandbox_id, order_asc=True)
    names = [item.event_name for item in told.items]
    assert names[0] == "create" and names[-1] == "delete", names
    assert told.total == len(names) and not told.has_more
    assert all(item.sandbox_id == sandbox.sandbox_id and item.state == "success" for item in told.items)
    assert [item.event_name for item in Sandbox.get_events(sandbox_id=sandbox.sandbox_id, events="delete").items] == [
        "delete"
    ]
    page = Sandbox.get_events(sandbox_id=sandbox.sandbox_id, limit=1)
    assert len(page.items) == 1 and page.has_more


def test_metrics(sandbox):
    deadline = time.monotonic() + 15
    while not (metrics := sandbox.get_metrics()):
        assert time.monotonic() < deadline, "no metrics"
        time.sleep(0.2)
    assert metrics[-1].mem_total > 0


def test_templates():
    assert Template.exists("base") and not Template.exists("no-such-template")
    listed = Template.list()
    assert listed.total >= 1 and listed.page == 1 and listed.items


def test_pause(sandbox):
    sandbox.files.write("kept", "content")
    sandbox.pause()
    assert not sandbox.is_running()
    again = sandbox.connect(timeout=60)
    assert again.is_running() and sandbox.files.read("kept") == "content"


def test_snapshot(sandbox):
    sandbox.files.write("kept", "content")
    snapshot = sandbox.create_snapshot()
    other = Sandbox.create(snapshot.snapshot_id, timeout=60)
    try:
        assert other.files.read("kept") == "content"
    finally:
        assert other.kill() is True
        assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True


def test_clone(sandbox):
    clones = Sandbox.clone(sandbox.sandbox_id, count=2, timeout=60)
    assert len({clone.sandbox_id for clone in clones.sandboxes} | {sandbox.sandbox_id}) == 3
    for clone in clones.sandboxes:
        # This SDK sends no routing headers for clones, so their ports need a domain; test_snapshots.py reads their files.
        assert clone.get_info().state == "running"
        assert clone.kill() is True


def test_commit(sandbox):
    sandbox.files.write("made", "inside")
    name = f"committed-{uuid.uuid4().hex[:8]}"
    template = sandbox.commit(alias=name)
    try:
        assert template.aliases == [name] and template.build_status == "ready"
        made = Sandbox.create(name, timeout=60)
        assert made.files.read("made") == "inside"
        made.kill()
    finally:
        assert Sandbox.delete_snapshot(template.template_id) is True


def test_hotplug_memory(sandbox):
    before = sandbox.get_info().memory_mb
    sandbox.hotplug_memory(256)
    assert sandbox.get_info().memory_mb == before + 256


def test_network(sandbox):
    sandbox.set_network(deny_out=["192.0.2.1"])
    sandbox.set_network(allow_out=["192.0.2.0/24"], deny_out=["0.0.0.0/0"])
    with pytest.raises(SandboxException, match="invalid denied CIDR x"):
        sandbox.set_network(deny_out=["x"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda it: it.reset(),
        lambda it: it.mount_volume("name", "/data"),
        lambda it: it.unmount_volume("/data"),
    ],
    ids="reset mount_volume unmount_volume".split(),
)
def test_unsupported_methods_fail_clearly(sandbox, ask):
    with pytest.raises(SandboxException, match="not available on this server yet"):
        ask(sandbox)


async def test_async():
    sandbox = await AsyncSandbox.create("base", timeout=60)
    try:
        results = await asyncio.gather(*(sandbox.commands.run(f"echo {n}") for n in range(10)))
        assert [result.stdout for result in results] == [f"{n}\n" for n in range(10)]
        await sandbox.files.write("a", "b")
        assert await sandbox.files.read("a") == "b"
    finally:
        assert await sandbox.kill()
