"""The server with TLS and a domain. E2B's SDKs find it by `E2B_DOMAIN` alone, as they would find E2B's own: the tests of the SDKs run
again that way, in a mount namespace whose resolver knows the domain. All names resolve to loopback."""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nameserver import NameServer
from other_sdk import python_with
from server import CABANA, ROOT
from sockets import Live, Terminal

DOMAIN = "e2b.test"
HERE = Path(__file__).parent
PYTHON = [f"test_{name}.py" for name in ("commands", "files", "lifecycle", "links", "streams", "async", "cli", "edge", "smuggling", "bad_input")]
# Downloads of builds do not depend on TLS.
JS = [file for file in sorted((ROOT / "tests/js").glob("*.test.mjs")) if file.name != "packages.test.mjs"]


def request_cost(server) -> tuple[float, float]:
    """Median µs of the same request on an open connection and on a new one each time, alternating, so that other load affects both."""
    client = server.client()
    kept, fresh = [], []

    def ask(times: list[float]) -> None:
        started = time.perf_counter()
        assert client.get("/health").status == 204
        times.append(time.perf_counter() - started)

    for _ in range(100):
        client.close()
        ask(fresh)
        for _ in range(5):
            ask(kept)
    client.close()
    return statistics.median(kept) * 1e6, statistics.median(fresh) * 1e6


@pytest.fixture(scope="module")
def costs() -> dict[str, tuple[float, float]]:
    return {}


@pytest.fixture(scope="module")
def secure(server, costs):
    """The server of the run, restarted with TLS; restored afterwards."""
    plain = dict(server.settings)
    costs["plain"] = request_cost(server)
    server.stop()
    server.settings.update(CABANA_TLS_MODE="internal", CABANA_DOMAIN=DOMAIN)
    server.start()
    yield server
    server.stop()
    server.settings = plain
    server.start()


