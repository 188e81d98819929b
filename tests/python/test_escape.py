"""Attempts to get out (tests/escape), inside as the user and as root, and outside as the positive control. The table of results is in
target/escape."""

import hashlib
import os
import re
import socket
import threading
from pathlib import Path

import pytest
from e2b import Sandbox

import escape
from building import Builder, context
from server import CABANA, ROOT

ATTEMPTS = escape.attempts()


@pytest.fixture(scope="module")
def control() -> dict[str, str]:
    return escape.outside()


@pytest.fixture(scope="module")
def probed(server, control):
    with Sandbox.create(timeout=300) as sandbox:
        found = {user: escape.inside(sandbox, user) for user in escape.USERS}
        escape.write_results(control, found)
        yield {**found, "sandbox": sandbox}


def test_every_attempt_gets_through_outside(control, figures):
    """Positive control: as root on the host, in scratch namespaces, each attempt succeeds, or says why it cannot."""
    assert control.keys() == ATTEMPTS.keys()
    proves_nothing = {name: outcome for name, outcome in control.items() if not ATTEMPTS[name].control(outcome)}
    assert not proves_nothing, f"these fail outside too, so they prove nothing: {proves_nothing}"
    crashed = {name: outcome for name, outcome in control.items() if "(" in outcome or outcome.startswith("SIG")}
    assert not crashed, crashed
    through = {name for name, outcome in control.items() if ATTEMPTS[name].got_through(outcome)}
    figures.append(f"escape: {len(through)} of {len(control)} attempts get through outside on this machine")
    assert len(through) > len(control) / 2
    assert through >= {"write /proc/sys/kernel/core_pattern", "write /proc/1/mem", "code climb out of a chroot"}
    assert any(name.startswith("write /sys/fs/cgroup/") for name in through)


@pytest.mark.parametrize("user", escape.USERS)
@pytest.mark.parametrize("kind", escape.WAYS)
def test_attempts_fail(kind, user, probed):
    tried = {name: attempt for name, attempt in ATTEMPTS.items() if attempt.kind == kind}
    outcomes = probed[user]["outcomes"]
    open_ways = {name: outcomes[name] for name, attempt in tried.items() if not attempt.is_safe(outcomes[name], user)}
    assert tried and not open_ways, f"as {user}: {open_ways}"


def test_every_class_is_tried():
    """Each class of escapes has attempts, or tests that exist; a gate always."""
    numbers = [row["number"] for row in escape.CLASSES]
    assert numbers == list(range(1, len(numbers) + 1))
    tried = {number for attempt in ATTEMPTS.values() for number in attempt.classes}
    assert tried <= set(numbers)
    for row in escape.CLASSES:
        for test in row.get("tests", []):
            path, _, function = test.partition("::")
            text = (ROOT / path).read_text()
            assert not function or re.search(rf"\b(fn|def) {function}\(", text), f"{row['number']}: {test} does not exist"
        held = row["number"] in tried or row.get("tests")
        assert held or (not row["gate"] and row.get("missing")), f"nothing tries {row['number']}: {row['what']}"


@pytest.mark.parametrize("user", escape.USERS)
def test_identity(user, probed):
    found = probed[user]["facts"]
    inside_id, outside_id, length = found["uid_map"]
    assert inside_id == "0" and int(outside_id) >= 65536 and length == "65536"
    assert found["status"]["Seccomp"] == "2"
    if user == "user":
        assert int(found["status"]["CapEff"], 16) == 0
    bounding = int(found["status"]["CapBnd"], 16)
    # net_admin, sys_module, rawio, ptrace, admin, boot, …
    for forbidden in (12, 16, 17, 19, 21, 22, 23, 24, 25, 33, 37, 38, 39, 40):
        assert not bounding >> forbidden & 1, f"capability {forbidden} is in the bounding set"
    assert found["file descriptors"] == ["0", "1", "2"], found["file descriptors"]
    assert found["core limit"] == "0"


def test_own_view_only(probed):
    found = probed["root"]["facts"]
    assert 1 in found["processes"] and len(found["processes"]) < 40
    assert found["interfaces"] in (["eth0", "lo"], ["lo"])
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


