"""Templates from images of registries on loopback: open, with a password, with tokens, by a mirror. And failing registries: every
pull ends in time with a reason, and wrong data is never cached, so that the same build works when the registry has recovered."""

import base64
import os
import time
from pathlib import Path

import pytest
import requests
from e2b import BuildException, Sandbox, Template

from building import Builder, context
from images import ARCHITECTURE, busybox, busybox_layer, image
from oci import Layer, link
from registry import PASSWORD, USER
from waiting import within

# No test waits longer for a registry that does not respond; the server's configuration has a shorter timeout (images.py).
BOUND = 60


@pytest.fixture
def template(builder: Builder, well, tmp_path):
    """Builds `FROM image` with a step that proves that it runs."""

    def build(reference: str, name: str | None = None) -> str:
        name = name or builder.name("image")
        directory = context(tmp_path / name, Dockerfile=f"FROM {reference}\nRUN echo ran as $(id -u) > /ran\n")
        builder.build(directory, name)
        return name

    return build


def read(builder: Builder, name: str, path: str = "/ran") -> str:
    return builder.sandbox(name).files.read(path, user="root")


def test_open_registry(template, builder, registries):
    registries.has("library/busybox", "team/busybox:v1")
    assert read(builder, template(f"{registries.open.host}/team/busybox:v1")) == "ran as 0\n"


def test_by_digest(template, builder, registries):
    exact = registries.push("team/exact", "1", busybox())
    name = template(f"{registries.open.host}/team/exact@{exact}")
    registries.open.asked.clear()
    template(f"{registries.open.host}/team/exact@{exact}", name)
    assert not registries.open.blobs(), "what is there is not fetched again; only whether it may still be had is asked"


def test_a_tag_that_moves(template, builder, registries):
    """A tag is resolved at each build; only new blobs are downloaded."""
    # Blobs are cached between runs: both must be new.
    moving = lambda text: image([busybox_layer(), Layer.of({"mark": text, "new": os.urandom(8)})])
    registries.push("team/moving", "1", moving("one"))
    name = template(f"{registries.open.host}/team/moving:1")
    assert read(builder, name, "/mark") == "one"
    registries.push("team/moving", "1", moving("two"))
    registries.open.asked.clear()
    template(f"{registries.open.host}/team/moving:1", name)
    assert read(builder, name, "/mark") == "two"
    assert len(registries.open.blobs()) == 2, ("the new layer and its configuration", registries.open.asked)


def test_mirror(template, builder, registries):
    """A host that does not exist, and the host of names without one, both by their mirror."""
    registries.has("library/busybox", "library/busybox:1")
    for reference in ("registry.test/library/busybox:1", "busybox", "docker.io/library/busybox:latest"):
        registries.mirror.asked.clear()
        assert read(builder, template(reference)) == "ran as 0\n"
        assert registries.mirror.asked, reference


def test_layers_take_away(template, builder, registries):
    registries.has("team/layered:1")
    sandbox = builder.sandbox(template(f"{registries.open.host}/team/layered:1"))
    read = lambda path: sandbox.files.read(path, user="root")
    exists = lambda path: sandbox.files.exists(path, user="root")
    assert not exists("/d/a") and read("/d/b") == "2" and read("/to-b") == "2"
    assert not exists("/opaque/old") and read("/opaque/new") == "2"
    assert read("/gone") == "3" and read("/kind/inside") == "3" and read("/dir") == "now a file"
    assert not [entry.name for entry in sandbox.files.list("/", user="root") if entry.name.startswith(".wh.")]


def test_image_of_another_machine(template, builder, registries, tmp_path):
    mine, other = busybox(), image([busybox_layer(), Layer.of({"mark": "other"})])
    other.architecture = "s390x"
    registries.push_index("team/many", "1", {ARCHITECTURE: mine, "s390x": other})
    sandbox = builder.sandbox(template(f"{registries.open.host}/team/many:1"))
    assert not sandbox.files.exists("/mark", user="root")
    registries.push_index("team/other", "1", {"s390x": other})
    done, _ = builder.fail(context(tmp_path, Dockerfile=f"FROM {registries.open.host}/team/other:1\n"), builder.name())
    assert "s390x" in done.err, done.err


