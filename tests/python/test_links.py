"""Signed links: download and upload without headers, bound to one path, one operation and a time."""

import time

import requests

from waiting import eventually


def test_download(sandbox):
    sandbox.files.write("shared.txt", "for everyone")
    answer = requests.get(sandbox.download_url("shared.txt"))
    assert (answer.status_code, answer.text) == (200, "for everyone")
    answer = requests.get(sandbox.download_url("/home/user/shared.txt", use_signature_expiration=60))
    assert (answer.status_code, answer.text) == (200, "for everyone")


def test_upload(sandbox):
    answer = requests.post(sandbox.upload_url("up/loaded.txt"), files={"file": b"by link"})
    assert answer.status_code == 200, answer.text
    assert answer.json()[0]["path"] == "/home/user/up/loaded.txt"
    assert sandbox.files.read("up/loaded.txt") == "by link"


def test_the_right_sandbox_is_found(sandboxes):
    first, second = sandboxes(), sandboxes()
    first.files.write("same", "first"), second.files.write("same", "second")
    assert requests.get(first.download_url("same")).text == "first"
    assert requests.get(second.download_url("same")).text == "second"


def test_as_another_user(sandbox):
    sandbox.files.write("/root/r", "root's", user="root")
    assert requests.get(sandbox.download_url("r", user="root")).text == "root's"
    assert requests.get(sandbox.download_url("r")).status_code == 404
    assert requests.get(sandbox.download_url("r", user="nobody-here")).status_code in (400, 401)


def test_expired(sandbox):
    sandbox.files.write("brief", "x")
    url = sandbox.download_url("brief", use_signature_expiration=1)
    eventually(lambda: requests.get(url).status_code == 401, within=5)
    assert "signature is already expired" in requests.get(url).json()["message"]


def test_forged(sandbox, server):
    sandbox.files.write("mine", "x"), sandbox.files.write("other", "y")
    url = sandbox.download_url("mine", use_signature_expiration=60)
    routed = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "49983"}
    later = str(int(time.time()) + 9999)
    forgeries = [
        url.replace("path=mine", "path=other"),
        url.replace("signature=v1_", "signature=v1_A"),
        url[: url.index("&signature_expiration")] + f"&signature_expiration={later}",
        url[: url.index("&signature_expiration")],
        server.url + "/files?path=mine",
    ]
    for forged in forgeries:
        assert requests.get(forged, headers=routed).status_code == 401, forged
        assert requests.get(forged).status_code in (400, 401, 404), forged
    assert requests.post(url, files={"file": b"not by a read link"}, headers=routed).status_code == 401
    # A signature does not make up for a wrong token.
    assert requests.get(url, headers={**routed, "X-Access-Token": "wrong"}).status_code == 401
    assert sandbox.files.read("mine") == "x"


def test_no_link_outlives_its_sandbox(sandboxes):
    sandbox = sandboxes()
    sandbox.files.write("gone", "x")
    url = sandbox.download_url("gone")
    sandbox.kill()
    assert requests.get(url).status_code in (401, 404, 502)
