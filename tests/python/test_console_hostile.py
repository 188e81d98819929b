"""Everything that a sandbox, an image or another person wrote is hostile: the console shows it as text. Nothing of it runs, nothing is
fetched from elsewhere (the `console` fixture checks every request), and a page in a sandbox can do nothing with a person's session."""

import json
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Error, Page, Route, expect

from pages import TerminalPane, menu, row, title
from waiting import eventually
from wire import Client

BANG = "window.__pwned=1"
TAG = f"<img src=x onerror={BANG}>"
#: Names as text; what cannot be seen, or turns the direction, must be made visible.
NAMES = [TAG, f'"><script>{BANG}</script>', f"javascript:{BANG}", "'\"&lt;b&gt;${7*7}{{7*7}}", "gnp.\u202etxt.exe", "a\u200bb\u2066c", "W" * 120]
HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069]")


def seen(page: Page) -> str:
    """The text of a page, with labels."""
    return page.locator("body").inner_text()


def check_seen(page: Page) -> None:
    """The tag is there as text, and nothing invisible got into the page."""
    expect(page.get_by_text(TAG).first).to_be_visible()
    assert not HIDDEN.search(seen(page)), f"invisible characters in {page.url}"


@pytest.fixture
def hostile(boxes):
    """A sandbox whose labels are hostile."""
    labels = {f"label {i}": name for i, name in enumerate(NAMES)}
    return boxes(metadata={"name": TAG, TAG: TAG, **labels})


