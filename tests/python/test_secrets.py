"""Secrets and workload identity: the official SDK's methods, and headers that the server fills in on the way out, so that a value never
enters a sandbox. The HTTPS server that they arrive at is in a network namespace of the test."""

import base64
import json
import os
import re
import ssl
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
from e2b import AsyncSecret, Sandbox, Secret
from e2b.exceptions import SecretException, SecretNotFoundException

import header_echo
from header_echo import HOST, OTHER, ask
from other_sdk import pytest_with
from server import CABANA

NETWORK = "10.213.77"
CANARY = "canary-" + uuid.uuid4().hex


@pytest.fixture
def names(server):
    """Names of secrets that are deleted at the end."""
    made: list[str] = []

    def name(text: str = "secret") -> str:
        made.append(f"{text}-{uuid.uuid4().hex[:8]}")
        return made[-1]

    yield name
    for each in made:
        Secret.destroy(each)


def test_the_sdk_manages_secrets(names):
    name = names("My-Key")
    made = Secret.create(name, CANARY, metadata={"owner": "me"})
    assert made.name == name.lower() and made.version == 1 and made.secret_id.startswith("sec_")
    assert made.metadata == {"owner": "me"} and made.created_at == made.updated_at
    assert Secret.get_info(made.secret_id) == Secret.get_info(name.upper()) == made
    with pytest.raises(SecretException):
        Secret.create(name.upper(), "again")
    changed = Secret.update(name, CANARY + "\nwith a second line")
    assert (changed.version, changed.metadata) == (2, {"owner": "me"}) and changed.updated_at > made.updated_at
    assert Secret.update(made.secret_id, "", metadata={}).metadata == {}
    assert Secret.exists(name) and Secret.destroy(name)
    assert not Secret.exists(name) and not Secret.destroy(name)
    for call in (Secret.get_info, lambda name: Secret.update(name, "v")):
        with pytest.raises(SecretNotFoundException):
            call(name)


def test_the_sdk_pages_through_secrets(names):
    wanted = {Secret.create(names(), "v").name for _ in range(5)}
    paginator, found = Secret.list(limit=2), []
    while paginator.has_next:
        page = paginator.next_items()
        assert len(page) <= 2
        found += [secret.name for secret in page]
    assert wanted <= set(found) and len(found) == len(set(found))


async def test_the_asynchronous_sdk_manages_secrets(names):
    name = names()
    made = await AsyncSecret.create(name, CANARY)
    assert await AsyncSecret.get_info(name) == made
    assert (await AsyncSecret.update(name, "v")).version == 2
    paginator, found = AsyncSecret.list(limit=1), []
    while paginator.has_next:
        found += [secret.name for secret in await paginator.next_items()]
    assert name in found
    assert await AsyncSecret.exists(name) and await AsyncSecret.destroy(name) and not await AsyncSecret.exists(name)


def test_the_command_line_manages_secrets(server, names, tmp_path):
    name, file = names(), tmp_path / "value"
    file.write_text(CANARY + "\n")

    def cabana(*arguments: str, stdin: str = "") -> str:
        done = subprocess.run([CABANA, "secret", *arguments], input=stdin, capture_output=True, text=True, env={**os.environ, **server.environment})
        assert done.returncode == 0, done.stderr
        assert CANARY not in done.stdout + done.stderr
        return done.stdout

    made = cabana("create", name, "--value-file", str(file)).strip()
    assert made.startswith("sec_")
    assert cabana("update", name, stdin=CANARY) == "2\n"
    assert any(line.split("\t")[:3] == [made, name, "2"] for line in cabana("ls").splitlines())
    assert cabana("rm", name) == f"{name}\n"


def test_values_are_in_no_file_or_log(server, names):
    Secret.create(names(), CANARY)
    for path in [server.log, *(path for path in server.data.iterdir() if path.is_file() and path.name != "pool.img")]:
        assert CANARY.encode() not in path.read_bytes(), path
    assert oct((server.data / "seal.key").stat().st_mode & 0o777) == "0o600"


