"""Apps as people write them, with the configuration that they come with, in the console's pane: they are private, they work, they change
while they are edited, and they are there again after a pause and after the server was killed."""

import re
import time

import pytest
from playwright.sync_api import FrameLocator, Page, expect

import apps
import inside
from apps import APPS, HOME, App
from pages import AWAY, Console
from previewing import PANE, hold, pane, shown
from services import PATIENCE, Services, fetch, host_of, second_team
from waiting import eventually
from wire import Box

BY_NAME = {app.name: app for app in APPS}
EVERY = pytest.mark.parametrize("name", BY_NAME)
#: Apps that need a cookie to be used. Without a domain, a frame is of another site than the console, where browsers keep none.
COOKIES = ("django", "flask")
HOT = pytest.mark.parametrize("name", [app.name for app in APPS if app.hot])


@pytest.fixture(scope="module")
def other_key(server) -> str:
    return second_team(server)


@pytest.fixture(scope="module")
def services(server, other_key) -> Services:
    return Services(server)


class Running:
    """The apps that were asked for, each in a sandbox of its own, for all tests."""

    def __init__(self, server, services: Services):
        self.server, self.services = server, services
        self.known: dict[str, tuple[Box, dict]] = {}

    def __call__(self, name: str) -> tuple[Box, dict]:
        if name not in self.known:
            app, client = BY_NAME[name], self.server.client(120)
            box = client.create(timeout=1800, memoryMB=app.memory)
            apps.put(client, box, name)
            client.close()
            self.known[name] = (box, {})
            made = self.services.start(box, app.command, cwd=HOME, env=dict(app.environment))
            assert made["state"] == "running" and made["port"] == app.port, made
            self.known[name] = (box, made)
        box, made = self.known[name]
        if self.services.phase(box) != "running":
            self.services.connect(box, 1800)
        self.services.until(made["id"], "running")
        return box, made


@pytest.fixture(scope="module")
def running(server, services):
    running = Running(server, services)
    yield running
    for box, _ in running.known.values():
        services.ask("DELETE", f"/sandboxes/{box.id}")


@pytest.fixture
def viewer(person, running):
    """The person's console, which may show previews. Apps complain about things that are theirs."""
    person.previews = True
    yield person
    person.leave()
    person.complaints.clear()
    others = [request.url for request in person.requests if not person.is_own(request.url)]
    person.requests.clear()
    assert not others, f"requests to somebody else: {others[:10]}"


def greets(place: Page | FrameLocator, app: App, text: str | None = None) -> None:
    expect(place.get_by_role("heading", name=text or app.greeting)).to_be_visible(timeout=60_000)


def count(place: Page | FrameLocator) -> int:
    """What the app has counted."""
    expect(place.get_by_text(re.compile("Counted")).first).to_be_visible()
    return int(re.search(r"Counted\s+(\d+)", place.locator("body").inner_text())[1])


def use(place: Page | FrameLocator, app: App) -> int:
    """A click that the app counts, in its own way: by state in the page, a socket, or a form. Returns how many there were before."""
    before = count(place)

    def click() -> bool:
        # A page that was made on the server is there before its scripts are: again, until it hears.
        if count(place) == before:
            if app.name == "express":
                place.get_by_label("Note").fill("x")
            names = {"express": "Add", "websocket": "Count", "streamlit": "Count"}
            name = names.get(app.name, f"Counted {before}")
            place.get_by_role("button", name=name, exact=True).click(timeout=5000)
            place.locator("body").evaluate("new Promise((done) => setTimeout(done, 300))")
        return count(place) > before

    eventually(click, within=PATIENCE, every=0.2, what=f"{app.name} counts")
    return before


def edit(services: Services, box: Box, app: App, old: str, new: str) -> None:
    """Changes a text in the app's file, as an agent does: by the API."""
    text = services.send("GET", f"/sandboxes/{box.id}/files/content?path={HOME}/{app.changes}").body.decode()
    assert old in text
    services.write(box, f"{HOME}/{app.changes}", text.replace(old, new))


@EVERY
def test_in_the_pane(services, running, viewer, name):
    """It is shown, it can be used, and nobody else sees it."""
    box, service = running(name)
    app = BY_NAME[name]
    place = pane(viewer, box, service)
    greets(place, app)
    if name not in COOKIES:
        use(place, app)
        use(place, app)
    assert service["access"] == "private" and fetch(services.server, host_of(service)).status == 403


