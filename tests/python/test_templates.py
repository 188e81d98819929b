"""Templates from SDK code: every method of the Python SDK's builder, synchronous and asynchronous, and errors of failed builds."""

import asyncio
import inspect
import os
import re
import time
import traceback
from pathlib import Path

import pytest
import requests
from e2b import (
    AsyncTemplate,
    BuildException,
    Sandbox,
    Template,
    TemplateException,
    default_build_logger,
    wait_for_file,
    wait_for_port,
    wait_for_process,
    wait_for_timeout,
    wait_for_url,
)
from e2b.exceptions import FileUploadException, SandboxException
from e2b.template.logger import LogEntry, LogEntryEnd, LogEntryStart
from e2b.template.types import TemplateBuildStatus

from building import Builder, context
from registry import PASSWORD, USER


@pytest.fixture(params=[Template, AsyncTemplate], ids=["sync", "async"])
def kind(request, server):
    return request.param


async def done(answer):
    return await answer if inspect.isawaitable(answer) else answer


def shown(sandbox: Sandbox, command: str) -> list[str]:
    return sandbox.commands.run(command, user="root").stdout.splitlines()


@pytest.fixture
def files(tmp_path) -> Path:
    """Files to copy."""
    context(
        tmp_path,
        **{
            "one.txt": "one",
            "two.txt": "two",
            "run.sh": "#!/bin/sh\necho ran\n",
            "tree/inner/deep.txt": "deep",
            "tree/top.txt": "top",
            "tree/skipped.log": "log",
            "other/file name": "spaces",
            ".dockerignore": "**/*.log\n",
        },
    )
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "tree/private").write_text("private")
    (tmp_path / "tree/private").chmod(0o600)
    (tmp_path / "tree/link").symlink_to("inner/deep.txt")
    (tmp_path / "tree/empty").mkdir()
    return tmp_path


async def test_copy(kind, builder: Builder, files):
    template = (
        kind(file_context_path=files)
        .from_template("base")
        .copy("one.txt", "/home/user/renamed.txt")
        .copy("one.txt", "into/")
        .copy("tree", "/srv/tree", user="root")
        .copy("run.sh", "/usr/local/bin/run", user="root", mode=0o711)
        .copy(["one.txt", "two.txt"], "/srv/both/", user="user:root", mode=0o640)
        .copy("*.txt", "/srv/glob/", gzip=False)
        .copy("tree/link", "/srv/kept")
        .copy("tree/link", "/srv/followed", resolve_symlinks=True)
        .copy("other", "/srv/tree", force_upload=True)
        .copy_items(
            [{"src": "one.txt", "dest": "/srv/item", "mode": 0o600}, {"src": ["two.txt"], "dest": "/srv/items/"}]
        )
    )
    name = builder.name("copy")
    await done(kind.build(template, name))
    sandbox = builder.sandbox(name)
    assert sandbox.files.read("renamed.txt") == "one" and sandbox.files.read("into/one.txt") == "one"
    assert shown(sandbox, "stat -c '%U:%G %a' /home/user/renamed.txt /home/user/into") == [
        "user:user 644",
        "user:user 755",
    ]
    assert shown(sandbox, "cd /srv/tree && find . | sort") == [
        ".", "./empty", "./file name", "./inner", "./inner/deep.txt", "./link", "./private", "./top.txt",
    ]  # fmt: skip
    assert shown(sandbox, "stat -c '%U %a' /srv/tree/private /usr/local/bin/run; readlink /srv/tree/link") == [
        "root 600", "root 711", "inner/deep.txt",
    ]  # fmt: skip
    assert shown(sandbox, "cd /srv/both && stat -c '%n %U:%G %a' *") == [
        "one.txt user:root 640",
        "two.txt user:root 640",
    ]
    assert shown(sandbox, "ls /srv/glob /srv/items; stat -c %a /srv/item") == [
        "/srv/glob:",
        "one.txt",
        "two.txt",
        "",
        "/srv/items:",
        "two.txt",
        "600",
    ]
    assert shown(sandbox, "readlink /srv/kept/link /srv/kept; stat -c %F /srv/followed; run") == [
        "inner/deep.txt",
        "regular file",
        "ran",
    ]