def test_labels(api, hostile, console):
    for path in ("/", "/sandboxes", f"/sandboxes/{hostile.id}", f"/sandboxes?q={quote(TAG)}", f"/sandboxes?label={quote(f'label 0={TAG}')}"):
        check_seen(console.open(path))
    page = console.page
    expect(page.get_by_role("grid", name="Sandboxes")).to_be_visible()
    menu(page, page.get_by_role("button", name=f"Actions for {TAG}"), re.compile("^Kill"))
    expect(page.get_by_role("alertdialog", name=f"Kill {TAG}?")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").or_(page.get_by_role("searchbox")).last.fill("<img src")
    expect(page.get_by_role("dialog").get_by_text(TAG).first).to_be_visible()
    console.open(f"/create?step=config&template={quote(TAG)}&label={quote(f'a={TAG}')}")
    expect(page.get_by_role("textbox", name="Label 1, value")).to_have_value(TAG)
    check_seen(page)
    console.expected += ["400", "404"]
    check_seen(console.open(f"/sandboxes?state={quote(TAG)}&template={quote(TAG)}"))
    console.open(f"/sandboxes/{quote(TAG, safe='')}")
    expect(page.get_by_role("heading", name="No such sandbox")).to_be_visible()


def item(page: Page, name: str):
    """A file in the tree; sizes and targets of links may follow its name."""
    return page.get_by_role("tree", name="Files").get_by_role("treeitem", name=re.compile(f"^{re.escape(name)}( \\d+ B)?$"))


def test_file_names(api, hostile, console):
    make = """
import os
for name in %r: open(name.replace('/', '|'), 'w').write('x')
open('line\\nbreak', 'w'); open('esc\\x1b[31m', 'w'); open(b'not-utf8-\\xff', 'w'); os.symlink(%r, 'link')
os.mkdir('<b>dir'); open('<b>dir/inside', 'w')
""" % ([*NAMES, "W" * 255], TAG)
    assert api.request("PUT", f"/sandboxes/{hostile.id}/files/content?path=make.py", make.encode(), {"Content-Type": "application/octet-stream"}).status == 200
    made = api.run(hostile, "python3 make.py 2>&1")
    assert made[0] == 0, made
    page = console.open(f"/sandboxes/{hostile.id}/files")
    for name in (TAG, f"javascript:{BANG}", "not-utf8-\ufffd", "line\\nbreak", "esc\\e[31m", "gnp.U+202Etxt.exe"):
        expect(item(page, name)).to_be_visible()
    assert not HIDDEN.search(seen(page))
    item(page, TAG).click()
    expect(page.get_by_role("textbox", name=re.compile("img src=x"))).to_have_text("x")
    check_seen(page)
    item(page, "<b>dir").click()
    expect(item(page, "inside")).to_be_visible()
    item(page, TAG).hover()
    menu(page, item(page, TAG).get_by_role("button", name="More"), "Delete…")
    expect(page.get_by_role("alertdialog", name=f"Delete {TAG}?")).to_be_visible()


DOCUMENTS = {
    "page.html": f"<!doctype html><script>{BANG}</script><h1>hello</h1>",
    "picture.svg": f'<svg xmlns="http://www.w3.org/2000/svg" onload="{BANG}"><script>{BANG}</script></svg>',
    "fake.png": f'<svg xmlns="http://www.w3.org/2000/svg" onload="{BANG}"/>',
    "table.csv": f'{TAG},b\n"=cmd()",<script>{BANG}</script>\n',
    "text.md": f"""# {TAG}

![remote](https://evil.example/x.png) ![data](data:image/svg+xml,<svg/onload={BANG}>) ![](page.html)
[script](javascript:{BANG}) [spaces](  JaVaScRiPt:{BANG}) [data](data:text/html,<script>{BANG}</script>)
[vb](vbscript:{BANG}) [rel](//evil.example/) <javascript:{BANG}> [good](https://evil.example/good)

<script>{BANG}</script>
<iframe src="https://evil.example/"></iframe>
<style>* {{ background: url(https://evil.example/css) }}</style>

| {TAG} | b |
|---|---|
| `{TAG}` | [x](javascript:{BANG} "{TAG}") |
""",
}


def test_file_contents(api, hostile, console):
    for name, text in DOCUMENTS.items():
        put = api.request(
            "PUT",
            f"/sandboxes/{hostile.id}/files/content?path={name}",
            text.encode(),
            {"Content-Type": "application/octet-stream"},
        )
        assert put.status == 200, put.body
    page = console.open(f"/sandboxes/{hostile.id}/files")
    for name in DOCUMENTS:
        page.get_by_role("treeitem", name=name).click()
        if name == "fake.png":
            expect(page.get_by_role("main").get_by_text(re.compile("<svg|not an image"))).to_be_visible()
        elif name == "table.csv":
            expect(page.get_by_role("table", name="Table table.csv").get_by_text(TAG)).to_be_visible()
        elif name == "text.md":
            expect(page.get_by_role("heading", name=TAG)).to_be_visible()
        else:
            expect(page.get_by_role("textbox", name=re.compile(name))).to_contain_text(BANG)
    article = page.get_by_role("article")
    links = article.locator("a").evaluate_all("(all) => all.map((one) => one.href)")
    assert all(re.match("https?:", link) for link in links), links
    assert article.locator("img[src^='http'], img[src^='data'], iframe, script, style, object, embed, form").count() == 0
    for link in article.get_by_role("link").or_(article.get_by_role("button")).all():
        if "good" not in (link.text_content() or "") and "rel" not in (link.text_content() or ""):
            link.click()
    assert len(console.context.pages) == 1, "nothing was opened"


def test_documents_are_never_shown_by_the_consoles_origin(api, hostile, console):
    """By their own address, too, they are downloads without any rights."""
    for name in ("page.html", "picture.svg", "text.md"):
        text, path = DOCUMENTS[name], f"/sandboxes/{hostile.id}/files/content?path={name}"
        api.request("PUT", path, text.encode(), {"Content-Type": "application/octet-stream"})
        for address in (path, f"{path}&inline=1"):
            with console.page.expect_download() as download, pytest.raises(Error, match="Download is starting"):
                console.page.goto(console.origin + address)
            assert download.value.path().read_text() == text
        headers = api.get(f"{path}&inline=1").headers
        assert headers["x-content-type-options"] == "nosniff" and "sandbox" in headers["content-security-policy"], headers


def test_log_lines_and_events(server, api, boxes, console):
    """What a command printed, and the name of the key that did it."""
    made = api.request("POST", "/api-keys", {"name": TAG}).json
    client = Client(server.url, made["key"])
    box = client.create(metadata={"name": "logged"})
    try:
        assert client.run(box, f"true '{TAG}'; printf '\\033]8;;javascript:{BANG}\\033\\\\x' \u202e \u200b; exit 5")[0] == 5
        assert client.request("POST", f"/sandboxes/{box.id}/pause", {}).status == 204
        assert client.request("POST", f"/sandboxes/{box.id}/connect", {"timeout": 60}).status in (200, 201)
        page = console.open(f"/sandboxes/{box.id}/logs")
        line = page.get_by_role("listbox", name="Log").get_by_role("option").filter(has_text=TAG).first
        expect(line).to_contain_text("exit 5")
        line.click()
        expect(page.get_by_role("complementary", name="Details of the line")).to_contain_text(TAG)
        check_seen(page)
        check_seen(console.open(f"/sandboxes/{box.id}/events"))
        expect(page.get_by_role("list", name="Events")).to_contain_text(f'by key "{TAG}"')
        check_seen(console.open("/settings/keys"))
        check_seen(console.open("/sandboxes"))
        console.leave()
        client.kill(box)
        check_seen(console.open(f"/sandboxes/{box.id}"))
        console.expected += ["404"]
    finally:
        client.kill(box)
        client.close()
        api.request("DELETE", f"/api-keys/{made['id']}")


def answering(console, pattern: str, change) -> None:
    """The server's answer, with values that it would not take from anybody."""

    def handle(route: Route) -> None:
        if route.request.resource_type != "fetch":
            return route.fallback()
        answer = route.fetch()
        body = answer.json()
        change(body)
        route.fulfill(response=answer, body=json.dumps(body))

    console.page.route(re.compile(pattern), handle)


def test_names_of_templates(api, hostile, console, builder):
    """The server refuses such names today; the page does not count on it."""

    def rename(body) -> None:
        for template in body if isinstance(body, list) else [body]:
            template.update(aliases=[TAG], names=[f"default/{TAG}"])

    answering(console, r"/templates(\?|$)", rename)
    answering(console, r"/templates/[a-z0-9]+(\?|$)", rename)
    try:
        base = api.get("/templates").json[0]["templateID"]
        for path in ("/templates", "/templates?view=gallery", f"/templates/{base}", "/create?step=image"):
            check_seen(console.open(path))
    finally:
        console.page.unroute_all(behavior="ignoreErrors")


def test_webhooks(api, console):
    fields = {"name": TAG, "url": f"https://evil.example/?{quote(TAG)}", "enabled": False, "signatureSecret": "s" * 16}
    made = api.request("POST", "/events/webhooks", {**fields, "events": ["sandbox.lifecycle.created"]})
    assert made.status == 201, made.body
    id = made.json["id"]
    delivery = {"eventType": TAG, "sandboxId": TAG, "status": TAG, "lastStatus": 200, "lastError": f"{TAG}\u202e\x1b[31m"}
    delivery |= {"tries": 1, "timestamp": "2026-01-01T00:00:00Z", "finishedAt": None, "nextTryAt": TAG, "id": "1", "eventId": "1"}

    def add(body) -> None:
        (body if isinstance(body, list) else body["deliveries"]).append(delivery)

    answering(console, r"/deliveries", add)
    try:
        page = console.open("/settings/webhooks")
        check_seen(page)
        page.get_by_role("link", name=TAG).click()
        expect(page.get_by_role("row").filter(has_text=TAG).first).to_be_visible()
        check_seen(page)
        assert page.locator("a[href^='javascript'], a[href*='evil.example']").count() == 0
    finally:
        console.page.unroute_all(behavior="ignoreErrors")
        api.request("DELETE", f"/events/webhooks/{id}")


def test_texts_of_events_and_errors(hostile, console):
    def spoil(body) -> None:
        for event in body:
            event["eventData"] = {**(event.get("eventData") or {}), "reason": TAG, "by": TAG, "cause": {"kind": TAG}}
            event["type"] = f"sandbox.lifecycle.{TAG}"

    answering(console, r"/events/sandboxes/", spoil)
    refusal = {"status": 500, "json": {"code": 500, "message": TAG}, "headers": {"x-request-id": TAG}}
    console.page.route(
        re.compile(r"/snapshots"),
        lambda route: route.fulfill(**refusal) if route.request.resource_type == "fetch" else route.fallback(),
    )
    console.expected += ["500"]
    try:
        check_seen(console.open(f"/sandboxes/{hostile.id}/events"))
        page = console.open(f"/sandboxes/{hostile.id}/snapshots")
        expect(page.get_by_role("alert")).to_contain_text(TAG)
    finally:
        console.page.unroute_all(behavior="ignoreErrors")


def test_terminal_sequences(api, hostile, console):
    """Titles are text, links of other kinds are none, the clipboard and the shell's input are out of reach, a flood passes."""
    console.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=console.origin)
    script = f"""
import sys
w = sys.stdout.write
w('\\x1b]0;{TAG}\\x07')
w('\\x1b]8;;javascript:{BANG}\\x1b\\\\LINK-A\\x1b]8;;\\x1b\\\\ \\x1b]8;;data:text/html,<script>{BANG}</script>\\x1b\\\\LINK-B\\x1b]8;;\\x1b\\\\\\n')
w('\\x1b]52;c;c3RvbGVu\\x07\\x1b]52;c;?\\x07')
w('\\x1b]2;; touch /tmp/typed\\n\\x07\\x1b[21t\\x1b[20t\\x1bP$q"p\\x1b\\\\\\x1b]50;?\\x07')
w('\\x1b]0;{TAG}\\x07')
w('{TAG}\\n')
w('sequences-done\\n')
"""
    put = api.request("PUT", f"/sandboxes/{hostile.id}/files/content?path=s.py", script.encode(), {"Content-Type": "application/octet-stream"})
    assert put.status == 200
    page = console.open(f"/sandboxes/{hostile.id}/terminal")
    terminal = TerminalPane(page).opened()
    page.evaluate("navigator.clipboard.writeText('untouched')")
    terminal.run("PS1='$ '; PROMPT_COMMAND=; clear; python3 s.py")
    shown = terminal.shows("sequences-done")
    assert TAG in shown
    expect(page.get_by_role("tab", name=TAG)).to_be_visible()
    assert TAG not in page.title() or page.title().startswith(TAG), "the window's title is the page's own"
    screen = terminal.pane.locator("[data-terminal]")
    place, rows = screen.bounding_box(), terminal.text().split("\n")
    height = place["height"] / max(1, len(terminal.pane.get_by_role("listitem").all()))
    at = next(i for i, line in enumerate(rows) if line.startswith("LINK-A"))
    for x in (15, 75):
        page.mouse.move(place["x"] + x, place["y"] + (at + 0.5) * height)
        page.mouse.click(place["x"] + x, place["y"] + (at + 0.5) * height)
        if page.get_by_role("dialog").count():
            page.keyboard.press("Escape")
    assert len(console.context.pages) == 1
    assert page.evaluate("navigator.clipboard.readText()") == "untouched"
    terminal.run("head -c 8M /dev/urandom | base64; echo flood-$((1+1))-over")
    terminal.shows("flood-2-over", within=90)
    terminal.run("clear; test -e /tmp/typed || echo nothing-was-$((1+1))-typed")
    terminal.shows("nothing-was-2-typed")
    expect(title(page)).to_have_text(TAG)


