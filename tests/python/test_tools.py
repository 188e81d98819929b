"""Agent tools over REST: what each does, what a model sees, errors with their codes, limits, live output, cancelling, detaching."""

import base64
import json
import threading
import time
import uuid

import pytest
import requests

from tool_calls import Tools, events
from waiting import eventually, within

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
def tools(boxes, api) -> Tools:
    return Tools(api, boxes().id)


# Descriptions


def test_descriptions_for_each_provider(api):
    mcp = api.get("/tools").json
    names = [tool["name"] for tool in mcp]
    assert len(names) == 10 and all(name.startswith("sandbox_") for name in names)
    openai = api.get("/tools?format=openai").json
    assert [tool["function"]["name"] for tool in openai] == names
    anthropic = api.get("/tools?format=anthropic").json
    assert [tool["name"] for tool in anthropic] == names
    for tool, function, other in zip(mcp, openai, anthropic):
        assert tool["inputSchema"] == function["function"]["parameters"] == other["input_schema"]
        assert tool["inputSchema"]["additionalProperties"] is False
    assert api.get("/tools?format=gemini").status == 400
    assert [t["name"] for t in api.get("/tools?tools=sandbox_command").json] == ["sandbox_command"]
    assert api.get("/tools?tools=everything").status == 400


# Files


def test_write_read_and_delete(tools):
    made = tools.ok("write_file", path="notes/a.txt", content="one\ntwo\nthree\n")
    assert made["data"]["created"] and made["data"]["bytes"] == 14 and made["data"]["added"] == 3
    read = tools.ok("read_file", path="notes/a.txt")
    assert read["output"] == "1\tone\n2\ttwo\n3\tthree\n"
    assert read["data"] == {"totalLines": 3, "startLine": 1, "endLine": 3, "size": 14}
    part = tools.ok("read_file", path="/home/user/notes/a.txt", start_line=2, end_line=2)
    assert part["output"].startswith("2\ttwo\n") and "of 3" in part["output"]
    again = tools.ok("write_file", path="~/notes/a.txt", content="one\n2\nthree\n")
    assert not again["data"]["created"] and (again["data"]["added"], again["data"]["removed"]) == (1, 1)
    tools.fails("already_exists", "write_file", path="notes/a.txt", content="x", create_only=True)
    tools.fails("not_a_file", "delete_file", path="notes")
    assert tools.ok("delete_file", path="notes", recursive=True)["data"]["removed"] == 2
    tools.fails("file_not_found", "read_file", path="notes/a.txt")


def test_modes_and_owners_stay(tools):
    tools.ok("write_file", path="run.sh", content="#!/bin/sh\necho ran\n", executable=True)
    assert tools.ok("run_command", command="./run.sh; stat -c '%U %a' run.sh")["output"] == "ran\nuser 755\n"
    tools.ok("run_command", command="chmod 751 run.sh; ln -s run.sh link")
    tools.ok("write_file", path="link", content="#!/bin/sh\necho linked\n")
    seen = tools.ok("run_command", command="./run.sh; stat -c %a run.sh; readlink link")["output"]
    assert seen == "linked\n751\nrun.sh\n"


def test_the_user_and_not_root(tools):
    tools.fails("permission_denied", "write_file", path="/etc/hosts", content="x")
    tools.fails("permission_denied", "read_file", path="/etc/shadow")
    tools.fails("permission_denied", "delete_file", path="/home/user", recursive=True)
    for path in ("/", "/proc", "/dev"):
        tools.fails("permission_denied", "delete_file", path=path, recursive=True)
    assert tools.ok("run_command", command="id -un; pwd")["output"] == "user\n/home/user\n"


def test_large_and_binary_files(tools):
    tools.ok("run_command", command="seq 1 100000 > numbers; head -c 3000000 /dev/urandom > noise; yes x | tr -d '\\n' | head -c 9000 > long")
    read = tools.ok("read_file", path="numbers")
    assert read["truncated"] and read["data"]["endLine"] == 2000 and read["data"]["totalLines"] == 100000
    assert "start_line: 2001" in read["output"] and len(read["output"]) < 70_000
    assert tools.ok("read_file", path="numbers", start_line=99999)["output"] == "99999\t99999\n100000\t100000\n"
    tools.fails("invalid_arguments", "read_file", path="numbers", start_line=100001)
    tools.fails("invalid_arguments", "read_file", path="numbers", start_line=5, end_line=4)
    noise = tools.fails("binary_file", "read_file", path="noise")
    assert noise["data"]["size"] == 3_000_000
    assert "7000 more characters" in tools.ok("read_file", path="long")["output"]
    tools.ok("run_command", command="head -c 6000000 /dev/zero | tr '\\0' a > big")
    tools.fails("too_large", "find_replace", path="big", find="a", replace="b")
    tools.ok("run_command", command=r"printf 'caf\xe9 one\n' > latin")
    assert tools.ok("find_replace", path="latin", find="one", replace="two")["data"]["count"] == 1
    assert tools.bytes("latin") == b"caf\xe9 two\n"