def test_bad_identity_definitions_are_refused(api):
    def message(tokens) -> str:
        answer = api.request("POST", "/v2/sandboxes", {"templateID": "base", "iam": {"tokens": tokens}})
        assert answer.status == 400, answer.body
        return answer.json["message"]

    token = {"audience": "a", "tokenType": "JWT-SVID"}
    assert message({str(n): token for n in range(6)}) == "iam.tokens: too many tokens: 6 (max 5)"
    assert message({"n": {**token, "audience": ""}}) == "iam.tokens.n.audience: audience is required"
    assert message({"n": {**token, "tokenType": "x"}}) == 'iam.tokens.n.tokenType: only "JWT-SVID" is supported'


@pytest.fixture(scope="module")
def upstream(server, resolver, tmp_path_factory):
    """An HTTPS server in its own network namespace, which the server under test reaches; the certificate's authority."""
    path = tmp_path_factory.mktemp("upstream")
    run = lambda *arguments: subprocess.run(arguments, check=True, capture_output=True)  # noqa: E731
    ca, key, certificate = path / "ca.pem", path / "key.pem", path / "certificate.pem"
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Test", "-keyout", path / "ca.key", "-out", ca)
    run("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={HOST}", "-keyout", key, "-out", path / "request.pem")
    (path / "names").write_text(f"subjectAltName=DNS:{HOST},DNS:{OTHER}\n")
    run("openssl", "x509", "-req", "-days", "2", "-in", path / "request.pem", "-CA", ca, "-CAkey", path / "ca.key", "-CAcreateserial",
        "-extfile", path / "names", "-out", certificate)  # fmt: skip
    space = f"cbtest{os.getpid()}"
    link = f"cbt{os.getpid()}"[:14]
    process = None
    knows, settings = resolver.knows, dict(server.settings)
    try:
        run("ip", "netns", "add", space)
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "address", "add", f"{NETWORK}.1/24", "dev", link)
        run("ip", "link", "set", link, "up")
        run("ip", "-n", space, "address", "add", f"{NETWORK}.2/24", "dev", "eth0")
        run("ip", "-n", space, "link", "set", "eth0", "up")
        process = subprocess.Popen(
            ["ip", "netns", "exec", space, sys.executable, header_echo.__file__, f"{NETWORK}.2", certificate, key],
            stdout=subprocess.PIPE,
        )
        assert process.stdout.readline() == b"ready\n"
        resolver.knows = lambda name: f"{NETWORK}.2" if name in (HOST, OTHER) else knows(name)
        server.stop()
        server.settings.update(CABANA_EGRESS_INTERNAL=f"{NETWORK}.0/24", CABANA_EGRESS_AUTHORITIES=str(ca))
        server.start()
        yield ca
    finally:
        server.end_all_sandboxes()
        resolver.knows = knows
        server.stop()
        server.settings.clear()
        server.settings.update(settings)
        server.start()
        if process:
            process.kill()
            process.wait()
        subprocess.run(["ip", "link", "del", link], capture_output=True)
        subprocess.run(["ip", "netns", "del", space], capture_output=True)


def fetch(sandbox, host: str = HOST) -> tuple[int, dict]:
    """Status and body of a request from inside; Python's own trust store, as set up by the image and the environment."""
    code = (
        "import json, urllib.request, urllib.error\n"
        f"try: answer = urllib.request.urlopen('https://{host}/', timeout=20)\n"
        "except urllib.error.HTTPError as error: answer = error\n"
        "print(json.dumps([answer.status, answer.read().decode()]))"
    )
    sandbox.files.write("/tmp/fetch.py", code)
    status, body = json.loads(sandbox.commands.run("python3 /tmp/fetch.py").stdout)
    return status, {name.lower(): value for name, value in json.loads(body).items()}


