"""Arrow columns to the records of magic 2 batches, without a Python object for a record; and to their partitions.

    Columns.of(key, value, headers, millis)      views of the columns' buffers, once a record batch
    columns.sizes                                about what each row takes
    columns.hashes                               Java's murmur2 of the keys
    columns.encode(rows)                         the rows with these numbers, in this order, as one batch's body

The plain way is `segment_reader.encode.bodies.encode_body`; both give the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.decode.jit import compiled, inlined
from kseg.segment_reader.decode.primitives import copy
from kseg.segment_reader.encode.bodies import BatchBody

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: A record's largest overhead: length, attributes, time and offset deltas, lengths of key and value, header count.
ROW_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5
HEADER_OVERHEAD = 10


class NullHeaderKey(ValueError):
    """A header without a name, which Kafka does not know. `row`: its number in the batch."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row

    def __str__(self) -> str:
        return f"a header of row {self.row} has no key"


@dataclass(frozen=True)
class BytesColumn:
    """A binary column: whether a row has a value, and where it lies."""

    valid: Bytes
    at: Ints
    data: Bytes

    @classmethod
    def of(cls, column: pa.Array | None, rows: int) -> BytesColumn:
        """None: a column of nulls. Text is taken as its UTF-8 bytes."""
        if column is None:
            return cls(np.zeros(rows, np.uint8), np.zeros(rows + 1, np.int64), np.zeros(1, np.uint8))
        large = column.cast(pa.large_binary())
        valid = np.asarray(large.is_valid()).astype(np.uint8)
        _, offsets, data = large.buffers()
        at = np.zeros(rows + 1, np.int64)
        if offsets is not None and rows:
            at = np.frombuffer(offsets, np.int64)[large.offset : large.offset + rows + 1]
        held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        return cls(valid, at, held)

    @property
    def lengths(self) -> Ints:
        return (self.at[1:] - self.at[:-1]) * self.valid


@dataclass(frozen=True)
class Columns:
    """What the compiled code reads. `millis`: timestamps; `header_at`: which headers are a row's."""

    rows: int
    millis: Ints
    key: BytesColumn
    value: BytesColumn
    header_at: Ints
    name: BytesColumn
    content: BytesColumn

    @classmethod
    def of(cls, key: pa.Array | None, value: pa.Array | None, headers: pa.Array | None, millis: Ints) -> Columns:
        """`headers`: list of structs of a name and a content. Raises NullHeaderKey."""
        rows = len(millis)
        header_at, name, content = np.zeros(rows + 1, np.int64), BytesColumn.of(None, 0), BytesColumn.of(None, 0)
        if headers is not None:
            # A null list counts nothing; flatten() leaves out what lies behind null rows.
            counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
            np.cumsum(counts, out=header_at[1:])
            flat = headers.flatten()
            names, contents = flat.field(0), flat.field(1)
            if flat.null_count:
                contents = pc.if_else(flat.is_valid(), contents, None)
                names = pc.if_else(flat.is_valid(), names, None)
            if names.null_count:
                first = int(np.argmin(np.asarray(names.is_valid())))
                raise NullHeaderKey(int(np.searchsorted(header_at, first, side="right")) - 1)
            name, content = BytesColumn.of(names, len(flat)), BytesColumn.of(contents, len(flat))
        return cls(rows, np.ascontiguousarray(millis, np.int64), BytesColumn.of(key, rows), BytesColumn.of(value, rows),
                   header_at, name, content)  # fmt: skip

    @cached_property
    def sizes(self) -> Ints:
        """An upper bound of what each row takes in a batch."""
        headers = np.concatenate([[0], np.cumsum(self.name.lengths + self.content.lengths + HEADER_OVERHEAD)])
        of_headers = headers[self.header_at[1:]] - headers[self.header_at[:-1]]
        return np.asarray(self.key.lengths + self.value.lengths + of_headers + ROW_OVERHEAD, np.int64)

    @cached_property
    def hashes(self) -> Ints:
        """Java's `Utils.toPositive(Utils.murmur2(key))`, 0 where there is no key."""
        found = np.zeros(self.rows, np.int64)
        _hash_keys(self.key.valid, self.key.at, self.key.data, found)
        return found

    def encode(self, rows: Ints) -> BatchBody:
        """These rows as one batch. Raises ValueError for none."""
        if not len(rows):
            raise ValueError("a batch without records")
        millis = self.millis[rows]
        out = np.empty(int(self.sizes[rows].sum()), np.uint8)
        k, v, n, c = self.key, self.value, self.name, self.content
        size = _encode(
            rows, self.millis, k.valid, k.at, k.data, v.valid, v.at, v.data, self.header_at, n.at, n.data,
            c.valid, c.at, c.data, out,
        )  # fmt: skip
        return BatchBody(out[:size].tobytes(), len(rows), int(millis[0]), int(millis.max()))


