"""How much is read of the files for a range: bytes and requests, since each request costs an object store's latency."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from control_batches import encode_control_batch
from kseg.segment_reader.decode.batch import COMMIT_MARKER
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.files.segments import PartitionLog, open_log
from kseg.segment_reader.log.scan.bounds import last_stable_offset, log_end_offset
from kseg.segment_reader.log.scan.record_sets import WINDOW_BYTES, record_sets
from kseg.segment_reader.log.scan.splits import cut, segment_ranges
from kseg.segment_reader.log.scan.timestamps import offset_for_time

MB = 1 << 20
BATCHES = 250  # in a segment, of about 16 KiB and 16 records
SEGMENTS = 10
TIME = 1_767_225_600_000
SECOND = 1000


@pytest.fixture(scope="module")
def storage(log_files: Any) -> Any:
    return log_files.CountingStorage()


@pytest.fixture(scope="module")
def log(log_files: Any, storage: Any, tmp_path_factory: pytest.TempPathFactory) -> PartitionLog:
    """Ten segments of 4 MiB, a record a second."""
    rng = random.Random(1)
    folder = tmp_path_factory.mktemp("counted") / "t-0"
    values = [rng.randbytes(1024) for _ in range(16)]
    segments = []
    for segment in range(SEGMENTS):
        made = []
        for batch in range(BATCHES):
            base = (segment * BATCHES + batch) * 16
            records = [Record(None, value, timestamp=TIME + (base + n) * SECOND) for n, value in enumerate(values)]
            made.append(encode_batch(records, base_offset=base))
        segments.append(made)
    log_files.write_partition(folder, segments)
    return open_log(storage, str(folder), "t", 0)


END = SEGMENTS * BATCHES * 16


@contextmanager
def counted(storage: Any) -> Iterator[Any]:
    storage.reset()
    yield storage


def needed(log: PartitionLog, start: int, end: int) -> int:
    """Bytes of the batches that hold a range: all have the same size."""
    size = log.segments[0].size // BATCHES
    return (-(-end // 16) - start // 16) * size


def read(storage: Any, log: PartitionLog, start: int, end: int, **hints: Any) -> int:
    return sum(len(found.records) for found in record_sets(storage, log, start, end, read_committed=False, **hints))


def without_indexes(log_files: Any, log: PartitionLog, folder: Path) -> PartitionLog:
    folder.mkdir()
    for segment in log.segments:
        (folder / Path(segment.path).name).symlink_to(segment.path)
    return open_log(log_files.CountingStorage(), str(folder), "t", 0)


@pytest.mark.parametrize(
    ("start", "length"), [(9_000, 600), (3_990, 2_000), (20_010, 12_000), (0, 700), (END - 900, 900)]
)
def test_a_range_reads_little_more_than_it_needs(storage: Any, log: PartitionLog, start: int, length: int) -> None:
    with counted(storage) as told:
        read(told, log, start, start + length)
    assert sum(size for _, _, size in told.reads) <= 1.5 * needed(log, start, start + length)
    holding = {s.path for s in log.segments if s.base_offset < start + length and s.base_offset + BATCHES * 16 > start}
    assert {path for path in told.opened if path.endswith(".log")} == holding
    # Of each segment its windows; of the first a look at where the range begins; of two of them their indexes; of the
    # log's last one a check for zeros at its end.
    windows = sum(-(-log.segments[0].size // WINDOW_BYTES) for _ in holding)
    assert len(told.reads) <= windows + 1 + 2 + 1 + (log.segments[-1].path in holding)
    assert all(told.opened.count(path) == 1 for path in holding)


def test_a_task_with_a_place_reads_no_index(storage: Any, log: PartitionLog) -> None:
    parts = cut(storage, segment_ranges(storage, log, 500, END - 500), 500, END - 500, part_bytes=2 * MB)
    assert len(parts) > SEGMENTS
    for part in parts:
        with counted(storage) as told:
            read(told, log, part.start, part.end, start_hint=part.start_hint, end_hint=part.end_hint)
        assert all(path.endswith(".log") for path in told.opened)
        assert told.bytes_of(".log") <= 1.1 * needed(log, part.start, part.end)
        assert len(told.reads) <= 2 + 2  # two segments at most, a read where it begins, and one more batch


def test_without_an_index_twice_as_much_is_read_at_most_behind_the_start(
    storage: Any, log: PartitionLog, log_files: Any, tmp_path: Path
) -> None:
    """The way to the start is a walk over headers; from there on windows grow with what was needed."""
    bare = without_indexes(log_files, log, tmp_path / "t-0")
    base = bare.segments[4].base_offset
    for length in (600, 2_000, 3_000):
        with counted(storage) as told:
            read(told, bare, base, base + length)
        assert told.bytes_of(".log") <= 2 * needed(log, base, base + length)


@pytest.mark.parametrize("hour", [0, 3, 7])
def test_an_hour_opens_the_segments_that_hold_it(storage: Any, log: PartitionLog, hour: int) -> None:
    with counted(storage) as told:
        times = [TIME + (hour + n) * 3600 * SECOND for n in (0, 1)]
        first, last = (offset_for_time(told, log, time) for time in times)
    assert first is not None
    assert last is not None
    assert (first.offset, last.offset) == (hour * 3600, (hour + 1) * 3600)
    # Each segment before is older as a whole: its last index entries say so, and the batch that they name agrees.
    before = sum(segment.base_offset <= last.offset for segment in log.segments)
    assert told.bytes_of(".log") <= 2 * before * 3 * 40 * 1024
    planned = sum(size for _, _, size in told.reads)
    with counted(storage) as told:
        read(told, log, first.offset, last.offset)
    holding = {
        s.path for s in log.segments if s.base_offset < last.offset and s.base_offset + BATCHES * 16 > first.offset
    }
    assert {path for path in told.opened if path.endswith(".log")} == holding
    assert sum(size for _, _, size in told.reads) <= 1.1 * needed(log, first.offset, last.offset)
    assert planned < needed(log, first.offset, last.offset)


def test_the_log_s_end_is_looked_for_in_the_last_segment_alone(storage: Any, log: PartitionLog) -> None:
    with counted(storage) as told:
        assert log_end_offset(told, log) == END
    last = f"{log.segments[-1].base_offset:020d}"
    assert {Path(path).name for path in told.opened} == {f"{last}.log", f"{last}.index"}
    assert len(told.reads) <= 4
    assert told.bytes_of(".log") <= 64 * 1024


def test_the_last_stable_offset_needs_the_newest_snapshot_and_what_stands_behind_it(
    storage: Any, log: PartitionLog
) -> None:
    with counted(storage) as told:
        assert last_stable_offset(told, log) == END
    assert len({path for path, _, _ in told.reads if path.endswith(".snapshot")}) == 1
    assert told.names(".log") == {Path(log.segments[-1].path).name}
    assert told.bytes_of(".log") <= 2 * 64 * 1024


def test_an_index_that_was_allocated_in_full_is_not_read_in_full(
    storage: Any, log: PartitionLog, log_files: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    for path in Path(log.folder).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    index = folder / f"{log.segments[-1].base_offset:020d}.index"
    index.write_bytes(index.read_bytes() + bytes(10 * MB))
    active = open_log(storage, str(folder), "t", 0)
    with counted(storage) as told:
        assert log_end_offset(told, active) == END
        read(told, active, END - 2000, END - 100)
    assert told.bytes_of(".index") < MB // 2


def test_batches_of_some_mebibytes_are_read_once(log_files: Any, storage: Any, tmp_path: Path) -> None:
    """A window of 8 MiB holds one batch of 5 MB and the beginning of another."""
    value = random.Random(2).randbytes(5_000_000)
    made = [encode_batch([Record(None, value)], base_offset=number) for number in range(8)]
    log_files.write_partition(tmp_path / "t-0", [made])
    (tmp_path / "t-0" / f"{0:020d}.index").unlink()
    large = open_log(storage, str(tmp_path / "t-0"), "t", 0)
    with counted(storage) as told:
        assert read(told, large, 0, 8) == sum(map(len, made))
    assert told.bytes_of(".log") < 1.3 * sum(map(len, made))


def test_looking_ahead_opens_no_file_for_each_window(log_files: Any, storage: Any, tmp_path: Path) -> None:
    """Every window ends within a transaction, whose marker stands behind it."""
    value = random.Random(3).randbytes(16_000)
    made = []
    for number in range(100):
        base = number * 3
        made += [
            encode_batch(
                [Record(None, value)] * 2, base_offset=base, producer_id=number, producer_epoch=0, transactional=True
            ),
            encode_control_batch(COMMIT_MARKER, base_offset=base + 2, producer_id=number),
        ]
    log_files.write_partition(tmp_path / "t-0", [made[:100], made[100:]])
    folder = open_log(storage, str(tmp_path / "t-0"), "t", 0)
    with counted(storage) as told:
        windows = list(record_sets(told, folder, 0, 300, read_committed=True, window_bytes=33_000, piece_bytes=4096))
    assert len(windows) > 50
    assert len([path for path in told.opened if path.endswith(".log")]) <= 5
