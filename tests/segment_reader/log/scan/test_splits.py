"""Parts of about so many bytes: whatever the indexes say, all parts together are the range, row by row."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set
from kseg.segment_reader.log.files.segments import PartitionLog, open_log
from kseg.segment_reader.log.files.storage import LocalStorage, Storage
from kseg.segment_reader.log.scan.positions import PositionHint
from kseg.segment_reader.log.scan.record_sets import record_sets
from kseg.segment_reader.log.scan.splits import LogSplit, cut, segment_ranges

STORAGE = LocalStorage()
INTERVAL = 300


def batches(rng: random.Random, offset: int, count: int, *, old: bool) -> tuple[list[bytes], int]:
    """Batches of some hundred bytes with gaps between and in them; `old`: magic 0 and 1 first, as after an upgrade."""
    made: list[bytes] = []
    for number in range(count):
        records = [Record(b"k", rng.randbytes(rng.randrange(1, 120)), timestamp=offset + n) for n in range(4)]
        if old and number < count // 2:
            magic = number % 2
            packed = rng.choice(["none", "gzip"])
            made.append(encode_message_set(records, base_offset=offset, magic=magic, compression=packed))
        else:
            kept = sorted(rng.sample(range(4), rng.randrange(1, 5)))
            made.append(
                encode_batch([records[n] for n in kept], base_offset=offset, offset_deltas=kept, last_offset_delta=3)
            )
        offset += 4 + (rng.randrange(1, 9) if rng.random() < 0.2 else 0)
    return made, offset


@pytest.fixture(scope="module")
def source(log_files: Any, tmp_path_factory: pytest.TempPathFactory) -> PartitionLog:
    """Nine segments: two of old messages, one that is large, and small ones."""
    rng = random.Random(11)
    folder = tmp_path_factory.mktemp("cutting") / "t-0"
    segments, bases, offset = [], [], 100
    for number, count in enumerate((20, 6, 3, 120, 1, 2, 40, 5, 9)):
        base = offset
        made, offset = batches(rng, offset, count, old=number < 2)
        segments.append(made)
        bases.append(base)
        offset += rng.randrange(0, 30)
    log_files.write_partition(folder, segments, interval=INTERVAL, bases=bases)
    return open_log(STORAGE, str(folder), "t", 0)


def read(log: PartitionLog, start: int, end: int, *, storage: Storage = STORAGE, **hints: Any) -> list[Any]:
    decoder = RangeDecoder("t", 0, start, end, isolation_level="read_uncommitted")
    rows: list[Any] = []
    for found in record_sets(storage, log, start, end, read_committed=False, **hints):
        for batch in decoder.feed(found.records):
            rows += zip(*(batch.column(name).to_pylist() for name in ("offset", "value")), strict=True)
    decoder.skip_to(end)
    for batch in decoder.finish():
        rows += zip(*(batch.column(name).to_pylist() for name in ("offset", "value")), strict=True)
    return rows


def end_of(log: PartitionLog) -> int:
    from kseg.segment_reader.log.scan.bounds import log_end_offset

    return log_end_offset(STORAGE, log)


def parts_of(log: PartitionLog, start: int, end: int, part_bytes: int, storage: Storage = STORAGE) -> list[LogSplit]:
    return cut(storage, segment_ranges(storage, log, start, end), start, end, part_bytes=part_bytes)


def check(log: PartitionLog, parts: list[LogSplit], start: int, end: int, expected: list[Any]) -> None:
    assert [part.start for part in parts] + [end] == [start] + [part.end for part in parts]
    assert all(part.start < part.end for part in parts)
    rows = []
    for part in parts:
        rows += read(log, part.start, part.end, start_hint=part.start_hint, end_hint=part.end_hint, window_bytes=2000)
    assert rows == expected


def shifted(data: bytes, size: int) -> bytes:
    """Every entry's position seven bytes further."""
    entries = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(one[:-4] + (int.from_bytes(one[-4:], "big") + 7).to_bytes(4, "big") for one in entries)


