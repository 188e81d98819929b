"""Forms with files, as bytes, so that tests control names and framing exactly."""

import hashlib
import json

BOUNDARY = "cabana-test-boundary"
KIND = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def part(disposition: str, content: bytes) -> bytes:
    return f"--{BOUNDARY}\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + content + b"\r\n"


def file(name: str, content: bytes) -> bytes:
    return part(f'name="file"; filename="{name}"', content)


def sandbox(**fields) -> bytes:
    return part('name="sandbox"', json.dumps({"templateID": "base", "timeout": 120, **fields}).encode())


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Uploads:
    """Uploads to one sandbox."""

    def __init__(self, client, id: str):
        self.client, self.path = client, f"/sandboxes/{id}/uploads"

    def send(self, *parts: bytes):
        return self.client.request("POST", self.path, form(*parts), KIND)

    def __call__(self, *parts: bytes) -> list[dict]:
        """The files of the manifest."""
        answer = self.send(*parts)
        assert answer.status == 200, (answer.status, answer.body)
        manifest = answer.json
        for entry in manifest["files"]:
            assert entry["status"] in ("uploaded", "failed"), entry
            assert (entry["status"] == "failed") == ("error" in entry) == ("path" not in entry), entry
            if "path" in entry:
                assert entry["path"].startswith(manifest["directory"] + "/"), entry
        return manifest["files"]
