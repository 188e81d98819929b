"""Previews as they are on the wire: who may see a service, what its program sees, and what wakes its sandbox. Requests are made by hand,
with the headers of browsers and of programs."""

import re
import threading
import time
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

import canary
import inside
from services import (
    FRAMED,
    NAVIGATION,
    PREFETCHED,
    SCRIPTED,
    Person,
    Reply,
    Services,
    console_origin,
    fetch,
    host_of,
    second_team,
    streaming,
    view_cookie,
    websocket,
)  # fmt: skip
from waiting import eventually
from wire import Box

EVIL = "evil.example"
COMMAND = "exec python3 app.py 0.0.0.0 {}"


@pytest.fixture(scope="module")
def services(server) -> Services:
    return Services(server)


@pytest.fixture(scope="module")
def other_key(server) -> str:
    return second_team(server)


@pytest.fixture(scope="module")
def box(server, services, other_key):
    """A sandbox whose ports are not public, with the app on two of them. Those who may not see its page may not see its port either."""
    made = services.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 900, "network": {"allowPublicTraffic": False}})
    box = Box(made["sandboxID"], canary.remember("an access token", made["envdAccessToken"]))
    box.traffic = canary.remember("a traffic token", made["trafficAccessToken"])
    services.write(box, "app.py", inside.APP)
    yield box
    services.ask("DELETE", f"/sandboxes/{box.id}")


@pytest.fixture(scope="module")
def apps(services, box) -> list[dict]:
    return [services.running(box, COMMAND.format(port), name=f"app-{port}", port=port) for port in (8000, 8001)]


@pytest.fixture
def service(services, apps, box) -> dict:
    """A private service that runs."""
    if services.phase(box) != "running":
        services.connect(box)
    for one in apps:
        services.change(one["id"], access="private", hostMode="local", bridge=True, slug="")
        services.until(one["id"], "running")
    return apps[0]


@pytest.fixture(scope="module")
def person(server, other_key):
    """Somebody of the team."""
    return Person(server)


@pytest.fixture
def ask(server, services, service):
    """A request to the service's own host."""
    return lambda path="/", host=None, method="GET", **headers: fetch(server, host or host_of(service), path, method, **headers)


def forbidden(answer: Reply) -> None:
    assert (answer.status, answer.code) == (403, "preview_forbidden"), (answer.status, answer.body)


def seen_by(answer: Reply) -> dict[str, str]:
    """The headers that the app got."""
    assert answer.status == 200, (answer.status, answer.body)
    return dict(answer.json["headers"])


# Who may see it


def test_private(server, ask, service, box, person, other_key):
    """Nobody but the team: by a person's view, a key, or the sandbox's traffic token. The app learns none of them."""
    forbidden(ask())
    forbidden(ask(method="POST"))
    forbidden(ask(X_API_KEY=other_key))
    forbidden(ask(X_API_KEY="e2b_" + "0" * 40))
    forbidden(ask(**{"e2b-traffic-access-token": "x"}))
    view = person.enter(service["id"])
    for headers in (
        {"X-API-KEY": server.key},
        {"e2b-traffic-access-token": box.traffic},
        {"Cookie": f"a=1; {view.cookie}; {person.cookie}; b=2"},
    ):
        got = seen_by(ask(**headers))
        for secret in (server.key, box.traffic, view.cookie.partition("=")[2], person.cookie.partition("=")[2]):
            assert secret not in str(got), "the app does not learn who came"
        if "Cookie" in headers:
            assert re.split("; *", got["cookie"]) == ["a=1", "b=2"], "cookies of its own are the app's"
    name, value = view.cookie.split("=", 1)
    for cookie in (f"{name}={value[:-2]}xx", f"{name}=", f"{name}x={value}", person.cookie, f"{name}=x; a={value}"):
        forbidden(ask(Cookie=cookie))


