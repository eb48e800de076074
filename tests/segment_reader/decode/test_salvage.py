"""Whole record sets decode as ever; of damaged ones all but the bad batches does, wherever a range is cut."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_batches import encode_control_batch
from kseg.segment_reader.decode.batch import RECORDS_AT
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.decode.salvage import BadBatch, RefusedRecord, SalvagingDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set, seal
from kseg.segment_reader.errors import CorruptRecordBatch

LIMITS = Limits(max_rows=4)


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[int, bytes]]:
    """(first offset, bytes): batches of all formats, some of an aborted transaction of producer 7, some gaps."""
    found, base = [], 0
    for _ in range(draw(st.integers(1, 6))):
        rows = [Record(value=draw(st.binary(max_size=30)), timestamp=5) for _ in range(draw(st.integers(1, 9)))]
        codec = draw(st.sampled_from(["none", "gzip", "lz4"]))
        match draw(st.sampled_from(["plain", "transaction", "marker", "0", "1"])):
            case "plain":
                data = encode_batch(rows, base_offset=base, compression=codec)
            case "transaction":
                data = encode_batch(rows, base_offset=base, compression=codec, producer_id=7, transactional=True)
            case "marker":
                data, rows = encode_control_batch(0, base_offset=base, producer_id=7), rows[:1]
            case magic:
                data = encode_message_set(rows, magic=int(magic), base_offset=base, compression="gzip")
        found.append((base, data))
        base += len(rows) + draw(st.sampled_from([0, 0, 3]))
    return found


def decode(
    decoder: RangeDecoder | SalvagingDecoder, records: bytes, aborted: list[tuple[int, int]]
) -> tuple[list[dict[str, Any]], list[BadBatch]]:
    rows: list[dict[str, Any]] = []
    bad: list[BadBatch] = []
    for found in (*decoder.feed(records, aborted), *decoder.finish()):
        if isinstance(found, BadBatch):
            bad.append(found)
        else:
            assert isinstance(found, pa.RecordBatch)
            rows += found.to_pylist()
    return rows, bad


@given(log=batches(), data=st.data())
def test_what_is_whole_is_decoded_as_ever(log: list[tuple[int, bytes]], data: st.DataObject) -> None:
    records = b"".join(content for _, content in log)
    plain = RangeDecoder("t", 0, 0, 1 << 40, isolation_level="read_committed")
    for _ in plain.feed(records):
        pass
    end = plain.next_offset
    start = data.draw(st.integers(0, end))
    stop = data.draw(st.integers(start, end))
    options: dict[str, Any] = {"isolation_level": "read_committed", "limits": LIMITS}
    expected = RangeDecoder("t", 0, start, stop, **options)
    found = SalvagingDecoder("t", 0, start, stop, **options)
    rows, bad = decode(found, records, [(7, 0)])
    assert (rows, bad) == (decode(expected, records, [(7, 0)])[0], [])
    kinds = ("data", "control", "aborted", "absent")
    told, wanted = asdict(found.counts), asdict(expected.counts)
    assert {kind: told[kind] for kind in kinds} == {kind: wanted[kind] for kind in kinds}
    assert (found.gaps, found.unreadable, found.next_offset) == (expected.gaps, 0, expected.next_offset)


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("wrong", ["checksum", "records", "header"])
def test_a_bad_batch_is_left_out_whole_and_nothing_else_is(codec: str, wrong: str) -> None:
    """Its rows before the fault are not handed on either, however small the Arrow batches are."""
    parts = [encode_batch([Record(value=b"v%d" % n) for n in range(20)], base_offset=b) for b in (0, 20, 40)]
    middle = bytearray(encode_batch([Record(value=b"v%d" % n) for n in range(20)], base_offset=20, compression=codec))
    if wrong == "checksum":
        middle[-3] ^= 1
    elif wrong == "header":
        middle[22] |= 7  # no such codec
    else:
        middle[RECORDS_AT if codec != "none" else -1] ^= 0x55
        middle = bytearray(seal(middle))
    records = parts[0] + bytes(middle) + parts[2]
    for cuts in ([0, 60], [0, 25, 60], [0, 20, 31, 40, 60], [0, 5, 55, 60]):
        offsets, unreadable, told = [], 0, []
        for start, end in itertools.pairwise(cuts):
            decoder = SalvagingDecoder("t", 0, start, end, isolation_level="read_uncommitted", limits=LIMITS)
            rows, bad = decode(decoder, records, [])
            offsets += [row["offset"] for row in rows]
            unreadable += decoder.unreadable
            told += bad
            assert decoder.counts.data + decoder.unreadable == end - start
        assert offsets == [*range(20), *range(40, 60)]
        assert unreadable == 20
        assert {(one.position, one.size, one.last) for one in told} == {(len(parts[0]), len(middle), 40)}


def test_a_batch_whose_reach_nobody_knows_is_no_guess() -> None:
    """The last batch of an answer, with a wrong checksum and a header that contradicts itself: going on would skip."""
    batch = bytearray(encode_batch([Record(value=b"v") for _ in range(5)]))
    batch[26] ^= 0x40  # last offset delta
    decoder = SalvagingDecoder("t", 0, 0, 5, isolation_level="read_uncommitted")
    with pytest.raises(CorruptRecordBatch):
        decode(decoder, bytes(batch), [])


def test_bad_batches_side_by_side_are_reported_with_all_their_bytes() -> None:
    """Nothing says which of the offsets are whose."""
    parts = [bytearray(encode_batch([Record(value=b"v%d" % n) for n in range(3)], base_offset=b)) for b in (0, 3, 6, 9)]
    parts[1][-1] ^= 1
    parts[2][-1] ^= 1
    decoder = SalvagingDecoder("t", 0, 0, 12, isolation_level="read_uncommitted")
    rows, bad = decode(decoder, b"".join(parts), [])
    assert [row["offset"] for row in rows] == [0, 1, 2, 9, 10, 11]
    (told,) = bad
    assert (told.first, told.last) == (3, 9)
    assert (told.position, told.size) == (len(parts[0]), len(parts[1]) + len(parts[2]))


@pytest.mark.parametrize("kind", ["header names", "times", "times in messages"])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_without_a_row_are_left_out_alone(kind: str, codec: str) -> None:
    """They are valid: their neighbours land, wherever a range is cut, and each has its own bytes kept."""
    wrong = {3, 20, 21, 38}
    records = b""
    for base in (0, 20):
        rows = [
            Record(b"k", b"v%d" % (base + n), timestamp=2**60 if "times" in kind and base + n in wrong else 5)
            for n in range(20)
        ]
        if "messages" in kind:
            records += encode_message_set(rows, magic=1, base_offset=base, compression=codec)
            continue
        if kind == "header names":
            named = {base + n: (b"caf\xe9", None) if base + n in wrong else ("ok", b"1") for n in range(20)}
            rows = [row._replace(headers=[("first", b""), named[base + n]]) for n, row in enumerate(rows)]
        records += encode_batch(rows, base_offset=base, compression=codec)
    for cuts in ([0, 40], [0, 3, 40], [0, 4, 21, 22, 40], [0, 10, 30, 39, 40]):
        rows, refused = [], []
        for start, end in itertools.pairwise(cuts):
            decoder = SalvagingDecoder(
                "t", 0, start, end, isolation_level="read_committed", limits=LIMITS, header_names="refuse"
            )
            found = list(decoder.feed(records))
            refused += [one for one in found if isinstance(one, RefusedRecord)]
            rows += [row for one in found if isinstance(one, pa.RecordBatch) for row in one.to_pylist()]
            assert decoder.counts.data + decoder.unreadable == end - start
            assert not decoder.damaged
        assert [row["offset"] for row in rows] == sorted({*range(40)} - wrong)
        assert {row["value"] for row in rows} == {b"v%d" % n for n in {*range(40)} - wrong}
        if kind == "header names":
            assert all(row["headers"][1] == {"key": "ok", "value": b"1"} for row in rows)
        assert [one.offset for one in refused] == sorted(wrong)
        assert all(b"v%d" % one.offset in one.content for one in refused)
        assert len({one.content for one in refused}) == 4
        assert all(("name" if kind == "header names" else "timestamp") in one.reason for one in refused)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_damaged_batch_is_left_out_whole_with_its_refused_records(codec: str) -> None:
    rows = [Record(b"k", b"v", [(b"\xff" if n in (1, 4) else "ok", b"")]) for n in range(6)]
    batch = bytearray(encode_batch(rows, compression="none"))
    batch[57:61] = (7).to_bytes(4, "big")  # one more record than there are
    batch[23:27] = (6).to_bytes(4, "big")
    records = seal(batch) + encode_batch(rows, base_offset=7, compression=codec)
    decoder = SalvagingDecoder("t", 0, 0, 13, isolation_level="read_committed", header_names="refuse")
    found = list(decoder.feed(records))
    (bad,) = [one for one in found if isinstance(one, BadBatch)]
    assert (bad.first, bad.last) == (0, 7)
    assert [one.offset for one in found if isinstance(one, RefusedRecord)] == [8, 11]
    assert decoder.unreadable == 9
