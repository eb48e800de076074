"""Room that was allocated ahead of a log's end, and batches whose first pages alone were written into it."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from control_batches import encode_control_batch
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.decode.batch import COMMIT_MARKER, RECORDS_AT
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.damage.check import PartitionCheck, check_partition
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.preallocation import PAGE_BYTES, open_segment
from kseg.segment_reader.log.files.segments import open_log
from kseg.segment_reader.log.files.storage import LocalStorage
from kseg.segment_reader.log.scan.bounds import last_stable_offset, log_end_offset
from kseg.segment_reader.log.scan.record_sets import record_sets

STORAGE: Final = LocalStorage()
ZEROS: Final = bytes(10 * PAGE_BYTES)
CODECS: Final = list(BY_NAME)


def records(count: int, size: int = 200) -> list[Record]:
    noise = random.Random(5)  # which no codec makes small
    return [Record(key=b"k%d" % n, value=noise.randbytes(size), timestamp=1_000_000 + n) for n in range(count)]


def whole(fill: int = 0) -> bytes:
    """What was written before: a committed transaction in offsets 0 to 5. fill: one more byte each in front."""
    first = [Record(key=None, value=b"f" * fill, timestamp=1_000_000), *records(4)]
    sent = encode_batch(first, base_offset=0, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    return sent + encode_control_batch(COMMIT_MARKER, base_offset=5, producer_id=7)


def last_batches() -> dict[str, bytes]:
    made = {f"v2-{codec}": encode_batch(records(120), compression=codec, base_offset=6) for codec in CODECS}
    made |= {
        f"v{magic}-{codec}": encode_message_set(records(60), magic=magic, compression=codec, base_offset=6)
        for magic in (0, 1)
        for codec in ("gzip", "snappy")
    }
    made["transactional"] = encode_batch(
        records(60), base_offset=6, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True
    )
    return made


LAST: Final = last_batches()


class Absent(Exception):
    """Offsets that no batch tells about: a job stops at them where the log is not compacted."""


class Folder:
    """A partition's folder with one segment."""

    def __init__(self, path: Path) -> None:
        self.path = path / "t-0"
        self.path.mkdir()
        self.file = self.path / f"{0:020d}.log"

    def holds(self, data: bytes) -> None:
        self.file.write_bytes(data)

    @property
    def end(self) -> int:
        return log_end_offset(STORAGE, open_log(STORAGE, str(self.path), "t", 0))

    def rows(self, end: int, isolation: str = "read_committed") -> list[int]:
        """The offsets that a reader of [0, end) gets."""
        log = open_log(STORAGE, str(self.path), "t", 0)
        decoder = RangeDecoder("t", 0, 0, end, isolation_level=isolation)  # type: ignore[arg-type]
        batches = []
        for given in record_sets(STORAGE, log, 0, end, read_committed=isolation == "read_committed"):
            batches += decoder.feed(given.records, given.aborted)
        batches += decoder.finish()
        if decoder.counts.absent:
            raise Absent(decoder.gaps)
        return [offset for batch in batches for offset in batch.column("offset").to_pylist()]

    def check(self) -> PartitionCheck:
        return check_partition(STORAGE, str(self.path), "t", 0, deep=True)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def assert_torn(folder: Folder, before: int, written: int) -> None:
    """The log ends before the batch that begins at `before`, and its pages up to `written` are no damage."""
    assert folder.end == 6
    assert last_stable_offset(STORAGE, open_log(STORAGE, str(folder.path), "t", 0)) == 6
    assert folder.rows(6) == folder.rows(6, "read_uncommitted") == [0, 1, 2, 3, 4]
    told = folder.check()
    assert told.faults == []
    assert (told.log_end_offset, told.batches, told.open_transactions) == (6, 2, [])
    assert told.notes == [
        f"{folder.file}, byte {before}: {written - before} bytes of a batch that was being written (unclean stop)"
    ]