def test_private_by_the_headers_of_an_sdk(server, service, box):
    """The same port by another way."""
    routing = {"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "8000"}
    here = f"127.0.0.1:{server.port}"
    assert fetch(server, here, **routing).status == 403
    assert fetch(server, here, **routing, **{"e2b-traffic-access-token": box.traffic}).status == 200


def test_private_in_a_sandbox_with_public_ports(server, services, boxes):
    """The port of a service follows the service; other ports are as they were."""
    box = boxes(timeout=300)
    services.write(box, "app.py", inside.APP)
    made = services.running(box, COMMAND.format(8000), port=8000)
    services.run(box, "nohup python3 app.py 0.0.0.0 8005 >/dev/null 2>&1 & until ss -Hltn 'sport = :8005' | grep -q .; do sleep 0.05; done")
    host = host_of(made)
    forbidden(fetch(server, host))
    assert fetch(server, f"127.0.0.1:{server.port}", **{"E2b-Sandbox-Id": box.id, "E2b-Sandbox-Port": "8000"}).status == 403
    assert fetch(server, host.replace("8000-", "8005-")).status == 200
    assert fetch(server, host, X_API_KEY=server.key).status == 200
    services.change(made["id"], access="public")
    assert fetch(server, host).status == 200
    services.forget(made["id"])
    services.run(box, "nohup python3 app.py 0.0.0.0 8000 >/dev/null 2>&1 & until ss -Hltn 'sport = :8000' | grep -q .; do sleep 0.05; done")
    assert fetch(server, host).status == 200, "without a service it is a port like others"


def test_strangers_are_sent_to_sign_in(server, ask, service):
    answer = ask("/deep/page?q=1&r=%20", **NAVIGATION)
    assert answer.status == 302 and not answer.all("set-cookie"), answer
    target = urlsplit(answer.header("location"))
    assert f"{target.scheme}://{target.netloc}{target.path}" == f"{console_origin(server)}/console/preview"
    assert parse_qs(target.query)["to"] == [f"http://{host_of(service)}/deep/page?q=1&r=%20"]
    framed = ask("/deep", **FRAMED)
    assert "location" not in [name.lower() for name, _ in framed.headers] and framed.status in (401, 403), framed
    assert "Sign in to see this" in framed.text and "text/html" in framed.header("content-type")
    forbidden(ask("/deep", **SCRIPTED))


def test_public(services, ask, service):
    services.change(service["id"], access="public")
    assert seen_by(ask())["host"] == "localhost:8000"
    assert ask(**NAVIGATION).status == 200
    services.change(service["id"], access="private")
    forbidden(ask())


def test_slug(server, services, ask, service):
    services.change(service["id"], access="public", slug="my-preview")
    host = f"my-preview.localhost:{server.port}"
    assert seen_by(ask(host=host))["host"] == "localhost:8000"
    assert ask(host=f"other-preview.localhost:{server.port}").status in (403, 404, 421)
    services.change(service["id"], access="link", slug="")
    assert ask(host=host).status in (403, 404), "only while it is public"


def test_links(server, services, ask, service, apps):
    services.change(service["id"], access="link")
    link = services.link(service["id"])
    address = urlsplit(link["url"])
    assert re.fullmatch(f"p[a-z2-7]{{26}}\\.localhost:{server.port}", address.netloc), address
    forbidden(ask())
    assert seen_by(ask(host=address.netloc))["host"] == "localhost:8000"
    assert ask(host=address.netloc, **NAVIGATION).status == 200
    ask("/files/x", host=address.netloc, **SCRIPTED)
    (listed,) = [one for one in services.ask("GET", f"/services/{service['id']}/links") if one["id"] == link["id"]]
    assert listed["opened"] >= 1 and listed["lastOpenedAt"], "pages are counted"
    label = address.netloc.split(".")[0]
    guesses = ["p" + "a" * 26, label[:-1] + ("a" if label[-1] != "a" else "b"), "q" + label[1:], label[:-1], label + "a"]
    assert all(ask(host=f"{guess}.localhost:{server.port}").status in (403, 404, 421) for guess in guesses)
    assert ask(host=address.netloc.upper()).status in (200, 403, 404), "names of hosts have no case"
    services.ask("DELETE", f"/services/{service['id']}/links/{link['id']}")
    for headers in ({}, NAVIGATION, SCRIPTED, FRAMED):
        assert ask(host=address.netloc, **headers).status in (403, 404, 410), headers
    short = urlsplit(services.link(service["id"], expiresInSeconds=1)["url"])
    eventually(lambda: ask(host=short.netloc).status in (403, 404, 410), within=5)


def test_links_end_with_their_service(server, services, box, service):
    made = services.running(box, COMMAND.format(8009), name="short-lived", port=8009, access="link")
    host = urlsplit(services.link(made["id"])["url"]).netloc
    assert fetch(server, host).status == 200
    services.forget(made["id"])
    assert fetch(server, host).status in (403, 404, 410)


# Tickets


def ticket(person: Person, service: dict, path: str = "/") -> tuple[str, str]:
    """A host and a path with a ticket."""
    opened = urlsplit(person.open(service["id"], path)["url"])
    canary.remember("a ticket", parse_qs(opened.query)["ticket"][0])
    return opened.netloc, f"{opened.path}?{opened.query}"


def no_view(answer: Reply) -> None:
    assert not any("cabana_view" in line for line in answer.all("set-cookie")), answer.headers
    assert answer.status in (302, 303, 400, 401, 403, 404, 410), answer
    assert "/.cabana/check" not in answer.header("location")


def test_entering(server, ask, service, person):
    host, path = ticket(person, service, "/deep?q=1")
    assert host == host_of(service)
    answer = ask(path, host, **NAVIGATION)
    assert answer.status == 302 and answer.header("location") in ("/deep?q=1", f"http://{host}/deep?q=1"), answer
    (line,) = answer.all("set-cookie")
    flags = {flag.strip().lower().split("=")[0] for flag in line.split(";")[1:]}
    assert line.startswith(f"{view_cookie(server)}=") and {"httponly", "path", "samesite"} <= flags and "domain" not in flags, line
    assert "samesite=lax" in line.lower()
    assert "no-store" in answer.header("cache-control"), "an answer with a cookie is kept nowhere"
    assert answer.header("referrer-policy") in ("no-referrer", "same-origin", "origin"), "the ticket is told to nobody"
    assert ask(Cookie=line.split(";")[0]).status == 200


def test_tickets_are_used_once(ask, service, person):
    host, path = ticket(person, service)
    assert ask(path, host, **NAVIGATION).all("set-cookie")
    no_view(ask(path, host, **NAVIGATION))
    host, path = ticket(person, service)
    answers: list[Reply] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(path, host, **NAVIGATION))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(bool(answer.all("set-cookie")) for answer in answers) == 1, "also at the same time"


