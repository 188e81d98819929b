"""Failing builds: their errors, and what is left. An error names the step, its last lines, how it ended, and what to do."""

import hashlib
import io
import json
import os
import re
import signal
import tarfile
import threading
import time
from pathlib import Path

import pytest
import requests
from e2b import Sandbox

from building import Builder, context
from waiting import eventually, within


def hint(err: str) -> str:
    """The hint after the error."""
    found = re.search(r"^hint: (.+)", err, re.M)
    assert found, f"no hint in:\n{err}"
    return found[1]


def test_a_failing_command(builder: Builder, tmp_path):
    text = "FROM base\nRUN echo fine\nRUN for i in $(seq 1 60); do echo out $i; done; echo the reason >&2; exit 42\nRUN echo never\n"
    done, build = builder.fail(context(tmp_path, Dockerfile=text), builder.name("exit"))
    assert "line 3" in done.err or "step 2" in done.err or "2/3" in done.err, done.err
    assert "42" in done.err and "the reason" in done.err and "out 60" in done.err
    told = re.findall(r"^\W*(?:\d+ )?out (\d+)$", build.reason["message"], re.M)
    assert [int(n) for n in told] == list(range(61 - len(told), 61)) and 15 <= len(told) <= 20, "the last twenty lines"
    assert build.status == "error" and build.reason["step"] == "2", build.reason
    assert "never" not in [entry["message"] for entry in build.entries]
    assert "out 1" in build.log.splitlines(), "the log has all of it"


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("no-such-program --version", "127"),
        ("pip install no-such-package-of-anybody==0", "pip|package"),
        ("apt-get install -y no-such-package-of-anybody", "apt-get update"),
        ("touch /root/x && su nobody -s /bin/sh -c 'touch /root/y'", "USER|permission"),
    ],
    ids=["missing", "pip", "apt", "permission"],
)
def test_hints(run, said, builder: Builder, internet, tmp_path):
    done, build = builder.fail(context(tmp_path, Dockerfile=f"FROM base\nRUN {run}\n"), builder.name("hint"))
    assert re.search(said, done.err), done.err
    assert hint(done.err)
    assert build.reason["step"] == "1"


def test_killed_by_a_signal(builder: Builder, tmp_path):
    done, _ = builder.fail(context(tmp_path, Dockerfile="FROM base\nRUN kill -9 $$\n"), builder.name("signal"))
    assert re.search(r"signal|killed|137", done.err), done.err


def test_out_of_memory(builder: Builder, tmp_path):
    eat = 'FROM base\nRUN python3 -c "x = bytearray(1 << 30); x[::4096] = bytes([1]) * len(x[::4096])"\n'
    done, build = builder.fail(context(tmp_path, Dockerfile=eat), builder.name("memory"), "--memory", "256")
    assert "memory" in done.err and "memory" in hint(done.err), done.err
    assert build.reason["step"] == "1"


