"""Copies of disks (snapshots, forks, clones), and resizing of existing sandboxes."""

import asyncio
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from e2b import AsyncSandbox, NotFoundException, Sandbox, SandboxException, Template

from waiting import eventually

BOOT = "cat /proc/sys/kernel/random/boot_id"


@pytest.fixture
def name() -> str:
    return f"snap-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def keep(server):
    """Records snapshots and forks; they are deleted at the end."""
    kept: list = []
    yield lambda thing: kept.append(thing) or thing
    for thing in kept:
        if isinstance(thing, (Sandbox, str)):
            Sandbox.kill(thing if isinstance(thing, str) else thing.sandbox_id)
        elif not isinstance(thing, Exception):
            Sandbox.delete_snapshot(thing.snapshot_id)


def everything(paginator) -> list:
    found = []
    while paginator.has_next:
        found += paginator.next_items()
    return found


def ids(snapshots) -> list[str]:
    return [snapshot.snapshot_id for snapshot in snapshots]


def message(answer) -> str:
    assert answer.status >= 400, (answer.status, answer.body)
    return f"{answer.status} {answer.json['message']}"


# Snapshots


def test_unnamed_snapshot(sandbox, sandboxes, keep):
    sandbox.files.write("kept", "then")
    sandbox.commands.run("sleep 1000", background=True, timeout=0)
    boot = sandbox.commands.run(BOOT).stdout
    snapshot = keep(sandbox.create_snapshot())
    assert snapshot.snapshot_id.endswith(":default") and snapshot.names == []
    # The source keeps running with its processes, and later changes are not in the snapshot.
    assert sandbox.commands.run(BOOT).stdout == boot and len(sandbox.commands.list()) == 1
    sandbox.files.write("kept", "later")
    other = sandboxes(snapshot.snapshot_id)
    assert other.files.read("kept") == "then"
    assert other.commands.run(BOOT).stdout != boot and other.commands.list() == [], "it boots afresh"
    other.files.write("kept", "elsewhere")
    assert sandbox.files.read("kept") == "later"
    assert sandboxes(snapshot.snapshot_id.removesuffix(":default")).files.read("kept") == "then"


def test_snapshot_name_moves(sandbox, sandboxes, keep, name):
    sandbox.files.write("kept", "one")
    first = keep(sandbox.create_snapshot(name=name))
    assert first.snapshot_id.endswith(f"/{name}:default") and first.names == [first.snapshot_id]
    assert sandboxes(name).files.read("kept") == "one"
    sandbox.files.write("kept", "two")
    second = keep(sandbox.create_snapshot(name=name))
    assert second.snapshot_id == first.snapshot_id
    for spelling in (name, f"{name}:default", second.snapshot_id, name.upper()):
        assert sandboxes(spelling).files.read("kept") == "two", spelling
    # The older one still exists, by id.
    newer, older = everything(sandbox.list_snapshots())
    assert newer.names == second.names and older.names == []
    keep(older)
    assert sandboxes(older.snapshot_id).files.read("kept") == "one"


def test_lists(sandbox, sandboxes, keep, name):
    other = sandboxes()
    made = [keep(sandbox.create_snapshot()) for _ in range(4)]
    named, foreign = keep(sandbox.create_snapshot(name=name)), keep(other.create_snapshot())
    newest_first = ids([*made, named])[::-1]
    assert ids(everything(sandbox.list_snapshots())) == newest_first
    assert ids(everything(Sandbox.list_snapshots(sandbox_id=sandbox.sandbox_id))) == newest_first
    pages, paginator = [], sandbox.list_snapshots(limit=2)
    while paginator.has_next:
        pages.append(ids(paginator.next_items()))
    assert [len(page) for page in pages] == [2, 2, 1] and sum(pages, []) == newest_first
    assert ids(everything(other.list_snapshots())) == [foreign.snapshot_id]
    assert ids(everything(Sandbox.list_snapshots(limit=3)))[:6] == [foreign.snapshot_id, *newest_first]
    for spelling in (name, f"{name}:default", named.snapshot_id):
        assert ids(everything(Sandbox.list_snapshots(name=spelling))) == [named.snapshot_id], spelling
    for nobody in ("no-such-snapshot", f"{name}:v1"):
        assert everything(Sandbox.list_snapshots(name=nobody)) == [], nobody
    assert everything(Sandbox.list_snapshots(sandbox_id="inosuchsandbox")) == []