@EVERY
def test_in_a_tab(running, viewer, name):
    """By its own address, which asks the console to let one in."""
    _, service = running(name)
    app, page = BY_NAME[name], viewer.new_page()
    page.goto(service["url"])
    greets(page, app)
    assert page.url.startswith(service["url"]), page.url
    use(page, app)
    use(page, app)
    page.close()


@HOT
def test_changes_while_it_is_edited(services, running, viewer, name):
    """Without loading the page again, and with the state that it has."""
    box, service = running(name)
    app = BY_NAME[name]
    place = pane(viewer, box, service)
    greets(place, app)
    use(place, app)
    before = count(place)
    frame = viewer.page.wait_for_selector(PANE).content_frame()
    frame.evaluate("window.__mark = true")
    for old, new in ((app.greeting, f"{name} was edited"), (f"{name} was edited", app.greeting)):
        edit(services, box, app, old, new)
        greets(place, app, new)
        assert count(place) == before
    assert frame.evaluate("window.__mark === true"), "the page was not loaded again"


@pytest.mark.parametrize("name", ["vite", "next", "streamlit", "websocket", "flask"])
def test_after_a_pause(services, running, viewer, name):
    """The pane says that it sleeps, does not wake it by itself, and shows the same process again."""
    box, service = running(name)
    app = BY_NAME[name]
    place = pane(viewer, box, service)
    greets(place, app)
    services.pause(box)
    expect(viewer.page.get_by_role("region", name="Service web").get_by_role("heading", name="Suspended")).to_be_visible()
    expect(viewer.page.locator(PANE)).to_have_count(0)
    time.sleep(1)
    assert services.phase(box) == "paused", "a pane that is open wakes nothing"
    services.connect(box, 1800)
    place = shown(viewer.page)
    greets(place, app)
    if name not in COOKIES:
        use(place, app)
    assert services.get(service["id"])["restarts"] == 0


def test_after_a_boot(services, running, viewer):
    """From its disk: the same command again, at the same address; opening the pane wakes it."""
    box, service = running("flask")
    services.pause(box, memory=False)
    page = viewer.new_page()
    page.goto(service["url"])
    greets(page, BY_NAME["flask"])
    assert page.url.startswith(service["url"])
    assert services.until(service["id"], "running")["url"] == service["url"]
    page.close()


def test_after_the_server_was_killed(server, services, running, viewer):
    """Everything that runs goes on, and open panes find it again."""
    before = {name: running(name) for name in BY_NAME}
    place = pane(viewer, *before["vite"])
    greets(place, BY_NAME["vite"])
    server.crash()
    server.start()
    viewer.expected += AWAY
    for name, (box, service) in before.items():
        after = services.until(service["id"], "running")
        assert (after["restarts"], after["url"]) == (services.get(service["id"])["restarts"], service["url"])
        greets(pane(viewer, box, service), BY_NAME[name])
    box, service = before["vite"]
    place = pane(viewer, box, service)
    greets(place, BY_NAME["vite"])
    edit(services, box, BY_NAME["vite"], "Vite says hello", "Vite is back")
    greets(place, BY_NAME["vite"], "Vite is back")
    edit(services, box, BY_NAME["vite"], "Vite is back", "Vite says hello")