@inlined
def _size_of(value: Any) -> Any:
    """Bytes of a zig-zag varint."""
    left = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while left >= np.uint64(0x80):
        left >>= np.uint64(7)
        size += 1
    return size


@inlined
def _put(out: Any, at: Any, value: Any) -> Any:
    """Writes a zig-zag varint; gives the position behind it."""
    left = np.uint64((value << 1) ^ (value >> 63))
    while left >= np.uint64(0x80):
        out[at] = np.uint8((left & np.uint64(0x7F)) | np.uint64(0x80))
        left >>= np.uint64(7)
        at += 1
    out[at] = np.uint8(left)
    return at + 1


@inlined
def _put_field(out: Any, at: Any, valid: Any, data: Any, start: Any, stop: Any) -> Any:
    if not valid:
        return _put(out, at, -1)
    size = stop - start
    at = _put(out, at, size)
    copy(out, at, data, start, size)
    return at + size


@inlined
def _size_of_field(valid: Any, start: Any, stop: Any) -> Any:
    if not valid:
        return 1
    return _size_of(stop - start) + stop - start


@compiled
def _encode(
    rows: Any, millis: Any, key_ok: Any, key_at: Any, keys: Any, value_ok: Any, value_at: Any, values: Any,
    header_at: Any, name_at: Any, names: Any, content_ok: Any, content_at: Any, contents: Any, out: Any,
) -> Any:  # fmt: skip
    base = millis[rows[0]]
    at = 0
    for number in range(rows.shape[0]):
        row = rows[number]
        delta = millis[row] - base
        first, last = header_at[row], header_at[row + 1]
        size = 1 + _size_of(delta) + _size_of(number) + _size_of(last - first)
        size += _size_of_field(key_ok[row], key_at[row], key_at[row + 1])
        size += _size_of_field(value_ok[row], value_at[row], value_at[row + 1])
        for header in range(first, last):
            size += _size_of_field(1, name_at[header], name_at[header + 1])
            size += _size_of_field(content_ok[header], content_at[header], content_at[header + 1])
        at = _put(out, at, size)
        out[at] = 0
        at = _put(out, at + 1, delta)
        at = _put(out, at, number)
        at = _put_field(out, at, key_ok[row], keys, key_at[row], key_at[row + 1])
        at = _put_field(out, at, value_ok[row], values, value_at[row], value_at[row + 1])
        at = _put(out, at, last - first)
        for header in range(first, last):
            at = _put_field(out, at, 1, names, name_at[header], name_at[header + 1])
            at = _put_field(out, at, content_ok[header], contents, content_at[header], content_at[header + 1])
    return at


@compiled
def _hash_keys(key_ok: Any, key_at: Any, keys: Any, found: Any) -> Any:
    mask = np.uint64(0xFFFFFFFF)
    m = np.uint64(0x5BD1E995)
    for row in range(found.shape[0]):
        if not key_ok[row]:
            continue
        at, stop = key_at[row], key_at[row + 1]
        h = np.uint64(0x9747B28C) ^ np.uint64(stop - at)
        while stop - at >= 4:
            k = (
                np.uint64(keys[at])
                | np.uint64(keys[at + 1]) << np.uint64(8)
                | np.uint64(keys[at + 2]) << np.uint64(16)
                | np.uint64(keys[at + 3]) << np.uint64(24)
            )
            k = (k * m) & mask
            k ^= k >> np.uint64(24)
            h = ((h * m) & mask) ^ ((k * m) & mask)
            at += 4
        if at < stop:
            rest = np.uint64(0)
            shift = np.uint64(0)
            while at < stop:
                rest |= np.uint64(keys[at]) << shift
                shift += np.uint64(8)
                at += 1
            h = ((h ^ rest) * m) & mask
        h ^= h >> np.uint64(13)
        h = (h * m) & mask
        h ^= h >> np.uint64(15)
        found[row] = np.int64(h & np.uint64(0x7FFFFFFF))
    return 0