def test_the_filter_also_takes_an_id(sandbox, keep):
    snapshot, _ = keep(sandbox.create_snapshot()), keep(sandbox.create_snapshot())
    for spelling in (snapshot.snapshot_id, snapshot.snapshot_id.removesuffix(":default")):
        assert ids(everything(Sandbox.list_snapshots(name=spelling))) == [snapshot.snapshot_id], spelling


def test_snapshot_outlives_its_sandbox(sandboxes, keep, name):
    source = sandboxes()
    source.files.write("kept", "content")
    keep(source.create_snapshot(name=name))
    source.kill()
    child = sandboxes(name)
    assert child.files.read("kept") == "content"
    assert Sandbox.delete_snapshot(name) is True
    assert child.files.read("kept") == "content", "a sandbox does not need the snapshot that it was created from"
    child.pause(mode="filesystem")
    child.connect(timeout=120)
    assert child.files.read("kept") == "content"
    grandchild = sandboxes(keep(child.create_snapshot()).snapshot_id)
    assert grandchild.files.read("kept") == "content"


@pytest.mark.parametrize("mode", ["full", "filesystem"])
def test_of_a_paused_sandbox(sandbox, sandboxes, keep, api, mode):
    sandbox.files.write("kept", "content")
    sandbox.pause(mode=mode)
    snapshot = keep(sandbox.create_snapshot())
    assert api.get(f"/sandboxes/{sandbox.sandbox_id}").json["phase"] == "paused", "it was not resumed"
    assert sandboxes(snapshot.snapshot_id).files.read("kept") == "content"
    sandbox.connect(timeout=120)
    assert sandbox.files.read("kept") == "content"


def test_deletion(sandbox, keep, name, api):
    snapshot, named = keep(sandbox.create_snapshot()), keep(sandbox.create_snapshot(name=name))
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    assert Sandbox.delete_snapshot(name) is True
    assert Sandbox.delete_snapshot(named.snapshot_id) is False
    assert Sandbox.delete_snapshot("no-such-snapshot") is False
    with pytest.raises((NotFoundException, SandboxException), match="(?i)not found|no template|does not exist"):
        Sandbox.create(snapshot.snapshot_id)
    assert everything(sandbox.list_snapshots()) == []
    # The base template is not a snapshot and cannot be deleted like one.
    with pytest.raises(SandboxException, match="base"):
        Sandbox.delete_snapshot("base")
    assert Template.exists("base")


def test_resources_and_environment_are_kept(boxes, api, sandboxes, keep):
    box = boxes(cpuCount=1, memoryMB=512, diskSizeMB=2048)
    snapshot = keep(Sandbox.create_snapshot(box.id))
    info = sandboxes(snapshot.snapshot_id).get_info()
    assert (info.cpu_count, info.memory_mb) == (1, 512)


def test_snapshot_is_atomic(sandbox, sandboxes, keep):
    """Two files are written one after the other: the copy never has the second without the first."""
    sandbox.commands.run(
        "i=0; while :; do i=$((i+1)); echo $i > a.new; mv a.new a; echo $i > b.new; mv b.new b; done",
        background=True,
        timeout=0,
    )
    eventually(lambda: sandbox.files.exists("b"))
    for _ in range(3):
        copy = sandboxes(keep(sandbox.create_snapshot()).snapshot_id)
        first, second = (int(copy.files.read(file)) for file in "ab")
        assert first - 1 <= second <= first


def test_snapshots_at_once(sandbox, keep, name):
    gate = threading.Barrier(6)

    def take(n: int):
        gate.wait()
        try:
            return sandbox.create_snapshot(name=name if n % 2 else None)
        except SandboxException as error:
            return error

    with ThreadPoolExecutor(6) as pool:
        taken = [keep(made) for made in pool.map(take, range(6))]
    refused = [made for made in taken if isinstance(made, Exception)]
    assert len(refused) <= 2, refused  # the name may be busy
    listed = [keep(row) for row in everything(sandbox.list_snapshots())]
    assert len(listed) == 6 - len(refused) and sum(bool(row.names) for row in listed) == 1
    assert sandbox.commands.run("echo alive").stdout == "alive\n"


async def test_async_snapshots(async_sandbox):
    await async_sandbox.files.write("kept", "content")
    snapshot = await async_sandbox.create_snapshot()
    try:
        listed = await async_sandbox.list_snapshots().next_items()
        assert ids(listed) == [snapshot.snapshot_id]
        other = await AsyncSandbox.create(snapshot.snapshot_id, timeout=60)
        assert await other.files.read("kept") == "content"
        assert await other.kill()
    finally:
        assert await AsyncSandbox.delete_snapshot(snapshot.snapshot_id) is True
    assert await AsyncSandbox.delete_snapshot(snapshot.snapshot_id) is False


