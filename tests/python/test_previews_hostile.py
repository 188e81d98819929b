"""A page in a sandbox against the person who looks at it: framed by the console and in a tab, without a domain and below one, where previews
and the console are of one site and browsers keep them less apart. Each attack has a control that shows that it would be noticed."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Error, Page, expect

import inside
from pages import Chromium, Console, title
from previewing import PANE, SECURE, call, hold, is_alive, opened, secured
from services import NAVIGATION, Services, console_origin, fetch, host_of, view_cookie
from waiting import eventually

HERE = Path(__file__).parent
BANK = "<!doctype html><title>bank</title><h1>Private balance 4711</h1><script>window.framedBy = window.parent === window ? 'nobody' : 'somebody'</script>"


@pytest.fixture(scope="module", params=["localhost", "domain"])
def place(request, server):
    if request.param == "localhost":
        yield request.param
    else:
        with secured(server):
            yield request.param


@pytest.fixture(scope="module")
def chromium(server, place, tmp_path_factory):
    chromium = Chromium(server.port, tmp_path_factory.mktemp("chromium"), *(SECURE if place == "domain" else ()))
    yield chromium
    chromium.close()


@pytest.fixture(scope="module")
def services(server, place) -> Services:
    return Services(server)


@pytest.fixture(scope="module")
def apps(server, services, person):
    """A service that is hostile, and one with something to protect, of the same person."""
    made = []
    for name in ("evil", "bank"):
        answer = services.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 900, "network": {"allowPublicTraffic": False}})
        box = answer["sandboxID"]
        made.append(box)
        put(services, box, "app.py", inside.APP)
        put(services, box, "bank.html", BANK)
    evil, bank = (services.running(box, "exec python3 app.py 127.0.0.1 8000", name=name, port=8000) for name, box in zip(("evil", "bank"), made))
    yield evil, bank
    for box in made:
        services.ask("DELETE", f"/sandboxes/{box}")


def put(services: Services, box: str, name: str, text: str) -> None:
    raw = {"Content-Type": "application/octet-stream"}
    answer = services.send("PUT", f"/sandboxes/{box}/files/content?path={name}", text.encode(), raw)
    assert answer.status == 200, answer.body


@pytest.fixture
def evil(services, apps) -> dict:
    return apps[0]


@pytest.fixture
def bank(apps) -> dict:
    return apps[1]


@pytest.fixture
def page(person, apps) -> Page:
    """The console's page."""
    person.open("/sandboxes")
    expect(title(person.page)).to_have_text("Sandboxes")
    yield person.page
    for page in person.context.pages[1:]:
        page.close()
    person.complaints.clear()
    person.requests.clear()


@pytest.fixture
def victim(server, chromium, apps):
    """Somebody whose cookies are changed by the test."""
    victim = Console(server, chromium)
    victim.open("/sandboxes")
    yield victim
    victim.close()


def tab(person: Console, page: Page, service: dict, path: str = "/") -> Page:
    """A service in a tab of its own, entered as the console lets one in."""
    other = person.context.new_page()
    other.goto(opened(page, service["id"], path, frame=False))
    return other


def attacker(person: Console, page: Page, service: dict, where: str, path: str = "/"):
    """The hostile page, framed by the console or in a tab."""
    return hold(page, service["id"], path) if where == "frame" else tab(person, page, service, path)


WHERE = pytest.mark.parametrize("where", ["frame", "tab"])

