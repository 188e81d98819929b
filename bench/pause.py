#!/usr/bin/env python3
"""Times pause and resume of sandboxes through a running server, with and without memory, and copies of them. Each is compared with its baseline: a request to
a running sandbox, or the creation of one.

usage: bench/pause.py [--count N] [--url URL] [--key KEY]
"""

from measure import WARM_UP, Times, client, options

RUNNING = "request to a running sandbox"
CREATED = "create"


def call(server, method, path, body=None, wanted=(200, 201, 204)):
    answer = server.request(method, path, body)
    assert answer.status in wanted, (path, answer.status, answer.body)
    return answer


def main():
    chosen = options(__doc__, "cycles", 50)
    server, times = client(chosen), Times()
    for number in range(chosen.count + WARM_UP):
        counts = number >= WARM_UP
        with times.take(CREATED, counts):
            box = server.create(timeout=600, autoResume={"enabled": True})
        try:
            cycle(server, times, box, counts)
        finally:
            server.kill(box)
    against = {name: RUNNING for name in times.all if name.startswith("resume")}
    against |= {name: CREATED for name in times.all if name.startswith(("fork", "snapshot", "create from", "commit"))}
    times.show(f"{chosen.count} cycles, milliseconds", against)


def cycle(server, times, box, counts):
    request = lambda: server.call(box, "filesystem.Filesystem/Stat", {"path": "/home/user"}).status == 200
    here = f"/sandboxes/{box.id}"
    assert request()
    with times.take(RUNNING, counts):
        assert request()
    for memory, kind in ((True, "with memory"), (False, "disk only")):
        with times.take(f"pause {kind}", counts):
            call(server, "POST", f"{here}/pause", {"memory": memory})
        with times.take(f"resume by request, {kind}", counts):
            assert request()
        call(server, "POST", f"{here}/pause", {"memory": memory})
        with times.take(f"resume by connect, {kind}", counts):
            call(server, "POST", f"/v2{here}/connect", {"timeout": 600})
    with times.take("snapshot", counts):
        snapshot = call(server, "POST", f"{here}/snapshots", {}).json["snapshotID"]
    with times.take("create from snapshot", counts):
        copy = server.create(snapshot, timeout=60)
    server.kill(copy)
    call(server, "DELETE", f"/templates/{snapshot.split(':')[0]}")
    with times.take("commit", counts):
        template = call(server, "POST", f"{here}/commit", {}).json["templateID"]
    call(server, "DELETE", f"/templates/{template}")
    with times.take("fork", counts):
        (fork,) = call(server, "POST", f"{here}/fork", {"count": 1}).json
    server.kill(fork["sandbox"]["sandboxID"])


if __name__ == "__main__":
    main()
