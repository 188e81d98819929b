"""Builds templates with `cabana template build`, and reads build logs."""

import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from e2b import Sandbox

from server import CABANA, ROOT, Server
from waiting import eventually
from wire import Answer

DOCKERFILES = ROOT / "tests/dockerfiles"
# How the log names a step: `CACHED [2/5] RUN make`, `[build 1/3] COPY . .`.
STEP = re.compile(r"^(?P<cached>CACHED )?\[(?P<place>[^\]]*?\d+/\d+)\] (?P<text>.+)$", re.S)


@dataclass
class Step:
    text: str
    cached: bool


@dataclass
class Build:
    """A build as the API shows it."""

    template: str
    id: str
    status: str
    reason: dict | None
    entries: list[dict] = field(default_factory=list)

    @property
    def steps(self) -> list[Step]:
        found = [STEP.match(entry["message"]) for entry in self.entries]
        return [Step(match["text"], bool(match["cached"])) for match in found if match]

    @property
    def log(self) -> str:
        return "\n".join(entry["message"] for entry in self.entries)

    def cached(self) -> list[str]:
        return [step.text for step in self.steps if step.cached]

    def ran(self) -> list[str]:
        return [step.text for step in self.steps if not step.cached]


@dataclass
class Done:
    """Result of `cabana template build`."""

    code: int
    out: str
    err: str
    seconds: float


def context(directory: Path, **files: str | bytes) -> Path:
    """A build context. `Dockerfile="…"`; pass other paths by a dictionary."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


class Builder:
    def __init__(self, server: Server):
        self.server = server
        self.names: list[str] = []
        self.sandboxes: list[Sandbox] = []

    def name(self, stem: str = "t") -> str:
        """A unique template name; the template is deleted at the end."""
        self.names.append(f"{stem}-{os.urandom(4).hex()}")
        return self.names[-1]

    def copied(self, name: str, into: Path) -> Path:
        """A copy of one of the example Dockerfiles with its context."""
        return Path(shutil.copytree(DOCKERFILES / name, into / name, symlinks=True))

    @property
    def environment(self) -> dict[str, str]:
        ours = {"CABANA_API_URL": self.server.url, "CABANA_API_KEY": self.server.key, "NO_COLOR": "1"}
        return {**os.environ, **self.server.environment, **ours}

    def cabana(self, *arguments: str, within: float = 300.0, **options) -> subprocess.CompletedProcess:
        options = {"env": self.environment, "capture_output": True, "text": True, "timeout": within, **options}
        return subprocess.run([CABANA, *arguments], **options)

    def start(self, directory: Path, name: str, *options: str) -> subprocess.Popen:
        """Starts a build without waiting for it."""
        return subprocess.Popen(
            [CABANA, "template", "build", directory, "--name", name, *options],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def attempt(self, directory: Path, name: str, *options: str, within: float = 120.0) -> Done:
        started = time.monotonic()
        done = self.cabana("template", "build", str(directory), "--name", name, *options, within=within)
        assert "panicked" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr, time.monotonic() - started)

    def build(self, directory: Path, name: str, *options: str) -> Build:
        """Builds and expects success."""
        done = self.attempt(directory, name, *options)
        assert done.code == 0, done.out + done.err
        built = self.last(name)
        assert built.status == "ready", built
        return built

    def fail(self, directory: Path, name: str, *options: str, code: int = 1) -> tuple[Done, Build | None]:
        """Builds and expects a clean failure."""
        done = self.attempt(directory, name, *options)
        assert done.code == code, done
        return done, self.last(name) if self.details(name).status == 200 else None

    # What the server knows

    def ask(self, method: str, path: str, body=None) -> Answer:
        client = self.server.client()
        try:
            return client.request(method, path, body)
        finally:
            client.close()

    def details(self, name: str) -> Answer:
        found = self.ask("GET", f"/templates/aliases/{quote(name.split(':')[0], safe='')}")
        return found if found.status != 200 else self.ask("GET", f"/templates/{found.json['templateID']}")

    def builds(self, name: str) -> list[dict]:
        """Newest first."""
        answer = self.details(name)
        assert answer.status == 200, answer.body
        return answer.json["builds"]

    def last(self, name: str) -> Build:
        return self.status(self.details(name).json["templateID"], self.builds(name)[0]["buildID"])

    def status(self, template: str, build: str) -> Build:
        """With the whole log, page by page as the SDKs read it."""
        entries: list[dict] = []
        while True:
            answer = self.ask("GET", f"/templates/{template}/builds/{build}/status?logsOffset={len(entries)}&limit=100")
            assert answer.status == 200, (answer.status, answer.body)
            page = answer.json
            entries += page["logEntries"]
            if not page["logEntries"]:
                return Build(template, build, page["status"], page.get("reason"), entries)

    def ended(self, template: str, build: str, within: float = 60.0) -> Build:
        over = lambda: (b := self.status(template, build)).status in ("ready", "error") and b
        return eventually(over, within, every=0.1, what="the build ends")

    def says(self, name: str, text: str, within: float = 60.0) -> Build:
        """Waits until the log of the newest build contains a text."""
        found = lambda: (b := self.last(name)) and text in b.log and b
        return eventually(found, within, every=0.05, what=f"the log says {text!r}")

    def tags(self, name: str) -> dict[str, str]:
        """Tag → build."""
        answer = self.ask("GET", f"/templates/{name}/tags")
        assert answer.status == 200, answer.body
        return {row["tag"]: row["buildID"] for row in answer.json}

    def sandbox(self, template: str, **options) -> Sandbox:
        """A sandbox of the template; killed at the end."""
        self.sandboxes.append(Sandbox.create(template, **{"timeout": 120, **options}))
        return self.sandboxes[-1]

    def forget(self, name: str) -> None:
        found = self.details(name)
        if found.status == 200:
            answer = self.ask("DELETE", f"/templates/{found.json['templateID']}")
            assert answer.status in (204, 404), (name, answer.status, answer.body)

    def close(self) -> None:
        for sandbox in self.sandboxes:
            sandbox.kill()
        for name in self.names:
            self.forget(name)
