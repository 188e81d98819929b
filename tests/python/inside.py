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
            "headers": [[k.lower(), v] for k, v in self.headers.items()]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)
    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer
    def log_message(self, *_): pass
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


def serve(sandbox, program: str, host: str, port: int) -> None:
    """Starts one of them in the background and waits until its port is open."""
    path = f"/tmp/serve-{port}.py"
    sandbox.files.write(path, program)
    sandbox.commands.run(f"exec python3 {path} {host} {port} >/tmp/serve-{port}.log 2>&1", background=True, timeout=0)
    # `ss` sees the listener without connecting to it.
    sandbox.commands.run(f"until ss -Hltn 'sport = :{port}' | grep -q .; do sleep 0.02; done", timeout=15)
