"""Where sandboxes may connect. The other ends are servers in a namespace that these tests make; no packet leaves the machine."""

import json
import subprocess
import sys
import time

import pytest
from e2b import AsyncSandbox, Sandbox, SandboxException

from egress_world import DNS, HOST, METADATA, OTHER, PRIVATE, PUBLIC, EgressWorld
from waiting import eventually

ALL = "0.0.0.0/0"

# Run inside a sandbox, and on the host as a positive control. Prints the results of its arguments, a list of attempts, as JSON.
PROBE = r"""
import json, socket, ssl, struct, sys
def tcp(host, port):
    with socket.create_connection((host, port), timeout=4) as connection:
        connection.sendall(b"hello\n")
        return connection.recv(100).decode()
def web(host, port, name, sni=None, other=None):
    connection = socket.create_connection((host, port), timeout=4)
    if port == 443:
        context = ssl._create_unverified_context()
        connection = context.wrap_socket(connection, server_hostname=sni)
    with connection:
        connection.sendall(f"GET / HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n".encode())
        answer = b""
        while more := connection.recv(65536): answer += more
        head, _, body = answer.partition(b"\r\n\r\n")
        status = int(head.split()[1]) if head else 0
        return json.loads(body)["address"] if status == 200 else f"status {status}"
def udp(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(2)
        sender.connect((host, port))
        sender.send(b"hello")
        return sender.recv(100).decode()
def dns(server, name, kind=1):
    query = b"\x12\x34\x01\x00\x00\x01" + bytes(6) + b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\x00"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(4)
        sender.sendto(query + struct.pack(">HH", kind, 1), (server, 53))
        answer = sender.recv(65535)
        return [answer[3] & 15, struct.unpack(">H", answer[6:8])[0]]
def lookup(name):
    return sorted({row[4][0] for row in socket.getaddrinfo(name, 80, socket.AF_INET)})
def v6(host, port):
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as connection:
        connection.settimeout(2); connection.connect((host, port)); return "open"
results = []
for kind, *arguments in json.loads(sys.argv[1]):
    try: results.append(globals()[kind](*arguments))
    except Exception as error: results.append("closed: " + type(error).__name__)
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def outside(server, tmp_path_factory):
    outside = EgressWorld(tmp_path_factory.mktemp("world"))
    yield outside
    outside.close()


@pytest.fixture(scope="module")
def names(resolver):
    """Names that the server's name server knows; a list gives all its addresses."""
    known = {
        "allowed.example.com": PUBLIC,
        "a.sub.example.com": PUBLIC,
        "other.example.com": OTHER,
        "private.example.com": PRIVATE,
        "metadata.example.com": METADATA,
        "many.example.com": [f"203.0.113.{n % 9}" for n in range(1000)],
        "brief.example.com": ([PUBLIC], 0),
    }
    before = resolver.knows
    resolver.knows = lambda name: known.get(name) or before(name)
    yield known
    resolver.knows = before


def probe(sandbox, *attempts) -> list:
    sandbox.files.write("/tmp/egress.py", PROBE)
    return json.loads(sandbox.commands.run(f"python3 /tmp/egress.py '{json.dumps(attempts)}'", timeout=120).stdout)


