"""An S3 service with as much of the protocol as cold storage needs, and fault injection."""

import hashlib
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import faulty

DATE = "Mon, 02 Jan 2006 15:04:05 GMT"


class Bucket(faulty.Faulty):
    """`fault`: `refuse` writes, `hang` on them, `shorten` or `spoil` reads."""

    def __init__(self):
        self.objects: dict[str, bytes] = {}
        bucket = self

        class Handler(faulty.Handler):
            def do_PUT(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if bucket.fault == "hang":
                    return self.hang(bucket)
                if bucket.fault == "refuse":
                    return self.answer(403, b"<Error><Code>AccessDenied</Code><Message>no room for you</Message></Error>")
                bucket.objects[self.key()] = body
                self.tell(200, tag=body)

            def do_GET(self):
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
                self.tell(206 if ranged else 200, piece, body, headers)

            def do_HEAD(self):
                body = bucket.objects.get(self.key())
                self.tell(404 if body is None else 200, body or b"", body)

            def do_DELETE(self):
                bucket.objects.pop(self.key(), None)
                self.answer(204)

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

            def tell(self, status: int, body: bytes = b"", tag: bytes | None = None, headers: dict | None = None):
                """Responds with the object's checksum headers."""
                about = {"Last-Modified": DATE, "ETag": '"' + hashlib.md5(tag or b"").hexdigest() + '"'}
                self.answer(status, body, {**about, **(headers or {})})

        super().__init__(Handler)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "CABANA_ARCHIVE_LOCATION": "s3://cold/tests",
            "CABANA_ARCHIVE_ENDPOINT": self.url,
            "CABANA_ARCHIVE_ALLOW_HTTP": "true",
            "CABANA_ARCHIVE_KEY_ID": "test",
            "CABANA_ARCHIVE_SECRET": "secret",
        }
