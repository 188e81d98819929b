"""A server, with TLS on port 443 and without on port 80, that answers with what it was sent; and how a program in a sandbox asks it. Used with
several SDKs, so it needs none."""

import http.server
import json
import ssl
import sys
import threading

HOST = "api.rules.test"
OTHER = "other.rules.test"

# Run inside a sandbox. Certificates of hosts that are not intercepted are those of a stranger to it.
ASK = r"""
import json, ssl, sys, urllib.error, urllib.request
url, headers, body, strange = json.loads(sys.argv[1])
context = ssl._create_unverified_context() if strange else None
request = urllib.request.Request(url, headers=headers, data=body.encode() if body else None)
try: answer = urllib.request.urlopen(request, timeout=20, context=context)
except urllib.error.HTTPError as error: answer = error
print(json.dumps([answer.status, answer.read().decode()]))
"""


def ask(sandbox, url: str, headers: dict, body: str = "", strange: bool = False) -> dict:
    """What the server was sent, with names in lower case, and `:status`, `:path`, `:body` and `:port`."""
    sandbox.files.write("/tmp/ask.py", ASK)
    sandbox.files.write("/tmp/ask.json", json.dumps([url, headers, body, strange]))
    status, text = json.loads(sandbox.commands.run('python3 /tmp/ask.py "$(cat /tmp/ask.json)"').stdout)
    return {":status": status, **{name.lower(): value for name, value in json.loads(text).items()}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        said = {":path": self.path, ":body": sent, ":port": self.server.server_port}
        body = json.dumps({**dict(self.headers.items()), **said}).encode()
        target = self.path.removeprefix("/redirect/")
        self.send_response(200 if target == self.path else 307)
        if target != self.path:
            self.send_header("location", target)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer  # noqa: N815

    def log_message(self, *_):
        pass


def main(address: str, certificate: str, key: str) -> None:
    plain = http.server.ThreadingHTTPServer((address, 80), Handler)
    threading.Thread(target=plain.serve_forever, daemon=True).start()
    server = http.server.ThreadingHTTPServer((address, 443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:4])
