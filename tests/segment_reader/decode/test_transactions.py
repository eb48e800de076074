"""Interleaved transactions, compacted or not, read from any offset to any offset, against a model that knows each fate.

The model is a partition as a broker keeps it: batches, markers, and the list of aborted transactions of which a Fetch
answer carries those that overlap it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_batches import encode_control_batch
from kseg.segment_reader.decode.batch import frames
from kseg.segment_reader.decode.engine import DecodeCounts, Limits
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch

ENGINES = ["reference", "fast"]


@dataclass
class Partition:
    """What was appended, and what became of each offset: data, control, aborted; absent where it is missing."""

    batches: list[bytes] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer, first offset, offset of the marker
    fate: dict[int, str] = field(default_factory=dict)
    end: int = 0

    def fetch(self, offset: int, batches: int, cut: int) -> tuple[bytes, list[tuple[int, int]]]:
        """An answer: batches from the one that holds `offset` on, a piece of the next, the list that goes with them."""
        first = next(i for i, batch in enumerate(self.batches) if next(frames(batch)).last_offset >= offset)
        chosen = self.batches[first : first + batches]
        upper = next(frames(chosen[-1])).next_offset
        tail = self.batches[first + batches][:cut] if first + batches < len(self.batches) else b""
        listed = [(producer, start) for producer, start, marker in self.aborted if marker >= offset and start < upper]
        return b"".join(chosen) + tail, listed

    def expected(self, start: int, end: int, *, committed: bool) -> tuple[list[int], DecodeCounts]:
        kinds = [self.fate.get(offset, "absent") for offset in range(start, end)]
        if not committed:
            kinds = ["data" if kind == "aborted" else kind for kind in kinds]
        offsets = [start + i for i, kind in enumerate(kinds) if kind == "data"]
        return offsets, DecodeCounts(*(kinds.count(kind) for kind in ("data", "control", "aborted", "absent")))


@dataclass
class Open:
    """A transaction that has no marker yet."""

    first: int
    offsets: list[int] = field(default_factory=list)
    kept: bool = False


@st.composite
def partitions(draw: st.DrawFn, compacted: bool) -> Partition:
    log, opened = Partition(), dict[int, Open]()

    def append(producer: int, transactional: bool) -> None:
        count = draw(st.integers(1, 4))
        kept = list(range(count))
        if compacted:
            kept = draw(st.lists(st.sampled_from(kept), unique=True).map(sorted))
        base = log.end
        if transactional:
            transaction = opened.setdefault(producer, Open(base))
            transaction.offsets += [base + delta for delta in kept]
            transaction.kept = transaction.kept or bool(kept)
        elif kept:
            log.fate.update(dict.fromkeys((base + delta for delta in kept), "data"))
        if kept or draw(st.booleans()):
            log.batches.append(
                encode_batch(
                    [Record(b"%d" % (base + delta), b"p%d" % producer) for delta in kept],
                    base_offset=base,
                    offset_deltas=kept,
                    last_offset_delta=count - 1,
                    producer_id=producer,
                    producer_epoch=draw(st.integers(0, 3)),
                    transactional=transactional,
                    compression=draw(st.sampled_from(["none", "none", "lz4"])) if kept else "none",
                )
            )
        log.end += count

    def close(producer: int, abort: bool) -> None:
        transaction = opened.pop(producer)
        log.fate.update(dict.fromkeys(transaction.offsets, "aborted" if abort else "data"))
        # a marker goes only after the last of its data, and takes its entry of the list along
        fate = "kept" if transaction.kept else draw(st.sampled_from(["kept", "emptied", "gone"]))
        if fate == "kept":
            log.batches.append(
                encode_control_batch(
                    0 if abort else 1,
                    base_offset=log.end,
                    producer_id=producer,
                    producer_epoch=draw(st.integers(0, 4)),
                )
            )
            log.fate[log.end] = "control"
            if abort:
                log.aborted.append((producer, transaction.first, log.end))
        elif fate == "emptied":
            log.batches.append(
                encode_batch([], base_offset=log.end, producer_id=producer, transactional=True, control=True)
            )
        log.end += 1

    for _ in range(draw(st.integers(1, 14))):
        producer = draw(st.integers(0, 3))
        match draw(st.sampled_from(["append", "append", "plain", "commit", "abort", "leader"])):
            case "append":
                append(producer, transactional=True)
            case "plain" if producer not in opened:
                append(draw(st.sampled_from([-1, producer])), transactional=False)
            case "commit" if producer in opened:
                close(producer, abort=False)
            case "abort" if producer in opened:
                close(producer, abort=True)
            case "leader":
                log.batches.append(encode_control_batch(2, base_offset=log.end, producer_id=-1, transactional=False))
                log.fate[log.end] = "control"
                log.end += 1
    for producer in list(opened):
        close(producer, abort=draw(st.booleans()))
    log.batches.append(encode_batch([Record(b"last", b"")], base_offset=log.end))
    log.fate[log.end] = "data"
    log.end += 1
    return log


def read(
    log: Partition, start: int, end: int, *, engine: str, committed: bool, sizes: Sequence[int] = (3,), cut: int = 5
) -> tuple[list[int], DecodeCounts]:
    """Reads [start, end) as a task does: fetch after fetch, each from where the decoder stands."""
    decoder = RangeDecoder(
        "t",
        0,
        start,
        end,
        isolation_level="read_committed" if committed else "read_uncommitted",
        engine=engine,  # type: ignore[arg-type]
        limits=Limits(max_rows=4, group_bytes=200),
    )
    batches: list[pa.RecordBatch] = []
    turn = 0
    while decoder.next_offset < end:
        records, aborted = log.fetch(decoder.next_offset, sizes[turn % len(sizes)], cut)
        batches += decoder.feed(records, aborted)
        turn += 1
    batches += decoder.finish()
    table = pa.Table.from_batches(batches, decoder.schema)
    offsets = table.column("offset").to_pylist()
    keys = table.column("key").to_pylist()
    assert all(key in (b"%d" % offset, b"last") for key, offset in zip(keys, offsets, strict=True))
    counts = decoder.counts
    assert sum(stop - first for first, stop in decoder.gaps) == counts.absent
    return offsets, DecodeCounts(counts.data, counts.control, counts.aborted, counts.absent)


@pytest.mark.rule(127, 168, 244)
@pytest.mark.parametrize("compacted", [False, True])
@given(data=st.data())
def test_any_range_gives_what_the_model_says(compacted: bool, data: st.DataObject) -> None:
    log = data.draw(partitions(compacted))
    start = data.draw(st.integers(0, log.end))
    end = data.draw(st.integers(start, log.end))
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    cut = data.draw(st.integers(0, 70))
    for committed in (True, False):
        expected = log.expected(start, end, committed=committed)
        for engine in ENGINES:
            assert read(log, start, end, engine=engine, committed=committed, sizes=sizes, cut=cut) == expected


@pytest.mark.rule(168)
@pytest.mark.parametrize("compacted", [False, True])
@given(data=st.data())
def test_every_split_point_gives_the_same_rows_and_counts(compacted: bool, data: st.DataObject) -> None:
    log = data.draw(partitions(compacted))
    offsets, counts = read(log, 0, log.end, engine="fast", committed=True)
    assert (offsets, counts) == log.expected(0, log.end, committed=True)
    for middle in range(log.end + 1):
        left = read(log, 0, middle, engine="fast", committed=True)
        right = read(log, middle, log.end, engine="fast", committed=True)
        assert left[0] + right[0] == offsets
        for name in ("data", "control", "aborted", "absent"):
            assert getattr(left[1], name) + getattr(right[1], name) == getattr(counts, name)


@given(data=st.data())
def test_one_answer_may_be_fed_in_pieces_with_its_whole_list(data: st.DataObject) -> None:
    log = data.draw(partitions(compacted=False))
    aborted = [(producer, first) for producer, first, _ in log.aborted]
    whole = b"".join(log.batches)
    expected = log.expected(0, log.end, committed=True)
    for engine in ENGINES:
        for i in range(len(log.batches)):
            decoder = RangeDecoder("t", 0, 0, log.end, isolation_level="read_committed", engine=engine)  # type: ignore[arg-type]
            position = sum(map(len, log.batches[:i]))
            batches = [*decoder.feed(whole[:position], aborted), *decoder.feed(whole, aborted), *decoder.finish()]
            assert pa.Table.from_batches(batches, decoder.schema).column("offset").to_pylist() == expected[0]


def test_an_entry_that_compaction_removed_between_two_fetches_takes_nothing_along(
    decode_with: Callable[..., Any],
) -> None:
    """Aborted data and its marker were cleaned away after the first answer: the second says nothing of the producer."""
    first = encode_batch([Record()], producer_id=7, transactional=True)
    second = encode_batch([Record()], base_offset=5, producer_id=7, transactional=True)
    for engine in ENGINES:
        decoder = RangeDecoder("t", 0, 0, 6, isolation_level="read_committed", engine=engine)  # type: ignore[arg-type]
        batches = [*decoder.feed(first, [(7, 0)]), *decoder.feed(second, []), *decoder.finish()]
        assert pa.Table.from_batches(batches).column("offset").to_pylist() == [5]
