"""Files of chats: uploads before and after a chat and a sandbox exist, artifacts, checkpoints, restoring and forking."""

import base64
import hashlib
import time

import pytest

from chats import FILL, EventLog, Unexpected, doing, one, run, text, write
from model_answers import ANTHROPIC, OPENAI, Answer, Gate, Use
from waiting import eventually

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
MOST = 100 << 20
UPLOADS = "user-uploads"


def listed(chats, id: str) -> dict[str, dict]:
    return {one["name"]: one for one in chats.ask("GET", f"/chats/{id}/attachments")["attachments"]}


def synced(chats, id: str) -> dict[str, dict]:
    """The files of a chat, once none is pending."""
    return eventually(lambda: (rows := listed(chats, id)) and all(row["status"] != "pending" for row in rows.values()) and rows)


# Uploads.


def test_before_a_chat(chats, model):
    """Uploaded first, then sent with a message: it is in the sandbox before the model's first call ends, and the model knows where."""
    (made,) = chats.uploaded(("data.csv", b"a,b\n1,2\n", "text/csv"))
    assert made["id"].startswith("att_") and (made["kind"], made["name"], made["mediaType"]) == ("upload", "data.csv", "text/csv")
    assert (made["size"], made["sha256"]) == (8, hashlib.sha256(b"a,b\n1,2\n").hexdigest())
    assert (made["status"], made["path"], made["chatId"], made["error"]) == ("pending", None, None, None)
    assert chats.ask("GET", f"/attachments/{made['id']}") == made
    assert chats.content(made["id"]).body == b"a,b\n1,2\n"
    script = model.script(*doing(run(f"cat {UPLOADS}/data.csv")))
    id, events = chats.run_turn(script.prompt, attachments=[made["id"]])
    assert one(events, "tool.message")["output"].startswith("a,b\n1,2")
    assert "data.csv" in script.requests[0].conversation.said[0], "the model is told"
    now = chats.ask("GET", f"/attachments/{made['id']}")
    assert (now["status"], now["chatId"]) == ("synced", id) and now["path"].endswith(f"{UPLOADS}/data.csv"), now
    part = next(part for part in chats.messages(id)[0]["content"] if part["type"] == "file")
    assert part["attachmentId"] == made["id"] and part["name"] == "data.csv"
    assert chats.send("DELETE", f"/attachments/{made['id']}").status == 409, "it is in a chat"
    (other,) = chats.uploaded(("other", b"x", "text/plain"))
    assert chats.send("DELETE", f"/attachments/{other['id']}").status == 204
    chats.refused(404, "attachment_not_found", "GET", f"/attachments/{other['id']}")


def test_without_a_sandbox_it_waits_for_one(chats, model):
    script = model.script(*doing(run(f"ls {UPLOADS}")))
    id = chats.create()["chat"]["id"]
    (made,) = chats.uploaded(("early.txt", b"early", "text/plain"), path=f"/chats/{id}/attachments")
    assert (made["status"], made["chatId"]) == ("pending", id)
    assert chats.ended(id, chats.say(id, script.prompt)["id"]) == "complete"
    assert "early.txt" in chats.calls(id)[0]["output"] and listed(chats, id)["early.txt"]["status"] == "synced"


def test_after_a_sandbox_exists(chats, model):
    """At once, in bulk; names that clash get a number; what somebody deleted comes back with `sync`."""
    script = model.script(*doing(run("true")))
    id, _ = chats.run_turn(script.prompt)
    rows = chats.uploaded(*[("same.txt", f"content {number}".encode(), "text/plain") for number in range(3)], path=f"/chats/{id}/attachments")
    assert [row["status"] for row in rows] == ["synced"] * 3
    paths = [row["path"].rsplit("/", 1)[1] for row in rows]
    assert paths == ["same.txt", "same (2).txt", "same (3).txt"]
    for number, path in enumerate(paths):
        assert chats.file(id, f"{UPLOADS}/{path}") == f"content {number}"
    (another,) = chats.uploaded(("same.txt", b"content 3", "text/plain"), path=f"/chats/{id}/attachments")
    assert another["path"].endswith("same (4).txt")
    box = chats.box(id)
    assert chats.run(box, f"stat -c %U {UPLOADS}/same.txt; rm -r {UPLOADS}").strip() == "user"
    again = chats.ask("POST", f"/chats/{id}/attachments/sync", {})["attachments"]
    assert [row["status"] for row in again] == ["synced"] * 4
    assert chats.run(box, f"ls {UPLOADS} | wc -l").strip() == "4" and chats.file(id, f"{UPLOADS}/same (2).txt") == "content 1"
    (loose,) = chats.uploaded(("loose.txt", b"loose", "text/plain"))
    (now,) = chats.ask("POST", f"/chats/{id}/attachments", {"ids": [loose["id"]]})["attachments"]
    assert now["status"] == "synced" and chats.file(id, f"{UPLOADS}/loose.txt") == "loose"
    # Already there: nothing changes. In another chat: refused.
    chats.ask("POST", f"/chats/{id}/attachments", {"ids": [loose["id"]]})
    other = chats.create()["chat"]["id"]
    assert chats.send("POST", f"/chats/{other}/attachments", {"ids": [loose["id"]]}).status in (404, 409)


