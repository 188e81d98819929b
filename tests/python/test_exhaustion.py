"""A sandbox that exhausts its resources: only it is affected, the API and other sandboxes keep working, and the cause is reported."""

import threading
import time

import pytest
from e2b import CommandExitException, NotEnoughSpaceException, Sandbox, SandboxException

from load import Load
from waiting import eventually, within


class Neighbour:
    """A second sandbox that runs a command repeatedly during the block; records how long each took, and which share of the
    machine was available to this server."""

    def __init__(self, server):
        self.client, self.took, self.left, self.failed = server.client(), [], [], []
        self.load = Load(server)
        self.box, self.done = self.client.create(timeout=300), threading.Event()

    def __enter__(self):
        self.client.run(self.box, "true")
        self.thread = threading.Thread(target=self.measure)
        self.thread.start()
        return self

    def measure(self):
        while not self.done.is_set():
            started = time.monotonic()
            try:
                assert self.client.run(self.box, "echo alive") == (0, "alive\n")
                assert self.client.get("/v2/sandboxes").status == 200
            except Exception as error:
                self.failed.append(error)
            self.left.append(self.load.left())
            self.took.append(time.monotonic() - started)

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.client.kill(self.box)
        self.client.close()

    def check(self, slowest: float = 3.0) -> None:
        assert not self.failed, self.failed
        # Do not count the time that other programs of the machine took.
        waited = [took * left for took, left in zip(self.took, self.left)]
        assert waited and max(waited) < slowest, f"the neighbour waited {max(waited):.2f} s ({max(self.took):.2f} s on this machine)"


def fate(api, identifier: str) -> str:
    """What the API reports about the end of a sandbox or of a process in it."""
    answer = api.get(f"/sandboxes/{identifier}")
    gone = answer.json["message"] if answer.status == 404 else ""
    return f"{gone} {[(event['type'], event['eventData']) for event in api.events(identifier)]}".lower()


BOMBS = {
    "heap": "python3 -c 'x = []\nwhile True: x.append(bytearray(b\"x\" * 2**24))'",
    "shared memory": "head -c 2G /dev/zero > /dev/shm/bomb; python3 -c 'x = []\nwhile True: x.append(bytearray(b\"x\" * 2**24))'",
    "many processes": "for i in $(seq 32); do python3 -c 'import time; x = b\"x\" * 2**26; time.sleep(3)' & done; wait",
}


@pytest.mark.parametrize("kind", BOMBS)
def test_memory(kind, boxes, api, server):
    box = boxes(memoryMB=256)
    with Neighbour(server) as neighbour:
        started = time.monotonic()
        try:
            code, _ = api.run(box, BOMBS[kind])
            assert code != 0
        except Exception:
            pass  # the whole sandbox may have been killed
        # A killed process is recorded as `oom`; if the whole sandbox was killed, its end cause says so.
        told = lambda: any(word in fate(api, box.id) for word in ("'reason': 'oom'", "out of memory"))
        eventually(told, within=15, every=0.1, what="an event about the memory")
        within(40, started, "the end of a memory bomb")
    neighbour.check()


def test_processes(boxes, api, server):
    box = boxes(memoryMB=1024)
    with Neighbour(server) as neighbour:
        client = server.client()
        stream = client.stream(
            box,
            "process.Process/Start",
            {
                "process": {"cmd": "/bin/bash", "args": ["-c", "bomb() { bomb | bomb & }; bomb; sleep 1000"]},
                "stdin": False,
            },
        )
        next(stream)
        begun = len(neighbour.took)
        eventually(lambda: len(neighbour.took) > begun + 5, within=30, what="the neighbour goes on beside a fork bomb")
        started = time.monotonic()
        assert api.kill(box)
        within(5, started, "killing a fork bomb")
        stream.close()
        client.close()
    neighbour.check(slowest=5.0)