def probe_outside(*attempts) -> list:
    done = subprocess.run([sys.executable, "-c", PROBE, json.dumps(attempts)], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def closed(result) -> bool:
    return isinstance(result, str) and result.startswith("closed")


def network(server, id: str) -> dict:
    return server.client().get(f"/sandboxes/{id}/network").json


def test_every_server_is_reached_from_outside(outside):
    """Positive control: what sandboxes are denied is there."""
    web = [["web", address, port, "x", "x"] for address in (PUBLIC, OTHER, PRIVATE, METADATA) for port in (80, 443)]
    assert probe_outside(*web) == [address for address in (PUBLIC, OTHER, PRIVATE, METADATA) for _ in (80, 443)]
    assert probe_outside(["tcp", PUBLIC, 8080], ["udp", PUBLIC, 443], ["dns", DNS, "x.example.com"]) == ["hello\n", "hello", [0, 1]]


def test_open_by_default_but_not_to_private_networks(server, outside, names):
    with Sandbox.create(timeout=120) as sandbox:
        assert probe(sandbox, ["web", PUBLIC, 80, "x"], ["tcp", PUBLIC, 8080], ["udp", PUBLIC, 443]) == [PUBLIC, "hello\n", "hello"]
        assert probe(sandbox, ["web", "allowed.example.com", 443, "allowed.example.com", "allowed.example.com"]) == [PUBLIC]
        refused = probe(sandbox, *(["web", address, 80, "x"] for address in (PRIVATE, METADATA, HOST)))
        assert all(map(closed, refused)), refused
        assert network(server, sandbox.sandbox_id)["preset"] == "internet"


def test_addresses(server, outside):
    with Sandbox.create(timeout=120, network={"deny_out": [ALL], "allow_out": [PUBLIC]}) as sandbox:
        results = probe(sandbox, ["tcp", PUBLIC, 8080], ["udp", PUBLIC, 443], ["tcp", OTHER, 8080], ["udp", OTHER, 443], ["web", OTHER, 80, "x"])
        assert results[:2] == ["hello\n", "hello"] and all(map(closed, results[2:])), results
        denied = network(server, sandbox.sandbox_id)["denials"]
        assert denied["total"] >= 3 and any(ALL in rule for rule in denied["byRule"]), denied
    with Sandbox.create(timeout=120, network={"deny_out": ["203.0.113.0/24"], "allow_out": [f"{PUBLIC}/32"]}) as sandbox:
        # Allowing wins, and what neither lists is allowed.
        results = probe(sandbox, ["tcp", PUBLIC, 8080], ["tcp", OTHER, 8080], ["udp", DNS, 9999])
        assert results[0] == "hello\n" and closed(results[1]) and results[2] == "hello", results


def test_private_addresses_cannot_be_allowed(outside):
    with Sandbox.create(timeout=120, network={"allow_out": ["10.0.0.0/8", METADATA]}) as sandbox:
        assert all(map(closed, probe(sandbox, ["web", PRIVATE, 80, "x"], ["web", METADATA, 80, "x"])))


def test_names(server, outside, names):
    """Only what is allowed by name, and none of the ways around it."""
    policy = {"deny_out": [ALL], "allow_out": ["allowed.example.com", "*.sub.example.com"]}
    with Sandbox.create(timeout=180, network=policy) as sandbox:
        name = "allowed.example.com"
        assert probe(
            sandbox,
            ["web", name, 80, name],
            ["web", name, 443, name, name],
            ["web", "a.sub.example.com", 443, "a.sub.example.com", "a.sub.example.com"],
        ) == [PUBLIC] * 3
        attempts = {
            "another name": ["web", "other.example.com", 80, "other.example.com"],
            "the parent of the wildcard": ["web", PUBLIC, 80, "sub.example.com"],
            "an address literal": ["web", PUBLIC, 80, PUBLIC],
            "TLS without a name": ["web", PUBLIC, 443, name, None],
            "TLS with another name": ["web", PUBLIC, 443, name, "other.example.com"],
            "another port of the allowed host": ["tcp", PUBLIC, 8080],
            "QUIC": ["udp", PUBLIC, 443],
            "another resolver": ["udp", DNS, 9999],
            "IPv6": ["v6", "2001:db8::1", 80],
            "the proxy itself": ["tcp", HOST, 80],
        }
        results = dict(zip(attempts, probe(sandbox, *attempts.values())))
        # The egress proxy closes a connection without an answer, or answers itself what is no request.
        refused = ("closed", "status 0", "HTTP/1.1 400")
        assert all(str(result).startswith(refused) for result in results.values()), results
        # A name that is not allowed does not resolve, whoever is asked: DNS carries nothing out.
        asked = probe(sandbox, ["dns", DNS, "secret-data.evil.example.com"], ["dns", OTHER, "secret-data.evil.example.com"])
        assert all(closed(result) or result[1] == 0 for result in asked), asked
        assert not [line for line in outside.arrived() if "secret-data" in line]
        # An allowed name with the address of another host leads to the allowed host: the proxy resolves it itself.
        assert probe(sandbox, ["web", OTHER, 80, name], ["web", OTHER, 443, name, name]) == [PUBLIC] * 2
        recent = network(server, sandbox.sandbox_id)["denials"]["recent"]
        assert any(row["destination"].startswith("other.example.com") for row in recent), recent


def test_names_that_lead_elsewhere(outside, names):
    """Rebinding, no address, a thousand addresses, a TTL of 0."""
    allowed = ["private.example.com", "metadata.example.com", "many.example.com", "nothing.example.com", "brief.example.com"]
    with Sandbox.create(timeout=180, network={"deny_out": [ALL], "allow_out": allowed}) as sandbox:
        results = probe(sandbox, *(["web", OTHER, 80, name] for name in allowed[:2] + ["nothing.example.com"]))
        assert all(closed(result) or str(result).startswith("status") for result in results), results
        assert not [line for line in outside.arrived() if "private.example.com" in line or "metadata.example.com" in line]
        assert probe(sandbox, ["web", OTHER, 80, "brief.example.com"]) == [PUBLIC]
        names["brief.example.com"] = ([OTHER], 0)
        eventually(lambda: probe(sandbox, ["web", PUBLIC, 80, "brief.example.com"]) == [OTHER], within=30, what="the new address is used")
        names["many.example.com"] = [PUBLIC] * 1000
        result = probe(sandbox, ["lookup", "many.example.com"])[0]
        assert result == [PUBLIC] or closed(result), result
        assert probe(sandbox, ["tcp", OTHER, 8080])[0].startswith("closed"), "the server still decides"


STAY = r"""
import socket, time
connection = socket.create_connection(("%s", 8080), timeout=5)
connection.settimeout(3)
for n in range(600):
    connection.sendall(b"%%d\n" %% n); print(connection.recv(100).decode().strip(), flush=True); time.sleep(0.1)
"""


def test_an_update_cuts_open_connections(server, outside):
    with Sandbox.create(timeout=180) as sandbox:
        sandbox.files.write("/tmp/stay.py", STAY % PUBLIC)
        lines: list[str] = []
        command = sandbox.commands.run("python3 /tmp/stay.py", background=True)
        assert probe(sandbox, ["tcp", PUBLIC, 8080]) == ["hello\n"]
        sandbox.update_network({"deny_out": [f"{PUBLIC}/32"]})
        with pytest.raises(Exception, match="exit|Exit|code"):
            command.wait(on_stdout=lines.append)
        assert closed(probe(sandbox, ["tcp", PUBLIC, 8080])[0]) and probe(sandbox, ["tcp", OTHER, 8080]) == ["hello\n"]
        sandbox.update_network({"allow_internet_access": False})
        assert closed(probe(sandbox, ["tcp", OTHER, 8080])[0])
        # What is left out is cleared.
        sandbox.update_network({})
        assert probe(sandbox, ["tcp", PUBLIC, 8080]) == ["hello\n"]


def test_a_paused_sandbox_gets_its_policy_when_it_is_resumed(server, outside):
    api = server.client()
    for memory in (True, False):
        sandbox = Sandbox.create(timeout=180)
        try:
            assert api.request("POST", f"/sandboxes/{sandbox.sandbox_id}/pause", {"memory": memory}).status == 204
            answer = api.request("PUT", f"/sandboxes/{sandbox.sandbox_id}/network", {"denyOut": [ALL], "allowOut": [PUBLIC]})
            assert answer.status == 204, answer
            sandbox = Sandbox.connect(sandbox.sandbox_id)
            results = probe(sandbox, ["tcp", PUBLIC, 8080], ["tcp", OTHER, 8080])
            assert results[0] == "hello\n" and closed(results[1]), (memory, results)
        finally:
            sandbox.kill()


def test_a_policy_outlives_the_server(server, outside):
    with Sandbox.create(timeout=180, network={"deny_out": [ALL], "allow_out": [PUBLIC]}) as sandbox:
        expected = lambda: [result if result == "hello\n" else "closed" for result in probe(sandbox, ["tcp", PUBLIC, 8080], ["tcp", OTHER, 8080])]
        assert expected() == ["hello\n", "closed"]
        server.crash()
        server.start()
        assert expected() == ["hello\n", "closed"]
        assert network(server, sandbox.sandbox_id)["network"]["allowOut"] == [PUBLIC]


def test_forks_inherit_the_policy(server, outside):
    with Sandbox.create(timeout=180, network={"deny_out": [ALL], "allow_out": [PUBLIC]}) as sandbox:
        forked = server.client().request("POST", f"/sandboxes/{sandbox.sandbox_id}/fork", {"timeout": 120}).json[0]["sandbox"]["sandboxID"]
        with Sandbox.connect(forked) as fork:
            results = probe(fork, ["tcp", PUBLIC, 8080], ["tcp", OTHER, 8080])
            assert results[0] == "hello\n" and closed(results[1]), results


def test_own_name_servers(outside):
    with Sandbox.create(timeout=120, network={"dns_servers": [DNS]}) as sandbox:
        assert probe(sandbox, ["lookup", "anything.example.net"]) == [[OTHER]]
        assert f"dns {DNS} anything.example.net" in outside.arrived()


def test_a_socks_proxy(outside, names):
    proxy = {"address": f"{OTHER}:1080", "username": "user", "password": "secret"}
    with Sandbox.create(timeout=180, network={"egress_proxy": proxy}) as sandbox:
        assert probe(sandbox, ["tcp", PUBLIC, 8080]) == ["hello\n"]
        assert f"socks {PUBLIC}:8080" in outside.arrived()
        info = sandbox.get_info().network["egress_proxy"]
        assert info["address"] == f"{OTHER}:1080" and info["username"] == "user" and not info.get("password")
        sandbox.update_network({"egress_proxy": {**proxy, "password": "wrong"}})
        # There is no way around a proxy that refuses.
        assert closed(probe(sandbox, ["tcp", PUBLIC, 8080])[0]) or probe(sandbox, ["tcp", PUBLIC, 8080]) == [""]
        sandbox.update_network({"egress_proxy": {"address": f"{OTHER}:9"}})
        assert closed(probe(sandbox, ["tcp", PUBLIC, 8080])[0]) or probe(sandbox, ["tcp", PUBLIC, 8080]) == [""]


@pytest.mark.parametrize(
    "policy, text",
    [
        ({"allow_out": ["example.com"]}, "ALL_TRAFFIC"),
        ({"deny_out": ["example.com"]}, "invalid denied CIDR example.com"),
        ({"deny_out": ["0.0.0.0"]}, "invalid denied CIDR 0.0.0.0"),
        ({"allow_out": ["http://x"], "deny_out": [ALL]}, "invalid allowed address or domain http://x"),
        ({"deny_out": [f"10.{n // 250}.{n % 250}.0/24" for n in range(10_000)]}, "at most 2048"),
        ({"dns_servers": ["127.0.0.1"]}, "closed to sandboxes"),
        ({"egress_proxy": {"address": "127.0.0.1:1080"}}, "closed to sandboxes"),
        ({"rules": {"*.example.com": [{"transform": {"headers": {"a": "b"}}}]}}, "is not a valid domain name"),
        ({"rules": {"a.example.com": [{"transform": {"headers": {"a": "${e2b.secrets.}"}}}]}}, "malformed E2B placeholder"),
    ],
)
def test_bad_policies(server, policy, text):
    with pytest.raises(SandboxException, match=text.replace(".", r"\.")):
        Sandbox.create(timeout=60, network=policy)
    with Sandbox.create(timeout=60, network={"deny_out": ["192.0.2.1"]}) as sandbox:
        with pytest.raises(SandboxException, match=text.replace(".", r"\.")):
            sandbox.update_network(policy)
        assert sandbox.get_info().network["deny_out"] == ["192.0.2.1"]


async def test_update_by_the_async_client(server):
    sandbox = await AsyncSandbox.create(timeout=60)
    try:
        await sandbox.update_network({"allow_out": lambda it: ["192.0.2.1"], "deny_out": lambda it: [it.all_traffic]})
        found = (await sandbox.get_info()).network
        assert (found["allow_out"], found["deny_out"]) == (["192.0.2.1"], [ALL])
    finally:
        await sandbox.kill()


def test_a_large_policy(server, outside):
    """2,048 entries are in force, and do not slow creation much."""
    allowed = [f"198.18.{n // 256}.{n % 256}" for n in range(2047)] + [PUBLIC]
    started = time.monotonic()
    with Sandbox.create(timeout=120, network={"deny_out": [ALL], "allow_out": allowed}) as sandbox:
        print(f"created with 2,048 entries in {time.monotonic() - started:.3f} s")
        results = probe(sandbox, ["tcp", PUBLIC, 8080], ["tcp", OTHER, 8080])
        assert results[0] == "hello\n" and closed(results[1]), results