async def test_async_pause(async_sandbox):
    await async_sandbox.files.write("kept", "content")
    assert await async_sandbox.pause() is True
    assert await async_sandbox.beta_pause() is False
    await async_sandbox.connect(timeout=60)
    assert await async_sandbox.files.read("kept") == "content"


# Forks


def test_forks(sandboxes, keep, api):
    sandbox = sandboxes(envs={"COLOUR": "blue"}, metadata={"t": "fork"})
    sandbox.files.write("kept", "content")
    boot = sandbox.commands.run(BOOT).stdout
    forks = [keep(fork) for fork in sandbox.fork(count=3, timeout=90)]
    assert len({fork.sandbox_id for fork in forks} | {sandbox.sandbox_id}) == 4
    for n, fork in enumerate(forks):
        assert fork.files.read("kept") == "content"
        fork.files.write("kept", f"of fork {n}")
    boots = {fork.commands.run(BOOT).stdout for fork in forks}
    assert len(boots | {boot}) == 4
    assert [fork.files.read("kept") for fork in forks] == [f"of fork {n}" for n in range(3)]
    assert sandbox.files.read("kept") == "content" and sandbox.commands.run(BOOT).stdout == boot
    info = forks[0].get_info()
    assert info.metadata == {"t": "fork"} and 60 < (info.end_at - info.started_at).total_seconds() < 95
    assert forks[0].commands.run("echo $COLOUR").stdout == "blue\n"
    assert everything(sandbox.list_snapshots()) == [], "the temporary snapshot is not listed"
    (one,) = Sandbox.fork(sandbox.sandbox_id)
    assert keep(one).files.read("kept") == "content"
    sandbox.kill()
    assert forks[2].files.read("kept") == "of fork 2"


async def test_async_forks(async_sandbox):
    await async_sandbox.files.write("kept", "content")
    forks = await async_sandbox.fork(count=2, timeout=60)
    try:
        assert await asyncio.gather(*(fork.files.read("kept") for fork in forks)) == ["content"] * 2
    finally:
        for fork in forks:
            assert await fork.kill()


def test_tokens_are_not_shared(boxes, api, keep, server):
    box = boxes(secure=True)
    (made,) = api.request("POST", f"/sandboxes/{box.id}/fork", {"timeout": 60}).json
    fork = made["sandbox"]
    keep(fork["sandboxID"])
    assert fork["envdAccessToken"] and fork["envdAccessToken"] != box.token
    path, routed = "/files?path=/etc/hostname", {"E2b-Sandbox-Id": fork["sandboxID"], "E2b-Sandbox-Port": "49983"}
    assert api.get(path, **routed, **{"X-Access-Token": box.token}).status == 401
    assert api.get(path, **routed, **{"X-Access-Token": fork["envdAccessToken"]}).status == 200


@pytest.mark.parametrize("mode", ["full", "filesystem"])
def test_forks_of_a_paused_sandbox(sandbox, keep, api, mode):
    sandbox.files.write("kept", "content")
    sandbox.pause(mode=mode)
    first, second = [keep(fork) for fork in sandbox.fork(count=2, timeout=60)]
    assert api.get(f"/sandboxes/{sandbox.sandbox_id}").json["phase"] == "paused"
    assert first.is_running() and second.files.read("kept") == "content"


def test_forks_are_counted(sandbox, api, keep):
    path, before = f"/sandboxes/{sandbox.sandbox_id}/fork", len(api.sandboxes())

    def ask(body):
        answer = api.request("POST", path, body)
        for made in answer.json if answer.status == 201 else []:
            keep(made["sandbox"]["sandboxID"])
        return answer

    for count in (0, 21, -1, 2**40):
        assert "count" in message(ask({"count": count})), count
    for body in ({"count": "two"}, {"count": 1.5}, {"timeout": -1}, {"timeout": 10**9}, b"{", []):
        assert ask(body).status == 400, body
    for count in (0, 21):
        with pytest.raises(Exception, match="(?i)count"):
            sandbox.fork(count=count)
    assert len(api.sandboxes()) == before


def test_twenty_forks(sandbox, keep):
    sandbox.files.write("kept", "content")
    forks = [keep(fork) for fork in sandbox.fork(count=20, timeout=120)]
    assert [fork.files.read("kept") for fork in forks] == ["content"] * 20