# A page in a sandbox against a person's session

ECHO = """
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = open('attack.html', 'rb').read() if self.path == '/attack' else json.dumps(dict(self.headers.items())).encode()
        self.send_response(200)
        self.send_header('Content-Type', 'text/html' if self.path == '/attack' else 'application/json')
        self.send_header('Set-Cookie', 'cabana_session_%(port)s=evil; Domain=localhost; Path=/')
        self.send_header('Set-Cookie', 'cabana_session_%(port)s=evil; Path=/')
        self.send_header('Content-Length', str(len(page)))
        self.end_headers()
        self.wfile.write(page)
    do_POST = do_GET
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(('0.0.0.0', 8080), Handler).serve_forever()
"""

ATTACK = """<!doctype html><title>attack</title><iframe name=frame></iframe><script>
const origin = '%(origin)s', box = '%(box)s', done = {};
const read = async (name, path, options) => {
  try {
    const answer = await fetch(origin + path, {credentials: 'include', ...options});
    done[name] = answer.type === 'opaque' ? 'opaque' : `${answer.status} ${await answer.text()}`;
  } catch (error) { done[name] = 'refused'; }
};
const create = JSON.stringify({templateID: 'base', metadata: {name: 'made by an attack'}});
const socket = (name, path) => new Promise((end) => {
  const ws = new WebSocket(origin.replace('http', 'ws') + path);
  ws.onmessage = (event) => { done[name] = 'told ' + event.data; end(); };
  ws.onopen = () => ws.send(JSON.stringify({subscribe: 'sandboxes'}));
  ws.onclose = ws.onerror = () => { done[name] ??= 'refused'; end(); };
});
const frame = () => new Promise((end) => {
  const box = document.createElement('iframe');
  box.onload = () => { try { done.frame = box.contentDocument ? 'read' : 'closed'; } catch { done.frame = 'closed'; } end(); };
  box.src = origin + '/console/sandboxes';
  document.body.append(box);
});
const form = () => new Promise((end) => {
  const form = document.createElement('form');
  Object.assign(form, {method: 'POST', action: origin + '/v2/sandboxes', target: 'frame', enctype: 'text/plain'});
  const field = document.createElement('input');
  Object.assign(field, {name: create.slice(0, -1) + ',"x":"', value: '"}'});
  form.append(field);
  document.body.append(form);
  document.querySelector('[name=frame]').onload = end;
  form.submit();
});
(async () => {
  document.cookie = 'cabana_session_%(port)s=evil; domain=localhost; path=/';
  await read('list', '/v2/sandboxes', {});
  await read('blind', '/v2/sandboxes', {mode: 'no-cors'});
  await read('session', '/auth/session', {});
  await read('create', '/v2/sandboxes', {method: 'POST', mode: 'no-cors', body: create, headers: {'Content-Type': 'text/plain'}});
  await read('createJson', '/v2/sandboxes', {method: 'POST', body: create, headers: {'Content-Type': 'application/json', 'X-Cabana-Team': 'default'}});
  await read('kill', '/sandboxes/' + box, {method: 'DELETE'});
  await read('pause', `/sandboxes/${box}/pause`, {method: 'POST', mode: 'no-cors'});
  await read('signOut', '/auth/session', {method: 'DELETE'});
  await read('code', '/auth/codes', {method: 'POST', mode: 'no-cors'});
  await socket('live', '/live');
  await socket('terminal', `/sandboxes/${box}/terminal`);
  await Promise.all([frame(), form()]);
  window.done = done;
})();
</script>"""