def test_disk(boxes, api, server):
    box = boxes(diskSizeMB=128)
    with Neighbour(server) as neighbour:
        code, output = api.run(
            box, "head -c 1G /dev/zero > ~/full 2>/tmp/why; stat -c %s ~/full; df --output=avail ~ | tail -1"
        )
        assert int(output.split()[0]) < 160 * 2**20
        code, output = api.run(
            box, "fallocate -l 1G ~/more; echo $?; for i in $(seq 200); do echo x > ~/f$i || break; done 2>/dev/null"
        )
        assert output.split()[0] != "0"
        # The guest still responds, and writing through the API gives the reason.
        assert api.run(box, "echo alive") == (0, "alive\n")
        answer = api.request(
            "POST",
            "/files?path=/home/user/upload",
            b"x" * 10**6,
            {**box.headers(), "Content-Type": "application/octet-stream"},
        )
        assert answer.status == 507, (answer.status, answer.body)
        assert api.run(box, "rm -f ~/full ~/f*; sync; echo free")[1] == "free\n"
        eventually(lambda: api.run(box, "head -c 1M /dev/zero > ~/again && echo ok")[1] == "ok\n", every=0.3)
    neighbour.check()


def test_full_disk_as_the_sdk_says_it(boxes, api):
    box = boxes(diskSizeMB=64)
    sandbox = Sandbox.connect(box.id)
    with pytest.raises(NotEnoughSpaceException):
        sandbox.files.write("big", b"x" * (100 * 2**20))
    assert sandbox.commands.run("echo alive").stdout == "alive\n"


def test_descriptors(sandbox):
    opened = sandbox.commands.run(
        "python3 -c '\nimport os\nn = 0\ntry:\n  while True: os.open(\"/dev/null\", 0); n += 1\nexcept OSError as e: print(n, e.errno)'"
    ).stdout.split()
    assert int(opened[0]) < 2**20 + 1 and opened[1] == "24"


def test_processors(boxes, api, server):
    """Many spinning threads get no more than their CPUs."""
    box = boxes(cpuCount=1)
    with Neighbour(server) as neighbour:
        _, output = api.run(
            box,
            "cat > /tmp/spin.py <<'X'\nimport os, time\nfor _ in range(15):\n  if not os.fork(): break\n"
            "end = time.time() + 2\nwhile time.time() < end: pass\nprint(time.process_time())\nX\npython3 /tmp/spin.py; wait; sleep 0.3",
        )
        spent = sum(float(line) for line in output.split())
    assert spent < 2 * 1 * 1.5, f"{spent:.2f} s of processor time in 2 s on one processor"
    neighbour.check()


def test_priority_cannot_be_raised(sandbox):
    for command in ("nice -n -20 true", "chrt -f 50 true"):
        result = sandbox.commands.run(f"{command} 2>&1; echo $?", user="root")
        assert "permitted" in result.stdout or "denied" in result.stdout, result.stdout


def test_unkillable_processes_are_removed(boxes, api, world):
    """Daemons that ignore signals, stopped processes and zombies all end with their sandbox."""
    box = boxes()
    api.run(
        box,
        "for i in $(seq 20); do (trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' >/dev/null 2>&1 &); done;"
        " sleep 1000 & kill -STOP $!; (sleep 0 & exec sleep 1000) >/dev/null 2>&1 & echo started",
    )
    started = time.monotonic()
    assert api.kill(box)
    within(3, started, "killing processes that refuse")


def test_killed_guest_is_reported(boxes, api):
    """Root inside may kill everything in its own sandbox; the cause is then reported."""
    box = boxes()
    sandbox = Sandbox.connect(box.id)
    try:
        sandbox.commands.run("kill -9 -1; kill -9 1; echo done", user="root")
    except (SandboxException, CommandExitException):
        pass
    answer = api.request("GET", "/health", headers=box.headers())
    if answer.status == 204:  # the guest cannot be killed from inside
        assert api.run(box, "echo alive") == (0, "alive\n")
    else:
        eventually(lambda: "guest" in fate(api, box.id), what="an event about the guest")
