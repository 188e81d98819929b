"""Small programs that the tests run inside a sandbox. They use Python's standard library only."""

# An HTTP server that echoes requests as JSON, and records every path (GET /seen).
ECHO = r"""
import http.server, json, sys
seen = []
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        length = int(self.headers.get("content-length") or 0)
        chunked = "chunked" in self.headers.get("transfer-encoding", "")
        body = b""
        if chunked:
            while (size := int(self.rfile.readline().split(b";")[0], 16)):
                body += self.rfile.read(size); self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(length)
        if self.path != "/seen": seen.append(f"{self.command} {self.path}")
        reply = json.dumps(seen if self.path == "/seen" else {
            "method": self.command, "path": self.path, "body": body.decode("latin-1"),
            "headers": [[k.lower(), v] for k, v in self.headers.items()], "names": self.headers.keys()}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)
    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer
    def log_message(self, *_): pass
# For a hundred clients at once: one whose connection does not fit into the queue tries again after seconds.
http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""

# A WebSocket server that sends every message back.
WEBSOCKET = r"""
import base64, hashlib, socketserver, struct, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        headers = {}
        while (line := self.rfile.readline().strip()):
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        key = headers[b"sec-websocket-key"] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key).digest())
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                         b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")
        while True:
            first, second = self.rfile.read(2)
            length = second & 127
            if length == 126: length, = struct.unpack(">H", self.rfile.read(2))
            elif length == 127: length, = struct.unpack(">Q", self.rfile.read(8))
            mask = self.rfile.read(4)
            body = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(length)))
            head = bytes([first, length]) if length < 126 else bytes([first, 126]) + struct.pack(">H", length)
            self.wfile.write(head + body)
            if first & 15 == 8: return
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""

# An app as its author may have written it. `/` echoes the request as JSON; a query may ask for a body, its type, a status and headers
# instead. `/files/NAME` is a file of its directory, `/pid`, `/seen` and `/events` (a stream that ticks) are what they say, and an upgrade
# is a WebSocket that sends every message back.
APP = r"""
import base64, hashlib, http.server, json, os, socket, struct, sys, time, urllib.parse
seen = []
KINDS = {"html": "text/html; charset=utf-8", "js": "text/javascript", "json": "application/json", "css": "text/css"}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        if url.path != "/seen": seen.append(f"{self.command} {self.path}")
        if self.headers.get("upgrade", "").lower() == "websocket": return self.echo()
        if url.path == "/events": return self.tick()
        kind, status = "application/json", int(query.get("status", ["200"])[0])
        if url.path == "/seen": reply = json.dumps(seen)
        elif url.path == "/pid": reply = str(os.getpid())
        elif url.path.startswith("/files/"):
            name = os.path.basename(url.path)
            try: reply, kind = open(name).read(), KINDS.get(name.rpartition(".")[2], "application/octet-stream")
            except OSError: reply, status = "no such file", 404
        elif "body" in query: reply, kind = query["body"][0], query.get("type", ["text/html"])[0]
        else:
            reply = json.dumps({"method": self.command, "path": self.path, "body": body.decode("latin-1"),
                "headers": [[k.lower(), v] for k, v in self.headers.items()], "pid": os.getpid()})
        reply = reply.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(reply)))
        for line in query.get("header", []): self.send_header(*line.split(":", 1))
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(reply)
    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = answer
    def tick(self):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            for i in range(10000):
                self.wfile.write(f"data: {i}\n\n".encode()); self.wfile.flush(); time.sleep(0.1)
        except OSError: pass
        self.close_connection = True
    def echo(self):
        key = self.headers["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        for name, value in (("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode())):
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        while len(head := self.rfile.read(2)) == 2:
            length = head[1] & 127
            if length == 126: length, = struct.unpack(">H", self.rfile.read(2))
            mask = self.rfile.read(4)
            body = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(length)))
            self.wfile.write((bytes([head[0], length]) if length < 126 else bytes([head[0], 126]) + struct.pack(">H", length)) + body)
            if head[0] & 15 == 8: return
    def log_message(self, form, *values): print("request", form % values, flush=True)
class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    address_family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
print("app begins as", os.getpid(), flush=True)
Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
"""


def serve(sandbox, program: str, host: str, port: int) -> None:
    """Starts one of them in the background and waits until its port is open."""
    path = f"/tmp/serve-{port}.py"
    sandbox.files.write(path, program)
    sandbox.commands.run(f"exec python3 {path} {host} {port} >/tmp/serve-{port}.log 2>&1", background=True, timeout=0)
    # `ss` sees the listener without connecting to it.
    sandbox.commands.run(f"until ss -Hltn 'sport = :{port}' | grep -q .; do sleep 0.02; done", timeout=15)
