"""What a sandbox can see and reach: escape attempts, run inside as the user and as root, and the network between sandboxes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from e2b import Sandbox

import inside
import nameserver

PROBE_FILE = Path(__file__).parent / "probe.py"
PROBE = PROBE_FILE.read_text()
DENIED = {
    "EPERM",
    "EACCES",
    "ENOSYS",
    "ENOENT",
    "EROFS",
    "EAFNOSUPPORT",
    "EPROTONOSUPPORT",
    "ENXIO",
    "ENODEV",
    "ESRCH",
    "SIGSYS",
    "EOPNOTSUPP",
}


# Features that some machines lack, so that attempts at them prove something only on others. Everything else must succeed outside.
MAY_BE_ABSENT = {
    "kernels without modules or kexec": {"call kexec_load", "call init_module", "call finit_module", "call delete_module"},
    "kernels without access to ports": {"call iopl", "call ioperm"},
    "calls that new kernels dropped": {"call lookup_dcookie", "call nfsservctl"},
    "no call: asks whether unknown numbers are refused": {"call landlock_free_call"},
    "kernels without this way to call": {"abi x32", "abi 32-bit"},
    "families of sockets that are modules": {
        f"socket {name}"
        for name in "alg vsock xdp tipc rds rxrpc smc key can bluetooth ax25 llc qipcrtr nfc".split()
    }
    | {"netlink crypto", "netlink audit", "netlink xfrm", "netlink connector"},
    "settings of the kernel that not all have": {
        "write /proc/sys/kernel/modprobe",
        "write /proc/sys/kernel/hotplug",
        "write /proc/sys/fs/binfmt_misc/register",
        "write /proc/sysrq-trigger",
        "write /sys/kernel/uevent_helper",
        "write /proc/irq/0/smp_affinity",
        "write /proc/bus/pci/00/00.0",
    },
    "the other version of cgroups": {
        f"write /sys/fs/cgroup/{name}"
        for name in (
            "release_agent memory/release_agent memory/memory.limit_in_bytes memory/cgroup.procs pids/cgroup.procs cgroup.procs"
            " unified/cgroup.procs"
        ).split()
    },
    "files of a cgroup below the root, which a sandbox would see as its root": {
        "write /sys/fs/cgroup/memory.max",
        "write /sys/fs/cgroup/cgroup.kill",
    },
    "views of the kernel that not all have": {
        "read /proc/kcore",
        "read /proc/sched_debug",
        "read /proc/timer_list",
        "read /proc/kpagecount",
        "read /proc/kpageflags",
        "read /sys/class/dmi/id/product_uuid",
        "read /sys/firmware/dmi/tables/DMI",
    },
    "devices": {
        f"read /dev/{name}"
        for name in (
            "mem kmem port kvm fuse net/tun vhost-net vhost-vsock loop-control loop0 mapper/control vda sda snapshot rtc0 btrfs-control"
        ).split()
    },
}
ABSENT = {"ENOSYS", "ENOENT", "EAFNOSUPPORT", "EPROTONOSUPPORT"}
# Results that look like a refusal, but mean that the kernel looked up what the attempt named.
REACHED = {"call quotactl": "ENODEV", "call delete_module": "ENOENT"}
# Kinds of attempts; results of `read` are checked separately.
KINDS = [
    "call",
    "unshare",
    "setns",
    "socket",
    "netlink",
    "abi",
    "write",
    "mknod and open",
    "ptrace 1",
    "process_vm_readv 1",
    "TIOCSTI",
]


def of_kind(kind: str, found: dict) -> dict:
    return {name: result for name, result in found.items() if name == kind or name.startswith(kind + " ")}


def test_every_attempt_gets_through_outside():
    """Positive control: as root on the host, in scratch namespaces, each attempt succeeds."""
    namespaces = ["--mount", "--uts", "--ipc", "--net", "--pid", "--fork", "--mount-proc"]
    command = ["unshare", *namespaces, sys.executable, str(PROBE_FILE), "--control"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)
    attempts = {name: result for kind in [*KINDS, "read"] for name, result in of_kind(kind, found).items()}
    missed = {name: result for name, result in attempts.items() if result in DENIED and REACHED.get(name) != result}
    optional = set().union(*MAY_BE_ABSENT.values())
    assert optional <= attempts.keys(), f"no such attempt: {optional - attempts.keys()}"
    proves_nothing = {name: result for name, result in missed.items() if name not in optional or result not in ABSENT}
    assert not proves_nothing, f"these fail outside too, so they prove nothing: {proves_nothing}"
    crashed = {name: result for name, result in attempts.items() if "(" in result or result.startswith("SIG")}
    assert not crashed, crashed
    print(f"{len(attempts) - len(missed)} of {len(attempts)} attempts get through on this machine")
    assert len(missed) < len(attempts) / 2
    assert of_kind("write", attempts).keys() - missed.keys() >= {"write /proc/sys/kernel/core_pattern", "write /proc/1/mem"}
    assert any(name.startswith("write /sys/fs/cgroup/") for name in attempts.keys() - missed.keys())


@pytest.fixture(scope="module")
def probed(server):
    with Sandbox.create(timeout=300) as sandbox:
        sandbox.files.write("/tmp/probe.py", PROBE)

        def run(user: str) -> dict:
            return json.loads(sandbox.commands.run("python3 /tmp/probe.py", user=user).stdout)

        yield {"user": run("user"), "root": run("root"), "sandbox": sandbox}


@pytest.mark.parametrize("user", ["user", "root"])
@pytest.mark.parametrize("kind", KINDS)
def test_denied(kind, user, probed):
    denied = DENIED | ({"EIO"} if kind == "TIOCSTI" else set())
    attempts = of_kind(kind, probed[user])
    assert attempts
    open_ways = {name: result for name, result in attempts.items() if result not in denied}
    assert not open_ways, f"as {user}: {open_ways}"


@pytest.mark.parametrize("user", ["user", "root"])
def test_nothing_of_the_host_is_readable(user, probed):
    attempts = of_kind("read", probed[user])
    readable = {
        name: result for name, result in attempts.items() if result not in DENIED | {"empty", "EISDIR", "EIO", "EAGAIN"}
    }
    # Processes of the same user may be inspected if that user and the guest's are root; their memory may not.
    readable.pop("read /proc/1/auxv", None) if user == "root" else None
    assert not readable, f"as {user}: {readable}"


def test_clone3_is_absent_rather_than_forbidden(probed):
    assert probed["user"]["call name_clone3"] == "ENOSYS"


@pytest.mark.parametrize("user", ["user", "root"])
def test_identity(user, probed):
    found = probed[user]
    inside_id, outside_id, length = found["uid_map"]
    assert inside_id == "0" and int(outside_id) >= 65536 and length == "65536"
    assert found["status"]["Seccomp"] == "2"
    if user == "user":
        assert int(found["status"]["CapEff"], 16) == 0
    bounding = int(found["status"]["CapBnd"], 16)
    for forbidden in (
        12,
        16,
        17,
        19,
        21,
        22,
        23,
        24,
        25,
        33,
        37,
        38,
        39,
        40,
    ):  # net_admin, sys_module, rawio, ptrace, admin, boot, …
        assert not bounding >> forbidden & 1, f"capability {forbidden} is in the bounding set"
    assert found["file descriptors"] == ["0", "1", "2"], found["file descriptors"]
    assert found["core limit"] == "0"


def test_own_view_only(probed):
    found = probed["root"]
    assert 1 in found["processes"] and len(found["processes"]) < 40
    assert found["interfaces"] in (["eth0", "lo"], ["lo"])
    assert found["root"] is True
    assert found["unix sockets"] == []
    hostname, boot = socket.gethostname(), Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found["hostname"] != hostname and found["boot_id"] != boot
    for leak in (hostname, str(os.environ.get("CABANA_TEST_DATA", "/var/lib/cabana-test")), "/var/lib", "/run/cabana"):
        if len(leak) > 3:
            assert leak not in found["mountinfo"], f"{leak} is in mountinfo"
            assert leak not in found["cgroup"], f"{leak} is in /proc/self/cgroup"
    assert found["cgroup"].count("..") == 0


SCAN = """
import glob, sys
needles = [(a + b).encode() for a, b in zip(sys.argv[1::2], sys.argv[2::2])]
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/1/fd/*") + glob.glob("/etc/**", recursive=True):
    try: text = open(path, "rb").read(2**20)
    except OSError: continue
    if any(needle in text for needle in needles): print(path)
"""


def test_no_secret_is_inside(probed, server):
    """The sandbox's token and the API key, passed in halves so that the search does not find itself."""
    sandbox = probed["sandbox"]
    sandbox.files.write("/tmp/scan.py", SCAN)
    halves = [half for secret in (sandbox._envd_access_token, server.key) for half in (secret[:20], secret[20:])]
    assert sandbox.commands.run("timeout 20 python3 /tmp/scan.py " + " ".join(halves), user="root").stdout == ""


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
    """Neither the API nor any other listener of the host, at the gateway's or any other address of the host."""
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        near = gateway(sandbox)
        assert socket.create_connection(("127.0.0.1", port), timeout=2)
        own = [near, "127.0.0.1"]
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