def test_two_people(server, chromium, services, running, viewer, other_key):
    """Of two teams: one sees the app, the other learns nothing of it, and a link shows it to both until it is revoked."""
    box, service = running("express")
    app = BY_NAME["express"]
    greets(pane(viewer, box, service), app)
    stranger, nobody = Console(server, chromium, sign_in=False), Console(server, chromium, sign_in=False)
    try:
        nobody.page.goto(service["url"])
        expect(nobody.page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
        stranger.page.goto(service["url"])
        stranger.page.get_by_role("textbox", name="API key").fill(other_key)
        stranger.page.get_by_role("button", name="Sign in", exact=True).click()
        expect(stranger.page.get_by_role("heading", name="No such service in your team")).to_be_visible()
        assert "Express" not in stranger.page.content()
        stranger.open(f"/sandboxes/{box.id}/ports?service={service['id']}")
        expect(stranger.page.get_by_role("heading", name="No such sandbox")).to_be_visible()
        services.change(service["id"], access="link")
        link = services.link(service["id"])
        for other in (nobody, stranger):
            other.page.goto(link["url"])
            greets(other.page, app)
        services.ask("DELETE", f"/services/{service['id']}/links/{link['id']}")
        for other in (nobody, stranger):
            other.page.reload()
            expect(other.page.get_by_role("heading", name=app.greeting)).to_have_count(0)
        services.change(service["id"], access="public")
        nobody.page.goto(service["url"])
        greets(nobody.page, app)
    finally:
        services.change(service["id"], access="private")
        stranger.close()
        nobody.close()


def test_signing_out_empties_the_pane(server, chromium, services, running):
    """At once, in every tab; the app's own socket ends."""
    box, service = running("websocket")
    leaving = Console(server, chromium)
    try:
        other = leaving.new_page()
        other.goto(service["url"])
        greets(other, BY_NAME["websocket"])
        use(other, BY_NAME["websocket"])
        assert leaving.page.evaluate("fetch('/auth/session', {method: 'DELETE', headers: {'X-Cabana-Team': 'default'}}).then((answer) => answer.status)") == 204
        eventually(lambda: 1 in {len(other.evaluate("window.__closed"))}, within=10, what="its socket was cut")
        other.reload()
        expect(other.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()
    finally:
        leaving.close()


# Pictures


BOXES = """<!doctype html><title>boxes</title><style>
  body { margin: 0; height: 2000px; background: rgb(255, 255, 255) }
  div { position: absolute; width: 100px; height: 100px }
</style>
<div style="left: 0; top: 0; background: rgb(255, 0, 0)"></div>
<div style="left: 100px; top: 0; background: rgb(0, 128, 0)"></div>
<div style="left: 0; top: 100px; background: rgb(0, 0, 255)"></div>
<div style="left: 200px; top: 1000px; background: rgb(200, 100, 50)"></div>
"""

CAPTURE = """([origin, rect]) => new Promise((end) => {
  const held = document.getElementById('held').contentWindow;
  const heard = async (event) => {
    if (event.source !== held || event.origin !== origin || event.data?.id !== 'shot') return;
    window.removeEventListener('message', heard);
    const {png, dpr, path, type, reason} = event.data;
    if (type !== 'captured') return end({type, reason});
    window.__shot = await createImageBitmap(new Blob([png], {type: 'image/png'}));
    end({type, dpr, path, size: [window.__shot.width, window.__shot.height]});
  };
  window.addEventListener('message', heard);
  held.postMessage({cabana: 1, type: 'capture', id: 'shot', ...(rect ? {rect} : {})}, origin);
  setTimeout(() => end({type: 'silence'}), 20000);
})"""

PIXEL = """([x, y]) => {
  const canvas = new OffscreenCanvas(1, 1), context = canvas.getContext('2d');
  context.drawImage(window.__shot, -x, -y);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}"""


class Picture:
    """A picture that a page of the console got from the page in its frame."""

    def __init__(self, page: Page, shot: dict):
        assert shot["type"] == "captured", shot
        self.page, self.dpr, self.path, (self.width, self.height) = page, shot["dpr"], shot["path"], shot["size"]

    @classmethod
    def of(cls, page: Page, origin: str, **rect: float) -> "Picture":
        return cls(page, page.evaluate(CAPTURE, [origin, rect or None]))

    def at(self, x: float, y: float) -> tuple[int, int, int]:
        """The colour at a place of the page."""
        return tuple(self.page.evaluate(PIXEL, [int(x * self.dpr), int(y * self.dpr)]))


def near(colour: tuple[int, int, int], wanted: tuple[int, int, int]) -> bool:
    return all(abs(a - b) <= 3 for a, b in zip(colour, wanted))


RED, GREEN, BLUE, BROWN, WHITE = (255, 0, 0), (0, 128, 0), (0, 0, 255), (200, 100, 50), (255, 255, 255)


@pytest.fixture(scope="module")
def boxed(server, services, running):
    """A service with a page of coloured boxes."""
    client = server.client()
    box = client.create(timeout=900)
    services.write(box, "app.py", inside.APP)
    services.write(box, "boxes.html", BOXES)
    yield box, services.running(box, "exec python3 app.py 127.0.0.1 8000", port=8000)
    client.kill(box)
    client.close()


@pytest.mark.parametrize("scale", [1, 2])
def test_picture_of_a_region(viewer, boxed, scale):
    """What is captured is what is seen: to the pixel, scrolled, and on dense screens."""
    _, service = boxed
    page = viewer.open("/sandboxes")
    frame = hold(page, service["id"], "/files/boxes.html")
    # The browser's emulation does not reach frames of other sites.
    frame.evaluate("(value) => Object.defineProperty(window, 'devicePixelRatio', {value})", scale)
    origin = "/".join(frame.url.split("/")[:3])
    whole = Picture.of(page, origin)
    assert whole.dpr == scale and whole.path == "/files/boxes.html"
    assert (whole.width, whole.height) == (800 * scale, 600 * scale)
    for x, y, colour in ((50, 50, RED), (150, 50, GREEN), (50, 150, BLUE), (150, 150, WHITE), (98, 98, RED), (102, 98, GREEN), (98, 102, BLUE)):
        assert near(whole.at(x, y), colour), (x, y, whole.at(x, y), colour)
    part = Picture.of(page, origin, x=50, y=50, width=100, height=100)
    assert (part.width, part.height) == (100 * scale, 100 * scale)
    for x, y, colour in ((25, 25, RED), (75, 25, GREEN), (25, 75, BLUE), (75, 75, WHITE)):
        assert near(part.at(x, y), colour), (x, y, part.at(x, y), colour)
    frame.evaluate("window.scrollTo(0, 950)")
    moved = Picture.of(page, origin, x=200, y=50, width=100, height=100)
    assert near(moved.at(50, 50), BROWN) and near(moved.at(2, 2), BROWN) and near(moved.at(97, 97), BROWN)


@pytest.mark.parametrize("rect", [{"x": -50, "y": -50, "width": 20, "height": 20}, {"x": 0, "y": 0, "width": 0, "height": 0}, {"x": 1e9, "y": 0, "width": 1, "height": 1}, {"x": "a"}])
def test_regions_that_are_none(server, viewer, boxed, rect):
    """An answer in any case, so that nobody waits."""
    _, service = boxed
    page = viewer.open("/sandboxes")
    frame = hold(page, service["id"], "/files/boxes.html")
    shot = page.evaluate(CAPTURE, ["/".join(frame.url.split("/")[:3]), rect])
    assert shot["type"] in ("captured", "capture_failed"), shot["type"]


TAKEN = """async (image) => {
  window.__shot = await createImageBitmap(image);
  return {type: 'captured', dpr: 1, path: '', size: [window.__shot.width, window.__shot.height]};
}"""


def test_picture_by_hand(viewer, boxed):
    """As a person does it: the camera, a rectangle over the page, and the picture of it."""
    box, service = boxed
    page = viewer.page
    place = pane(viewer, box, service)
    page.get_by_role("textbox", name="Path").fill("/files/boxes.html")
    page.get_by_role("textbox", name="Path").press("Enter")
    expect(place.locator("div")).to_have_count(4)
    page.get_by_role("button", name="Screenshot of a region").click()
    overlay = page.get_by_role("application").bounding_box()
    page.mouse.move(overlay["x"] + 20, overlay["y"] + 20)
    page.mouse.down()
    page.mouse.move(overlay["x"] + 100, overlay["y"] + 100)
    page.mouse.move(overlay["x"] + 180, overlay["y"] + 160)
    page.mouse.up()
    page.get_by_role("application").get_by_role("button").first.click()
    image = page.get_by_role("dialog").get_by_role("img")
    expect(image).to_be_visible()
    picture = Picture(page, image.evaluate(TAKEN))
    assert (picture.width, picture.height) == (160, 140), (picture.width, picture.height)
    for x, y, colour in ((10, 10, RED), (120, 10, GREEN), (10, 120, BLUE), (120, 120, WHITE), (77, 77, RED), (83, 77, GREEN), (77, 83, BLUE)):
        assert near(picture.at(x, y), colour), (x, y, picture.at(x, y), colour)
    with page.expect_download() as saved:
        page.get_by_role("dialog").get_by_role("button", name="Download").click()
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
