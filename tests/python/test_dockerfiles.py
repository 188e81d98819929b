"""Typical Dockerfiles (tests/dockerfiles): each is built with `cabana template build`, runs, is rebuilt from the cache,
and rebuilt after its last file has changed, when only the steps from there on run."""

import json
import os
import tarfile
import time
from io import BytesIO
from pathlib import Path
from typing import Callable

import pytest
import requests
from e2b import CommandExitException

from building import Builder, context
from waiting import eventually

# The cache is kept between runs: steps that must be new contain a mark of this run.
MARK = os.urandom(4).hex()
HELLO, CHANGED = "hello", f"another greeting {MARK}"


def answer(sandbox, server, port: int) -> requests.Response:
    """Response of the sandbox's port. A ready command has succeeded before the sandbox exists, so there is no need to wait."""
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(port)}
    return requests.get(server.url, headers=headers, timeout=20)


def first_answer(sandbox, server, port: int) -> requests.Response:
    """The same without a ready command: the program may take a moment."""
    said = lambda: (response := answer(sandbox, server, port)).status_code == 200 and response
    return eventually(said, within=20, what=f"port {port} answers")


def flask(sandbox, server, greeting: str) -> None:
    assert answer(sandbox, server, 5000).json() == {"greeting": greeting, "framework": "flask"}
    assert sandbox.commands.run("pwd; echo $PYTHONUNBUFFERED").stdout == "/app\n1\n"


def node(sandbox, server, greeting: str) -> None:
    said = answer(sandbox, server, 3000).json()
    assert said == {"greeting": greeting, "day": 86400000, "uid": 1000, "mode": "production"}
    assert not sandbox.files.exists("/srv/app/node_modules/left-pad"), "NODE_ENV was there at the build"
    assert sandbox.commands.run("whoami; stat -c %U server.js package.json").stdout == "user\nuser\nroot\n"


def cpp(sandbox, server, greeting: str) -> None:
    assert first_answer(sandbox, server, 8080).text.strip() == greeting
    assert "g++" in sandbox.files.read("/etc/toolchain.txt", user="root")
    assert not sandbox.files.exists("/src", user="root"), "the stages before stay behind"
    assert not sandbox.files.exists("/usr/bin/g++", user="root")


def scratch(sandbox, server, greeting: str) -> None:
    assert first_answer(sandbox, server, 8080).text.strip() == greeting
    entries = {entry.name for entry in sandbox.files.list("/", user="root")}
    assert {"main", "data"} <= entries and not entries & {"bin", "usr", "lib"}, entries
    assert sandbox.files.get_info("/data/greeting.txt", user="root").mode == 0o444


def packages(sandbox, server, greeting: str) -> None:
    report = "bc 42\ntree v\nsix 1.17.0 idna xn--de-hra7s\n"
    assert sandbox.commands.run("cat /report.txt; report").stdout == (
        f"{report}{report}" if greeting == HELLO else "changed\n" * 2
    )
    assert sandbox.commands.run("ls /var/lib/apt/lists").stdout == ""


def nonroot(sandbox, server, greeting: str) -> None:
    shown = sandbox.commands.run(
        "whoami; pwd; id -u; cat built-by output.txt; stat -c '%n %U:%G %a' run.sh numbers.txt here ."
    )
    number = sum(int(n) for n in sandbox.files.read("/home/app/work/numbers.txt").split())
    assert shown.stdout.splitlines() == [
        "app",
        "/home/app/work",
        "10001",
        "app",
        f"app:app in /home/app/work sums {number}",
        "run.sh app:app 750",
        "numbers.txt app:root 644",
        "here app:app 644",
        ". app:app 755",
    ]


def heredocs(sandbox, server, greeting: str) -> None:
    read = lambda path: sandbox.files.read(path, user="root")
    assert read("/out/shell") == "hello world\n"
    assert read("/out/python") == "written by python"
    assert read("/out/piped") == "$NAME stays\nand this is expanded: world\n"
    assert read("/etc/app.conf") == "name = world\n"
    assert (read("/out/files/ONE"), read("/out/files/TWO")) == ("kept: $NAME\n", "second\n")
    assert sandbox.files.get_info("/out/files/ONE", user="root").mode == 0o600
    assert read("/out/sorted").splitlines() == sorted(["hello world", read("/out/last").strip()])


def arguments(sandbox, server, greeting: str) -> None:
    values = "1.0|/opt/app-1.0|fallback|yes|$VERSION|$VERSION" if greeting == HELLO else "changed"
    assert sandbox.files.read("/opt/app-1.0/report").splitlines() == [values, "plain 1.0|none"]
    shown = sandbox.commands.run("pwd; echo $APP_VERSION $UNSET; echo ${FLAVOUR:-unset}; tool")
    assert shown.stdout.splitlines() == ["/opt/app-1.0/bin", "1.0 fallback", "unset", values], "ARGs end with the build"


