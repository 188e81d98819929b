"""Templates by the two command lines: `cabana template …`, and E2B's own with only a key."""

import json
import os
import re
import subprocess

import pytest
from e2b import Sandbox

from building import Builder, context
from images import busybox
from registry import PASSWORD, USER
from server import ROOT

E2B = ROOT / "tests/js/node_modules/.bin/e2b"


@pytest.fixture
def cabana(builder: Builder):
    """Runs `cabana template …` and expects success."""

    def run(*arguments: str, **options) -> str:
        done = builder.cabana("template", *arguments, **options)
        assert done.returncode == 0, done
        return done.stdout

    return run


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_build_output(builder: Builder, tmp_path):
    """Progress is on stderr; output for scripts is on stdout."""
    name = builder.name("said")
    done = builder.attempt(context(tmp_path, Dockerfile="FROM base\nRUN echo something to see\n"), name)
    assert done.code == 0, done
    assert "something to see" in done.err and "RUN echo" in done.err
    assert builder.last(name).id in done.out or name in done.out or builder.last(name).template in done.out, done.out
    assert len(done.out.splitlines()) == 1, "one line, so that it can be used in another command"
    again = builder.attempt(tmp_path, name)
    assert re.search("cached", again.err, re.I), again.err


def test_build_options(builder: Builder, tmp_path, server):
    name = builder.name("options")
    serve = ("--start", "python3 -m http.server 8000", "--ready", "curl -fs http://127.0.0.1:8000")
    sizes = ("--cpu", "1", "--memory", "512", "--disk", "2G")
    builder.build(context(tmp_path, Dockerfile="FROM base\n"), name, "--tag", "v1", "--tag", "v2", *serve, *sizes)
    details = builder.details(name).json
    assert (details["cpuCount"], details["memoryMB"], details["diskSizeMB"]) == (1, 512, 2048)
    assert {"v1", "v2"} <= set(builder.tags(name))
    sandbox = builder.sandbox(f"{name}:v2")
    assert "http.server" in sandbox.commands.run("pgrep -af http.server").stdout


def test_detached_build(builder: Builder, cabana, tmp_path):
    """With --detach it does not wait; the printed name always refers to this build."""
    name = builder.name("detached")
    text = "FROM base\nRUN echo begun; sleep 1; echo {n} > /version\n"
    first = cabana("build", str(context(tmp_path, Dockerfile=text.format(n=name))), "--name", name, "--detach").strip()
    assert first.startswith(f"{name}:"), first
    assert builder.last(name).status in ("waiting", "building")
    assert builder.ended(builder.last(name).template, first.partition(":")[2]).status == "ready"
    builder.build(context(tmp_path, Dockerfile="FROM base\nRUN echo 2 > /version\n"), name)
    assert builder.sandbox(first).files.read("/version") == f"{name}\n"
    assert builder.sandbox(name).files.read("/version") == "2\n"


def test_the_password_of_a_registry(builder: Builder, registries, tmp_path):
    """From the environment or standard input; never an argument, which others on the machine could read."""
    directory = context(tmp_path, Dockerfile=f"FROM {registries.closed.host}/team/private:1\nRUN true\n")
    build = lambda *options, **how: builder.cabana(
        "template", "build", str(directory), "--name", builder.name("registry"), "--registry-user", USER, *options, **how
    )
    by_environment = build(env={**builder.environment, "CABANA_REGISTRY_PASSWORD": PASSWORD})
    by_input = build("--registry-password-stdin", input=f"{PASSWORD}\n")
    for done in (by_environment, by_input):
        assert done.returncode == 0 and PASSWORD not in done.stdout + done.stderr, done
    wrong = build("--registry-password-stdin", input="guess\n")
    assert wrong.returncode == 1 and "team/private" in wrong.stderr and "guess" not in wrong.stderr, wrong


def test_pull(builder: Builder, registries, well):
    """A template from an image by its name alone, which also names the template."""
    image = builder.name("pulled")
    registries.push(f"team/{image}", "v1.2", busybox())
    pull = lambda *arguments, **how: builder.cabana("template", "pull", *arguments, **how)
    done = pull(f"{registries.open.host}/team/{image}:v1.2")
    assert done.returncode == 0 and done.stdout == f"{image}:{builder.last(image).id}\n", done
    assert builder.sandbox(f"{image}:v1.2").commands.run("echo up", user="root").stdout == "up\n"
    named = builder.name("named")
    assert pull(f"{registries.open.host}/team/{image}:v1.2", "--name", named).returncode == 0
    assert set(builder.tags(named)) == {"default"}

    private = (f"{registries.closed.host}/team/private:1", "--name", builder.name("private"))
    login = ("--registry-user", USER, "--registry-password-stdin")
    assert pull(*private, *login, input=f"{PASSWORD}\n").returncode == 0
    for arguments, said in [
        ((*private, *login), "there is no password for"),
        (private, "user name and password"),
        ((f"{registries.open.host}/team/{image}:none", "--name", builder.name("none")), f"team/{image}:none"),
        (("Not an image",), "Not an image"),
        (("x\nRUN true",), "image"),
    ]:
        done = pull(*arguments, input="")
        assert done.returncode == 1 and said in done.stderr, done