def rules(name: str, header: str = "Bearer ${e2b.secrets.%s}") -> dict:
    headers = {"Authorization": header % name if "%s" in header else header}
    return {"rules": {HOST: [{"transform": {"headers": headers}}]}}


def test_a_secret_is_filled_in_and_never_enters(upstream, server, sandboxes, names):
    name = names()
    Secret.create(name, CANARY)
    sandbox = sandboxes(network=rules(name))
    status, headers = fetch(sandbox)
    assert (status, headers["authorization"]) == (200, f"Bearer {CANARY}")
    # Everything that a program inside could read: environment, processes, and files that are not the template's. The pattern does not
    # match itself on the command line.
    search = f"(env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find / -xdev -newer /proc/1 -type f -size -4M -exec cat {{}} +) 2>/dev/null | grep -a -c '[c]{CANARY[1:]}'"
    found = lambda: int(sandbox.commands.run(search + " || true", user="root").stdout)  # noqa: E731
    assert found() == 0
    sandbox.files.write("/home/user/planted", CANARY)
    assert found() == 1, "the search finds what is there"
    assert "PRIVATE KEY" not in sandbox.commands.run("cat /usr/local/share/ca-certificates/*.crt").stdout
    Secret.update(name, CANARY + "-2")
    assert fetch(sandbox)[1]["authorization"] == f"Bearer {CANARY}-2", "an update takes effect at once"
    Secret.destroy(name)
    status, body = fetch(sandbox)
    assert status == 502 and name in json.dumps(body) and CANARY not in json.dumps(body)
    assert CANARY not in server.log.read_text()


def test_rules_are_added_to_a_running_sandbox(upstream, sandboxes, names):
    name = names()
    Secret.create(name, "first")
    sandbox = sandboxes()
    assert "cabana-ca.crt" not in sandbox.commands.run("ls /usr/local/share/ca-certificates/").stdout
    sandbox.update_network(rules(name))
    assert fetch(sandbox)[1]["authorization"] == "Bearer first"
    environment = sandbox.commands.run("env").stdout
    assert "NODE_EXTRA_CA_CERTS=/usr/local/share/ca-certificates/cabana-ca.crt" in environment
    own = sandbox.commands.run("echo $SSL_CERT_FILE", envs={"SSL_CERT_FILE": "/mine"}).stdout
    assert own == "/mine\n", "the user's choice wins"
    sandbox.pause()
    sandbox = Sandbox.connect(sandbox.sandbox_id)
    assert fetch(sandbox)[1]["authorization"] == "Bearer first"


def test_a_fork_has_an_authority_of_its_own(upstream, api, sandboxes, names):
    name = names()
    Secret.create(name, "value")
    parent = sandboxes(network=rules(name))
    made = api.request("POST", f"/sandboxes/{parent.sandbox_id}/fork", {"count": 1, "timeout": 120})
    assert made.status in (200, 201), made.body
    child = Sandbox.connect(made.json[0]["sandbox"]["sandboxID"])
    try:
        assert fetch(child)[1]["authorization"] == "Bearer value"
        certificate = "cat /usr/local/share/ca-certificates/cabana-ca.crt"
        old, new = (sandbox.commands.run(certificate).stdout for sandbox in (parent, child))
        bundle = child.commands.run("cat /etc/ssl/certs/ca-certificates.crt").stdout
        assert old != new and new in bundle and old not in bundle
    finally:
        child.kill()


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_a_token_tells_who_asks(upstream, server, api, sandboxes, tmp_path):
    network = rules("", "Bearer ${e2b.identity.tokens.aws}")
    sandbox = sandboxes(network=network, iam={"tokens": {"aws": Secret.iam_token(audience="sts.test", token_type="JWT-SVID")}})
    _, headers = fetch(sandbox)
    token = headers["authorization"].removeprefix("Bearer ")
    head, claims, _ = token.split(".")
    claims = json.loads(decoded(claims))
    issuer = json.loads(api.get("/.well-known/openid-configuration").body)
    assert claims["iss"] == issuer["issuer"] == server.url and claims["aud"] == "sts.test"
    assert claims["sandbox_id"] == sandbox.sandbox_id and claims["sub"].endswith(f"/sandbox/{sandbox.sandbox_id}")
    assert claims["nbf"] <= time.time() < claims["exp"] <= time.time() + 600
    keys = {key["kid"] for key in api.get("/.well-known/jwks.json").json["keys"]}
    assert json.loads(decoded(head))["kid"] in keys
    assert token not in sandbox.commands.run("env; cat /proc/[0-9]*/environ 2>/dev/null || true", user="root").stdout
    unknown = rules("", "Bearer ${e2b.identity.tokens.gcp}")
    sandbox.update_network(unknown)
    assert fetch(sandbox)[0] == 502, "a name that is not registered never becomes a token"