def test_images_are_seen(tools):
    tools.ok("run_command", command=f"echo {base64.b64encode(PNG).decode()} | base64 -d > dot.png")
    read = tools.ok("read_file", path="dot.png")
    assert read["images"] == [{"mediaType": "image/png", "data": base64.b64encode(PNG).decode()}]


def test_special_files_never_block(tools):
    tools.ok("run_command", command="mkfifo pipe; ln -s /dev/zero zero; ln -s loop loop; ln -s nowhere dangling")
    for path in ("pipe", "zero", "/dev/zero", "/proc/1/mem"):
        result = tools.call("sandbox_read_file", {"path": path})
        assert result["error"]["code"] in ("not_a_file", "permission_denied", "binary_file"), result
    assert tools.call("sandbox_read_file", {"path": "loop"})["status"] == "error"
    tools.fails("file_not_found", "read_file", path="dangling")
    tools.fails("not_a_file", "read_file", path="/home")
    tools.fails("not_a_directory", "list_directory", path="/etc/passwd")
    for path in ("a\0b", "x" * 300, "/".join(["d"] * 2000)):
        assert tools.call("sandbox_read_file", {"path": path})["error"]["code"] in ("invalid_arguments", "file_not_found")
    assert tools.ok("read_file", path="/etc/../etc/hostname")["data"]["totalLines"] == 1


def test_list_directory(tools):
    tools.ok("run_command", command="mkdir -p t/b/c; touch t/a t/.h t/b/x; ln -s a t/l; for n in $(seq 300); do touch t/b/c/$n; done")
    listed = tools.ok("list_directory", path="t")
    assert [entry["path"] for entry in listed["data"]["entries"]] == ["b", "a", "l"]
    assert listed["data"]["entries"][2] | {"modified": 0} == {
        "path": "l", "kind": "link", "size": listed["data"]["entries"][2]["size"], "mode": listed["data"]["entries"][2]["mode"],
        "modified": 0, "target": "a",
    }
    deep = tools.ok("list_directory", path="t", depth=3, hidden=True, limit=20)
    assert deep["truncated"] and len(deep["data"]["entries"]) == 20
    assert tools.ok("list_directory")["data"]["path"] == "/home/user"


# Searching


def test_grep(tools):
    tools.ok("run_command", command=r"""mkdir -p r/src r/.git r/node_modules; cd r; git init -q . 2>/dev/null
        echo node_modules > .gitignore
        printf 'alpha\nBeta\nalpha beta\n' > src/a.txt; printf 'ALPHA\n' > src/b.py; echo alpha > node_modules/m.txt
        for n in $(seq 25); do echo "alpha $n"; done > src/many.txt; printf 'alpha\0bin' > src/bin""")
    found = tools.ok("grep_files", pattern="alpha", path="r")
    assert (found["data"]["matches"], found["data"]["files"]) == (28, 3)
    assert "src/a.txt:1:alpha" in found["output"] and "node_modules" not in found["output"]
    assert found["data"]["truncated"] and "15 more" in found["output"]
    assert tools.ok("grep_files", pattern="Alpha", path="r")["data"]["matches"] == 0
    assert tools.ok("grep_files", pattern="ALPHA", path="r", case="insensitive", include=["*.py"])["data"]["matches"] == 1
    files = tools.ok("grep_files", pattern="alpha", path="r", output="files", exclude=["*.py"])["output"]
    assert files.splitlines()[:2] == ["src/a.txt", "src/many.txt"]
    assert tools.ok("grep_files", pattern="alpha", path="r", ignored=True)["data"]["files"] == 4
    context = tools.ok("grep_files", pattern="Beta", path="r/src/a.txt", context=1)["output"]
    assert "1-alpha" in context and "2:Beta" in context and "3-alpha beta" in context
    assert tools.ok("grep_files", pattern="a.txt", path="r", literal=True)["data"]["matches"] == 0
    bad = tools.fails("invalid_arguments", "grep_files", pattern="(unclosed", path="r")
    assert "unclosed" in bad["error"]["message"]
    started = time.monotonic()
    tools.call("sandbox_grep_files", {"pattern": "(x{1000}){1000}", "path": "r"})
    tools.ok("grep_files", pattern="(a|aa|aaa)+$", path="r")
    within(20, started, "patterns that explode in other engines")