@pytest.fixture(scope="module")
def run(secure, tmp_path_factory):
    """Runs a command that resolves the domain, with only the documented environment."""
    names = NameServer(lambda name: "127.0.0.1" if name.endswith(f".{DOMAIN}") else None, network=54)
    resolv = tmp_path_factory.mktemp("names") / "resolv.conf"
    resolv.write_text(f"nameserver {names.address}\noptions timeout:2 attempts:2\n")
    outside = {k: v for k, v in os.environ.items() if not k.startswith(("CABANA_", "E2B_", "NOVITA_"))}

    def run(*command, timeout=120, cwd=HERE, **environment) -> subprocess.CompletedProcess:
        shell = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", shell, str(resolv), *map(str, command)],
            env={**outside, **secure.environment, **environment},
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.mark.parametrize("file", PYTHON)
def test_python_sdk(file, run, secure):
    done = run(
        sys.executable, "-m", "pytest", "-p", "no:cacheprovider", file, timeout=600,
        CABANA_TEST_SERVER=secure.handle, CABANA_TEST_DATA=str(secure.data), CABANA_TEST_BINARY=str(CABANA),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout


@pytest.mark.parametrize("file", JS, ids=lambda file: file.name)
def test_js_sdk(file, run):
    done = run("node", "--test", "--test-reporter=tap", file.name, cwd=file.parent, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"^# pass [1-9]", done.stdout, re.M), done.stdout


def test_novita_sdk(run, secure):
    done = run(
        python_with("novita"), "-m", "pytest", "-p", "no:cacheprovider", "--noconftest", "novita_sdk.py", timeout=300,
        NOVITA_DOMAIN=secure.environment["E2B_DOMAIN"], NOVITA_API_KEY=secure.key,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout) and "skipped" not in done.stdout, done.stdout


def test_sockets_of_the_api(secure):
    """Live updates and terminals."""
    client = secure.client()
    with Live(secure, "sandboxes") as live:
        box = client.create()
        live.event("created", box.id)
        with Terminal(secure, box.id) as terminal:
            assert terminal.run("echo hello").strip() == "hello"
        assert client.kill(box)
        live.event("killed", box.id)
    client.close()


GET_HOST = r"""
import json, ssl, sys, urllib.request
import websockets.sync.client
from e2b import Sandbox
import inside

with Sandbox.create(timeout=120) as sandbox:
    inside.serve(sandbox, inside.ECHO, "127.0.0.1", 8000)
    inside.serve(sandbox, inside.WEBSOCKET, "0.0.0.0", 8001)
    host = sandbox.get_host(8000)
    with urllib.request.urlopen(f"https://{host}/path?q=1", timeout=20) as answer:
        echo = json.load(answer)
    with websockets.sync.client.connect(f"wss://{sandbox.get_host(8001)}/") as socket:
        socket.send("hello")
        said = socket.recv(timeout=20)
    print(json.dumps({"host": host, "id": sandbox.sandbox_id, "echo": echo, "said": said}))
"""


def test_get_host_is_an_address_for_browsers(run, secure):
    done = run(sys.executable, "-c", GET_HOST)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["host"] == f"8000-{seen['id']}.{DOMAIN}:{secure.port}"
    headers = dict(seen["echo"]["headers"])
    assert (seen["echo"]["path"], headers["host"], headers["x-forwarded-proto"]) == ("/path?q=1", seen["host"], "https")
    assert seen["said"] == "hello"


BY_ADDRESS = r"""
from e2b import Sandbox
with Sandbox.create(timeout=60) as sandbox:
    print(sandbox.commands.run("echo by address").stdout, end="")
"""


def test_without_names_by_address(run, secure):
    done = run(sys.executable, "-c", BY_ADDRESS, E2B_API_URL=secure.url, E2B_SANDBOX_URL=secure.url, E2B_DOMAIN="")
    assert (done.returncode, done.stdout) == (0, "by address\n"), done.stderr


PRIVATE = r"""
import json, urllib.error, urllib.request
from e2b import Sandbox
import inside

with Sandbox.create(timeout=120, network={"allow_public_traffic": False, "mask_request_host": "localhost:${PORT}"}) as sandbox:
    inside.serve(sandbox, inside.ECHO, "127.0.0.1", 8000)
    def ask(**headers):
        request = urllib.request.Request(f"https://{sandbox.get_host(8000)}/", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            return refused.code, json.load(refused)
    token = sandbox.traffic_access_token
    answers = [ask(), ask(**{"e2b-traffic-access-token": "x"}), ask(**{"e2b-traffic-access-token": token})]
    print(json.dumps({"answers": answers, "token": token}))
"""


def test_ports_that_are_not_public(run):
    done = run(sys.executable, "-c", PRIVATE)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    (missing, why), (wrong, _), (right, echo) = seen["answers"]
    assert (missing, wrong, right) == (403, 403, 200)
    assert why["message"].endswith("Token header 'e2b-traffic-access-token' is missing") and why["code"] == 403
    headers = dict(echo["headers"])
    assert headers["host"] == "localhost:8000"
    assert seen["token"] not in json.dumps(echo), "the sandbox does not learn the token"


HTTPS_PORT = r"""
import json, urllib.request
from e2b import Sandbox
import inside

PROGRAM = inside.ECHO.replace(
    "http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()",
    "import ssl; server = http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler);"
    "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain('/tmp/cert.pem');"
    "server.socket = context.wrap_socket(server.socket, server_side=True); server.serve_forever()",
)
with Sandbox.create(timeout=120, network={"https_ports": [8443]}) as sandbox:
    sandbox.commands.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=nobody -keyout /tmp/cert.pem -out /tmp/c.pem"
        " && cat /tmp/c.pem >> /tmp/cert.pem"
    )
    inside.serve(sandbox, PROGRAM, "127.0.0.1", 8443)
    with urllib.request.urlopen(f"https://{sandbox.get_host(8443)}/encrypted", timeout=20) as answer:
        print(json.load(answer)["path"])
"""


def test_ports_that_speak_tls_inside(run):
    done = run(sys.executable, "-c", HTTPS_PORT)
    assert (done.returncode, done.stdout) == (0, "/encrypted\n"), done.stderr


def test_our_command_line(run, secure):
    local = {"CABANA_DATA_DIR": str(secure.data), "CABANA_LISTEN": f"127.0.0.1:{secure.port}", **secure.settings}
    nobody = {"SSL_CERT_FILE": "/dev/null"}  # the authority in the data directory must suffice
    done = run(CABANA, "run", "--", "echo", "found", **local, **nobody)
    assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr
    named = {"CABANA_API_URL": f"https://api.{DOMAIN}:{secure.port}", "CABANA_API_KEY": secure.key}
    done = run(CABANA, "run", "--", "echo", "named", CABANA_DATA_DIR="/nonexistent", **named)
    assert (done.returncode, done.stdout) == (0, "named\n"), done.stderr
    done = run(CABANA, "ls", CABANA_DATA_DIR="/nonexistent", **named, SSL_CERT_FILE="/etc/ssl/certs/ca-certificates.crt")
    assert done.returncode == 2 and "cabana tls ca" in done.stderr, done.stderr
    done = run(CABANA, "tls", "ca", **local)
    assert done.stdout == Path(secure.ca).read_text(), done.stderr


def test_what_tls_costs(secure, costs, figures):
    (kept, fresh), (plain_kept, plain_fresh) = request_cost(secure), costs["plain"]
    figures.append(
        f"GET /health on an open connection: {plain_kept:.0f} µs plain, {kept:.0f} µs with TLS; "
        f"with a new one: {plain_fresh:.0f} µs plain, {fresh:.0f} µs with TLS"
    )
    assert kept < fresh / 2, "a request on an open connection pays for no handshake"