async def test_copy_patterns(kind, builder: Builder, files):
    """A pattern fills a directory, also without a slash at its end, and keeps the directories below its fixed part."""
    template = (
        kind(file_context_path=files)
        .from_template("base")
        .copy("*.txt", "/srv/flat")
        .copy("tree/*", "/srv/tree")
        .copy("tree/**/*.txt", "/srv/deep")
        .copy("tree/inn*", "/srv/one")
        .copy("run.*", "/srv/single")
        .copy("other/../tree/empty", "/srv/empty")
    )
    name = builder.name("patterns")
    await done(kind.build(template, name))
    sandbox = builder.sandbox(name)
    for directory, expected in {
        "flat": ["one.txt", "two.txt"],
        "tree": ["empty", "inner", "inner/deep.txt", "link", "private", "top.txt"],
        "deep": ["inner", "inner/deep.txt", "top.txt"],
        "one": ["inner", "inner/deep.txt"],
        "single": ["run.sh"],
        "empty": [],
    }.items():
        found = shown(sandbox, f"cd /srv/{directory} && find . -mindepth 1 -printf '%P\\n' | sort")
        assert found == expected, directory
    assert shown(sandbox, "stat -c '%U %a' /srv/flat /srv/tree/private") == ["user 755", "user 600"]


async def test_steps(kind, builder: Builder):
    template = (
        kind()
        .from_template("base")
        .set_envs({"ONE": "1"})
        .set_envs({"PATHS": "$HOME/x:${ONE}", "QUOTED": 'it\'s "so"'})
        .run_cmd(["whoami > who", "pwd > where", 'echo "$ONE $PATHS $QUOTED" > envs'])
        .run_cmd("whoami > /root/who", user="root")
        .run_cmd("set -o pipefail; false | true || echo piped > bash")
        .set_workdir("/srv/app")
        .run_cmd("pwd > where; stat -c %U . >> where")
        .set_workdir("inner")
        .make_dir("made", mode=0o750)
        .make_dir([Path("a b"), "c"])
        .run_cmd("echo content > file")
        .rename("file", "moved")
        .make_symlink("moved", "link")
        .make_symlink("made", "link", force=True)
        .make_dir("/opt/tool", user="root")
        .run_cmd("touch x y z")
        .remove("x")
        .remove(["y", "z", "missing"], force=True)
        .remove("/opt/tool", recursive=True, user="root")
        .set_user("newcomer")
        .run_cmd("whoami > ~/who; echo $HOME >> ~/who")
        .set_envs({"LAST": "word"})
    )
    name = builder.name("steps")
    await done(kind.build(template, name))
    sandbox = builder.sandbox(name)
    assert shown(sandbox, "cd /home/user; cat who where envs bash") == [
        "user",
        "/home/user",
        '1 /home/user/x:1 it\'s "so"',
        "piped",
    ]
    assert shown(sandbox, "cat /root/who; cat /srv/app/where") == ["root", "/srv/app", "user"]
    assert shown(sandbox, "cd /srv/app/inner; ls; stat -c %a made; cat moved; readlink link; ls /opt") == [
        "a b", "c", "link", "made", "moved", "750", "content", "made",
    ]  # fmt: skip
    # The last value applies to commands.
    assert sandbox.commands.run("whoami; pwd; echo $ONE $LAST; cat ~/who").stdout.split() == [
        "newcomer", "/srv/app/inner", "1", "word", "newcomer", "/home/newcomer",
    ]  # fmt: skip