@pytest.mark.parametrize("kind", LAST)
def test_a_batch_of_which_the_first_pages_were_written_is_cut_off(folder: Folder, kind: str) -> None:
    before, batch = len(whole()), LAST[kind]
    pages = range(PAGE_BYTES, before + len(batch), PAGE_BYTES)
    assert len(pages) >= 1
    for page in pages:
        data = (whole() + batch)[:page]
        folder.holds(data + bytes(before + len(batch) - page) + ZEROS)
        assert_torn(folder, before, page)


@pytest.mark.parametrize("kind", LAST)
def test_a_batch_that_is_whole_is_read_whatever_it_ends_with(folder: Folder, kind: str) -> None:
    for zeros in (b"", bytes(1), bytes(100), bytes(PAGE_BYTES), ZEROS):
        folder.holds(whole() + LAST[kind] + zeros)
        count = {"v2": 120, "v0": 60, "v1": 60, "tr": 60}[kind[:2]]
        assert folder.end == 6 + count
        assert folder.rows(folder.end, "read_uncommitted") == [0, 1, 2, 3, 4, *range(6, 6 + count)]
        assert folder.check().faults == []


def test_a_whole_batch_may_end_in_pages_of_zeros(folder: Folder) -> None:
    zeros = encode_batch([Record(key=None, value=bytes(5 * PAGE_BYTES), timestamp=1)], base_offset=6)
    folder.holds(whole() + zeros + ZEROS)
    assert folder.end == 7
    assert folder.rows(7)[-1] == 6
    assert folder.check().faults == []


def test_a_header_may_be_written_half(folder: Folder) -> None:
    most = PAGE_BYTES - len(whole(1000)) + 1000
    for left in range(1, RECORDS_AT + 1):
        before = len(data := whole(most - left))
        assert PAGE_BYTES - before == left
        folder.holds((data + LAST["v2-none"])[:PAGE_BYTES] + ZEROS)
        if any(LAST["v2-none"][:left]):
            assert_torn(folder, before, PAGE_BYTES)
        else:
            assert folder.end == 6  # only zeros of it: preallocated as well


def test_zeros_that_begin_within_a_page_are_damage(folder: Folder) -> None:
    """No write ends there: bytes that were written have gone since."""
    before, batch = len(whole()), LAST["v2-lz4"]
    end = before + len(batch)
    for kept in (before + 100, 2 * PAGE_BYTES - 500, 2 * PAGE_BYTES + 1, end - 1000, end - 100):
        folder.holds((whole() + batch)[:kept] + bytes(end - kept) + ZEROS)
        assert [fault for fault in folder.check().faults if isinstance(fault, LogDamaged)]
        with pytest.raises((LogDamaged, RecordFormatError)):
            folder.rows(folder.end, "read_uncommitted")


def test_a_flipped_bit_before_preallocated_zeros_hides_nothing(
    folder: Folder, scale: Callable[[int, int], int]
) -> None:
    before, batch = len(whole()), LAST["v2-none"]
    data = whole() + batch + ZEROS
    folder.holds(data)
    right = folder.rows(folder.end, "read_uncommitted")
    places = [*range(before, before + RECORDS_AT + 4), *range(before + RECORDS_AT, before + len(batch), 997)]
    for at in places:
        for bit in (0x80, 1) if scale(0, 1) else (1 << at % 8,):
            folder.holds(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
            try:
                found = folder.rows(folder.end, "read_uncommitted")
            except (Absent, LogDamaged, RecordFormatError):
                continue
            assert found == right, (at - before, bit)


def test_zeros_in_a_segment_before_the_last_are_left_to_its_readers(folder: Folder) -> None:
    data = (whole() + LAST["v2-none"])[: 2 * PAGE_BYTES] + ZEROS
    folder.holds(data)
    (folder.path / f"{126:020d}.log").write_bytes(b"")
    first, last = open_log(STORAGE, str(folder.path), "t", 0).segments
    assert (first.is_last, last.is_last) == (False, True)
    with closing(open_segment(STORAGE, first)) as file:
        assert file.size == len(data)
    assert [fault.position for fault in folder.check().faults]
