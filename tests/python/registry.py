"""Registries on loopback: Debian's registry, with and without a password, and a proxy in front of it with fault injection."""

import base64
import os
import re
import shutil
import subprocess
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import faulty
from server import CACHE

USER, PASSWORD = "cabana", "secret-of-the-test"
HTPASSWD = "cabana:$2y$05$ZhlG.nNzBFx.nd45ma7oT.2/lLmwHxCQDEENM6I.yVx7Y.pWWf5lO\n"
TOKEN = "token-of-the-test"


def program() -> str:
    """Debian's registry. Only its program: the package would start a service that listens on all addresses."""
    if found := shutil.which("docker-registry"):
        return found
    place = CACHE / "registry"
    binary = place / "usr/bin/docker-registry"
    if not binary.exists():
        fetch_package("docker-registry", place)
    return str(binary)


def fetch_package(name: str, into: Path) -> None:
    """Unpacks a Debian package without installing it."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    download = ["apt-get", "download", "-q", name]
    if subprocess.run(download, cwd=into, capture_output=True).returncode != 0:
        subprocess.run(["apt-get", "update", "-q"], check=True, capture_output=True)
        subprocess.run(download, cwd=into, check=True, capture_output=True)
    (package,) = into.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", package, into], check=True)


class Registry:
    """A real registry on a free port."""

    def __init__(self, directory: Path, password: bool = False):
        directory.mkdir(parents=True)
        (directory / "htpasswd").write_text(HTPASSWD)
        config = directory / "config.yml"
        config.write_text(
            f"version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {directory}/data}}, delete: {{enabled: true}}}}\n"
            + "http: {addr: '127.0.0.1:0'}\n"
            + (f"auth: {{htpasswd: {{realm: test, path: {directory}/htpasswd}}}}\n" if password else "")
        )
        self.process = subprocess.Popen(
            [program(), "serve", config],
            env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        seen = ""
        for line in self.process.stderr:
            if found := re.search(r"listening on (127\.0\.0\.1:\d+)", line):
                self.host = found[1]
                break
            seen += line
        else:
            raise RuntimeError(f"docker-registry ended: {seen}")
        # It blocks if its log is not read.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


class Front(faulty.Faulty):
    """Proxy of a registry. `fault`: `refuse` (401), `fail` (500), `silence`, `shorten` or `spoil` layers,
    `break` (the rest must be requested) or `drip` (slow, but complete). With `tokens` it requires a token, which it issues for the password or, to
    readers of `public/`, to anyone."""

    def __init__(self, behind, tokens: bool = False):
        """`behind` returns host and port of the registry."""
        self.behind, self.tokens = behind, tokens
        self.asked: list[str] = []
        front = self

        class Handler(faulty.Handler):
            def do_GET(self):
                front.asked.append(f"{self.command} {self.path}")
                fault, blob = front.fault, "/blobs/" in self.path
                if self.path.startswith("/token"):
                    return self.sell()
                if fault:
                    front.met.set()
                if fault == "silence":
                    return self.hang(front)
                if fault == "refuse":
                    return self.answer(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"not today"}]}')
                if fault == "fail":
                    return self.answer(500, b'{"errors":[{"code":"UNKNOWN","message":"on fire"}]}')
                if front.tokens and self.headers.get("authorization") != f"Bearer {TOKEN}-{self.repository()}":
                    service = (
                        f'realm="http://{front.host}/token",service="test",scope="repository:{self.repository()}:pull"'
                    )
                    return self.answer(
                        401, b'{"errors":[{"code":"UNAUTHORIZED"}]}', {"WWW-Authenticate": f"Bearer {service}"}
                    )
                status, headers, body = self.passed_on()
                if status in (200, 206) and blob and fault in ("shorten", "spoil", "break", "drip"):
                    return self.spoilt(fault, status, headers, body)
                self.answer(status, body, headers)

            do_HEAD = do_GET

            def repository(self) -> str:
                found = re.match(r"/v2/(.+?)/(?:manifests|blobs|tags)/", self.path)
                return found[1] if found else ""

            def sell(self):
                scope = parse_qs(urlsplit(self.path).query).get("scope", [""])[0]
                repository = scope.split(":")[1] if scope.count(":") == 2 else ""
                right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                if not repository.startswith("public/") and self.headers.get("authorization") != right:
                    return self.answer(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}')
                self.answer(200, f'{{"token":"{TOKEN}-{repository}","expires_in":60}}'.encode())

            def passed_on(self):
                connection = HTTPConnection(*front.behind().split(":"), timeout=30)
                passed = ("accept", "range") if front.tokens else ("accept", "range", "authorization")
                # A header may be repeated: `Accept` is.
                kept = {name: ", ".join(self.headers.get_all(name)) for name in passed if name in self.headers}
                connection.request(self.command, self.path, headers=kept)
                response = connection.getresponse()
                body = response.read()
                dropped = ("content-length", "connection", "transfer-encoding", "date")
                headers = {name: value for name, value in response.getheaders() if name.lower() not in dropped}
                if self.command == "HEAD":
                    headers["Content-Length"] = response.getheader("content-length") or "0"
                connection.close()
                return response.status, headers, body

            def spoilt(self, fault: str, status: int, headers: dict, body: bytes):
                if fault == "spoil":
                    return self.answer(status, body[:-9] + bytes([body[-9] ^ 1]) + body[-8:], headers)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if fault in ("shorten", "break"):
                    rest = len(body) if fault == "break" else 0
                    self.wfile.write(body[: len(body) // 2 if status == 200 else rest])
                    self.close_connection = True
                    return
                piece = max(1, len(body) // 20)
                for begin in range(0, len(body), piece):
                    self.wfile.write(body[begin : begin + piece])
                    self.wfile.flush()
                    time.sleep(0.05)  # slowness is the point

        super().__init__(Handler)

    def blobs(self) -> list[str]:
        """Layers and configurations that were requested."""
        return [path for path in self.asked if path.startswith("GET") and "/blobs/" in path]

    def fail(self, fault: str) -> None:
        self.asked.clear()
        super().fail(fault)
