"""The server is killed at every failpoint and at random times; disks are full and cold storage fails. No
file is lost, nothing is left over, and no manual repair is needed."""

import os
import random
import re
import socket
import threading
import time

import pytest

import nameserver
from building import context
from chaos import Gate, Worker
from life import GONE, Life, Refused
from server import ROOT
from waiting import eventually
from wire import Box, StreamError
from world import World

SOURCE = ROOT / "crates/server/src"
KILLS = int(os.environ.get("CABANA_TEST_KILLS", "40"))
SEED = int(os.environ.get("CABANA_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
MARK = {"t": "faults"}


@pytest.fixture
def life(server):
    """The server runs, and afterwards none of our sandboxes and snapshots is left."""
    life = Life(server)
    yield life
    if server.process is None or server.process.poll() is not None:
        server.process = None
        server.start()
    for snapshot in life.snapshots():
        life.forget(snapshot)
    client = server.client()
    for row in client.sandboxes("&state=running,paused,failed&metadata=t%3Dfaults"):
        client.kill(row["sandboxID"])
    client.close()


@pytest.fixture
def dying(life, server, tmp_path):
    """Kills the server at a failpoint during a request, and restarts it."""
    armed = tmp_path / "point"
    server.settings["CABANA_FAILPOINT"] = str(armed)
    server.stop()
    server.start()

    def die(point: str, trigger) -> None:
        armed.write_text(point)
        try:
            trigger()
        except GONE:
            pass  # the server was killed on purpose
        try:
            code = server.process.wait(timeout=15)
        except Exception:
            armed.unlink(missing_ok=True)
            raise AssertionError(f"the server did not come to {point}; is it built with the feature failpoints?") from None
        assert code == -9, f"the server ended with {code} instead of dying at {point}:\n{server.log_tail()}"
        assert not armed.exists()
        server.process = None
        server.start()

    yield die
    armed.unlink(missing_ok=True)
    del server.settings["CABANA_FAILPOINT"]
    if server.process is not None and server.process.poll() is None:
        server.stop()
    server.process = None
    server.start()


# For each failpoint: the sandbox's situation before, the request, and what must hold afterwards.

UP, MEMORY, DISK, ARCHIVED, FAILED = "running", "paused with memory", "paused with its disk", "archived", "failed"

# (failpoint, situation, request, phases allowed afterwards, whether its processes must have survived)
PASSAGES = [
    ("pause.withdrawn", UP, "pause", {"paused"}, True),
    ("pause.frozen", UP, "pause", {"paused"}, True),
    ("pause.written", UP, "pause", {"paused"}, True),
    ("expire.written", UP, "expire", {"paused"}, True),
    ("pause.frozen", UP, "expire", {"paused"}, True),
    ("resume.thawed", MEMORY, "connect", {"running"}, True),
    ("resume.written", MEMORY, "connect", {"running"}, True),
    ("shut_down.told", UP, "pause disk", {"paused"}, False),
    ("shut_down.stopped", UP, "pause disk", {"paused"}, False),
    ("shut_down.told", MEMORY, "pause disk", {"paused"}, False),
    ("shut_down.stopped", MEMORY, "archive", {"paused"}, False),
    ("boot.begun", DISK, "connect", {"running"}, False),
    ("boot.launched", DISK, "connect", {"running"}, False),
    ("resume.written", DISK, "connect", {"running"}, False),
    ("archive.begun", DISK, "archive", {"archived"}, False),
    ("archive.stored", DISK, "archive", {"archived"}, False),
    ("archive.written", DISK, "archive", {"archived"}, False),
    ("archive.written", UP, "archive", {"archived"}, False),
    ("restore.begun", ARCHIVED, "connect", {"running"}, False),
    ("restore.unpacked", ARCHIVED, "connect", {"running"}, False),
    ("restore.written", ARCHIVED, "connect", {"running"}, False),
    ("boot.launched", ARCHIVED, "connect", {"running"}, False),
    ("failure.written", UP, "guest dies", {"failed"}, False),
    ("failure.stopped", UP, "guest dies", {"failed"}, False),
    ("boot.launched", FAILED, "recover", {"running"}, False),
    ("snapshot.begun", UP, "snapshot", {"running"}, True),
    ("snapshot.frozen", UP, "snapshot", {"running"}, True),
    ("snapshot.copied", UP, "snapshot", {"running"}, True),
    ("snapshot.copied", UP, "fork", {"running"}, True),
    ("snapshot.begun", MEMORY, "snapshot", {"paused"}, True),
    ("snapshot.written", UP, "snapshot", {"running"}, True),
    ("snapshot.written", DISK, "snapshot", {"paused"}, False),
    ("snapshot.deleting", UP, "forget", {"running"}, True),
    ("snapshot.removed", UP, "forget", {"running"}, True),
    ("fork.made", UP, "fork", {"running"}, True),
    ("fork.made", MEMORY, "fork", {"paused"}, True),
    ("snapshot.removed", DISK, "fork", {"paused"}, False),
]
# Failpoints of create and kill have their own tests.
BIRTHS = ["create.written", "create.launched"]
DEATHS = ["kill.written", "kill.destroyed"]
# So have those of builds.
BUILDS = ["build.kept", "build.committed"]
# And those of egress policies.
EGRESS = ["egress.written", "egress.applied"]
SERVICES = ["service.start", "service.started"]
# Those of usage are in test_usage.py.
RATES = ["rate.begin", "rate.written"]
# And those of commits.
COMMITS = ["snapshot.copied", "build.merged", "build.committed", "snapshot.removed"]


def points() -> set[str]:
    """Those of chats have a module of their own, test_chats_crash.py."""
    text = "".join(path.read_text() for path in SOURCE.rglob("*.rs"))
    return {point for point in re.findall(r'failpoint::hit\("([^"]+)"\)', text) if not point.startswith("chat.")}


def test_every_failpoint_is_tested():
    others = [BIRTHS, DEATHS, BUILDS, COMMITS, EGRESS, SERVICES, RATES]
    assert points() == {passage[0] for passage in PASSAGES}.union(*others)


@pytest.mark.parametrize("point", EGRESS)
def test_crash_while_a_policy_changes(point, life, server, dying):
    """The row is written first: the next server enforces it."""
    box = life.create(metadata=MARK)
    lookup = f"timeout 5 getent hosts {nameserver.KNOWN} || echo none"
    client = server.client()
    assert nameserver.ADDRESS in client.run(box, lookup)[1]
    dying(point, lambda: client.request("PUT", f"/sandboxes/{box.id}/network", {"denyOut": ["0.0.0.0/0"]}))
    client = server.client()
    assert client.get(f"/sandboxes/{box.id}/network").json["preset"] == "none"
    assert client.run(box, lookup)[1] == "none\n"


@pytest.mark.parametrize("point", SERVICES)
def test_crash_while_a_service_starts(point, life, server, dying):
    """The next server starts it, unless this one has done that and did not come to write it."""
    box = life.create(metadata=MARK)
    new = {"command": "exec python3 -m http.server 8000", "port": 8000}
    client = server.client()
    dying(point, lambda: client.request("POST", f"/sandboxes/{box.id}/services", new))
    client = server.client()
    eventually(lambda: [one["state"] for one in client.get(f"/sandboxes/{box.id}/services").json] == ["running"])
    assert client.run(box, "pgrep -fc '[h]ttp.server 8000'") == (0, "1\n")


def bring(life: Life, server, box: Box, situation: str) -> None:
    """Brings a sandbox from any situation into this one."""
    if situation == FAILED:
        server.kill_guest(box.id)
        eventually(lambda: box.id in {row["sandboxID"] for row in server.client().sandboxes("&state=failed")})
    elif situation == ARCHIVED:
        life.archive(box)
    elif situation != UP:
        life.pause(box, memory=situation == MEMORY)


def passages() -> list[list]:
    """By situation, so that a failure names it."""
    groups: dict[str, list] = {}
    for passage in PASSAGES:
        groups.setdefault(passage[1], []).append(passage)
    return [pytest.param(group, id=name.replace(" ", "-")) for name, group in groups.items()]


@pytest.mark.parametrize("group", passages())
def test_crash_at_failpoint(group, life, server, dying, figures):
    box = life.create(metadata=MARK, autoPause=True)
    files, slowest, problems = {}, 0.0, []
    for number, (point, situation, deed, phases, lives_on) in enumerate(group):
        what = f"{point} ({deed} of one that is {situation})"
        files[f"file-{number}"] = f"content {number}"
        life.write(box, f"file-{number}", f"content {number}")
        boot, kept = life.boot(box), None
        others = life.listed()
        if deed == "forget":
            kept = life.snapshot(box)
        bring(life, server, box, situation)
        deeds = {
            "pause": lambda: life.pause(box),
            "pause disk": lambda: life.pause(box, memory=False),
            "connect": lambda: life.connect(box),
            "archive": lambda: life.archive(box),
            "expire": lambda: life.expire(box),
            "guest dies": lambda: server.kill_guest(box.id),
            "recover": lambda: life.recover(box),
            "snapshot": lambda: life.snapshot(box),
            "fork": lambda: life.fork(box),
            "forget": lambda: life.forget(kept),
        }
        dying(point, deeds[deed])
        try:
            slowest = max(slowest, life.assert_whole())
            phase = "failed" if "failed" in phases else life.phase(box)
            assert phase in phases, f"it is {phase}"
            # A snapshot is complete or absent.
            snapshots, forks = life.snapshots(), life.listed() - others
            assert len(snapshots) == (1 if point == "snapshot.written" else 0), snapshots
            assert len(forks) == (1 if deed == "fork" and point != "snapshot.copied" else 0), forks
            for snapshot in snapshots:
                copy = life.create(snapshot, metadata=MARK)
                assert life.files(copy) == files
                life.kill(copy)
                life.forget(snapshot)
            for fork in forks:
                found = server.client().get(f"/sandboxes/{fork}").json
                assert life.files(Box(fork, found.get("envdAccessToken"))) == files
                life.kill(fork)
            archived = {box.id} if phase == "archived" else set()
            eventually(lambda: life.archives() == archived, what=f"only {archived} in cold storage")
        except (AssertionError, Refused) as problem:
            problems.append(f"{what}: {problem}")
        try:
            (life.recover if "failed" in phases else life.connect)(box)
            assert life.files(box) == files
            assert not lives_on or life.boot(box) == boot, "its processes are gone"
            life.assert_whole()
        except (AssertionError, Refused, *GONE) as problem:
            problems.append(f"{what}, afterwards: {problem}")
            break
    figures.append(f"death at {len(group)} points of one that is {group[0][1]}: whole again after {slowest:.2f} s at most")
    assert not problems, "\n".join(problems)


def test_crash_during_create_and_kill(life, server, dying):
    keeper = life.create(metadata=MARK)
    life.write(keeper, "kept", "content")
    boot = life.boot(keeper)
    snapshot = life.snapshot(keeper)
    for template in ("base", snapshot):
        for point in BIRTHS:
            others = life.listed()
            dying(point, lambda: life.create(template, metadata=MARK))
            life.assert_whole()
            assert life.listed() == others, f"{point}: the client was never answered"
    for situation in (UP, MEMORY, DISK, ARCHIVED, FAILED):
        for point in DEATHS:
            box = life.create(metadata=MARK)
            bring(life, server, box, situation)
            dying(point, lambda: life.kill(box))
            life.assert_whole()
            assert box.id not in life.listed(), f"{point} of one that was {situation}"
            assert box.id not in server.disks()
            eventually(lambda: box.id not in life.archives())
    assert life.boot(keeper) == boot
    assert life.files(keeper) == {"kept": "content"}


def test_crash_during_build(life, dying, builder, tmp_path):
    """It has failed, the previous build is still current, and finished steps are cached."""
    for point in BUILDS:
        name, watching = builder.name("death"), []
        text = f"FROM base\nRUN echo {name} > /version\n"
        builder.build(context(tmp_path, Dockerfile=text), name)
        before = builder.tags(name)
        changed = context(tmp_path, Dockerfile=text + "RUN echo more >> /version\n")
        dying(point, lambda: watching.append(builder.start(changed, name)))
        _, said = watching[0].communicate(timeout=60)
        assert watching[0].returncode not in (0, 101), f"{point}: {said}"
        life.assert_whole()
        assert builder.last(name).status == "error", point
        assert builder.tags(name) == before, point
        assert builder.sandbox(name).files.read("/version") == f"{name}\n", point
        again = builder.build(changed, name)
        assert not again.ran(), f"{point}: {again.log}"
        assert builder.sandbox(name).files.read("/version") == f"{name}\nmore\n", point


def test_crash_during_commit(life, dying, builder):
    """The sandbox keeps running, no copy of its disk is left, and a retry creates the template."""
    box, name = life.create(metadata=MARK), builder.name("death")
    life.write(box, "kept", "content")
    boot = life.boot(box)
    for point in COMMITS:
        dying(point, lambda: life.commit(box, name))
        life.assert_whole()
        assert life.boot(box) == boot and life.files(box) == {"kept": "content"}, point
        assert not life.snapshots() and not life.server.copies(), point
        # A build that was not started waits for its client, and is removed after some hours.
        assert builder.last(name).status == ("waiting" if point == "snapshot.copied" else "error"), point
    life.commit(box, name)
    copy = life.create(name, metadata=MARK)
    assert life.files(copy) == {"kept": "content"}
    life.kill(copy)


def test_crashes_leave_nothing(life, world):
    """Runs after the crashes above."""
    world.assert_restored()


def test_random_crashes_under_load(life, server, world, figures):
    """`CABANA_TEST_KILLS` crashes; `CABANA_TEST_SEED` selects the load and the times."""
    dice = random.Random(SEED)
    gate = Gate(workers=3)
    workers = [Worker(Life(server, timeout=60), gate, dice.randrange(1 << 32), MARK) for _ in range(gate.workers)]
    slowest, started = 0.0, time.monotonic()
    for worker in workers:
        worker.start()
    try:
        for kill in range(1, KILLS + 1):
            time.sleep(dice.uniform(0.02, 0.6))
            gate.set(up=False)
            server.crash()
            server.start()
            if kill % 10 and kill != KILLS:
                gate.set(up=True)
                continue
            gate.hold(within=90)
            slowest = max(slowest, life.assert_whole())
            settle(life, server, workers)
            gate.set(open=True, up=True)
            assert not any(worker.problems for worker in workers)
    finally:
        gate.set(over=True)
        for worker in workers:
            worker.join()
        if server.process is None or server.process.poll() is not None:
            server.process = None
            server.start()
        problems = [problem for worker in workers for problem in worker.problems]
        assert not problems, f"seed {SEED}:\n" + "\n".join(problems)
    did = {}
    for worker in workers:
        for name, times in worker.did.items():
            did[name] = did.get(name, 0) + times
    cut = sum(worker.cut for worker in workers)
    figures.append(
        f"{KILLS} kills -9 in {time.monotonic() - started:.0f} s: {sum(did.values())} deeds done {did}, {cut} cut off; "
        f"whole again after {slowest:.2f} s at most"
    )
    assert cut > 0 and sum(did.values()) > KILLS, "there was no load"
    for worker in workers:
        if worker.box:
            life.kill(worker.box)
    settle(life, server, [])
    life.assert_whole()
    eventually(lambda: not life.archives())
    world.assert_restored()


def settle(life: Life, server, workers) -> None:
    """While no request is in flight: acknowledged objects exist, and unacknowledged ones are removed."""
    listed = life.listed()
    for worker in workers:
        assert not listed & set(worker.killed), f"seed {SEED}: a kill was forgotten"
        if worker.box:
            assert worker.box.id in listed, f"seed {SEED}: {worker.box} was lost"
            life.connect(worker.box)
            worker.compare(worker.box)
    for snapshot in life.snapshots():
        life.forget(snapshot)
    client = server.client()
    ours = {row["sandboxID"] for row in client.sandboxes("&state=running,paused,failed&metadata=t%3Dfaults")}
    client.close()
    for orphan in ours - {worker.box.id for worker in workers if worker.box}:
        life.kill(orphan)


def test_disconnected_clients_leave_no_snapshots(life, server, world):
    """The client of a snapshot or fork disconnects before it is finished."""
    box = life.create(metadata=MARK)
    life.write(box, "kept", "content")
    dice = random.Random(SEED)
    for round in range(30):
        path = f"/sandboxes/{box.id}/{'fork' if round % 2 else 'snapshots'}"
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {server.key}\r\nContent-Length: 0\r\n\r\n"
            connection.sendall(head.encode())
            time.sleep(dice.uniform(0, 0.02))

    def swept() -> bool:
        settle(life, server, [])  # a fork may still be in progress
        return not world.differences(World(server.data))

    try:
        eventually(swept, within=10, every=0.2)
        life.assert_whole()
    except AssertionError:
        world.assert_restored(within=0)
        raise
    finally:
        # A restart removes unfinished ones; the following tests need a clean machine.
        server.crash()
        server.start()


def test_processes_that_died_while_the_server_was_down(life, server):
    """As after a restart of the machine, one by one."""
    boxes = {}
    for situation in (UP, MEMORY, DISK):
        box = boxes[situation] = life.create(metadata=MARK)
        life.write(box, "kept", situation)
        bring(life, server, box, situation)
    server.crash()
    for situation in (UP, MEMORY):
        for path in server.cgroups(boxes[situation].id):
            for control, word in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                if (path / control).exists():
                    (path / control).write_text(word)
        server.kill_guest(boxes[situation].id)
    server.start()
    life.assert_whole()
    failed = lambda: {row["sandboxID"] for row in server.client().sandboxes("&state=failed&metadata=t%3Dfaults")}
    assert failed() == {boxes[UP].id}
    for situation in (MEMORY, DISK):
        assert life.phase(boxes[situation]) == "paused"
        life.connect(boxes[situation])
    life.recover(boxes[UP])
    for situation, box in boxes.items():
        assert life.files(box) == {"kept": situation}
    life.assert_whole()


def test_concurrent_operations_on_one_sandbox(life, server, figures):
    """All operations at once on the same sandbox: some are refused, nothing breaks."""
    box = life.create(metadata=MARK, autoPause=True)
    life.write(box, "kept", "content")
    answers: dict[str, int] = {}
    problems, lock, until = [], threading.Lock(), time.monotonic() + 10
    hands = Life(server, timeout=60)

    def copy() -> None:
        snapshot = hands.snapshot(box)
        hands.forget(snapshot)

    def fork() -> None:
        for made in hands.fork(box):
            assert hands.files(made) == {"kept": "content"}
            hands.kill(made)

    deeds = {
        "pause": lambda: hands.pause(box),
        "pause disk": lambda: hands.pause(box, memory=False),
        "connect": lambda: hands.connect(box),
        "archive": lambda: hands.archive(box),
        "recover": lambda: hands.recover(box),
        "snapshot": copy,
        "fork": fork,
    }

    def work(seed: int) -> None:
        dice = random.Random(seed)
        while time.monotonic() < until:
            name = dice.choice([*deeds, "connect"])
            try:
                deeds[name]()
                answer = f"{name} done"
            except Refused as refused:
                answer = f"{name} {refused.status}"
                # A resume cancels archiving.
                if (refused.status != 409 or name in ("connect", "recover")) and not (name == "archive" and "could not be archived" in str(refused)):
                    problems.append(f"{name}: {refused}")
            except (AssertionError, *GONE) as problem:
                problems.append(f"{name}: {problem!r}")
            with lock:
                answers[answer] = answers.get(answer, 0) + 1

    workers = [threading.Thread(target=work, args=(SEED + n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    figures.append(f"many hands: {dict(sorted(answers.items()))}")
    assert not problems, f"seed {SEED}:\n" + "\n".join(problems[:20])
    life.assert_whole()
    life.connect(box)
    assert life.files(box) == {"kept": "content"}
    life.kill(box)
    settle(life, server, [])
    # Objects that a cancelled upload still wrote are removed by maintenance.
    server.crash()
    server.start()
    eventually(lambda: not life.archives())


def test_connect_at_the_timeout(life, server):
    """A client that connects gets a running sandbox, however close to the timeout."""
    box = life.create(metadata=MARK, autoPause=True)
    dice, refusals = random.Random(SEED), []
    for _ in range(40):
        life.expire(box)
        time.sleep(dice.uniform(0, 0.02))
        try:
            life.connect(box)
            assert life.run(box, "echo up") == "up\n"
        except (Refused, StreamError) as refused:
            refusals.append(str(refused))
            life.connect(box)
    assert not refusals, f"seed {SEED}: {len(refusals)} of 40: {set(refusals)}"
