"""A service that speaks as much of S3's protocol as cold storage needs, and that can be told to fail."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

DATE = "Mon, 02 Jan 2006 15:04:05 GMT"


class Bucket:
    """Listens on loopback. `fault` is what it does wrong: `refuse` writes, `hang` on writes, `silence` on everything, `shorten` or `spoil` what is read."""

    def __init__(self):
        self.objects: dict[str, bytes] = {}
        self.fault = ""
        self.asked = threading.Event()
        self.released = threading.Event()
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.faulty("hang") or self.faulty("silence"):
                    return
                if bucket.fault == "refuse":
                    return self.answer(403, b"<Error><Code>AccessDenied</Code><Message>no room for you</Message></Error>")
                bucket.objects[self.key()] = body
                self.answer(200, tag=body)

            def do_GET(self):
                if self.faulty("silence"):
                    return
                query = parse_qs(urlsplit(self.path).query)
                if "list-type" in query:
                    return self.answer(200, self.listing(query.get("prefix", [""])[0]))
                body = bucket.objects.get(self.key())
                if body is None:
                    return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
                whole = len(body)
                if bucket.fault == "spoil":
                    body = body[:-1] + bytes([body[-1] ^ 1])
                begin, end = 0, whole - 1
                if ranged := self.headers.get("range"):
                    begin, end = (int(part) for part in ranged.removeprefix("bytes=").split("-"))
                piece = body[begin : end + 1]
                if bucket.fault == "shorten":
                    piece = piece[: len(piece) // 2]
                headers = {"Content-Range": f"bytes {begin}-{end}/{whole}"} if ranged else {}
                self.answer(206 if ranged else 200, piece, body, headers)

            def do_HEAD(self):
                if self.faulty("silence"):
                    return
                body = bucket.objects.get(self.key())
                self.answer(404 if body is None else 200, body or b"", body)

            def do_DELETE(self):
                if self.faulty("silence"):
                    return
                bucket.objects.pop(self.key(), None)
                self.answer(204)

            def faulty(self, fault: str) -> bool:
                if bucket.fault != fault:
                    return False
                bucket.asked.set()
                bucket.released.wait(120)
                self.close_connection = True
                return True

            def key(self) -> str:
                return unquote(urlsplit(self.path).path).split("/", 2)[2]

            def listing(self, prefix: str) -> bytes:
                rows = "".join(
                    f"<Contents><Key>{escape(key)}</Key><LastModified>2006-01-02T15:04:05.000Z</LastModified>"
                    f"<ETag>&quot;x&quot;</ETag><Size>{len(body)}</Size></Contents>"
                    for key, body in sorted(bucket.objects.items())
                    if key.startswith(prefix)
                )
                return f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()

            def answer(self, status: int, body: bytes = b"", tag: bytes | None = None, headers: dict | None = None):
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Last-Modified", DATE)
                self.send_header("ETag", '"' + hashlib.md5(tag or b"").hexdigest() + '"')
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD" and status != 204:
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def settings(self) -> dict[str, str]:
        return {
            "CABANA_ARCHIVE_LOCATION": "s3://cold/tests",
            "CABANA_ARCHIVE_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}",
            "CABANA_ARCHIVE_ALLOW_HTTP": "true",
            "CABANA_ARCHIVE_KEY_ID": "test",
            "CABANA_ARCHIVE_SECRET": "secret",
        }

    def fail(self, fault: str) -> None:
        self.asked.clear()
        self.released.clear()
        self.fault = fault

    def mend(self) -> None:
        self.fault = ""
        self.released.set()

    def close(self) -> None:
        self.mend()
        self.server.shutdown()
        self.server.server_close()
