"""From a time to an offset, whatever the indexes say, and where records have no time."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set
from kseg.segment_reader.log.files.segments import PartitionLog, open_log
from kseg.segment_reader.log.files.storage import LocalStorage
from kseg.segment_reader.log.scan.timestamps import NoTimestamps, Untimed, offset_for_time

STORAGE = LocalStorage()
TIME = 1_700_000_000_000


@pytest.fixture(scope="module")
def written(log_files: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[PartitionLog, list[tuple[int, int]]]:
    """Six segments, and (offset, time) of each record: times ascend roughly, with some far off, and gaps."""
    rng = random.Random(4)
    folder = tmp_path_factory.mktemp("timed") / "t-0"
    segments, known, offset = [], [], 0
    for _ in range(6):
        made = []
        for _ in range(30):
            times = [TIME + offset * 10 + rng.randrange(-200, 200) for _ in range(3)]
            if rng.random() < 0.03:
                times[1] += rng.choice([-3000, 3000])
            rows = [Record(None, rng.randbytes(30), timestamp=time) for time in times]
            kept = rng.choice([[0, 1, 2], [0, 2], [1]])
            # Compaction leaves a batch's largest time as it was.
            made.append(
                encode_batch(
                    [rows[n] for n in kept],
                    base_offset=offset,
                    offset_deltas=kept,
                    last_offset_delta=2,
                    max_timestamp=max(times),
                )
            )
            known += [(offset + n, times[n]) for n in kept]
            offset += 3 + rng.choice([0, 0, 0, 4])
        segments.append(made)
    log_files.write_partition(folder, segments, interval=300)
    return open_log(STORAGE, str(folder), "t", 0), known


def right(known: list[tuple[int, int]], time: int) -> tuple[int, int] | None:
    return next((record for record in known if record[1] >= time), None)


DAMAGE: dict[str, Callable[[random.Random, bytes], bytes | None]] = {
    "whole": lambda rng, data: data,
    "missing": lambda rng, data: None,
    "empty": lambda rng, data: b"",
    "stale": lambda rng, data: data[: len(data) // 24 * 12],
    "cut": lambda rng, data: data[: len(data) // 2 + 3],
    "allocated": lambda rng, data: data + bytes(2400),
    "noise": lambda rng, data: rng.randbytes(len(data)),
    "zeros": lambda rng, data: bytes(len(data)),
    "a byte": lambda rng, data: flipped(rng, data),
    "later offsets": lambda rng, data: data[:8] + data[-4:] + data[12:],
}


def flipped(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data)) if data else 0
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :] if data else data


@given(data=st.data())
def test_a_time_finds_its_record_whatever_the_indexes_say(
    data: st.DataObject, written: tuple[PartitionLog, list[tuple[int, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    source, known = written
    rng = random.Random(data.draw(st.integers(0, 1 << 30)))
    folder = tmp_path_factory.mktemp("damaged") / "t-0"
    shutil.copytree(source.folder, folder)
    for path in sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")]):
        changed = DAMAGE[data.draw(st.sampled_from(sorted(DAMAGE)))](rng, path.read_bytes())
        if changed is None:
            path.unlink()
        else:
            path.write_bytes(changed)
    log = open_log(STORAGE, str(folder), "t", 0)
    for _ in range(5):
        time = data.draw(st.integers(TIME - 1000, known[-1][1] + 4000))
        assert offset_for_time(STORAGE, log, time) == right(known, time)
    shutil.rmtree(folder)


def test_every_time_finds_its_record(written: tuple[PartitionLog, list[tuple[int, int]]]) -> None:
    log, known = written
    for _, time in known[::7]:
        for near in (time - 1, time, time + 1):
            assert offset_for_time(STORAGE, log, near) == right(known, near)
    assert offset_for_time(STORAGE, log, max(time for _, time in known) + 1) is None


def test_records_below_the_log_start_are_not_found(written: tuple[PartitionLog, list[tuple[int, int]]]) -> None:
    """DeleteRecords moves a log's start into a segment, into a batch even; what is before it is there until then."""
    log, known = written
    for start, _ in known[::11]:
        left = [record for record in known if record[0] >= start]
        for time in (0, known[0][1], *(time for _, time in known[5::23])):
            assert offset_for_time(STORAGE, log, time, start=start) == right(left, time)
    assert offset_for_time(STORAGE, log, 0, start=known[-1][0] + 1) is None


OLD, NEW = 40, 20


@pytest.fixture(params=["two segments", "one segment", "old messages alone"])
def upgraded(request: pytest.FixtureRequest, log_files: Any, tmp_path: Path) -> tuple[PartitionLog, bool]:
    """Magic 0 up to offset 40, then magic 2, in a segment of their own or not; and whether there are such."""
    old = [
        encode_message_set([Record(None, b"v" * 50)] * 2, magic=0, base_offset=offset, compression="gzip")
        for offset in range(0, OLD, 2)
    ]
    new = [
        encode_batch([Record(None, b"v" * 50, timestamp=TIME + offset)], base_offset=offset)
        for offset in range(OLD, OLD + NEW)
    ]
    segments = {"two segments": [old, new], "one segment": [old + new], "old messages alone": [old]}[request.param]
    log_files.write_partition(tmp_path / "t-0", segments, interval=100, bases=[0, OLD][: len(segments)])
    return open_log(STORAGE, str(tmp_path / "t-0"), "t", 0), request.param != "old messages alone"


@pytest.mark.parametrize("indexed", [True, False])
def test_records_without_a_time_are_refused_or_in_the_range(upgraded: tuple[PartitionLog, bool], indexed: bool) -> None:
    log, timed = upgraded
    if not indexed:
        for path in [*Path(log.folder).glob("*.index"), *Path(log.folder).glob("*.timeindex")]:
            path.unlink()
        log = open_log(STORAGE, log.folder, "t", 0)
    with pytest.raises(NoTimestamps, match="message format 0") as refused:
        offset_for_time(STORAGE, log, TIME + OLD + 10)
    assert refused.value.file == log.segments[0].path

    def at(time: int, untimed: Untimed) -> int | None:
        found = offset_for_time(STORAGE, log, time, untimed=untimed)
        return None if found is None else found.offset

    for time in (0, TIME + OLD + 10):
        assert at(time, "begin") == 0
    if timed:
        assert at(TIME + OLD + 10, "pass") == OLD + 10
        assert at(0, "pass") == OLD
    assert at(TIME + OLD + NEW, "pass") is None


def test_a_log_that_has_times_throughout_is_never_refused(written: tuple[PartitionLog, list[tuple[int, int]]]) -> None:
    log, known = written
    for untimed in ("refuse", "begin", "pass"):
        assert offset_for_time(STORAGE, log, known[100][1], untimed=untimed) == right(known, known[100][1])  # type: ignore[arg-type]


def test_records_without_a_time_below_the_log_start_do_not_count(upgraded: tuple[PartitionLog, bool]) -> None:
    log, timed = upgraded
    found = offset_for_time(STORAGE, log, 0, start=OLD, untimed="refuse")
    assert found == ((OLD, TIME + OLD) if timed else None)
    for untimed, start in (("begin", OLD - 9), ("begin", 0)):
        found = offset_for_time(STORAGE, log, TIME, start=start, untimed=untimed)  # type: ignore[arg-type]
        assert found == (start, -1)
