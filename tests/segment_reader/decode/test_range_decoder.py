"""The rules of decoding, one by one, for both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from control_batches import encode_control_batch
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.decode.schema import arrow_schema
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set, seal

CODECS = list(BY_NAME)
ROWS = [
    Record(b"key", b"value", [("a", b"1"), ("a", b"2"), ("b", None), ("", b"")], 1_700_000_000_000),
    Record(None, b"value", [], 1_700_000_000_123),
    Record(b"key", None, [("ключ", b"\xff")], 1_600_000_000_000),
    Record(b"", b"", [], 1_700_000_000_124),
    Record(None, None, [("x", b"y" * 300)], 0),
    Record(b"k" * 200, b"v" * 70_000, [], 1_700_000_000_125),
]


def plain(n: int, size: int = 10) -> list[Record]:
    return [Record(b"%d" % i, bytes([i % 251]) * size, (), 1000 + i) for i in range(n)]


def numbers(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


@pytest.mark.rule(54, 93, 107, 118, 121)
@pytest.mark.parametrize("codec", CODECS)
def test_every_kind_of_record_comes_back(decode: Any, row_of: Any, codec: str) -> None:
    out = decode(encode_batch(ROWS, base_offset=7, compression=codec), 7)
    assert out.rows == [row_of(record, 7 + i) for i, record in enumerate(ROWS)]


def test_schema_is_that_of_sparks_kafka_source(engine: str) -> None:
    schema = arrow_schema(headers=True, provenance=False)
    assert [f"{field.name} {field.type}" for field in schema] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int32",
        "offset int64",
        "timestamp timestamp[us, tz=UTC]",
        "timestampType int32",
        "headers list<item: struct<key: string, value: binary>>",
    ]
    assert all(field.nullable for field in arrow_schema(headers=True, provenance=True))


def test_empty_record_set_gives_nothing_and_moves_nothing(engine: str) -> None:
    decoder = RangeDecoder("t", 0, 5, 9, isolation_level="read_committed", engine=engine)
    assert list(decoder.feed(b"")) == []
    assert decoder.next_offset == 5
    with pytest.raises(ValueError, match="ends at offset 9"):
        list(decoder.finish())


@pytest.mark.rule(121, 151)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("start", "end"), [(0, 30), (3, 30), (10, 20), (13, 14), (19, 21), (9, 11), (29, 30), (5, 5)])
def test_range_may_start_and_end_inside_of_a_batch(decode: Any, codec: str, start: int, end: int) -> None:
    answer = b"".join(encode_batch(plain(10), base_offset=base, compression=codec) for base in (0, 10, 20))
    out = decode(answer, start, end)
    assert out.offsets == list(range(start, end))
    assert out.counts.absent == 0


@pytest.mark.rule(115)
def test_incomplete_last_batch_is_never_looked_at(decode: Any) -> None:
    first, second = encode_batch(plain(3)), encode_batch(plain(3), base_offset=3)
    for cut in range(len(second)):
        tail = bytearray(second[:cut])
        if cut > 16:
            tail[16] = 77  # another magic: in an answer of an old version the tail can be of any
        assert decode(first + bytes(tail), 0, 3).offsets == [0, 1, 2]


@pytest.mark.rule(116)
def test_next_answer_goes_on_where_the_cut_one_ended(decode: Any) -> None:
    answer = encode_batch(plain(3)) + encode_batch(plain(3), base_offset=3)
    out = decode([answer[:-1], encode_batch(plain(3), base_offset=3)], 0, 6)
    assert out.offsets == numbers(0, 5)


@pytest.mark.rule(151)
def test_a_batch_that_comes_again_is_dropped(decode: Any) -> None:
    answer = encode_batch(plain(4)) + encode_batch(plain(4), base_offset=4)
    out = decode([answer, answer], 2, 8)
    assert out.offsets == numbers(2, 7)
    assert out.counts.batches == 2


@pytest.mark.rule(122)
def test_holes_inside_and_between_batches_are_absent(decode: Any) -> None:
    answer = (
        encode_batch(plain(3), base_offset=2, offset_deltas=[1, 2, 5], last_offset_delta=7)
        + encode_batch([], base_offset=12, last_offset_delta=4)
        + encode_batch(plain(2), base_offset=20)
    )
    out = decode(answer, 0, 22)
    assert out.offsets == [3, 4, 7, 20, 21]
    assert out.gaps == [(0, 3), (5, 7), (8, 20)]
    assert decode(answer, 6, 14).gaps == [(6, 7), (8, 14)]
    assert decode(answer, 9, 19).gaps == [(9, 19)]


def test_a_batch_beyond_the_range_shows_that_its_end_is_absent(decode: Any) -> None:
    out = decode(encode_batch(plain(2)) + encode_batch(plain(2), base_offset=100), 0, 50)
    assert out.gaps == [(2, 50)]
    assert out.counts.batches == 1


def test_what_lies_beyond_the_range_is_not_judged(decode: Any) -> None:
    bad = bytearray(encode_batch(plain(1), base_offset=2))
    bad[16] = 9
    assert decode(encode_batch(plain(2)) + bytes(bad), 0, 2).offsets == [0, 1]
    beyond = encode_batch(plain(2), base_offset=10)
    assert decode(encode_batch(plain(2)) + beyond + bytes(bad), 0, 3).gaps == [(2, 3)]


def test_skipped_offsets_are_absent_on_the_brokers_word(engine: str) -> None:
    decoder = RangeDecoder("t", 0, 5, 20, isolation_level="read_committed", engine=engine)
    decoder.skip_to(8)
    decoder.skip_to(6)
    batches = [*decoder.feed(encode_batch(plain(2), base_offset=10))]
    decoder.skip_to(40)
    batches += decoder.finish()
    assert decoder.gaps == [(5, 10), (12, 20)]
    assert (decoder.counts.data, decoder.counts.absent, decoder.next_offset) == (2, 13, 20)


@pytest.mark.rule(128)
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_control_records_are_counted_and_never_landed(decode: Any, level: str) -> None:
    answer = (
        encode_batch(plain(2), producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
        + encode_control_batch(1, base_offset=2, producer_id=9)
        + encode_control_batch(2, base_offset=3, producer_id=-1, transactional=False)  # leader change
        + encode_batch(plain(1), base_offset=4)
    )
    out = decode(answer, isolation_level=level)
    assert out.offsets == [0, 1, 4]
    assert out.counts.control == 2


def test_emptied_control_batch_is_absent(decode: Any) -> None:
    emptied = encode_batch([], base_offset=0, last_offset_delta=0, producer_id=9, transactional=True, control=True)
    out = decode(emptied + encode_batch(plain(1), base_offset=1))
    assert out.gaps == [(0, 1)]


@pytest.mark.parametrize("codec", CODECS)
def test_control_batch_of_several_records_is_counted_by_record(decode: Any, codec: str) -> None:
    key = b"\x00\x00\x00\x09"
    for deltas, end in (([0, 1, 2], 3), ([1, 4], 6)):
        batch = encode_batch(
            [Record(key, b"")] * len(deltas),
            offset_deltas=deltas,
            last_offset_delta=end - 1,
            control=True,
            compression=codec,
        )
        for start in range(end):
            out = decode(batch, start, end)
            assert out.counts.control == sum(delta >= start for delta in deltas)
            assert out.rows == []


def test_aborted_data_is_landed_only_when_uncommitted_is_read(decode: Any) -> None:
    answer = (
        encode_batch(plain(3), producer_id=9, producer_epoch=4, transactional=True)
        + encode_batch(plain(2), base_offset=3)
        + encode_control_batch(0, base_offset=5, producer_id=9, producer_epoch=5)
        + encode_batch(plain(2), base_offset=6, producer_id=9, transactional=True)
        + encode_control_batch(1, base_offset=8, producer_id=9, producer_epoch=5)
    )
    committed = decode(answer, aborted=[(9, 0)])
    assert committed.offsets == [3, 4, 6, 7]
    assert (committed.counts.aborted, committed.counts.control) == (3, 2)
    uncommitted = decode(answer, aborted=[(9, 0)], isolation_level="read_uncommitted")
    assert uncommitted.offsets == [0, 1, 2, 3, 4, 6, 7]
    assert uncommitted.counts.aborted == 0


def test_dense_aborted_batch_is_counted_without_being_unpacked(decode: Any) -> None:
    batch = bytearray(encode_batch(plain(5), producer_id=9, transactional=True, compression="zstd"))
    batch[61:] = b"\x00" * (len(batch) - 61)
    out = decode(seal(batch), 1, 4, aborted=[(9, 0)])
    assert (out.counts.aborted, out.rows) == (3, [])


@pytest.mark.parametrize("codec", CODECS)
def test_aborted_batch_with_holes_is_counted_offset_by_offset(decode: Any, codec: str) -> None:
    batch = encode_batch(
        plain(3),
        offset_deltas=[1, 4, 5],
        last_offset_delta=7,
        producer_id=9,
        transactional=True,
        compression=codec,
    )
    assert decode(batch, 0, 8, aborted=[(9, 0)]).gaps == [(0, 1), (2, 4), (6, 8)]
    clipped = decode(batch, 2, 5, aborted=[(9, 0)])
    assert (clipped.counts.aborted, clipped.gaps) == (1, [(2, 4)])


def test_an_entry_counts_from_its_first_offset_on(decode: Any) -> None:
    answer = (
        encode_batch(plain(2), producer_id=9, transactional=True)
        + encode_control_batch(1, base_offset=2, producer_id=9)
        + encode_batch(plain(2), base_offset=3, producer_id=9, transactional=True)
        + encode_control_batch(0, base_offset=5, producer_id=9)
    )
    assert decode(answer, aborted=[(9, 3)]).offsets == [0, 1]


def test_data_of_an_aborted_producer_outside_of_transactions_is_landed(decode: Any) -> None:
    answer = encode_batch(plain(1), producer_id=9) + encode_batch(
        plain(1), base_offset=1, producer_id=9, transactional=True
    )
    assert decode(answer, aborted=[(9, 0)]).offsets == [0]


@pytest.mark.rule(125, 126)
def test_log_append_time_goes_to_every_record(decode: Any, row_of: Any) -> None:
    rows = plain(3)
    out = decode(encode_batch(rows, timestamp_type=1, max_timestamp=5_000))
    assert out.rows == [row_of(row._replace(timestamp=5_000), i, 1) for i, row in enumerate(rows)]


@pytest.mark.rule(113)
def test_record_without_a_timestamp_has_null_or_what_spark_gives(decode: Any) -> None:
    batch = encode_batch([Record(b"", b"", (), -1), Record(b"", b"", (), 5), Record(b"", b"", (), -2)])
    ours, sparks = decode(batch).rows, decode(batch, null_timestamps=False).rows
    assert [(row["timestamp"] is None, row["timestampType"]) for row in ours] == [(True, -1), (False, 0), (False, 0)]
    assert sparks[0]["timestamp"].isoformat() == "1969-12-31T23:59:59.999000+00:00"
    assert [row["timestampType"] for row in sparks] == [0, 0, 0]


@pytest.mark.rule(117, 123, 130)
def test_provenance_tells_what_the_batch_header_says(decode: Any) -> None:
    answer = encode_batch(
        plain(2),
        base_offset=4,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 1,
        transactional=True,
        partition_leader_epoch=6,
    ) + encode_batch(plain(1), base_offset=6)
    names = [field.name for field in arrow_schema(headers=False, provenance=True)][7:]
    rows = [tuple(row[name] for name in names) for row in decode(answer, 4, headers=False, provenance=True).rows]
    assert rows == [
        (6, 9, 2, 2**31 - 1, True, 4, None, None),
        (6, 9, 2, 0, True, 4, None, None),
        (None, None, None, None, False, 6, None, None),
    ]


@pytest.mark.parametrize("engine", ["fast", "reference"])
@pytest.mark.parametrize("rows", [3, 1000])
def test_rows_of_files_tell_where_their_batch_stands(engine: Any, rows: int) -> None:
    """Of every format, also where an Arrow batch has rows of several files, and of none."""
    batch = encode_batch(plain(2), base_offset=0, compression="lz4")
    wrapper = encode_message_set(plain(2), magic=1, base_offset=2, compression="gzip")
    message = encode_message_set(plain(1), magic=0, base_offset=4)
    decoder = RangeDecoder(
        "t", 0, 0, 12, isolation_level="read_committed", provenance=True, engine=engine, limits=Limits(max_rows=rows)
    )
    batches = [*decoder.feed(batch + wrapper + message, file="/a/0.log", position=1 << 33)]
    batches += decoder.feed(encode_batch(plain(2), base_offset=5), file="/ä/5.log", position=0)
    batches += decoder.feed(encode_batch(plain(1), base_offset=7))
    batches += decoder.feed(b"", file="/never/7.log")
    batches += decoder.feed(encode_batch(plain(4), base_offset=8), file="/b/8.log", position=7)
    batches += decoder.finish()
    for one in batches:
        one.validate(full=True)
    table = pa.Table.from_batches(batches, decoder.schema)
    found = list(zip(*(table.column(name).to_pylist() for name in ("offset", "file", "position")), strict=True))
    first, second = (1 << 33) + len(batch), (1 << 33) + len(batch) + len(wrapper)
    places = [("/a/0.log", 1 << 33)] * 2 + [("/a/0.log", first)] * 2 + [("/a/0.log", second)]
    places += [("/ä/5.log", 0)] * 2 + [(None, None)] + [("/b/8.log", 7)] * 4
    assert found == [(offset, *place) for offset, place in enumerate(places)]


def test_a_file_s_name_counts_where_batches_are_cut_by_bytes() -> None:
    answer = encode_batch([Record(b"k", b"v" * 10)] * 1000)
    for engine in ("fast", "reference"):
        decoder = RangeDecoder(
            "t",
            0,
            0,
            1000,
            isolation_level="read_committed",
            provenance=True,
            engine=engine,  # type: ignore[arg-type]
            limits=Limits(max_bytes=20_000),
        )
        batches = [*decoder.feed(answer, file="/" + "long" * 50, position=0), *decoder.finish()]
        assert all(15_000 < batch.nbytes <= 20_000 for batch in batches[:-1])


def test_headers_are_passed_over_when_not_asked_for(decode: Any) -> None:
    assert "headers" not in decode(encode_batch(ROWS), headers=False).rows[0]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_batches_are_cut_by_rows(decode: Any, codec: str, rows: int) -> None:
    answer = b"".join(encode_batch(plain(10), base_offset=base, compression=codec) for base in range(0, 50, 10))
    out = decode(answer, limits=Limits(max_rows=rows, group_bytes=300))
    assert out.offsets == numbers(0, 49)
    assert out.sizes == [rows] * (50 // rows) + ([50 % rows] if 50 % rows else [])


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_cut_by_bytes_and_a_row_is_never_split(engine: str, codec: str) -> None:
    rows = [Record(b"k", b"v" * size, [("h", b"w" * size)] * 2, 0) for size in (10, 400, 900, 20_000, 5, 5, 5)]
    limits = Limits(max_bytes=3000)
    decoder = RangeDecoder("t", 0, 0, 7, isolation_level="read_committed", engine=engine, limits=limits)
    batches = [*decoder.feed(encode_batch(rows, compression=codec)), *decoder.finish()]
    assert [batch.num_rows for batch in batches] == [2, 1, 1, 3]
    for batch in batches:
        assert batch.num_rows == 1 or batch.nbytes <= 3000
    assert pa.Table.from_batches(batches).column("offset").to_pylist() == numbers(0, 6)


def test_many_small_answers_fill_one_batch(decode: Any) -> None:
    answers = [encode_batch(plain(1), base_offset=i) for i in range(20)]
    assert decode(answers, 0, 20).sizes == [20]


@pytest.mark.rule(119)
def test_thousands_of_headers_on_one_record(decode: Any, row_of: Any) -> None:
    record = Record(b"", b"", [(f"h{i}", b"%d" % i if i % 3 else None) for i in range(5000)], 1)
    assert decode(encode_batch([record, *plain(2)])).rows[0] == row_of(record, 0)


def test_more_frames_than_one_look_ahead(both: Callable[..., Any]) -> None:
    answer = b"".join(
        encode_batch(plain(2), base_offset=3 * i, compression=CODECS[i % 5], producer_id=i % 7, transactional=True)
        for i in range(2500)
    )
    out = both(answer, 0, 7499, aborted=[(3, 0), (5, 2000)], limits=Limits(group_bytes=500))
    assert out.counts.absent == 2499
    assert out.counts.aborted > 600


def test_bytes_are_copied_out_of_the_record_set(engine: str) -> None:
    record_set = bytearray(encode_batch(plain(5)))
    decoder = RangeDecoder("t", 0, 0, 5, isolation_level="read_committed", engine=engine)
    batches = list(decoder.feed(record_set))
    record_set[:] = bytes(len(record_set))
    batches += decoder.finish()
    assert pa.Table.from_batches(batches).column("key").to_pylist() == [b"0", b"1", b"2", b"3", b"4"]
