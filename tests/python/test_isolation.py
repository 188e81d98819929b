"""What a sandbox can see of others and reach, the network between sandboxes included. Attempts to get out are in test_escape.py."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from e2b import Sandbox

import inside
import nameserver


def test_each_has_its_own_ids(boxes, api):
    maps = {api.run(boxes(), "cat /proc/self/uid_map")[1].split()[1] for _ in range(4)}
    assert len(maps) == 4


def test_processes_outside_have_no_rights(boxes, api):
    """Seen from the host, all processes inside have ids of the sandbox's own range and no capabilities in the host's namespace."""
    box = boxes()
    base = int(api.run(box, "cat /proc/self/uid_map")[1].split()[1])
    api.run(box, "sudo sleep 1000 >/dev/null 2>&1 & sleep 1000 >/dev/null 2>&1 & true")
    ours = []
    host_user_namespace = os.readlink("/proc/self/ns/user")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            uids = [
                int(u)
                for u in next(
                    line for line in (entry / "status").read_text().splitlines() if line.startswith("Uid:")
                ).split()[1:]
            ]
            if any(base <= uid < base + 65536 for uid in uids):
                ours.append(entry.name)
                assert all(base <= uid < base + 65536 for uid in uids), uids
                for kind in ("user", "pid", "net", "mnt", "uts", "ipc", "cgroup"):
                    assert os.readlink(entry / "ns" / kind) != os.readlink(f"/proc/self/ns/{kind}"), kind
                assert os.readlink(entry / "ns/user") != host_user_namespace
        except FileNotFoundError:
            pass
    assert len(ours) >= 3


def test_shared_template_cannot_be_changed(boxes, api):
    first, second = boxes(), boxes()
    before = api.run(second, "sha256sum /bin/true")[1]
    api.run(first, "sudo sh -c 'echo changed > /bin/true; echo x >> /etc/passwd; rm -rf /usr/share/doc'")
    assert api.run(first, "cat /bin/true")[1] == "changed\n"
    assert api.run(second, "sha256sum /bin/true")[1] == before
    assert api.run(boxes(), "sha256sum /bin/true")[1] == before


def test_working_directory_cannot_lead_out(boxes, api):
    box = boxes()
    for cwd in ["/proc/self/fd/%d" % n for n in range(3, 12)] + ["/proc/1/root", "/proc/1/cwd", "/proc/self/fd"]:
        answer = list_of(api, box, cwd)
        assert "root:x:0:0" not in answer and "/var/lib/cabana" not in answer, (cwd, answer)


def list_of(api, box, cwd: str) -> str:
    message = {
        "process": {"cmd": "/bin/sh", "args": ["-c", "pwd; ls; ls ../../../../var/lib"], "cwd": cwd},
        "stdin": False,
    }
    try:
        return json.dumps(list(api.stream(box, "process.Process/Start", message)))
    except Exception as refused:
        return str(refused)


# The network. No packet leaves the machine: the addresses are those of sandboxes and of the host's ends of their links.

CONNECT = """
import socket, sys
for target in sys.argv[1:]:
    host, _, port = target.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.5).close(); print(target, "open")
    except OSError as error:
        print(target, "closed", error)
"""


def reach(sandbox, *targets: str) -> dict[str, str]:
    sandbox.files.write("/tmp/connect.py", CONNECT)
    output = sandbox.commands.run("python3 /tmp/connect.py " + " ".join(targets)).stdout
    return {line.split()[0]: line.split()[1] for line in output.splitlines()}


def reach_outside(*targets: str) -> dict[str, str]:
    """Positive control: the same program on the host."""
    output = subprocess.run([sys.executable, "-c", CONNECT, *targets], check=True, capture_output=True, text=True).stdout
    return {line.split()[0]: line.split()[1] for line in output.splitlines()}


def address(sandbox) -> str:
    return sandbox.commands.run("hostname -I").stdout.split()[0]


def gateway(sandbox) -> str:
    return sandbox.commands.run("ip route show default").stdout.split()[2]


def name_server(sandbox) -> str:
    """The one address of the host that a sandbox gets to know."""
    return sandbox.commands.run("awk '/^nameserver/ { print $2 }' /etc/resolv.conf").stdout.split()[0]


def test_sandboxes_cannot_reach_each_other(sandboxes, server):
    first, second = sandboxes(), sandboxes()
    inside.serve(first, inside.ECHO, "0.0.0.0", 8000)
    target = f"{address(first)}:8000"
    assert reach(first, target)[target] == "open"
    assert reach(second, target)[target] == "closed"
    # Nor with a forged source address.
    spoofed = second.commands.run(f"sudo ip addr add {address(first)}/32 dev eth0 2>&1; echo $?").stdout
    assert not spoofed.endswith("\n0\n")


def test_the_host_cannot_be_reached(sandbox, server):
    """Neither the API nor any other listener of the host, at the gateway or at any address of the host."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        near = name_server(sandbox)
        assert socket.create_connection(("127.0.0.1", port), timeout=2)
        own = [near, "127.0.0.1", gateway(sandbox)]
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(("192.0.2.1", 9))  # sends nothing; looks up the address of the default route
                own.append(probe.getsockname()[0])
        except OSError:
            pass
        targets = [f"{host}:{port}" for host in own] + [f"{host}:{server.port}" for host in own]
        near_targets = [f"{near}:{port}", f"127.0.0.1:{port}", f"127.0.0.1:{server.port}"]
        assert reach_outside(*near_targets) == dict.fromkeys(near_targets, "open"), "or being closed inside proves nothing"
        assert set(reach(sandbox, *targets).values()) == {"closed"}


