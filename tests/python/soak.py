"""Clients that perform random operations on their own sandboxes, each checked against a model. Run by test_soak.py in its
own process, so that its connections end with it. Prints a report as JSON."""

import json
import random
import sys
import threading
import time
import traceback
import urllib.request
import uuid
from collections import Counter

from e2b import (
    CommandExitException,
    FileNotFoundException,
    FilesystemEventType,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxQuery,
    TimeoutException,
)


class Modelled:
    """A sandbox and its expected state."""

    def __init__(self, sandbox: Sandbox, metadata: dict[str, str], environment: dict[str, str]):
        self.sandbox, self.metadata, self.environment = sandbox, metadata, environment
        self.files: dict[str, bytes] = {}
        self.running: set[int] = set()


class Client:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.tag = uuid.uuid4().hex
        self.live: list[Modelled] = []
        self.dead: list[Sandbox] = []
        self.done: Counter[str] = Counter()
        self.errors: list[str] = []
        self.steps = [step for name in dir(self) if name.startswith("do_") for step in [getattr(self, name)]]

    def run(self, until: float) -> None:
        while time.monotonic() < until:
            self.attempt(self.random.choice(self.steps) if self.live else self.do_create)
        for box in list(self.live):
            self.attempt(lambda box=box: self.end(box), "end")

    def attempt(self, step, name: str = "") -> None:
        name = name or step.__name__
        try:
            step()
            self.done[name] += 1
        except Exception:
            self.errors.append(f"{name}: {traceback.format_exc(limit=-4)}")

    def any(self) -> Modelled:
        return self.random.choice(self.live)

    def end(self, box: Modelled) -> None:
        self.live.remove(box)
        self.dead = [*self.dead[-4:], box.sandbox]
        assert box.sandbox.kill() is True

    # Sandboxes

    def do_create(self):
        if len(self.live) >= 3:
            return self.end(self.any())
        metadata = {"run": self.tag, "n": str(self.random.random())}
        environment = {"COLOUR": self.random.choice(["blue", "a b", "'\"$x"])}
        sandbox = Sandbox.create(timeout=300, metadata=metadata, envs=environment)
        self.live.append(Modelled(sandbox, metadata, environment))

    def do_list(self):
        found = Sandbox.list(SandboxQuery(metadata={"run": self.tag})).next_items()
        assert {row.sandbox_id for row in found} == {box.sandbox.sandbox_id for box in self.live}

    def do_info(self):
        box = self.any()
        info = box.sandbox.get_info()
        assert info.metadata == box.metadata and info.sandbox_id == box.sandbox.sandbox_id

    def do_connect(self):
        box = self.any()
        assert Sandbox.connect(box.sandbox.sandbox_id).is_running()

    def do_extend(self):
        box, seconds = self.any(), self.random.randint(200, 900)
        box.sandbox.set_timeout(seconds)
        left = box.sandbox.get_info().end_at.timestamp() - time.time()
        assert seconds - 30 < left <= seconds + 1, (seconds, left)

    def do_metrics(self):
        for row in self.any().sandbox.get_metrics():
            assert 0 <= row.mem_used <= row.mem_total

    def do_ask_the_dead(self):
        for sandbox in self.dead:
            assert not sandbox.is_running() and sandbox.kill() is False
            for ask in (
                sandbox.get_info,
                lambda: sandbox.files.read("x"),
                lambda: sandbox.files.write("x", "x" * 1000),
                lambda: sandbox.commands.run("true"),
            ):
                try:
                    ask()
                except (NotFoundException, TimeoutException):
                    continue
                raise AssertionError("a sandbox that is gone answered")

    # Files

    def do_write(self):
        box, path = self.any(), f"{self.random.choice('abc')}/{self.random.randint(0, 9)}"
        data = self.random.randbytes(self.random.choice([0, 1, 1000, 300_000]))
        assert box.sandbox.files.write(path, data).path == f"/home/user/{path}"
        box.files[path] = data

    def do_read(self):
        box, path = self.any(), f"{self.random.choice('abc')}/{self.random.randint(0, 9)}"
        try:
            assert box.sandbox.files.read(path, format="bytes") == box.files[path]
        except (FileNotFoundException, KeyError) as error:
            assert isinstance(error, FileNotFoundException) and path not in box.files, error

    def do_directory(self):
        box, name = self.any(), self.random.choice("abc")
        box.sandbox.files.make_dir(name)
        entries = {(entry.name, entry.size) for entry in box.sandbox.files.list(name)}
        assert entries == {(path[2:], len(data)) for path, data in box.files.items() if path[0] == name}

    def do_rename(self):
        box = self.any()
        if box.files:
            path = self.random.choice(sorted(box.files))
            box.sandbox.files.rename(path, "a/moved")
            box.files["a/moved"] = box.files.pop(path)
            assert box.sandbox.files.get_info("a/moved").size == len(box.files["a/moved"])

    def do_remove(self):
        box, name = self.any(), self.random.choice("abc")
        box.sandbox.files.remove(name)
        box.files = {path: data for path, data in box.files.items() if path[0] != name}
        assert not box.sandbox.files.exists(name)

    def do_link(self):
        box = self.any()
        if box.files:
            path = self.random.choice(sorted(box.files))
            with urllib.request.urlopen(box.sandbox.download_url(path), timeout=30) as answer:
                assert answer.read() == box.files[path]

    def do_watch(self):
        box = self.any()
        box.sandbox.files.make_dir("watched")
        watch = box.sandbox.files.watch_dir("watched")
        box.sandbox.files.write("watched/x", "x")
        deadline, seen = time.monotonic() + 20, []
        while FilesystemEventType.WRITE not in seen and time.monotonic() < deadline:
            seen += [event.type for event in watch.get_new_events()]
        watch.stop()
        assert FilesystemEventType.WRITE in seen, seen

    # Commands

    def do_command(self):
        box, code = self.any(), self.random.choice([0, 0, 3, 77])
        try:
            result = box.sandbox.commands.run(f'printf %s "$COLOUR"; exit {code}')
        except CommandExitException as ended:
            result = ended
        assert (result.stdout, result.exit_code) == (box.environment["COLOUR"], code)

    def do_output(self):
        size = self.random.choice([1, 65_536, 1_000_000])
        assert self.any().sandbox.commands.run(f"head -c {size} /dev/zero | tr '\\0' x").stdout == "x" * size

    def do_background(self):
        box = self.any()
        if len(box.running) < 5:
            box.running.add(box.sandbox.commands.run("sleep 1000", background=True).pid)
        else:
            assert box.sandbox.commands.kill(box.running.pop()) is True

    def do_processes(self):
        box = self.any()
        assert box.running <= {process.pid for process in box.sandbox.commands.list()}

    def do_input(self):
        handle = self.any().sandbox.commands.run("cat", background=True, stdin=True)
        text = "".join(self.random.choices("abc \n", k=500))
        handle.send_stdin(text)
        handle.close_stdin()
        assert handle.wait().stdout == text

    def do_terminal(self):
        box, columns = self.any(), self.random.randint(20, 200)
        terminal = box.sandbox.pty.create(PtySize(rows=24, cols=80))
        seen, prompted = bytearray(), False
        for _, _, data in terminal:
            seen += data or b""
            # Not before the prompt: until then the shell may reset the size.
            if not prompted and b"$ " in seen:
                prompted = True
                box.sandbox.pty.resize(terminal.pid, PtySize(rows=50, cols=columns))
                box.sandbox.pty.send_stdin(terminal.pid, b"stty size; exit\n")
        assert f"50 {columns}".encode() in seen, bytes(seen)


def main() -> None:
    seconds, count, seed = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    clients = [Client(seed + n) for n in range(count)]
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=client.run, args=[until]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sum((client.done for client in clients), Counter())
    errors = [error for client in clients for error in client.errors]
    json.dump({"done": done, "errors": errors}, sys.stdout)


if __name__ == "__main__":
    main()