def test_tickets_are_for_one_host(server, services, ask, service, apps, person):
    _, path = ticket(person, service)
    no_view(ask(path, host_of(apps[1]), **NAVIGATION))
    services.change(service["id"], access="link")
    grant = urlsplit(services.link(service["id"])["url"]).netloc
    _, path = ticket(person, service)
    no_view(ask(path, grant, **NAVIGATION))
    no_view(ask("/.cabana/enter?ticket=x&to=/", host_of(service), **NAVIGATION))
    no_view(ask("/.cabana/enter", host_of(service), **NAVIGATION))
    no_view(ask("/.cabana/enter?ticket=&ticket=&to=/", host_of(service), **NAVIGATION))


def test_views_are_for_one_service(ask, service, apps, person):
    view = person.enter(apps[1]["id"])
    assert ask(host=host_of(apps[1]), Cookie=view.cookie).status == 200
    forbidden(ask(Cookie=view.cookie))


def test_tickets_and_views_end_with_their_session(server, ask, service, other_key):
    leaving = Person(server)
    view = leaving.enter(service["id"])
    host, path = ticket(leaving, service)
    frame = urlsplit(leaving.open(service["id"], frame=True)["url"])
    assert ask(Cookie=view.cookie).status == 200
    entered = ask(frame.path or "/", frame.netloc, **FRAMED)
    assert entered.status == 200, "without a domain, frames have a name of their own"
    leaving.sign_out()
    forbidden(ask(Cookie=view.cookie))
    no_view(ask(path, host, **NAVIGATION))
    assert ask("/", frame.netloc, **FRAMED).status in (401, 403, 404, 410)


def test_frame_names_are_the_persons_own(server, service, person, other_key):
    """The same name per person and service, so that the app's storage stays; another one for somebody else."""
    mine = [urlsplit(person.open(service["id"], frame=True)["url"]).netloc for _ in range(2)]
    assert mine[0] == mine[1]
    somebody = Person(server)
    assert urlsplit(somebody.open(service["id"], frame=True)["url"]).netloc.split(".")[0].startswith("p")
    somebody.sign_out()
    assert fetch(server, mine[0], **FRAMED).status == 200, "another session's end does not end mine"


TARGETS = [
    f"//{EVIL}/", f"/\\{EVIL}/", f"\\\\{EVIL}/", f"https://{EVIL}/", "javascript:alert(1)", f"/\t/{EVIL}/", "/a\r\nX-Injected: 1", "/a\nSet-Cookie: a=b",
    "", " ", "x", "/" + "a" * 2048, f"/\x00//{EVIL}", f"///{EVIL}", f"@{EVIL}", f".{EVIL}", f"/%0d%0aX-Injected:1//{EVIL}\r\n",
]  # fmt: skip


