"""The console's pages at work: files, builds, keys, webhooks, snapshots, and what there is to see of a sandbox, also of one that is gone."""

import io
import json
import re
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

import canary
from pages import Console, TerminalPane, menu, news, row, title
from waiting import eventually
from wire import Client


def editor(page: Page):
    return page.get_by_role("textbox", name=re.compile(r"^\/home\/user\/"))


def write(page: Page, text: str) -> None:
    """Replaces what is in the editor."""
    editor(page).click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def content(api: Client, box, path: str) -> str:
    code, text = api.run(box, f"cat {path}")
    assert code == 0, text
    return text


def test_edit_a_file(api, boxes, console):
    """Edits are saved; a version that somebody else wrote meanwhile is never overwritten unasked, and neither text is lost."""
    box = boxes()
    api.run(box, "printf 'first\\n' > notes.txt")
    page = console.open(f"/sandboxes/{box.id}/files")
    page.get_by_role("treeitem", name="notes.txt").click()
    expect(editor(page)).to_contain_text("first")
    write(page, "mine\n")
    page.keyboard.press("Control+s")
    expect(news(page, "notes.txt saved")).to_be_visible()
    assert content(api, box, "notes.txt") == "mine\n"

    console.expected += ["412"]
    write(page, "mine again\n")
    api.run(box, "printf 'theirs\\n' > notes.txt")
    page.get_by_role("button", name=re.compile("^Save")).click()
    conflict = page.get_by_role("region", name="Two versions")
    expect(conflict.get_by_role("alert")).to_contain_text("Nothing was overwritten")
    expect(conflict.get_by_role("textbox", name="Version in the sandbox")).to_contain_text("theirs")
    expect(conflict.get_by_role("textbox", name="Your version")).to_contain_text("mine again")
    assert content(api, box, "notes.txt") == "theirs\n"
    conflict.get_by_role("button", name="Keep editing").click()
    expect(editor(page)).to_contain_text("mine again")
    page.get_by_role("button", name=re.compile("^Save")).click()
    conflict.get_by_role("button", name="Overwrite").click()
    expect(conflict).to_have_count(0)
    eventually(lambda: content(api, box, "notes.txt") == "mine again\n")


def test_upload_and_download(api, boxes, console, tmp_path):
    folder = tmp_path / "träger"
    (folder / "in").mkdir(parents=True)
    (folder / "a b.txt").write_text("spaces")
    (folder / "in/deep.bin").write_bytes(bytes(range(256)))
    (tmp_path / "one.txt").write_text("one")
    box = boxes()
    page = console.open(f"/sandboxes/{box.id}/files")
    more = page.get_by_role("button", name="More", exact=True).first
    expect(more).to_be_visible()
    with page.expect_file_chooser() as chooser:
        menu(page, more, "Upload files…")
    chooser.value.set_files([tmp_path / "one.txt"])
    uploads = page.get_by_role("region", name="Uploads")
    expect(uploads.get_by_role("status")).to_have_text("1 file uploaded")
    with page.expect_file_chooser() as chooser:
        menu(page, more, "Upload a folder…")
    chooser.value.set_files(folder)
    expect(uploads.get_by_role("status")).to_have_text("2 files uploaded")
    expect(page.get_by_role("treeitem", name="one.txt")).to_be_visible()
    assert api.run(box, "cat one.txt 'träger/a b.txt'; sha256sum < träger/in/deep.bin")[1].startswith("onespaces40aff2e9")

    item = page.get_by_role("treeitem", name="träger")
    item.hover()
    with page.expect_download() as download:
        menu(page, item.get_by_role("button", name="More"), "Download as archive")
    names = archived(download.value.path().read_bytes())
    assert any(name.endswith("a b.txt") for name in names) and any(name.endswith("in/deep.bin") for name in names), names


def archived(data: bytes) -> list[str]:
    """Names in an archive, whichever kind it is."""
    if zipfile.is_zipfile(io.BytesIO(data)):
        return zipfile.ZipFile(io.BytesIO(data)).namelist()
    return tarfile.open(fileobj=io.BytesIO(data)).getnames()


