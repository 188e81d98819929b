"""The console as a person uses it: from the welcome link to a terminal, sessions, the list, the wizard, a server that goes away."""

import os
import re
import subprocess

from playwright.sync_api import Page, expect

from pages import AWAY, Console, TerminalPane, mark, menu, row, title, was_loaded_again
from server import CABANA
from waiting import eventually
from wire import Box


def test_newcomer(server, chromium, api):
    """From the link that the server prints to a command's output. The link works once."""
    newcomer = Console(server, chromium, sign_in=False)
    link, page = newcomer.link(), newcomer.page
    page.goto(link)
    page.get_by_role("button", name="Create a sandbox and open a terminal").click()
    page.wait_for_url(re.compile("/sandboxes/[^/]+/terminal$"))
    terminal = TerminalPane(page).opened()
    terminal.run("echo $((6*7))")
    terminal.shows("\n42")
    assert "#" not in page.evaluate("location.href + JSON.stringify(history.state)"), "the code stays nowhere"
    assert page.evaluate("document.cookie") == "", "no script can read the session"

    second = Console(server, chromium, sign_in=False)
    second.expected += ["401"]
    second.page.goto(link)
    expect(second.page.get_by_role("heading", name="This link does not work any more")).to_be_visible()
    expect(second.page.get_by_role("link", name="Or sign in with an API key")).to_be_visible()
    second.check_quiet()
    second.close()
    newcomer.check_quiet()
    newcomer.close()
    api.kill(re.search("/sandboxes/([^/]+)/", page.url)[1])


def sign_in(page: Page, key: str) -> None:
    page.get_by_role("textbox", name="API key").fill(key)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_sign_in_and_out(server, chromium, boxes):
    """By key; signing out ends terminals and live updates of every tab at once, and one comes back to where one was."""
    person = Console(server, chromium, sign_in=False)
    person.expected += ["401", "WebSocket"]
    page, box = person.page, boxes()
    person.open("/sandboxes?state=running")
    page.wait_for_url("**/console/sign-in?*")
    sign_in(page, "e2b_" + "0" * 40)
    expect(page.get_by_text("The server does not know this key.")).to_be_visible()
    sign_in(page, "no key at all")
    expect(page.get_by_text("This is not an API key: those begin with e2b_.")).to_be_visible()
    sign_in(page, server.key)
    page.wait_for_url("**/console/sandboxes?state=running")
    expect(row(page, box.id[:4])).to_be_visible()
    assert server.key not in page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}])"), "the key is not kept"

    other = person.open(f"/sandboxes/{box.id}/terminal", person.new_page())
    terminal = TerminalPane(other).opened()
    terminal.run("echo be$((1+1))fore")
    terminal.shows("\nbe2fore")
    other.evaluate("window.__closed = []")
    menu(page, page.get_by_role("button", name="Signed in as"), "Sign out")
    expect(title_of_entry(page)).to_be_visible()
    expect(title_of_entry(other)).to_be_visible()
    assert sorted(other.evaluate("window.__closed")) == [4401, 4401], "its terminal and its live updates"
    assert f"to=%2Fsandboxes%2F{box.id}%2Fterminal" in other.url
    sign_in(other, server.key)
    other.wait_for_url(f"**/sandboxes/{box.id}/terminal")
    TerminalPane(other).shows("\nbe2fore")
    person.check_quiet()
    person.close()


def title_of_entry(page: Page):
    return page.get_by_role("heading", name="Sign in", exact=True)


def test_list_changes_by_itself(api, boxes, console):
    page = console.open("/sandboxes")
    expect(title(page)).to_have_text("Sandboxes")
    mark(page)
    box = boxes(metadata={"name": "appears-by-itself"})
    mine = row(page, "appears-by-itself")
    expect(mine).to_contain_text("Running")
    assert api.request("POST", f"/sandboxes/{box.id}/pause", {}).status == 204
    expect(mine).to_contain_text("Paused")
    assert api.request("POST", f"/sandboxes/{box.id}/connect", {"timeout": 60}).status in (200, 201)
    expect(mine).to_contain_text("Running")
    assert api.kill(box)
    expect(mine).to_have_count(0)
    assert not was_loaded_again(page)


