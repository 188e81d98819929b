"""Templates from sandboxes: the disk as it is, including the template below."""

import socket
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2b import Sandbox, Template

from building import Builder, context
from waiting import eventually

# All metadata of all files, except what differs between sandboxes and what a build writes.
INVENTORY = """cd / && find . -xdev \\( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp \\) -prune -o \\
  ! -path ./.e2b ! -path . ! -path ./etc ! -path ./etc/profile.d ! -path ./etc/profile.d/zz-template.sh ! -path ./etc/hosts ! -path ./etc/hostname \\
  ! -path ./etc/resolv.conf ! -path ./etc/mtab ! -type s -printf '%p %M %U:%G %T@ %n %l' -type f -printf ' %s' -printf '\\n' | sort"""

CHANGES = r"""set -e
rm -r /usr/share/common-licenses
rm /etc/debian_version
rm -r /etc/skel && mkdir /etc/skel && echo new > /etc/skel/only
rm /etc/issue && mkdir /etc/issue && echo turned > /etc/issue/file
mkdir -p /opt/app/inner && cd /opt/app
echo one > file && ln file other && ln -s file link && mkfifo pipe
cp /usr/bin/id own-id && chmod 4755 own-id
truncate -s 1G sparse && printf end >> sparse
touch -d 2001-02-03 old && chown 1000:1000 old
chmod 1777 inner && echo x > 'inner/a b'$'\n''c'
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("/opt/app/socket")'
setfattr -n user.tag -v kept file 2>/dev/null || true
chmod 0750 /home/user
"""


@pytest.fixture
def commit(builder: Builder):
    """Commits a sandbox; returns the template's name."""

    def make(sandbox: Sandbox, name: str | None = None, **fields) -> str:
        name = name or builder.name("committed")
        made = builder.ask("POST", f"/sandboxes/{sandbox.sandbox_id}/commit", {"alias": name, **fields})
        assert made.status == 201, made.body
        assert made.json["buildStatus"] == "ready" and made.json["aliases"] == [name.split(":")[0]], made.json
        return name

    return make


def seen(sandbox: Sandbox) -> list[str]:
    return sandbox.commands.run(INVENTORY, user="root", timeout=120).stdout.splitlines()


def test_the_template_is_what_the_sandbox_saw(sandbox, commit, builder):
    sandbox.commands.run(CHANGES, user="root")
    before = seen(sandbox)
    boot = sandbox.commands.run("cat /proc/sys/kernel/random/boot_id").stdout
    made = builder.sandbox(commit(sandbox))
    after = seen(made)
    assert set(before) ^ set(after) == set()
    assert len(before) > 10_000, "the whole system is compared"
    assert made.commands.run("cat /opt/app/other /etc/skel/only; /opt/app/own-id -u").stdout == "one\nnew\n0\n"
    assert made.commands.run("tail -c 3 /opt/app/sparse; du -m /opt/app/sparse | cut -f1").stdout in ("end0\n", "end1\n")
    assert not made.files.exists("/etc/debian_version") and not made.files.exists("/usr/share/common-licenses")
    # The sandbox is not affected.
    assert sandbox.commands.run("cat /proc/sys/kernel/random/boot_id").stdout == boot
    assert seen(sandbox) == before


def test_commits_are_independent(sandbox, commit, builder, api):
    """Neither changes the other; the template outlives its sandbox, and its sandboxes can be committed again."""
    sandbox.files.write("v", "1")
    name = commit(sandbox)
    sandbox.files.write("v", "2")
    first = builder.sandbox(name)
    assert first.files.read("v") == "1"
    sandbox.kill()
    first.files.write("v", "3")
    first.files.write("more", "x")
    again = commit(first)
    assert builder.sandbox(name).files.read("v") == "1"
    second = builder.sandbox(again)
    assert second.files.read("v") == "3" and second.files.read("more") == "x"
    second.files.remove("v")
    third = builder.sandbox(commit(second))
    assert not third.files.exists("v") and third.files.read("more") == "x"


