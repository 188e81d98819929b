"""The console in a real browser: Debian's Chromium, driven by Playwright. Elements are found as people find them: by role, label and text."""

import json
import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, expect, sync_playwright

from offline import Offline
from server import ROOT, Server
from waiting import eventually

#: Screenshots of a run, as artefacts.
SHOTS = ROOT / "target/console"
AXE = ROOT / "tests/js/node_modules/axe-core/axe.min.js"
#: Chromium connects to nothing but the server under test.
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost"]
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 360, "height": 740}
#: Rules of axe that a page must keep.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
#: For one act of a page, on a machine that is busy with other things.
PATIENCE = 30_000
#: What a browser's console says when a server is away. Pages tell it quietly by themselves.
AWAY = ("net::ERR_", "WebSocket connection to")

# Before any script of a page. Programs that a screen reader needs put the terminal's rows into the page, which else are pixels.
PREPARE = """
if (location.pathname.startsWith('/console/'))
  localStorage.getItem('cabana.terminal') ?? localStorage.setItem('cabana.terminal', JSON.stringify({screenReader: true}));
for (const name of ['alert', 'confirm', 'prompt', 'print']) window[name] = () => { window.__pwned = name; };
window.__closed = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    this.addEventListener('close', (event) => window.__closed.push(event.code));
  }
};
document.addEventListener('securitypolicyviolation', (event) => console.error('CSP: ' + event.violatedDirective + ' ' + event.blockedURI));
"""


class Chromium:
    """A browser for the tests of one module. Playwright's loop would be in the way of other modules' async tests. It has a network of
    its own with the server's port alone: Chromium drops its connections whenever an address is added to the machine, as other
    sandboxes do."""

    def __init__(self, port: int, directory: Path, *flags: str):
        program = shutil.which("chromium")
        assert program, "the tests of the console need Debian's chromium: ./test installs it"
        expect.set_options(timeout=PATIENCE)
        self.network = Offline()
        self.network.forward(port)
        inside = directory / "chromium"
        inside.write_text(f'#!/bin/sh\nexec nsenter --net=/run/netns/{self.network.name} {program} "$@"\n')
        inside.chmod(0o755)
        self.playwright = sync_playwright().start()
        self.browser: Browser = self.playwright.chromium.launch(executable_path=inside, args=[*FLAGS, *flags])

    def close(self) -> None:
        self.browser.close()
        self.playwright.stop()
        left = self.network.leaving()
        self.network.close()
        assert not left, f"the browser sent packets to others: {left[:10]}"


class Console:
    """A person with the console open: one browser profile, signed in by a link."""

    def __init__(self, server: Server, chromium: Chromium, sign_in: bool = True, **options):
        self.server = server
        usual = {"viewport": WIDE, "reduced_motion": "reduce", "color_scheme": "dark", "accept_downloads": True}
        self.context: BrowserContext = chromium.browser.new_context(**{**usual, **options})
        self.context.set_default_timeout(PATIENCE)
        self.context.add_init_script(PREPARE)
        #: Every request of every page, in order.
        self.requests: list[Request] = []
        self.context.on("request", lambda request: self.requests.append(request))
        #: What pages complained about, and what a test expects them to: pieces of texts.
        self.complaints: list[str] = []
        self.expected: list[str] = []
        #: Beginnings of addresses that a test sends pages to, besides the console's own.
        self.allowed: list[str] = []
        #: Whether pages may ask hosts of previews, which are below the console's.
        self.previews = False
        self.page = self.new_page()
        if sign_in:
            self.page.goto(self.link())
            expect(self.page.get_by_role("heading", name="Your server is up.")).to_be_visible()

    @property
    def origin(self) -> str:
        if self.server.secure:
            return f"https://{self.server.domain}:{self.server.port}"
        return f"http://localhost:{self.server.port}"

    def link(self) -> str:
        """A link that signs in once."""
        client = self.server.client()
        answer = client.request("POST", "/auth/codes", headers={"Host": urlsplit(self.origin).netloc})
        client.close()
        assert answer.status == 201, answer.body
        return answer.json["url"]

    def new_page(self) -> Page:
        """A tab. What its console complains about is remembered."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("console", lambda line: self.complaints.append(f"{line.text} ({page.url})") if line.type == "error" else None)
        # A question of the browser is none of ours: the one exception is leaving a page with unsaved edits.
        page.on("dialog", self._answer)
        return page

    def _answer(self, dialog) -> None:
        if dialog.type != "beforeunload":
            self.complaints.append(f"a dialog: {dialog.type} {dialog.message}")
        dialog.accept()

    def open(self, path: str, page: Page | None = None) -> Page:
        page = page or self.page
        page.goto(f"{self.origin}/console{path}")
        return page

    def leave(self) -> None:
        """Looks at nothing: what is killed now is no news to any page."""
        for page in self.context.pages:
            page.goto("about:blank")

    def check_quiet(self) -> None:
        """Nothing unexpected in any page's console, nothing executed that should not be, and no request to anybody else."""
        strange = [line for line in self.complaints if not any(text in line for text in self.expected)]
        self.complaints.clear()
        self.expected.clear()
        assert not strange, "pages complained:\n" + "\n".join(strange[:10])
        for page in self.context.pages:
            if page.url.startswith(self.origin):
                assert page.evaluate("window.__pwned ?? null") is None, f"a script of somebody else ran in {page.url}"
        others = [request.url for request in self.requests if not self.is_own(request.url)]
        self.requests.clear()
        self.allowed.clear()
        assert not others, f"requests to somebody else: {others[:10]}"

    def is_own(self, url: str) -> bool:
        if self.previews and urlsplit(url).netloc.endswith(f".{urlsplit(self.origin).netloc}"):
            return True
        return url.startswith((f"{self.origin}/", "data:", f"blob:{self.origin}/", *self.allowed))

    def inspect(self, name: str, page: Page | None = None) -> None:
        """Dark and light, wide and narrow: a screenshot, nothing that axe finds, no sideways scrolling."""
        page = page or self.page
        SHOTS.mkdir(parents=True, exist_ok=True)
        if not page.evaluate("'axe' in window"):
            # As an isolated script: the page's policy allows no other.
            page.evaluate(AXE.read_text() + "; 0")
        found = []
        for theme in ("dark", "light"):
            page.emulate_media(color_scheme=theme)
            for width, size in (("wide", WIDE), ("narrow", NARROW)):
                page.set_viewport_size(size)
                settle(page)
                page.screenshot(path=SHOTS / f"{name}-{theme}-{width}.png")
                found += [f"{theme}, {width}: {fault}" for fault in faults(page)]
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size(WIDE)
        assert not found, f"{name} ({page.url}):\n" + "\n".join(dict.fromkeys(found))

    def close(self) -> None:
        self.context.close()