def test_drop_files(api, boxes, console, tmp_path):
    """Files that are dropped on the tree are uploaded to the folder under the pointer."""
    box = boxes()
    api.run(box, "mkdir target")
    page = console.open(f"/sandboxes/{box.id}/files")
    folder = page.get_by_role("treeitem", name="target")
    expect(folder).to_be_visible()
    (tmp_path / "dropped.txt").write_text("from the desktop")
    place = folder.bounding_box()
    data = {"items": [], "files": [str(tmp_path / "dropped.txt")], "dragOperationsMask": 1}
    browser = console.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {"type": kind, "x": place["x"] + 40, "y": place["y"] + 8, "data": data})
    expect(page.get_by_role("region", name="Uploads").get_by_role("status")).to_have_text("1 file uploaded")
    assert content(api, box, "target/dropped.txt") == "from the desktop"


def test_previews(api, boxes, console):
    box = boxes()
    api.run(box, "printf 'name,size\\nalpha,1\\n' > t.csv; printf '# Head\\n\\n**bold** text' > r.md")
    api.run(box, "sqlite3 d.sqlite 'create table fruit(name text); insert into fruit values (\"pear\")'")
    api.run(box, "python3 -c \"import zlib,struct;c=lambda t,d:struct.pack('>I',len(d))+t+d+struct.pack('>I',zlib.crc32(t+d));"
            "open('p.png','wb').write(b'\\x89PNG\\r\\n\\x1a\\n'+c(b'IHDR',struct.pack('>IIBBBBB',3,2,8,2,0,0,0))+"
            "c(b'IDAT',zlib.compress((b'\\0'+b'\\xff\\0\\0'*3)*2))+c(b'IEND',b''))\"; head -c 500M /dev/zero > big.txt")
    page = console.open(f"/sandboxes/{box.id}/files")
    page.get_by_role("treeitem", name="t.csv").click()
    expect(page.get_by_role("table", name="Table t.csv")).to_contain_text("alpha")
    page.get_by_role("treeitem", name="r.md").click()
    expect(page.get_by_role("heading", name="Head")).to_be_visible()
    page.get_by_role("treeitem", name="d.sqlite").click()
    expect(page.get_by_role("main")).to_contain_text("pear")
    page.get_by_role("treeitem", name="p.png").click()
    expect(page.get_by_role("main")).to_contain_text("3 × 2")
    page.get_by_role("treeitem", name="big.txt").click()
    expect(page.get_by_role("heading", name="Too large to show")).to_be_visible()
    assert not any("/files/content" in one.url and "big.txt" in one.url for one in console.requests), "it is not fetched"


def test_build_with_a_failing_step(builder, console):
    """The page shows which step failed, what it printed last, and that nothing else was lost."""
    name = builder.name("bad")
    page = console.open("/templates")
    menu(page, page.get_by_role("button", name="New", exact=True), "From a Dockerfile…")
    form = page.get_by_role("dialog", name="New template")
    form.get_by_role("textbox", name="Name", exact=True).fill(name)
    form.get_by_role("textbox", name="Dockerfile", exact=True).fill("FROM base\nRUN echo fine\nRUN echo last words; exit 3\nRUN echo never\n")
    form.get_by_role("button", name="Build", exact=True).click()
    page.wait_for_url("**/builds/*")
    expect(page.get_by_role("heading", name=re.compile("Step .* failed"))).to_be_visible(timeout=90_000)
    main = page.get_by_role("main")
    expect(main.get_by_text("Its last lines", exact=True)).to_be_visible()
    expect(main.locator("pre").first).to_contain_text("last words")
    expect(main.get_by_role("button", name=re.compile("^failed .*exit 3"))).to_be_visible()
    expect(main.get_by_role("button", name=re.compile("^done .*echo fine"))).to_be_visible()
    expect(main.get_by_role("log", name="Lines of the build")).to_contain_text("last words")
    expect(main.get_by_text(re.compile("echo never"))).to_have_count(0)