def test_image_defaults(builder, registries, server, tmp_path):
    """User, directory and environment of the image are the template's. Its command and health check apply only if the Dockerfile mentions
    them: most images run a shell or an interpreter, which a sandbox does not need."""
    registries.has("team/service:1")
    base = f"FROM {registries.open.host}/team/service:1\n"
    client = server.client()
    for more, serves in (("", False), ('CMD ["-p", "8080", "-h", "/srv/"]\n', True)):
        name = builder.name("service")
        builder.build(context(tmp_path, Dockerfile=base + more), name)
        box = client.create(name)
        try:
            said = requests.get(server.url, headers=box.headers(8080), timeout=20)
            assert (said.text == "served by the image\n") is serves, said.text
            process = {"cmd": "/bin/sh", "args": ["-c", "pwd; id -un; echo $GREETING"]}
            output = b""
            for message in client.stream(box, "process.Process/Start", {"process": process, "stdin": False}):
                output += base64.b64decode(message["event"].get("data", {}).get("stdout", ""))
            assert output.decode().splitlines() == ["/srv", "nobody", "hello from the image"]
        finally:
            client.kill(box)
    client.close()


def test_minimal_debian_image(builder, registries, internet, tmp_path):
    """It contains only `apt`: the sandbox's user and a shell are added, and packages can be installed."""
    registries.has("library/debian:12")
    name = builder.name("debian")
    text = "FROM debian:12\nRUN apt-get update && apt-get install -y --no-install-recommends bc && rm -rf /var/lib/apt/lists/*\n"
    builder.build(context(tmp_path, Dockerfile=text), name)
    sandbox = builder.sandbox(name)
    assert sandbox.commands.run("echo '6*7' | bc").stdout == "42\n"
    sandbox.files.write("/tmp/file", "content")
    assert sandbox.commands.run("cat /tmp/file; whoami", user="root").stdout == "contentroot\n"


# Authentication


def test_password(builder, registries, log):
    def build(**credentials) -> str:
        name = builder.name("private")
        Template.build(
            Template()
            .from_image(f"{registries.closed.host}/team/private:1", **credentials)
            .run_cmd("echo built > /built", user="root"),
            name,
        )
        return name

    name = build(username=USER, password=PASSWORD)
    assert read(builder, name, "/built") == "built\n"
    for wrong in ({}, {"username": USER, "password": "guess"}, {"username": "who", "password": PASSWORD}):
        with pytest.raises(BuildException) as caught:
            build(**wrong)
        assert registries.closed.host in str(caught.value) and "team/private" in str(caught.value), caught.value
        assert "credentials" in str(caught.value) or "password" in str(caught.value), caught.value
        assert "guess" not in str(caught.value) and PASSWORD not in str(caught.value)
    assert PASSWORD not in builder.server.log.read_text(), "passwords are not logged"
    status = builder.last(name)
    assert PASSWORD not in status.log


def test_cached_private_layers_stay_private(builder, registries):
    """Layers are cached, but that does not bypass the password: another team, or the same without it, gets nothing."""
    reference = f"{registries.closed.host}/team/private:1"
    name = builder.name("opened")
    Template.build(Template().from_image(reference, USER, PASSWORD).run_cmd("true", user="root"), name)
    with pytest.raises(BuildException):
        Template.build(Template().from_image(reference).run_cmd("true", user="root"), builder.name("closed"))


def test_tokens(builder, registries, tmp_path):
    registries.has("public/busybox:1", "team/busybox:v1")
    name = builder.name("tokens")
    builder.build(context(tmp_path, Dockerfile=f"FROM {registries.tokens.host}/public/busybox:1\nRUN true\n"), name)
    Template.build(
        Template().from_image(f"{registries.tokens.host}/team/busybox:v1", USER, PASSWORD).run_cmd("true", user="root"),
        name,
    )
    with pytest.raises(BuildException, match="team/busybox"):
        Template.build(
            Template().from_image(f"{registries.tokens.host}/team/busybox:v1").run_cmd("true", user="root"), name
        )


# Failing registries

