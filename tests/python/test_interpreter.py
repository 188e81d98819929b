"""E2B's code interpreter SDK, unmodified: every method of it, what cells show, and what hostile cells do. The JS SDK:
tests/js/interpreter.test.mjs."""

import asyncio
import inspect
import json
import threading
import time

import e2b
import httpx
import pytest
from e2b import InvalidArgumentException, NotFoundException, SandboxException, TimeoutException
from e2b_code_interpreter import AsyncSandbox, Sandbox
from e2b_code_interpreter.models import Execution, Logs, Result

from interpreters import TEMPLATE, build, interpreter
from waiting import eventually

CONTEXTS = {"create_code_context", "list_code_contexts", "remove_code_context", "restart_code_context", "run_code"}


@pytest.fixture(scope="module", autouse=True)
def template(server, resolver):
    with resolver.passing_on():
        build(server)


@pytest.fixture(scope="module")
def box(template):
    with interpreter(envs={"PLACE": "sandbox"}) as sandbox:
        yield sandbox


def methods(of: type) -> set[str]:
    return {name for name, thing in inspect.getmembers(of) if callable(thing) and not name.startswith("_")}


def test_every_method_is_called_here():
    for ours, base in ((Sandbox, e2b.Sandbox), (AsyncSandbox, e2b.AsyncSandbox)):
        assert methods(ours) - methods(base) == CONTEXTS
    assert methods(Execution) == {"to_json"} and methods(Result) == {"formats"} and methods(Logs) == {"to_json"}


def test_a_curated_template_is_listed_when_it_is_ready(server, api):
    cards = {card["name"]: card for card in api.get("/templates/gallery").json}
    assert cards[TEMPLATE]["state"] == "ready" and "FROM base" in cards[TEMPLATE]["dockerfile"]
    assert api.get(f"/templates/gallery/{TEMPLATE}").json == cards[TEMPLATE]
    assert api.request("POST", f"/templates/gallery/{TEMPLATE}").json["buildID"] == cards[TEMPLATE]["buildID"]
    assert api.get("/templates/gallery/nothing").status == 404


def test_values_streams_and_state(box):
    assert box.run_code("x = 1; x").text == "1"
    assert box.run_code("x + 1").text == "2"
    assert box.run_code("'it' + 'self'").text == "itself"
    seen = []
    done = box.run_code("import sys; print('a'); print('b', file=sys.stderr); 'c'", on_stdout=seen.append, on_stderr=seen.append)
    assert sorted((message.line, message.error) for message in seen) == [("a\n", False), ("b\n", True)]
    assert (done.logs.stdout, done.logs.stderr, done.text) == (["a\n"], ["b\n"], "c")
    assert json.loads(done.logs.to_json()) == {"stdout": ["a\n"], "stderr": ["b\n"]}
    shown = []
    done = box.run_code("from IPython.display import display\ndisplay('one'); 'two'", on_result=shown.append)
    assert [(result.text, result.is_main_result) for result in done.results] == [("one", False), ("two", True)]
    assert len(shown) == 2
    assert box.run_code("    y = 5\n    y").text == "5", "an indented cell"
    assert box.run_code("import asyncio\nawait asyncio.sleep(0, 'awaited')").text == "awaited"
    assert box.run_code("!echo shell").logs.stdout == ["shell\r\n"]
    assert box.run_code("").text is None
    assert box.run_code("a = 'ü€\\u2028\\U0001f600'; a").text.startswith("ü€")
    again = Sandbox.connect(box.sandbox_id)
    assert again.run_code("x").text == "1"


def test_errors_and_counts(template):
    with interpreter() as box:
        seen = []
        failed = box.run_code("1/0", on_error=seen.append)
        assert (failed.error.name, failed.error.value, len(seen)) == ("ZeroDivisionError", "division by zero", 1)
        assert "ZeroDivisionError" in failed.error.traceback and "\x1b" not in failed.error.traceback
        assert failed.execution_count == 1
        assert box.run_code("def").error.name == "SyntaxError"
        assert box.run_code("undefined_name").error.value == "name 'undefined_name' is not defined"
        assert box.run_code("input()").error.name == "StdinNotImplementedError"
        assert box.run_code("1").execution_count == 5
        assert "ZeroDivisionError" in failed.to_json()
        box.restart_code_context(box.list_code_contexts()[0])
        assert box.run_code("1").execution_count == 1


