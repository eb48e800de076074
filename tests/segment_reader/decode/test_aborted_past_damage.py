"""Damage in a Fetch answer has no effect on what is known of other batches' transactions.

The lists of aborted transactions are made as a broker makes them: those that overlap the answer, without their ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_batches import encode_control_batch
from kseg.segment_reader.decode.aborted_past_damage import UNDECIDED
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.salvage import BadBatch, SalvagingDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, seal

ABORT, COMMIT = 0, 1
WRONG = ["checksum", "header key", "too large"]


@dataclass
class Log:
    """Batches of offset order, each with its first offset; `wrong` names what is wrong with it."""

    batches: list[tuple[int, bytearray]] = field(default_factory=list)
    transactions: list[tuple[int, int, int, bool]] = field(default_factory=list)  # producer, first, marker, aborted
    open: dict[int, int] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)  # offset -> producer
    end: int = 0

    def data(self, producer: int, count: int = 3, wrong: str = "") -> None:
        rows = [Record(value=b"v%d" % n, headers=[("key", b"")]) for n in range(count)]
        if wrong == "too large":
            rows[0] = Record(value=bytes(5000))
        kind: dict[str, Any] = {"producer_id": producer, "transactional": True} if producer >= 0 else {}
        compression = "gzip" if wrong == "too large" else "none"
        data = bytearray(encode_batch(rows, base_offset=self.end, compression=compression, **kind))
        if wrong == "header key":
            data[data.index(b"key") - 1] = 1  # a length of -1
            data = bytearray(seal(data))
        if wrong == "checksum":
            data[-1] ^= 1
        if producer >= 0:
            self.open.setdefault(producer, self.end)
        self.rows |= dict.fromkeys(range(self.end, self.end + count), producer)
        self.batches.append((self.end, data))
        self.end += count

    def mark(self, kind: int, producer: int, *, wrong: bool = False) -> None:
        data = bytearray(encode_control_batch(kind, base_offset=self.end, producer_id=producer))
        if wrong:
            data[-1] ^= 1
        self.batches.append((self.end, data))
        if producer in self.open:
            self.transactions.append((producer, self.open.pop(producer), self.end, kind == ABORT))
        self.end += 1

    def answers(self, cuts: set[int]) -> list[tuple[bytes, list[tuple[int, int]]]]:
        """Record sets that begin at these batches, and at the first, with the list of each."""
        starts = sorted({0, *cuts})
        found = []
        for start, stop in zip(starts, [*starts[1:], len(self.batches)], strict=True):
            first, last = self.batches[start][0], [*(base for base, _ in self.batches), self.end][stop] - 1
            listed = [(p, began) for p, began, at, aborted in self.transactions if aborted and at >= first]
            listed = [entry for entry in listed if entry[1] <= last]
            found.append((b"".join(data for _, data in self.batches[start:stop]), listed))
        return found

    @property
    def committed(self) -> set[int]:
        bad = {
            offset
            for producer, first, marker, aborted in self.transactions
            for offset in range(first, marker)
            if aborted and self.rows.get(offset) == producer
        }
        return self.rows.keys() - bad


def read(log: Log, cuts: set[int]) -> tuple[set[int], list[BadBatch], SalvagingDecoder]:
    limits = Limits(max_rows=4, max_batch_bytes=4096)
    decoder = SalvagingDecoder("t", 0, 0, log.end, isolation_level="read_committed", limits=limits)
    offsets: set[int] = set()
    bad = []
    for records, aborted in log.answers(cuts):
        for found in decoder.feed(records, aborted):
            if isinstance(found, BadBatch):
                bad.append(found)
            else:
                offsets |= set(found.column("offset").to_pylist())
    counts = decoder.counts
    assert log.end == (counts.data + counts.control + counts.aborted + counts.absent + decoder.unreadable)
    return offsets, bad, decoder


def reported(bad: list[BadBatch]) -> set[int]:
    return {offset for one in bad for offset in range(one.first, one.last)}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("cuts", [set(), {2}, {3}])
def test_an_abort_marker_counts_behind_a_bad_batch(wrong: str, cuts: set[int]) -> None:
    log = Log()
    log.data(7)
    log.mark(ABORT, 7)
    log.data(-1, 1, wrong)
    log.data(7)
    log.mark(COMMIT, 7)
    offsets, bad, decoder = read(log, cuts)
    assert offsets == {5, 6, 7}
    assert (decoder.counts.aborted, decoder.unreadable, [(one.first, one.last) for one in bad]) == (3, 1, [(4, 5)])


def test_an_abort_marker_counts_in_the_next_record_set_with_the_same_list() -> None:
    """Parts of a file's record set have one list (`Salvager`)."""
    log = Log()
    log.data(7)
    log.mark(ABORT, 7)
    log.data(7)
    log.mark(COMMIT, 7)
    decoder = SalvagingDecoder("t", 0, 0, log.end, isolation_level="read_committed")
    parts = [b"".join(data for _, data in log.batches[part]) for part in (slice(0, 2), slice(2, 4))]
    rows = [found for part in parts for found in decoder.feed(part, [(7, 0)])]
    assert [row["offset"] for found in rows for row in found.to_pylist()] == [4, 5, 6]


