#!/usr/bin/env python3
"""What isolation adds to system calls and to the network: the same programs in a sandbox, and outside of it in a chroot of the same
template, without system call filter and namespaces. Processor time, so that other load of the machine matters little; both alternate,
so that the rest of it meets both. Needs root, and a server on this machine.

What an egress policy adds to a connection is timed by `cargo run --release -p cabana-net --example egress`.

usage: bench/syscalls.py [--count N] [--data DIR] [--url URL] [--key KEY]
"""

import json
import pathlib
import subprocess

from measure import WARM_UP, Times, client, options

# Prints the seconds of processor time that each load took, of this process and of those it waited for.
LOADS = """
import json, os, resource, socket, subprocess, threading
from itertools import repeat

def spent():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)

def calls():
    ask = os.getppid
    for _ in repeat(None, 1_000_000): ask()

def pipes():
    source, sink = os.pipe()
    for _ in repeat(None, 200_000):
        os.write(sink, b"x")
        os.read(source, 1)

def files():
    for _ in range(8):
        for directory, _, names in os.walk("/usr/lib/python3"):
            for name in names:
                path = os.path.join(directory, name)
                os.stat(path)
                with open(path, "rb", buffering=0) as file: file.read(4096)

def programs():
    for _ in range(150): subprocess.run(["/bin/true"], check=True)

def requests():
    server = socket.create_server(("127.0.0.1", 0))
    def serve():
        while True:
            stream, _ = server.accept()
            with stream:
                if stream.recv(100) == b"end": return
                stream.sendall(b"x" * 1000)
    thread = threading.Thread(target=serve)
    thread.start()
    def ask(text):
        with socket.create_connection(server.getsockname()) as stream:
            stream.sendall(text)
            while stream.recv(4096): pass
    for _ in range(1500): ask(b"get")
    ask(b"end")
    thread.join()

def transfer():
    near, far = socket.socketpair()
    chunk = b"x" * 65536
    def drain():
        while far.recv(65536): pass
    thread = threading.Thread(target=drain)
    thread.start()
    for _ in range(16000): near.sendall(chunk)
    near.close()
    thread.join()

taken = {}
for load in (calls, pipes, files, programs, requests, transfer):
    begin = spent()
    load()
    taken[load.__name__] = spent() - begin
print(json.dumps(taken))
"""

WHAT = {
    "calls": "1,000,000 getppid",
    "pipes": "200,000 writes and reads of a pipe",
    "files": "stat, open and read of many files",
    "programs": "150 programs",
    "requests": "1,500 TCP connections with a request",
    "transfer": "1 GiB through a socket",
}


def main() -> None:
    def more(parser) -> None:
        parser.add_argument("--data", default="/var/lib/cabana", help="data directory of the server (default /var/lib/cabana)")

    chosen = options(__doc__, "rounds", 15, more)
    data = pathlib.Path(chosen.data)
    build = (data / "base-build").read_text().split()[-1]
    root = data / "pool" / "templates" / build / "rootfs"
    api, times = client(chosen), Times()
    box = api.create(timeout=3600)
    try:
        headers = {**box.headers(), "Content-Type": "application/octet-stream"}
        assert api.request("POST", "/files?path=/tmp/loads.py", LOADS.encode(), headers).status == 200
        for number in range(chosen.count + WARM_UP):
            code, inside = api.run(box, "/usr/bin/python3 /tmp/loads.py")
            assert code == 0, inside
            arguments = ["chroot", "--userspec=1000:1000", str(root), "/usr/bin/python3", "-"]
            outside = subprocess.run(arguments, input=LOADS, capture_output=True, text=True, check=True).stdout
            if number < WARM_UP:
                continue
            for where, output in (("outside", outside), ("inside", inside)):
                for load, seconds in json.loads(output).items():
                    times.add(f"{WHAT[load]}, {where}", seconds)
    finally:
        api.kill(box)
    times.show(f"{chosen.count} rounds, processor time, ms", {f"{what}, inside": f"{what}, outside" for what in WHAT.values()})


if __name__ == "__main__":
    main()
