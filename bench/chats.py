#!/usr/bin/env python3
"""Times chats with a local model server: what the server adds to the provider's first token, 1,000 events a second to some 50 watchers, resuming a
stream, and what idle chats cost. It starts a server of its own, because private providers come from the configuration only.

usage: tests/.venv/bin/python bench/chats.py [--count N] [--data DIRECTORY] [--binary PROGRAM]
"""

import argparse
import asyncio
import hashlib
import http.client
import json
import multiprocessing
import os
import pathlib
import re
import sqlite3
import tempfile
import time
import uuid
from datetime import datetime

from measure import WARM_UP, Times, quantile

os.environ.setdefault("CABANA_LOG", "warn")
from chats import Chats, final  # noqa: E402
from model_answers import Answer, Pause  # noqa: E402
from model_server import MODEL, ModelServer  # noqa: E402
from server import CABANA, Server  # noqa: E402

OVER, DIRECT = "first token after the provider's", "the same, by a direct call"
TEAMS, TURNS, WATCHERS, SECONDS = 6, 8, 54, 8
IDLE = 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="turns and resumed streams to measure (default 200)")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path(os.environ.get("CABANA_TEST_DATA", "/var/lib/cabana-test")))
    parser.add_argument("--binary", type=pathlib.Path, default=CABANA)
    chosen = parser.parse_args()
    model, Server.program = ModelServer(), chosen.binary
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as configuration:
        configuration.write(model.configuration())
        configuration.flush()
        server = Server(chosen.data, CABANA_CONFIG=configuration.name, CABANA_LOG="warn")
        server.start(within=1200)
        try:
            server.forget_all_chats()
            times = Times()
            first_tokens(server, model, times, chosen.count)
            resuming(server, model, times, chosen.count)
            times.show(f"{chosen.count} of each, milliseconds", {OVER: DIRECT})
            many_watchers(server, model)
            idle_chats(server)
        finally:
            server.forget_all_chats()
            server.stop()
            model.close()


# The first token.


def first_tokens(server: Server, model: ModelServer, times: Times, count: int) -> None:
    chats = Chats(server)
    for number in range(count + WARM_UP):
        # A chat of its own for every turn: a long conversation would measure something else.
        script = model.script(Answer(["token", Pause(0.06), " more"]), Answer(["token", Pause(0.06), " more"]))
        with chats.create_stream({"prompt": script.prompt, "tools": [], "title": "bench", "model": f"openai/{MODEL}"}) as stream:
            for event in stream:
                if event.type == "message.delta":
                    arrived = time.monotonic()
                    break
            for event in stream:
                if final()(event):
                    break
        if number >= WARM_UP:
            times.add(OVER, arrived - script.last.first_delta)
        arrived = direct(model, script.prompt)
        if number >= WARM_UP:
            times.add(DIRECT, arrived - script.last.first_delta)
    chats.close()


def direct(model: ModelServer, prompt: str) -> float:
    """When the first token of a request without the server arrives."""
    link = http.client.HTTPConnection("127.0.0.1", model.port)
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": prompt}]}
    link.request("POST", "/v1/chat/completions", json.dumps(body), {"Authorization": f"Bearer {model.key}"})
    response = link.getresponse()
    for line in response:
        if b'"token"' in line:
            arrived = time.monotonic()
            response.read()
            link.close()
            return arrived
    raise AssertionError("no token")


# Resuming.


def resuming(server: Server, model: ModelServer, times: Times, count: int) -> None:
    """Of a chat in which a turn runs, and of one that nobody has open."""
    chats = Chats(server)
    over, events = chats.run_turn(model.script(Answer([f"word {n} " for n in range(50)])).prompt, tools=[], title="bench")
    pieces = [piece for number in range(20_000) for piece in (f"word {number} ", Pause(0.02))]
    running = chats.create(model.script(Answer(pieces)).prompt, tools=[], title="bench")["chat"]["id"]
    with chats.events(running, after=0) as stream:
        last = stream.until("message.delta")[-1].id
    for name, id, after in (("resume while a turn runs", running, last), ("resume of a chat at rest", over, events[0].id)):
        for number in range(count + WARM_UP):
            begin = time.perf_counter()
            with chats.events(id, after=after) as stream:
                next(iter(stream))
                if number >= WARM_UP:
                    times.add(name, time.perf_counter() - begin)
    chats.cancel(running)
    chats.close()


# Many watchers.


