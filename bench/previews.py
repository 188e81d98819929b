#!/usr/bin/env python3
"""Times the first byte of a service's page through a running server: awake, after waking with memory, and beside the same request to a port without a service.

usage: bench/previews.py [--count N] [--url URL] [--key KEY]
"""

import http.client

from measure import WARM_UP, Times, client, options

AWAKE = "first byte, awake"
PLAIN = "first byte, port without a service"
PORT, OTHER = 8000, 8001
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html", "User-Agent": "Mozilla/5.0"}


def main():
    chosen = options(__doc__, "cycles", 50)
    server, times = client(chosen), Times()
    box = server.create(timeout=3600)
    here = f"/sandboxes/{box.id}"
    try:
        new = {"command": f"python3 -m http.server {PORT}", "port": PORT, "access": "public"}
        answer = server.request("POST", f"{here}/services?waitSeconds=30", new)
        assert answer.status == 201 and answer.json["state"] == "running", answer.body
        server.run(box, f"python3 -m http.server {OTHER} > /dev/null 2>&1 &")
        for number in range(chosen.count + WARM_UP):
            counts = number >= WARM_UP
            first_byte(server, box, OTHER)
            with times.take(PLAIN, counts):
                first_byte(server, box, OTHER)
            first_byte(server, box, PORT)
            with times.take(AWAKE, counts):
                first_byte(server, box, PORT)
            assert server.request("POST", f"{here}/pause", {"memory": True}).status == 204
            with times.take("first byte, waking with memory", counts):
                first_byte(server, box, PORT)
    finally:
        server.kill(box)
    times.show(f"{chosen.count} cycles, milliseconds", {name: PLAIN if name == AWAKE else AWAKE for name in times.all if name != PLAIN})


def first_byte(server, box, port):
    """Opens a page as a browser does, with a connection of its own."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    connection.request("GET", "/", headers={"Host": f"{port}-{box.id}.localhost", **NAVIGATION})
    answer = connection.getresponse()
    assert answer.status == 200 and answer.read(1), (answer.status, answer.read())
    connection.close()


if __name__ == "__main__":
    main()
