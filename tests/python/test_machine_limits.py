"""What all sandboxes share, the host's tables and files, cannot be filled, watched or signalled through by one of them."""

import json
from pathlib import Path

import pytest

from waiting import eventually

CGROUPS = Path("/sys/fs/cgroup")


def parent(server, controller: str) -> Path:
    """The cgroup that holds those of all sandboxes."""
    name = f"cabana-{json.loads((server.data / 'instance.json').read_text())['name']}"
    one = CGROUPS / controller / name
    return one if one.exists() else CGROUPS / name


def number(path: str | Path) -> int:
    return int(Path(path).read_text().split()[0])


def memory_total(text: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("MemTotal:"))


def run(api, box, program: str) -> str:
    code, output = api.run(box, f"python3 - <<'PROGRAM'\n{program}\nPROGRAM")
    assert code == 0, output
    return output


def test_all_sandboxes_together_are_limited(server):
    machine = min(number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max"))
    assert number(parent(server, "pids") / "pids.max") <= machine - min(1024, machine // 2)
    memory = parent(server, "memory")
    file = next(memory / name for name in ("memory.max", "memory.limit_in_bytes") if (memory / name).exists())
    assert number(file) <= memory_total(Path("/proc/meminfo").read_text()) * 1024 - 2**29
    # The default of small machines is raised, where that is permitted.
    assert number("/proc/sys/kernel/pid_max") > 32768
    assert number("/proc/sys/kernel/pty/max") > 2046 * 256


def test_one_sandbox_cannot_take_all_terminals(boxes, api):
    greedy, neighbour = boxes(), boxes()
    taken = run(
        api,
        greedy,
        "import os\nopen_ends = []\ntry:\n  while True: open_ends.append(os.open('/dev/ptmx', os.O_RDWR))\nexcept OSError as e: print(len(open_ends), e.errno)",
    )
    assert taken.split() == ["256", "28"]
    assert run(api, neighbour, "import os; print(len(os.openpty()))") == "2\n"


def test_asynchronous_io_is_absent(boxes, api):
    before = number("/proc/sys/fs/aio-nr")
    program = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\ncontext = ctypes.c_ulong()\nprint(libc.syscall(206, 65536, ctypes.byref(context)), ctypes.get_errno())"
    assert run(api, boxes(), program).split() == ["-1", "38"]
    assert number("/proc/sys/fs/aio-nr") <= before


FLOOD = {
    "udp": """
import socket
kept = []
try:
    for _ in range(400):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        receiver.bind(("127.0.0.1", 0))
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for _ in range(8): sender.sendto(b"x" * 60000, receiver.getsockname())
        kept.append(receiver)
        sender.close()
except OSError as error: print(error)
""",
    "tcp": """
import socket
kept = []
listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
try:
    for _ in range(200):
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
        sender.setblocking(False)
        try:
            while True: sender.send(b"x" * 65536)
        except BlockingIOError: pass
        kept.append((sender, receiver))
except OSError as error: print(error)
""",
}


@pytest.mark.parametrize("kind", FLOOD)
def test_sockets_count_as_memory(kind, boxes, api, server):
    box = boxes(memoryMB=256)
    memory = parent(server, "memory") / box.id
    hold = "print('held', flush=True)\nimport time\ntime.sleep(60)"
    api.run(box, f"cat > /tmp/flood.py <<'PROGRAM'\n{FLOOD[kind]}\n{hold}\nPROGRAM")
    api.run(box, "nohup python3 /tmp/flood.py > /tmp/flood.log 2>&1 & until grep -q held /tmp/flood.log || ! kill -0 $!; do sleep 0.05; done")
    separate = memory / "memory.kmem.tcp.usage_in_bytes"
    if separate.exists():
        # The kernel lets every TCP connection have a minimum beyond the limit.
        assert number(separate) < (32 if kind == "udp" else 96) * 2**20
        assert number(memory / "memory.kmem.tcp.limit_in_bytes") == 16 * 2**20
    else:
        assert number(memory / "memory.current") <= 256 * 2**20


# Not /dev/null: the guest opens it for every command.
WATCHED = [
    "/dev/full",
    "/dev/zero",
    "/dev/tty",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
    "/sys/kernel/mm/transparent_hugepage/enabled",
]
LOCKED = ["/dev/null", "/dev/full", "/dev/urandom", *WATCHED[3:], "/proc/meminfo", "/proc/cpuinfo", "/proc/loadavg"]

WATCH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
watcher = libc.inotify_init1(os.O_NONBLOCK)
for path in %r:
    assert libc.inotify_add_watch(watcher, path.encode(), 0x20) > 0, path
print("watching", flush=True)
sys.stdin.readline()
try: print(len(os.read(watcher, 65536)), "bytes of events")
except BlockingIOError: print("no events")
"""


def test_no_inode_is_shared(boxes, api):
    """Neither inotify nor locks tell of a neighbour or of the host."""
    one, other = boxes(), boxes()
    api.run(one, f"cat > /tmp/watch.py <<'PROGRAM'\n{WATCH % WATCHED}\nPROGRAM\nmkfifo /tmp/go")
    opens = "for f in " + " ".join(WATCHED) + "; do (exec 9<$f) 2>/dev/null; done"

    def watched(by) -> str:
        api.run(one, "(sleep 60 > /tmp/go & echo $! > /tmp/opener); nohup python3 /tmp/watch.py < /tmp/go > /tmp/seen 2>&1 & until grep -q watching /tmp/seen; do sleep 0.02; done")
        by()
        api.run(one, "echo > /tmp/go; until [ $(wc -l < /tmp/seen) -gt 1 ]; do sleep 0.02; done; kill $(cat /tmp/opener)")
        return api.run(one, "tail -n1 /tmp/seen; rm /tmp/seen")[1].strip()

    def host():
        for path in WATCHED:
            if path != "/dev/tty":
                Path(path).open("rb").close()

    assert watched(lambda: api.run(other, opens)) == "no events"
    assert watched(host) == "no events"
    # The watch itself works.
    assert watched(lambda: api.run(one, opens)).endswith("bytes of events")

    lock = f"""
import fcntl
kept = [open(path, "rb") for path in {LOCKED}]
for file in kept: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print(len(kept), flush=True)
"""
    api.run(one, f"cat > /tmp/lock.py <<'PROGRAM'\n{lock}\nimport time; time.sleep(60)\nPROGRAM")
    api.run(one, "nohup python3 /tmp/lock.py > /tmp/locked 2>&1 & until [ -s /tmp/locked ]; do sleep 0.02; done")
    held = api.run(one, "cat /tmp/locked")[1]
    assert held == f"{len(LOCKED)}\n"
    assert run(api, other, lock) == held


def test_a_sandbox_is_told_its_own_limits(boxes, api):
    box = boxes(memoryMB=512, cpuCount=1)
    _, output = api.run(box, "free -m | awk '/Mem:/ {print $2}'; grep -c ^processor /proc/cpuinfo; grep -c '^cpu[0-9]' /proc/stat; cat /sys/devices/system/cpu/online; cut -d. -f1 /proc/uptime")
    total, *processors, uptime = output.split()
    assert (total, processors) == ("512", ["1", "1", "0"]) and int(uptime) < 120
    for hidden in ("cmdline", "partitions", "diskstats", "zoneinfo", "buddyinfo", "modules", "sys/fs/file-nr"):
        assert api.run(box, f"cat /proc/{hidden} 2>/dev/null")[1] == "", hidden
    assert api.run(box, "ls /proc/pressure 2>/dev/null")[1] == ""
    # What is used shows up with the next sample, and nothing of what the host uses.
    api.run(box, "nohup python3 -c 'x = b\"x\" * 2**27\nimport time\nwhile True: pass' > /dev/null 2>&1 &")
    used = lambda: int(api.run(box, "free -m | awk '/Mem:/ {print $3}'")[1])
    eventually(lambda: 128 <= used() < 400, within=30, every=0.5, what="the memory that it uses")
    eventually(lambda: float(api.run(box, "cut -d' ' -f1 /proc/loadavg")[1]) > 0, within=60, every=0.5, what="its load")
    booted = int(api.run(box, "awk '/btime/ {print $2}' /proc/stat")[1])
    now = int(api.run(box, "date +%s")[1])
    assert 0 <= now - booted < 300
    assert api.run(box, "ps -o lstart= -p 1 >/dev/null && top -bn1 | head -n 5 | grep -c 'MiB Mem'")[1] == "1\n"


def test_only_useful_ioctls_and_sockets(boxes, api):
    box = boxes()
    program = """
import errno, fcntl, socket
def result(call):
    try: call(); return "ok"
    except OSError as error: return errno.errorcode[error.errno]
directory = open("/tmp/file", "wb")
print(result(lambda: fcntl.ioctl(directory, 0x5000940e, bytes(1024))),
      result(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)),
      result(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)),
      result(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
      result(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 6)),
      result(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 17)))
