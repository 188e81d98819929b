"""An HTTP service on loopback with fault injection."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # the client has disconnected


class Faulty:
    """`fault` is the injected fault; `met` is set when a request hits it."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]):
        self.fault = ""
        self.met, self.released = threading.Event(), threading.Event()
        self.server = Quiet(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def fail(self, fault: str) -> None:
        self.met.clear()
        self.released.clear()
        self.fault = fault

    def mend(self) -> None:
        self.fault = ""
        self.released.set()

    def close(self) -> None:
        self.mend()
        self.server.shutdown()
        self.server.server_close()


class Handler(BaseHTTPRequestHandler):
    """A request to such a service."""

    protocol_version = "HTTP/1.1"

    def hang(self, service: Faulty) -> None:
        """Does not respond until the fault is cleared, and closes then."""
        service.met.set()
        service.released.wait(120)
        self.close_connection = True

    def answer(self, status: int, body: bytes = b"", headers: dict | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)

    def log_message(self, *_):
        pass