@pytest.mark.parametrize(
    ("ending", "landed", "undecided"),
    [(COMMIT, {4, 5, 6}, []), (ABORT, set(), []), (None, set(), [(4, 7, UNDECIDED)])],
)
def test_what_follows_a_damaged_marker_says_whether_it_was_one(
    ending: int | None, landed: set[int], undecided: list[tuple[int, int, str]]
) -> None:
    log = Log()
    log.data(7)
    if ending == ABORT:
        log.mark(COMMIT, 8, wrong=True)  # of another producer
    else:
        log.mark(ABORT, 7, wrong=True)
    log.data(7)
    if ending is not None:
        log.mark(ending, 7)
    log.data(-1)
    offsets, bad, decoder = read(log, set())
    assert offsets == landed | set(range(log.end - 3, log.end))
    assert [(one.first, one.last, one.reason) for one in bad[1:]] == undecided
    assert decoder.counts.aborted == (6 if ending == ABORT else 3)
    assert decoder.damaged


def test_what_is_undecided_beyond_the_range_is_absent_from_it() -> None:
    log = Log()
    log.data(7)
    log.mark(ABORT, 7, wrong=True)
    log.data(7)
    log.open.clear()
    ((records, _),) = log.answers(set())
    decoder = SalvagingDecoder("t", 0, 0, 4, isolation_level="read_committed")
    found = [one for one in decoder.feed(records, [(7, 0)]) if isinstance(one, BadBatch)]
    assert [(one.first, one.last) for one in found] == [(3, 4)]
    assert (decoder.counts.aborted, decoder.unreadable) == (3, 1)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log()
    for _ in range(draw(st.integers(1, 12))):
        producer = draw(st.sampled_from([7, 7, 8, -1]))
        if producer >= 0 and draw(st.booleans()):
            log.mark(draw(st.sampled_from([ABORT, COMMIT])), producer)
        else:
            log.data(producer, draw(st.integers(1, 4)))
    for producer in list(log.open):
        log.mark(draw(st.sampled_from([ABORT, COMMIT])), producer)
    log.data(-1, 1)
    return log


@given(log=logs(), data=st.data())
def test_of_damaged_record_sets_all_rows_of_other_batches_are_returned(log: Log, data: st.DataObject) -> None:
    """One bad batch that is no marker, all in one record set."""
    places = [n for n, (base, _) in enumerate(log.batches) if base in log.rows]
    place = data.draw(st.sampled_from(places))
    base, batch = log.batches[place]
    batch[-1] ^= 1
    if data.draw(st.booleans()):  # right checksum, records that overrun
        batch[-1] ^= 1
        batch[61] = 0x7E
        batch[:] = seal(batch)
    following = [*(first for first, _ in log.batches), log.end][place + 1]
    offsets, bad, _ = read(log, set())
    assert offsets == log.committed - set(range(base, following))
    assert log.committed - offsets <= reported(bad) <= set(range(base, following))


@given(log=logs(), data=st.data())
def test_past_any_damage_each_row_is_returned_right_or_reported(log: Log, data: st.DataObject) -> None:
    for place in data.draw(st.sets(st.integers(0, len(log.batches) - 2), max_size=5)):
        log.batches[place][1][-1] ^= 1
    cuts = data.draw(st.sets(st.integers(1, len(log.batches) - 1), max_size=2))
    offsets, bad, _ = read(log, cuts)
    assert offsets <= log.committed
    assert log.committed - offsets <= reported(bad)
