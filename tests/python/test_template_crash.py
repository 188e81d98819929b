"""The server is killed during a build. Afterwards the build has failed with that reason, nothing of it is left, and finished steps are cached."""

import re
import subprocess
import time

import pytest
from e2b import Sandbox

from building import Builder, context
from images import busybox_layer, image
from oci import Layer
from server import CABANA
from waiting import eventually, within


@pytest.fixture
def restarted(server):
    """Ensures that the server runs again after the test."""
    yield
    if server.process is None or server.process.poll() is not None:
        server.process = None
        server.start()


def doctor(builder: Builder) -> None:
    """The machine matches the store."""

    def clean() -> bool:
        done = subprocess.run(
            [CABANA, "doctor", "--check"], env=builder.environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return True

    eventually(clean, within=15, every=0.5, what="`cabana doctor --check` finds nothing")


FILES = "FROM base\nRUN echo {mark} > /mark; dd if=/dev/zero of=/big bs=1M count=20 status=none\nCOPY file /file\nRUN echo waiting for {mark}; {wait}\n"


def test_killed_in_a_step(builder: Builder, server, tmp_path, restarted, world, figures):
    name = builder.name("crash")
    directory = context(tmp_path, Dockerfile=FILES.format(mark=name, wait="sleep 600"), file="content")
    process = builder.start(directory, name)
    begun = builder.says(name, f"waiting for {name}")
    assert [step.text.split()[0] for step in begun.steps][-1] == "RUN"
    server.crash()
    started = time.monotonic()
    server.start()
    figures.append(f"restart after kill -9 in a build: {time.monotonic() - started:.2f} s")
    _, err = process.communicate(timeout=60)
    assert process.returncode not in (0, 101), err

    ended = builder.ended(begun.template, begun.id, within=20)
    assert ended.status == "error" and re.search(r"server|interrupted|restart", ended.reason["message"]), ended.reason
    assert f"waiting for {name}" in ended.log, "its log is kept"
    with pytest.raises(Exception):
        Sandbox.create(name)
    doctor(builder)

    context(tmp_path, Dockerfile=FILES.format(mark=name, wait="true"))
    again = builder.build(directory, name)
    assert [step.cached for step in again.steps if step.text.startswith(("RUN", "COPY"))] == [True, True, False], (
        again.log
    )
    assert builder.sandbox(name).files.read("/mark") == f"{name}\n"


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.5, 1.0])
def test_killed_at_any_time(delay, builder: Builder, server, tmp_path, restarted):
    """At any time: the build has ended one way or the other, the current build of the template still works, and nothing is left over."""
    name = builder.name("any")
    text = f"FROM base\nRUN echo {name} > /version\n"
    builder.build(context(tmp_path, Dockerfile=text + "RUN echo 1 >> /version\n"), name)
    before = builder.last(name).id
    process = builder.start(
        context(tmp_path, Dockerfile=text + f"RUN echo {delay} >> /version\nRUN echo end >> /version\n"), name
    )
    time.sleep(delay)
    server.crash()
    server.start()
    process.communicate(timeout=60)
    rows = builder.builds(name)
    for row in rows:
        status = builder.ended(builder.details(name).json["templateID"], row["buildID"], within=20)
        assert status.status in ("ready", "error")
    current = builder.tags(name)["default"]
    version = builder.sandbox(name).files.read("/version").split()
    assert version == ([name, "1"] if current == before else [name, str(delay), "end"]), (current, before, version)
    doctor(builder)
    builder.build(tmp_path, name)
    assert builder.sandbox(name).files.read("/version").split() == [name, str(delay), "end"]


def test_killed_in_a_pull(builder: Builder, server, well, tmp_path, restarted):
    well.push("crash/pull", "1", image([busybox_layer(), Layer.of({"mark": str(tmp_path)})]))
    name = builder.name("pull")
    well.open.fail("silence")
    process = builder.start(context(tmp_path, Dockerfile=f"FROM {well.open.host}/crash/pull:1\n"), name)
    assert well.open.met.wait(30)
    server.crash()
    well.open.mend()
    server.start()
    process.communicate(timeout=60)
    assert builder.ended(builder.details(name).json["templateID"], builder.builds(name)[0]["buildID"]).status == "error"
    doctor(builder)
    builder.build(tmp_path, name)
    assert builder.sandbox(name).files.read("/mark", user="root") == str(tmp_path)


def test_stop_during_build(builder: Builder, server, tmp_path, restarted):
    """A graceful stop does not wait for a long build."""
    name = builder.name("stopped")
    process = builder.start(context(tmp_path, Dockerfile=f"FROM base\nRUN echo waiting for {name}; sleep 600\n"), name)
    begun = builder.says(name, f"waiting for {name}")
    started = time.monotonic()
    server.stop()
    within(20, started, "the end of a server that builds")
    process.communicate(timeout=60)
    server.start()
    assert builder.ended(begun.template, begun.id, within=20).status == "error"
    doctor(builder)


def test_tags_outlive_the_server(builder: Builder, server, tmp_path, restarted):
    name = builder.name("tags")
    builder.build(context(tmp_path, Dockerfile="FROM base\nRUN echo 1 > /version\n"), f"{name}:v1")
    builder.build(context(tmp_path, Dockerfile="FROM base\nRUN echo 2 > /version\n"), name)
    assert builder.ask("POST", "/templates/tags", {"target": f"{name}:v1", "tags": ["default", "kept"]}).status == 201
    server.crash()
    server.start()
    assert builder.tags(name)["default"] == builder.tags(name)["kept"] == builder.tags(name)["v1"]
    assert builder.sandbox(name).files.read("/version") == "1\n"