# What it tries against the API and signing in. `api` is the console's origin.
CSRF = """async ([api, box, service]) => {
  const done = {};
  const read = async (name, path, options) => {
    try {
      const answer = await fetch(api + path, {credentials: 'include', ...options});
      done[name] = answer.type === 'opaque' ? 'opaque' : `${answer.status} ${await answer.text()}`;
    } catch (error) { done[name] = 'refused'; }
  };
  const json = {'Content-Type': 'application/json', 'X-Cabana-Team': 'default'};
  const post = (body, more) => ({method: 'POST', body: JSON.stringify(body), ...more});
  await read('list', '/v2/sandboxes', {});
  await read('listBlind', '/v2/sandboxes', {mode: 'no-cors'});
  await read('session', '/auth/session', {});
  await read('services', `/sandboxes/${box}/services`, {});
  await read('log', `/services/${service}/logs?follow=true`, {});
  await read('open', `/services/${service}/open`, post({}, {headers: json}));
  await read('openBlind', `/services/${service}/open`, post({}, {mode: 'no-cors'}));
  await read('link', `/services/${service}/links`, post({}, {headers: json}));
  await read('linkBlind', `/services/${service}/links`, post({}, {mode: 'no-cors', headers: {'Content-Type': 'text/plain'}}));
  await read('publish', `/services/${service}`, {method: 'PATCH', body: JSON.stringify({access: 'public'}), headers: json});
  await read('stop', `/services/${service}/stop`, post({}, {mode: 'no-cors'}));
  await read('create', `/sandboxes/${box}/services`, post({command: 'true', name: 'forged'}, {mode: 'no-cors', headers: {'Content-Type': 'text/plain'}}));
  await read('delete', `/services/${service}`, {method: 'DELETE'});
  await read('code', '/auth/codes', {method: 'POST', mode: 'no-cors'});
  await read('signIn', '/auth/sign-in', post({apiKey: 'e2b_' + '0'.repeat(40)}, {mode: 'no-cors', headers: {'Content-Type': 'text/plain'}}));
  await read('signOut', '/auth/session', {method: 'DELETE'});
  const socket = (name, path) => new Promise((end) => {
    const ws = new WebSocket(api.replace('http', 'ws') + path);
    ws.onmessage = (event) => { done[name] = 'told ' + event.data; end(); };
    ws.onopen = () => ws.send(JSON.stringify({subscribe: 'sandboxes'}));
    ws.onclose = ws.onerror = () => { done[name] ??= 'refused'; end(); };
  });
  await socket('live', '/live');
  await socket('terminal', `/sandboxes/${box}/terminal`);
  const form = (path, fields) => new Promise((end) => {
    const target = document.createElement('iframe'), form = document.createElement('form');
    target.name = 'target' + Math.random();
    Object.assign(form, {method: 'POST', action: api + path, target: target.name, enctype: 'text/plain'});
    for (const [name, value] of fields) form.append(Object.assign(document.createElement('input'), {name, value}));
    document.body.append(target, form);
    target.onload = end;
    setTimeout(end, 3000);
    form.submit();
  });
  await form(`/services/${service}/links`, [['{"expiresInSeconds":3600,"x":"', '"}']]);
  await form(`/sandboxes/${box}/services`, [['{"command":"true","name":"forged","x":"', '"}']]);
  await form('/auth/codes', []);
  return done;
}"""


@WHERE
def test_the_api_is_out_of_reach(server, services, person, page, evil, bank, where):
    """By fetch, forms and sockets, although the browser may send the session along."""
    before = services.get(bank["id"])
    origin, box = console_origin(server), bank["sandboxId"]
    control = call(page, "GET", f"/sandboxes/{box}/services")
    assert control["status"] == 200 and control["body"][0]["id"] == bank["id"], "the console's own page can"
    place = attacker(person, page, evil, where)
    done = place.evaluate(CSRF, [origin, box, bank["id"]])
    told = {name: what for name, what in done.items() if what not in ("refused", "opaque")}
    assert told == {}, told
    assert services.get(bank["id"]) == before
    assert [one["name"] for one in services.listed(box)] == ["bank"]
    assert services.ask("GET", f"/services/{bank['id']}/links") == []
    is_alive(page)
    assert sum(one["state"] == "running" for one in services.listed(box)) == 1


# Cookies


TOSS = """([names, domains]) => {
  for (const name of names) for (const domain of domains) for (const path of ['/', '/console', '/auth', '/.cabana']) {
    for (const more of ['', '; secure', '; secure; samesite=none; partitioned'])
      document.cookie = `${name}=evil; domain=${domain}; path=${path}${more}`;
    document.cookie = `${name}=evil; path=${path}`;
  }
  return document.cookie;
}"""


@WHERE
def test_cookies_cannot_be_tossed(server, services, place, victim, evil, bank, where):
    """A page sets cookies for hosts above it: nobody becomes somebody else by them, and they never reach the console's session."""
    page = victim.page
    who = call(page, "GET", "/auth/session")["body"]["id"]
    names = [f"cabana_session_{server.port}", f"cabana_view_{server.port}", "__Host-cabana_session", "__Host-cabana_view", " cabana_session", "a"]
    domains = ["localhost", urlsplit(console_origin(server)).hostname, urlsplit(evil["url"]).hostname]
    hostile = attacker(victim, page, evil, where)
    seen = hostile.evaluate(TOSS, [names, domains])
    # Without a domain a frame is of another site, where browsers may refuse all cookies.
    assert "a=evil" in seen or (place, where) == ("localhost", "frame"), "cookies can be set at all"
    echoed = hostile.evaluate("fetch('/?own').then((answer) => answer.json())")
    assert not [value for name, value in echoed["headers"] if name == "cookie" and "cabana_" in value], "and ours are not among them"
    page.reload()
    expect(title(page)).to_have_text("Sandboxes")
    assert call(page, "GET", "/auth/session")["body"]["id"] == who
    other = hold(page, bank["id"], "/files/bank.html")
    expect(other.get_by_role("heading", name="Private balance 4711")).to_be_visible()