def team_keys(server: Server) -> list[str]:
    """Keys of further teams: each may have a few turns at the same time. There is no call that makes one."""
    keys, now = [server.key], int(time.time() * 1e6)
    server.stop()
    with sqlite3.connect(server.data / "cabana.db") as store:
        for number in range(1, TEAMS):
            key, team = f"e2b_{os.urandom(20).hex()}", f"bench-{number}"
            store.execute("insert or ignore into teams (id, name, created_at) values (?, ?, ?)", (team, team, now))
            store.execute("delete from api_keys where team = ?", (team,))
            row = (str(uuid.uuid4()), team, hashlib.sha256(key.encode()).digest(), team, key[:6], key[-4:], now)
            store.execute("insert into api_keys (id, team, hash, name, prefix, suffix, created_at) values (?, ?, ?, ?, ?, ?, ?)", row)
            keys.append(key)
    store.close()
    server.start()
    return keys


def many_watchers(server: Server, model: ModelServer) -> None:
    teams = [Chats(server, key) for key in team_keys(server)]
    ids = [[team.create(tools=[], title="bench")["chat"]["id"] for _ in range(TURNS)] for team in teams]
    results, ready = multiprocessing.Queue(), multiprocessing.Event()
    watching = [
        multiprocessing.Process(target=watch, args=(server.url, team.key, own, WATCHERS // TEAMS, results, ready), daemon=True)
        for team, own in zip(teams, ids)
    ]
    for process in watching:
        process.start()
    for _ in watching:
        assert results.get(timeout=60) == "ready"
    pieces = [piece for number in range(SECONDS * 40) for piece in (f"word {number} ", Pause(0.025))]
    before, begin = processor(server.pid), time.monotonic()
    for team, own in zip(teams, ids):
        for id in own:
            team.say(id, model.script(Answer(pieces)).prompt)
    for team, own in zip(teams, ids):
        for id in own:
            team.ended(id, within=120)
    took, used = time.monotonic() - begin, processor(server.pid) - before
    ready.set()
    found = [results.get(timeout=60) for _ in watching]
    for process in watching:
        process.join()
    sent = [set().union(*team["seen"]) for team in found]
    events = sum(map(len, sent))
    delivered = sum(len(one) for team in found for one in team["seen"])
    expected = sum(len(own) * len(team["seen"]) for own, team in zip(sent, found))
    lags = [lag for team in found for lag in team["lags"]]
    print(f"\n{events / took:.0f} events a second in {TEAMS * TURNS} turns to {WATCHERS} watchers, for {took:.1f} s")
    print(f"  delivered {delivered} of {expected}, {delivered / took:.0f} a second")
    print(f"  lag p50 {quantile(lags, 0.5) * 1e3:.1f} ms, p99 {quantile(lags, 0.99) * 1e3:.1f} ms, longest {max(lags) * 1e3:.1f} ms")
    print(f"  processor time of the server {used / took * 100:.0f} % of one core, memory {server.memory() >> 20} MiB")
    for team in teams:
        team.close()


def processor(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


FRAME = re.compile(r'"topic":"chat:([^"]+)","id":(\d+),.*?"at":"([^"]+)"')


def watch(url: str, key: str, ids: list[str], count: int, results, stop) -> None:
    """Sockets of one team, in a process of its own: what each has seen, and how late."""

    async def one(seen: set, lags: list, begun: asyncio.Event) -> None:
        import websockets.asyncio.client as client

        options = {"additional_headers": {"X-API-KEY": key}, "compression": None, "proxy": None, "max_size": None}
        async with client.connect(url.replace("http", "ws", 1) + "/live", **options) as socket:
            for id in ids:
                await socket.send(json.dumps({"subscribe": f"chat:{id}", "after": 0}))
            begun.set()
            while not stop.is_set():
                try:
                    text = await asyncio.wait_for(socket.recv(), 0.5)
                except TimeoutError:
                    continue
                if found := FRAME.search(text):
                    seen.add((found[1], int(found[2])))
                    lags.append(time.time() - datetime.fromisoformat(found[3]).timestamp())
                elif '"ping"' in text:
                    await socket.send('{"pong":true}')

    async def all_of_them() -> dict:
        seen, lags, begun = [set() for _ in range(count)], [], [asyncio.Event() for _ in range(count)]
        tasks = [asyncio.create_task(one(own, lags, event)) for own, event in zip(seen, begun)]
        for event in begun:
            await event.wait()
        results.put("ready")
        await asyncio.gather(*tasks)
        return {"seen": seen, "lags": lags}

    results.put(asyncio.run(all_of_them()))


# Chats at rest.


def idle_chats(server: Server) -> None:
    chats = Chats(server)
    for _ in range(20):
        chats.create(title="warm")
    before, begin = server.memory(), time.monotonic()
    for number in range(IDLE):
        chats.create(title=f"idle {number}", metadata={"number": number})
    took, grown = time.monotonic() - begin, server.memory() - before
    print(f"\n{IDLE} idle chats: memory {before >> 10} → {server.memory() >> 10} KiB, {grown / IDLE:.0f} bytes each; {took / IDLE * 1e3:.1f} ms to make one")


if __name__ == "__main__":
    main()