def test_packages(builder: Builder, internet, files):
    """Starts with the same steps as the test of the JS SDK (packages.test.mjs), so that packages are fetched once."""
    context(files, **{"package.json": '{"name":"p","version":"1.0.0","dependencies":{"ms":"2.1.3"}}'})
    template = (
        Template(file_context_path=files)
        .from_base_image()
        .apt_install(["bc"], no_install_recommends=True)
        .pip_install("six==1.17.0")
        .npm_install("left-pad@1.3.0", g=True)
        .pip_install(["idna==3.11"], g=False)
        .copy("package.json", "/home/user/app/")
        .set_workdir("/home/user/app")
        .npm_install()
    )
    name = builder.name("packages")
    Template.build(template, name)
    sandbox = builder.sandbox(name)
    code = "import six, idna; print(six.__version__, idna.__file__.startswith('/home/user'))"
    assert sandbox.commands.run(f'python3 -c "{code}"').stdout == "1.17.0 True\n"
    assert sandbox.commands.run(
        'echo 6*7 | bc; npm ls -g | grep -c left-pad; node -p \'require("ms")("1m")\''
    ).stdout.split() == ["42", "1", "60000"]


async def test_git_clone(kind, builder: Builder):
    """From a repository made by an earlier step: no network is needed."""
    make = "git init -q -b main /tmp/origin && cd /tmp/origin && git config user.email a@b && git config user.name n && git commit -q --allow-empty -m first"
    template = (
        kind()
        .from_template("base")
        .run_cmd(make)
        .git_clone("file:///tmp/origin", "/home/user/clone", branch="main", depth=1)
    )
    name = builder.name("git")
    await done(kind.build(template, name))
    assert shown(builder.sandbox(name), "git -c safe.directory='*' -C /home/user/clone log --format=%s") == ["first"]


async def test_skip_cache(kind, builder: Builder):
    name, mark = builder.name("cache"), os.urandom(4).hex()

    def template(skip: bool):
        start = kind().from_template("base").run_cmd(f"echo {mark}; date +%s%N > ~/first")
        start = start.skip_cache() if skip else start
        return start.run_cmd("date +%s%N > ~/second")

    async def build(skip: bool, **options) -> list[str]:
        await done(kind.build(template(skip), name, **options))
        return shown(builder.sandbox(name), "cat /home/user/first /home/user/second")

    first = await build(False)
    assert await build(False) == first
    partly = await build(True)
    assert partly[0] == first[0] and partly[1] != first[1], "from there on everything is done again"
    wholly = await build(False, skip_cache=True)
    assert wholly[0] not in (first[0], partly[0]) and wholly[1] not in (first[1], partly[1])
    # `Template().skip_cache()` before the image applies to all steps.
    again = (
        kind()
        .skip_cache()
        .from_template("base")
        .run_cmd(f"echo {mark}; date +%s%N > ~/first")
        .run_cmd("date +%s%N > ~/second")
    )
    await done(kind.build(again, name))
    assert shown(builder.sandbox(name), "cat /home/user/first")[0] not in (first[0], wholly[0])


SERVE = "mkdir -p /tmp/www && cd /tmp/www && touch up && python3 -m http.server 8000"
READY = {
    "port": wait_for_port(8000),
    "url": wait_for_url("http://localhost:8000/up"),
    "process": wait_for_process("python3"),
    "file": wait_for_file("/tmp/www/up"),
    "timeout": wait_for_timeout(1000),
    "command": "curl -fs http://localhost:8000/up",
}


@pytest.mark.parametrize("check", READY)
def test_start_and_ready(check, builder: Builder, server):
    name = builder.name(check)
    Template.build(Template().from_template("base").set_start_cmd(SERVE, READY[check]), name)
    sandbox = builder.sandbox(name)
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
    if check in ("port", "url", "command"):
        # The ready command itself proves that it responds.
        assert requests.get(server.url + "/up", headers=headers, timeout=10).status_code == 200
    assert shown(sandbox, "ps -o user= -C python3 | sort -u") == ["user"], "it runs as the user of the template"


async def test_ready_alone(kind, builder: Builder):
    """Without a start command the ready command checks the template itself."""
    name = builder.name("ready")
    await done(
        kind.build(
            kind().from_template("base").run_cmd("touch ~/there").set_ready_cmd(wait_for_file("/home/user/there")), name
        )
    )
    assert builder.sandbox(name).files.exists("there")


