#!/usr/bin/env python3
"""Times builds of a template from a Dockerfile: without cache, unchanged, last file changed. If buildah is installed, it does the same on
the same image, and a shell runs the same commands without any isolation.

usage: bench/builds.py [--count N] [--url URL] [--key KEY]      CABANA=target/release/cabana
"""

import os
import pathlib
import shutil
import subprocess
import tempfile

from measure import Times, options

ROOT = pathlib.Path(__file__).resolve().parent.parent
CABANA = os.environ.get("CABANA", str(ROOT / "target/release/cabana"))
STEPS = 8
COMMAND = "mkdir -p {root}/out && i=0 && while [ $i -lt 200 ]; do echo $i > {root}/out/{step}-$i; i=$((i+1)); done"
DOCKERFILE = "FROM base\nCOPY first /\n" + "".join(
    f"RUN {COMMAND.format(root='', step=step)}\n" for step in range(STEPS)
) + "COPY last /\n"  # fmt: skip


def image(layout: pathlib.Path) -> None:
    """Busybox as an OCI layout, the base of both builders."""
    from images import busybox

    for name, content in busybox().layout("base").items():
        (layout / name).parent.mkdir(parents=True, exist_ok=True)
        (layout / name).write_bytes(content)


class Cabana:
    name = "cabana"

    def __init__(self, chosen, layout):
        self.layout = layout
        self.environment = {**os.environ, "CABANA_API_URL": chosen.url, "CABANA_API_KEY": chosen.key}

    def build(self, directory, no_cache=False):
        command = [CABANA, "template", "build", directory, "--name", f"bench-{os.getpid()}", "--image", f"base={self.layout}"]
        run([*command, *(["--no-cache"] if no_cache else [])], self.environment)

    def close(self):
        run([CABANA, "template", "rm", f"bench-{os.getpid()}"], self.environment)


class Buildah:
    name = "buildah"

    def __init__(self, place, layout):
        # Its overlay driver does not work on every filesystem; btrfs and vfs are alternatives.
        self.flags = ["--root", f"{place}/root", "--runroot", f"{place}/run", "--storage-driver", os.environ.get("STORAGE_DRIVER", "overlay")]
        self.environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
        run(["buildah", *self.flags, "pull", f"oci:{layout}:base"], self.environment)
        listed = subprocess.run(["buildah", *self.flags, "images", "-q"], check=True, capture_output=True, text=True)
        run(["buildah", *self.flags, "tag", listed.stdout.split()[0], "localhost/base"], self.environment)

    def build(self, directory, no_cache=False):
        command = ["buildah", *self.flags, "build", "--layers", "--pull-never", "--tag", "bench"]
        run([*command, *(["--no-cache"] if no_cache else []), directory], self.environment)

    def close(self):
        run(["buildah", *self.flags, "rmi", "--all", "--force"], self.environment)


def run(command, environment):
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


def main():
    chosen = options(__doc__, "rounds", 5)
    times = Times()
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        layout, directory = place / "layout", place / "context"
        image(layout)
        directory.mkdir()
        (directory / "Dockerfile").write_text(DOCKERFILE)
        (directory / "first").write_text("first\n")
        builders = [Cabana(chosen, layout)]
        if shutil.which("buildah"):
            builders.append(Buildah(place / "buildah", layout))
        try:
            for number in range(chosen.count + 1):
                counts = number > 0
                (directory / "last").write_text(f"{number}\n")
                for builder in builders:
                    with times.take(f"{builder.name}: without cache", counts):
                        builder.build(directory, no_cache=True)
                    with times.take(f"{builder.name}: unchanged", counts):
                        builder.build(directory)
                (directory / "last").write_text(f"{number} again\n")
                for builder in builders:
                    with times.take(f"{builder.name}: last file changed", counts):
                        builder.build(directory)
                with times.take("a shell: without cache", counts):
                    for step in range(STEPS):
                        run(["sh", "-c", COMMAND.format(root=place / "bare", step=step)], os.environ)
        finally:
            for builder in builders:
                builder.close()
    peer = {name: name.replace("cabana", "buildah") for name in times.all if name.startswith("cabana")}
    times.show(f"{chosen.count} rounds of {STEPS + 2} steps, milliseconds", peer)


if __name__ == "__main__":
    main()