"""
    assert run(api, box, program).split() == ["ENOTTY", "EPROTONOSUPPORT", "EPROTONOSUPPORT", "EPERM", "ok", "ok"]
    assert api.run(box, "sudo -n id -u") == (0, "0\n")
    assert api.run(box, "script -qec 'stty size >/dev/null && echo terminal' /dev/null | tr -d '\\r'")[1] == "terminal\n"


def test_the_score_of_the_memory_killer_cannot_be_lowered(boxes, api, server):
    box = boxes()
    _, output = api.run(box, "cat /proc/1/oom_score_adj; echo 0 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj")
    first, *_, after = [int(line) for line in output.split() if line.lstrip("-").isdigit()]
    assert first == 400
    status = Path(f"/proc/{server.pid}/status").read_text()
    capabilities = int(next(line for line in status.splitlines() if line.startswith("CapEff:")).split()[1], 16)
    if capabilities & 1 << 24:  # CAP_SYS_RESOURCE
        assert after >= 400
        assert number(f"/proc/{server.pid}/oom_score_adj") == -900


def test_the_server_gives_up_what_it_does_not_need(server):
    """Modules, raw devices, reboot and clocks: no thread has them, and no program that it runs can get them."""
    needless = 1 << 16 | 1 << 17 | 1 << 22 | 1 << 25
    for task in Path(f"/proc/{server.pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        for kind in ("CapEff:", "CapPrm:", "CapBnd:"):
            assert not int(next(line for line in lines if line.startswith(kind)).split()[1], 16) & needless, (task, kind)


def test_set_uid_programs_gain_nothing_if_asked(boxes, api):
    script = "grep NoNewPrivs /proc/self/status; sudo -n id -u"
    assert api.run(boxes(), script)[1].split() == ["NoNewPrivs:", "0", "0"]
    code, output = api.run(boxes(noNewPrivileges=True), script)
    assert code != 0 and output.split() == ["NoNewPrivs:", "1"]


def test_counters_of_the_machine_are_not_told(boxes, api):
    """They change with every move of a neighbour."""
    assert "nr_free_pages" in Path("/proc/vmstat").read_text()
    first, second = (api.run(boxes(), "cat /proc/vmstat")[1] for _ in range(2))
    assert first == second and "pgfault 0\n" in first
