"""Many short lifecycles: their duration, and that nothing is left."""

import statistics
import threading
import time

from e2b import Sandbox

CYCLES = 100
AT_ONCE = 20


def one_life(client) -> tuple[float, float, float]:
    """Seconds to create, to the first output of a command, and to kill."""
    begin = time.perf_counter()
    box = client.create(timeout=60)
    created = time.perf_counter()
    assert client.run(box, "echo alive") == (0, "alive\n")
    answered = time.perf_counter()
    assert client.kill(box)
    return created - begin, answered - created, time.perf_counter() - answered


def describe(name: str, lives: list[tuple[float, float, float]]) -> str:
    parts = []
    for label, values in zip(("create", "command", "kill"), zip(*lives)):
        ordered = sorted(value * 1000 for value in values)
        p99 = ordered[min(len(ordered) - 1, round(len(ordered) * 0.99))]
        parts.append(f"{label} p50 {statistics.median(ordered):.1f} p99 {p99:.1f} ms")
    return f"{name}: " + ", ".join(parts)


def test_a_hundred_in_a_row(server, world, figures):
    client = server.client()
    one_life(client)
    world.assert_restored()
    memory, descriptors = server.memory(), server.descriptors()
    lives = [one_life(client) for _ in range(CYCLES)]
    world.assert_restored()
    assert server.descriptors() <= descriptors + 8, "descriptors leak"
    assert server.memory() - memory < 32 * 2**20, "memory leaks"
    figures.append(describe(f"{CYCLES} lives in a row, on the wire", lives))


def test_with_the_sdk(server, world, figures):
    lives = []
    for _ in range(20):
        begin = time.perf_counter()
        sandbox = Sandbox.create(timeout=60)
        created = time.perf_counter()
        assert sandbox.commands.run("echo alive").stdout == "alive\n"
        answered = time.perf_counter()
        assert sandbox.kill()
        lives.append((created - begin, answered - created, time.perf_counter() - answered))
    world.assert_restored()
    figures.append(describe("20 lives in a row, with the SDK", lives))


def test_twenty_at_once(server, world, figures):
    lives, failed, gate = [], [], threading.Barrier(AT_ONCE)

    def live():
        client = server.client()
        gate.wait()
        try:
            lives.append(one_life(client))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=live) for _ in range(AT_ONCE)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - started
    assert not failed, failed
    world.assert_restored()
    figures.append(describe(f"{AT_ONCE} lives at once ({took:.2f} s for all)", lives))


def test_kill_races(server, world):
    """A kill concurrent with commands, uploads and other kills of the same sandbox: exactly one wins, nothing hangs."""
    for _ in range(10):
        client = server.client()
        box = client.create(timeout=60)
        wins, threads = [], []

        def kill():
            wins.append(server.client().kill(box))

        def use():
            try:
                other = server.client(timeout=10)
                for _ in range(20):
                    other.run(box, "head -c 100000 /dev/zero > x")
            except Exception:
                pass

        for action in (use, use, kill, kill, kill):
            threads.append(threading.Thread(target=action))
            threads[-1].start()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive(), "a request hangs"
        assert sorted(wins) == [False, False, True], wins
    world.assert_restored()