def test_full_disk(builder: Builder, tmp_path):
    fill = "FROM base\nRUN head -c 3G /dev/zero > /fill\n"
    started = time.monotonic()
    done, build = builder.fail(context(tmp_path, Dockerfile=fill), builder.name("full"), "--disk", "256")
    within(90, started, "a build that fills its disk")
    assert "No space left" in done.err or "Disk quota" in done.err, done.err
    assert "disk" in hint(done.err), done.err
    assert build.reason["step"] == "1"
    client = builder.server.client()
    box = client.create()
    assert client.run(box, "echo fine") == (0, "fine\n"), "other sandboxes are not affected"
    client.kill(box)
    client.close()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("FROM base\nRUN true\nFROBNICATE x\n", 3, "FROBNICATE"),
        ("FROM base\n\n# comment\nCOPY missing.txt /x\n", 4, "missing.txt"),
        ("FROM base\nCOPY *.nothing /x/\n", 2, r"\*\.nothing"),
        ("RUN true\n", 1, "FROM"),
        ("FROM base\nCOPY ../outside /x\n", 2, "outside"),
        ("FROM base\nADD https://registry.test/file /x\n", 2, "ADD"),
        ("FROM base\nRUN --mount=type=secret,id=x cat /run/secrets/x\n", 2, "secret"),
        ("FROM base\nENV\n", 2, "ENV"),
        ("FROM base\nCOPY --from=nothing.test/never /a /b\nUSER a b\n", 3, "USER"),
        ("FROM base\nRUN cat <<EOF\nnever ends\n", 2, "EOF"),
        ("FROM base\nCOPY Dockerfile /etc/passwd/x\n", 2, "passwd"),
        ("FROM base\nWORKDIR /etc/passwd/x\n", 2, "passwd"),
        ("FROM $NOTHING\n", 1, "NOTHING"),
        ("", 1, "FROM"),
    ],
    ids=lambda value: value.split("\n")[1][:20] if isinstance(value, str) and "\n" in value else "",
)
def test_invalid_dockerfiles(text, line, said, builder: Builder, tmp_path):
    """Refused before anything runs, or when the step runs, with the line."""
    (tmp_path / "outside").write_text("secret")
    started = time.monotonic()
    done = builder.attempt(context(tmp_path / "context", Dockerfile=text), builder.name("refused"))
    within(15, started, "the refusal")
    assert done.code == 1 and re.search(rf"line {line}\b", done.err) and re.search(said, done.err), done


def test_invalid_contexts(builder: Builder, tmp_path):
    for directory, said in ((tmp_path / "nothing", "nothing"), (context(tmp_path / "empty"), "Dockerfile")):
        done = builder.attempt(directory, builder.name("context"))
        assert done.code in (1, 2) and said in done.err, done


# Over the wire: requests that no SDK sends


@pytest.fixture
def ordered(builder: Builder):
    """A template with a waiting build."""

    def order(stem: str = "wire") -> tuple[str, str]:
        answer = builder.ask("POST", "/v3/templates", {"name": builder.name(stem)})
        assert answer.status == 202, answer.body
        return answer.json["templateID"], answer.json["buildID"]

    return order


def begin(builder: Builder, template: str, build: str, **fields):
    body = {"fromTemplate": "base", "steps": [], "force": False, **fields}
    return builder.ask("POST", f"/v2/templates/{template}/builds/{build}", body)


@pytest.mark.parametrize(
    "steps",
    [
        [{"type": "DANCE", "args": []}],
        [{"type": "RUN", "args": []}],
        [{"type": "COPY", "args": ["a"], "filesHash": "0" * 64}],
        [{"type": "COPY", "args": ["a", "/b", "", ""]}],
        [{"type": "COPY", "args": ["a", "/b", "", "99999"], "filesHash": "0" * 64}],
        [{"type": "ENV", "args": ["odd"]}],
        [{"type": "ENV", "args": ["A=B", "x"]}],
        [{"type": "WORKDIR", "args": [""]}],
        [{"type": "USER", "args": ["a\nb"]}],
        [{"type": "RUN", "args": ["x\0y"]}],
        [{"type": "RUN", "args": ["true"]}] * 5000,
        "steps",
    ],
    ids=lambda steps: str(steps)[:40],
)
def test_bad_steps(steps, builder: Builder, ordered):
    template, build = ordered()
    answer = begin(builder, template, build, steps=steps)
    if answer.status == 202:
        # Known only when it is tried, but known.
        assert builder.ended(template, build).status == "error"
    else:
        assert answer.status in (400, 413, 422) and answer.json["message"] and answer.json["code"] == answer.status, (
            answer.body
        )


def test_a_build_starts_once(builder: Builder, ordered):
    template, build = ordered()
    assert begin(builder, template, build, steps=[{"type": "RUN", "args": ["sleep 1"]}]).status == 202
    again = begin(builder, template, build, steps=[{"type": "RUN", "args": ["echo other"]}])
    assert again.status in (400, 409), again.body
    assert builder.ended(template, build).status == "ready"
    other = "00000000-0000-4000-8000-000000000000"
    assert begin(builder, template, other).status == 404
    assert builder.ask("GET", f"/templates/{template}/builds/{other}/status").status == 404


