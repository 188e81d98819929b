"""The edge: web servers inside a sandbox, reached by host name and by routing headers; WebSockets; errors."""

import json

import pytest
import requests
import websockets.sync.client

import inside
from waiting import eventually


def by_headers(server, sandbox, port: int) -> dict[str, str]:
    return {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(port)}


def by_host(server, sandbox, port: int) -> dict[str, str]:
    return {"Host": f"{port}-{sandbox.sandbox_id}.{server.domain}"}


def novita(server, sandbox, port: int) -> dict[str, str]:
    return {"Novita-Sandbox-Id": sandbox.sandbox_id, "Novita-Sandbox-Port": str(port)}


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "::1"])
def test_web_server_inside(host, sandbox, server):
    program = inside.ECHO
    if host == "::1":
        program = program.replace("import http.server", "import socket, http.server").replace(
            "http.server.ThreadingHTTPServer(",
            "http.server.ThreadingHTTPServer.address_family = socket.AF_INET6\nhttp.server.ThreadingHTTPServer(",
        )
    inside.serve(sandbox, program, host, 8000)
    for way in (by_headers, by_host, novita):
        answer = requests.post(
            server.url + "/some/path?q=%2F+x&q=2",
            data=b"body",
            headers={**way(server, sandbox, 8000), "X-Mine": "kept"},
        )
        assert answer.status_code == 200, (way.__name__, answer.text)
        echo = answer.json()
        assert (echo["method"], echo["path"], echo["body"]) == ("POST", "/some/path?q=%2F+x&q=2", "body")
        assert ["x-mine", "kept"] in echo["headers"]
        assert {"Host", "X-Mine", "X-Forwarded-For"} <= set(echo["names"]), "names have their usual capitals"


def test_every_method_and_a_chunked_body(sandbox, server):
    inside.serve(sandbox, inside.ECHO, "0.0.0.0", 8000)
    headers = by_headers(server, sandbox, 8000)
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        assert requests.request(method, server.url + "/", headers=headers).json()["method"] == method
    pieces = (b"piece %d " % n for n in range(100))
    answer = requests.post(server.url + "/", data=pieces, headers=headers)
    assert answer.json()["body"] == "".join(f"piece {n} " for n in range(100))


def test_the_host_name_decides(sandboxes, server):
    first, second = sandboxes(), sandboxes()
    for sandbox in (first, second):
        sandbox.files.write("/tmp/www/name", sandbox.sandbox_id)
        sandbox.commands.run("cd /tmp/www && exec python3 -m http.server 8000", background=True, timeout=0)
    for sandbox in (first, second):
        headers = by_host(server, sandbox, 8000)
        eventually(lambda: requests.get(server.url + "/name", headers=headers).text == sandbox.sandbox_id)
    # A host of the form port-id takes precedence over headers, so that a page cannot be redirected to another sandbox.
    mixed = {**by_host(server, first, 8000), **by_headers(server, second, 8000)}
    assert requests.get(server.url + "/name", headers=mixed).text == first.sandbox_id


def test_internal_headers_are_removed(sandbox, server):
    inside.serve(sandbox, inside.ECHO, "0.0.0.0", 8000)
    mine = {"X-API-KEY": server.key, "Connection": "keep-alive, X-Hop", "X-Hop": "dropped"}
    sent = {**by_headers(server, sandbox, 8000), **mine}
    names = dict(requests.get(server.url + "/", headers=sent).json()["headers"])
    assert "x-hop" not in names, "headers named by Connection go no further than one hop"
    assert server.key not in json.dumps(names), "the API key is not shown to the sandbox"


def test_websocket(sandbox, server):
    inside.serve(sandbox, inside.WEBSOCKET, "0.0.0.0", 8001)
    inside.serve(sandbox, inside.WEBSOCKET, "127.0.0.1", 8002)
    for port in (8001, 8002):
        url, headers = f"{server.url.replace('http', 'ws', 1)}/chat", by_headers(server, sandbox, port)
        with websockets.sync.client.connect(url, additional_headers=headers, compression=None) as ws:
            for message in ("hello", "x" * 20_000, "ž🐎"):
                ws.send(message)
                assert ws.recv(timeout=5) == message


def test_websocket_by_host_name(sandbox, server):
    inside.serve(sandbox, inside.WEBSOCKET, "0.0.0.0", 8001)
    with server.connect() as connection:
        # The connection is already encrypted if required.
        url = f"ws://8001-{sandbox.sandbox_id}.{server.domain}/"
        with websockets.sync.client.connect(url, sock=connection, compression=None) as ws:
            ws.send("by name")
            assert ws.recv(timeout=5) == "by name"


