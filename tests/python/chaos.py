"""Threads that put one sandbox after another through every operation, while the server is killed and restarted.
Acknowledged changes are recorded, and compared with the actual state."""

import random
import threading

from life import GONE, Life, Refused
from wire import Box, StreamError


class Gate:
    """Lets workers continue, or stops them between operations."""

    def __init__(self, workers: int):
        self.changed, self.workers = threading.Condition(), workers
        self.open, self.up, self.over, self.waiting = True, True, False, 0

    def set(self, **state: bool) -> None:
        with self.changed:
            self.__dict__.update(state)
            self.changed.notify_all()

    def hold(self, within: float) -> None:
        """Closes it and waits until all workers are stopped."""
        with self.changed:
            self.open = False
            assert self.changed.wait_for(lambda: self.waiting == self.workers, within), "the workers do not stop"

    def leave(self) -> None:
        """Removes a worker."""
        with self.changed:
            self.workers -= 1
            self.changed.notify_all()

    def pass_through(self) -> bool:
        """Waits until it is open and the server runs; `False` at the end."""
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.over or (self.open and self.up))
            self.waiting -= 1
            return not self.over


class Worker(threading.Thread):
    """Owns one sandbox at a time."""

    def __init__(self, life: Life, gate: Gate, seed: int, mark: dict[str, str]):
        super().__init__()
        self.life, self.gate, self.random, self.mark = life, gate, random.Random(seed), mark
        self.box: Box | None = None
        self.files: dict[str, str] = {}
        self.unsure: set[str] = set()  # written without acknowledgement: any content, or absent
        self.killed: list[str] = []
        self.problems: list[str] = []
        self.did: dict[str, int] = {}
        self.cut = 0
        self.names = 0

    def run(self) -> None:
        try:
            self.work()
        finally:
            self.gate.leave()

    def work(self) -> None:
        operations = [self.write] * 4 + [self.pause, self.pause_disk, self.resume, self.resume, self.resume, self.snapshot, self.fork, self.archive, self.end]
        while self.gate.pass_through() and not self.problems:
            operation = self.random.choice(operations) if self.box else self.begin
            try:
                operation()
                self.did[operation.__name__] = self.did.get(operation.__name__, 0) + 1
            except Refused as refused:
                # Already paused or already running. Everything else must work.
                if refused.status != 409:
                    self.problems.append(f"{operation.__name__} of {self.box}: {refused}")
            except StreamError as error:
                # The edge says so of a paused sandbox; anything else is caused by the crash.
                if error.code.startswith("HTTP"):
                    if "paused" not in error.message:
                        self.problems.append(f"{operation.__name__} of {self.box}: {error}")
                else:
                    self.cut += 1
            except GONE:
                self.cut += 1
            except AssertionError as wrong:
                self.problems.append(f"{operation.__name__} of {self.box}: {wrong}")

    def compare(self, box: Box) -> None:
        found = self.life.files(box)
        sure = {name: content for name, content in found.items() if name not in self.unsure}
        assert sure == {k: v for k, v in self.files.items() if k not in self.unsure}, (sure, self.files, self.unsure)

    def begin(self) -> None:
        self.files, self.unsure = {}, set()
        self.box = self.life.create(metadata=self.mark, autoPause=True)

    def write(self) -> None:
        self.names += 1
        name = f"f{self.names % 12}"
        self.unsure.add(name)
        content = f"content {self.names}"
        self.life.write(self.box, name, content)
        self.files[name] = content
        self.unsure.discard(name)

    def pause(self) -> None:
        self.life.pause(self.box)

    def pause_disk(self) -> None:
        self.life.pause(self.box, memory=False)

    def resume(self) -> None:
        self.life.connect(self.box)
        self.compare(self.box)

    def snapshot(self) -> None:
        snapshot = self.life.snapshot(self.box)
        copy = self.life.create(snapshot, metadata=self.mark)
        self.compare(copy)
        self.life.forget(snapshot)
        self.drop(copy)

    def fork(self) -> None:
        for copy in self.life.fork(self.box):
            self.compare(copy)
            self.drop(copy)

    def archive(self) -> None:
        self.life.archive(self.box)

    def end(self) -> None:
        box, self.box = self.box, None
        self.drop(box)

    def drop(self, box: Box) -> None:
        self.life.kill(box)
        self.killed.append(box.id)