# Fault → part of the reason.
FAULTS = {"refuse": "access", "fail": "500", "spoil": "corrupt", "shorten": "", "silence": ""}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault, builder, well, tmp_path, figures):
    made = image([busybox_layer(), Layer.of({"mark": f"{fault} {tmp_path}"})])
    well.push(f"faulty/{fault}", "1", made)
    directory = context(tmp_path, Dockerfile=f"FROM {well.open.host}/faulty/{fault}:1\nRUN echo built > /built\n")
    name = builder.name(fault)
    well.open.fail(fault)
    started = time.monotonic()
    done, build = builder.fail(directory, name)
    within(BOUND, started, f"a build whose registry has the fault {fault}")
    figures.append(f"registry with fault {fault}: build failed after {time.monotonic() - started:.1f} s")
    assert well.open.met.is_set()
    assert build.status == "error" and build.reason["step"] == "base", build
    for text in (done.err, build.reason["message"]):
        assert well.open.host in text and FAULTS[fault] in text, text
    well.open.mend()
    builder.build(directory, name)
    assert read(builder, name, "/mark") == f"{fault} {tmp_path}"
    assert read(builder, name, "/built") == "built\n"


@pytest.mark.parametrize("fault", ["drip", "break"])
def test_slow_is_not_broken(fault, builder, well, tmp_path):
    """Nor is a broken connection: the rest is requested."""
    well.push(f"faulty/{fault}", "1", image([busybox_layer(), Layer.of({"mark": f"{fault} {tmp_path}"})]))
    well.open.fail(fault)
    name = builder.name(fault)
    builder.build(context(tmp_path, Dockerfile=f"FROM {well.open.host}/faulty/{fault}:1\n"), name)
    assert read(builder, name, "/mark") == f"{fault} {tmp_path}"


def test_failing_mirror_is_skipped(builder, well, tmp_path):
    """The next one is tried: here, the host itself, which does not exist. The reason names it, not only the mirror."""
    well.has("library/busybox:1")
    well.mirror.fail("fail")
    done, _ = builder.fail(
        context(tmp_path, Dockerfile="FROM registry.test/library/busybox:1\n"), builder.name("mirror")
    )
    assert "registry.test" in done.err, done.err


def test_missing_images(builder, registries, tmp_path):
    registries.has("team/busybox:v1")
    for reference in (f"{registries.open.host}/team/busybox:v9", f"{registries.open.host}/team/nothing"):
        done, build = builder.fail(context(tmp_path, Dockerfile=f"FROM {reference}\n"), builder.name("missing"))
        assert reference.split("/", 1)[1].split(":")[0] in done.err and "not in the registry" in done.err, done.err
        assert build.reason["step"] == "base"


@pytest.mark.parametrize(
    "reference", ["127.0.0.1:1/x", "localhost/x", "169.254.169.254/x", "[::1]:5000/x", "10.0.0.1/x"]
)
def test_private_addresses_are_not_contacted(reference, builder, tmp_path):
    """Only hosts that the operator named may have private addresses."""
    started = time.monotonic()
    done, _ = builder.fail(context(tmp_path, Dockerfile=f"FROM {reference}\n"), builder.name("inside"))
    within(10, started, "the refusal")
    assert "internal" in done.err or "not the name of an image" in done.err or "private" in done.err, done.err


def test_hostile_layers(builder, registries, tmp_path):
    """Layers that try to write outside of the root filesystem are refused."""
    tricks = {
        "climb": {"../../escaped": "1"},
        "absolute": {"/escaped": "1"},
        "through": {"out": link("out", "/"), "out/escaped-here": "1"},
        "hard": {"passwd": link("passwd", "../../../etc/passwd", hard=True)},
    }
    for name, entries in tricks.items():
        registries.push(f"hostile/{name}", "1", image([busybox_layer(), Layer.of(entries)]))
        directory = context(tmp_path / name, Dockerfile=f"FROM {registries.open.host}/hostile/{name}:1\n")
        done = builder.attempt(directory, template := builder.name("hostile"))
        if done.code == 0:
            # Accepted, but inside: the name is resolved from the root.
            sandbox = builder.sandbox(template)
            assert isinstance(sandbox, Sandbox) and sandbox.files.exists("/bin/busybox", user="root")
        else:
            assert done.code == 1 and "refused" in done.err, done
    for place in ("/escaped", "/escaped-here", str(builder.server.data / "escaped")):
        assert not Path(place).exists(), place