def test_find_files(tools):
    tools.ok("run_command", command="mkdir -p p/src/server p/docs; touch p/src/server/main.rs p/src/main.rs p/docs/readme.md p/x")
    assert tools.ok("find_files", query="srvmain", path="p")["data"]["paths"] == ["src/server/main.rs"]
    assert tools.ok("find_files", query="main.rs", path="p")["data"]["paths"][0] == "src/main.rs"
    assert tools.ok("find_files", query="docs", path="p", kind="directory")["data"]["paths"] == ["docs/"]
    assert tools.ok("find_files", query="zzz", path="p")["output"] == "[nothing found]"


# Changing


def test_find_replace(tools):
    tools.ok("write_file", path="f", content="a = 1\nb = 1\na = 2\n")
    twice = tools.fails("not_unique", "find_replace", path="f", find="a = ", replace="c = ")
    assert "1, 3" in twice["output"]
    none = tools.fails("no_match", "find_replace", path="f", find="b = 2", replace="")
    assert "b = 1" in none["output"]
    done = tools.ok("find_replace", path="f", find="b = 1", replace="b = 5")
    assert "-b = 1" in done["output"] and "+b = 5" in done["data"]["diff"]
    tools.fails("not_unique", "find_replace", path="f", find="a", replace="z", all=True, expected_count=3)
    assert tools.ok("find_replace", path="f", find=r"(\w) = (\d)", replace="$2 = $1", all=True, regex=True)["data"]["count"] == 3
    assert tools.bytes("f") == b"1 = a\n5 = b\n2 = a\n"


PATCH = """diff --git a/keep.py b/keep.py
--- a/keep.py
+++ b/keep.py
@@ -1,3 +1,3 @@
 def f():
-    return 1
+    return 2
 # end
diff --git a/old.txt b/new.txt
similarity index 100%
rename from old.txt
rename to new.txt
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/made.sh b/made.sh
new file mode 100755
--- /dev/null
+++ b/made.sh
@@ -0,0 +1 @@
+echo made
"""


def test_a_patch_applies_whole_or_not_at_all(tools):
    tools.ok("run_command", command="mkdir w; cd w; printf 'def f():\\n    return 1\\n# end\\n' > keep.py; echo old > old.txt; echo bye > gone.txt")
    dry = tools.ok("apply_patch", patch=PATCH, cwd="w", dry_run=True)
    assert [f["change"] for f in dry["data"]["files"]] == ["modify", "rename", "delete", "create"]
    assert tools.ok("run_command", command="ls w")["output"].split() == ["gone.txt", "keep.py", "old.txt"]
    tools.ok("run_command", command="cp -a w whole; echo changed > w/gone.txt")
    failed = tools.fails("patch_failed", "apply_patch", patch=PATCH, cwd="w")
    assert "gone.txt" in failed["error"]["message"]
    assert tools.ok("run_command", command="cat w/keep.py; ls w")["output"].split()[2] == "return"
    assert tools.ok("run_command", command="diff -r w whole | grep -c '^diff'", env={"LC_ALL": "C"})["output"] == "1\n"
    tools.ok("apply_patch", patch=PATCH, cwd="/home/user/whole")
    seen = tools.ok("run_command", command="cd whole; ls; cat keep.py new.txt; ./made.sh")["output"]
    assert seen == "keep.py\nmade.sh\nnew.txt\ndef f():\n    return 2\n# end\nold\nmade\n"


def test_the_other_patch_form(tools):
    tools.ok("write_file", path="app.py", content="import os\n\ndef main():\n    print('a')\n\ndef other():\n    print('a')\n")
    patch = "*** Begin Patch\n*** Update File: app.py\n@@ def other():\n-    print('a')\n+    print('b')\n*** Add File: lib/x.py\n+X = 1\n*** End Patch\n"
    tools.ok("apply_patch", patch=patch)
    assert tools.bytes("app.py").endswith(b"def other():\n    print('b')\n")
    assert tools.bytes("lib/x.py") == b"X = 1\n"
    tools.fails("patch_failed", "apply_patch", patch="this is no patch")
    tools.fails("patch_failed", "apply_patch", patch=patch)


