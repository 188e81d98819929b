"""SQLite databases of a sandbox: rows, bounds, read-only and writing, locks, files that are none, sandboxes without Python."""

import concurrent.futures
import time

import pytest

from building import context
from file_api import Files, refused
from tool_calls import Tools


@pytest.fixture
def box(boxes):
    return boxes()


@pytest.fixture
def files(api, box) -> Files:
    return Files(api, box.id)


@pytest.fixture
def python(api, box):
    """Runs a Python script as the sandbox's user."""
    tools = Tools(api, box.id)
    return lambda script: tools.ok("run_command", command=f"python3 - <<'END'\n{script}\nEND")["output"]


@pytest.fixture
def base(python) -> str:
    python(
        "import sqlite3; b = sqlite3.connect('a b?.db')\n"
        "b.execute('create table t (id integer primary key, name text, data blob, size real)')\n"
        "b.execute('insert into t values (1, ?, ?, 1.5), (2, null, null, 9e999)', ('ä\\x00<b>', bytes(range(256)) * 100))\n"
        "b.commit()"
    )
    return "a b?.db"


def test_rows(files, base):
    answer = files.sqlite(base, "select * from t order by id")
    assert answer.status == 200, answer.body
    result = answer.json
    assert result["columns"] == ["id", "name", "data", "size"]
    first, second = result["rows"]
    assert first[:2] == [1, "ä\0<b>"] and first[3] == 1.5
    assert first[2]["size"] == 25600 and len(first[2]["blob"]) == 4096, "a blob is cut"
    assert second == [2, None, None, "inf"]
    assert (result["truncated"], result["changes"]) == (True, 0)
    found = files.sqlite(f"~/{base}", "select name from t where id = ? and ? is null and ?", 1, None, True).json
    assert (found["columns"], found["rows"], found["truncated"]) == (["name"], [["ä\0<b>"]], False)
    assert files.sqlite(base, "select 1 as a, 2 as a").json["rows"] == [[1, 2]], "columns of one name"


def test_nothing_is_changed_unless_asked_for(files, base):
    for sql in ("delete from t", "create table u (x)", "vacuum into 'copy.db'", "attach 'new.db' as other"):
        refused(files.sqlite(base, sql), 422, "sqlite_error")
    assert files.names() == [base]
    changed = files.sqlite(base, "update t set name = ?", "x", write=True)
    assert changed.status == 200, changed.body
    assert (changed.json["changes"], changed.json["rows"], changed.json["columns"]) == (2, [], [])
    assert files.sqlite(base, "select name from t").json["rows"] == [["x"], ["x"]]
    # A file that is not there is not made.
    refused(files.sqlite("new.db", "create table t (x)", write=True), 404, "file_not_found")
    assert files.names() == [base]


def test_what_is_no_database(files, base, python):
    files.written("text.db", b"this is only a text, and not a short one either " * 100)
    assert "not a database" in refused(files.sqlite("text.db", "select * from t"), 422, "sqlite_error")
    python("import os; os.mkfifo('pipe.db'); os.mkdir('dir.db'); os.symlink('/dev/zero', 'zero.db')")
    for path in ("pipe.db", "dir.db", "zero.db"):
        refused(files.sqlite(path, "select 1"), 400, "not_a_file")
    refused(files.sqlite("/etc/shadow", "select 1"), 422, "sqlite_error")
    assert "no such table" in refused(files.sqlite(base, "select * from missing"), 422, "sqlite_error")
    assert "one statement" in refused(files.sqlite(base, "select 1; select 2"), 422, "sqlite_error")
    for wrong in ({"sql": ""}, {"sql": "x" * 70000}, {"params": [[1]]}, {"params": [1] * 101}, {"sql": "select\0"}, {"path": ""}):
        body = {"path": base, "sql": "select 1", **wrong}
        refused(files.ask("POST", "/sqlite", None, body), 400, "invalid_request")


def test_a_large_result_is_cut(files, base):
    series = "with recursive s(n) as (select 1 union all select n + 1 from s where n < 100000)"
    many = files.sqlite(base, f"{series} select n from s").json
    assert (len(many["rows"]), many["truncated"]) == (1000, True)
    wide = files.sqlite(base, f"{series} select printf('%.10000c', 'x') from s")
    assert wide.json["truncated"] and 50 < len(wide.json["rows"]) < 110 and len(wide.body) <= 1 << 20
    huge = files.sqlite(base, "select printf('%.5000000c', 'x')").json
    assert huge["truncated"] and len(huge["rows"][0][0]) < 20000
    endless = "with recursive s(n) as (select 1 union all select n + 1 from s) select count(*) from s"
    begin = time.monotonic()
    assert "10 s" in refused(files.sqlite(base, endless), 422, "sqlite_error")
    assert time.monotonic() - begin < 15
    assert files.sqlite(base, "select 1").json["rows"] == [[1]], "it was ended"


def test_a_locked_database(server, box, files, base, api):
    tools = Tools(api, box.id)
    script = f"import sqlite3, sys; b = sqlite3.connect({base!r}); b.execute('begin exclusive'); open('locked', 'w'); sys.stdin.read()"
    tools.ok("run_command", command=f'(sleep 60 | python3 -c "{script}" >/dev/null 2>&1 &) ; while [ ! -e locked ]; do :; done')
    assert "locked" in refused(files.sqlite(base, "select * from t"), 422, "sqlite_error")

    def ask(_):
        client = server.client()
        try:
            return Files(client, box.id).sqlite(base, "delete from t", write=True).status
        finally:
            client.close()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [422] * 4


def test_without_python(builder, api, boxes, tmp_path):
    """Then the program sqlite3 is used, or nothing."""
    make = "sqlite3 x.db 'create table t (z int, a text); insert into t values (1, null), (2, char(93, 10, 125))'"
    steps = [f"cd /home/user && {make} && chown user x.db .", "rm -f /usr/bin/python3*"]
    shell, bare = builder.name("shell"), builder.name("bare")
    end = "USER user\nWORKDIR /home/user\n"

    def dockerfile(*steps: str) -> str:
        return "FROM base\n" + "".join(f"RUN {step}\n" for step in steps) + end

    builder.build(context(tmp_path / "a", Dockerfile=dockerfile(*steps)), shell)
    files = Files(api, boxes(templateID=shell).id)
    result = files.sqlite("x.db", "select z, a from t").json
    assert (result["columns"], result["rows"], result["truncated"]) == (["z", "a"], [[1, None], [2, "]\n}"]], False)
    refused(files.sqlite("x.db", "delete from t"), 422, "sqlite_error")
    refused(files.sqlite("x.db", ".shell touch made"), 422, "sqlite_error")
    refused(files.sqlite("x.db", "select ?", 1), 422, "sqlite_unavailable")
    assert files.sqlite("x.db", "update t set z = 7", write=True).json["changes"] == 2
    series = "with recursive s(n) as (select 1 union all select n + 1 from s where n < 100000)"
    many = files.sqlite("x.db", f"{series} select n, printf('%.100c', 'x') from s").json
    assert (len(many["rows"]), many["truncated"]) == (1000, True)
    assert files.names() == ["x.db"]
    builder.build(context(tmp_path / "b", Dockerfile=dockerfile(*steps, "rm -f /usr/bin/sqlite3")), bare)
    files = Files(api, boxes(templateID=bare).id)
    assert "python3" in refused(files.sqlite("x.db", "select 1"), 422, "sqlite_unavailable")