DAMAGE: dict[str, Callable[[random.Random, bytes], bytes | None]] = {
    "whole": lambda rng, data: data,
    "missing": lambda rng, data: None,
    "empty": lambda rng, data: b"",
    "stale": lambda rng, data: data[: len(data) // 3],
    "cut": lambda rng, data: data[: len(data) // 2 + 3],
    "ahead": lambda rng, data: (
        data + b"".join((2000 + n).to_bytes(4, "big") + (1 << 20).to_bytes(4, "big") for n in range(9))
    ),
    "allocated": lambda rng, data: data + bytes(4000),
    "shifted": lambda rng, data: shifted(data, 8),
    "noise": lambda rng, data: rng.randbytes(len(data)),
    "backwards": lambda rng, data: b"".join(data[at : at + 8] for at in range(len(data) - 8, -1, -8)),
}


@given(data=st.data())
def test_parts_are_the_range_whatever_the_indexes_say(
    data: st.DataObject, source: PartitionLog, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = random.Random(data.draw(st.integers(0, 1 << 30)))
    folder = tmp_path_factory.mktemp("damaged") / "t-0"
    shutil.copytree(source.folder, folder)
    for path in sorted(folder.glob("*.index")):
        changed = DAMAGE[data.draw(st.sampled_from(sorted(DAMAGE)))](rng, path.read_bytes())
        if changed is None:
            path.unlink()
        else:
            path.write_bytes(changed)
    log = open_log(STORAGE, str(folder), "t", 0)
    end = end_of(source)
    start, end = sorted((data.draw(st.integers(100, end - 1)), data.draw(st.integers(101, end))))
    expected = read(source, start, end) if start < end else []
    check(log, parts_of(log, start, end, data.draw(st.sampled_from([1, 700, 4000, 1 << 30]))), start, end, expected)
    shutil.rmtree(folder)


@given(data=st.data())
def test_a_wrong_hint_moves_no_row(data: st.DataObject, source: PartitionLog) -> None:
    end = end_of(source)
    start, end = sorted((data.draw(st.integers(100, end - 1)), data.draw(st.integers(101, end))))
    bases = [segment.base_offset for segment in source.segments]
    places = st.builds(PositionHint, st.sampled_from([*bases, 7]), st.integers(-5, 30_000))
    hints = {"start_hint": data.draw(st.none() | places), "end_hint": data.draw(st.none() | places)}
    assert read(source, start, end, **hints) == read(source, start, end)


def test_a_large_segment_gives_several_parts_and_small_ones_share_one(source: PartitionLog) -> None:
    parts = parts_of(source, 100, end_of(source), 5000)
    large = source.segments[3]
    assert sum(large.base_offset < part.start < source.segments[4].base_offset for part in parts) >= 4
    whole = sum(segment.size for segment in source.segments)
    assert sum(part.size for part in parts) == whole
    each = whole / len(parts)
    assert all(each * 0.5 < part.size < each * 1.5 for part in parts)
    assert any(sum(part.start <= segment.base_offset < part.end for segment in source.segments) >= 3 for part in parts)


def test_the_same_files_give_the_same_parts(source: PartitionLog) -> None:
    assert parts_of(source, 150, 900, 2000) == parts_of(source, 150, 900, 2000)


def test_thousands_of_small_segments_are_one_part_and_none_is_opened(
    log_files: Any, tmp_path: Path, scale: Callable[[int, int], int]
) -> None:
    count = scale(500, 5000)
    batch = [[encode_batch([Record(b"k", b"v")], base_offset=number)] for number in range(count)]
    log_files.write_partition(tmp_path / "t-0", batch)
    storage = log_files.CountingStorage()
    log = open_log(storage, str(tmp_path / "t-0"), "t", 0)
    storage.reset()
    (part,) = parts_of(log, 0, count, 1 << 20, storage)
    assert (part.start, part.end) == (0, count)
    assert len(storage.opened) <= 1
    assert len(read(log, part.start, part.end, start_hint=part.start_hint, end_hint=part.end_hint)) == count


def test_cutting_reads_of_a_segment_some_headers_alone(log_files: Any, tmp_path: Path) -> None:
    rng = random.Random(5)
    made = [encode_batch([Record(None, rng.randbytes(16_000))], base_offset=number) for number in range(1000)]
    log_files.write_partition(tmp_path / "t-0", [made])
    storage = log_files.CountingStorage()
    log = open_log(storage, str(tmp_path / "t-0"), "t", 0)
    storage.reset()
    parts = parts_of(log, 0, 1000, 1_000_000, storage)
    assert len(parts) == 17
    assert storage.bytes_of(".log") == 16 * 4096
    assert storage.opened.count(log.segments[0].path) == 1
    for part in parts[1:]:
        assert part.start_hint is not None
        assert part.start_hint.position == part.start * len(made[0])


def test_without_an_index_headers_are_read_once(log_files: Any, tmp_path: Path) -> None:
    rng = random.Random(5)
    made = [encode_batch([Record(None, rng.randbytes(500_000))], base_offset=number) for number in range(60)]
    log_files.write_partition(tmp_path / "t-0", [made])
    (tmp_path / "t-0" / f"{0:020d}.index").unlink()
    storage = log_files.CountingStorage()
    log = open_log(storage, str(tmp_path / "t-0"), "t", 0)
    storage.reset()
    parts = parts_of(log, 0, 60, 5_000_000, storage)
    assert len(parts) == 7
    assert storage.bytes_of(".log") <= (60 + 2 * 7) * 4096  # a look at each batch, and some more at each cut
    storage.reset()
    last = parts[-1]
    read(log, last.start, last.end, storage=storage, start_hint=last.start_hint, end_hint=last.end_hint)
    assert storage.bytes_of(".log") < 1.1 * last.size + 600_000
