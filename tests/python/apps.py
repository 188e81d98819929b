"""The apps of tests/apps, as people preview them: development servers with the configuration that they have by default. Sandboxes of the
tests have no network, so packages are installed once on this machine, kept in tests/.cache, and unpacked in a sandbox."""

import fcntl
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from server import CACHE, ROOT
from wire import Box, Client

SOURCES = ROOT / "tests/apps"
HOME = "/home/user/app"
# What a development server never reads. Source maps are half of Next; images are not resized here.
UNUSED = ["--exclude=*.map", "--exclude=node_modules/sharp", "--exclude=node_modules/@img", "--exclude=__pycache__"]
# Python of the base template, whatever this machine has.
PYTHON = "3.11"


@dataclass(frozen=True)
class App:
    """`changes`: a file, with a text in it that is replaced to see the page change."""

    name: str
    command: str
    port: int
    changes: str
    #: Whether the page shows a change of its file without being loaded again.
    hot: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    memory: int = 512

    @property
    def greeting(self) -> str:
        return f"{self.name.capitalize() if self.name != 'websocket' else 'WebSocket'} says hello"


PYTHON_APP = ".venv/bin/python"
APPS = [
    App("vite", "npm run dev", 5173, "src/app.jsx", hot=True),
    App("next", "npm run dev", 3000, "app/page.js", hot=True, memory=1536),
    App("express", "npm start", 3000, "index.js"),
    App("websocket", "npm start", 8080, "index.js"),
    App("django", f"{PYTHON_APP} manage.py runserver", 8000, "templates/home.html"),
    App("flask", f"{PYTHON_APP} app.py", 5000, "app.py"),
    # Streamlit's pages call home unless told not to.
    App("streamlit", f"{PYTHON_APP} -m streamlit run app.py", 8501, "app.py", environment=(("STREAMLIT_BROWSER_GATHER_USAGE_STATS", "false"),)),
]


def lock(name: str) -> Path:
    """What says which packages an app has."""
    node = SOURCES / name / "package-lock.json"
    return node if node.exists() else SOURCES / name / "requirements.txt"


def packages(name: str) -> Path:
    """A tar with the packages of an app: `node_modules` or `site-packages`."""
    recipe = hashlib.sha256(lock(name).read_bytes() + " ".join([*UNUSED, PYTHON, platform.machine()]).encode()).hexdigest()[:16]
    place = CACHE / "apps"
    place.mkdir(parents=True, exist_ok=True)
    packed = place / f"{name}-{recipe}.tar"
    with open(place / f"{name}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        if not packed.exists():
            for old in place.glob(f"{name}-*.tar"):
                old.unlink()
            build = place / f"{name}.new"
            shutil.rmtree(build, ignore_errors=True)
            build.mkdir()
            folder = install_node(name, build) if lock(name).suffix == ".json" else install_python(name, build)
            owner = ["--owner=0", "--group=0", "--sort=name"]
            subprocess.run(["tar", *owner, *UNUSED, "-cf", build / "packed", "-C", build, folder], check=True)
            (build / "packed").rename(packed)
            shutil.rmtree(build)
    return packed


def install_node(name: str, build: Path) -> str:
    for file in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / name / file, build)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "ci", *quiet, "--os=linux", "--libc=glibc"], cwd=build, check=True)
    return "node_modules"


def install_python(name: str, build: Path) -> str:
    """Exactly what the file lists: not what it leaves out on purpose."""
    tags = [f"--platform={kind}_{platform.machine()}" for kind in ("manylinux_2_28", "manylinux_2_17", "manylinux2014")]
    foreign = ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}", *tags]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"]
    subprocess.run([*command, *foreign, "--target", build / "site-packages", "--requirement", lock(name)], check=True)
    return "site-packages"


def sources(name: str) -> bytes:
    """A tar with the app's own files."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for path in sorted((SOURCES / name).rglob("*")):
            if path.is_file() and "node_modules" not in path.parts and "__pycache__" not in path.parts:
                tar.add(path, str(path.relative_to(SOURCES / name)), filter=as_user)
    return written.getvalue()


def as_user(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def upload(client: Client, box: Box, path: str, content) -> None:
    """`content`: bytes, or an open file."""
    size = len(content) if isinstance(content, bytes) else os.fstat(content.fileno()).st_size
    headers = {**box.headers(), "Content-Type": "application/octet-stream", "Content-Length": str(size)}
    response = client.open("POST", f"/files?path={path}&username=user", content, headers)
    answer = response.read()
    assert response.status == 200, (response.status, answer)


def put(client: Client, box: Box, name: str) -> None:
    """An app, installed in a sandbox at `HOME`."""
    upload(client, box, "/tmp/sources.tar", sources(name))
    with packages(name).open("rb") as packed:
        upload(client, box, "/tmp/packages.tar", packed)
    unpack = f"""set -e
mkdir -p {HOME} && cd {HOME}
tar -xf /tmp/sources.tar --no-same-owner
if [ -f requirements.txt ]; then
    python3 -m venv --without-pip .venv
    tar -xf /tmp/packages.tar --no-same-owner -C .venv/lib/python{PYTHON}
else
    tar -xf /tmp/packages.tar --no-same-owner
fi
rm /tmp/sources.tar /tmp/packages.tar"""
    code, said = client.run(box, f"({unpack}) 2>&1")
    assert code == 0, said