@pytest.fixture
def small(server):
    """The server, restarted with room for three sandboxes."""
    server.stop()
    server.settings["CABANA_MAX_SANDBOXES"] = "3"
    server.start()
    yield server
    server.stop()
    del server.settings["CABANA_MAX_SANDBOXES"]
    server.start()


def test_forks_beyond_the_limit(small, sandbox, keep, api):
    sandbox.files.write("kept", "content")
    made = [keep(fork) for fork in sandbox.fork(count=4, timeout=60)]
    forks = [fork for fork in made if isinstance(fork, Sandbox)]
    refused = [fork for fork in made if isinstance(fork, Exception)]
    assert (len(forks), len(refused)) == (2, 2), made
    assert [fork.files.read("kept") for fork in forks] == ["content"] * 2
    assert all(isinstance(error, SandboxException) and "3" in str(error) for error in refused), refused
    # A strict clone is all or nothing.
    forks[1].kill()
    answer = api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/clone", {"count": 2, "strict": True})
    assert answer.status in (429, 503) and answer.json["message"], (answer.status, answer.body)
    eventually(lambda: {row["sandboxID"] for row in api.sandboxes()} == {sandbox.sandbox_id, forks[0].sandbox_id})
    answer = api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/clone", {"count": 2, "timeout": 60})
    assert answer.status == 201 and len(answer.json["sandboxes"]) == 1, answer.body
    keep(answer.json["sandboxes"][0]["sandboxID"])


# Novita's routes


def test_clones(boxes, api, keep):
    box = boxes()
    api.run(box, "echo content > kept")
    answer = api.request("POST", f"/sandboxes/{box.id}/clone", {"count": 2, "timeout": 60})
    assert answer.status == 201, answer.body
    assert answer.json["snapshotTemplateId"]
    made = answer.json["sandboxes"]
    assert len({keep(row["sandboxID"]) for row in made} | {box.id}) == 3
    for row in made:
        assert Sandbox.connect(row["sandboxID"], timeout=60).files.read("kept") == "content\n"
    for count in (0, 21):
        assert "count" in message(api.request("POST", f"/sandboxes/{box.id}/clone", {"count": count}))


# Resizing


def limit(server, box) -> int:
    """Memory limit of a sandbox, bytes."""
    for path in server.cgroups(box.id):
        for file in ("memory.limit_in_bytes", "memory.max"):
            if (path / file).exists():
                return int((path / file).read_text())
    raise AssertionError("no memory cgroup")


def resize(api, box, **wanted):
    return api.request("POST", f"/sandboxes/{box.id}/resize", wanted)


def test_memory_can_be_changed(boxes, api, server):
    box = boxes(memoryMB=512)
    before = limit(server, box)
    eat = "python3 -c 'x = bytearray(700 << 20); print(len(x) >> 20)'"
    assert api.run(box, eat)[0] != 0
    answer = resize(api, box, memoryMB=1024)
    assert answer.status == 200 and answer.json["memoryMB"] == 1024, answer.body
    assert limit(server, box) - before == 512 << 20
    assert api.run(box, eat) == (0, "700\n")
    assert api.get(f"/sandboxes/{box.id}").json["memoryMB"] == 1024
    assert resize(api, box, memoryMB=512).json["memoryMB"] == 512
    assert limit(server, box) == before
    assert api.run(box, "echo alive") == (0, "alive\n")


def test_cpus_can_be_changed(boxes, api):
    box = boxes(cpuCount=1)
    assert resize(api, box, cpuCount=2).json["cpuCount"] == 2
    assert api.get(f"/sandboxes/{box.id}").json["cpuCount"] == 2
    code, shown = api.run(box, "nproc")
    assert code == 0 and int(shown) == 2


def test_a_disk_grows(boxes, api):
    box = boxes(diskSizeMB=128)
    write = "rm -f big; head -c 300M /dev/zero > big; sync; stat -c %s big"
    assert int(api.run(box, write)[1].split()[-1]) < 160 << 20
    answer = resize(api, box, diskSizeMB=1024)
    assert answer.status == 200 and answer.json["diskSizeMB"] == 1024, answer.body
    assert int(api.run(box, write)[1].split()[-1]) == 300 << 20
    assert "only grows" in message(resize(api, box, diskSizeMB=512))