def ignored(sandbox, server, greeting: str) -> None:
    listing = sandbox.files.read("/listing").split()
    there = {
        "/all/kept.tmp",
        "/all/secrets/public.txt",
        "/all/src/sub/two.txt",
        "/all/docs/skip.txt",
        "/all/src/build/kept.o",
        "/all/archive.tar.gz",
    }
    assert there <= set(listing), there - set(listing)
    for name in (
        "Dockerfile",
        "noisy.log",
        "node_modules",
        "key.txt",
        "old.tmp",
        "internal",
        "/all/build",
        ".git",
        ".dockerignore",
    ):
        assert not [path for path in listing if path.endswith(name)], name
    shown = sandbox.commands.run(
        "ls /docs /several; cat /renamed /unpacked/inside/file; readlink /src/link.txt; ls /src"
    )
    assert shown.stdout.split() == "/docs: guide.md notes.md /several: guide.md one.txt".split() + [
        *sandbox.files.read("/all/src/one.txt").split(), "unpacked", "one.txt", *"build link.txt one.txt sub".split(),
    ]  # fmt: skip


def entrypoint(sandbox, server, greeting: str) -> None:
    assert greeting in first_answer(sandbox, server, 9000).text
    assert sandbox.files.read("/var/lib/app/arguments") == "serve\n9000\na b\n$HOME\n"
    assert sandbox.commands.run("whoami; pwd").stdout == "user\n/site\n"


# Name → what it needs of the registry, how to see that it works, the file of its last COPY, and what to put there.
CASES: dict[str, tuple[tuple[str, ...], Callable, str, str]] = {
    "flask": ((), flask, "greeting.txt", CHANGED),
    "node": ((), node, "greeting.json", json.dumps({"greeting": CHANGED})),
    "cpp": (("library/debian:12",), cpp, "greeting.txt", CHANGED),
    "scratch": ((), scratch, "greeting.txt", CHANGED),
    "packages": ((), packages, "report.sh", f"#!/bin/sh\necho changed # {MARK}\n"),
    "nonroot": ((), nonroot, "numbers.txt", f"4\n{int(MARK[:5], 16)}\n"),
    "heredocs": ((), heredocs, "last.txt", f"changed {MARK}\n"),
    "arguments": ((), arguments, "tool.sh", f"#!/bin/sh\necho changed # {MARK}\n"),
    "ignored": ((), ignored, "src/one.txt", f"changed-{MARK}\n"),
    "entrypoint": ((), entrypoint, "page.html", CHANGED),
}


def prepared(builder: Builder, name: str, into: Path) -> Path:
    directory = builder.copied(name, into)
    if name == "ignored":
        # Files that git does not keep.
        context(directory, **{"node_modules/x/index.js": "dep", ".git/HEAD": "ref"})
        with tarfile.open(directory / "archive.tar.gz", "w:gz") as archive:
            entry = tarfile.TarInfo("inside/file")
            entry.size = 9
            archive.addfile(entry, BytesIO(b"unpacked\n"))
    return directory


@pytest.mark.parametrize("case", CASES)
def test_dockerfile(case, builder, server, registries, internet, tmp_path, figures):
    images, check, file, content = CASES[case]
    registries.has(*images)
    directory, name = prepared(builder, case, tmp_path), builder.name(case)
    first = builder.build(directory, name)
    assert first.steps, first.log
    check(builder.sandbox(name), server, HELLO)

    started = time.monotonic()
    again = builder.build(directory, name)
    took = time.monotonic() - started
    assert not again.ran() and [step.text for step in again.steps] == [step.text for step in first.steps], again.log
    assert took < 2, f"an unchanged build took {took:.2f} s:\n{again.log}"
    figures.append(f"Dockerfile {case}: unchanged rebuild {took:.2f} s")

    (directory / file).write_text(content)
    changed = builder.build(directory, name)
    begin = next(i for i, step in enumerate(changed.steps) if copies(step.text, file))
    assert all(step.cached for step in changed.steps[:begin]), changed.log
    assert not any(step.cached for step in changed.steps[begin:]), changed.log
    check(builder.sandbox(name), server, CHANGED)


def copies(step: str, file: str) -> bool:
    """Whether the step copies this file, by name or with a directory."""
    return step.startswith("COPY ") and (Path(file).name in step or step.startswith("COPY . "))


# Not covered by the examples


def test_build_arguments(builder, tmp_path):
    directory, name = builder.copied("arguments", tmp_path), builder.name("arguments")
    builder.build(directory, name, "--build-arg", "VERSION=2.5", "--build-arg", "SECRET_NAME=x")
    sandbox = builder.sandbox(name)
    assert sandbox.files.read("/opt/app-2.5/report").splitlines()[1] == "plain 2.5|x"
    assert sandbox.commands.run("pwd; echo $APP_VERSION").stdout == "/opt/app-2.5/bin\n2.5\n"
    # The same words with other values are other steps.
    other = builder.build(directory, name, "--build-arg", f"VERSION=2.{MARK}")
    assert any(step.text.startswith("RUN") for step in other.steps) and not other.cached(), other.log


