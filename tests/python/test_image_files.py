"""Templates from image files, without a registry: `docker save` archives, and OCI layouts as directories and archives."""

import gzip
import json
import os
import subprocess

import pytest

import oci
from building import Builder, context
from images import busybox_layer, image
from oci import Image, Layer
from server import CABANA


def marked(text: str) -> Image:
    """An image that is not in the cache yet."""
    return image([busybox_layer(), Layer.of({"mark": text, "new": os.urandom(8)})], Cmd=["sh"])


@pytest.fixture
def load(builder: Builder):
    """Runs `cabana template import` and expects success; returns the template's name."""

    def run(file, *options: str, name: str | None = None, **how) -> str:
        name = name or builder.name("imported")
        done = builder.cabana("template", "import", str(file), "--name", name, *options, **how)
        assert done.returncode == 0, done
        built = builder.last(name)
        assert built.status == "ready" and done.stdout == f"{name}:{built.id}\n", done
        return name

    return run


def mark(builder: Builder, name: str) -> str:
    return builder.sandbox(name).files.read("/mark", user="root")


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
def test_what_docker_save_writes(load, builder, tmp_path, pack):
    file = tmp_path / "app.tar"
    file.write_bytes(pack(oci.archive(marked("saved").saved("app:v1"))))
    assert mark(builder, load(file)) == "saved"


def test_from_a_pipe(load, builder, tmp_path):
    file = tmp_path / "app.tar"
    file.write_bytes(oci.archive(marked("piped").saved("app:v1")))
    with subprocess.Popen(["cat", file], stdout=subprocess.PIPE) as save:
        assert mark(builder, load("-", stdin=save.stdout)) == "piped"


def test_layouts(load, builder, tmp_path):
    files = marked("laid out").layout("v1")
    directory = context(tmp_path / "layout", **files)
    packed = tmp_path / "layout.tar"
    packed.write_bytes(oci.archive(files))
    assert mark(builder, load(directory)) == "laid out"
    # The same image in another form: nothing is unpacked twice.
    again = load(packed)
    assert mark(builder, again) == "laid out" and "unpacking" not in builder.last(again).log


def test_one_of_several(load, builder, tmp_path):
    one, two = marked("one").layout("one"), marked("two").layout("two")
    index = json.loads(one["index.json"])
    index["manifests"] += json.loads(two["index.json"])["manifests"]
    file = tmp_path / "both.tar"
    file.write_bytes(oci.archive({**one, **two, "index.json": json.dumps(index).encode()}))
    assert mark(builder, load(file, "--pick", "two")) == "two"
    name = builder.name("unclear")
    done = builder.cabana("template", "import", str(file), "--name", name)
    assert done.returncode == 1 and "say which of one, two" in done.stderr, done.stderr
    assert builder.last(name).status == "error"


def test_a_build_on_top(builder, tmp_path):
    """`FROM` a name that refers to a file, in every spelling; the image's own directory and environment apply."""
    file = tmp_path / "base.tar"
    base = image([busybox_layer(), Layer.of({"srv": None, "mark": os.urandom(8).hex()})], Env=["A=1", "PATH=/bin"], WorkingDir="/srv")
    file.write_bytes(oci.archive(base.saved("acme/base:1")))
    text = "FROM docker.io/acme/base:latest AS one\nRUN pwd > /seen; echo $A >> /seen\nFROM acme/base\nCOPY --from=one /seen /\n"
    name = builder.name("on-top")
    builder.build(context(tmp_path / "context", Dockerfile=text), name, "--image", f"acme/base={file}")
    assert builder.sandbox(name).files.read("/seen", user="root") == "/srv\n1\n"


def test_invalid_image_files(builder, tmp_path):
    """Each is refused with a clear error, and leaves nothing for the next build."""
    whole = marked("good")
    good = whole.layout("v1")
    spoilt = dict(good)
    layer = f"blobs/sha256/{oci.digest(whole.layers[1].packed).removeprefix('sha256:')}"
    spoilt[layer] = good[layer][:-9] + bytes([good[layer][-9] ^ 1]) + good[layer][-8:]
    cases = {
        "text": (b"hello", "not a tar archive"),
        "empty": (oci.archive({"readme": b"nothing"}), "neither an index.json"),
        "spoilt": (oci.archive(spoilt), "corrupt"),
        "missing": (oci.archive({name: what for name, what in good.items() if name != layer}), "missing"),
    }
    for case, (content, reason) in cases.items():
        file = tmp_path / f"{case}.tar"
        file.write_bytes(content)
        done = builder.cabana("template", "import", str(file), "--name", builder.name(case))
        assert done.returncode == 1 and reason in done.stderr, (case, done.stderr)
    file = tmp_path / "good.tar"
    file.write_bytes(oci.archive(good))
    name = builder.name("good")
    assert builder.cabana("template", "import", str(file), "--name", name).returncode == 0
    assert mark(builder, name) == "good"
    missing = builder.cabana("template", "import", str(tmp_path / "none.tar"))
    assert missing.returncode == 1 and "none.tar" in missing.stderr, missing


def test_missing_image_uploads(builder):
    """The API names the problem before anything is started."""
    wanted = builder.ask("POST", "/v3/templates", {"name": builder.name("api")}).json
    start = f"/v2/templates/{wanted['templateID']}/builds/{wanted['buildID']}"
    for images, reason in [
        ({"app": "0" * 64}, "not uploaded"),
        ({"Not A Name": "0" * 64}, "images"),
        ({f"a{n}": "0" * 64 for n in range(17)}, "at most 16"),
    ]:
        answer = builder.ask("POST", start, {"fromImage": "app", "images": images})
        assert answer.status == 400 and reason in answer.json["message"], answer.body
    answer = builder.ask("POST", start, {"fromTemplate": "base", "images": {"app": "0" * 64}})
    assert answer.status == 400


def test_nothing_is_piped_in():
    done = subprocess.run([CABANA, "template", "import", "-"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 1 and "--name" in done.stderr, done