def test_two_hundred_files(chats, model, figures):
    files = [(f"file-{number}.txt", f"content {number}".encode(), "text/plain") for number in range(200)]
    rows = chats.uploaded(*files)
    assert [row["name"] for row in rows] == [name for name, *_ in files], "in their order"
    reply = chats.upload(*files, ("one-more.txt", b"x", "text/plain"))
    assert reply.status == 400, reply.body[:300]
    script = model.script(*doing(run(f"ls {UPLOADS} | wc -l")))
    begun = time.monotonic()
    id, events = chats.run_turn(script.prompt, attachments=[row["id"] for row in rows])
    figures.append(f"chats: a turn with 200 uploads took {time.monotonic() - begun:.2f} s")
    assert one(events, "tool.message")["output"].strip() == "200"
    assert {row["status"] for row in synced(chats, id).values()} == {"synced"}
    assert chats.file(id, f"{UPLOADS}/file-137.txt") == "content 137"


def test_sizes(chats, model):
    """The largest that may be, one byte more, nothing, and no file at all."""
    reply = chats.upload(("big.bin", bytes(MOST + 1), "application/octet-stream"))
    assert reply.status in (400, 413) and reply.code, (reply.status, reply.body[:300])
    (big,) = chats.uploaded(("big.bin", bytes(MOST), "application/octet-stream"))
    assert big["size"] == MOST
    part = chats.content(big["id"], Range="bytes=10-19")
    assert (part.status, part.body, part.header("content-range")) == (206, bytes(10), f"bytes 10-19/{MOST}")
    assert chats.content(big["id"], Range=f"bytes={MOST}-").status == 416
    assert chats.send("DELETE", f"/attachments/{big['id']}").status == 204
    (empty,) = chats.uploaded(("empty", b"", "text/plain"))
    assert empty["size"] == 0 and chats.content(empty["id"]).body == b""
    assert chats.upload().status == 400
    answer = chats.send("POST", "/attachments", b"--x\r\nnonsense", {"Content-Type": "multipart/form-data; boundary=x"})
    assert answer.status == 400
    assert chats.send("POST", "/attachments", {"file": "x"}).status in (400, 415)


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC])
def test_images_are_seen_by_the_model(chats, model, wire):
    (image,) = chats.uploaded(("dot.png", PNG, "image/png"))
    (shot,) = chats.uploaded(("shot.png", PNG, "image/png"), kind="screenshot")
    assert shot["kind"] == "screenshot"
    script = model.script(Answer("two dots"))
    rect, viewport = {"x": 1, "y": 2, "width": 30, "height": 40}, {"width": 800, "height": 600, "dpr": 2}
    content = [
        {"type": "text", "text": script.prompt},
        {"type": "image", "attachmentId": image["id"]},
        {"type": "screenshot", "attachmentId": shot["id"], "path": "/todos", "rect": rect, "viewport": viewport},
    ]
    made = chats.create(content=content, tools=[], model=f"{wire}/scripted")
    assert chats.ended(made["chat"]["id"]) == "idle"
    assert script.last.conversation.images == 2 and "/todos" in script.last.conversation.said[0]
    part = chats.messages(made["chat"]["id"])[0]["content"][2]
    assert (part["rect"], part["viewport"], part["path"]) == (rect, viewport, "/todos")
    for bad in ({"type": "image", "attachmentId": "att_" + "a" * 20}, {"type": "image", "attachmentId": "x"}):
        answer = chats.send("POST", "/chats", {"content": [{"type": "text", "text": "x"}, bad]})
        assert answer.status in (400, 404), answer.body


