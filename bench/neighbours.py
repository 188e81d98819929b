#!/usr/bin/env python3
"""What a sandbox notices of hostile neighbours: commands, creations and writes to disk while others attack the machine, compared with the
idle machine in the same run. Attackers are killed after each kind of attack, also when the benchmark is interrupted.

With eight fork bombs there are 8 × 400 processes, so that a server without a limit of all sandboxes together survives the comparison."""

import json
import multiprocessing
import signal
import time

from measure import Times, client, options

# Shell commands that never end. Each sandbox has two CPUs and 512 MB.
ATTACKS = {
    "cpu": "for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; wait",
    "fork": """exec python3 -c '
import os, time
alive = 0
while True:
    if alive >= 400: os.wait(); alive -= 1
    try:
        if os.fork() == 0: time.sleep(0.2); os._exit(0)
        alive += 1
    except OSError: time.sleep(0.01)'""",
    "memory": "while :; do python3 -c 'held = []\nwhile True: held.append(bytearray(b\"x\" * 2**22))'; done",
    "sync": "while :; do head -c 65536 /dev/zero > ~/file; sync; done",
    "small files": """exec python3 -c '
import os
while True:
    for n in range(20000):
        if n % 1000 == 0: os.makedirs(f"/home/user/many/{n}", exist_ok=True)
        with open(f"/home/user/many/{n // 1000 * 1000}/{n}", "w") as file: file.write("x")
    os.system("rm -rf /home/user/many")'""",
    "output": "exec yes 0123456789012345678901234567890123456789012345678901234567890123456789",
}

FSYNC = """
import json, os, sys, time
file, taken, end = os.open("/home/user/synced", os.O_CREAT | os.O_WRONLY), [], time.monotonic() + float(sys.argv[2])
for _ in range(int(sys.argv[1])):
    begin = time.monotonic()
    os.pwrite(file, os.urandom(4096), 0)
    os.fsync(file)
    taken.append(time.monotonic() - begin)
    if time.monotonic() > end: break
print(json.dumps(taken))
"""

# Seconds that one row may take, and that attacks run before anything is measured.
MOST, SETTLE = 15.0, 3.0
WHAT = ("exec", "create, exec and kill", "write and fsync 4 KiB")


def attack(chosen, id: str, token: str | None, command: str) -> None:
    """Runs in a process of its own, so that what it reads does not slow the measurements in this one."""
    from wire import Box

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = {"cmd": "/bin/bash", "args": ["-c", command]}
    try:
        for _ in client(chosen).stream(Box(id, token), "process.Process/Start", {"process": process, "stdin": False}):
            pass
    except Exception:
        pass  # the sandbox was killed


def repeat(times: Times, name: str, count: int, work) -> None:
    end = time.monotonic() + MOST
    for _ in range(count):
        with times.take(name):
            work()
        if time.monotonic() > end:
            break


def measure(times: Times, during: str, chosen, api, neighbour) -> None:
    def life() -> None:
        box = api.create(timeout=60)
        assert api.run(box, "true")[0] == 0
        api.kill(box)

    repeat(times, f"{WHAT[0]}, {during}", chosen.count, lambda: api.run(neighbour, "true"))
    repeat(times, f"{WHAT[1]}, {during}", max(chosen.count // 3, 3), life)
    for seconds in json.loads(api.run(neighbour, f"python3 /tmp/fsync.py {chosen.count * 2} {MOST}")[1]):
        times.add(f"{WHAT[2]}, {during}", seconds)


def main() -> None:
    def more(parser) -> None:
        parser.add_argument("--attackers", type=int, default=8, help="hostile sandboxes at once (default 8)")
        parser.add_argument("--kinds", default=",".join(ATTACKS), help="attacks, separated by commas (default all)")

    chosen = options(__doc__, "commands of the neighbour", 60, more)
    kinds = [kind for kind in ATTACKS if kind in chosen.kinds.split(",")]
    times, api = Times(), client(chosen)
    neighbour = api.create(timeout=1800)
    headers = {**neighbour.headers(), "Content-Type": "application/octet-stream"}
    assert api.request("POST", "/files?path=/tmp/fsync.py", FSYNC.encode(), headers).status == 200
    attackers, processes = [], []

    def end_attack() -> float:
        begin = time.monotonic()
        while attackers:
            api.kill(attackers.pop())
        took = time.monotonic() - begin
        while processes:
            process = processes.pop()
            process.join(10)
            process.kill()
        return took

    endings = {}
    try:
        measure(times, "idle", chosen, api, neighbour)
        for kind in kinds:
            for _ in range(chosen.attackers):
                attackers.append(api.create(timeout=600, cpuCount=2, memoryMB=512))
            for box in attackers:
                arguments = (chosen, box.id, box.token, ATTACKS[kind])
                processes.append(multiprocessing.Process(target=attack, args=arguments, daemon=True))
                processes[-1].start()
            time.sleep(SETTLE)
            measure(times, kind, chosen, api, neighbour)
            endings[kind] = end_attack()
        measure(times, "idle again", chosen, api, neighbour)
    finally:
        end_attack()
        api.kill(neighbour)
    against = {name: f"{name.rsplit(', ', 1)[0]}, idle" for name in times.all if not name.endswith(", idle")}
    ordered = {name: times.all[name] for what in WHAT for name in times.all if name.startswith(f"{what}, ")}
    times.all = ordered
    times.show(f"a sandbox beside {chosen.attackers} hostile ones, ms", against)
    print("\nkilling all attackers, s: " + ", ".join(f"{kind} {took:.1f}" for kind, took in endings.items()))


if __name__ == "__main__":
    main()