def test_contexts(box):
    names = [context.language for context in box.list_code_contexts()]
    assert names[:2] == ["python", "javascript"]
    one, other = box.create_code_context(), box.create_code_context(cwd="/root", language="python")
    assert (one.language, one.cwd, other.cwd) == ("python", "/home/user", "/root")
    assert box.list_code_contexts()[-1].id == other.id
    box.run_code("kept = 1", context=one)
    assert box.run_code("kept", context=other).error.name == "NameError"
    assert box.run_code("import os; os.getcwd()", context=other).text == "/root"
    box.restart_code_context(one)
    assert box.run_code("kept", context=one).error.name == "NameError"
    box.remove_code_context(one.id)
    box.remove_code_context(other)
    assert {one.id, other.id}.isdisjoint(context.id for context in box.list_code_contexts())
    with pytest.raises(NotFoundException, match=f"Context {one.id} not found"):
        box.run_code("1", context=one)
    with pytest.raises(NotFoundException):
        box.remove_code_context(one)
    with pytest.raises(InvalidArgumentException):
        box.run_code("1", context=other, language="python")
    with pytest.raises(SandboxException, match="no kernel for the language"):
        box.create_code_context(language="cobol")
    with pytest.raises(SandboxException, match="Failed to set working directory"):
        box.create_code_context(cwd="/nowhere")


def test_environment(box):
    read = "import os; os.environ.get('PLACE'), os.environ.get('OTHER')"
    assert box.run_code(read).text == "('sandbox', None)"
    given = {"PLACE": "it's \"q\"\n$x", "OTHER": "o"}
    assert box.run_code(read, envs=given).text == str(tuple(given.values()))
    assert box.run_code(read).text == "('sandbox', None)"
    for language, code in (("js", "[process.env.PLACE, process.env.OTHER ?? '-'].join()"), ("bash", 'printf %s "$PLACE,${OTHER--}"')):
        def value(**options):
            done = box.run_code(code, language=language, **options)
            return done.text or "".join(done.logs.stdout)

        assert value() == "sandbox,-"
        assert value(envs={"PLACE": "a'b", "OTHER": "o"}) == "a'b,o"
        assert value() == "sandbox,-"


def test_javascript_and_typescript(box):
    assert box.run_code("const a = 1; let b = 2; a + b", language="js").text == "3"
    done = box.run_code("const a = 5; console.log(a); console.error('e'); a", language="javascript")
    assert (done.text, done.logs.stdout, done.logs.stderr) == ("5", ["5\n"], ["e\n"])
    assert box.run_code("undefined", language="js").results == []
    assert box.run_code("import fs, { existsSync as e } from 'fs'\nimport * as p from 'node:path'\np.join('a', String(e('/')))", language="js").text == "a/true"
    assert box.run_code("const os = require('os'); await new Promise((r) => setTimeout(() => r(typeof os.cpus), 1))", language="js").text == "function"
    assert box.run_code("[process.cwd(), process.getuid()]", language="js").results[0].json == ["/home/user", 0]
    failed = box.run_code("throw new TypeError('bad')", language="js").error
    assert (failed.name, failed.value) == ("TypeError", "bad")
    shown = box.run_code("$$.html('<b>'); ({ a: [1.5] })", language="js").results
    assert shown[0].html == "<b>" and shown[1].json == {"a": [1.5]}
    assert box.run_code("enum E { A, B }\nconst n: number = E.B; n as number", language="ts").text == "1"
    assert box.run_code("a", language="ts").error.name == "ReferenceError"
    with pytest.raises(TimeoutException):
        box.run_code("await new Promise(() => {})", language="js", timeout=1)
    assert box.run_code("a", language="js").text == "5", "what it awaited was given up, and the state is kept"


def test_bash(box):
    done = box.run_code("cd /tmp; v=1; echo out; echo err >&2; (exit 3)", language="bash")
    assert "".join(done.logs.stdout) == "out\nerr\n" and done.logs.stderr == []
    assert (done.error.name, done.error.value) == ("", "3")
    assert "".join(box.run_code("echo $PWD $v", language="bash").logs.stdout) == "/tmp 1\n"