@pytest.fixture
def attacker(server, api, boxes, console):
    """A sandbox with a web server that shows what it is sent, and has a page that attacks the console."""
    box = boxes(metadata={"name": "attacker"})
    values = {"port": server.port, "origin": console.origin, "box": box.id}
    for name, text in (("echo.py", ECHO % values), ("attack.html", ATTACK.replace("%(origin)s", console.origin).replace("%(box)s", box.id).replace("%(port)s", str(server.port)))):
        put = api.request(
            "PUT", f"/sandboxes/{box.id}/files/content?path={name}", text.encode(), {"Content-Type": "application/octet-stream"}
        )
        assert put.status == 200, put.body
    api.run(box, "nohup python3 echo.py >/dev/null 2>&1 & for i in $(seq 100); do curl -s localhost:8080 && break; sleep 0.1; done")
    return box


def session_cookie(console) -> dict:
    (cookie,) = [one for one in console.context.cookies() if one["name"] == f"cabana_session_{console.server.port}" and one["domain"] == "localhost"]
    return cookie


def test_the_cookie_stays_with_the_console(server, api, attacker, console):
    """Scripts cannot read it, sandboxes neither get nor set it."""
    page = console.open("/sandboxes")
    expect(title(page)).to_have_text("Sandboxes")
    cookie = session_cookie(console)
    assert cookie["httpOnly"] and cookie["sameSite"] == "Lax" and cookie["path"] == "/", cookie
    assert page.evaluate("document.cookie") == ""
    pair = f"{cookie['name']}={cookie['value']}"
    told = api.request("GET", "/", headers={**attacker.headers(8080), "Cookie": f"a=1; {pair}; b=2"}).json
    assert cookie["value"] not in json.dumps(told), "by the headers that name a sandbox"
    assert "a=1" in told["Cookie"] and "b=2" in told["Cookie"], "other cookies are the sandbox's own"
    host = f"8080-{attacker.id}.localhost:{server.port}"
    console.allowed.append(f"http://{host}/")
    preview = console.context.new_page()
    preview.goto(f"http://{host}/")
    assert cookie["value"] not in preview.content()
    preview.goto(f"http://{host}/attack")
    preview.close()
    assert session_cookie(console)["value"] == cookie["value"]
    page.reload()
    expect(title(page)).to_have_text("Sandboxes")