def test_a_full_disk_changes_nothing(boxes, api):
    tools = Tools(api, boxes(diskSizeMB=64).id)
    tools.ok("write_file", path="keep", content="kept\n")
    tools.call("sandbox_run_command", {"command": "dd if=/dev/zero of=fill bs=1M count=200; sync"})
    full = tools.call("sandbox_write_file", {"path": "keep", "content": "x" * 5_000_000})
    assert full["error"]["code"] == "disk_full", full
    assert tools.bytes("keep") == b"kept\n"
    assert tools.ok("run_command", command="ls -A | grep -c cabana || true")["output"] == "0\n"


# Commands


def test_commands(tools):
    failed = tools.fails("command_failed", "run_command", command="echo out; echo err >&2; exit 3")
    assert "out\n" in failed["output"] and "err\n" in failed["output"] and failed["data"]["exitCode"] == 3
    assert tools.ok("run_command", command="true")["output"] == "[no output]"
    assert tools.ok("run_command", command="cat; echo $A", stdin="typed\n", env={"A": "b"})["output"] == "typed\nb\n"
    assert tools.ok("run_command", command="cat; echo end")["output"] == "end\n"
    assert tools.ok("run_command", command="pwd", cwd="/tmp")["output"] == "/tmp\n"
    tools.fails("invalid_arguments", "run_command", command="pwd", cwd="/nowhere")
    missing = tools.fails("command_failed", "run_command", command="no-such-program")
    assert missing["data"]["exitCode"] == 127 and "install" in missing["error"]["hint"]
    tools.fails("command_failed", "run_command", command="kill -9 $$")


def test_long_output_keeps_the_end(tools):
    result = tools.ok("run_command", command="for n in $(seq 200000); do echo line $n; done; echo THE END")
    assert result["truncated"] and len(result["output"]) < 40_000
    assert result["output"].startswith("line 1\n") and result["output"].endswith("THE END\n")
    path = result["data"]["outputPath"]
    assert f"all of it: {path}" in result["output"]
    assert tools.ok("run_command", command=f"wc -l < {path}; tail -n1 {path}")["output"] == "200001\nTHE END\n"
    bar = tools.ok("run_command", command=r"for n in $(seq 1000); do printf '\r\033[32m%d %%\033[0m' $n; done; echo; for n in 1 2 3 4 5 6; do echo same; done")
    assert bar["output"] == "1000 %\nsame\n[… repeated 5 more times …]\n"


def test_the_time_limit_ends_everything(tools):
    started = time.monotonic()
    result = tools.fails("command_timeout", "run_command", command="trap '' TERM; echo begun; sleep 1000 & sleep 1000", timeout_seconds=1)
    within(12, started, "a command that ignores TERM")
    assert "begun" in result["output"]
    assert tools.ok("run_command", command="pgrep -c sleep || true")["output"] == "0\n"


def test_background_commands(tools):
    result = tools.ok("run_command", command="echo up; while :; do echo tick; sleep 0.2; done", background=True)
    id = result["data"]["commandId"]
    assert "up" in result["output"] and result["data"]["outputPath"] in result["output"]
    read = tools.ok("command", command_id=id, action="read")
    assert "tick" in read["output"] and "still running" in read["output"]
    stopped = tools.ok("command", command_id=id, action="stop")
    assert "[stopped]" in stopped["output"]
    assert tools.ok("run_command", command=f"head -n1 {result['data']['outputPath']}")["output"] == "up\n"
    quick = tools.ok("run_command", command="sleep 1.5; echo done; exit 4", background=True)["data"]["commandId"]
    ended = tools.fails("command_failed", "command", command_id=quick, action="wait", wait_seconds=20)
    assert "done" in ended["output"] and ended["data"]["exitCode"] == 4
    tools.fails("file_not_found", "command", command_id="call_00000000000000000000", action="read")