def test_rich_results(box):
    plot = box.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2], [3, 4]); plt.show()").results[0]
    assert plot.png.startswith("iVBOR") and plot.text.startswith("<Figure size") and plot.extra == {}
    assert plot.chart.type == "line" and plot.chart.elements[0].points == [(1.0, 3.0), (2.0, 4.0)]
    frame = box.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 't': pd.to_datetime(['2020-01-01', None])})").results[0]
    assert frame.data == {"a": [1, 2], "t": ["2020-01-01T00:00:00", None]} and "<table" in frame.html
    assert box.run_code("{'a': [1, 2.0, None], 3: 'x'}").results[0].json == {"a": [1, 2.0, None], "3": "x"}
    kinds = {
        "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "text/latex": "latex",
        "application/javascript": "javascript", "application/pdf": "pdf", "image/jpeg": "jpeg",
    }
    for mime, field in kinds.items():
        result = box.run_code(f"display({{'{mime}': 'eA=='}}, raw=True)").results[0]
        assert list(result.formats()) == [field] and result[field] == "eA=="
    assert box.run_code("display({'x/y': 'z'}, raw=True)").results[0].extra == {"x/y": "z"}
    image = "from PIL import Image\nimage = Image.new('RGB', (2, 2))\n"
    for show in ("image.show()", "image.save('/tmp/x.png')", "image"):
        assert box.run_code(image + show).results[0].png.startswith("iVBOR"), show
    own = "class Own:\n  def _repr_e2b_data_(self): return {'x': [1]}\n  def _repr_latex_(self): return '$x$'\nOwn()"
    result = box.run_code(own).results[0]
    assert (result.data, result.latex) == ({"x": [1]}, "$x$")


def test_cells_of_a_context_wait_and_contexts_do_not(box):
    other = box.create_code_context()
    order = []

    def run(code, **options):
        order.append(box.run_code(code, **options).text)

    begun = threading.Event()
    slow = "print('begun', flush=True); import time; time.sleep(1.5); finished = True"
    threads = [threading.Thread(target=run, args=(slow,), kwargs={"on_stdout": lambda _: begun.set()})]
    threads.append(threading.Thread(target=run, args=("finished",)))
    threads.append(threading.Thread(target=run, args=("'other'",), kwargs={"context": other}))
    threads[0].start()
    assert begun.wait(20)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert order[0] == "other" and "True" in order
    box.remove_code_context(other)


def test_a_client_that_gives_up_interrupts_the_cell(box):
    box.run_code("state = 'kept'")
    for code in ("import time; time.sleep(100)", "while True: pass", "!sleep 100"):
        with pytest.raises(TimeoutException):
            box.run_code(code, timeout=1)
        start = time.monotonic()
        assert box.run_code("state").text == "kept", code
        assert time.monotonic() - start < 5
    # One that does not let itself be interrupted is replaced.
    with pytest.raises(TimeoutException):
        box.run_code("import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)", timeout=1)
    assert box.run_code("state").error.name == "NameError"
    with pytest.raises(TimeoutException):
        box.run_code("for (;;) {}", language="js", timeout=1)
    assert box.run_code("1", language="js").text == "1"


@pytest.mark.parametrize(
    "code",
    [
        "import os; os._exit(1)",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import ctypes; ctypes.string_at(0)",
    ],
)
def test_a_kernel_that_ends_is_replaced(box, code):
    context = box.create_code_context()
    assert box.run_code(code, context=context).error.name == "ContextRestarting"
    assert box.run_code("1", context=context).text == "1"
    box.remove_code_context(context)


def test_restart_during_a_cell(box):
    context = box.create_code_context()
    ended = []
    printed = threading.Event()
    code = "import time\nprint('runs', flush=True)\ntime.sleep(100)"
    thread = threading.Thread(
        target=lambda: ended.append(box.run_code(code, context=context, on_stdout=lambda _: printed.set()))
    )
    thread.start()
    assert printed.wait(20)
    box.restart_code_context(context)
    thread.join(20)
    assert ended[0].error.name == "ContextRestarting"
    assert box.run_code("2", context=context).text == "2"
    box.remove_code_context(context)


