"""Shared chats: what visitors of a link see, cell by cell, and that nothing of it runs anywhere."""

import re
import subprocess

import pytest
from playwright.sync_api import expect

from chats import run
from model_answers import Answer, Gate
from pages import menu
from server import CABANA
from waiting import eventually

HOSTILE = "<script>window.__pwned=1</script><img src=x onerror='window.__pwned=2'>[click](javascript:alert(1)) ![x](https://evil.example/pixel)"


class Visitor:
    """Somebody with the address, without a key."""

    def __init__(self, server, url: str):
        self.client = server.client()
        self.client.key = None
        self.host = re.fullmatch(r"http://(p[a-z2-7]{26}\..+)/", url).group(1)

    def get(self, path: str = "/", method: str = "GET"):
        return self.client.request(method, path, headers={"Host": self.host, "Accept": "text/html"})

    def page(self) -> str:
        answer = self.get()
        assert answer.status == 200, answer.body
        return answer.body.decode()


@pytest.fixture
def shared(server, chats):
    visitors = []

    def shared(chat: str, **options) -> tuple[dict, Visitor]:
        share = chats.post(f"/chats/{chat}/shares", options)
        visitors.append(Visitor(server, share["url"]))
        return share, visitors[-1]

    yield shared
    for visitor in visitors:
        visitor.client.close()


def test_the_matrix(server, chats, model, shared):
    """Messages up to the moment, artifacts as copies, tools by title; no ids, no hosts, no files of the sandbox, no thoughts."""
    script = model.script(
        Answer(reasoning="a secret thought", calls=[run("mkdir -p artifacts; echo '<b>made</b>' > artifacts/page.html; echo TOOL-$((40 + 2))")]),
        Answer("Here: **bold** and http://8080-isandbox.localhost/"),
        Answer("Later answer."),
    )
    id, _ = chats.run_turn(script.prompt)
    box = chats.chat(id)["sandboxId"]
    share, visitor = shared(id)
    assert share["url"] and not share["live"] and not share["toolDetails"] and share["revokedAt"] is None
    assert "url" not in chats.ask("GET", f"/chats/{id}/shares")[0]
    assert chats.chat(id)["access"] == "shared"
    page = visitor.page()
    assert "<strong>bold</strong>" in page and script.prompt.split()[0] in page
    assert "a secret thought" not in page and "TOOL-42" not in page
    for hidden in (box, id, *(message["id"] for message in chats.messages(id)), *(call["id"] for call in chats.calls(id))):
        assert hidden not in page, hidden
    assert "[address of a sandbox]" in page and "8080-" not in page
    # Copies outlive the sandbox, are downloads, and are the only paths there are.
    chats.send("DELETE", f"/sandboxes/{box}")
    (path,) = re.findall(r'href="(/files/[0-9a-f]{32})" download>page.html', page)
    copy = visitor.get(path)
    assert copy.body == b"<b>made</b>\n" and copy.headers["content-disposition"].startswith("attachment")
    assert copy.headers["content-type"] == "application/octet-stream" and "sandbox" in copy.headers["content-security-policy"]
    for nothing in ("/files/" + "0" * 32, "/files/../", "/chats", f"/chats/{id}", "/v2/sandboxes", "/console/", "/.cabana/status", "/live"):
        assert visitor.get(nothing).status == 404, nothing
    assert visitor.get(method="POST").status == 405 and b"Disallow: /" in visitor.get("/robots.txt").body
    # What comes later is in the live one only.
    detailed = shared(id, live=True, toolDetails=True)[1]
    assert chats.ended(id, chats.say(id, script.prompt)["id"]) == "complete"
    assert "Later answer." in detailed.page() and "Later answer." not in visitor.page()
    assert "TOOL-42" in detailed.page() and box not in detailed.page() and "http-equiv" in detailed.page()


def test_revoked_expired_and_deleted(server, chats, model, shared):
    id, _ = chats.run_turn(model.script(Answer("hello")).prompt)
    share, visitor = shared(id)
    other, second = shared(id, expiresInSeconds=1)
    third = shared(id)[1]
    assert visitor.get().status == 200
    assert chats.ask("GET", f"/chats/{id}/shares")[2]["opened"] >= 1
    assert chats.send("DELETE", f"/chats/{id}/shares/{share['id']}").status == 204
    assert visitor.get().status == 404 and third.get().status == 200
    eventually(lambda: second.get().status == 404)
    chats.refused(404, "share_not_found", "DELETE", f"/chats/{id}/shares/grt_{'0' * 20}")
    chats.refused(404, "chat_not_found", "POST", f"/chats/chat_{'0' * 20}/shares", {})
    for wrong in ({"expiresInSeconds": 0}, {"expiresInSeconds": 10**9}, {"live": "yes"}, {"other": 1}):
        assert chats.send("POST", f"/chats/{id}/shares", wrong).status == 400, wrong
    assert chats.send("DELETE", f"/chats/{id}").status == 204
    assert third.get().status == 404


def test_what_is_being_written_is_not_in_a_snapshot(chats, model, shared):
    gate = Gate()
    script = model.script(Answer(["begun ", gate, "ended"]))
    made = chats.create(script.prompt)
    gate.arrive()
    id = made["chat"]["id"]
    visitor, live = shared(id)[1], shared(id, live=True)[1]
    gate.release()
    assert chats.ended(id, made["turn"]["id"]) == "complete"
    assert "ended" in live.page() and "begun" not in visitor.page()


