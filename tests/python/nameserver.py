"""A name server on loopback that knows few names. The server under test forwards sandboxes' queries to one, so that no query leaves the
machine; clients of a TLS domain use another. While packages are installed in a build, it forwards other queries."""

import os
import re
import socket
import struct
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

KNOWN = "known.sandbox.test"
ADDRESS = "192.0.2.53"


class NameServer:
    def __init__(self, knows: Callable[[str], str | list[str] | tuple[list[str], int] | None] = {KNOWN: ADDRESS}.get, network: int = 53):
        """`knows` returns the address of a name, or several, or these with their time to live in seconds; `network` separates the name servers of one run."""
        self.knows = knows
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # All of 127.0.0.0/8 is local, so concurrent runs do not conflict at port 53.
        self.address = f"127.{network}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
        self.socket.bind((self.address, 53))
        self.asked: list[str] = []
        self.others: list[str] = []
        threading.Thread(target=self.serve, daemon=True).start()

    @contextmanager
    def passing_on(self) -> Iterator[None]:
        """Forwards unknown names to the machine's own name servers within the block."""
        self.others = re.findall(r"^nameserver\s+(\d+\.\d+\.\d+\.\d+)", Path("/etc/resolv.conf").read_text(), re.M)
        try:
            yield
        finally:
            self.others = []

    def serve(self) -> None:
        while True:
            query, client = self.socket.recvfrom(4096)
            labels, at = [], 12
            while length := query[at]:
                labels.append(query[at + 1 : at + 1 + length].decode("latin-1"))
                at += 1 + length
            question, (kind,) = query[12 : at + 5], struct.unpack(">H", query[at + 1 : at + 3])
            name = ".".join(labels).lower()
            self.asked.append(name)
            address = self.knows(name)
            if address is None and self.others and not name.endswith(".test"):
                threading.Thread(target=self.pass_on, args=(query, client, self.others), daemon=True).start()
                continue
            # One address, several, or several with their time to live.
            addresses, ttl = address if isinstance(address, tuple) else (address, 60)
            addresses = [addresses] if isinstance(addresses, str) else addresses or []
            answers = addresses if kind == 1 else []
            head = query[:2] + struct.pack(">HHHHH", 0x8183 if address is None else 0x8180, 1, len(answers), 0, 0)
            records = (b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, ttl, 4) + socket.inet_aton(one) for one in answers)
            self.socket.sendto(head + question + b"".join(records), client)

    def pass_on(self, query: bytes, client: tuple[str, int], others: list[str]) -> None:
        for other in others:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
                asking.settimeout(5)
                try:
                    asking.sendto(query, (other, 53))
                    self.socket.sendto(asking.recv(65535), client)
                    return
                except OSError:
                    continue
