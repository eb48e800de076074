"""Transactions that stay open for long: their end is found without reading all headers, and never wrongly."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from control_batches import encode_control_batch
from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.files.segments import PartitionLog, open_log
from kseg.segment_reader.log.files.storage import LocalStorage, Storage
from kseg.segment_reader.log.scan.record_sets import record_sets

STORAGE = LocalStorage()
LONG, OTHER = 7, 8


class Writer:
    """Batches of a log, segment by segment, and which of its rows a read_committed reader gets."""

    def __init__(self, size: int = 200) -> None:
        self.segments: list[list[bytes]] = [[]]
        self.offset = 0
        self._rng = random.Random(3)
        self._size = size
        self._open: dict[int, list[int]] = {}
        self.committed: list[int] = []
        self._sequences: dict[tuple[int, int], int] = {}

    def data(self, producer: int, *, epoch: int = 0, records: int = 2) -> None:
        sequence = self._sequences.get((producer, epoch), 0)
        self._sequences[producer, epoch] = sequence + records
        self.segments[-1].append(
            encode_batch(
                [Record(None, self._rng.randbytes(self._size)) for _ in range(records)],
                base_offset=self.offset,
                producer_id=producer,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=True,
            )
        )
        self._open.setdefault(producer, []).extend(range(self.offset, self.offset + records))
        self.offset += records

    def end(self, producer: int, kind: int, *, epoch: int = 0) -> None:
        self.segments[-1].append(
            encode_control_batch(kind, base_offset=self.offset, producer_id=producer, producer_epoch=epoch)
        )
        written = self._open.pop(producer, [])
        self.committed += written if kind == COMMIT_MARKER else []
        self.offset += 1

    def others(self, transactions: int) -> None:
        for number in range(transactions):
            self.data(OTHER)
            self.end(OTHER, ABORT_MARKER if number % 5 == 0 else COMMIT_MARKER)

    def roll(self) -> None:
        self.segments.append([])

    def write(self, log_files: Any, folder: Path) -> PartitionLog:
        log_files.write_partition(folder, self.segments, interval=400)
        return open_log(STORAGE, str(folder), "t", 0)


def rows(
    log: PartitionLog, start: int, end: int, *, storage: Storage = STORAGE, read_ahead_bytes: int = 0, **options: Any
) -> list[int]:
    decoder = RangeDecoder("t", 0, start, end, isolation_level="read_committed")
    found: list[int] = []
    options |= {"read_committed": True, "read_ahead_bytes": read_ahead_bytes}
    for answer in record_sets(storage, log, start, end, **options):
        for batch in decoder.feed(answer.records, answer.aborted):
            found += batch.column("offset").to_pylist()
    for batch in decoder.finish():
        found += batch.column("offset").to_pylist()
    return found


def check(log: PartitionLog, written: Writer, start: int, end: int) -> None:
    expected = sorted(offset for offset in written.committed if start <= offset < end)
    for window in (1, 1 << 20):
        assert rows(log, start, end, window_bytes=window, piece_bytes=1) == expected, (start, end, window)


def idle(kind: int = ABORT_MARKER, *, marker_epoch: int = 0) -> Writer:
    """A transaction that writes at once, and ends five segments later."""
    log = Writer()
    log.others(3)
    log.data(LONG)
    log.others(40)
    for _ in range(5):
        log.roll()
        log.others(40)
    log.end(LONG, kind, epoch=marker_epoch)
    log.others(60)
    log.roll()
    log.others(5)
    return log


def busy(kind: int) -> Writer:
    """One that writes to each of seven segments."""
    log = Writer()
    for number in range(7):
        log.data(LONG)
        log.others(30)
        log.data(LONG)
        if number < 6:
            log.roll()
    log.end(LONG, kind)
    log.others(5)
    log.roll()
    log.others(3)
    return log


def confusing() -> Writer:
    """Two transactions of one producer end in one segment: were the second's entry to name the first's offset (one byte
    of it, or two), the first would seem to be aborted too. And a marker without data, which ends nothing."""
    log = Writer()
    log.data(LONG)  # offset 0
    log.others(20)
    log.roll()
    log.others(20)
    log.end(LONG, COMMIT_MARKER)
    log.others(2)
    log.data(LONG)
    log.others(2)
    log.end(LONG, ABORT_MARKER)
    log.end(LONG, ABORT_MARKER)
    log.others(10)
    log.roll()
    log.data(LONG)
    log.others(30)
    log.roll()
    log.others(9)
    log.end(LONG, ABORT_MARKER)
    log.end(LONG, COMMIT_MARKER)
    log.others(9)
    log.roll()
    log.others(2)
    return log


@pytest.mark.parametrize(
    "written",
    [idle(), idle(COMMIT_MARKER), idle(marker_epoch=1), busy(ABORT_MARKER), busy(COMMIT_MARKER), confusing()],
    ids=["idle", "idle-committed", "idle-fenced", "busy", "busy-committed", "confusing"],
)
def test_rows_are_right_from_anywhere(written: Writer, log_files: Any, tmp_path: Path) -> None:
    log = written.write(log_files, tmp_path / "t-0")
    rng = random.Random(1)
    for _ in range(25):
        check(log, written, *sorted(rng.sample(range(written.offset + 1), 2)))


def test_reading_ahead_goes_on_where_it_stopped_some_segments_later(log_files: Any, tmp_path: Path) -> None:
    """Transactions that overlap, each over three segments: the next began in what was read ahead for the one before."""
    log = Writer()
    for number in range(12):
        log.data(100 + number)
        log.others(5)
        if number >= 2:
            log.end(100 + number - 2, COMMIT_MARKER if number % 2 else ABORT_MARKER)
        log.others(5)
        log.roll()
    for number in (10, 11):
        log.end(100 + number, COMMIT_MARKER)
    written = log.write(log_files, tmp_path / "t-0")
    for window in (1, 3000, 1 << 20):
        found = rows(written, 0, log.offset, window_bytes=window, piece_bytes=1, read_ahead_bytes=1 << 40)
        assert found == sorted(log.committed)


def read_of(storage: Any, log: PartitionLog, end: int) -> int:
    storage.reset()
    rows(log, 0, end, storage=storage)
    return sum(size for path, _, size in storage.reads if path.endswith(".log"))


def without(log: PartitionLog, folder: Path, *endings: str) -> PartitionLog:
    shutil.copytree(log.folder, folder)
    for ending in endings:
        for path in folder.glob(f"*.{ending}"):
            path.unlink()
    return open_log(STORAGE, str(folder), "t", 0)


def large(kind: int = ABORT_MARKER, *, busy: bool = False, marker_epoch: int = 0) -> Writer:
    """Ten segments of a megabyte; the transaction ends in the last but one."""
    log = Writer(size=4000)
    log.data(LONG)
    log.others(20)
    for _ in range(9):
        log.roll()
        if busy:
            log.data(LONG)
        log.others(110)
    log.end(LONG, kind, epoch=marker_epoch)
    log.roll()
    log.others(10)
    return log


def test_an_index_of_aborted_transactions_shortens_the_way(log_files: Any, tmp_path: Path) -> None:
    written = large()
    log = written.write(log_files, tmp_path / "t-0")
    storage = log_files.CountingStorage()
    size = sum(map(len, written.segments[0]))
    whole = read_of(storage, without(log, tmp_path / "bare", "txnindex", "snapshot"), 10)
    assert whole > 0.9 * sum(segment.size for segment in log.segments[:-1])
    shortened = read_of(storage, log, 10)
    # The beginning of the log, a look ahead, and the marker; of the segments between nothing at all.
    assert shortened < size + 2 * 64 * 1024 + 3 * 64 * 1024
    assert len({path for path, _, _ in storage.reads if path.endswith(".log")}) == 2
    assert len(storage.reads) < 20
    # Two snapshots enclose the marker: without the index their segment's headers are read.
    enclosed = read_of(storage, without(log, tmp_path / "no-index", "txnindex"), 10)
    assert shortened < enclosed < whole / 3


@pytest.mark.parametrize(
    "written", [large(COMMIT_MARKER), large(busy=True), large(marker_epoch=1)], ids=["committed", "busy", "fenced"]
)
def test_snapshots_alone_shorten_the_way(written: Writer, log_files: Any, tmp_path: Path) -> None:
    log = written.write(log_files, tmp_path / "t-0")
    storage = log_files.CountingStorage()
    whole = read_of(storage, without(log, tmp_path / "bare", "txnindex", "snapshot"), 10)
    assert read_of(storage, log, 10) < whole / 3


def changes(data: bytes, every: int) -> list[bytes]:
    """Each byte changed in three ways, and to each value that another entry has in that place; each truncation."""
    entries = [data[at : at + 34] for at in range(0, len(data), 34)]
    made = []
    for at in range(len(data)):
        values = {data[at] ^ 0x01, data[at] ^ 0x80, data[at] ^ 0xFF, *(entry[at % 34] for entry in entries), 0}
        made += [data[:at] + bytes([value]) + data[at + 1 :] for value in sorted(values - {data[at]})]
    return made[::every] + [data[:length] for length in range(0, len(data), every)]


@pytest.mark.parametrize("written", [idle(), confusing()], ids=["idle", "confusing"])
def test_no_byte_of_an_index_of_aborted_transactions_lands_an_aborted_row(
    written: Writer, log_files: Any, tmp_path: Path, scale: Callable[[int, int], int]
) -> None:
    log = written.write(log_files, tmp_path / "t-0")
    end = written.offset
    tried = 0
    for segment in log.segments:
        if "txnindex" not in segment.others:
            continue
        path = Path(segment.others["txnindex"])
        whole = path.read_bytes()
        mine = [at for at in range(0, len(whole), 34) if int.from_bytes(whole[at + 2 : at + 10], "big") == LONG]
        if not mine:
            continue
        # The long one's own entries, with another's beside them.
        few = b"".join(whole[at : at + 34] for at in sorted({*mine, 0}))
        for changed in changes(few, scale(7, 1)):
            path.write_bytes(changed)
            assert rows(log, 0, end) == sorted(written.committed)
            tried += 1
        path.write_bytes(whole)
    assert tried > 30


def test_entries_that_name_another_transaction_s_marker_are_not_believed(log_files: Any, tmp_path: Path) -> None:
    """Whole entries forged: every first and last offset that any of the entries has."""
    written = confusing()
    log = written.write(log_files, tmp_path / "t-0")
    second = Path(log.segments[1].others["txnindex"])
    entries = [second.read_bytes()[at : at + 34] for at in range(0, second.stat().st_size, 34)]
    (own,) = [entry for entry in entries if int.from_bytes(entry[2:10], "big") == LONG]
    for offset in range(0, written.offset, 3):
        second.write_bytes(own[:10] + offset.to_bytes(8, "big") + own[18:])
        assert rows(log, 0, written.offset) == sorted(written.committed)
        second.write_bytes(own[:18] + offset.to_bytes(8, "big") + own[26:])
        assert rows(log, 0, written.offset) == sorted(written.committed)