def test_a_browser_runs_nothing_of_it(server, chats, model, shared, console):
    """Hostile Markdown, titles and artifacts: text and downloads; strict headers; no request to anybody else."""
    script = model.script(
        Answer(calls=[run("mkdir -p artifacts; echo '<script>alert(1)</script>' > artifacts/evil.svg; cp artifacts/evil.svg artifacts/evil.html")]),
        Answer(HOSTILE),
    )
    id, _ = chats.run_turn(script.prompt + " " + HOSTILE)
    assert chats.send("PATCH", f"/chats/{id}", {"title": "<i>title</i></title><script>window.__pwned=3</script>"}).status == 200
    share, visitor = shared(id, toolDetails=True)
    headers = visitor.get().headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy and "frame-ancestors 'none'" in policy
    assert headers["x-robots-tag"] == "noindex, nofollow" and headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff" and "set-cookie" not in headers
    console.previews = True
    console.expected.append("404 (Not Found)")  # browsers look for an icon
    page = console.new_page()
    page.goto(share["url"])
    expect(page.get_by_role("heading", level=1)).to_contain_text("<i>title</i>")
    expect(page.get_by_text("<script>window.__pwned=1</script>").first).to_be_visible()
    assert page.evaluate("window.__pwned ?? null") is None and page.evaluate("document.scripts.length") == 0
    assert page.get_by_role("link", name="click").count() == 0
    with page.expect_download() as download:
        page.get_by_role("link", name="evil.html").click()
    assert "alert(1)" in download.value.path().read_text()
    console.inspect("share", page)
    page.close()


def test_the_dialog_and_the_command_line(server, chats, model, console):
    id, _ = chats.run_turn(model.script(Answer("hello")).prompt)
    page = console.open(f"/chats/{id}")
    menu(page, page.get_by_role("button", name="Chat menu"), "Share…")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("No links yet.")).to_be_visible()
    dialog.get_by_role("button", name="Make link").click()
    expect(dialog.get_by_role("status").get_by_text(re.compile(r"http://p[a-z2-7]{26}\."))).to_be_visible()
    console.inspect("share-dialog")
    dialog.get_by_role("button", name="Revoke the link").click()
    expect(dialog.get_by_text("Revoked", exact=True)).to_be_visible()
    dialog.get_by_role("button", name="Done").click()

    def cabana(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run([CABANA, "chat", *arguments], capture_output=True, text=True, timeout=30, env=server.environment)

    made = cabana("share", id, "--live", "--expires", "12h")
    visitor = Visitor(server, made.stdout.strip())
    assert "hello" in visitor.page()
    rows = [line.split("\t") for line in cabana("shares", id).stdout.splitlines()]
    assert [row[1] for row in rows] == ["live", "revoked"]
    assert cabana("unshare", id, rows[0][0]).returncode == 0
    assert visitor.get().status == 404
    visitor.client.close()


def test_making_a_link_is_in_the_audit_log(chats, api, model, shared):
    id, _ = chats.run_turn(model.script(Answer("hello")).prompt)
    share, _ = shared(id)
    (entry,) = api.get(f"/audit?action=share_chat&target={id}").json["entries"]
    assert entry["details"]["id"] == share["id"] and share["url"].split("//")[1][:27] not in str(entry)


def test_what_a_share_would_show(chats, model, shared, console):
    """Numbers, artifacts and what looks like a key, before anything is shared."""
    key = f"e2b_{'0a' * 20}"
    script = model.script(
        Answer(calls=[run(f"mkdir -p artifacts; echo x > artifacts/a.txt; printf 'sk-%s' {'aB3' * 10}")]),
        Answer(f"Use {key}."),
    )
    id, _ = chats.run_turn(script.prompt)
    shown = chats.ask("GET", f"/chats/{id}/exposure")
    assert (shown["messages"], shown["artifacts"], shown["pictures"]) == (len(chats.messages(id)), ["a.txt"], 0)
    assert {"text": "e2b_0a0a…", "place": "message"} in shown["keyLike"] and key not in str(shown)
    with_tools = chats.ask("GET", f"/chats/{id}/exposure?toolDetails=true")["keyLike"]
    assert {"text": "sk-aB3aB…", "place": "tool"} in with_tools
    chats.refused(404, "chat_not_found", "GET", f"/chats/chat_{'0' * 20}/exposure")
    page = console.open(f"/chats/{id}")
    menu(page, page.get_by_role("button", name="Chat menu"), "Share…")
    expect(page.get_by_role("alert").get_by_text("e2b_0a0a…")).to_be_visible()
    page.get_by_role("button", name="Done").click()
    menu(page, page.get_by_role("button", name="Chat menu"), "Continue in a copy")
    page.wait_for_url(lambda url: id not in url)
    copy = page.url.rsplit("/", 1)[1]
    chats.made.append(copy)
    assert chats.chat(copy)["sandboxId"] is None and len(chats.messages(copy)) == len(chats.messages(id))
    assert chats.chat(copy)["access"] == "private", "a copy has no links"