def test_a_page_in_a_sandbox_can_do_nothing(server, api, attacker, console):
    """It neither reads nor changes anything by the API, hears nothing by sockets, and cannot frame the console."""
    console.open("/sandboxes")
    before = session_cookie(console)
    base = f"http://8080-{attacker.id}.localhost:{server.port}"
    console.allowed.append(base)
    page = console.context.new_page()
    page.goto(f"{base}/attack")
    page.wait_for_function("window.done !== undefined")
    done = page.evaluate("window.done")
    shut = {"refused", "opaque", "closed"}
    assert {name: what for name, what in done.items() if what not in shut} == {}, done
    assert {"list", "blind", "create", "live", "terminal", "frame"} <= done.keys()
    assert all(not frame.url.startswith(f"{console.origin}/console") or "Sandboxes" not in frame.content() for frame in page.frames[1:])
    page.close()
    rows = {one["sandboxID"]: one for one in api.sandboxes()}
    assert rows[attacker.id]["state"] == "running" and not any(one["metadata"].get("name") == "made by an attack" for one in rows.values())
    assert session_cookie(console)["value"] == before["value"]
    console.page.reload()
    expect(row(console.page, "attacker")).to_be_visible()


def test_the_server_asks_where_a_request_comes_from(server, attacker, console):
    """On a domain, previews are of the same site and browsers send the cookie along: then the server refuses."""
    console.open("/sandboxes")
    cookie = session_cookie(console)
    pair, host = f"{cookie['name']}={cookie['value']}", f"localhost:{server.port}"
    client = Client(server.url, None)
    own = {"Cookie": pair, "Host": host, "Origin": console.origin, "Sec-Fetch-Site": "same-origin", "X-Cabana-Team": "default"}
    assert client.request("GET", "/v2/sandboxes", headers=own).status == 200
    theirs = f"http://8080-{attacker.id}.localhost:{server.port}"
    for method, path, body, change in (
        ("GET", "/v2/sandboxes", None, {"Sec-Fetch-Site": "same-site"}),
        ("GET", "/v2/sandboxes", None, {"Origin": theirs}),
        ("POST", f"/sandboxes/{attacker.id}/pause", {}, {"Origin": theirs}),
        ("POST", f"/sandboxes/{attacker.id}/pause", {}, {"Origin": "null"}),
        ("POST", f"/sandboxes/{attacker.id}/pause", b"{}", {"Content-Type": "text/plain"}),
        ("DELETE", "/auth/session", None, {"Sec-Fetch-Site": "cross-site"}),
    ):
        answer = client.request(method, path, body, {**own, **change})
        assert answer.status == 403, (method, path, change, answer.status, answer.body)
    without = {name: value for name, value in own.items() if name != "X-Cabana-Team"}
    assert client.request("POST", f"/sandboxes/{attacker.id}/pause", {}, without).status == 403
    for team in ("", "another"):
        answer = client.request("POST", f"/sandboxes/{attacker.id}/pause", {}, {**own, "X-Cabana-Team": team})
        assert (answer.status, answer.json["error_code"]) == (404, "team_not_found")
    foreign = client.request("GET", "/console/", headers={"Host": f"evil.example:{server.port}"})
    assert foreign.status in (403, 404, 421), "another name for loopback"
    client.close()
    eventually(lambda: console.page.evaluate("1") == 1)