def test_live_output(tools, server):
    client = server.client()
    headers = {"X-API-KEY": server.key, "Accept": "text/event-stream", "Content-Type": "application/json"}
    body = json.dumps({"command": "echo one; sleep 0.7; echo two >&2; printf 'caf\\xc3'; sleep 0.2; printf '\\xa9'; exit 2"}).encode()
    response = client.open("POST", f"/sandboxes/{tools.id}/tools/sandbox_run_command", body, headers)
    seen = [(time.monotonic(), name, data) for name, data in events(response)]
    names = [name for _, name, _ in seen]
    assert names[0] == "tool.call" and names[-1] == "tool.message" and set(names[1:-1]) == {"tool.output"}
    text = "".join(data["text"] for _, name, data in seen if name == "tool.output")
    assert text == "one\ntwo\ncafé"
    assert [d["stream"] for _, n, d in seen if n == "tool.output"][:2] == ["stdout", "stderr"]
    assert seen[2][0] - seen[1][0] > 0.4, "the first line came before the second was printed"
    last = seen[-1][2]
    assert last["status"] == "error" and last["error"]["code"] == "command_failed" and last["toolCallId"] == seen[0][2]["toolCall"]["id"]
    client.close()


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_closing_the_connection_cancels(accept, tools, server):
    body = json.dumps({"command": "touch began; sleep 777"})
    request = [
        f"POST /sandboxes/{tools.id}/tools/sandbox_run_command HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"X-API-KEY: {server.key}",
        f"Accept: {accept}",
        f"Content-Length: {len(body)}",
    ]
    connection = server.connect()
    connection.sendall("\r\n".join([*request, "", body]).encode())
    eventually(lambda: tools.call("sandbox_read_file", {"path": "began"})["status"] == "success")
    assert tools.ok("run_command", command="pgrep -fc 'sleep 77[7]'")["output"] != "0\n"
    connection.close()
    eventually(lambda: tools.ok("run_command", command="pgrep -fc 'sleep 77[7]' || true")["output"] == "0\n", within=20)


# Calls


def test_detached_calls(tools, api):
    answer = tools.send("sandbox_run_command", {"command": "sleep 1; echo later"}, "?detach=true")
    assert answer.status == 202
    where = answer.json["result"]
    assert api.get(where).status == 202
    result = eventually(lambda: (a := api.get(where)).status == 200 and a.json, within=20)
    assert result["status"] == "success" and result["output"] == "later\n" and result["callId"] == answer.json["callId"]
    running = tools.send("sandbox_run_command", {"command": "sleep 1000"}, "?detach=true").json["result"]
    assert api.request("DELETE", running).status == 204
    assert eventually(lambda: (a := api.get(running)).status == 200 and a.json, within=20)["error"]["code"] == "cancelled"
    assert api.get(where.rsplit("/", 1)[0] + "/call_00000000000000000000").status == 404
    assert api.get(where.rsplit("/", 1)[0] + "/nonsense").status == 404


def test_the_same_key_runs_once(tools):
    key = {"Idempotency-Key": uuid.uuid4().hex}
    call = {"command": "echo x >> ran; wc -l < ran; sleep 0.5"}
    answers = []

    def send():
        client = Tools(type(tools.client)(f"http://{tools.client.host}:{tools.client.port}", tools.client.key), tools.id)
        answers.append(client.send("sandbox_run_command", call, headers=key))

    threads = [threading.Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.status for a in answers} == {200} and len({a.body for a in answers}) == 1, answers
    assert tools.ok("run_command", command="wc -l < ran")["output"] == "1\n"
    other = tools.send("sandbox_run_command", {"command": "echo other"}, headers=key)
    assert other.status == 422 and other.json["error_code"] == "idempotency_mismatch"


def test_a_restarted_server_says_so(tools, server, api):
    key = {"Idempotency-Key": uuid.uuid4().hex}
    detached = tools.send("sandbox_run_command", {"command": "sleep 1000"}, "?detach=true").json["result"]
    kept = tools.send("sandbox_run_command", {"command": "echo kept"}, headers=key)
    assert kept.status == 200
    server.crash()
    server.start()
    client = server.client()
    cut = client.get(detached)
    assert cut.status == 200 and cut.json["error"]["code"] == "interrupted", cut.body
    again = Tools(client, tools.id).send("sandbox_run_command", {"command": "echo kept"}, headers=key)
    assert again.json == kept.json
    client.close()


