"""The tests of secrets that test_secrets.py runs with Novita's SDK: placeholders in the environment that the egress proxy replaces."""

import uuid

import pytest
from novita_sandbox.core import Sandbox, SandboxException, Secret

from header_echo import HOST, OTHER, ask

CANARY = "novita-canary-" + uuid.uuid4().hex


@pytest.fixture
def name():
    made = Secret.create(name=f"Key.{uuid.uuid4().hex[:8]}", value=CANARY, hosts=[HOST])
    yield made.name
    if made.name in [secret.name for secret in Secret.list()]:
        Secret.delete(made.name)


@pytest.fixture
def sandbox(name):
    sandbox = Sandbox.create("base", timeout=120, secret_envs={"TOKEN": name})
    yield sandbox
    sandbox.kill()


def token_of(sandbox) -> str:
    return sandbox.commands.run("echo -n $TOKEN").stdout


def received(sandbox, token: str | None = None) -> str:
    return ask(sandbox, f"https://{HOST}/", {"x-token": token or token_of(sandbox)}).get("x-token", "")


def test_only_headers_of_https_requests_to_its_hosts(sandbox):
    token = token_of(sandbox)
    assert token.startswith("novita_secret_") and len(token) == 46
    headers = {"authorization": f"Bearer {token}", "cookie": f"a={token}; b={token}"}
    got = ask(sandbox, f"https://{HOST}/path?key={token}", headers, body=token)
    assert (got["authorization"], got["cookie"]) == (f"Bearer {CANARY}", f"a={CANARY}; b={CANARY}")
    assert (got[":path"], got[":body"]) == (f"/path?key={token}", token), "neither addresses nor bodies"
    plain = ask(sandbox, f"http://{HOST}/", headers)
    assert (plain[":port"], plain["authorization"]) == (80, f"Bearer {token}"), "not without TLS"
    other = ask(sandbox, f"https://{OTHER}/", headers, strange=True)
    assert other["authorization"] == f"Bearer {token}", "no other host"
    followed = ask(sandbox, f"https://{HOST}/redirect/https://{OTHER}/", headers, strange=True)
    assert (followed["host"], followed["authorization"]) == (OTHER, f"Bearer {token}"), "nor by a redirect"
    upgrade = {"x-token": token, "connection": "upgrade", "upgrade": "websocket"}
    # Python's client sends a connection header of its own, so this one speaks for itself.
    lines = "".join(f"{name}: {value}\\r\\n" for name, value in {"host": HOST, **upgrade}.items())
    code = (
        "import socket, ssl\n"
        f"link = ssl.create_default_context().wrap_socket(socket.create_connection(('{HOST}', 443)), server_hostname='{HOST}')\n"
        f"link.sendall(b'GET / HTTP/1.1\\r\\n{lines}\\r\\n')\n"
        "got = b''\n"
        "while b'}' not in got: got += link.recv(65536)\n"
        "print(got.decode())\n"
    )
    sandbox.files.write("/tmp/upgrade.py", code)
    answer = sandbox.commands.run("python3 /tmp/upgrade.py").stdout
    assert token in answer and CANARY not in answer, "nor the beginning of a WebSocket"


def test_the_value_is_nowhere_inside(sandbox):
    assert received(sandbox) == CANARY
    sandbox.commands.run("rm -f /tmp/*")
    # The pattern does not match itself on the command line.
    search = (
        "(env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find / -xdev -newer /proc/1 -type f -size -4M -exec cat {} +) 2>/dev/null"
        f" | grep -a -c '[n]{CANARY[1:]}'"
    )
    found = lambda: int(sandbox.commands.run(search + " || true", user="root").stdout)  # noqa: E731
    assert found() == 0
    sandbox.files.write("/home/user/planted", CANARY)
    assert found() == 1, "the search finds what is there"


def test_a_placeholder_is_worth_nothing_elsewhere(sandbox, name):
    token = token_of(sandbox)
    other = Sandbox.create("base", timeout=120, secret_envs={"TOKEN": name})
    try:
        assert token_of(other) != token
        assert received(other, token) == token and received(other) == CANARY
    finally:
        other.kill()


def test_a_new_version_is_used_from_the_next_start(sandbox, name):
    token = token_of(sandbox)
    Secret.update(name=name, value=CANARY + "-2", hosts=[HOST, OTHER])
    assert received(sandbox) == CANARY, "a running one keeps what it was started with"
    clone = Sandbox.connect(Sandbox.clone(sandbox.sandbox_id, count=1, timeout=60).sandboxes[0].sandbox_id)
    try:
        assert received(clone) == CANARY + "-2"
    finally:
        clone.kill()
    sandbox.pause()
    sandbox.connect(timeout=60)
    assert token_of(sandbox) == token and received(sandbox) == CANARY + "-2"
    assert ask(sandbox, f"https://{OTHER}/", {"x-token": token})["x-token"] == CANARY + "-2", "its hosts likewise"
    sandbox.set_network(deny_out=["192.0.2.1"])
    assert received(sandbox) == CANARY + "-2", "a new network policy takes no secret away"
    Secret.delete(name)
    refused = ask(sandbox, f"https://{HOST}/", {"x-token": token})
    assert refused[":status"] == 502 and "does not exist" in refused["message"], "one that is deleted is gone at once"


def test_bad_bindings(name):
    with pytest.raises(SandboxException, match="does not exist: create it first"):
        Sandbox.create("base", secret_envs={"TOKEN": "no-such-secret"})
    with pytest.raises(Exception, match="TOKEN"):
        Sandbox.create("base", envs={"TOKEN": "x"}, secret_envs={"TOKEN": name})