async def test_start_command_sees_what_was_set(kind, builder: Builder):
    start = "(whoami; pwd; echo $SET) > /tmp/seen; sleep infinity"
    template = kind().from_template("base").set_envs({"SET": "value"}).set_user("root").set_workdir("/srv/w")
    name = builder.name("start")
    await done(kind.build(template.set_start_cmd(start, wait_for_file("/tmp/seen")), name))
    sandbox = builder.sandbox(name)
    assert sandbox.files.read("/tmp/seen").split() == ["root", "/srv/w", "value"]
    assert shown(sandbox, "pgrep -c -x sleep") == ["1"]


async def test_tags(kind, builder: Builder):
    name = builder.name("tags")
    template = lambda version: kind().from_template("base").run_cmd(f"echo {version} > ~/version")
    version = lambda reference: builder.sandbox(reference).files.read("version").strip()
    first = await done(kind.build(template("one"), f"{name}:v1"))
    with pytest.raises(SandboxException):
        Sandbox.create(name)  # the tag `default`, which a build with another tag does not get
    second = await done(kind.build(template("two"), name, tags=["v2", "stable", "default"]))
    assert second.build_id != first.build_id and second.template_id == first.template_id
    assert set(second.tags) == {"v2", "stable", "default"}
    tags = {tag.tag: tag.build_id for tag in await done(kind.get_tags(name))}
    assert (tags["v1"], tags["v2"], tags["stable"], tags["default"]) == (first.build_id, *[second.build_id] * 3)
    assert [version(f"{name}:{tag}") for tag in ("v1", "v2", "stable", "default")] == ["one", "two", "two", "two"]
    assert version(name) == "two" and version(second.template_id) == "two"

    # Roll back to the first one: tags are moved, nothing is built.
    moved = await done(kind.assign_tags(f"{name}:v1", ["stable", "default"]))
    assert moved.build_id == first.build_id and set(moved.tags) >= {"stable", "default"}
    assert version(name) == version(f"{name}:stable") == "one" and version(f"{name}:v2") == "two"
    await done(kind.assign_tags(f"{name}:v2", "latest"))
    await done(kind.remove_tags(name, ["v1", "stable"]))
    await done(kind.remove_tags(name, "latest"))
    assert {tag.tag for tag in await done(kind.get_tags(second.template_id))} == {"default", "v2"}
    with pytest.raises(SandboxException):
        Sandbox.create(f"{name}:v1")
    for target, tag in (
        (f"{name}:nope", "x"),
        ("no-such-template", "x"),
        (f"{name}:", "x"),
        (":x", "y"),
        (name, "Not A Tag"),
    ):
        with pytest.raises(TemplateException):
            await done(kind.assign_tags(target, tag))
    assert await done(kind.exists(name)) is True and await done(kind.alias_exists(f"{name}-not")) is False


async def test_from_template(kind, builder: Builder):
    """Continues from the other template, and keeps its base when that is rebuilt."""
    parent, child = builder.name("parent"), builder.name("child")
    begun = (
        kind()
        .from_template("base")
        .set_envs({"FROM": "parent"})
        .set_workdir("/srv/p")
        .set_user("root")
        .run_cmd("echo 1 > file")
    )
    await done(kind.build(begun, f"{parent}:v1"))
    await done(kind.build(kind().from_template(f"{parent}:v1").run_cmd("whoami > who; echo $FROM >> who"), child))
    sandbox = builder.sandbox(child)
    assert sandbox.commands.run("pwd; cat file who").stdout.split() == ["/srv/p", "1", "root", "parent"]
    with pytest.raises(BuildException, match="no-such-template"):
        await done(kind.build(kind().from_template("no-such-template").run_cmd("true"), builder.name("orphan")))


async def test_from_dockerfile(kind, builder: Builder, files):
    text = """FROM e2bdev/base
ENV NAME=value
WORKDIR /app
COPY one.txt ./
RUN cat one.txt > two && echo $NAME >> two
USER user
"""
    name = builder.name("dockerfile")
    await done(kind.build(kind(file_context_path=files).from_dockerfile(text), name))
    sandbox = builder.sandbox(name)
    assert sandbox.commands.run("whoami; pwd; cat two").stdout == "user\n/app\nonevalue\n"