def test_filters_are_in_the_address(api, boxes, console):
    paused = boxes(metadata={"name": "filter-paused", "group": "f"})
    boxes(metadata={"name": "filter-running", "group": "f"})
    boxes(metadata={"name": "filter-other"})
    assert api.request("POST", f"/sandboxes/{paused.id}/pause", {}).status == 204
    page = console.open("/sandboxes")
    expect(row(page, "filter-")).to_have_count(3)
    menu(page, page.get_by_role("button", name=re.compile("^State")), "Paused")
    expect(row(page, "filter-")).to_have_count(1)
    page.get_by_role("searchbox", name="Search sandboxes").fill("filter-paused")
    page.wait_for_url(lambda url: "q=filter-paused" in url and "state=paused" in url)
    page.reload()
    expect(row(page, "filter-paused")).to_be_visible()
    expect(row(page, "filter-")).to_have_count(1)
    expect(page.get_by_role("searchbox", name="Search sandboxes")).to_have_value("filter-paused")
    console.open("/sandboxes?label=group%3Df")
    expect(row(page, "filter-")).to_have_count(2)


def test_bulk_kill(api, boxes, console):
    made = [boxes(metadata={"name": f"bulk-{i}", "group": "bulk"}) for i in range(3)]
    stays = boxes(metadata={"name": "stays"})
    page = console.open("/sandboxes?label=group%3Dbulk")
    expect(row(page, "bulk-")).to_have_count(3)
    page.get_by_role("checkbox", name="Select all 3").check()
    page.get_by_role("toolbar", name="Selected sandboxes").get_by_role("button", name="Kill 3…").click()
    question = page.get_by_role("alertdialog", name="Kill 3 sandboxes?")
    for i in range(3):
        expect(question).to_contain_text(f"bulk-{i}")
    assert {box.id for box in made} <= {one["sandboxID"] for one in api.sandboxes()}, "nothing happens before one says so"
    question.get_by_role("button", name="Kill 3").click()
    expect(row(page, "bulk-")).to_have_count(0)
    left = {one["sandboxID"] for one in api.sandboxes()}
    assert stays.id in left and not left & {box.id for box in made}


