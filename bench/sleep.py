#!/usr/bin/env python3
"""Times sleep and waking of sandboxes through a running server, with and without memory, and copies of them. Each is shown beside what it is made of: a request to
one that is awake, or the creation of one.

usage: bench/sleep.py [--count N] [--url URL] [--key KEY]
"""

from measure import WARM_UP, Times, client, options

AWAKE = "a request to one that is awake"
CREATED = "creating one"


def asked(server, method, path, body=None, wanted=(200, 201, 204)):
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
    against = {name: AWAKE for name in times.all if name.startswith("waking")}
    against |= {name: CREATED for name in times.all if name.startswith(("a fork", "a snapshot", "a sandbox", "a template"))}
    times.show(f"{chosen.count} cycles, milliseconds", against)


def cycle(server, times, box, counts):
    touch = lambda: server.call(box, "filesystem.Filesystem/Stat", {"path": "/home/user"}).status == 200
    here = f"/sandboxes/{box.id}"
    assert touch()
    with times.take(AWAKE, counts):
        assert touch()
    for memory, kind in ((True, "with its memory"), (False, "with its disk alone")):
        with times.take(f"pausing {kind}", counts):
            asked(server, "POST", f"{here}/pause", {"memory": memory})
        with times.take(f"waking by a request, {kind}", counts):
            assert touch()
        asked(server, "POST", f"{here}/pause", {"memory": memory})
        with times.take(f"waking by connect, {kind}", counts):
            asked(server, "POST", f"/v2{here}/connect", {"timeout": 600})
    with times.take("a snapshot of one that runs", counts):
        snapshot = asked(server, "POST", f"{here}/snapshots", {}).json["snapshotID"]
    with times.take("a sandbox of the snapshot", counts):
        copy = server.create(snapshot, timeout=60)
    server.kill(copy)
    asked(server, "DELETE", f"/templates/{snapshot.split(':')[0]}")
    with times.take("a template of one that runs", counts):
        template = asked(server, "POST", f"{here}/commit", {}).json["templateID"]
    asked(server, "DELETE", f"/templates/{template}")
    with times.take("a fork of one that runs", counts):
        (fork,) = asked(server, "POST", f"{here}/fork", {"count": 1}).json
    server.kill(fork["sandbox"]["sandboxID"])


if __name__ == "__main__":
    main()