def test_cookies_are_out_of_reach(server, person, page, evil):
    """Neither session nor view can be read by the page or its server."""
    for where in ("frame", "tab"):
        place = attacker(person, page, evil, where)
        assert "cabana" not in place.evaluate("document.cookie")
        assert "cabana" not in json.dumps(place.evaluate("fetch('/?headers').then((answer) => answer.json())")).replace("cabana.test", "")
        assert place.evaluate("fetch('/?body=x&header=Set-Cookie:own%3D1').then((answer) => answer.headers.get('set-cookie'))") is None
    cookies = [one for one in person.context.cookies() if "cabana" in one["name"]]
    assert cookies and all(one["httpOnly"] for one in cookies), cookies
    assert any(one["name"].startswith(("cabana_session", "__Host-cabana_session")) for one in cookies)


def test_an_app_keeps_its_own_cookies(place, person, page, evil):
    """In a tab anywhere. In a frame only below a domain, where it is of the console's site: browsers keep none of other sites there. They
    come in one header, also from browsers that send each in one of its own (HTTP/2): programs know only one."""
    for where in ("tab", "frame"):
        app = attacker(person, page, evil, where)
        for name in ("one", "two"):
            line = f"Set-Cookie:{name}={where}; Path=/; HttpOnly; SameSite=Lax"
            app.evaluate("(line) => fetch('/?body=x&header=' + encodeURIComponent(line)).then((answer) => answer.text())", line)
        echoed = app.evaluate("fetch('/?echo').then((answer) => answer.json())")
        cookies = [value for name, value in echoed["headers"] if name == "cookie"]
        if where == "tab" or place == "domain":
            assert len(cookies) == 1 and {f"one={where}", f"two={where}"} <= set(cookies[0].split("; ")), cookies


def test_a_flood_of_cookies(server, victim, evil):
    """It may cost the session, but never gives another one, and the person can sign in again."""
    place = tab(victim, victim.page, evil)
    domain = urlsplit(console_origin(server)).hostname
    place.evaluate("(domain) => { for (let i = 0; i < 400; i++) document.cookie = `f${i}=${'x'.repeat(200)}; domain=${domain}; path=/`; }", domain)
    victim.page.goto("about:blank")
    answer = victim.page.goto(f"{victim.origin}/auth/session")
    assert answer.status in (200, 401, 400, 431), answer.status
    victim.context.clear_cookies()
    victim.page.goto(victim.link())
    expect(victim.page.get_by_role("heading", name="Your server is up.")).to_be_visible()


def test_a_page_cannot_clear_what_is_not_its_own(victim, evil):
    """`Clear-Site-Data` counts for a whole site, and the console is of the same one."""
    place = tab(victim, victim.page, evil)
    for value in ('"storage"', '"executionContexts"', '"cookies"', '"*"'):
        place.evaluate("(value) => fetch('/?body=x&header=' + encodeURIComponent('Clear-Site-Data:' + value)).then((answer) => answer.text())", value)
        victim.page.wait_for_timeout(200)
        is_alive(victim.page)


# Frames


FRAME = """(url) => new Promise((end) => {
  const frame = document.createElement('iframe');
  frame.src = url;
  frame.onload = () => setTimeout(() => end('loaded'), 300);
  setTimeout(() => end('late'), 5000);
  document.body.append(frame);
})"""


def contents(place) -> str:
    """The texts of all frames within a page or a frame."""
    texts = []
    for frame in place.child_frames if hasattr(place, "child_frames") else place.frames[1:]:
        try:
            texts.append(frame.content())
        except Error:
            pass
    return "\n".join(texts)


