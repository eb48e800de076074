"""Columns to batches: the compiled encoder and the plain one give the same bytes; keys hash as Java's do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.producer.partitioners import murmur2
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.encode.bodies import batch_of, compress_body, encode_body, records_of
from kseg.segment_reader.encode.columns import Columns, NullHeaderKey

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
fields = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
rows = st.lists(
    st.builds(Record, key=fields, value=fields, headers=headers.map(tuple), timestamp=st.integers(-(2**40), 2**44)),
    min_size=1,
    max_size=30,
)


def columns(records: list[Record], slice_at: int = 0) -> Columns:
    """As arrays that begin in the middle of their buffers."""
    filler = [Record(b"filler", b"filler", (("filler", b"filler"),), 5)] * slice_at
    everything = [*filler, *records, *filler]
    part = slice(slice_at, slice_at + len(records))
    key = pa.array([r.key for r in everything], pa.binary())[part]
    value = pa.array([r.value for r in everything], pa.binary())[part]
    listed = pa.array([[{"key": k, "value": v} for k, v in r.headers] for r in everything], HEADERS)[part]
    return Columns.of(key, value, listed, np.array([r.timestamp for r in records], np.int64))


@given(rows, st.integers(0, 3))
def test_both_encoders_give_the_same_bytes(records: list[Record], slice_at: int):
    order = np.arange(len(records))[::-1].astype(np.int64)
    found = columns(records, slice_at).encode(order)
    assert found == encode_body([records[row] for row in order])
    assert len(found.data) <= columns(records, slice_at).sizes.sum()


@given(rows)
def test_a_body_is_what_stands_in_a_batch_and_is_read_again(records: list[Record]):
    body = encode_body(records)
    for codec in ("none", "lz4"):
        batch = batch_of(body, compress_body(body, codec), codec, producer_id=5, producer_epoch=2, base_sequence=9)
        assert batch == encode_batch(records, compression=codec, producer_id=5, producer_epoch=2, base_sequence=9)
    again = [r._replace(headers=tuple((k.decode() if isinstance(k, bytes) else k, v) for k, v in r.headers))
             for r in records_of(body)]  # fmt: skip
    assert again == records


@given(st.lists(fields, min_size=1, max_size=50))
def test_keys_hash_as_they_do_one_by_one(keys: list[bytes | None]):
    found = columns([Record(key) for key in keys]).hashes
    assert found.tolist() == [0 if key is None else murmur2(key) & 0x7FFFFFFF for key in keys]


def test_columns_that_are_not_there_are_nulls_and_text_is_its_bytes():
    found = Columns.of(None, pa.array(["a", "ü", None]), None, np.array([1, 2, 3])).encode(np.array([0, 1, 2]))
    assert records_of(found) == [
        Record(None, b"a", (), 1),
        Record(None, "ü".encode(), (), 2),
        Record(None, None, (), 3),
    ]


def test_null_headers_are_none_and_a_null_header_has_no_key():
    listed = pa.array([None, [], [{"key": "a", "value": None}]], HEADERS)
    made = Columns.of(None, None, listed, np.zeros(3, np.int64))
    assert [r.headers for r in records_of(made.encode(np.array([0, 1, 2])))] == [(), (), ((b"a", None),)]
    for bad in ([{"key": None, "value": b"v"}], [None]):
        with pytest.raises(NullHeaderKey) as caught:
            Columns.of(None, None, pa.array([[], [], bad], HEADERS), np.zeros(3, np.int64))
        assert caught.value.row == 2


def test_a_batch_without_rows_is_a_mistake():
    with pytest.raises(ValueError, match="without records"):
        columns([Record(b"k")]).encode(np.array([], np.int64))
    with pytest.raises(ValueError, match="without records"):
        encode_body([])
