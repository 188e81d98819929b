"""Images for the tests: busybox, a small Debian, and difficult ones. Their contents are downloaded once (tests/.cache)."""

import os
import platform
import subprocess
from functools import cache
from pathlib import Path

from oci import DOCKER, Image, Layer, link, push_index
from registry import PASSWORD, USER, Front, Registry, fetch_package
from server import CACHE

PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


@cache
def busybox_program() -> bytes:
    place = CACHE / "busybox"
    if not (place / "bin/busybox").exists():
        fetch_package("busybox-static", place)
    return (place / "bin/busybox").read_bytes()


@cache
def busybox_layer() -> Layer:
    """One program with hard links for all its names, as in the official image."""
    program = busybox_program()
    applets = subprocess.run([CACHE / "busybox/bin/busybox", "--list"], capture_output=True, text=True, check=True)
    entries: dict = {
        "bin": None,
        "etc": None,
        "root": None,
        "tmp": None,
        "home": None,
        "bin/busybox": program,
    }
    entries |= {
        f"bin/{name}": link(f"bin/{name}", "bin/busybox", hard=True)
        for name in applets.stdout.split()
        if name != "busybox"
    }
    entries["etc/passwd"] = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n"
    entries["etc/group"] = "root:x:0:\nnogroup:x:65534:\n"
    return Layer.of(entries)


def image(layers: list[Layer], kind: dict | None = None, **config) -> Image:
    more = {"kind": kind} if kind else {}
    return Image(layers, {"Env": [PATH], **config}, architecture=ARCHITECTURE, **more)


def busybox() -> Image:
    return image([busybox_layer()], Cmd=["sh"])


def service() -> Image:
    """An image with defaults: user, directory, environment, command, health check and port."""
    page = Layer.of({"srv": None, "srv/index.html": "served by the image\n", "srv/who": "the image\n"})
    return image(
        [busybox_layer(), page],
        Env=[PATH, "GREETING=hello from the image", "EMPTY="],
        User="nobody",
        WorkingDir="/srv",
        Entrypoint=["httpd", "-f", "-v"],
        Cmd=["-p", "8080", "-h", "/srv"],
        Healthcheck={"Test": ["CMD-SHELL", "wget -q -O- http://127.0.0.1:8080/"]},
        ExposedPorts={"8080/tcp": {}},
        Labels={"made.by": "the test"},
    )


def layered() -> Image:
    """Later layers remove and replace files of earlier ones. In Docker's own format."""
    first = {
        "d": None,
        "d/a": "1",
        "d/b": "1",
        "gone": "1",
        "opaque": None,
        "opaque/old": "1",
        "kind": "a file",
        "dir": None,
        "dir/in": "1",
    }
    second = {"d/.wh.a": "", ".wh.gone": "", "opaque/.wh..wh..opq": "", "opaque/new": "2", "d/b": "2", ".wh.dir": ""}
    third = {"gone": "3", "kind": None, "kind/inside": "3", "to-b": link("to-b", "d/b"), "dir": "now a file"}
    layers = [Layer.of(entries) for entries in (first, second, third)]
    return image([busybox_layer(), *layers], DOCKER)


def debian() -> Image:
    """Debian with only `apt`: no user, no curl, no certificates."""
    archive = CACHE / f"debian-{ARCHITECTURE}.tar"
    if not archive.exists():
        making = archive.with_suffix(f".{os.getpid()}.tar")
        subprocess.run(
            ["mmdebstrap", "--mode=root", "--variant=minbase", "--quiet", "--aptopt=Acquire::Languages \"none\"",
             "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
             "--dpkgopt=path-exclude=/usr/share/locale/*", "--customize-hook=rm -rf \"$1\"/var/lib/apt/lists/* \"$1\"/var/cache/apt/*",
             "bookworm", making],
            check=True, capture_output=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        making.rename(archive)
    return image([Layer.packed_at(archive)], Cmd=["bash"])


class Registries:
    """All registries that the server under test may use. Fronts exist from the start, because the server's configuration names them; the
    real registries and their contents are created on first use."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.real: Registry | None = None
        self.closed_real: Registry | None = None
        self.open = Front(lambda: self.started().host)
        self.closed = Front(lambda: self.with_password().host)
        self.tokens = Front(lambda: self.started().host, tokens=True)
        self.mirror = Front(lambda: self.started().host)
        self.pushed: set[str] = set()

    def configuration(self) -> str:
        """For the server. registry.test does not exist and Docker Hub is not contacted: both have a mirror here."""
        hosts = {front.host: "plain_http = true, internal = true" for front in (self.open, self.closed, self.tokens)}
        hosts |= {host: f'mirrors = ["{self.mirror.url}"]' for host in ("docker.io", "registry.test")}
        lines = "\n".join(f'"{host}" = {{ {what} }}' for host, what in hosts.items())
        return f"[images.hosts]\n{lines}\n"

    def started(self) -> Registry:
        if self.real is None:
            self.real = Registry(self.directory / "open")
        return self.real

    def fronts(self) -> tuple[Front, ...]:
        return self.open, self.closed, self.tokens, self.mirror

    def with_password(self) -> Registry:
        """A registry with a password. It has `team/private:1`."""
        if self.closed_real is None:
            self.closed_real = Registry(self.directory / "closed", password=True)
            busybox().push(self.closed_real.url, "team/private", "1", (USER, PASSWORD))
        return self.closed_real

    def has(self, *names: str) -> "Registries":
        """Ensures that these images are in the registry."""
        for name in names:
            if name in self.pushed:
                continue
            at, repository = self.started().url, name.rpartition(":")[0] or name
            tag = name.rpartition(":")[2] if ":" in name else "latest"
            made = {"busybox": busybox, "service": service, "layered": layered, "debian": debian}[
                repository.split("/")[-1]
            ]()
            made.push(at, repository, tag)
            self.pushed.add(name)
        return self

    def push(self, repository: str, tag: str, made: Image) -> str:
        return made.push(self.started().url, repository, tag)

    def push_index(self, repository: str, tag: str, images: dict[str, Image]) -> None:
        push_index(self.started().url, repository, tag, images)

    @property
    def login(self) -> tuple[str, str]:
        return USER, PASSWORD

    def mend(self) -> None:
        for front in self.fronts():
            front.mend()

    def close(self) -> None:
        for front in self.fronts():
            front.close()
        for real in (self.real, self.closed_real):
            if real is not None:
                real.close()