def test_builds_and_tags(sandbox, commit, builder):
    """Another commit with the same name is another build; rolling back is a tag."""
    name = builder.name("versions")
    for version in ("1", "2"):
        sandbox.files.write("v", version)
        commit(sandbox, f"{name}:v{version}", tags=["default"])
    assert set(builder.tags(name)) == {"default", "v1", "v2"}
    read = lambda ref: builder.sandbox(ref).files.read("v")
    assert (read(name), read(f"{name}:v1"), read(f"{name}:v2")) == ("2", "1", "2")
    assert builder.ask("POST", "/templates/tags", {"target": f"{name}:v1", "tags": ["default"]}).status == 201
    assert read(name) == "1"


def test_what_a_commit_includes(boxes, api, builder, commit):
    """Resources are kept; the sandbox's own variables, which may be secrets, are not."""
    box = boxes(cpuCount=1, memoryMB=700, envVars={"SECRET": "mine"})
    sandbox = Sandbox.connect(box.id)
    made = builder.sandbox(commit(sandbox))
    info = made.get_info()
    assert (info.cpu_count, info.memory_mb) == (1, 700)
    assert made.commands.run("echo ${SECRET:-none}").stdout == "none\n"


def test_start_command_is_kept(builder, commit, tmp_path):
    """The template's start command runs in sandboxes of the commit, too."""
    name = builder.name("service")
    text = 'FROM base\nUSER user\nWORKDIR /home/user\nCMD python3 -m http.server 8000\nHEALTHCHECK CMD curl -fs localhost:8000\n'
    builder.build(context(tmp_path, Dockerfile=text), name)
    sandbox = builder.sandbox(name)
    sandbox.files.write("page", "from inside")
    made = builder.sandbox(commit(sandbox))
    assert made.commands.run("curl -fs localhost:8000/page").stdout == "from inside"


def test_commit_fails_if_its_sandboxes_are_not_ready(builder, server, tmp_path):
    """Its start command is tested as in every build; the error gives the reason, and the previous build stays."""
    name = builder.name("broken")
    text = "FROM base\nRUN echo here > /needed\nCMD cat /needed && sleep 1000\nHEALTHCHECK CMD test -f /needed\n"
    builder.build(context(tmp_path, Dockerfile=text), name)
    before = builder.tags(name)
    sandbox = builder.sandbox(name)
    sandbox.commands.run("rm /needed", user="root")
    refused = builder.ask("POST", f"/sandboxes/{sandbox.sandbox_id}/commit", {"alias": name})
    assert refused.status == 422 and refused.json["error_code"] == "build_failed", refused.body
    assert "No such file or directory" in refused.json["message"], refused.json["message"]
    assert builder.tags(name) == before and builder.sandbox(name).files.read("/needed") == "here\n"
    assert not server.copies()


@pytest.mark.parametrize("memory", [True, False], ids=["memory", "disk"])
def test_of_a_paused_sandbox(sandbox, api, builder, commit, memory):
    sandbox.files.write("v", "asleep")
    assert api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {"memory": memory}).status == 204
    made = builder.sandbox(commit(sandbox))
    assert made.files.read("v") == "asleep"
    assert api.get(f"/sandboxes/{sandbox.sandbox_id}").json["state"] == "paused", "it stays paused"


def test_without_a_name(sandbox, api, builder):
    builder.names.append(f"sandbox-{sandbox.sandbox_id}")
    made = api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/commit")
    assert made.status == 201 and made.json["aliases"] == [f"sandbox-{sandbox.sandbox_id}"], made.body