def test_nothing_leads_elsewhere(ask, service, person):
    """Targets that are not paths of this host lead to its first page."""
    for target in TARGETS:
        host, path = ticket(person, service)
        answer = ask(re.sub("to=[^&]*", "to=" + quote(target, safe=""), path), host, **NAVIGATION)
        assert answer.status == 302 and answer.header("location") in ("/", f"http://{host}/"), (target, answer.headers)
        assert not answer.all("x-injected") and len(answer.all("set-cookie")) == 1, target
        opened = person.ask("POST", f"/services/{service['id']}/open", {"path": target})
        if opened.status == 200:
            url = urlsplit(opened.json["url"])
            assert url.netloc == host and parse_qs(url.query).get("to", ["/"]) == ["/"], (target, opened.json)
        else:
            assert opened.status == 400, (target, opened.body)
    for path in ("/ok", "/ok?a=b&c=d#e", "/ok/../x", "/ü"):
        host, there = ticket(person, service)
        answer = ask(re.sub("to=[^&]*", "to=" + quote(path, safe=""), there), host, **NAVIGATION)
        assert answer.header("location").removeprefix(f"http://{host}").startswith("/"), (path, answer.headers)


def test_nothing_leads_elsewhere_by_the_host(server, ask, service):
    """Whatever the header says, a stranger is sent to this console and nowhere else."""
    host = host_of(service)
    for name in (f"{EVIL}", f"{host}.{EVIL}", f"{host}@{EVIL}", f"{EVIL}/{host}", f"{host}/{EVIL}", f"a.{host}", f"{host}#", f"x\t{host}"):
        answer = ask(host=name, **NAVIGATION)
        assert EVIL not in urlsplit(answer.header("location")).netloc, (name, answer.headers)
        assert answer.status in (302, 307, 400, 403, 404, 421), (name, answer.status)
    answer = ask(f"//{EVIL}/", **NAVIGATION)
    assert urlsplit(answer.header("location")).netloc == urlsplit(console_origin(server)).netloc
    assert parse_qs(urlsplit(answer.header("location")).query)["to"][0].startswith(f"http://{host}/")


# Our own paths


OURS = [
    "/.cabana", "/.cabana/", "/.cabana/x", "/.cabana/enter", "/.cabana/check", "/.cabana/status", "/.cabana/bridge.js", "/.cabana/capture.js",
    "/.cabana/bridge.js/x", "/.cabana/../.cabana/x", "/.cabana//x", "/.cabana/%2e%2e/x", "/.cabana?x", "/.cabana/status?x#y",
]  # fmt: skip


def test_our_paths_never_reach_the_app(server, services, ask, service, person):
    view = person.enter(service["id"])
    services.change(service["id"], access="link")
    grant = urlsplit(services.link(service["id"])["url"]).netloc
    for host, headers in ((host_of(service), {"Cookie": view.cookie}), (host_of(service), {"X-API-KEY": server.key}), (host_of(service), {}), (grant, {})):
        for path in OURS:
            for method in ("GET", "POST", "HEAD", "DELETE", "OPTIONS"):
                assert ask(path, host, method, **headers).status != 500, (method, path)
    with pytest.raises(InvalidStatus):
        websocket(server, grant, "/.cabana/x").close()
    got = ask("/seen", grant).json
    assert not [line for line in got if "/.cabana" in line], got


def test_our_scripts(ask, service, person):
    view = person.enter(service["id"])
    for name in ("bridge.js", "capture.js"):
        answer = ask(f"/.cabana/{name}", Cookie=view.cookie)
        assert answer.status == 200 and "javascript" in answer.header("content-type") and len(answer.body) > 100
        assert answer.header("x-content-type-options") == "nosniff"
        again = ask(f"/.cabana/{name}", Cookie=view.cookie, If_None_Match=answer.header("etag"))
        assert again.status == 304 and not again.body
    assert ask("/.cabana/other.js", Cookie=view.cookie).status == 404


def test_status(server, services, ask, service, box, person):
    view = person.enter(service["id"])
    assert ask("/.cabana/status", Cookie=view.cookie, **SCRIPTED).json["state"] == "running"
    assert ask("/.cabana/status", **SCRIPTED).status in (401, 403)
    services.pause(box)
    assert ask("/.cabana/status", Cookie=view.cookie, **SCRIPTED).json["state"] == "suspended"
    assert services.phase(box) == "paused"


# What the app sees, and what is seen of it