def test_hostile_cells(box):
    cases = {
        "class A:\n  def __repr__(self): raise ValueError('repr')\nA()": "ValueError",
        "raise SystemExit": "SystemExit",
        "raise KeyboardInterrupt": "KeyboardInterrupt",
        "def f(): f()\nf()": "RecursionError",
    }
    for code, name in cases.items():
        assert box.run_code(code).error.name == name
    assert box.run_code("import sys; sys.stdout = None; print('x'); 5").text == "5"
    box.restart_code_context(box.list_code_contexts()[0])
    assert box.run_code("a = []; a.append(a); a").text == "[[...]]"
    assert box.run_code("'x' * 20_000_000").text == "x" * 20_000_000
    assert len(box.run_code("list(range(100_000))").text) > 500_000, "long lists are not shortened"
    assert box.run_code("import os\nif os.fork() == 0: os._exit(0)\n7").text == "7"
    many = box.run_code("for i in range(20_000): print(i)")
    assert "".join(many.logs.stdout) == "".join(f"{i}\n" for i in range(20_000))
    grown = box.run_code("b = []\nwhile True: b.append(bytearray(1 << 26))")
    assert grown.error.name in ("MemoryError", "ContextRestarting")
    assert eventually(lambda: box.run_code("8").text == "8", within=20)


def test_endless_output_to_a_reader_that_stops(box, server):
    """A client that does not read is not waited for: the cell is interrupted, and its context can be used."""
    url = f"{server.url}/execute"
    headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "49999"}
    with httpx.Client(timeout=60) as client:
        with client.stream("POST", url, headers=headers, json={"code": "while True: print('x' * 100_000)"}) as response:
            first = next(response.iter_bytes())
            assert first.startswith(b'{"')
            # Its state is lost if it could not be interrupted in time.
            assert eventually(lambda: box.run_code("2", timeout=20).text == "2", within=60)


def test_the_wire(box, server):
    url = server.url
    headers = {"E2b-Sandbox-Id": box.sandbox_id, "E2b-Sandbox-Port": "49999"}
    with httpx.Client(base_url=url, headers=headers, timeout=30) as client:
        assert client.get("/health").json() == "OK"
        both = client.post("/execute", json={"code": "1", "language": "python", "context_id": "x"})
        assert both.status_code == 400
        assert client.post("/execute", json={"code": 1}).status_code == 422
        assert client.post("/execute", content=b"{").status_code == 422
        assert client.post("/execute", json={"code": "1", "context_id": "x"}).status_code == 404
        assert client.get("/nothing").status_code == 404
        assert client.options("/execute").headers["access-control-allow-origin"] == "*"
        text = client.post("/execute", json={"code": "print('ü\\u2028'); 1.0", "unknown": 1}).content
        lines = text.decode("ascii").removesuffix("\n").split("\n")
        kinds = [json.loads(line)["type"] for line in lines]
        assert kinds == ["number_of_executions", "stdout", "result", "end_of_execution"]
        slow = client.post("/execute", json={"code": "import time; time.sleep(5.5)"}).text
        assert '{"type":"keepalive"}' in slow


def test_pause_and_private_traffic(template):
    with interpreter(network={"allow_public_traffic": False}) as box:
        box.run_code("kept = 1")
        box.run_code("let kept = 2", language="js")
        box.pause()
        again = Sandbox.connect(box.sandbox_id)
        assert again.run_code("kept").text == "1"
        assert again.run_code("kept", language="js").text == "2"
        assert len(again.list_code_contexts()) == 2


def test_killed_programs_come_back(template):
    with interpreter() as box:
        for _ in range(2):
            box.commands.run("pkill -9 -x cabana-interpre; pkill -9 python3 || true", user="root")
            assert eventually(lambda: works(box), within=30)


def works(box) -> bool:
    try:
        return box.run_code("6 * 7").text == "42"
    except (SandboxException, httpx.HTTPError):
        return False


def test_async(template):
    async def run():
        box = await AsyncSandbox.create(timeout=60)
        try:
            assert (await box.run_code("1 + 1")).text == "2"
            context = await box.create_code_context(language="js")
            assert (await box.run_code("[1, 2].length", context=context)).text == "2"
            assert (await box.list_code_contexts())[-1].id == context.id
            await box.restart_code_context(context)
            await box.remove_code_context(context)
            numbers = await asyncio.gather(*(box.run_code(f"{n}") for n in range(5)))
            assert [done.text for done in numbers] == ["0", "1", "2", "3", "4"]
        finally:
            await box.kill()

    asyncio.run(run())
