"""Random walks through all operations on sandboxes, checked against a model of their files and processes."""

import os
import random
from dataclasses import dataclass, field

import pytest

from life import Life, Refused
from waiting import eventually
from wire import Box

SEED = int(os.environ.get("CABANA_TEST_SEED", str(random.SystemRandom().randrange(1 << 32))))
SEQUENCES, STEPS = int(os.environ.get("CABANA_TEST_SEQUENCES", "5")), 40
MOST = 4
COUNT = "while :; do i=$((i+1)); echo $i > /tmp/$0; sleep 0.03; done"

UP, MEMORY, DISK, ARCHIVED = "running", "paused", "paused with its disk", "archived"


@dataclass
class Model:
    """Expected state of one sandbox."""

    box: Box
    files: dict[str, str] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    state: str = UP


class Walk:
    """A random walk. Steps are recorded for the failure report."""

    def __init__(self, life: Life, seed: int):
        self.life, self.dice, self.seed = life, random.Random(seed), seed
        self.models: list[Model] = []
        self.snapshots: list[tuple[str, dict[str, str]]] = []
        self.done: list[str] = []
        self.names = 0

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}-{self.names}"

    def step(self) -> None:
        if not self.models:
            self.models.append(Model(self.life.create(metadata={"t": "model"})))
        model = self.dice.choice(self.models)
        if model.state == UP:
            operations = [self.write] * 4 + [self.delete, self.count, self.count, self.pause, self.pause, self.pause_disk]
        else:
            operations = [self.resume] * 5 + [self.pause_disk]
        operation = self.dice.choice([*operations, self.snapshot, self.grow, self.fork, self.archive, self.crash])
        self.done.append(f"{operation.__name__} of {model.box.id} ({model.state})")
        operation(model)
        while len(self.models) > MOST:
            self.life.kill(self.models.pop(self.dice.randrange(len(self.models))).box)
        while len(self.snapshots) > 2:
            self.life.forget(self.snapshots.pop(0)[0])

    def agree(self, model: Model) -> None:
        """Checks a running sandbox against the model."""
        found = self.life.files(model.box)
        assert found == model.files, f"{found} instead of {model.files}"
        # A set: between fork and exec, a counter's `sleep` has the name of the counter.
        living = set(self.life.run(model.box, "ps -eo args | grep -o '[c]ounter-[0-9]*' || true").split())
        assert living == set(model.counters), f"{living} instead of {model.counters}"
        for name, before in model.counters.items():
            at_least = lambda: (now := int(self.life.run(model.box, f"cat /tmp/{name}").strip() or 0)) > before and now
            model.counters[name] = eventually(at_least, what=f"{name} counts on from {before}")

    def write(self, model: Model) -> None:
        name = self.dice.choice([*model.files, self.name("file")])
        content = f"{self.name('content')} of {model.box.id}"
        self.life.write(model.box, name, content)
        model.files[name] = content

    def delete(self, model: Model) -> None:
        if model.files:
            name = self.dice.choice(sorted(model.files))
            self.life.remove(model.box, name)
            del model.files[name]

    def count(self, model: Model) -> None:
        if len(model.counters) < 2:
            name = self.name("counter")
            self.life.run(model.box, f"echo 0 > /tmp/{name}; setsid bash -c '{COUNT}' {name} >/dev/null 2>&1 </dev/null &")
            model.counters[name] = 0

    def pause(self, model: Model) -> None:
        self.life.pause(model.box)
        model.state = MEMORY

    def pause_disk(self, model: Model) -> None:
        if model.state in (UP, MEMORY):
            self.life.pause(model.box, memory=False)
            model.state, model.counters = DISK, {}
        else:
            with pytest.raises(Refused) as refused:
                self.life.pause(model.box, memory=False)
            assert refused.value.status == 409

    def resume(self, model: Model) -> None:
        self.life.connect(model.box)
        model.state = UP
        self.agree(model)

    def archive(self, model: Model) -> None:
        self.life.archive(model.box)
        model.state, model.counters = ARCHIVED, {}

    def copied(self, model: Model, copy) -> bool:
        """Copies a disk; that of an archived sandbox is not available."""
        if model.state != ARCHIVED:
            copy()
            return True
        with pytest.raises(Refused) as refused:
            copy()
        assert refused.value.status == 409
        return False

    def snapshot(self, model: Model) -> None:
        keep = lambda: self.snapshots.append((self.life.snapshot(model.box), dict(model.files)))
        if self.copied(model, keep) and self.dice.random() < 0.5:
            self.grow(model)

    def grow(self, _: Model) -> None:
        """A sandbox from an earlier snapshot, whose source has changed or ended since."""
        if self.snapshots:
            snapshot, files = self.dice.choice(self.snapshots)
            self.models.append(Model(self.life.create(snapshot, metadata={"t": "model"}), dict(files)))
            self.agree(self.models[-1])

    def fork(self, model: Model) -> None:
        def split() -> None:
            for box in self.life.fork(model.box, self.dice.choice([1, 1, 2])):
                self.models.append(Model(box, dict(model.files)))
                self.agree(self.models[-1])

        self.copied(model, split)
        if model.state == UP:
            self.agree(model)

    def crash(self, _: Model) -> None:
        self.life.server.crash()
        self.life.server.start()
        self.life.assert_whole()
        for model in self.models:
            if model.state == UP:
                self.agree(model)
            else:
                assert self.life.phase(model.box) == model.state.split()[0]

    def end(self) -> None:
        """Resumes every sandbox once more and checks it."""
        for model in self.models:
            self.resume(model)
        self.life.assert_whole()

    def clean(self) -> None:
        for model in self.models:
            self.life.kill(model.box)
        for snapshot, _ in self.snapshots:
            self.life.forget(snapshot)


@pytest.mark.parametrize("sequence", range(SEQUENCES))
def test_random_walk(sequence, server, world):
    """`CABANA_TEST_SEQUENCES` walks; `CABANA_TEST_SEED` reproduces them."""
    walk = Walk(Life(server), SEED + sequence)
    try:
        for _ in range(STEPS):
            walk.step()
        walk.end()
    except (AssertionError, Refused) as problem:
        story = "\n  ".join(walk.done)
        raise AssertionError(f"CABANA_TEST_SEED={SEED}, sequence {sequence}:\n  {story}\n{problem!r}") from problem
    finally:
        if server.process is None or server.process.poll() is not None:
            server.process = None
            server.start()
        walk.clean()
    eventually(lambda: not Life(server).archives(), what="nothing is left in the archive")
    if sequence == SEQUENCES - 1:
        world.assert_restored()