async def test_from_image(kind, builder: Builder, registries):
    registries.has("team/busybox:v1")
    name = builder.name("image")
    await done(
        kind.build(
            kind().from_image(f"{registries.open.host}/team/busybox:v1").run_cmd("echo $((6*7)) > /made", user="root"),
            name,
        )
    )
    assert builder.sandbox(name).files.read("/made", user="root") == "42\n"
    private = kind().from_image(f"{registries.closed.host}/team/private:1", username=USER, password=PASSWORD)
    await done(kind.build(private.run_cmd("echo private > /made", user="root"), name))
    assert builder.sandbox(name).files.read("/made", user="root") == "private\n"


async def test_resources(kind, builder: Builder):
    name = builder.name("size")
    await done(
        kind.build(
            kind().from_template("base").run_cmd("nproc > ~/cpus"),
            name,
            cpu_count=1,
            memory_mb=512,
            min_free_disk_mb=2048,
        )
    )
    info = builder.sandbox(name).get_info()
    assert (info.cpu_count, info.memory_mb) == (1, 512)
    assert builder.details(name).json["diskSizeMB"] >= 2048


# Build logs and status


async def test_logs(kind, builder: Builder):
    name, entries = builder.name("logs"), []
    # Cached steps have no output: the name makes it new.
    numbers = f"for i in $(seq 1 250); do echo line $i; done; echo {name} to stderr >&2; printf '\\033[31mred\\033[0m\\n'"
    info = await done(
        kind.build(
            kind().from_template("base").run_cmd(numbers).run_cmd("echo second"), name, on_build_logs=entries.append
        )
    )
    assert isinstance(entries[0], LogEntryStart) and isinstance(entries[-1], LogEntryEnd)
    assert all(isinstance(entry, LogEntry) and entry.level in ("debug", "info", "warn", "error") for entry in entries)
    text = "\n".join(entry.message for entry in entries)
    at = [text.index(f"line {n}\n") for n in (1, 100, 101, 250)]
    assert at == sorted(at), "more than a page, in order"
    assert len(re.findall(r"line \d+$", text, re.M)) == 250, "nothing twice"
    assert f"{name} to stderr" in text and "red" in text and "\x1b" not in text
    assert text.index("second") > at[-1]
    stamps = [entry.timestamp for entry in entries if entry.timestamp.tzinfo]
    assert stamps == sorted(stamps)
    status = await done(kind.get_build_status(info, logs_offset=100))
    assert (
        status.status == TemplateBuildStatus.READY
        and status.log_entries
        and status.log_entries[0].message != entries[0].message
    )
    assert len((await done(kind.get_build_status(info, logs_offset=10_000))).log_entries) == 0


def test_the_sdks_own_logger(builder: Builder, capsys):
    Template.build(
        Template().from_template("base").run_cmd("echo heard"),
        builder.name("logger"),
        on_build_logs=default_build_logger(),
    )
    assert "heard" in capsys.readouterr().out


async def test_in_background(kind, builder: Builder):
    name = builder.name("background")
    template = (
        kind()
        .from_template("base")
        .run_cmd("echo begun; while [ ! -e /tmp/never ] && [ $SECONDS -lt 3 ]; do sleep 0.1; done")
    )
    info = await done(kind.build_in_background(template, name, tags=["later"]))
    assert info.template_id and re.fullmatch(r"[0-9a-f-]{36}", info.build_id)
    seen: list[TemplateBuildStatus] = []
    async with asyncio.timeout(60):
        while not seen or seen[-1] in (TemplateBuildStatus.BUILDING, TemplateBuildStatus.WAITING):
            status = await done(kind.get_build_status(info))
            seen.append(status.status)
            await asyncio.sleep(0.1)
    assert TemplateBuildStatus.BUILDING in seen and seen[-1] == TemplateBuildStatus.READY
    assert builder.sandbox(f"{name}:later").is_running()