def test_the_app_sees_its_own_address(server, ask, service):
    host = host_of(service)
    origin = f"http://{host}"
    claims = {"X-Forwarded-Host": EVIL, "X-Forwarded-Proto": "gopher", "X-Forwarded-For": "203.0.113.9"}
    got = seen_by(ask("/x", X_API_KEY=server.key, Origin=origin, Referer=f"{origin}/page?q=1", **claims))
    assert got["host"] == "localhost:8000" and got["origin"] == "http://localhost:8000" and got["referer"] == "http://localhost:8000/page?q=1"
    assert got["x-forwarded-host"] == host and got["x-forwarded-proto"] == "http", got
    assert got["x-forwarded-for"] == "127.0.0.1" or got["x-forwarded-for"].endswith(", 127.0.0.1"), got
    got = seen_by(ask("/x", X_API_KEY=server.key, Origin=f"https://{EVIL}", Referer=f"https://{EVIL}/{host}"))
    assert got["origin"] == f"https://{EVIL}" and got["referer"] == f"https://{EVIL}/{host}", "others' are theirs"
    got = seen_by(ask("/x", X_API_KEY=server.key, Origin=f"{origin}.{EVIL}"))
    assert got["origin"] == f"{origin}.{EVIL}"


def answered(*headers: str, body: str = "x", kind: str = "text/plain", status: int = 200) -> str:
    """A path for which the app answers with these headers."""
    return f"/?status={status}&type={quote(kind)}&body={quote(body)}" + "".join(f"&header={quote(line, safe='')}" for line in headers)


def test_addresses_in_answers(server, ask, service):
    origin, key = f"http://{host_of(service)}", {"X-API-KEY": server.key}
    for said, told in (
        ("http://localhost:8000/x?y", f"{origin}/x?y"),
        ("https://localhost:8000/x", f"{origin}/x"),
        ("http://127.0.0.1:8000/", f"{origin}/"),
        ("/relative", "/relative"),
        ("http://localhost:8001/", "http://localhost:8001/"),
        ("http://localhost:80001/", "http://localhost:80001/"),
        (f"http://localhost:8000.{EVIL}/", f"http://localhost:8000.{EVIL}/"),
        (f"https://{EVIL}/http://localhost:8000/", f"https://{EVIL}/http://localhost:8000/"),
    ):
        assert ask(answered(f"Location:{said}", status=302), **key).header("location") == told, said
    assert ask(answered("Access-Control-Allow-Origin:http://localhost:8000"), **key).header("access-control-allow-origin") == origin
    assert ask(answered("Access-Control-Allow-Origin:*"), **key).header("access-control-allow-origin") == "*"
    assert ask(answered("Set-Cookie:a=1; Domain=localhost; Path=/"), **key).header("set-cookie").replace(" ", "").lower() == "a=1;path=/"


def test_host_mode_public(server, services, ask, service):
    services.change(service["id"], hostMode="public")
    host = host_of(service)
    got = seen_by(ask("/x", X_API_KEY=server.key, Origin=f"http://{host}"))
    assert got["host"] == host and got["origin"] == f"http://{host}"
    said = "http://localhost:8000/x"
    assert ask(answered(f"Location:{said}", status=302), X_API_KEY=server.key).header("location") == said


def test_the_app_sets_no_cookie_of_ours(server, ask, service):
    """In any spelling; its own pass."""
    ours = [f"cabana_view_{server.port}", f"cabana_session_{server.port}", "__Host-cabana_view", "__Host-cabana_session"]
    lines = [f"Set-Cookie:{name}=evil; Path=/" for name in [*ours, *(f" {name} " for name in ours), *(name.upper() for name in ours[2:])]]
    answer = ask(answered(*lines, f"Set-Cookie:{ours[0]}=evil; Domain=localhost", "Set-Cookie:own=1; Path=/", "Set-Cookie:own2=1"), X_API_KEY=server.key)
    names = [line.split("=")[0].strip() for line in answer.all("set-cookie")]
    assert [name for name in names if name in ours] == [] and {"own", "own2"} <= set(names), names


def test_frames(server, ask, service, person):
    """Pages that forbid to be framed may be framed by the console alone; what is open to everyone stays as it is."""
    view, console = person.enter(service["id"]), console_origin(server)
    page = answered("X-Frame-Options:DENY", "Content-Security-Policy:default-src 'self'; frame-ancestors 'none'; img-src *", kind="text/html")
    answer = ask(page, Cookie=view.cookie, **FRAMED)
    assert not answer.all("x-frame-options"), answer.headers
    policies = " , ".join(answer.all("content-security-policy"))
    assert policies.count("frame-ancestors") == 1 and f"frame-ancestors 'self' {console}" in policies, policies
    assert "'none'" not in policies and "default-src 'self'" in policies and "img-src *" in policies
    plain = ask(answered(kind="text/html"), Cookie=view.cookie, **FRAMED)
    assert f"frame-ancestors 'self' {console}" in plain.header("content-security-policy"), "nobody else frames a private page"
    refused = ask("/nothing", **FRAMED)
    assert "frame-ancestors" in refused.header("content-security-policy") or refused.all("x-frame-options"), "nor our own pages"