def test_full_disk(chats, model):
    """What does not fit is told, and the turn goes on."""
    script = model.script(*doing(run("true")), *doing(run("ls")))
    id, _ = chats.run_turn(script.prompt)
    chats.run(chats.box(id), FILL)
    (row,) = chats.uploaded(("x.bin", bytes(8 << 20), "application/octet-stream"), path=f"/chats/{id}/attachments")
    assert row["status"] == "failed" and row["error"], row
    assert chats.ended(id, chats.say(id, script.prompt)["id"]) == "complete"
    chats.run(chats.box(id), "rm big-*")
    # The filesystem frees the space of removed files a little later.
    synced = lambda: chats.ask("POST", f"/chats/{id}/attachments/sync", {})["attachments"][0]["status"] == "synced"
    eventually(synced, within=60, what="the file is brought once there is room")


# Artifacts.


def test_artifacts(chats, model):
    """What the model offers for download, and what it leaves in artifacts/, is kept beyond the sandbox."""
    script = model.script(
        Answer(calls=[run("mkdir -p artifacts; echo report > report.txt; echo chart > artifacts/chart.svg")]),
        Answer(calls=[Use("sandbox_download_url", {"path": "report.txt"})]),
        Answer("There."),
    )
    id, events = chats.run_turn(script.prompt)
    created = [event["attachment"] for event in events if event.type == "artifact.created"]
    assert {one["name"] for one in created} == {"report.txt", "chart.svg"} and {one["kind"] for one in created} == {"artifact"}
    result = [event for event in events if event.type == "tool.message"][1]
    assert [one["name"] for one in result["attachments"]] == ["report.txt"]
    found = {one["name"]: one for one in created}
    chats.send("DELETE", f"/sandboxes/{chats.chat(id)['sandboxId']}")
    assert chats.content(found["report.txt"]["id"]).body == b"report\n" and chats.content(found["chart.svg"]["id"]).body == b"chart\n"
    assert {"report.txt", "chart.svg"} <= set(listed(chats, id))


def test_a_sandbox_that_is_gone_is_replaced(chats, model):
    """With uploads and artifacts, and the model is told."""
    look = run("ls . artifacts user-uploads")
    script = model.script(*doing(run("mkdir -p artifacts; echo kept > artifacts/kept.txt; echo lost > lost.txt")), *doing(look, look))
    (upload,) = chats.uploaded(("given.txt", b"given", "text/plain"))
    id, _ = chats.run_turn(script.prompt, attachments=[upload["id"]])
    before = chats.chat(id)["sandboxId"]
    assert chats.send("DELETE", f"/sandboxes/{before}").status == 204
    assert chats.ended(id, chats.say(id, script.prompt)["id"]) == "complete"
    after = chats.chat(id)["sandboxId"]
    assert after != before
    _, told, found = [result.text for result in script.last.conversation.results]
    assert "sandbox_unavailable" in told and "replaced" in told, told
    assert "given.txt" in found and "kept.txt" in found and "lost.txt" not in found, found
    assert chats.file(id, "artifacts/kept.txt") == "kept\n" and chats.file(id, f"{UPLOADS}/given.txt") == "given"


# Checkpoints.


@pytest.fixture
def story(chats, model):
    """Three turns, each of which writes the same file and one of its own."""
    steps = [step for number in (1, 2, 3) for step in doing(write("now", str(number)), write(f"file-{number}", "x"), answer=f"answer {number}")]
    script = model.script(*steps)
    id, _ = chats.run_turn(f"{script.prompt} 1")
    for number in (2, 3):
        assert chats.ended(id, chats.say(id, f"question {number}")["id"]) == "complete"
    turns = list(dict.fromkeys(message["turnId"] for message in chats.messages(id)))
    return id, script, turns


def files(chats, id: str) -> str:
    return chats.run(chats.box(id), "cat now; ls file-* | tr '\\n' ' '")