def test_build_and_go_back(api, builder, console):
    """A good build, followed to its end, is used at once; a second one becomes the default, and one can go back."""
    name = builder.name("good")
    page = console.open("/templates")
    for version in ("one", "two"):
        menu(page, page.get_by_role("button", name="New", exact=True), "From a Dockerfile…")
        form = page.get_by_role("dialog", name="New template")
        form.get_by_role("textbox", name="Name", exact=True).fill(name)
        form.get_by_role("textbox", name="Dockerfile", exact=True).fill(f"FROM base\nRUN echo {version} > /etc/version\n")
        form.get_by_role("button", name="Build", exact=True).click()
        page.wait_for_url("**/builds/*")
        expect(page.get_by_role("link", name="Use", exact=True)).to_be_visible(timeout=90_000)
        page.get_by_role("main").get_by_role("link", name="Templates").click()
    page.get_by_role("link", name=name).first.click()
    builds = page.get_by_role("table", name="Builds").get_by_role("row")
    expect(builds).to_have_count(3)
    expect(builds.nth(1)).to_contain_text("default")
    menu(page, builds.nth(2).get_by_role("button", name=re.compile("^More about build")), "Roll back to it")
    expect(builds.nth(2)).to_contain_text("default")
    box = api.create(name)
    try:
        assert content(api, box, "/etc/version") == "one\n"
    finally:
        api.kill(box)


def test_key(server, api, console):
    """A key is shown once, works, and works no more when it is revoked."""
    page = console.open("/settings/keys")
    page.get_by_role("button", name="New key").click()
    form = page.get_by_role("dialog", name="New API key")
    form.get_by_role("textbox", name="Name").fill("ci <b>")
    form.get_by_role("button", name="Make the key").click()
    shown = page.get_by_role("alertdialog", name="Key ci <b>")
    key = canary.remember("an API key", shown.locator("pre").first.inner_text().strip())
    shown.get_by_role("button", name="I have copied it").click()
    client = Client(server.url, key)
    assert client.get("/v2/sandboxes").status == 200
    expect(row(page, "ci <b>")).to_be_visible()
    assert key not in page.content()
    menu(page, page.get_by_role("button", name="More about ci <b>"), "Revoke…")
    question = page.get_by_role("alertdialog", name="Revoke ci <b>?")
    assert client.get("/v2/sandboxes").status == 200, "nothing happens before one says so"
    question.get_by_role("button", name="Revoke ci <b>").click()
    expect(row(page, "ci <b>")).to_have_count(0)
    assert client.get("/v2/sandboxes").status == 401
    client.close()


@pytest.fixture
def receiver(server):
    """Takes webhooks on loopback, to which the server may send meanwhile."""
    got: list[dict] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    before = server.settings
    server.stop()
    server.settings = {**before, "CABANA_WEBHOOKS_ALLOW_PRIVATE": "1"}
    server.start()
    yield f"http://127.0.0.1:{http.server_port}/hook", got
    client = server.client()
    for hook in client.get("/events/webhooks").json:
        client.request("DELETE", f"/events/webhooks/{hook['id']}")
    client.close()
    server.stop()
    server.settings = before
    server.start()
    http.shutdown()
    http.server_close()


def test_webhook(receiver, boxes, console):
    url, got = receiver
    page = console.open("/settings/webhooks")
    page.get_by_role("button", name="New webhook").first.click()
    form = page.get_by_role("dialog", name="New webhook")
    form.get_by_role("textbox", name="Name", exact=True).fill("alarms")
    form.get_by_role("textbox", name="Address").fill(url)
    form.get_by_role("button", name="Create", exact=True).click()
    page.get_by_role("button", name="I have copied it").click()
    page.get_by_role("link", name="alarms").click()
    expect(page.get_by_text("Nothing was sent yet.")).to_be_visible()
    box = boxes()
    eventually(lambda: [one for one in got if one["sandboxId"] == box.id], what="a delivery")
    page.get_by_role("button", name="Reload").click()
    expect(row(page, box.id[:4])).to_contain_text("Delivered")
    expect(row(page, box.id[:4])).to_contain_text("created")


