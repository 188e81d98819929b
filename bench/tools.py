#!/usr/bin/env python3
"""Times agent tools through a running server, each compared with what it is made of in the same run: a command of the process service, a file of
`/files`, and `rg` inside the sandbox. Also shows what a command that prints 100 MB costs the server in memory.

usage: bench/tools.py [--count N] [--files N] [--url URL] [--key KEY]
"""

import pathlib
import time

from measure import WARM_UP, Times, client, options
from tool_calls import Tools
from wire import Client

FILES = "files of the tree that is searched (default 100000)"


def server_pid(port: int) -> int | None:
    """The process that listens on the port, if it is on this machine."""
    wanted = {line.split()[9] for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]
              if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"}
    for fd in pathlib.Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(fd.readlink()).removeprefix("socket:[").rstrip("]") in wanted:
                return int(fd.parts[2])
        except OSError:
            continue
    return None


def resident(pid: int) -> float:
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def calls(server: Client, tools: Tools, box, count: int) -> None:
    times = Times()
    content = "x" * 4096
    for number in range(count + WARM_UP):
        counts = number >= WARM_UP
        with times.take("command `true` by the process service", counts):
            assert server.run(box, "true")[0] == 0
        with times.take("sandbox_run_command `true`", counts):
            tools.ok("run_command", command="true")
        with times.take("write 4 KiB by /files", counts):
            written = server.request("POST", "/files?path=/home/user/f", content.encode(),
                                     {**box.headers(), "Content-Type": "application/octet-stream"})
        assert written.status == 200, written.body
        with times.take("sandbox_write_file 4 KiB", counts):
            tools.ok("write_file", path="g", content=content)
        with times.take("read 4 KiB by /files", counts):
            assert server.request("GET", "/files?path=/home/user/f", headers=box.headers()).status == 200
        with times.take("sandbox_read_file 4 KiB", counts):
            tools.ok("read_file", path="g")
        with times.take("sandbox_find_replace", counts):
            tools.ok("find_replace", path="g", find="x" * 4096, replace=content)
    times.show(f"{count} rounds, milliseconds", {
        "sandbox_run_command `true`": "command `true` by the process service",
        "sandbox_write_file 4 KiB": "write 4 KiB by /files",
        "sandbox_read_file 4 KiB": "read 4 KiB by /files",
    })


def search(tools: Tools, files: int) -> None:
    make = (f"mkdir -p tree && cd tree && for d in $(seq {files // 100}); do mkdir -p $((d % 40))/$d; done; "
            f"python3 -c \"import os\n"
            f"for n in range({files}):\n"
            f"    d = n // 100 + 1\n"
            f"    open(f'{{d % 40}}/{{d}}/file{{n}}.txt', 'w').write('some text\\n' * 20 + ('needle\\n' if n % 1000 == 0 else ''))\"")
    tools.ok("run_command", command=make, timeout_seconds=600)
    times = Times()
    has_rg = tools.call("sandbox_run_command", {"command": "command -v rg || (sudo apt-get update -q && sudo apt-get install -y -q ripgrep) >/dev/null 2>&1; command -v rg",
                                                "timeout_seconds": 300})["status"] == "success"
    for number in range(6):
        with times.take(f"sandbox_grep_files over {files} files", number > 0):
            found = tools.ok("grep_files", pattern="needle", path="tree", output="count", limit=1000)
        assert found["data"]["matches"] == files // 1000, found
        if has_rg:
            with times.take("`rg -c needle` by sandbox_run_command", number > 0):
                tools.ok("run_command", command="rg -c needle tree | wc -l")
        with times.take("`grep -rc needle` by sandbox_run_command", number > 0):
            tools.ok("run_command", command="grep -rl needle tree | wc -l")
        with times.take(f"sandbox_find_files over {files} files", number > 0):
            tools.ok("find_files", query="file777.txt", path="tree")
    base = "`rg -c needle` by sandbox_run_command" if has_rg else "`grep -rc needle` by sandbox_run_command"
    times.show("searching, milliseconds", {f"sandbox_grep_files over {files} files": base})


def flood(tools: Tools, port: int) -> None:
    pid = server_pid(port)
    before = resident(pid) if pid else 0
    begin = time.perf_counter()
    result = tools.ok("run_command", command="head -c 100000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo THE END")
    took = time.perf_counter() - begin
    assert result["output"].endswith("THE END\n") and len(result["output"]) < 40_000
    after = resident(pid) if pid else 0
    print(f"a command that prints 100 MB: {took:.2f} s; the server's memory {before:.1f} → {after:.1f} MiB")


def main():
    chosen = options(__doc__, "rounds", 100, lambda parser: parser.add_argument("--files", type=int, default=100_000, help=FILES))
    server = client(chosen)
    box = server.create(timeout=1800)
    try:
        tools = Tools(server, box.id)
        server.connection.timeout = 900
        calls(server, tools, box, chosen.count)
        search(tools, max(1000, min(chosen.files, 1_000_000)))
        flood(tools, server.port)
    finally:
        server.kill(box)


if __name__ == "__main__":
    main()