@WHERE
def test_what_it_frames_stays_empty(server, person, page, evil, bank, where):
    """Neither the console nor another preview, although the person may see both."""
    control = hold(page, bank["id"], "/files/bank.html")
    assert "4711" in control.content() and control.evaluate("window.framedBy") == "somebody", "the console may frame it"
    bank_frame = control.url
    tab(person, page, bank, "/files/bank.html").close()
    place = attacker(person, page, evil, where)
    for url in (f"{console_origin(server)}/console/sandboxes", bank["url"] + "files/bank.html", bank_frame):
        place.evaluate(FRAME, url)
    shown = contents(place)
    assert "4711" not in shown and "Sandboxes" not in shown, shown
    place.evaluate(FRAME, "/?body=<h1>framed by itself</h1>")
    assert "framed by itself" in contents(place), "it may frame itself"


def test_it_cannot_navigate_the_console(person, page, evil, bank):
    """Out of the frame by the top window, by links, forms and refreshes."""
    here = page.url
    frame = hold(page, evil["id"])
    for script in (
        "top.location = 'https://evil.example/'",
        "top.location.href = 'javascript:window.__pwned=1'",
        "parent.location.replace('/console/settings/keys')",
        "document.body.append(Object.assign(document.createElement('a'), {href: 'https://evil.example/', target: '_top', id: 'a'})); document.getElementById('a').click()",
        "(() => { const form = Object.assign(document.createElement('form'), {action: 'https://evil.example/', target: '_parent'}); document.body.append(form); form.submit(); })()",
        "top.history.back()",
        "top.close()",
    ):
        try:
            frame.evaluate(script)
        except Error:
            pass  # the browser refuses by an exception
        page.wait_for_timeout(100)
        assert page.url == here, script
    assert frame.evaluate("(() => { try { return top.document.title; } catch { return 'refused'; } })()") == "refused"
    is_alive(page)
    frame = hold(page, evil["id"])
    frame.evaluate("location.href = '/?body=<h1>elsewhere</h1>'")
    expect(frame.get_by_role("heading", name="elsewhere")).to_be_visible()
    assert page.url == here, "it navigates itself alone"


def test_a_window_that_it_opens_has_no_way_back(person, page, evil):
    """The console is no opener, and a popup of the page reaches nothing of it."""
    frame = hold(page, evil["id"])
    with person.context.expect_page() as popup:
        frame.evaluate("void window.open('/?body=<h1>popup</h1>')")
    expect(popup.value.get_by_role("heading", name="popup")).to_be_visible()
    assert popup.value.evaluate("(() => { try { return opener.top.location.href; } catch { return 'refused'; } })()") == "refused"
    popup.value.close()
    with person.context.expect_page() as popup:
        frame.evaluate("(url) => void window.open(url, 'console')", f"{person.origin}/console/sandboxes")
    expect(title(popup.value)).to_have_text("Sandboxes")
    assert popup.value.evaluate("window.opener") is None
    popup.value.close()


# Messages


FORGE = """(marker) => {
  const say = (message) => { for (const to of [parent, top]) to.postMessage(message, '*'); };
  const types = ['ready', 'location', 'scroll', 'error', 'captured', 'capture_failed', 'hello', 'navigate', 'constructor', '__proto__'];
  const values = [marker, {}, [], null, 1e308, -1, NaN, `<img src=x onerror=window.__pwned=1>${marker}`, 'javascript:window.__pwned=1', marker + 'x'.repeat(1e6), {toString: 1}];
  for (const type of types) for (const value of values) {
    say({cabana: 1, type, path: value, title: value, text: value, kind: value, source: value, x: value, y: value, id: value, png: value, width: value, height: value, dpr: value, rect: value, viewport: value, reason: value});
  }
  for (const message of [null, 'x', 7, {cabana: 2, type: 'ready'}, {cabana: 1}, {cabana: 1, type: 'captured', id: 1, png: new ArrayBuffer(5e7), width: 1e9, height: 1e9}]) say(message);
  const loop = {cabana: 1, type: 'location', path: '/' + marker};
  loop.self = loop;
  say(loop);
  for (let i = 0; i < 2000; i++) say({cabana: 1, type: 'error', kind: 'uncaught', text: marker + i});
}"""

NEST = """([url]) => new Promise((end) => {
  const frame = document.createElement('iframe');
  frame.src = url;
  frame.onload = end;
  document.body.append(frame);
})"""