def test_wizard(server, api, console, tmp_path):
    """What was chosen is what is created; the command and the call beside it create the same."""
    page = console.open("/create")
    page.get_by_role("button", name="Next: Image").click()
    expect(page.get_by_role("radio", name=re.compile("base"))).to_be_checked()
    page.get_by_role("button", name="Next: Configuration").click()
    config = page.get_by_role("main")
    config.get_by_role("slider", name="CPU").fill("0")
    config.get_by_role("slider", name="Memory").fill("0")
    config.get_by_role("textbox", name="Name", exact=True).fill("o'hare & co")
    config.get_by_role("button", name="Add a label").click()
    config.get_by_role("textbox", name="Label 1, name").fill("team")
    config.get_by_role("textbox", name="Label 1, value").fill("a b$c")
    config.get_by_role("button", name="Add a variable").click()
    config.get_by_role("textbox", name="Variable 1, name").fill("GREETING")
    config.get_by_role("textbox", name="Variable 1, value").fill("it's `fine` \"here\"")
    config.get_by_role("radio", name="Kill it").click()
    before = {one["sandboxID"] for one in api.sandboxes()}

    summary = page.get_by_role("complementary", name="Summary")
    cli = summary.locator("pre").inner_text()
    summary.get_by_role("radio", name="curl").click()
    call = summary.locator("pre").inner_text()
    assert call.startswith("curl ") and cli.startswith("cabana create"), (cli, call)
    (tmp_path / "cabana").symlink_to(CABANA)
    search = f"{tmp_path}:{os.environ['PATH']}"
    ours = {"PATH": search, "HOME": str(tmp_path), "CABANA_API_URL": server.url, "CABANA_API_KEY": server.key}
    for snippet in (cli, call):
        done = subprocess.run(["bash", "-euc", snippet], env=ours, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (snippet, done.stdout, done.stderr)
    summary.get_by_role("button", name=re.compile("^Create now")).click()
    page.wait_for_url(re.compile("/sandboxes/[^/]+/terminal$"))
    terminal = TerminalPane(page).opened()
    terminal.run('echo "[$GREETING]"')
    terminal.shows("\n[it's `fine` \"here\"]")

    made = [one for one in api.sandboxes() if one["sandboxID"] not in before]
    assert len(made) == 3
    try:
        for one in made:
            assert one["metadata"] == {"name": "o'hare & co", "team": "a b$c"}, one
            assert (one["cpuCount"], one["memoryMB"]) == (made[0]["cpuCount"], made[0]["memoryMB"]), one
            details = api.request("POST", f"/sandboxes/{one['sandboxID']}/connect", {"timeout": 60}).json
            told = api.run(Box(one["sandboxID"], details["envdAccessToken"]), 'printf %s "$GREETING"')
            assert told == (0, "it's `fine` \"here\""), told
        assert made[0]["cpuCount"] == 1
    finally:
        console.leave()
        for one in made:
            api.kill(one["sandboxID"])


def test_twenty_tabs(boxes, console):
    """Browsers open few connections to a server that speaks plain HTTP/1.1; live updates take none of them."""
    tabs = [console.new_page() for _ in range(20)]
    try:
        for tab in tabs:
            tab.goto(f"{console.origin}/console/sandboxes", wait_until="commit")
        for tab in tabs:
            expect(title(tab)).to_have_text("Sandboxes", timeout=60_000)
            tab.wait_for_function("performance.getEntriesByType('resource').some((one) => one.name.includes('/v2/sandboxes'))")
        boxes(metadata={"name": "seen-by-twenty"})
        for tab in tabs:
            expect(row(tab, "seen-by-twenty")).to_be_visible()
    finally:
        for tab in tabs:
            tab.close()


def test_server_dies_while_pages_are_open(server, api, boxes, console):
    """Each page says quietly that it reconnects, and goes on by itself; the terminal has its output and its shell again."""
    console.expected += [*AWAY, "503"]
    box = boxes(metadata={"name": "outlives-the-server"})
    parts = ("", "/terminal", "/files", "/logs", "/metrics", "/ports", "/snapshots", "/events")
    paths = [f"/sandboxes/{box.id}{part}" for part in parts]
    paths += ["/", "/sandboxes", "/create", "/templates", "/settings/keys", "/settings/webhooks", "/server"]
    tabs = {path: console.new_page() for path in paths}
    try:
        for path, tab in tabs.items():
            console.open(path, tab)
            expect(title(tab)).to_be_visible()
            mark(tab)
        terminal = TerminalPane(tabs[f"/sandboxes/{box.id}/terminal"]).opened()
        terminal.run("there=yes; echo be$((1+1))fore")
        terminal.shows("\nbe2fore")
        server.crash()
        for tab in tabs.values():
            expect(tab.get_by_role("status").filter(has_text="Reconnecting…").first).to_be_visible()
            expect(title(tab)).to_be_visible()
        expect(terminal.pane.get_by_text("Connection lost. Reconnecting…")).to_be_visible()
        server.start()
        for tab in tabs.values():
            expect(tab.get_by_role("status").filter(has_text="Reconnecting…")).to_have_count(0)
            assert not was_loaded_again(tab)
        terminal.shows("\nbe2fore")
        terminal.run("echo still=$there")
        terminal.shows("\nstill=yes")
        new = boxes(metadata={"name": "made-afterwards"})
        expect(row(tabs["/sandboxes"], "made-afterwards")).to_be_visible()
        assert api.request("POST", f"/sandboxes/{box.id}/pause", {}).status == 204
        for part in parts:
            expect(tabs[f"/sandboxes/{box.id}{part}"].get_by_text(re.compile("^Paused")).first).to_be_visible()
        eventually(lambda: api.get(f"/sandboxes/{new.id}").status == 200)
    finally:
        for tab in tabs.values():
            tab.close()