def test_names_are_resolved_by_the_host(sandbox):
    assert sandbox.commands.run(f"getent hosts {nameserver.KNOWN}").stdout.split()[0] == nameserver.ADDRESS
    assert sandbox.commands.run("getent hosts unknown.sandbox.test || echo none").stdout == "none\n"


def test_without_internet_access(sandboxes, resolver):
    sandbox = sandboxes(allow_internet_access=False)
    assert sandbox.get_info().allow_internet_access is False
    name = f"secret-{sandbox.sandbox_id}.sandbox.test"
    assert sandbox.commands.run(f"timeout 5 getent hosts {nameserver.KNOWN} || echo none").stdout == "none\n"
    sandbox.commands.run(f"timeout 5 getent hosts {name} || true")
    assert name not in resolver.asked, "no query leaves a sandbox that is cut off"
    # Its own ports still work.
    inside.serve(sandbox, inside.ECHO, "0.0.0.0", 8000)


def test_low_ports_and_ping_work_inside(sandbox):
    assert (
        sandbox.commands.run("python3 -c 'import socket; socket.create_server((\"0.0.0.0\", 80)); print(1)'").stdout
        == "1\n"
    )
    assert sandbox.commands.run("getent hosts localhost").stdout.split()[0] in ("127.0.0.1", "::1")


def test_inotify_limits_are_per_sandbox(server):
    """Kernel limits per user apply to each sandbox separately."""
    hoard = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "held = []\n"
        "while (fd := libc.inotify_init()) >= 0: held.append(fd)\n"
        "print(len(held), flush=True)\n"
        "{after}\n"
    )
    with Sandbox.create(timeout=120) as greedy, Sandbox.create(timeout=120) as modest:
        greedy.files.write("/tmp/hoard.py", hoard.format(after="import time; time.sleep(100)"))
        modest.files.write("/tmp/hoard.py", hoard.format(after=""))
        hoarding = greedy.commands.run("python3 /tmp/hoard.py", background=True)
        taken = next(int(out) for out, _, _ in hoarding if out)
        assert taken > 0
        assert int(modest.commands.run("python3 /tmp/hoard.py").stdout) == taken
        hoarding.kill()


def test_devices_are_not_shared(boxes, api):
    """A lock on a device or on a fact about the machine is held in one sandbox: neither another one nor the host notices."""
    first, second = boxes(), boxes()
    paths = ["/dev/null", "/dev/full", "/sys/devices/system/cpu/online"]
    hold = "for p in %s; do exec {fd}<$p; flock -n -x $fd && echo held; done; sleep 60 >/dev/null & " % " ".join(paths)
    assert api.run(first, hold)[1] == "held\n" * len(paths)
    refused = "for p in %s; do flock -n -x $p true || echo $p; done" % " ".join(paths)
    assert api.run(first, refused)[1].split() == paths, "or a free lock elsewhere proves nothing"
    assert api.run(second, refused)[1] == ""
    for path in paths:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_terminals_are_limited(boxes, api):
    """One sandbox that takes all the terminals it can leaves terminals to others."""
    greedy, modest = boxes(), boxes()
    hoard = "python3 -c 'import os\nheld = []\ntry:\n  while True: held.append(os.openpty())\nexcept OSError as e: print(len(held), flush=True)\n%s'"
    assert 0 < int(api.run(greedy, hoard % "")[1]) <= 256
    api.run(greedy, "(" + hoard % "import time; time.sleep(60)" + " > /tmp/taken &) ; until test -s /tmp/taken; do sleep 0.05; done")
    assert api.run(modest, "python3 -c 'import os; os.openpty(); print(1)'")[1] == "1\n"
