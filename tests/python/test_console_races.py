"""What changes while a page fetches it, or before its subscription holds, is not lost: pages do not poll, so nobody would notice later."""

import re

from playwright.sync_api import Page, Route, WebSocketRoute, expect

from pages import row, title


def until(page: Page, check, within: int = 30_000) -> None:
    """Waits while the browser's messages are handled: a held request is answered by the test itself."""
    for _ in range(within // 20):
        if check():
            return
        page.wait_for_timeout(20)
    raise AssertionError("what was waited for did not happen")


class Held:
    """Answers to requests are read at once and handed over later."""

    def __init__(self, page: Page, pattern: str):
        self.page, self.over, self.answers = page, False, []
        page.route(re.compile(pattern), self._hold)

    def _hold(self, route: Route) -> None:
        if self.over or route.request.resource_type != "fetch":
            return route.fallback()
        self.answers.append((route, route.fetch()))

    def wait(self) -> None:
        until(self.page, lambda: self.answers)

    def hand_over(self) -> None:
        self.over = True
        for route, answer in self.answers:
            route.fulfill(response=answer)


class Heard:
    """Live messages that the page has got."""

    def __init__(self, page: Page):
        self.page, self.frames = page, []
        page.on("websocket", lambda socket: socket.on("framereceived", lambda text: self.frames.append(str(text))))

    def wait(self, *pieces: str) -> None:
        until(self.page, lambda: any(all(piece in frame for piece in pieces) for frame in self.frames))


def test_created_while_the_list_is_fetched(boxes, console):
    page = console.new_page()
    try:
        heard, held = Heard(page), Held(page, r"/v2/sandboxes(\?|$)")
        page.goto(f"{console.origin}/console/sandboxes", wait_until="commit")
        held.wait()
        heard.wait('"subscribed"', '"sandboxes"')
        box = boxes(metadata={"name": "made-meanwhile"})
        heard.wait("lifecycle.created", box.id)
        # Pages gather events for a moment: a later timer of the same page comes after theirs.
        page.evaluate("new Promise((done) => setTimeout(done, 300))")
        held.hand_over()
        expect(row(page, "made-meanwhile")).to_be_visible()
    finally:
        page.close()


def test_created_before_the_subscription_holds(boxes, console):
    page = console.new_page()
    sockets: list[WebSocketRoute] = []
    try:
        waiting: list[str] = []

        def hold(socket: WebSocketRoute) -> None:
            sockets.append(socket)
            socket.on_message(lambda text: waiting.append(text))

        page.route_web_socket(re.compile("/live$"), hold)
        page.goto(f"{console.origin}/console/sandboxes")
        expect(title(page)).to_have_text("Sandboxes")
        expect(page.get_by_role("grid", name="Sandboxes").or_(page.get_by_text("No sandboxes yet"))).to_be_visible()
        until(page, lambda: waiting)
        boxes(metadata={"name": "made-before"})
        server = sockets[0].connect_to_server()
        sockets[0].on_message(lambda text: server.send(text))
        server.on_message(lambda text: sockets[0].send(text))
        for text in waiting:
            server.send(text)
        expect(row(page, "made-before")).to_be_visible()
    finally:
        page.close()


def test_build_that_ends_while_its_page_is_opened(api, builder, console, tmp_path):
    """The page knew it as building; it must not stay so."""
    name = builder.name("quick")
    order = api.request("POST", "/v3/templates", {"name": name}).json
    template, build = order["templateID"], order["buildID"]
    page = console.new_page()
    try:
        heard, held = Heard(page), Held(page, rf"/builds/{build}/status")
        page.goto(f"{console.origin}/console/templates/{template}/builds/{build}", wait_until="commit")
        held.wait()
        start = {"dockerfile": "FROM base\nRUN true\n"}
        assert api.request("POST", f"/v2/templates/{template}/builds/{build}", start).status in (200, 202)
        heard.wait(build, '"status":"ready"')
        held.hand_over()
        expect(page.get_by_role("link", name="Use", exact=True)).to_be_visible()
    finally:
        page.close()


def test_part_that_fails_to_load(console):
    """Browsers remember that a script failed, so the page is loaded again; if that does not help, it says so instead of reloading for ever."""
    page = console.new_page()
    try:
        asked, fails = [], 1

        def refuse(route: Route) -> None:
            asked.append(route.request.url)
            route.abort() if len(asked) <= fails else route.fallback()

        page.route(re.compile(r"/console/assets/(limits|sessions)-[^/]*\.js"), refuse)
        console.expected += ["ERR_FAILED", "dynamically imported"]
        page.goto(f"{console.origin}/console/about")
        page.get_by_role("link", name="Limits").click()
        expect(title(page)).to_have_text("Limits")
        assert len(asked) == 2, asked
        asked.clear()
        fails = 100
        page.get_by_role("link", name="Sessions").click()
        expect(title(page)).to_have_text("This page has a fault")
        page.evaluate("sessionStorage.clear()")
        page.reload()
        expect(title(page)).to_have_text("This page has a fault")
        assert len(asked) == 3, asked
    finally:
        page.close()