def archive(*entries: tuple[str, str, str]) -> bytes:
    """A tar file of (kind, name, content or target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for kind, name, value in entries:
            entry = tarfile.TarInfo(name)
            if kind == "file":
                entry.size = len(value)
                tar.addfile(entry, io.BytesIO(value.encode()))
            else:
                entry.type, entry.linkname = (
                    {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "device": tarfile.CHRTYPE}[kind],
                    value,
                )
                tar.addfile(entry)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "upload",
    [
        b"",
        b"not an archive at all",
        archive(("file", "a", "1"))[:-20],
        archive(("file", "../../escaped-upload", "1")),
        archive(("file", "/escaped-upload", "1")),
        archive(("link", "a", "/"), ("file", "a/escaped-upload", "1")),
        archive(("hard", "a", "/etc/shadow")),
        archive(("device", "a", "")),
        archive(("link", "a", "/etc/shadow")),
    ],
    ids=["empty", "noise", "cut", "climb", "absolute", "through", "hard", "device", "link"],
)
def test_hostile_uploads(upload, builder: Builder, ordered):
    template, build = ordered("upload")
    hash = hashlib.sha256(upload + os.urandom(8)).hexdigest()
    place = builder.ask("GET", f"/templates/{template}/files/{hash}")
    assert place.status == 201 and place.json["present"] is False, place.body
    put = requests.put(place.json["url"], data=upload, headers=place.json.get("headers") or {})
    step = {"type": "COPY", "args": ["a", "/copied", "", ""], "filesHash": hash, "force": False}
    if put.ok:
        answer = begin(builder, template, build, steps=[step])
        assert answer.status in (202, 400), answer.body
        if answer.status == 202:
            ended = builder.ended(template, build)
            if ended.status == "ready":
                # A link is copied as a link: it leads nowhere but into the template's own files.
                sandbox = builder.sandbox(template)
                assert "root:" not in sandbox.files.read("/etc/hostname") and isinstance(sandbox, Sandbox)
            else:
                assert ended.reason["message"], ended
    else:
        assert 400 <= put.status_code < 500, put.status_code
    for place in (Path("/escaped-upload"), builder.server.data / "escaped-upload"):
        assert not place.exists()


def test_uploads_need_their_place(builder: Builder, ordered):
    template, _ = ordered("place")
    place = builder.ask("GET", f"/templates/{template}/files/{'a' * 64}").json["url"]
    data = archive(("file", "a", "1"))
    for spoilt in (
        place + "x",
        re.sub(r"[0-9a-f]{64}", "b" * 64, place),
        place.split("?")[0] if "?" in place else place + "/..",
    ):
        assert not requests.put(spoilt, data=data).ok, spoilt
    assert builder.ask("GET", f"/templates/{template}/files/..%2F..%2Fkey").status in (400, 404)
    assert builder.ask("GET", f"/templates/{'z' * 20}/files/{'a' * 64}").status == 404


# Concurrent operations


SLOW = "FROM base\nRUN echo {mark} > /mark\nRUN echo waiting for {mark}; sleep 600\n"


def test_deleting_the_template_ends_its_build(builder: Builder, tmp_path, world):
    name = builder.name("deleted")
    process = builder.start(context(tmp_path, Dockerfile=SLOW.format(mark=name)), name)
    builder.says(name, f"waiting for {name}")
    started = time.monotonic()
    builder.forget(name)
    _, err = process.communicate(timeout=20)
    within(15, started, "the end of a build whose template is gone")
    assert process.returncode == 1 and re.search(r"deleted|cancelled|no longer", err), err
    assert builder.details(name).status == 404
    eventually(lambda: not running(f"waiting for {name}"), within=10, what="its step is ended")


def running(command: str) -> list[str]:
    """Processes with this command line anywhere on the machine."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and command in (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(
                errors="replace"
            ):
                found.append(entry.name)
        except OSError:
            pass  # it ended in between
    return found