def test_restore(chats, model, story):
    """Files and conversation go back, and the present is kept as another checkpoint."""
    id, script, turns = story
    points = chats.ask("GET", f"/chats/{id}/checkpoints")["checkpoints"]
    own = [point for point in points if point["kind"] == "turn"]
    assert [point["turnId"] for point in own][:2] == [turns[2], turns[1]], "the newest first"
    assert own[0]["label"].startswith("question 3")
    before = chats.messages(id)
    gone = next(message for message in before if message["turnId"] == turns[1])
    assert own[1]["messageId"] == gone["id"]
    last = chats.chat(id)["lastEventId"]
    restored = chats.ask("POST", f"/chats/{id}/checkpoints/{turns[1]}/restore", {})
    assert restored["chat"]["id"] == id and restored["removedMessages"] == sum(message["turnId"] != turns[0] for message in before)
    assert files(chats, id) == "1file-1 "
    assert chats.messages(id) == [message for message in before if message["turnId"] == turns[0]]
    with chats.events(id, after=last) as stream:
        told = stream.until("chat.restored")[-1]
    assert (told["messageId"], told["removedMessages"]) == (gone["id"], restored["removedMessages"])
    # It goes on from there, and the model does not see what was taken back.
    script.steps = [Answer(calls=[write("now", "other")]), Answer("another way")]
    assert chats.ended(id, chats.say(id, "differently")["id"]) == "complete"
    assert script.last.conversation.said[-1] == "differently" and "question 2" not in str(script.last.conversation.said)
    assert files(chats, id) == "otherfile-1 "
    # And back to what was before restoring.
    (kept,) = [point for point in chats.ask("GET", f"/chats/{id}/checkpoints")["checkpoints"] if point["kind"] == "restore"]
    assert chats.send("POST", f"/chats/{id}/checkpoints/{kept['turnId']}/restore?kind=restore", {}).status == 200
    assert files(chats, id) == "3file-1 file-2 file-3 "
    chats.refused(404, "checkpoint_not_found", "POST", f"/chats/{id}/checkpoints/turn_{'a' * 20}/restore", {})


def test_fork(chats, model, story):
    """A new chat with the conversation up to a message and a computer of its own."""
    id, script, turns = story
    messages = chats.messages(id)
    middle = next(message for message in messages if text(message) == "answer 2")
    fork = chats.post(f"/chats/{id}/fork", {"messageId": middle["id"]})["chat"]
    assert fork["parentId"] == id and fork["id"] != id
    copied = chats.messages(fork["id"])
    assert [text(message) for message in copied] == [text(message) for message in messages[: messages.index(middle) + 1]]
    assert not {message["id"] for message in copied} & {message["id"] for message in messages}
    sandbox = eventually(lambda: chats.chat(fork["id"])["sandboxId"])
    assert sandbox != chats.chat(id)["sandboxId"] and files(chats, fork["id"]) == "2file-1 file-2 "
    script.steps = doing(write("now", "fork"), answer="forked")
    assert chats.ended(fork["id"], chats.say(fork["id"], "go")["id"]) == "complete"
    assert files(chats, fork["id"]).startswith("fork") and files(chats, id).startswith("3")
    assert chats.messages(id) == messages, "the first one is as it was"
    EventLog().extend(chats.all_events(fork["id"])).check()
    whole = chats.post(f"/chats/{id}/fork", {})["chat"]
    assert len(chats.messages(whole["id"])) == len(messages) and files(chats, whole["id"]) == "3file-1 file-2 file-3 "
    plain = chats.post(f"/chats/{id}/fork", {"withSandbox": False})["chat"]
    assert plain["sandboxId"] is None and len(chats.messages(plain["id"])) == len(messages)
    chats.refused(404, "message_not_found", "POST", f"/chats/{id}/fork", {"messageId": "msg_" + "a" * 20})
    # A fork outlives what it was made from.
    assert chats.send("DELETE", f"/chats/{id}").status == 204
    assert files(chats, whole["id"]) == "3file-1 file-2 file-3 "


def test_neither_while_a_turn_runs(chats, model, story):
    id, script, turns = story
    gate = Gate()
    script.steps = [Answer([gate, "x"])]
    turn = chats.say(id, "hold")
    gate.arrive()
    chats.refused(409, "chat_conflict", "POST", f"/chats/{id}/checkpoints/{turns[1]}/restore", {})
    with pytest.raises(Unexpected) as refused:
        chats.post(f"/chats/{id}/fork", {})
    assert (refused.value.status, refused.value.code) == (409, "chat_conflict")
    gate.release()
    assert chats.ended(id, turn["id"]) == "complete"


def test_twenty_checkpoints_are_kept(chats, model):
    script = model.script(*doing(run("true")), *[Answer("ok")] * 23)
    id, _ = chats.run_turn(script.prompt)
    for number in range(23):
        assert chats.ended(id, chats.say(id, f"more {number}")["id"]) == "complete"
    points = eventually(lambda: (found := chats.ask("GET", f"/chats/{id}/checkpoints")["checkpoints"]) and len(found) <= 20 and found)
    assert points[0]["label"].startswith("more 22") and len(points) >= 2
