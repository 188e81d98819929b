"""Container images made without container tools: layers are archives, the rest is JSON, and pushing is a few HTTP requests."""

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin

import requests

OCI = {
    "manifest": "application/vnd.oci.image.manifest.v1+json",
    "config": "application/vnd.oci.image.config.v1+json",
    "layer": "application/vnd.oci.image.layer.v1.tar+gzip",
}
DOCKER = {
    "manifest": "application/vnd.docker.distribution.manifest.v2+json",
    "config": "application/vnd.docker.container.image.v1+json",
    "layer": "application/vnd.docker.image.rootfs.diff.tar.gzip",
}
INDEX = "application/vnd.oci.image.index.v1+json"


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Layer:
    """One layer: entries by path. A value is the content of a file, `None` for a directory, or a prepared `TarInfo`."""

    def __init__(self, plain: bytes):
        self.plain_digest = digest(plain)
        self.packed = gzip.compress(plain, 1, mtime=0)

    @classmethod
    def of(cls, entries: dict[str, bytes | str | None | tarfile.TarInfo]) -> "Layer":
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for name, what in entries.items():
                if isinstance(what, tarfile.TarInfo):
                    archive.addfile(what)
                    continue
                entry = tarfile.TarInfo(name)
                content = what.encode() if isinstance(what, str) else what
                entry.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
                entry.mode = 0o755 if content is None or content[:2] == b"#!" or content[:4] == b"\x7fELF" else 0o644
                entry.size = len(content or b"")
                archive.addfile(entry, io.BytesIO(content or b""))
        return cls(buffer.getvalue())

    @classmethod
    def packed_at(cls, path: Path) -> "Layer":
        """An existing archive."""
        return cls(path.read_bytes())


def link(name: str, target: str, hard: bool = False) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode = tarfile.LNKTYPE if hard else tarfile.SYMTYPE, target, 0o777
    return entry


@dataclass
class Image:
    layers: list[Layer]
    config: dict = field(default_factory=dict)
    kind: dict = field(default_factory=lambda: OCI)
    architecture: str = "amd64"

    @property
    def config_bytes(self) -> bytes:
        rootfs = {"type": "layers", "diff_ids": [layer.plain_digest for layer in self.layers]}
        history = [{"created_by": "a test"} for _ in self.layers]
        whole = {"architecture": self.architecture, "os": "linux", "config": self.config, "rootfs": rootfs, "history": history}
        return json.dumps(whole, sort_keys=True).encode()

    @property
    def manifest(self) -> bytes:
        def described(what: str, content: bytes) -> dict:
            return {"mediaType": self.kind[what], "size": len(content), "digest": digest(content)}

        whole = {
            "schemaVersion": 2,
            "mediaType": self.kind["manifest"],
            "config": described("config", self.config_bytes),
            "layers": [described("layer", layer.packed) for layer in self.layers],
        }
        return json.dumps(whole, sort_keys=True).encode()

    def push(self, registry: str, repository: str, tag: str, login: tuple[str, str] | None = None) -> str:
        """Pushes it to the registry at this URL and returns the digest of its manifest."""
        at = f"{registry}/v2/{repository}"
        for blob in [self.config_bytes, *(layer.packed for layer in self.layers)]:
            if requests.head(f"{at}/blobs/{digest(blob)}", auth=login).status_code == 200:
                continue
            begun = requests.post(f"{at}/blobs/uploads/", auth=login)
            assert begun.status_code == 202, (begun.status_code, begun.text)
            place = urljoin(registry, begun.headers["location"])
            kind = {"Content-Type": "application/octet-stream"}
            put = requests.put(place, params={"digest": digest(blob)}, data=blob, headers=kind, auth=login)
            assert put.status_code == 201, (put.status_code, put.text)
        put_manifest(at, tag, self.kind["manifest"], self.manifest, login)
        return digest(self.manifest)

    def layout(self, name: str) -> dict[str, bytes]:
        """The files of an OCI layout with only this image."""
        blobs = [self.manifest, self.config_bytes, *(layer.packed for layer in self.layers)]
        listed = {**self.described(self.architecture), "annotations": {"org.opencontainers.image.ref.name": name}}
        return {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
            "index.json": json.dumps({"schemaVersion": 2, "manifests": [listed]}).encode(),
            **{f"blobs/sha256/{digest(blob).removeprefix('sha256:')}": blob for blob in blobs},
        }

    def saved(self, name: str) -> dict[str, bytes]:
        """The files that `docker save` writes, with uncompressed layers."""
        layers = {f"{number}/layer.tar": gzip.decompress(layer.packed) for number, layer in enumerate(self.layers)}
        listed = [{"Config": "config.json", "RepoTags": [name], "Layers": list(layers)}]
        return {"manifest.json": json.dumps(listed).encode(), "config.json": self.config_bytes, **layers}

    def described(self, architecture: str) -> dict:
        """Its descriptor in an index."""
        platform = {"os": "linux", "architecture": architecture}
        return {
            "mediaType": self.kind["manifest"],
            "size": len(self.manifest),
            "digest": digest(self.manifest),
            "platform": platform,
        }


def archive(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def put_manifest(at: str, tag: str, kind: str, content: bytes, login: tuple[str, str] | None = None) -> None:
    put = requests.put(f"{at}/manifests/{tag}", data=content, headers={"Content-Type": kind}, auth=login)
    assert put.status_code == 201, (put.status_code, put.text)


def push_index(registry: str, repository: str, tag: str, images: dict[str, Image]) -> None:
    """One name for images of several architectures."""
    for architecture, image in images.items():
        image.push(registry, repository, digest(image.manifest))
    listed = [image.described(architecture) for architecture, image in images.items()]
    whole = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
    put_manifest(f"{registry}/v2/{repository}", tag, INDEX, json.dumps(whole).encode())
