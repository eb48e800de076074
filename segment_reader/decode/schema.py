"""The Arrow shape of decoded records: Spark's own Kafka columns, in its order and types.

`timestampType` is 0 (CreateTime), 1 (LogAppendTime) or -1 (the record has no timestamp). `headers` is null where a
record has none; a header's value may be null, its key may not. `rawHeaders` has the headers of records with a key that
is not UTF-8, and is null for all others.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
RAW_HEADER = pa.struct([pa.field("key", pa.binary()), pa.field("value", pa.binary())])
RAW_HEADERS = "rawHeaders"

_ROW = (
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", TIMESTAMP),
    ("timestampType", pa.int32()),
)
_PROVENANCE = (
    ("leaderEpoch", pa.int32()),
    ("producerId", pa.int64()),
    ("producerEpoch", pa.int16()),
    ("sequence", pa.int32()),
    ("transactional", pa.bool_()),
    ("batchBaseOffset", pa.int64()),
    ("file", pa.string()),
    ("position", pa.int64()),
)


@lru_cache
def arrow_schema(*, headers: bool, provenance: bool, raw_headers: bool = False) -> pa.Schema:
    """The columns of a decoded batch. All fields are nullable, as in Spark's source.

    headers: add `headers list<struct<key string, value binary>>`.
    raw_headers: add `rawHeaders list<struct<key binary, value binary>>`.
    provenance: add what the batch header tells, and for files the batch's place: `file` and its first byte's
    `position` there (an old compressed message is a batch). Null where it is unknown: header fields on magic 0
    and 1; `leaderEpoch`, `producerId`, `producerEpoch` and `sequence` also where the batch carries -1; `file` and
    `position` for what came from a broker.
    """
    fields = [pa.field(name, kind) for name, kind in _ROW]
    if headers:
        fields.append(pa.field("headers", pa.list_(HEADER)))
    if raw_headers:
        fields.append(pa.field(RAW_HEADERS, pa.list_(RAW_HEADER)))
    if provenance:
        fields += [pa.field(name, kind) for name, kind in _PROVENANCE]
    return pa.schema(fields)


#: Arrow bytes that one header costs beside its key and value: two 32-bit offsets and a validity bit, rounded up.
HEADER_COST = 9


def row_cost(topic: str, *, headers: bool, provenance: bool) -> int:
    """Arrow bytes that one row costs beside its key, value, headers and file: an upper bound, to cut batches by."""
    fixed = 3 * 4 + len(topic.encode()) + 4 + 8 + 8 + 4 + 1  # offsets of three columns, topic .. timestampType, bits
    return fixed + (5 if headers else 0) + (42 if provenance else 0)