def test_ls(builder: Builder, cabana, tmp_path):
    name = builder.name("listed")
    builder.build(context(tmp_path, Dockerfile="FROM base\n"), name)
    listed = {names: row for row in rows(cabana("ls")) for names in row[1].split(",")}
    assert listed[name][2] == "ready" and "base" in listed
    shown = json.loads(cabana("ls", "--json"))
    assert name in {alias for row in shown for alias in row["aliases"]}


def test_tags_and_going_back(builder: Builder, cabana, tmp_path):
    name = builder.name("tagged")
    for version in ("1", "2"):
        builder.build(context(tmp_path, Dockerfile=f"FROM base\nRUN echo {version} > /version\n"), f"{name}:v{version}")
    cabana("tag", f"{name}:v1", "stable", "default")
    assert builder.sandbox(name).files.read("/version") == "1\n"
    assert builder.sandbox(f"{name}:v2").files.read("/version") == "2\n"
    done = builder.cabana("template", "tag", f"{name}:v9", "x")
    assert done.returncode == 1 and "v9" in done.stderr, done
    cabana("untag", name, "stable", "v2")
    assert set(builder.tags(name)) == {"v1", "default"}


def test_network(builder: Builder, cabana, tmp_path, api):
    """The preset of a template applies to its new sandboxes."""
    name = builder.name("network")
    builder.build(context(tmp_path, Dockerfile="FROM base\n"), name)

    def preset() -> str:
        return api.get(f"/sandboxes/{builder.sandbox(name).sandbox_id}/network").json["preset"]

    assert (cabana("network", name), preset()) == ("default\n", "internet")
    cabana("network", name, "none")
    assert (cabana("network", name), preset()) == ("none\n", "none")
    cabana("network", name, "default")
    assert (cabana("network", name), preset()) == ("default\n", "internet")


def test_sudo(builder: Builder, cabana, tmp_path, api):
    """A template takes set-uid programs their privileges; its builds keep them, and a creation does not get them back."""
    name = builder.name("sudo")
    builder.build(context(tmp_path, Dockerfile="FROM base\n"), name)
    script = "grep NoNewPrivs /proc/self/status; sudo -n id -u; su -c 'id -u' root < /dev/null; python3 -c 'print(6 * 7)'"

    def said(*arguments: str) -> list[str]:
        return builder.cabana("run", "--template", name, "--user", "user", *arguments, "--", "sh", "-c", script).stdout.split()

    def works(said: list[str]) -> bool:
        assert said[-1] == "42" and said[:2] in (["NoNewPrivs:", "0"], ["NoNewPrivs:", "1"]), said
        assert (said[1] == "0") == ("0" in said[2:]), said
        return said[1] == "0"

    assert cabana("sudo", name) == "on\n" and works(said())
    assert not works(said("--no-new-privileges"))
    cabana("sudo", name, "off")
    assert cabana("sudo", name) == "off\n" and not works(said())
    made = api.request("POST", "/v2/sandboxes", {"templateID": name, "timeout": 60, "noNewPrivileges": False})
    assert made.status == 201, made.body
    sandbox = Sandbox.connect(made.json["sandboxID"])
    assert "NoNewPrivs:\t1" in sandbox.commands.run("grep NoNewPrivs /proc/self/status").stdout
    sandbox.kill()
    builder.build(context(tmp_path, Dockerfile="FROM base\nUSER user\nRUN sudo -n touch /made\n"), name)
    assert not works(said())
    cabana("sudo", name, "on")
    assert works(said())


def test_rm(builder: Builder, cabana, tmp_path):
    names = [builder.name("removed") for _ in range(2)]
    for name in names:
        builder.build(context(tmp_path, Dockerfile="FROM base\n"), name)
    assert cabana("rm", *names).split() == names
    assert not {alias for row in json.loads(cabana("ls", "--json")) for alias in row["aliases"]} & {*names}
    done = builder.cabana("template", "rm", names[0])
    assert done.returncode == 1 and names[0] in done.stderr, done


def test_base_template_cannot_be_deleted(builder: Builder, tmp_path):
    """It cannot be deleted or rebuilt."""
    done = builder.cabana("template", "rm", "base")
    assert done.returncode == 1 and "base" in done.stderr, done
    assert builder.details("base").status == 200
    builder.build(context(tmp_path, Dockerfile="FROM base\n"), builder.name("after"))


