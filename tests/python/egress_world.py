"""A network namespace that stands for the internet: web, QUIC, SOCKS, DNS and plain servers on addresses for documentation, on a private one and on
that of a metadata service. Run as a program, it is the servers inside; `EgressWorld` makes the namespace and starts it."""

import itertools
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

PUBLIC, OTHER = "203.0.113.10", "203.0.113.20"
DNS = "198.51.100.53"
PRIVATE = "10.77.7.10"
METADATA = "100.100.100.200"
GATEWAY, HOST = "198.19.255.255", "198.19.255.254"
ROUTED = ["203.0.113.0/24", "198.51.100.0/24", "10.77.7.0/24", f"{METADATA}/32"]
TCP_PORTS, UDP_PORTS = (80, 443, 1080, 8080), (443, 9999)


class EgressWorld:
    def __init__(self, scratch: Path):
        self.name = f"cabana-world-{os.getpid()}"
        self.link = f"cbw{os.getpid() % 100000}"
        certificate, key = scratch / "cert.pem", scratch / "key.pem"
        names = "/CN=allowed.example.com"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", names]
        subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        self.seen = scratch / "seen"
        self.seen.write_text("")
        run("ip", "netns", "add", self.name)
        self.process = None
        try:
            run("ip", "link", "add", self.link, "type", "veth", "peer", "name", "up0", "netns", self.name)
            run("ip", "address", "add", f"{HOST}/31", "dev", self.link)
            run("ip", "link", "set", self.link, "up")
            inside = ["ip", "-n", self.name]
            run(*inside, "link", "set", "lo", "up")
            run(*inside, "address", "add", f"{GATEWAY}/31", "dev", "up0")
            run(*inside, "link", "set", "up0", "up")
            for address in (PUBLIC, OTHER, DNS, PRIVATE, METADATA):
                run(*inside, "address", "add", f"{address}/32", "dev", "lo")
            run(*inside, "route", "add", "default", "via", HOST)
            for network in ROUTED:
                run("ip", "route", "add", network, "via", GATEWAY)
            command = ["ip", "netns", "exec", self.name, sys.executable, __file__, str(certificate), str(key), str(self.seen)]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert self.process.stdout.readline() == "ready\n"
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        # Its end in the namespace, the routes and the addresses go with it.
        subprocess.run(["ip", "link", "delete", self.link], check=False, capture_output=True)
        run("ip", "netns", "delete", self.name)

    def arrived(self) -> list[str]:
        """What reached a server: protocol and address, and a name if one was given."""
        return self.seen.read_text().splitlines()


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"


# The servers.


def serve(certificate: str, key: str, seen: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    log = open(seen, "a", buffering=1)
    for port in TCP_PORTS:
        listener = socket.create_server(("0.0.0.0", port), backlog=64)
        threading.Thread(target=accept, args=(listener, port, context, log), daemon=True).start()
    # Each with its address, or answers would come from that of the link.
    for address, port in itertools.product((PUBLIC, OTHER, DNS, PRIVATE, METADATA), UDP_PORTS):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind((address, port))
        threading.Thread(target=echo, args=(receiver, port, log), daemon=True).start()
    for address in (DNS, OTHER):
        names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        names.bind((address, 53))
        threading.Thread(target=resolve, args=(names, address, log), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


def accept(listener: socket.socket, port: int, context: ssl.SSLContext, log) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=handle, args=(connection, port, context, log), daemon=True).start()


def handle(connection: socket.socket, port: int, context: ssl.SSLContext, log) -> None:
    with suppress(OSError, ValueError), connection:
        address = connection.getsockname()[0]
        connection.settimeout(30)
        if port == 1080:
            return socks(connection, log)
        if port == 443:
            connection = context.wrap_socket(connection, server_side=True)
        log.write(f"tcp {address}:{port}\n")
        if port == 8080:
            # Line by line, so that a test can tell whether a connection still lives.
            for line in connection.makefile("rb"):
                connection.sendall(line)
            return
        head = b""
        while b"\r\n\r\n" not in head and (more := connection.recv(4096)):
            head += more
        headers = dict(line.lower().split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:] if ": " in line)
        log.write(f"http {address}:{port} {headers.get('host')}\n")
        body = json.dumps({"address": address, "headers": headers}).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


def socks(connection: socket.socket, log) -> None:
    """A SOCKS5 proxy that wants `user` and `secret`."""
    version, methods = connection.recv(2)
    offered = connection.recv(methods)
    if version != 5 or 2 not in offered:
        connection.sendall(b"\x05\xff")
        return
    connection.sendall(b"\x05\x02")
    connection.recv(1)
    name = connection.recv(connection.recv(1)[0])
    password = connection.recv(connection.recv(1)[0])
    fine = (name, password) == (b"user", b"secret")
    connection.sendall(b"\x01\x00" if fine else b"\x01\x01")
    if not fine:
        log.write("socks refused\n")
        return
    kind = connection.recv(4)[3]
    host = socket.inet_ntoa(connection.recv(4)) if kind == 1 else connection.recv(connection.recv(1)[0]).decode()
    port = struct.unpack(">H", connection.recv(2))[0]
    log.write(f"socks {host}:{port}\n")
    target = PUBLIC if kind == 3 else host
    with socket.create_connection((target, port), timeout=10) as onward:
        connection.sendall(b"\x05\x00\x00\x01" + bytes(6))
        threading.Thread(target=pump, args=(connection, onward), daemon=True).start()
        pump(onward, connection)


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def echo(receiver: socket.socket, port: int, log) -> None:
    while True:
        data, client = receiver.recvfrom(2048)
        log.write(f"udp {port}\n")
        receiver.sendto(data, client)


def resolve(receiver: socket.socket, address: str, log) -> None:
    """Answers every A question with the second public address."""
    while True:
        query, client = receiver.recvfrom(4096)
        labels, at = [], 12
        while length := query[at]:
            labels.append(query[at + 1 : at + 1 + length].decode("latin-1"))
            at += 1 + length
        log.write(f"dns {address} {'.'.join(labels).lower()}\n")
        is_a = query[at + 1 : at + 3] == b"\x00\x01"
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton(OTHER) if is_a else b""
        receiver.sendto(query[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_a), 0, 0) + query[12 : at + 5] + record, client)


if __name__ == "__main__":
    serve(*sys.argv[1:4])