def failing(kind, files: Path, step: str):
    """A template one of whose steps fails; each is on a line that says so."""
    template = (
        kind(file_context_path=files).from_image("127.0.0.1:1/no/such:1")
        if step == "base"
        else kind(file_context_path=files).from_template("base")
    )
    template = template.run_cmd("echo first")
    template = template.copy("one.txt", "/srv/one.txt" if step != "copy" else "/etc/passwd/one.txt")  # fails: copy
    template = template.copy(["one.txt", "two.txt"], "/srv/")
    template = template.run_cmd("echo about to; exit 7" if step == "command" else "true")  # fails: command
    template = template.run_cmd("whoami", user="root123" if step == "user" else "user")  # fails: user
    template = template.run_cmd("echo last")
    return template.set_start_cmd("sleep infinity", "exit 0" if step != "finalize" else "nothing-of-that-name")


@pytest.mark.parametrize("step", ["base", "copy", "command", "user"])
async def test_failures_point_to_the_step(kind, step, builder: Builder, files):
    name = builder.name("failing")
    with pytest.raises(BuildException) as caught:
        await done(kind.build(failing(kind, files, step), name))
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert frame.filename == __file__ and frame.name == "failing", frame
    assert ("from_image" if step == "base" else f"# fails: {step}") in frame.line, frame.line
    message = str(caught.value)
    if step == "user":
        assert message.startswith(
            "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'"
        ), message
    elif step == "command":
        assert "exit 7" in message and "about to" in message, message
    build = builder.last(name)
    assert build.status == "error" and build.reason["message"] in message
    assert "last" not in [entry["message"] for entry in build.entries], "what follows is not run"
    with pytest.raises(SandboxException):
        Sandbox.create(name)


async def test_a_failed_build_leaves_the_last_good_one(kind, builder: Builder):
    name = builder.name("kept")
    good = await done(kind.build(kind().from_template("base").run_cmd("echo good > ~/state"), name))
    with pytest.raises(BuildException):
        await done(kind.build(kind().from_template("base").run_cmd("echo bad > ~/state; exit 1"), name))
    assert builder.sandbox(name).files.read("state") == "good\n"
    assert builder.tags(name)["default"] == good.build_id
    rows = builder.builds(name)
    assert [row["status"] for row in rows] == ["error", "ready"]


async def test_missing_files(kind, builder: Builder, files):
    """The SDK itself checks files before the upload."""
    with pytest.raises((ValueError, FileUploadException, TemplateException), match="no-such-file"):
        await done(
            kind.build(
                kind(file_context_path=files).from_template("base").copy("no-such-file", "/srv/"),
                builder.name("missing"),
            )
        )


@pytest.mark.parametrize("name", ["Bad Name", "a/b/c", "", "name:", ":tag", "x" * 300, "ünicode"])
async def test_bad_names(kind, name, server):
    with pytest.raises((BuildException, TemplateException, ValueError)):
        await done(kind.build(kind().from_template("base"), name))


async def test_bad_resources(kind, builder: Builder):
    for options in ({"cpu_count": 3000}, {"cpu_count": 0}, {"memory_mb": 1}, {"memory_mb": 1 << 30}):
        with pytest.raises(BuildException, match="400"):
            await done(kind.build(kind().from_template("base"), builder.name("bad"), **options))


def test_uploads_are_deduplicated(builder: Builder, files):
    """An existing file is not uploaded again, by any template."""
    said: list[str] = []
    place = f"/srv/{os.urandom(4).hex()}"  # part of the upload's hash
    template = lambda: Template(file_context_path=files).from_template("base").copy("one.txt", place)
    Template.build(template(), builder.name("first"), on_build_logs=lambda entry: said.append(entry.message))
    assert any("Uploaded" in line for line in said), said
    said.clear()
    started = time.monotonic()
    Template.build(template(), builder.name("second"), on_build_logs=lambda entry: said.append(entry.message))
    assert any("already cached" in line for line in said), said
    assert time.monotonic() - started < 5