def test_frames_of_public_pages_are_the_apps_own(services, ask, service):
    services.change(service["id"], access="public")
    answer = ask(answered("X-Frame-Options:DENY", "Content-Security-Policy:frame-ancestors 'none'", kind="text/html"), **FRAMED)
    assert answer.all("x-frame-options") == ["DENY"] and answer.all("content-security-policy") == ["frame-ancestors 'none'"]


HTML = "<!doctype html><html><head><title>t</title></head><body>x</body></html>"
TAG = re.compile(rb'<script[^>]* ?src="/\.cabana/bridge\.js"[^>]*></script>')


def test_the_bridge(server, services, ask, service, person):
    """One script in framed pages, right after the head begins; everything else is byte for byte the app's."""
    cookie = {"Cookie": person.enter(service["id"]).cookie}
    page = answered('ETag:"1"', "Last-Modified:Wed, 21 Oct 2015 07:28:00 GMT", body=HTML, kind="text/html; charset=utf-8")
    answer = ask(page, **cookie, **FRAMED)
    (tag,) = TAG.findall(answer.body)
    assert f'data-origin="{console_origin(server)}"'.encode() in tag, tag
    assert answer.body == HTML.encode().replace(b"<head>", b"<head>" + tag)
    assert answer.header("content-length") in ("", str(len(answer.body)))
    assert not answer.all("etag") and not answer.all("last-modified") and "no-cache" in answer.header("cache-control")
    assert "sec-fetch-dest" in answer.header("vary").lower()
    for headers in ({**cookie, **NAVIGATION}, {**cookie, **SCRIPTED}, cookie, {"X-API-KEY": server.key}, {"X-API-KEY": server.key, **FRAMED}):
        untouched = ask(page, **headers)
        assert untouched.body == HTML.encode() and untouched.all("etag") == ['"1"'], headers
    for kind in ("text/plain", "application/json", "image/svg+xml", "text/css"):
        assert ask(answered(body=HTML, kind=kind), **cookie, **FRAMED).body == HTML.encode(), kind
    assert TAG.search(ask(answered(body=HTML, kind="text/html", status=404), **cookie, **FRAMED).body), "pages of errors, too"
    assert TAG.match(ask(answered(body="just text", kind="text/html"), **cookie, **FRAMED).body)
    assert not ask(page, method="HEAD", **cookie, **FRAMED).body
    services.change(service["id"], bridge=False)
    assert ask(page, **cookie, **FRAMED).body == HTML.encode()


def test_the_bridge_asks_for_what_it_can_read(ask, service, person):
    cookie = {"Cookie": person.enter(service["id"]).cookie}
    got = seen_by(ask(Accept_Encoding="gzip, br", **cookie, **SCRIPTED))
    assert got["accept-encoding"] == "gzip, br"
    got = seen_by(ask(Accept_Encoding="gzip, br", **cookie, **FRAMED))
    assert got.get("accept-encoding", "identity") == "identity"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("script-src 'none'", r"script-src[^;]* 'self'"),
        ("default-src 'none'", r"(script-src|default-src)[^;]* 'self'"),
        ("default-src https:; script-src https:", r"script-src[^;]* 'self'"),
        ("script-src 'nonce-abc'", r"script-src[^;]* 'nonce-abc'[^;]* 'nonce-[^;]+'"),
        ("script-src 'strict-dynamic' 'nonce-abc'", r"script-src[^;]*'nonce-(?!abc)[^;]+'"),
        ("script-src 'none'; script-src-elem 'none'", r"script-src-elem[^;]* 'self'"),
        ("img-src *", r"img-src \*"),
    ],
)
def test_the_bridge_and_policies(ask, service, person, policy, expected):
    cookie = {"Cookie": person.enter(service["id"]).cookie}
    answer = ask(answered(f"Content-Security-Policy:{policy}", body=HTML, kind="text/html"), **cookie, **FRAMED)
    policies = " , ".join(answer.all("content-security-policy"))
    assert re.search(expected, policies), policies
    (tag,) = TAG.findall(answer.body)
    if "nonce" in policy:
        nonce = re.search(rb'nonce="([^"]+)"', tag)[1].decode()
        assert f"'nonce-{nonce}'" in policies and nonce != "abc"
        again = ask(answered(f"Content-Security-Policy:{policy}", body=HTML, kind="text/html"), **cookie, **FRAMED)
        assert nonce.encode() not in again.body, "a new one each time"


