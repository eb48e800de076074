"""Whatever is encoded decodes to the same rows, and kafka-python's record layer agrees in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]

contents = st.none() | st.binary(max_size=20) | st.sampled_from([b"v" * 130, b"w" * 20_000])
names = st.text(max_size=6) | st.just("n" * 200)
headers = st.lists(st.tuples(names, contents), max_size=4)
times = st.integers(0, 2**42) | st.sampled_from([0, 1, 1_700_000_000_000])
records = st.lists(st.builds(Record, contents, contents, headers, times), min_size=1, max_size=12)
bare_records = st.lists(st.builds(Record, contents, contents, st.just(()), times), min_size=1, max_size=12)
limits = st.builds(
    Limits, max_rows=st.integers(1, 20), max_bytes=st.integers(1, 30_000), group_bytes=st.integers(1, 3000)
)


@pytest.mark.rule(132, 133)
@given(data=st.data(), rows=records, codec=st.sampled_from(CODECS), base=st.integers(0, 2**62), limits=limits)
def test_batches_round_trip(
    both: Callable[..., Any],
    row_of: Callable[..., Any],
    data: st.DataObject,
    rows: list[Record],
    codec: str,
    base: int,
    limits: Limits,
) -> None:
    gaps = data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
    deltas = [sum(gaps[: i + 1]) - 1 for i in range(len(rows))]
    answer = encode_batch(rows, base_offset=base, compression=codec, offset_deltas=deltas)
    out = both(answer, base, limits=limits)
    assert out.rows == [row_of(record, base + delta) for record, delta in zip(rows, deltas, strict=True)]


@pytest.mark.rule(103, 107, 109, 111, 114)
@given(
    rows=bare_records, codec=st.sampled_from(CODECS), magic=st.integers(0, 1), base=st.integers(0, 2**61), limits=limits
)
def test_message_sets_round_trip(
    both: Callable[..., Any],
    row_of: Callable[..., Any],
    rows: list[Record],
    codec: str,
    magic: int,
    base: int,
    limits: Limits,
) -> None:
    out = both(encode_message_set(rows, magic=magic, base_offset=base, compression=codec), base, limits=limits)
    kept = [record if magic else record._replace(timestamp=-1) for record in rows]
    assert out.rows == [row_of(record, base + i) for i, record in enumerate(kept)]


@given(rows=records, codec=st.sampled_from(CODECS))
def test_kafka_pythons_batches_decode(
    both: Callable[..., Any], row_of: Callable[..., Any], kafka_python: Any, rows: list[Record], codec: str
) -> None:
    builder = kafka_python.batch(
        magic=2,
        compression_type=CODECS.index(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    for i, record in enumerate(rows):
        assert builder.append(i, record.timestamp, record.key, record.value, list(record.headers))
    assert both(bytes(builder.build())).rows == [row_of(record, i) for i, record in enumerate(rows)]


@pytest.mark.rule(99)
@given(rows=bare_records, codec=st.sampled_from(CODECS[:4]), magic=st.integers(0, 1))
def test_kafka_pythons_message_sets_decode(
    both: Callable[..., Any], row_of: Callable[..., Any], kafka_python: Any, rows: list[Record], codec: str, magic: int
) -> None:
    builder = kafka_python.message_set(magic=magic, compression_type=CODECS.index(codec), batch_size=1 << 30)
    for i, record in enumerate(rows):
        assert builder.append(i, record.timestamp, record.key, record.value)
    data = bytearray(builder.build())
    if codec != "none":
        data[:8] = (len(rows) - 1).to_bytes(8, "big")  # the broker sets a wrapper's offset
    kept = [record if magic else record._replace(timestamp=-1) for record in rows]
    assert both(bytes(data), 0, len(rows)).rows == [row_of(record, i) for i, record in enumerate(kept)]


def read_by_kafka_python(kafka_python: Any, data: bytes) -> list[tuple[Any, ...]]:
    found = []
    reader = kafka_python.records(data)
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        found += [
            (r.offset, r.key, r.value, [(name, value) for name, value in r.headers or ()], r.timestamp) for r in batch
        ]
    return found


@given(rows=records, codec=st.sampled_from(CODECS))
def test_kafka_python_reads_our_batches(kafka_python: Any, rows: list[Record], codec: str) -> None:
    data = encode_batch(rows, base_offset=5, compression=codec)
    assert read_by_kafka_python(kafka_python, data) == [
        (5 + i, r.key, r.value, list(r.headers), r.timestamp) for i, r in enumerate(rows)
    ]


@pytest.mark.rule(106)
@given(rows=bare_records, codec=st.sampled_from(CODECS[:4]), magic=st.integers(0, 1))
def test_kafka_python_reads_our_message_sets(kafka_python: Any, rows: list[Record], codec: str, magic: int) -> None:
    data = encode_message_set(rows, magic=magic, base_offset=5, compression=codec)
    assert read_by_kafka_python(kafka_python, data) == [
        (5 + i, r.key, r.value, [], r.timestamp if magic else None) for i, r in enumerate(rows)
    ]


def test_messages_of_old_formats_carry_no_headers() -> None:
    with pytest.raises(ValueError, match="no headers"):
        encode_message_set([Record(headers=[("a", b"")])], magic=1)