def test_target_and_file(builder, tmp_path):
    text = "FROM base AS one\nRUN echo 1 > /one\nFROM one AS two\nRUN echo 2 > /two\nFROM two\nRUN exit 1\n"
    directory, name = context(tmp_path, **{"docker/My.Dockerfile": text}), builder.name("target")
    builder.build(directory, name, "--file", str(directory / "docker/My.Dockerfile"), "--target", "two")
    sandbox = builder.sandbox(name)
    assert sandbox.files.read("/one") + sandbox.files.read("/two") == "1\n2\n"


def test_no_cache(builder, tmp_path):
    directory, name = context(tmp_path, Dockerfile="FROM base\nRUN date +%s%N > /when\n"), builder.name("fresh")
    builder.build(directory, name)
    when = builder.sandbox(name).files.read("/when")
    assert builder.build(directory, name).cached()
    assert builder.sandbox(name).files.read("/when") == when
    assert not builder.build(directory, name, "--no-cache").cached()
    assert builder.sandbox(name).files.read("/when") != when


def test_steps_are_shared_between_templates(builder, tmp_path):
    """The cache key is what a step does: another template with the same first steps reuses them."""
    text = f"FROM base\nRUN echo {MARK} > /same\n"
    builder.build(context(tmp_path / "a", Dockerfile=text), builder.name("a"))
    second = builder.build(context(tmp_path / "b", Dockerfile=text + "RUN echo more > /more\n"), builder.name("b"))
    assert [step.cached for step in second.steps if step.text.startswith("RUN")] == [True, False], second.log


def test_only_what_is_copied_counts(builder, tmp_path):
    """A file that no step copies, times and owners change nothing; content and mode do."""
    directory = context(tmp_path, Dockerfile="FROM base\nCOPY used /used\nRUN ls -l /used\n", used=MARK, unused="1")
    name = builder.name("copied")
    builder.build(directory, name)
    (directory / "unused").write_text("2")
    (directory / "used").touch()
    assert not builder.build(directory, name).ran()
    (directory / "used").chmod(0o600)
    assert any(text.startswith("COPY") for text in builder.build(directory, name).ran())


def test_a_build_runs_like_a_sandbox(builder, tmp_path):
    """Steps are isolated like sandboxes: they see neither the host nor each other's processes, and cannot reach the server."""
    text = f"""FROM base
RUN ! test -e {builder.server.data}
RUN ! curl -s --max-time 5 http://127.0.0.1:{builder.server.port}/health
RUN sleep 1000 & echo started
RUN ! pgrep -x sleep && test $(id -u) = 0 && grep -q 'Seccomp:.*2' /proc/self/status
"""
    builder.build(context(tmp_path, Dockerfile=text), builder.name("isolated"))


def test_a_ready_check_that_never_passes(builder, tmp_path):
    text = "FROM base\nHEALTHCHECK --interval=1s --timeout=1s --retries=2 CMD test -e /never\nCMD echo about to wait; sleep 1000\n"
    started = time.monotonic()
    done, build = builder.fail(context(tmp_path, Dockerfile=text), builder.name("never"))
    assert time.monotonic() - started < 60
    assert "ready" in done.err and "test -e /never" in done.err, done.err
    assert build.reason["step"] == "finalize" and "about to wait" in build.log, build


def test_a_start_command_that_ends_at_once(builder, tmp_path):
    text = "FROM base\nHEALTHCHECK --interval=1s --retries=3 CMD false\nCMD echo no such luck >&2; exit 3\n"
    done, build = builder.fail(context(tmp_path, Dockerfile=text), builder.name("ends"))
    assert "no such luck" in done.err and "3" in done.err, done.err
    assert build.status == "error"


def test_the_start_command_runs_in_every_sandbox(builder, tmp_path, server):
    text = (
        "FROM base\nHEALTHCHECK CMD curl -fs http://127.0.0.1:8000/\nCMD python3 -m http.server 8000 --bind 127.0.0.1\n"
    )
    name = builder.name("serves")
    builder.build(context(tmp_path, Dockerfile=text), name)
    for _ in range(2):
        assert answer(builder.sandbox(name), server, 8000).status_code == 200
    sandbox = builder.sandbox(name)
    sandbox.pause()
    sandbox.connect(timeout=60)
    assert eventually(lambda: answer(sandbox, server, 8000).status_code == 200)
    with pytest.raises(CommandExitException):
        sandbox.commands.run("pgrep -f 'curl -fs'")  # the ready check is over