def test_bad_input(tools, api, boxes):
    for arguments, problem in [
        ({"path": 5}, "path must be a string"),
        ({}, "path is required"),
        ({"path": "x", "other": 1}, 'no argument "other"'),
        ({"path": "x", "start_line": 0}, "at least 1"),
        ([], "must be an object"),
    ]:
        answer = tools.send("sandbox_read_file", arguments)
        assert answer.status == 400 and problem in answer.json["message"], answer.body
    assert tools.send("sandbox_read_file", b"{").status == 400
    assert tools.send("sandbox_read_file", b"[" * 100_000).status == 400
    assert tools.send("sandbox_fly", {}).status == 404
    assert tools.send("sandbox_create", {}).status == 404
    assert tools.send("sandbox_read_file", {"path": "x", "sandbox": "iother"}).status == 400
    assert tools.send("sandbox_read_file", {"path": "/etc/hostname", "sandbox": tools.id}).status == 200
    assert tools.send("sandbox_read_file", {"path": "x"}, headers={"Idempotency-Key": "x" * 300}).status == 400
    assert Tools(api, "inone").send("sandbox_read_file", {"path": "x"}).status == 404
    gone = boxes()
    api.kill(gone)
    assert Tools(api, gone.id).send("sandbox_read_file", {"path": "x"}).status == 404


# Sandboxes that are not running


def test_a_paused_sandbox_is_resumed(tools, api):
    tools.ok("write_file", path="f", content="kept\n")
    for body in ({}, {"memory": False}):
        assert api.request("POST", f"/sandboxes/{tools.id}/pause", body).status == 204
        assert tools.ok("read_file", path="f")["output"] == "1\tkept\n"
    assert api.request("POST", f"/sandboxes/{tools.id}/archive").status == 204
    assert tools.ok("read_file", path="f")["output"] == "1\tkept\n"


@pytest.mark.parametrize("how", ["pause", "kill"])
def test_a_sandbox_that_stops_during_a_call(how, tools, api, server):
    results = []

    def call():
        client = server.client()
        results.append(Tools(client, tools.id).send("sandbox_run_command", {"command": "touch began; sleep 1000"}))
        client.close()

    thread = threading.Thread(target=call)
    thread.start()
    eventually(lambda: tools.call("sandbox_read_file", {"path": "began"})["status"] == "success")
    if how == "pause":
        assert api.request("POST", f"/sandboxes/{tools.id}/pause", {}).status == 204
    else:
        api.kill(tools.id)
    thread.join(20)
    assert not thread.is_alive()
    assert results[0].status == 200 and results[0].json["error"]["code"] in ("interrupted", "sandbox_unavailable"), results[0].body


def test_many_calls_at_once(tools, server):
    """More than eight wait for their turn."""
    def call(results):
        client = server.client()
        results.append(Tools(client, tools.id).send("sandbox_run_command", {"command": "sleep 0.3; echo ok"}).json["status"])
        client.close()

    results: list[str] = []
    threads = [threading.Thread(target=call, args=(results,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["success"] * 20


# Downloads


def test_download_links(tools, api):
    tools.ok("run_command", command="mkdir -p site/sub; seq 1 100000 > 'site/a b.txt'; echo '<script>' > site/sub/x.html; ln -s /etc/shadow site/evil")
    link = tools.ok("download_url", path="site/a b.txt")["data"]
    assert link["name"] == "a b.txt" and link["size"] == 588895
    answer = requests.get(link["url"])
    assert answer.status_code == 200 and answer.text.startswith("1\n2\n") and len(answer.content) == 588895
    assert 'filename="a b.txt"' in answer.headers["content-disposition"] and answer.headers["x-content-type-options"] == "nosniff"
    part = requests.get(link["url"], headers={"Range": "bytes=0-3"})
    assert part.status_code == 206 and part.text == "1\n2\n"
    api.request("POST", f"/sandboxes/{tools.id}/pause", {})
    assert requests.get(link["url"]).status_code == 200
    packed = tools.ok("download_url", path="site", filename="mine.tar.gz")["data"]
    import io
    import tarfile

    archive = tarfile.open(fileobj=io.BytesIO(requests.get(packed["url"]).content), mode="r:gz")
    assert sorted(archive.getnames()) == ["site", "site/a b.txt", "site/evil", "site/sub", "site/sub/x.html"]
    assert archive.getmember("site/evil").issym()
    for broken in (link["url"].replace("a+b", "a+c"), link["url"].replace("expires=", "expires=9"), link["url"][:-3]):
        assert requests.get(broken).status_code == 401, broken
    tools.ok("delete_file", path="site/a b.txt")
    assert requests.get(link["url"]).status_code == 404
    tools.fails("file_not_found", "download_url", path="nothing")
    tools.fails("invalid_arguments", "download_url", path="site", filename="../x")