# Sign-out and revocation


def closed(socket, within: float = 10) -> bool:
    """Whether the other end closes a WebSocket."""
    try:
        while True:
            socket.recv(timeout=within)
    except ConnectionClosed:
        return True
    except TimeoutError:
        return False


def ends(response, within: float = 10) -> bool:
    """Whether a stream ends."""
    until = time.monotonic() + within
    try:
        while time.monotonic() < until:
            if not response.read1(4096):
                return True
    except Exception:  # cut in the middle of a chunk
        return True
    return False


@pytest.mark.parametrize("by", ["view", "frame"])
def test_signing_out_cuts_what_is_open(server, service, other_key, by):
    leaving, staying = Person(server), Person(server)
    kept = staying.enter(service["id"])
    if by == "view":
        view = leaving.enter(service["id"])
        host, headers = view.host, {"Cookie": view.cookie}
    else:
        host, headers = urlsplit(leaving.open(service["id"], frame=True)["url"]).netloc, {}
    with (
        websocket(server, host, "/ws", **headers, Origin=f"http://{host}") as cut,
        websocket(server, kept.host, "/ws", Cookie=kept.cookie) as other,
        streaming(server, host, "/events", **headers) as stream,
    ):
        for socket in (cut, other):
            socket.send("hello")
            assert socket.recv(timeout=10) == "hello"
        assert stream.status == 200 and stream.read1(16)
        leaving.sign_out()
        started = time.monotonic()
        assert closed(cut) and ends(stream)
        assert time.monotonic() - started < 5
        other.send("still")
        assert other.recv(timeout=10) == "still", "other people's stay"
    staying.sign_out()


def test_revoking_a_link_cuts_what_is_open(server, services, service):
    services.change(service["id"], access="link")
    link = services.link(service["id"])
    host = urlsplit(link["url"]).netloc
    with websocket(server, host, "/ws") as socket, streaming(server, host, "/events") as stream:
        socket.send("hello")
        assert socket.recv(timeout=10) == "hello" and stream.read1(16)
        services.ask("DELETE", f"/services/{service['id']}/links/{link['id']}")
        assert closed(socket) and ends(stream)
    with websocket(server, urlsplit(services.link(service["id"], expiresInSeconds=2)["url"]).netloc, "/ws") as socket:
        socket.send("hello")
        assert socket.recv(timeout=10) == "hello"
        assert closed(socket), "when it expires, too"


# Waking


def test_what_wakes(server, services, ask, service, box, person):
    """A person who navigates and a program; nothing that a forgotten tab does."""
    cookie = {"Cookie": person.enter(service["id"]).cookie}
    pid = ask("/pid", **cookie).json
    services.pause(box)
    for headers in (SCRIPTED, {**SCRIPTED, "Sec-Fetch-Dest": "image", "Sec-Fetch-Mode": "no-cors"}, {**SCRIPTED, "Sec-Fetch-Dest": "script"}):
        answer = ask("/x", **cookie, **headers)
        assert (answer.status, answer.code) == (503, "service_suspended"), (headers, answer)
    assert ask("/x", **cookie, **PREFETCHED).status == 503
    with pytest.raises(InvalidStatus):
        websocket(server, host_of(service), "/ws", **cookie, **{**SCRIPTED, "Sec-Fetch-Mode": "websocket", "Sec-Fetch-Dest": "websocket"}).close()
    forbidden(ask("/x"))
    assert ask("/x", **NAVIGATION).status == 302, "a stranger"
    time.sleep(0.3)
    assert services.phase(box) == "paused"
    answer = ask("/pid", **cookie, **NAVIGATION)
    assert answer.status == 200 and answer.json == pid, "with its memory"
    assert services.phase(box) == "running"
    services.pause(box)
    assert ask("/pid", **cookie).json == pid, "a program"
    services.pause(box)
    assert ask("/pid", **cookie, **FRAMED).json == pid, "a frame that is loaded"


def test_waking_from_disk(services, ask, service, box, person):
    """The port is waited for; everybody who comes meanwhile is served."""
    cookie = {"Cookie": person.enter(service["id"]).cookie}
    services.pause(box, memory=False)
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(ask("/pid", **cookie, **NAVIGATION).status)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 5, answers