def settle(page: Page) -> None:
    """The page has drawn what it knows: two frames."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")


def faults(page: Page) -> list[str]:
    """What axe finds, and sideways scrolling."""
    options = json.dumps({"runOnly": RULES, "resultTypes": ["violations"]})
    violations = page.evaluate(f"axe.run(document, {options}).then((found) => found.violations)")
    found = [f"{v['id']}: {v['help']}: {node['html'][:200]}" for v in violations for node in v["nodes"][:3]]
    sideways = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found + ([f"it scrolls sideways by {sideways} px"] if sideways > 0 else [])


def menu(page: Page, trigger: Locator, item: str | re.Pattern) -> None:
    """Opens a menu and chooses from it."""
    trigger.click()
    page.get_by_role("menuitem", name=item).click()


def title(page: Page) -> Locator:
    """The name of the page one is on."""
    return page.get_by_role("main").get_by_role("heading", level=1)


def row(page: Page, name: str) -> Locator:
    """The row of a table or list with a link or text."""
    return page.get_by_role("row").filter(has_text=name)


def news(page: Page, text: str) -> Locator:
    """A short notice at the edge."""
    return page.get_by_role("region", name="News").get_by_text(text)


def mark(page: Page) -> None:
    """What `unloaded` looks for."""
    page.evaluate("window.__mark = true")


def was_loaded_again(page: Page) -> bool:
    return page.evaluate("window.__mark !== true")


class TerminalPane:
    """The terminal that is shown in a page."""

    def __init__(self, page: Page):
        self.page = page
        self.pane = page.locator("[role=tabpanel]:visible")

    def opened(self) -> "TerminalPane":
        """Waits until the shell has drawn its prompt."""
        expect(self.pane.locator("[data-terminal=open]")).to_be_visible()
        eventually(lambda: re.search(r"[$#]\s*$", self.text().rstrip("\n") + " "), within=30, what="a prompt")
        return self

    def text(self) -> str:
        """The rows that are seen, as a screen reader gets them."""
        rows = self.pane.get_by_role("listitem").all_text_contents()
        return "\n".join(row.replace("\u00a0", " ").rstrip() for row in rows).strip("\n")

    def type(self, text: str) -> None:
        self.pane.get_by_role("textbox", name="Terminal input").focus()
        self.page.keyboard.type(text)

    def run(self, command: str) -> None:
        self.type(command)
        self.page.keyboard.press("Enter")

    def shows(self, text: str, within: float = 30) -> str:
        """Waits until a row contains a text; returns what is seen."""
        eventually(lambda: text in self.text(), within=within, every=0.1, what=f"{text!r} in the terminal")
        return self.text()


def shot_files() -> list[Path]:
    return sorted(SHOTS.glob("*.png"))