def test_forged_messages(server, person, page, apps, evil, bank):
    """Whatever a page says to the pane: it is text and bounded. What other windows say is not heard."""
    console = page
    person.open(f"/sandboxes/{evil['sandboxId']}/ports?service={evil['id']}")
    expect(console.locator(PANE)).to_have_count(1)
    frame = console.wait_for_selector(PANE).content_frame()
    frame.wait_for_function("location.protocol.startsWith('http') && document.readyState === 'complete'")
    frame.evaluate(NEST, ["data:text/html,<h1>nested</h1>"])
    nested = frame.child_frames[0]
    nested.evaluate(FORGE, "FORGED-BY-NESTED")
    console.wait_for_timeout(500)
    assert "FORGED-BY-NESTED" not in console.locator("body").inner_text()
    frame.evaluate(FORGE, "said-by-the-page")
    console.wait_for_timeout(500)
    is_alive(console)
    text = console.locator("body").inner_text()
    assert len(text) < 200_000 and "FORGED-BY-NESTED" not in text
    assert console.url.endswith(f"/ports?service={evil['id']}")
    before = console.evaluate("performance.now()")
    assert console.evaluate("new Promise((end) => setTimeout(() => end(performance.now()), 50))") - before < 5000, "the page still answers"


def test_the_bridge_listens_to_the_console_alone(server, person, page, evil, bank):
    """Another window cannot have a page captured or navigated by its bridge."""
    frame = hold(page, bank["id"], "/files/bank.html")
    frame.wait_for_function("document.querySelector('script[src=\"/.cabana/bridge.js\"]') !== null")
    origin = urlsplit(frame.url)
    page.evaluate("window.__heard = []; window.addEventListener('message', (event) => window.__heard.push([event.origin, event.data?.type]))")
    page.evaluate("(origin) => document.getElementById('held').contentWindow.postMessage({cabana: 1, type: 'hello'}, origin)", f"{origin.scheme}://{origin.netloc}")
    eventually(lambda: any(kind == "ready" for _, kind in page.evaluate("window.__heard")), within=10, what="the bridge answers the console")
    frame.evaluate("window.postMessage({cabana: 1, type: 'navigate', path: '/?body=moved'}, '*')")
    tab(person, page, evil).evaluate("for (const at of [window.opener, window.parent]) at?.postMessage({cabana: 1, type: 'navigate', path: '/?body=moved'}, '*')")
    page.wait_for_timeout(300)
    assert frame.url.endswith("/files/bank.html")
    page.evaluate(
        "(origin) => document.getElementById('held').contentWindow.postMessage({cabana: 1, type: 'navigate', path: '//evil.example/'}, origin)",
        f"{origin.scheme}://{origin.netloc}",
    )
    page.wait_for_timeout(300)
    assert urlsplit(frame.url).netloc == origin.netloc, "a path stays on its host"


# Tickets, names and caches


def test_tickets_are_told_to_nobody(server, person, page, evil):
    """Where one came from, how, and what was typed: none of it is known to the page."""
    for frame in (True, False):
        url = opened(page, evil["id"], "/?body=<h1>entered</h1>", frame)
        ticket = parse_qs(urlsplit(url).query).get("ticket", [None])[0]
        if frame:
            page.evaluate("document.getElementById('held')?.remove()")
            place = hold(page, evil["id"], "/?body=<h1>entered</h1>")
        else:
            place = person.context.new_page()
            place.goto(url)
        expect(place.get_by_role("heading", name="entered")).to_be_visible()
        known = place.evaluate(
            """() => JSON.stringify([document.referrer, document.URL, location.href, history.state, performance.getEntries(),
                globalThis.navigation?.entries().map((one) => one.url), document.cookie])"""
        )
        assert "/.cabana/enter" not in known and (ticket is None or ticket not in known), known[:2000]
        assert place.evaluate("document.referrer") in ("", f"{person.origin}/"), "no path of the console"


WORKER = """
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
const seen = [];
self.addEventListener('fetch', (event) => {
  const url = new URL(event.request.url);
  seen.push(url.pathname + url.search);
  if (url.pathname === '/what-was-seen') return event.respondWith(Response.json(seen));
  if (url.pathname === '/controlled') return event.respondWith(new Response('by the worker'));
  if (url.pathname.startsWith('/.cabana/')) return event.respondWith(new Response('<h1>faked by the worker</h1>', {headers: {'Content-Type': 'text/html'}}));
});
"""