def test_snapshot_and_sandbox_from_it(api, boxes, console):
    box = boxes(metadata={"name": "origin"})
    api.run(box, "echo kept > kept.txt; sync")
    page = console.open(f"/sandboxes/{box.id}")
    page.get_by_role("button", name="Snapshot", exact=True).click()
    form = page.get_by_role("dialog", name="Take a snapshot of origin")
    form.get_by_role("textbox", name="Name").fill("before-lunch")
    form.get_by_role("button", name="Take snapshot").click()
    page.get_by_role("region", name="News").get_by_role("button", name="Show").click()
    expect(row(page, "before-lunch")).to_be_visible()
    row(page, "before-lunch").get_by_role("link", name="Create sandbox").click()
    page.get_by_role("button", name=re.compile("^Create now")).click()
    page.wait_for_url(re.compile("/sandboxes/[^/]+/terminal$"))
    made = re.search("/sandboxes/([^/]+)/", page.url)[1]
    try:
        assert made != box.id
        terminal = TerminalPane(page).opened()
        terminal.run("cat kept.txt")
        terminal.shows("\nkept")
    finally:
        console.leave()
        api.kill(made)
        for one in api.get(f"/snapshots?sandboxID={box.id}").json:
            api.request("DELETE", f"/templates/{quote(one['snapshotID'], safe='')}")


def test_what_there_is_to_see_of_a_sandbox(api, boxes, console):
    """Facts, log, charts, ports and events, all of which come by themselves."""
    box = boxes(metadata={"name": "busy", "task": "see"})
    api.run(box, "echo seen; false")
    page = console.open(f"/sandboxes/{box.id}")
    expect(title(page)).to_have_text("busy")
    expect(page.get_by_role("main")).to_contain_text("task")
    page.get_by_role("link", name="Logs").click()
    expect(page.get_by_role("listbox", name="Log").get_by_role("option").filter(has_text="echo seen")).to_contain_text("exit 1")
    page.get_by_role("link", name="Metrics").click()
    for name in ("CPU", "Memory", "Disk"):
        expect(page.get_by_role("img", name=re.compile(f"^{name} over time"))).to_be_visible()
    page.get_by_role("link", name="Ports").click()
    expect(page.get_by_role("heading", name="Nothing listens")).to_be_visible()
    api.run(box, "python3 -m http.server 8123 >/dev/null 2>&1 &")
    expect(row(page, ":8123")).to_be_visible()
    page.get_by_role("link", name="Events").click()
    expect(page.get_by_role("list", name="Events")).to_contain_text("Created")
    assert api.request("POST", f"/sandboxes/{box.id}/pause", {}).status == 204
    expect(page.get_by_role("list", name="Events")).to_contain_text("Paused")


def test_sandbox_that_is_gone(api, boxes, console):
    """It ends while its terminal is used. Its page then says why, who and when, and what it did last; so does the list."""
    console.expected += ["404"]
    box = boxes(metadata={"name": "doomed"})
    api.run(box, "echo famous last words")
    page = console.open(f"/sandboxes/{box.id}/terminal")
    TerminalPane(page).opened()
    assert api.kill(box)
    expect(page.get_by_text("Ended").first).to_be_visible()
    console.open(f"/sandboxes/{box.id}")
    main = page.get_by_role("main")
    expect(title(page)).to_have_text("doomed")
    expect(main).to_contain_text("was killed by")
    expect(main.locator("pre").first).to_contain_text("famous last words")
    expect(main.get_by_role("link", name="Create again")).to_be_visible()
    console.open("/sandboxes?state=ended")
    gone = row(page, "doomed").first
    expect(gone).to_contain_text("killed by")
    gone.get_by_role("button", name="Last lines").click()
    expect(page.get_by_role("group", name="Last lines: doomed")).to_contain_text("famous last words")


def test_server_page(server, api, console):
    page = console.open("/server")
    version = api.get("/status").json["version"]
    expect(page.get_by_role("main")).to_contain_text(version)
    expect(page.get_by_role("heading", name="Checks")).to_be_visible()
    page.get_by_role("button", name="Check now").click()
    expect(page.get_by_text("Nothing differs.")).to_be_visible()


def test_session_ended_from_another(server, chromium, console):
    """A lost laptop is signed out from here."""
    lost = Console(server, chromium, user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:131.0) Gecko/20100101 Firefox/131.0")
    lost.expected += ["401", "WebSocket"]
    try:
        lost.open("/sandboxes")
        expect(title(lost.page)).to_have_text("Sandboxes")
        page = console.open("/settings/sessions")
        expect(row(page, "this one")).to_have_count(1)
        row(page, "Firefox 131").get_by_role("button").click()
        page.get_by_role("button", name="End the session", exact=True).click()
        expect(row(page, "Firefox 131")).to_have_count(0)
        expect(lost.page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    finally:
        lost.close()
