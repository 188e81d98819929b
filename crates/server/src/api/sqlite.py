# Runs one statement on a SQLite database and prints the result as JSON. Standard input is the request.
import base64, json, math, os, signal, stat, sys
from urllib.parse import quote

signal.alarm(12)
ROWS, BYTES, TEXT, BLOB = 1000, 1 << 20, 16384, 3072


def say(**answer):
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    os._exit(0)


try:
    import sqlite3
except ImportError:
    say(unavailable=True)

cut = False


def cell(value):
    global cut
    if isinstance(value, bytes):
        cut = cut or len(value) > BLOB
        return {"blob": base64.b64encode(value[:BLOB]).decode(), "size": len(value)}
    if isinstance(value, str) and len(value) > TEXT:
        cut = True
        return value[:TEXT] + "\u2026"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def run(request):
    global cut
    path, write = request["path"], request["write"]
    if not stat.S_ISREG(os.stat(path).st_mode):
        say(error="it is not a regular file")
    mode = "rw" if write else "ro"
    base = sqlite3.connect(f"file:{quote(path)}?mode={mode}", uri=True, timeout=2, isolation_level=None)
    base.text_factory = lambda text: text.decode("utf-8", "replace")
    if not write:
        # VACUUM INTO and ATTACH would make other files.
        base.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action == 24 else sqlite3.SQLITE_OK)
    found = base.execute(request["sql"], request["params"])
    columns = [column[0] for column in found.description or []]
    rows, size = [], len(json.dumps(columns))
    for row in found:
        row = [cell(value) for value in row]
        size += len(json.dumps(row)) + 2
        if len(rows) >= ROWS or size > BYTES - 4096:
            cut = True
            break
        rows.append(row)
    say(columns=columns, rows=rows, truncated=cut, changes=base.total_changes)


try:
    run(json.load(sys.stdin))
except Exception as problem:
    say(error=str(problem))