def test_the_hosts_program_is_not_reached(boxes, api):
    """A script whose interpreter is `/proc/self/exe` runs as whatever starts it: what is written to that must not be the host's program."""
    digest = lambda: hashlib.sha256(CABANA.read_bytes()).hexdigest()
    before, box = digest(), boxes()
    api.run(box, "printf '#!/proc/self/exe\\n' > /tmp/loop; chmod +x /tmp/loop; for i in 1 2 3; do timeout 2 /tmp/loop; done; true")
    try:
        list(api.stream(box, "process.Process/Start", {"process": {"cmd": "/tmp/loop", "args": []}, "stdin": False}))
    except Exception:
        pass  # it cannot run, which is fine
    overwrite = "for p in /proc/[0-9]*; do sudo sh -c \"echo x > $p/exe\" 2>/dev/null && echo $p $(sudo readlink $p/exe); done; true"
    _, written = api.run(box, overwrite)
    assert not [line for line in written.splitlines() if line.startswith("/proc/1 ") or "cabana" in line], written
    assert digest() == before
    assert api.run(box, "echo alive") == (0, "alive\n")


def test_images_that_lead_to_descriptors(builder: Builder, tmp_path):
    """A template whose working directory is a descriptor of whatever starts its processes."""
    name = builder.name("leaky")
    dockerfile = "FROM base\nUSER root\nWORKDIR /proc/self/fd/7\nRUN pwd -P; ls ../../../../var/lib\n"
    done = builder.attempt(context(tmp_path / "leaky", Dockerfile=dockerfile), name)
    seen = done.out + done.err
    if done.code == 0:
        seen += builder.sandbox(name).commands.run("pwd -P; ls ../../../../../../; ls ../../../../var/lib || true").stdout
    assert "cabana-test" not in seen and "pool.img" not in seen, seen


SWAP = """
import os, time
end = time.time() + 60
print("swapping", flush=True)
while time.time() < end and not os.path.exists("/tmp/stop"):
    try:
        os.rename("/home/user/target", "/home/user/aside"); os.symlink("/etc", "/home/user/target")
        os.unlink("/home/user/target"); os.rename("/home/user/aside", "/home/user/target")
    except OSError: pass
"""


def test_uploads_while_their_directory_is_exchanged(boxes, api, server):
    """The directory of uploads becomes a link to /etc and back, all the time: whatever is accepted is inside the sandbox, as its user."""
    box = boxes()
    before = sorted(os.listdir("/etc"))
    api.run(box, "mkdir -p /home/user/target")
    other = server.client()
    swapping = other.stream(box, "process.Process/Start", {"process": {"cmd": "python3", "args": ["-c", SWAP]}, "stdin": False})
    next(swapping), next(swapping)
    drained = threading.Thread(target=lambda: list(swapping))
    drained.start()
    headers = {**box.headers(), "Content-Type": "application/octet-stream"}
    accepted = set()
    for number in range(120):
        answer = api.request("POST", f"/files?path=/home/user/target/upload-{number}", b"x" * 10, headers)
        assert answer.status < 500, answer.body
        if answer.status == 200:
            accepted.add(f"upload-{number}")
    api.run(box, "touch /tmp/stop")
    drained.join()
    other.close()
    assert accepted, "or nothing was tried"
    assert sorted(os.listdir("/etc")) == before
    found = api.run(box, "sudo find / -xdev -name 'upload-*' -printf '%f %u %s\\n'")[1].splitlines()
    # One may be the remainder of an upload that was refused: its directory had moved.
    assert {line.split()[0] for line in found} >= accepted
    assert {tuple(line.split()[1:]) for line in found if line.split()[0] in accepted} == {("user", "10")}, found


def test_no_ambient_rights(boxes, api, server):
    """A browser sends nothing by itself that the server would accept: no answer sets a cookie, and a cookie is no key."""
    box = boxes()
    for path, headers in [("/health", {}), ("/v2/sandboxes", {}), ("/files?path=/etc/hostname", box.headers())]:
        assert "set-cookie" not in api.request("GET", path, headers=headers).headers, path
    anonymous = server.client()
    anonymous.key = None
    for cookie in (f"X-API-KEY={server.key}", f"token={server.key}", f"X-Access-Token={box.token}"):
        assert anonymous.get("/v2/sandboxes", Cookie=cookie).status == 401
    anonymous.close()
