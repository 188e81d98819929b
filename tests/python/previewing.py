"""Previews in a real browser: a service in a frame of the console, as the pane shows it and as a test builds it by hand."""

from contextlib import contextmanager
from typing import Iterator

from playwright.sync_api import Frame, FrameLocator, Page, expect

from pages import FLAGS, Console
from server import Server

#: A domain of the tests; browsers resolve it to loopback.
DOMAIN = "cabana.test"
RULES = f"--host-resolver-rules=MAP {DOMAIN} 127.0.0.1, MAP *.{DOMAIN} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost"
#: The server's certificate is of its own authority. As a flag, so that service workers take it, too.
SECURE = (RULES, "--ignore-certificate-errors")
assert any(flag.startswith("--host-resolver-rules") for flag in FLAGS), "a later flag replaces an earlier one"
#: What the console gives its frames.
SANDBOX = "allow-scripts allow-same-origin allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-downloads"

#: The frame of the pane.
PANE = "iframe[title^='Page of ']"

CALL = """async ([method, path, body]) => {
  const headers = {'X-Cabana-Team': 'default', ...(body === null ? {} : {'Content-Type': 'application/json'})};
  const answer = await fetch(path, {method, headers, body: body === null ? undefined : JSON.stringify(body)});
  const text = await answer.text();
  return {status: answer.status, body: text ? JSON.parse(text) : null};
}"""

HOLD = """([url, sandbox]) => {
  document.getElementById('held')?.remove();
  const frame = document.createElement('iframe');
  Object.assign(frame, {id: 'held', referrerPolicy: 'no-referrer', src: url});
  frame.setAttribute('sandbox', sandbox);
  frame.style.cssText = 'position: fixed; left: 0; top: 0; width: 800px; height: 600px; z-index: 1000; border: 0; background: white';
  document.body.append(frame);
}"""


@contextmanager
def secured(server: Server) -> Iterator[None]:
    """The server of the run, restarted with TLS and a domain; restored afterwards."""
    plain = dict(server.settings)
    server.stop()
    server.settings.update(CABANA_TLS_MODE="internal", CABANA_DOMAIN=DOMAIN)
    server.start()
    try:
        yield
    finally:
        server.stop()
        server.settings = plain
        server.start()


def call(page: Page, method: str, path: str, body=None) -> dict:
    """A call of the API by the console's own page."""
    return page.evaluate(CALL, [method, path, body])


def opened(page: Page, service: str, path: str = "/", frame: bool = True) -> str:
    """The address for a frame or a tab, as the console asks for it."""
    answer = call(page, "POST", f"/services/{service}/open", {"path": path, "frame": frame})
    assert answer["status"] == 200, answer
    return answer["body"]["url"]


def hold(page: Page, service: str, path: str = "/") -> Frame:
    """A service in a frame of a console's page, with what the console's own frames may do."""
    page.evaluate(HOLD, [opened(page, service, path), SANDBOX])
    frame = page.wait_for_selector("#held").content_frame()
    frame.wait_for_function("document.readyState === 'complete' && !location.pathname.startsWith('/.cabana/') && location.href !== 'about:blank'")
    return frame


def pane(console: Console, box, service: dict) -> FrameLocator:
    """The frame of the console's own pane."""
    console.open(f"/sandboxes/{box.id}/ports?service={service['id']}")
    return shown(console.page)


def shown(page: Page) -> FrameLocator:
    expect(page.locator(PANE)).to_have_count(1)
    return page.frame_locator(PANE)


def inside(page: Page) -> Frame:
    """The pane's frame, to run scripts in."""
    return page.wait_for_selector(PANE).content_frame()


def is_alive(page: Page) -> None:
    """The console's page works, and nothing of a preview ran in it."""
    assert page.evaluate("window.__pwned ?? null") is None, "a script of somebody else ran in the console"
    assert call(page, "GET", "/auth/session")["status"] == 200