def test_quiet_requests_do_not_keep_it_awake(server, services, boxes):
    """A socket and polling of a tab that nobody has looked at, unless they give the sandbox much to do."""
    box = boxes(timeout=600, idleTimeout=2, autoPause=True)
    services.write(box, "app.py", inside.APP)
    made = services.running(box, COMMAND.format(8000), port=8000)
    own = {"X-API-KEY": server.key, **SCRIPTED}
    with websocket(server, host_of(made), "/ws", **{**own, "Sec-Fetch-Mode": "websocket", "Sec-Fetch-Dest": "websocket"}) as socket:

        def worry() -> bool:
            try:
                socket.send("hello")
                assert socket.recv(timeout=5) == "hello"
            except ConnectionClosed:
                pass
            fetch(server, host_of(made), "/poll", **own)
            return services.phase(box) == "paused"

        eventually(worry, within=45, every=2, what="it is paused in spite of them")
        assert closed(socket), "and does not hang"
    answer = fetch(server, host_of(made), "/poll", **own)
    assert (answer.status, answer.code) == (503, "service_suspended") and services.phase(box) == "paused"


def test_looking_keeps_it_awake(server, services, boxes):
    """Within five minutes after a navigation, what the page does counts."""
    looked, control = (boxes(timeout=600, idleTimeout=2, autoPause=True) for _ in range(2))
    for box in (looked, control):
        services.write(box, "app.py", inside.APP)
    made = services.running(looked, COMMAND.format(8000), port=8000)
    services.running(control, COMMAND.format(8000), port=8000)
    own = {"X-API-KEY": server.key}
    assert fetch(server, host_of(made), "/", **own, **NAVIGATION).status == 200
    with websocket(server, host_of(made), "/ws", **own, **{**SCRIPTED, "Sec-Fetch-Mode": "websocket", "Sec-Fetch-Dest": "websocket"}) as socket:
        eventually(lambda: services.phase(control) == "paused", within=30, every=0.1)
        time.sleep(1)
        socket.send("hello")
        assert socket.recv(timeout=10) == "hello" and services.phase(looked) == "running"


# Waiting, and our own pages


def test_a_port_that_is_about_to_open(server, services, box, service):
    made = services.start(box, f"sleep 2; {COMMAND.format(8010)}", wait=0, name="slow", port=8010)
    started = time.monotonic()
    answer = fetch(server, host_of(made), "/pid", X_API_KEY=server.key)
    assert answer.status == 200 and 1 < time.monotonic() - started < 15, answer
    services.forget(made["id"])


def test_pages_of_ours(server, services, box, service, person):
    """What happened, in words, with the last lines as text; for people of the team a way to the console."""
    hostile = "<img src=x onerror=alert(1)>"
    made = services.start(box, f"echo '{hostile}'; exit 3", name="broken", port=8011)
    assert made["state"] == "error"
    cookie = {"Cookie": person.enter(made["id"]).cookie}
    page = fetch(server, host_of(made), "/", **cookie, **NAVIGATION)
    assert page.status >= 400 and "text/html" in page.header("content-type")
    assert "broken" in page.text and "3" in page.text
    assert hostile not in page.text and "&lt;img src=x onerror=alert(1)&gt;" in page.text
    link = f"{console_origin(server)}/console/sandboxes/{box.id}/ports?service={made['id']}"
    assert link in page.text.replace("&amp;", "&") and "Restart service" in page.text and "_top" in page.text
    assert "default-src" in page.header("content-security-policy"), "our pages have a policy of their own"
    assert "no-store" in page.header("cache-control")
    answer = fetch(server, host_of(made), "/", **cookie, **SCRIPTED)
    assert answer.status in (502, 503) and answer.code, answer
    services.change(made["id"], access="link")
    visitor = fetch(server, urlsplit(services.link(made["id"])["url"]).netloc, "/", **NAVIGATION)
    assert visitor.status >= 400 and "Restart service" not in visitor.text and box.id not in visitor.text, "for visitors, no way to the console"
    services.act(made["id"], "stop")
    page = fetch(server, host_of(made), "/", **cookie, **NAVIGATION)
    assert page.status >= 400 and "stopped" in page.text.lower()
    services.forget(made["id"])


def test_a_page_while_it_starts(server, services, box, service, person):
    """After waiting for a while, a page that looks again by itself."""
    made = services.start(box, "echo preparing; sleep 100", wait=0, name="starting", port=8012)
    cookie = {"Cookie": person.enter(made["id"]).cookie}
    started = time.monotonic()
    page = fetch(server, host_of(made), "/", **cookie, **NAVIGATION)
    assert 5 < time.monotonic() - started < 25
    assert page.status in (200, 503) and "/.cabana/status" in page.text and "starting" in page.text.lower()
    (nonce,) = set(re.findall(r'<script nonce="([^"]+)"', page.text))
    assert f"'nonce-{nonce}'" in page.header("content-security-policy")
    services.forget(made["id"])