def test_other_hosts_are_untouched(upstream, sandboxes, names):
    name = names()
    Secret.create(name, CANARY)
    sandbox = sandboxes(network=rules(name))
    # Its certificate is the server's own, which nobody inside trusts.
    code = f"import ssl; print(ssl.get_server_certificate(('{OTHER}', 443)))"
    sandbox.files.write("/tmp/certificate.py", code)
    shown = sandbox.commands.run("python3 /tmp/certificate.py").stdout
    assert shown.strip() in (Path(upstream).parent / "certificate.pem").read_text()
    assert ssl.PEM_cert_to_DER_cert(shown)


def test_novitas_clients_get_placeholders(upstream, server):
    done = pytest_with(
        "novita",
        server,
        "--noconftest",  # that needs E2B's SDK
        "novita_secrets.py",
        NOVITA_API_URL=server.url,
        NOVITA_SANDBOX_URL=server.url,
        NOVITA_API_KEY=server.key,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout) and "skipped" not in done.stdout, done.stdout
    assert "novita-canary" not in server.log.read_text()


def test_placeholders_outlive_the_server(upstream, server, api, names):
    name = names()
    made = api.request("POST", "/secrets", {"name": name, "value": CANARY, "hosts": [HOST]})
    assert made.status == 201, made.body
    made = api.request("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 120, "secrets": {"TOKEN": name}})
    assert made.status == 201, made.body
    sandbox = Sandbox.connect(made.json["sandboxID"])
    try:
        token = sandbox.commands.run("echo -n $TOKEN").stdout
        before = ask(sandbox, f"https://{HOST}/", {"x-token": token})
        server.crash()
        server.start()
        after = ask(sandbox, f"https://{HOST}/", {"x-token": token})
        assert before["x-token"] == after["x-token"] == CANARY
        for path in [path for path in server.data.iterdir() if path.is_file() and path.name != "pool.img"]:
            assert CANARY.encode() not in path.read_bytes(), path
    finally:
        sandbox.kill()


def test_the_command_line_gives_placeholders(upstream, server, names):
    name = names()

    def cabana(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess:
        environment = {**os.environ, **server.environment}
        return subprocess.run([CABANA, *arguments], input=stdin, capture_output=True, text=True, env=environment)

    assert cabana("secret", "create", name, "--host", HOST, stdin=CANARY).stdout == f"{name}\n"
    done = cabana("run", "--secret", f"TOKEN={name}", "--", "sh", "-c", f"curl -s -H x-token:$TOKEN https://{HOST}/; echo; echo $TOKEN")
    assert done.returncode == 0, done.stderr
    answer, token = done.stdout.splitlines()
    assert json.loads(answer)["x-token"] == CANARY and token.startswith("novita_secret_")
    done = cabana("create", "--secret", "TOKEN=no-such-secret")
    assert done.returncode == 1 and "does not exist: create it first" in done.stderr, done