def test_logs(builder: Builder, cabana, tmp_path):
    name = builder.name("logged")
    builder.build(context(tmp_path, Dockerfile="FROM base\nRUN echo said in the first\n"), name)
    first = builder.last(name).id
    builder.fail(context(tmp_path, Dockerfile="FROM base\nRUN echo said in the second; exit 3\n"), name)
    assert "said in the second" in cabana("logs", name), "the newest, also where it has failed"
    assert "said in the first" in cabana("logs", name, "--build", first)
    done = builder.cabana("template", "logs", "no-such-template")
    assert done.returncode == 1 and "no-such-template" in done.stderr, done


def test_init(builder: Builder, cabana, tmp_path):
    """Its output can be built."""
    place = tmp_path / "fresh"
    cabana("init", str(place))
    assert (place / "Dockerfile").exists() and (place / ".dockerignore").exists()
    again = builder.cabana("template", "init", str(place))
    assert again.returncode == 1 and "Dockerfile" in again.stderr, "what is there is not overwritten"
    builder.build(place, builder.name("fresh"))


def test_the_name_of_the_directory(builder: Builder, tmp_path):
    """The default name is that of the directory."""
    name = builder.name("dir")
    directory = context(tmp_path / name, Dockerfile="FROM base\n")
    done = builder.cabana("template", "build", ".", cwd=directory)
    assert done.returncode == 0, done
    assert builder.last(name).status == "ready"


def test_a_context_with_everything(builder: Builder, tmp_path):
    """Names, links, modes and large files are copied exactly."""
    directory = context(
        tmp_path, **{"Dockerfile": "FROM base\nCOPY . /all/\n", "with space/ž.txt": "1", "run": "#!/bin/sh\necho ran\n"}
    )
    (directory / "run").chmod(0o755)
    (directory / "link").symlink_to("with space/ž.txt")
    (directory / "dangling").symlink_to("/nowhere")
    (directory / "big").write_bytes(os.urandom(1 << 20) * 8)
    (directory / "deep").mkdir()
    (directory / "deep/x").mkdir(mode=0o700)
    name = builder.name("context")
    builder.build(directory, name)
    sandbox = builder.sandbox(name)
    shown = sandbox.commands.run(
        "cd /all; ./run; cat link; readlink dangling; stat -c %s big; stat -c %a deep/x"
    ).stdout.split()
    assert shown == ["ran", "1/nowhere", str(8 << 20), "700"]


# E2B's own


@pytest.fixture
def e2b(builder: Builder):
    """E2B's command line in an empty home directory, so that no personal configuration applies."""

    def run(*arguments: str, **options) -> subprocess.CompletedProcess:
        options = {
            "env": builder.environment,
            "capture_output": True,
            "text": True,
            "timeout": 180,
            "stdin": subprocess.DEVNULL,
            **options,
        }
        return subprocess.run([E2B, "template", *arguments], **options)

    return run


def test_e2b_create_list_publish_delete(builder: Builder, e2b, tmp_path):
    name = builder.name("e2b")
    text = "FROM e2bdev/base\nCOPY file.txt /home/user/\nRUN echo built > /home/user/built\n"
    directory = context(tmp_path, **{"e2b.Dockerfile": text, "file.txt": "content"})
    done = e2b(
        "create",
        name,
        "-p",
        str(directory),
        "-c",
        "sleep infinity",
        "--ready-cmd",
        "true",
        "--cpu-count",
        "1",
        "--memory-mb",
        "512",
    )
    assert done.returncode == 0, done
    sandbox = builder.sandbox(name)
    assert sandbox.files.read("file.txt") == "content" and sandbox.files.read("built") == "built\n"
    listed = json.loads(e2b("list", "--format", "json").stdout)
    (row,) = [row for row in listed if name in row.get("aliases", [])]
    assert row["cpuCount"] == 1 and name in e2b("list").stdout
    sandbox.kill()

    assert builder.details(name).json["public"] is False
    assert e2b("publish", "-y", row["templateID"]).returncode == 0
    assert builder.details(name).json["public"] is True
    assert e2b("unpublish", "-y", row["templateID"]).returncode == 0
    assert builder.details(name).json["public"] is False
    done = e2b("delete", "-y", row["templateID"])
    assert done.returncode == 0, done
    assert builder.details(name).status == 404


def test_e2b_create_fails(builder: Builder, e2b, tmp_path):
    done = e2b(
        "create",
        builder.name("e2b"),
        "-p",
        str(context(tmp_path, Dockerfile="FROM e2bdev/base\nRUN echo the reason; exit 9\n")),
    )
    assert done.returncode != 0 and "the reason" in done.stdout + done.stderr, done
