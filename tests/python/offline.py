"""A network namespace without a network, for programs that must not call home: it has ports of this machine's loopback, and catches what
tries to leave."""

import ctypes
import os
import re
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Callable

CLONE_NEWNET = 0x40000000
ETH_P_IP, ETHERNET = 0x0800, 14


class Offline:
    def __init__(self):
        self.name = f"cabana-offline-{os.getpid()}"
        self.listeners: list[socket.socket] = []
        self.tap: socket.socket | None = None
        ip("netns", "add", self.name)
        try:
            inside = ("-n", self.name)
            ip(*inside, "link", "set", "lo", "up")
            # A way out that leads nowhere; without addresses of IPv6, which would send packets by themselves.
            ip(*inside, "link", "add", "out", "type", "veth", "peer", "name", "nowhere")
            for link in ("out", "nowhere"):
                ip(*inside, "link", "set", link, "addrgenmode", "none", "arp", "off", "up")
            ip(*inside, "address", "add", "192.0.2.2/24", "dev", "out")
            ip(*inside, "route", "add", "default", "dev", "out")
            self.tap = self.inside(tap)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for listener in [*self.listeners, *([self.tap] if self.tap else [])]:
            listener.close()
        ip("netns", "delete", self.name)

    def inside(self, make: Callable[[], socket.socket]) -> socket.socket:
        """A socket of the namespace, which this process uses."""

        def enter_and_make() -> socket.socket:
            with open(f"/run/netns/{self.name}") as namespace:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            return make()

        # Only this thread enters, and it ends with the pool.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(enter_and_make).result()

    def listen(self, port: int = 0) -> socket.socket:
        """A listening socket on loopback inside."""
        return self.inside(lambda: socket.create_server(("127.0.0.1", port)))

    def forward(self, port: int) -> None:
        """Makes a port of this machine's loopback reachable inside, as the same port."""
        listener = self.listen(port)
        self.listeners.append(listener)
        threading.Thread(target=accept, args=(listener, port), daemon=True).start()

    def command(self, *command: str | os.PathLike) -> list[str]:
        """The command line that runs a command inside."""
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    def leaving(self) -> list[str]:
        """What has tried to leave since the last call: addresses, and the readable part of the packets (names in queries)."""
        packets = []
        with suppress(BlockingIOError):
            while True:
                packets.append(self.tap.recv(2048)[ETHERNET:])
        return [f"to {socket.inet_ntoa(packet[16:20])}: {re.findall(rb'[ -~]{3,}', packet[20:])}" for packet in packets]


def tap() -> socket.socket:
    """Receives what leaves by the interface `out`."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
    tap.bind(("nowhere", ETH_P_IP))
    tap.setblocking(False)
    return tap


def accept(listener: socket.socket, port: int) -> None:
    while True:
        try:
            inside, _ = listener.accept()
        except OSError:
            return
        try:
            outside = socket.create_connection(("127.0.0.1", port))
        except OSError:  # nobody listens, for now
            inside.close()
            continue
        for source, sink in ((inside, outside), (outside, inside)):
            threading.Thread(target=copy, args=(source, sink), daemon=True).start()


def copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            end.close()


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.stdout
