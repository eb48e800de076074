"""Whatever happens to a log's bytes, the answer is the right one or an error that names file and place: never another.

A small log of three segments in all message formats, with transactions that are committed, aborted, interleaved over
segments and open, is damaged in every way. What is asked is what a job asks: the rows up to the end that files tell.
"""

from __future__ import annotations

import itertools
import pickle
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import crc32c
import pytest

from control_batches import encode_control_batch
from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.errors import LogDamaged, LogFileError
from kseg.segment_reader.log.files.segments import open_log
from kseg.segment_reader.log.files.storage import LocalStorage
from kseg.segment_reader.log.scan.bounds import last_stable_offset, log_end_offset
from kseg.segment_reader.log.scan.record_sets import record_sets

Isolation = Literal["read_committed", "read_uncommitted"]
Row = tuple[int, bytes | None, bytes | None]
ISOLATION: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")
STORAGE: Final = LocalStorage()


class Writer:
    """Appends batches to segments, by offset."""

    def __init__(self) -> None:
        self.offset = 0
        self.segments: dict[int, list[bytes]] = {}
        self.opened: dict[int, int] = {}

    def roll(self) -> None:
        self.segments[self.offset] = []

    def add(self, data: bytes, count: int) -> None:
        self.segments[max(self.segments)].append(data)
        self.offset += count

    def messages(self, magic: Literal[0, 1], codec: str, count: int) -> None:
        self.add(
            encode_message_set(self.records(count), magic=magic, compression=codec, base_offset=self.offset), count
        )

    def batch(self, count: int, codec: str = "none", size: int = 8) -> None:
        self.add(encode_batch(self.records(count, size), compression=codec, base_offset=self.offset), count)

    def transactional(self, producer: int, count: int, size: int = 8) -> None:
        self.opened.setdefault(producer, self.offset)
        data = encode_batch(
            self.records(count, size),
            base_offset=self.offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        self.add(data, count)

    def end(self, producer: int, marker: int) -> None:
        del self.opened[producer]
        self.add(encode_control_batch(marker, base_offset=self.offset, producer_id=producer), 1)

    def records(self, count: int, size: int = 8) -> list[Record]:
        return [
            Record(key=b"k%d" % n, value=b"%d " % (self.offset + n) + b"v" * size, timestamp=1_000_000 + n)
            for n in range(count)
        ]

    def snapshot(self) -> bytes:
        entries = b"".join(
            struct.pack(">qhiqiqiq", producer, 0, 0, first, 0, 1_000_000, 0, first)
            for producer, first in self.opened.items()
        )
        body = struct.pack(">i", len(self.opened)) + entries
        return struct.pack(">hI", 1, crc32c.crc32c(body)) + body

    def write(self, folder: Path) -> None:
        for base, batches in self.segments.items():
            (folder / f"{base:020d}.log").write_bytes(b"".join(batches))


def written(folder: Path, *, with_snapshot: bool = False) -> Writer:
    log = Writer()
    log.roll()
    log.messages(0, "none", 2)
    log.messages(0, "gzip", 3)
    log.messages(1, "none", 2)
    log.messages(1, "lz4", 3)
    log.transactional(1, 2)
    log.roll()
    log.transactional(2, 2)
    log.transactional(1, 2)
    log.end(1, ABORT_MARKER)
    log.batch(3, "zstd")
    log.transactional(1, 2, 600)
    log.end(2, COMMIT_MARKER)
    log.roll()
    if with_snapshot:
        (folder / f"{log.offset:020d}.snapshot").write_bytes(log.snapshot())
    log.end(1, COMMIT_MARKER)
    log.transactional(2, 2)
    log.batch(2, "snappy")
    log.end(2, ABORT_MARKER)
    log.batch(2)
    log.transactional(3, 2)
    log.batch(2)
    log.write(folder)
    return log


class Absent(Exception):
    """Offsets that no batch tells about: a job stops at them where the log is not compacted."""


def answer(folder: Path, isolation: Isolation, start: int = 0, end: int | None = None) -> list[Row]:
    """The rows that a job would land: up to the end that the files tell."""
    log = open_log(STORAGE, str(folder), "topic", 0)
    if end is None:
        end = last_stable_offset(STORAGE, log) if isolation == "read_committed" else log_end_offset(STORAGE, log)
    decoder = RangeDecoder("topic", 0, start, max(start, end), isolation_level=isolation)
    rows: list[Row] = []
    for found in record_sets(STORAGE, log, start, end, read_committed=isolation == "read_committed"):
        if not found.records:
            decoder.skip_to(found.next_offset)
        for batch in decoder.feed(found.records, found.aborted):
            rows += as_rows(batch)
    for batch in decoder.finish():
        rows += as_rows(batch)
    if decoder.counts.absent:
        raise Absent(decoder.gaps)
    return rows


def as_rows(batch: Any) -> list[Row]:
    return list(zip(*(batch.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True))


def told(folder: Path, isolation: Isolation, start: int = 0, end: int | None = None) -> list[Row] | None:
    """The rows, or None where the damage is told."""
    try:
        return answer(folder, isolation, start, end)
    except Absent:
        return None
    except (LogFileError, RecordFormatError) as error:
        require_address(error, folder)
        return None


def require_address(error: LogFileError | RecordFormatError, folder: Path) -> None:
    """An error crosses processes as it is, and names file, position, base offset and reason."""
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.reason) == (type(error), str(error), error.reason)
    assert error.reason in str(error)
    if isinstance(error, LogDamaged):
        assert str(folder) in error.file
        assert error.position is not None
        assert error.base_offset is not None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "topic-0"
    made.mkdir()
    return made


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def damages(data: bytes, step: int) -> Iterator[tuple[int, int]]:
    """(byte, bit): every bit of headers, one in a body's byte."""
    for at in range(0, len(data), step):
        for bit in (0x01, 0x02, 0x10, 0x80):
            yield at, bit


@pytest.mark.parametrize("with_snapshot", [False, True], ids=["", "snapshot"])
def test_every_flipped_bit_is_told_or_harmless(
    folder: Path, scale: Callable[[int, int], int], with_snapshot: bool
) -> None:
    """Whole log, up to the end that it tells itself. Two exceptions have no evidence against them in the log: where its
    very last batch begins, and a leader epoch, which no row has."""
    log = written(folder, with_snapshot=with_snapshot)
    right = {isolation: answer(folder, isolation) for isolation in ISOLATION}
    assert right["read_committed"] != right["read_uncommitted"]
    assert all(0 < len(rows) < log.offset for rows in right.values())
    faults = 0
    for path in logs(folder):
        data = path.read_bytes()
        for at, bit in damages(data, scale(11, 1)):
            changed = bytearray(data)
            changed[at] ^= bit
            path.write_bytes(changed)
            for isolation in ISOLATION:
                rows = told(folder, isolation)
                faults += rows is None
                assert rows in (None, right[isolation]), f"{path.name}, byte {at}, bit {bit:#x}, {isolation}"
        path.write_bytes(data)
    assert faults > scale(450, 1000)


def test_a_flipped_bit_behind_a_range_changes_no_row_of_it(folder: Path, scale: Callable[[int, int], int]) -> None:
    """Ranges whose transactions are decided behind them: what decides must not be believed when it is damaged."""
    log = written(folder)
    ranges = [(11, 15), (12, 20), (0, 30)]
    right = {(one, isolation): answer(folder, isolation, *one) for one in ranges for isolation in ISOLATION}
    assert log.offset > 30
    for path in logs(folder):
        data = path.read_bytes()
        for at, bit in damages(data, scale(23, 1)):
            changed = bytearray(data)
            changed[at] ^= bit
            path.write_bytes(changed)
            for (one, isolation), rows in right.items():
                assert told(folder, isolation, *one) in (None, rows), f"{path.name}, {at}, {bit:#x}, {one}, {isolation}"
        path.write_bytes(data)


def test_every_length_of_a_cut_log_gives_its_beginning(folder: Path, scale: Callable[[int, int], int]) -> None:
    """Cut in its last segment it ends earlier; the rows are those before that, decided as far as its markers are
    there."""
    written(folder)
    path = logs(folder)[-1]
    data, base = path.read_bytes(), int(path.stem)
    right = answer(folder, "read_uncommitted")
    committed = answer(folder, "read_committed")
    ends = set()
    for length in (*range(0, len(data), scale(3, 1)), len(data)):
        path.write_bytes(data[:length])
        rows = answer(folder, "read_uncommitted")
        assert rows == right[: len(rows)]
        assert len(rows) >= sum(row[0] < base for row in right)
        stable = answer(folder, "read_committed")
        assert stable == committed[: len(stable)]
        ends.add(len(rows))
    assert len(ends) == 6


@pytest.mark.parametrize("number", [0, 1])
def test_every_length_of_a_cut_segment_is_told(folder: Path, number: int, scale: Callable[[int, int], int]) -> None:
    written(folder)
    path = logs(folder)[number]
    data = path.read_bytes()
    for length, isolation in itertools.product(range(0, len(data), scale(3, 1)), ISOLATION):
        path.write_bytes(data[:length])
        assert told(folder, isolation) is None, length


def test_zeros_over_any_part_of_a_tail_are_told_or_the_end(folder: Path, scale: Callable[[int, int], int]) -> None:
    """Zeros may be preallocated: behind a whole batch they end the log, within one they are damage."""
    written(folder)
    right = {isolation: answer(folder, isolation) for isolation in ISOLATION}
    for path in logs(folder):
        last = path == logs(folder)[-1]
        data = path.read_bytes()
        for kept, isolation in itertools.product(range(0, len(data), scale(3, 1)), ISOLATION):
            path.write_bytes(data[:kept] + bytes(len(data) - kept))
            rows = told(folder, isolation)
            if rows is not None:
                assert rows == right[isolation][: len(rows)]
                assert last or len(rows) == len(right[isolation]), f"{path.name}, zeros from {kept}"
        path.write_bytes(data + bytes(5000))
        for isolation in ISOLATION:
            assert told(folder, isolation) == right[isolation]
        path.write_bytes(data)


def test_segments_in_each_other_s_place_are_told(folder: Path) -> None:
    written(folder)
    contents = {path: path.read_bytes() for path in logs(folder)}
    for order in itertools.permutations(contents):
        if list(order) == list(contents):
            continue
        for path, source in zip(contents, order, strict=True):
            path.write_bytes(contents[source])
        assert [told(folder, isolation) for isolation in ISOLATION] == [None, None], [path.name for path in order]


def test_a_segment_under_another_s_name_is_told(folder: Path) -> None:
    written(folder)
    right = {isolation: answer(folder, isolation) for isolation in ISOLATION}
    bases = [int(path.stem) for path in logs(folder)]
    for path in logs(folder):
        for base in (0, 1, 5, 10, 13, 14, 20, 26, 27, 28, 29, 33, 40, 1 << 40):
            if base in bases:
                continue
            other = path.with_name(f"{base:020d}.log")
            path.rename(other)
            for isolation in ISOLATION:
                assert told(folder, isolation) in (None, right[isolation]), f"{path.name} as {base}"
            other.rename(path)


def test_segments_that_overlap_are_told(folder: Path) -> None:
    """One that begins within another one's offsets, with the same batches or with others."""
    log = written(folder)
    second = sorted(log.segments)[1]
    batches = log.segments[second]
    base = second + 4
    for content in (batches[2:], [encode_batch([Record(value=b"other")], base_offset=base)]):
        (folder / f"{base:020d}.log").write_bytes(b"".join(content))
        for isolation in ISOLATION:
            assert told(folder, isolation) is None
            assert told(folder, isolation, second, second + 6) is None


def test_a_segment_that_is_missing_is_told(folder: Path) -> None:
    written(folder)
    logs(folder)[1].unlink()
    for isolation in ISOLATION:
        assert told(folder, isolation) is None


def test_a_batch_that_moved_up_does_not_stand_for_others(folder: Path) -> None:
    """One with a flipped offset is not read as what it claims, where the range ends before the next one contradicts."""
    log = Writer()
    log.roll()
    for _ in range(4):
        log.batch(4)
    log.write(folder)
    (path,) = logs(folder)
    data = bytearray(path.read_bytes())
    data[7] = 64  # the first batch now claims offsets 64 to 67
    path.write_bytes(data)
    for isolation in ISOLATION:
        assert told(folder, isolation, 65, 67) is None
        assert told(folder, isolation, 0, 3) is None


def test_an_abort_behind_a_wrong_length_is_not_passed_over(folder: Path) -> None:
    """The next transaction's COMMIT must not count for the one whose ABORT could not be seen."""
    log = Writer()
    log.roll()
    log.transactional(7, 3)
    log.batch(2, size=3000)
    log.end(7, ABORT_MARKER)
    log.roll()
    log.transactional(7, 3)
    log.end(7, COMMIT_MARKER)
    log.write(folder)
    path = logs(folder)[0]
    data = bytearray(path.read_bytes())
    at = len(log.segments[0][0]) + 8
    assert told(folder, "read_committed", 0, 3) == []
    data[at] ^= 0x01  # the large batch now runs far behind the file's end
    path.write_bytes(data)
    assert told(folder, "read_committed", 0, 3) is None


def test_a_large_batch_that_claims_to_be_a_marker_is_told(folder: Path) -> None:
    """A record's key may be four zeros; with a flipped control bit its batch would abort a transaction before it."""
    log = Writer()
    log.roll()
    log.transactional(7, 2)
    records = [Record(key=bytes(4), value=b"x" * 5000)]
    fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 2, "transactional": True}
    log.add(encode_batch(records, base_offset=log.offset, **fields), 1)
    log.end(7, COMMIT_MARKER)
    log.write(folder)
    right = told(folder, "read_committed", 0, 2)
    (path,) = logs(folder)
    data = bytearray(path.read_bytes())
    data[len(log.segments[0][0]) + 22] ^= 0x20
    path.write_bytes(data)
    assert right is not None
    assert told(folder, "read_committed", 0, 2) in (None, right)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_that_are_overwritten_are_told_or_harmless(
    folder: Path, scale: Callable[[int, int], int], seed: int
) -> None:
    """Runs of random bytes, and pieces of the log itself in other places."""
    rng = random.Random(seed)
    written(folder)
    right = {isolation: answer(folder, isolation) for isolation in ISOLATION}
    for _ in range(scale(60, 2000)):
        path = rng.choice(logs(folder))
        data = path.read_bytes()
        at = rng.randrange(len(data))
        size = rng.choice([1, 2, 4, 8, 30, 100])
        source = rng.choice([rng.randbytes(size), bytes(size), data[rng.randrange(len(data)) :][:size]])
        changed = (data[:at] + source + data[at + len(source) :])[: len(data)]
        path.write_bytes(changed)
        for isolation in ISOLATION:
            rows = told(folder, isolation)
            if rows != right[isolation] and rows is not None:
                # What the last segment's end lost looks as if it had never been written.
                assert path == logs(folder)[-1], at
                assert rows == right[isolation][: len(rows)]
        path.write_bytes(data)