def test_refusals(sandbox, api, builder, server):
    ask = lambda id, **body: api.request("POST", f"/sandboxes/{id}/commit", body)
    name = builder.name("refused")
    for alias in ("Not a name", "a/b/c", ":x", "base", "x" * 500, "elsewhere/name"):
        assert ask(sandbox.sandbox_id, alias=alias).status in (400, 403), alias
    assert ask(sandbox.sandbox_id, alias=name, tags=["not a tag"]).status == 400
    assert api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/commit", [1]).status == 400
    assert ask("i" + "0" * 20, alias=name).status == 404
    assert api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/archive", {}).status == 204
    archived = ask(sandbox.sandbox_id, alias=name)
    assert archived.status == 409 and "archived" in archived.json["message"], archived.body
    sandbox.kill()
    assert ask(sandbox.sandbox_id, alias=name).status == 404
    assert builder.details(name).status == 404, "nothing was created"
    assert not server.copies()


def test_commit_continues_after_a_disconnect(sandbox, builder, server):
    """The template is still created, and no copy is left."""
    sandbox.files.write("v", "1")
    name = builder.name("hung-up")
    body = f'{{"alias":"{name}"}}'.encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        head = f"POST /sandboxes/{sandbox.sandbox_id}/commit HTTP/1.1\r\nhost: localhost\r\nx-api-key: {server.key}\r\ncontent-type: application/json\r\n"
        connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        eventually(lambda: server.copies() or builder.details(name).status == 200, every=0.001)
    eventually(lambda: builder.details(name).status == 200 and builder.last(name).status == "ready")
    assert builder.sandbox(name).files.read("v") == "1"
    eventually(lambda: not server.copies())


def test_many_at_once(sandbox, commit, builder, server):
    sandbox.files.write("v", "1")
    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda _: commit(sandbox), range(8)))
    assert [builder.sandbox(name).files.read("v") for name in names] == ["1"] * 8
    eventually(lambda: not server.copies())


# Builds on snapshots


def test_the_sdk_builds_on_a_snapshot(sandbox, builder):
    sandbox.files.write("v", "kept")
    snapshot = sandbox.create_snapshot()
    try:
        name = builder.name("on-snapshot")
        Template.build(Template().from_template(snapshot.snapshot_id).run_cmd("cp v copied"), name)
        assert builder.sandbox(name).files.read("copied") == "kept"
        # Cached steps are reused.
        Template.build(Template().from_template(snapshot.snapshot_id).run_cmd("cp v copied"), name)
        assert not builder.last(name).ran()
    finally:
        Sandbox.delete_snapshot(snapshot.snapshot_id)
    assert builder.sandbox(name).files.read("v") == "kept", "the template does not need the snapshot any more"


def test_a_dockerfile_builds_on_a_snapshot(sandbox, builder, tmp_path):
    sandbox.files.write("v", "kept")
    label = f"snap-{uuid.uuid4().hex[:8]}"
    snapshot = sandbox.create_snapshot(name=label)
    try:
        name = builder.name("on-snapshot")
        builder.build(context(tmp_path, Dockerfile=f"FROM cabana/{label}\nRUN cp /home/user/v /copied\n"), name)
        assert builder.sandbox(name).files.read("/copied") == "kept"
    finally:
        Sandbox.delete_snapshot(snapshot.snapshot_id)
    done, _ = builder.fail(tmp_path, name)
    assert "there is no template" in done.err, done.err


# The command line


def test_command_line(sandbox, builder):
    sandbox.files.write("v", "typed")
    name = builder.name("typed")
    done = builder.cabana("commit", sandbox.sandbox_id, f"{name}:v1", "--tag", "default")
    assert done.returncode == 0 and done.stdout.startswith(f"{name}:"), done
    assert builder.sandbox(done.stdout.strip()).files.read("v") == "typed"
    assert set(builder.tags(name)) == {"default", "v1"}
    for arguments, code, said in [
        ([sandbox.sandbox_id, "Not a name"], 1, "is not a name for a template"),
        (["i" + "0" * 20, name], 1, "not found"),
    ]:
        done = builder.cabana("commit", *arguments)
        assert done.returncode == code and said in done.stderr, done
