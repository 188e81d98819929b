"""The server under test: a `cabana server` process on its own port."""

import fcntl
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path

import canary
from waiting import eventually
from wire import Client

ROOT = Path(__file__).resolve().parents[2]
CABANA = Path(os.environ.get("CABANA_TEST_BINARY", ROOT / "target/release/cabana"))
CACHE = ROOT / "tests/.cache"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Can be started, stopped, killed and restarted; the port and the data directory stay."""

    def __init__(self, data: Path, **settings: str):
        self.data, self.settings = data, settings
        self.port = free_port()
        self.process: subprocess.Popen | None = None
        CACHE.mkdir(exist_ok=True)
        for old in sorted(CACHE.glob("server-*.log"), key=lambda log: log.stat().st_mtime)[:-8]:
            canary.check(old)
            old.unlink(missing_ok=True)
        self.log = CACHE / f"server-{self.port}.log"
        self.log.write_bytes(b"")
        self.data.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.data.parent / f".{self.data.name}.lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another test run uses {data}: set CABANA_TEST_DATA to another directory") from None

    @classmethod
    def attached(cls, data: Path, handle: str, **settings: str) -> "Server":
        """The server of another test run, by its `handle`: it can be used, but neither started nor stopped."""
        server = cls.__new__(cls)
        port, pid = handle.split(":")
        server.data, server.settings, server.process = data, settings, None
        server.port, server.log = int(port), CACHE / f"server-{port}.log"
        server.other = int(pid)
        return server

    @property
    def handle(self) -> str:
        return f"{self.port}:{self.pid}"

    other: int | None = None
    #: The program to start.
    program: Path = CABANA

    @property
    def secure(self) -> bool:
        return self.settings.get("CABANA_TLS_MODE", "off") != "off"

    @property
    def ca(self) -> str:
        return str(self.data / "tls/ca.pem")

    @property
    def url(self) -> str:
        return f"{'https' if self.secure else 'http'}://127.0.0.1:{self.port}"

    @property
    def domain(self) -> str:
        """Domain of sandboxes' hosts. A server without a domain accepts any."""
        return self.settings.get("CABANA_DOMAIN", "sandbox.test")

    @property
    def pid(self) -> int:
        if self.other is not None:
            return self.other
        assert self.process is not None, "the server is not running"
        return self.process.pid

    @property
    def key(self) -> str:
        return canary.remember("an API key", (self.data / "key").read_text().strip())

    @property
    def environment(self) -> dict[str, str]:
        """Environment of a client, as printed by the server."""
        if not self.secure:
            return {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url, "E2B_API_KEY": self.key}
        trust = dict.fromkeys(("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"), self.ca)
        return {"E2B_DOMAIN": f"{self.settings['CABANA_DOMAIN']}:{self.port}", "E2B_API_KEY": self.key, **trust}

    def client(self, timeout: float = 60.0) -> Client:
        return Client(self.url, self.key, timeout, self.ca if self.secure else None)

    def connect(self, timeout: float = 60.0) -> socket.socket:
        """A raw connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=timeout)
        if not self.secure:
            return connection
        return ssl.create_default_context(cafile=self.ca).wrap_socket(connection, server_hostname="127.0.0.1")

    def start(self, within: float = 60.0) -> None:
        """Starts it and returns when it responds and the base template is ready (the first time that takes minutes)."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("CABANA_", "E2B_"))}
        own = {
            "CABANA_LISTEN": f"127.0.0.1:{self.port}",
            "CABANA_DATA_DIR": str(self.data),
            # The check for secrets in logs covers what is logged for debugging, too.
            "CABANA_LOG": os.environ.get("CABANA_LOG", "info,cabana=debug"),
            "NO_COLOR": "1",
            # The console's files while one works on them, instead of those in the program.
            **{name: value for name, value in os.environ.items() if name == "CABANA_CONSOLE_DIR"},
            **self.settings,
        }
        self.process = subprocess.Popen(
            [self.program, "server"],
            env={**inherited, **own},
            stdin=subprocess.DEVNULL,
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + within
        while not self.ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server was not ready within {within} s:\n{self.log_tail()}")
            time.sleep(0.01)

    def ready(self) -> bool:
        try:
            client = self.client(timeout=10)
            try:
                answer = client.get("/templates")
                return answer.status == 200 and any(
                    "base" in row["aliases"] and row["buildStatus"] == "ready" for row in answer.json
                )
            finally:
                client.close()
        except OSError:
            return False

    def crash(self) -> None:
        """`kill -9`, and wait until it is gone. Its sandboxes keep running."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """Stops it gracefully. Sandboxes outlive it, so kill them before."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            code = self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end within 20 s of SIGTERM:\n{self.log_tail()}") from None
        finally:
            self.process = None
        assert code == 0, f"the server ended with {code}:\n{self.log_tail()}"

    def end_all_sandboxes(self) -> None:
        client = self.client()
        everything = lambda: client.sandboxes("&state=running,paused,failed")
        for row in everything():
            client.kill(row["sandboxID"])
        for row in client.get("/snapshots").json:
            client.request("DELETE", f"/templates/{row['snapshotID'].replace('/', '%2F').replace(':', '%3A')}")
        eventually(lambda: not everything(), what="no sandbox listed")
        client.close()

    def forget_all_chats(self) -> None:
        """With their sandboxes and checkpoints."""
        client = self.client()
        while rows := client.get("/chats?limit=100").json["chats"]:
            for row in rows:
                client.request("DELETE", f"/chats/{row['id']}")
        client.close()

    def forget_all_templates(self) -> None:
        """All templates but the base template."""
        client = self.client()
        for row in client.get("/templates").json:
            if "base" not in row["aliases"]:
                client.request("DELETE", f"/templates/{row['templateID']}")
        client.close()

    @property
    def instance(self) -> str:
        return json.loads((self.data / "instance.json").read_text())["name"]

    def cgroups(self, id: str) -> list[Path]:
        """A sandbox's directory in every cgroup hierarchy."""
        return [path for path in Path("/sys/fs/cgroup").glob(f"**/cabana-{self.instance}/{id}") if path.is_dir()]

    def disks(self) -> set[str]:
        """Sandboxes with a disk in the pool."""
        return set(os.listdir(self.data / "pool/sandboxes"))

    def copies(self) -> set[str]:
        """Copies of disks in the pool: snapshots and temporary ones."""
        return set(os.listdir(self.data / "pool/snapshots"))

    def kill_guest(self, id: str) -> None:
        """Kills the first process of a sandbox, as a bug would."""
        record = json.loads(Path("/run/cabana", self.instance, "sandboxes", f"{id}.json").read_text())
        os.kill(record["process"]["pid"], signal.SIGKILL)

    def log_tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def log_size(self) -> int:
        return self.log.stat().st_size

    def errors_since(self, offset: int) -> list[str]:
        """Lines of level ERROR, and panics, after a position in the log."""
        with self.log.open("rb") as log:
            log.seek(offset)
            text = COLOUR.sub("", log.read().decode(errors="replace"))
        return [line for line in text.splitlines() if re.search(r"\bERROR\b|panicked at", line)]

    def memory(self) -> int:
        """Resident memory of the process, bytes."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) * 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))