def test_paused_sandboxes_can_be_resized(boxes, api, server):
    box = boxes(memoryMB=512, diskSizeMB=128)
    before = limit(server, box)
    for memory in (True, False):
        assert api.request("POST", f"/sandboxes/{box.id}/pause", {"memory": memory}).status == 204
        wanted = 1024 if memory else 768
        assert resize(api, box, memoryMB=wanted, diskSizeMB=1024).status == 200
        assert api.request("POST", f"/v2/sandboxes/{box.id}/connect", {"timeout": 120}).status == 201
        assert limit(server, box) - before == (wanted - 512) << 20
    assert api.run(box, "head -c 300M /dev/zero > big; stat -c %s big")[1] == f"{300 << 20}\n"


@pytest.mark.parametrize(
    "wanted",
    [
        {"memoryMB": 1},
        {"memoryMB": -512},
        {"memoryMB": 2**60},
        {"cpuCount": 0},
        {"cpuCount": 10**6},
        {"diskSizeMB": 1},
        {"diskSizeMB": 2**60},
        {"memoryMB": "much"},
        {"cpuCount": 1.5},
        [],
    ],
    ids=str,
)
def test_invalid_resources(boxes, api, wanted):
    box = boxes()
    before = api.get(f"/sandboxes/{box.id}").json
    answer = api.request("POST", f"/sandboxes/{box.id}/resize", wanted)
    assert answer.status == 400 and answer.json["message"], answer.body
    after = api.get(f"/sandboxes/{box.id}").json
    assert [after[key] for key in ("cpuCount", "memoryMB", "diskSizeMB")] == [
        before[key] for key in ("cpuCount", "memoryMB", "diskSizeMB")
    ]


def test_hotplug_adds_memory(boxes, api, server):
    """Novita's clients send the increment, not the total."""
    box = boxes(memoryMB=512)
    before = limit(server, box)
    answer = api.request("POST", f"/sandboxes/{box.id}/hotplug-memory", {"requested_size_mib": 256})
    assert answer.status == 200 and answer.json["memoryMB"] == 768, answer.body
    assert limit(server, box) - before == 256 << 20


def test_hotplug_says_what_is_missing(boxes, api):
    box = boxes()
    assert "requested_size_mib" in message(api.request("POST", f"/sandboxes/{box.id}/hotplug-memory", {}))


# Invalid input


@pytest.mark.parametrize("route", ["fork", "clone", "snapshots", "resize", "hotplug-memory", "pause", "archive", "recover"])
def test_unknown_sandbox(api, route):
    for identifier in ("inosuchsandbox", "i" + "x" * 300, "..%2F..", "%00"):
        body = {"memoryMB": 512, "requested_size_mib": 512}
        answer = api.request("POST", f"/sandboxes/{identifier}/{route}", body)
        assert answer.status in (400, 404), (identifier, answer.status, answer.body)


@pytest.mark.parametrize("wrong", ["a b", "a/b/c", "../x", "ž", "a:v1", "x" * 500, "other-team/name", "base", "\0", "a\nb"])
def test_invalid_snapshot_names(boxes, api, wrong):
    box = boxes()
    answer = api.request("POST", f"/sandboxes/{box.id}/snapshots", {"name": wrong})
    assert answer.status in (400, 403, 409), (answer.status, answer.body)
    assert api.get(f"/snapshots?sandboxID={box.id}").json == []


def test_invalid_snapshot_queries(api):
    for query in ("limit=0", "limit=101", "limit=x", "nextToken=x", "nextToken=AAAA", f"nextToken={'x' * 3000}"):
        assert api.get(f"/snapshots?{query}").status == 400, query
    for odd in ("a b", "a/b/c", "%", "ž" * 40, "x" * 1000):
        assert api.get(f"/snapshots?name={quote(odd)}").json == []


def test_names_that_look_like_ids(sandbox, keep, api):
    snapshot = keep(sandbox.create_snapshot())
    looks = snapshot.snapshot_id.removesuffix(":default")
    answer = api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/snapshots", {"name": looks})
    assert "look like an id" in message(answer)


def test_of_an_ended_sandbox(sandboxes):
    sandbox = sandboxes()
    sandbox.kill()
    for ask in (sandbox.create_snapshot, sandbox.fork, sandbox.pause):
        with pytest.raises(NotFoundException):
            ask()


def test_of_an_archived_sandbox(sandbox, api):
    assert api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/archive", {}).status == 204
    for route in ("snapshots", "fork"):
        answer = api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/{route}", {})
        assert answer.status == 409 and answer.json["message"], answer.body