def test_an_interrupted_command_line_ends_its_build(builder: Builder, tmp_path):
    """Ctrl-C cancels the build, not only the output. Finished steps are cached."""
    name = builder.name("interrupted")
    directory = context(tmp_path, Dockerfile=SLOW.format(mark=name))
    process = builder.start(directory, name)
    begun = builder.says(name, f"waiting for {name}")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err
    ended = builder.ended(begun.template, begun.id, within=15)
    assert ended.status == "error" and "cancelled" in ended.reason["message"], ended
    eventually(lambda: not running(f"waiting for {name}"), within=10, what="its step is ended")
    again = builder.build(context(tmp_path, Dockerfile=SLOW.format(mark=name).replace("sleep 600", "true")), name)
    assert [step.cached for step in again.steps] == [True, False], again.log


def test_a_build_is_cancelled(builder: Builder, tmp_path):
    """By another client than the one that started it."""
    name = builder.name("cancelled")
    process = builder.start(context(tmp_path, Dockerfile=SLOW.format(mark=name)), name)
    begun = builder.says(name, f"waiting for {name}")
    path = f"/v2/templates/{begun.template}/builds/{begun.id}"
    assert builder.ask("DELETE", path).status == 204
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1 and "cancelled" in err, err
    assert builder.status(begun.template, begun.id).status == "error"
    assert builder.ask("DELETE", path).status in (204, 404, 409)


def test_builds_at_the_same_time(builder: Builder, tmp_path, figures):
    """Of different templates and of the same one; each gets its own result."""
    names = [builder.name("many") for _ in range(3)]
    names.append(names[0])
    text = lambda n: f"FROM base\nRUN echo {tmp_path.name} > /shared; sleep 0.5\nRUN echo {n} > /own\n"
    errors: list[str] = []

    def build(n: int) -> None:
        done = builder.attempt(context(tmp_path / str(n), Dockerfile=text(n)), names[n])
        if done.code != 0:
            errors.append(done.err)

    threads = [threading.Thread(target=build, args=(n,)) for n in range(4)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    figures.append(f"4 builds at the same time: {time.monotonic() - started:.1f} s")
    for n in (1, 2):
        assert builder.sandbox(names[n]).files.read("/own") == f"{n}\n"
    assert builder.sandbox(names[0]).files.read("/own") in ("0\n", "3\n")
    assert [row["status"] for row in builder.builds(names[0])] == ["ready", "ready"]


def test_template_in_use_is_not_deleted(builder: Builder, tmp_path):
    name = builder.name("used")
    builder.build(context(tmp_path, Dockerfile="FROM base\nRUN echo 1 > /version\n"), name)
    sandbox = builder.sandbox(name)
    answer = builder.ask("DELETE", f"/templates/{builder.details(name).json['templateID']}")
    assert answer.status in (400, 409) and "sandbox" in answer.json["message"], answer.body
    # It keeps its build, whatever is built later.
    builder.build(context(tmp_path, Dockerfile="FROM base\nRUN echo 2 > /version\n"), name)
    assert sandbox.files.read("/version") == "1\n" and builder.sandbox(name).files.read("/version") == "2\n"


def test_templates_are_private(builder: Builder, tmp_path, api):
    """Build logs and templates belong to the team; a wrong key learns nothing."""
    name = builder.name("mine")
    build = builder.build(context(tmp_path, Dockerfile="FROM base\n"), name)
    for path in (
        f"/templates/{build.template}",
        f"/templates/{build.template}/builds/{build.id}/status",
        f"/templates/{build.template}/tags",
    ):
        assert requests.get(builder.server.url + path, headers={"X-API-KEY": "wrong"}).status_code == 401, path
    assert json.loads(api.get(f"/templates/{build.template}").body)["templateID"] == build.template
