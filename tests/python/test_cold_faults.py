"""Full disks and failing cold storage: requests are refused with clear errors, and the sandbox is unchanged."""

import random
import shutil
import threading
import time

import pytest

from bucket import Bucket
from life import Life, Refused
from waiting import eventually, within
from wire import Box


@pytest.fixture
def life(server):
    return Life(server, timeout=130)


@pytest.fixture
def box(life, boxes) -> Box:
    box = boxes(timeout=600)
    life.write(box, "kept", "content")
    return box


@pytest.fixture
def bucket(server, boxes):
    """The server keeps its archives in a bucket during the test."""
    bucket = Bucket()
    server.stop()
    server.settings.update(bucket.settings)
    server.start()
    made = []

    def make() -> Box:
        made.append(Life(server).create())
        return made[-1]

    bucket.make = make
    yield bucket
    bucket.mend()
    life = Life(server)
    for box in made:
        life.kill(box)
    eventually(lambda: not bucket.objects, what="nothing is left in the bucket")
    server.stop()
    for name in bucket.settings:
        del server.settings[name]
    server.start()
    bucket.close()


def still_there(life: Life, server, box: Box) -> None:
    """Paused with its disk and files."""
    assert life.phase(box) == "paused"
    assert box.id in server.disks()
    life.assert_whole()
    life.connect(box)
    assert life.files(box) == {"kept": "content"}


def test_full_disks_can_be_paused_and_snapshotted(life, server, boxes):
    box = boxes(diskSizeMB=64, timeout=600)
    life.write(box, "kept", "content")
    life.run(box, "cat /dev/zero > ~/fill 2>/dev/null; true")
    size = life.run(box, "stat -c %s ~/fill")
    assert int(size) > 16 << 20
    copies, snapshot = [], ""
    try:
        for memory in (True, False):
            life.pause(box, memory)
            life.connect(box)
            assert life.files(box) == {"kept": "content"}
        copies = life.fork(box)
        snapshot = life.snapshot(box)
        copies.append(life.create(snapshot))
        life.archive(box)
        assert life.phase(box) == "archived"
        life.connect(box)
        for each in [box, *copies]:
            assert life.files(each) == {"kept": "content"}
            assert life.run(each, "stat -c %s ~/fill") == size
        life.assert_whole()
        life.run(box, "rm ~/fill")
        life.write(box, "more", "again")
    finally:
        for copy in copies:
            life.kill(copy)
        if snapshot:
            life.forget(snapshot)


def test_unwritable_cold_storage(life, server, box):
    place, aside = server.data / "archive", server.data / "archive-aside"
    place.rename(aside)
    place.write_text("no directory")
    try:
        with pytest.raises(Refused) as refused:
            life.archive(box)
        assert "archived" in str(refused.value)
        assert refused.value.status >= 500
        still_there(life, server, box)
    finally:
        place.unlink()
        aside.rename(place)
    life.archive(box)
    assert life.phase(box) == "archived"
    # An archive that is temporarily unreachable is not lost.
    place.rename(aside)
    try:
        with pytest.raises(Refused) as refused:
            life.connect(box)
        assert "restored" in str(refused.value)
        assert life.phase(box) == "archived"
    finally:
        shutil.rmtree(place, ignore_errors=True)
        aside.rename(place)
    life.connect(box)
    assert life.files(box) == {"kept": "content"}
    life.assert_whole()


def test_a_damaged_archive_is_refused(life, server, box):
    life.run(box, "head -c 300000 /dev/urandom > ~/random")
    life.archive(box)
    archive = next(path for path in (server.data / "archive").rglob(f"*{box.id}*") if path.name.endswith(".tar.zst"))
    whole = archive.read_bytes()
    dice = random.Random(7)
    for damaged in (whole[:-1], whole[: len(whole) // 2], b"", *(flipped(whole, dice) for _ in range(4))):
        archive.write_bytes(damaged)
        with pytest.raises(Refused) as refused:
            life.connect(box)
        assert refused.value.status >= 500
        assert life.phase(box) == "archived"
        assert box.id not in server.disks()
    archive.write_bytes(whole)
    life.connect(box)
    assert life.files(box) == {"kept": "content"}
    life.assert_whole()


def flipped(whole: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(whole))
    return whole[:at] + bytes([whole[at] ^ (1 << dice.randrange(8))]) + whole[at + 1 :]


def test_failing_bucket(life, server, bucket):
    box = bucket.make()
    life.write(box, "kept", "content")
    for fault in ("refuse", "shorten", "spoil"):
        bucket.fail(fault)
        started = time.monotonic()
        with pytest.raises(Refused) as refused:
            life.archive(box)
        assert refused.value.status >= 500 and "archived" in str(refused.value), refused.value
        within(100, started, f"giving up on a bucket ({fault})")
        bucket.mend()
        still_there(life, server, box)
        eventually(lambda: not bucket.objects, what=f"what was sent before the fault ({fault}) is taken back")
    life.archive(box)
    assert len(bucket.objects) == 2
    life.assert_whole()
    for fault in ("shorten", "spoil"):
        bucket.fail(fault)
        with pytest.raises(Refused):
            life.connect(box)
        bucket.mend()
        assert life.phase(box) == "archived"
        life.assert_whole()
    server.crash()
    server.start()
    life.connect(box)
    assert life.files(box) == {"kept": "content"}
    eventually(lambda: not bucket.objects)
    life.assert_whole()


def test_hanging_bucket_does_not_block_resume(life, server, bucket, figures):
    box = bucket.make()
    life.write(box, "kept", "content")
    bucket.fail("hang")
    answers = []

    def archive(box: Box = box) -> None:
        try:
            life.archive(box)
            answers.append("archived")
        except Refused as refused:
            answers.append(str(refused))

    archiving = threading.Thread(target=archive)
    archiving.start()
    assert bucket.met.wait(20)
    started = time.monotonic()
    life.connect(box)
    within(5, started, "waking one that is being archived")
    figures.append(f"waking one whose archive hangs: {time.monotonic() - started:.2f} s")
    assert life.files(box) == {"kept": "content"}
    archiving.join()
    assert len(answers) == 1 and answers[0].startswith("409 "), "told that it was interrupted"
    doomed = bucket.make()
    bucket.fail("hang")
    archiving = threading.Thread(target=archive, args=[doomed])
    archiving.start()
    assert bucket.met.wait(20)
    started = time.monotonic()
    life.kill(doomed)
    within(5, started, "ending one that is being archived")
    archiving.join()
    assert len(answers) == 2 and answers[1].startswith("404 "), f"told that it ended, not {answers[1:]}"
    # The server is killed while it waits; the next one continues when the bucket responds again.
    bucket.fail("hang")
    archiving = threading.Thread(target=lambda: pytest.raises(OSError, life.archive, box))
    archiving.start()
    assert bucket.met.wait(20)
    server.crash()
    archiving.join()
    bucket.mend()
    server.start()
    eventually(lambda: life.phase(box) == "archived")
    life.assert_whole()
    life.connect(box)
    assert life.files(box) == {"kept": "content"}