def test_server_sent_events_are_not_buffered(sandbox, server):
    sandbox.files.write(
        "/tmp/sse.py",
        """
import http.server, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("content-type", "text/event-stream"); self.end_headers()
        self.wfile.write(b"data: first\\n\\n"); self.wfile.flush(); time.sleep(1000)
http.server.ThreadingHTTPServer(("0.0.0.0", 8003), Handler).serve_forever()
""",
    )
    sandbox.commands.run("exec python3 /tmp/sse.py", background=True, timeout=0)
    eventually(lambda: sandbox.commands.run("ss -Hltn 'sport = :8003'").stdout)
    with requests.get(server.url + "/", headers=by_headers(server, sandbox, 8003), stream=True, timeout=5) as answer:
        assert next(answer.iter_lines()) == b"data: first"


def test_port_without_listener(sandbox, server):
    for way in (by_headers, by_host):
        answer = requests.get(server.url + "/", headers=way(server, sandbox, 9))
        assert answer.status_code == 502
        body = answer.json()
        assert body["sandboxId"] == sandbox.sandbox_id and body["port"] == 9 and body["code"] == 502
        assert body["message"] == "The sandbox is running but port is not open"


def test_no_such_sandbox(sandboxes, server):
    gone = sandboxes()
    gone.kill()
    for identifier in (gone.sandbox_id, "i" + "0" * 20):
        for headers in (
            {"E2b-Sandbox-Id": identifier, "E2b-Sandbox-Port": "8000"},
            {"E2b-Sandbox-Id": identifier, "E2b-Sandbox-Port": "49983"},
            {"Host": f"8000-{identifier}.{server.domain}"},
        ):
            answer = requests.get(server.url + "/health", headers=headers)
            assert answer.status_code == 502, (headers, answer.text)
            body = answer.json()
            assert body["sandboxId"] == identifier and body["code"] == 502
            assert "The sandbox was not found" in body["message"]


def test_a_browser_gets_a_page(server):
    browser = {
        "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/130.0 Safari/537.36",
        "Accept": "text/html,application/xhtml+xml",
        "Sec-Fetch-Mode": "navigate",
        "Host": f"8000-i{'0' * 20}.{server.domain}",
    }
    answer = requests.get(server.url + "/", headers=browser)
    assert answer.status_code == 502 and answer.headers["content-type"].startswith("text/html")


def test_invalid_ports_and_ids(sandbox, server):
    for headers in (
        {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "0"},
        {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "65536"},
        {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "http"},
        {"E2b-Sandbox-Id": "../x", "E2b-Sandbox-Port": "80"},
        {"Host": f"0-{sandbox.sandbox_id}.{server.domain}"},
        {"Host": f"99999-{sandbox.sandbox_id}.{server.domain}"},
        {"Host": f"80-NOT_AN_ID.{server.domain}"},
    ):
        assert requests.get(server.url + "/", headers=headers).status_code in (400, 502), headers


def test_broken_responses_from_inside(sandbox, server):
    """Output of the sandbox is untrusted: responses that are not HTTP, or end early, affect nobody else."""
    sandbox.files.write(
        "/tmp/broken.py",
        """
import socket, threading
answers = {8101: b"garbage\\r\\n\\r\\n", 8102: b"", 8103: b"HTTP/1.1 200 OK\\r\\ncontent-length: 1000\\r\\n\\r\\nshort",
           8104: b"HTTP/1.1 200 OK\\r\\n" + b"x: y\\r\\n" * 100000, 8105: b"HTTP/1.1 200 OK\\r\\ncontent-length: -5\\r\\n\\r\\n"}
def serve(port, answer):
    listener = socket.create_server(("0.0.0.0", port))
    while True:
        connection, _ = listener.accept()
        connection.recv(65536)
        try: connection.sendall(answer)
        except OSError: pass
        connection.close()
for item in answers.items(): threading.Thread(target=serve, args=item).start()
""",
    )
    sandbox.commands.run("exec python3 /tmp/broken.py", background=True, timeout=0)
    eventually(lambda: sandbox.commands.run("ss -Hltn 'sport = :8105'").stdout)
    for port in (8101, 8102, 8104, 8105):
        answer = requests.get(server.url + "/", headers=by_headers(server, sandbox, port), timeout=10)
        assert answer.status_code == 502, (port, answer.status_code)
    with pytest.raises(requests.exceptions.RequestException):
        requests.get(server.url + "/", headers=by_headers(server, sandbox, 8103), timeout=10).content
    assert sandbox.commands.run("echo alive").stdout == "alive\n"