def test_a_service_worker_gains_nothing(server, services, person, page, evil, bank):
    """It is the host's own and sees what comes to that host; what it learns there opens no other door, and it can be got rid of."""
    put(services, evil["sandboxId"], "worker.js", WORKER)
    place = tab(person, page, evil, "/?body=<h1>host</h1>")
    registered = place.evaluate(
        """async () => {
          try {
            await navigator.serviceWorker.register('/files/worker.js?header=Service-Worker-Allowed:/', {scope: '/'});
            await navigator.serviceWorker.ready;
            return 'registered';
          } catch (error) { return String(error); }
        }"""
    )
    try:
        if registered != "registered":
            return  # the server forbids workers on previews: then there is nothing to gain
        place.wait_for_function("navigator.serviceWorker.controller !== null")
        assert place.evaluate("fetch('/controlled').then((answer) => answer.text())") == "by the worker", "the worker works"
        url = urlsplit(opened(page, evil["id"], "/", frame=False))
        place.goto(url.geturl())
        ticket = parse_qs(url.query)["ticket"][0]
        for host in (host_of(bank), host_of(evil)):
            answer = fetch(server, host, f"/.cabana/enter?ticket={ticket}&to=/", **NAVIGATION)
            entered = any(view_cookie(server) in line for line in answer.all("set-cookie"))
            assert not entered or host == host_of(evil), "a stolen ticket opens no other host"
        frame = hold(page, bank["id"], "/files/bank.html")
        expect(frame.get_by_role("heading", name="Private balance 4711")).to_be_visible()
        is_alive(page)
    finally:
        place.evaluate("navigator.serviceWorker.getRegistrations().then((all) => Promise.all(all.map((one) => one.unregister())))")


@WHERE
def test_names_of_grants_are_not_found(server, services, person, page, evil, bank, where):
    """A page sees its own name alone, and guesses are all the same."""
    link = urlsplit(services.link(bank["id"])["url"]).netloc
    place = attacker(person, page, evil, where)
    known = place.evaluate("JSON.stringify([location.href, document.referrer, [...(location.ancestorOrigins ?? [])], performance.getEntries().map((one) => one.name)])")
    assert link.split(".")[0] not in known and host_of(bank) not in known, known
    scheme, rest = ("https" if server.secure else "http"), link.split(".", 1)[1]
    tried = place.evaluate(
        """async (urls) => {
          const outcomes = [];
          for (const url of urls) outcomes.push(await fetch(url).then((answer) => `${answer.status}`, () => 'refused'));
          return outcomes;
        }""",
        [f"{scheme}://p{letter * 26}.{rest}/" for letter in "abc"],
    )
    assert len(set(tried)) == 1 and "200" not in tried, tried
    for one in services.ask("GET", f"/services/{bank['id']}/links"):
        services.ask("DELETE", f"/services/{bank['id']}/links/{one['id']}")


def test_pages_of_frames_are_not_kept_for_tabs(person, page, evil):
    """An app that has its page cached for a year does not get the frame's form of it shown elsewhere."""
    path = "/?body=<head></head><h1>kept</h1>&header=Cache-Control:public,max-age=31536000&n=1"
    frame = hold(page, evil["id"], path)
    expect(frame.get_by_role("heading", name="kept")).to_be_visible()
    assert "/.cabana/bridge.js" in frame.content(), "the bridge is there"
    host = urlsplit(frame.url)
    other = person.context.new_page()
    other.goto(f"{host.scheme}://{host.netloc}{path}")
    if other.get_by_role("heading", name="kept").count():
        assert "/.cabana/bridge.js" not in other.content()
    other.close()


def test_another_app_cannot_answer_for_ours(server, services, person, page, evil):
    """The app tries to say what our paths are, by caching, redirects and base addresses."""
    frame = hold(page, evil["id"], "/?body=<head><base%20href='https://evil.example/'></head><h1>based</h1>")
    expect(frame.get_by_role("heading", name="based")).to_be_visible()
    loaded = [urlsplit(name) for name in frame.evaluate("performance.getEntriesByType('resource').map((one) => one.name)")]
    hosts = {url.netloc for url in loaded if url.path == "/.cabana/bridge.js"}
    assert hosts == {urlsplit(frame.url).netloc}, f"a base address does not move our script: {hosts}"
    for path in ("/.cabana/bridge.js", "/.cabana/status"):
        assert frame.evaluate("(path) => fetch(location.origin + path).then((answer) => answer.text())", path)
    assert not [line for line in frame.evaluate("fetch(location.origin + '/seen').then((answer) => answer.json())") if "/.cabana" in line]
