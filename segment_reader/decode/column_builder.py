"""Arrow buffers under construction: allocated, enlarged, and returned as a RecordBatch without a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from kseg.segment_reader.decode.engine import Options
from kseg.segment_reader.decode.header_names import as_text
from kseg.segment_reader.decode.schema import HEADER, RAW_HEADER, TIMESTAMP
from kseg.segment_reader.decode.table import (
    GROW_HEADER_KEYS,
    GROW_HEADER_VALUES,
    GROW_HEADERS,
    GROW_KEYS,
    GROW_VALUES,
    S_BYTES,
    S_HEADER_KEYS,
    S_HEADER_VALUES,
    S_HEADERS,
    S_KEYS,
    S_NULL_HEADER_VALUES,
    S_NULL_HEADERS,
    S_NULL_KEYS,
    S_NULL_TIMES,
    S_NULL_VALUES,
    S_RAW_HEADERS,
    S_ROWS,
    S_VALUES,
    Bytes,
    Columns,
    Int64s,
)

_SMALLEST = 4096
_TRIM_ABOVE = 1 << 20

#: which column a GROW_ status is about, and which state counts what it holds
_GROWING = {
    GROW_KEYS: ("keys", S_KEYS),
    GROW_VALUES: ("values", S_VALUES),
    GROW_HEADER_KEYS: ("header_keys", S_HEADER_KEYS),
    GROW_HEADER_VALUES: ("header_values", S_HEADER_VALUES),
}
_PER_BATCH = (
    S_ROWS,
    S_BYTES,
    S_HEADERS,
    S_NULL_KEYS,
    S_NULL_VALUES,
    S_NULL_HEADERS,
    S_NULL_HEADER_VALUES,
    S_RAW_HEADERS,
    S_NULL_TIMES,
    *(used for _, used in _GROWING.values()),
)


def _keep_freed_buffers() -> None:
    """glibc gives freed blocks of this size back to the system, and faulting them in again takes a third of the time
    that decoding takes (125 against 83 ns a row). Having freed a larger one it keeps them: see mallopt(3),
    M_MMAP_THRESHOLD, on the dynamic threshold. The pages of this one are never touched.
    """
    np.empty(31 << 20, np.uint8)


_keep_freed_buffers()


class ColumnBuilder:
    """The columns that compiled code fills. They start a little larger than the last batch's were, and double.

    A batch that is handed over takes its buffers along. New ones are made when the next row is decoded: by then most
    readers have let go of the batch before, so that they keep two batches in memory and not three.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        limits = options.limits
        self.max_rows = max(
            1, min(limits.max_rows, options.end - options.start, limits.max_bytes // options.row_cost + 1)
        )
        self._sizes = {"keys": _SMALLEST, "values": 1 << 16, "header_keys": _SMALLEST, "header_values": _SMALLEST}
        self._headers = 256
        self._topic = _repeated(options.topic, self.max_rows)
        self._stretches: list[tuple[int, str | None]] = [(0, None)]  # first row, and the file that it is from
        self._file: tuple[str, pa.Array] = "", pa.nulls(0)
        self._partition = _fixed(pa.int32(), self.max_rows, np.full(self.max_rows, options.partition, np.int32))
        self._columns: Columns | None = None

    @property
    def columns(self) -> Columns:
        """The buffers of the batch that is being made; new ones after `emit`."""
        if self._columns is None:
            self._columns = self._make()
        return self._columns

    def _make(self) -> Columns:
        decoded = self._options.headers or self._options.raw_headers
        rows, headers = self.max_rows, self._headers if decoded else 0
        given = rows if self._options.provenance else 0
        return Columns(
            offset=np.empty(rows, np.int64),
            time=np.empty(rows, np.int64),
            time_ok=_set_bits(rows),
            time_type=np.empty(rows, np.int32),
            key_offsets=_offsets(rows),
            keys=np.empty(self._sizes["keys"], np.uint8),
            key_ok=_set_bits(rows),
            value_offsets=_offsets(rows),
            values=np.empty(self._sizes["values"], np.uint8),
            value_ok=_set_bits(rows),
            header_offsets=_offsets(rows if decoded else 0),
            header_ok=_bits(rows),
            header_raw=_bits(rows),
            header_key_offsets=_offsets(headers),
            header_keys=np.empty(self._sizes["header_keys"], np.uint8),
            header_value_offsets=_offsets(headers),
            header_values=np.empty(self._sizes["header_values"], np.uint8),
            header_value_ok=_set_bits(headers),
            leader=np.zeros(given, np.int32),
            leader_ok=_bits(given),
            producer=np.zeros(given, np.int64),
            epoch=np.zeros(given, np.int16),
            producer_ok=_bits(given),
            sequence=np.zeros(given, np.int32),
            sequence_ok=_bits(given),
            transactional=_bits(given),
            base=np.zeros(given, np.int64),
            batch_ok=_bits(given),
            position=np.zeros(given, np.int64),
            position_ok=_bits(given),
        )

    def from_file(self, file: str | None, state: Int64s) -> None:
        """The rows from here on are of this file, or of none."""
        row = int(state[S_ROWS])
        if self._stretches[-1][1] != file:
            if self._stretches[-1][0] == row:
                self._stretches.pop()
            self._stretches.append((row, file))

    def _files(self, n: int) -> pa.Array:
        parts = []
        for (first, file), (end, _) in zip(self._stretches, [*self._stretches[1:], (n, None)], strict=True):
            if file is None:
                parts.append(pa.nulls(end - first, pa.string()))
                continue
            if self._file[0] != file:
                limits = self._options.limits
                most = limits.max_bytes // (self._options.row_cost + len(file.encode())) + 1
                self._file = file, _repeated(file, min(self.max_rows, most))
            parts.append(self._file[1].slice(0, end - first))
        self._stretches = [(0, self._stretches[-1][1])]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def grow(self, status: int, need: int, state: Int64s) -> None:
        """Enlarges the column that `status` names to at least `need`, keeping what it holds.

        As large as the batch will need if its other rows are like those so far: each time it grows, all is copied.
        """
        if status == GROW_HEADERS:
            used = int(state[S_HEADERS])
            size = max(need, 2 * self._headers)
            self._headers = size
            old = self.columns
            keys, values, ok = _offsets(size), _offsets(size), _set_bits(size)
            keys[: used + 1] = old.header_key_offsets[: used + 1]
            values[: used + 1] = old.header_value_offsets[: used + 1]
            ok[: len(old.header_value_ok)] = old.header_value_ok
            self._columns = old._replace(header_key_offsets=keys, header_value_offsets=values, header_value_ok=ok)
            return
        name, counter = _GROWING[status]
        array = getattr(self.columns, name)
        used = int(state[counter])
        expected = used * self.max_rows // max(1, int(state[S_ROWS])) * 9 // 8
        # More than a batch may have is needed for a record that is larger alone.
        most = self._options.limits.max_bytes
        larger: Any = np.empty(max(need, min(max(2 * len(array), expected), most)), np.uint8)
        larger[:used] = array[:used]
        self._columns = self.columns._replace(**{name: larger})

    def emit(self, state: Int64s) -> pa.RecordBatch:
        """The rows so far as a batch, which keeps the buffers; the state's counters start at zero for the next one."""
        n, c, options = int(state[S_ROWS]), self.columns, self._options
        used = {name: int(state[counter]) for name, counter in _GROWING.values()}
        data = {name: _trimmed(getattr(c, name), size) for name, size in used.items()}
        arrays = [
            _binary(pa.binary(), n, c.key_ok, c.key_offsets, data["keys"], int(state[S_NULL_KEYS])),
            _binary(pa.binary(), n, c.value_ok, c.value_offsets, data["values"], int(state[S_NULL_VALUES])),
            self._topic.slice(0, n),
            self._partition.slice(0, n),
            _fixed(pa.int64(), n, c.offset),
            _fixed(TIMESTAMP, n, c.time, c.time_ok, int(state[S_NULL_TIMES])),
            _fixed(pa.int32(), n, c.time_type),
        ]
        if options.headers or options.raw_headers:
            arrays += self._header_lists(n, state, data)
        if options.provenance:
            arrays += [
                _fixed(pa.int32(), n, c.leader, c.leader_ok, -1),
                _fixed(pa.int64(), n, c.producer, c.producer_ok, -1),
                _fixed(pa.int16(), n, c.epoch, c.producer_ok, -1),
                _fixed(pa.int32(), n, c.sequence, c.sequence_ok, -1),
                _fixed(pa.bool_(), n, c.transactional, c.batch_ok, -1),
                _fixed(pa.int64(), n, c.base, c.batch_ok, -1),
                self._files(n),
                _fixed(pa.int64(), n, c.position, c.position_ok, -1),
            ]
        self._headers = max(256, int(state[S_HEADERS]) * 5 // 4)
        most = options.limits.max_bytes
        self._sizes = {name: max(_SMALLEST, min(size * 9 // 8, most)) for name, size in used.items()}
        state[list(_PER_BATCH)] = 0
        self._columns = None
        return pa.RecordBatch.from_arrays(arrays, schema=options.schema)

    def _header_lists(self, n: int, state: Int64s, data: dict[str, Bytes]) -> Iterator[pa.Array]:
        """The columns of headers that are asked for."""
        c, options, count, raw = self.columns, self._options, int(state[S_HEADERS]), int(state[S_RAW_HEADERS])
        keys = _binary(pa.binary(), count, None, c.header_key_offsets, data["header_keys"], 0)
        nulls = int(state[S_NULL_HEADER_VALUES])
        values = _binary(pa.binary(), count, c.header_value_ok, c.header_value_offsets, data["header_values"], nulls)
        if options.headers:
            # What is not marked is valid UTF-8, and needs no other buffers.
            texts = as_text(keys) if raw else keys.view(pa.string())
            yield self._lists(HEADER, n, [texts, values], c.header_ok, int(state[S_NULL_HEADERS]))
        if options.raw_headers:
            yield self._lists(RAW_HEADER, n, [keys, values], c.header_raw, n - raw)

    def _lists(self, kind: pa.StructType, n: int, children: list[pa.Array], ok: Bytes, missing: int) -> pa.Array:
        """A list of such headers for each row. ok: validity bits; missing: how many rows have null."""
        pairs = pa.Array.from_buffers(kind, len(children[0]), [None], 0, children=children)
        valid = pa.py_buffer(ok) if missing else None
        offsets = pa.py_buffer(self.columns.header_offsets[: n + 1])
        return pa.Array.from_buffers(pa.list_(kind), n, [valid, offsets], missing, children=[pairs])


def _bits(size: int) -> Bytes:
    return np.zeros((size + 7) // 8, np.uint8)


def _set_bits(size: int) -> Bytes:
    return np.full((size + 7) // 8, 0xFF, np.uint8)


def _offsets(size: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    offsets = np.empty(size + 1, np.int32)
    offsets[0] = 0
    return offsets


def _trimmed(array: Bytes, used: int) -> Bytes:
    """The used part; copied where it would keep much more memory alive than it needs."""
    part = array[:used]
    return part.copy() if len(array) > max(2 * used, _TRIM_ABOVE) else part


def _binary(kind: pa.DataType, n: int, ok: Bytes | None, offsets: Any, data: Bytes, nulls: int) -> pa.Array:
    valid = pa.py_buffer(ok) if ok is not None and nulls else None
    return pa.Array.from_buffers(kind, n, [valid, pa.py_buffer(offsets[: n + 1]), pa.py_buffer(data)], nulls)


def _fixed(kind: pa.DataType, n: int, data: Any, ok: Bytes | None = None, nulls: int = 0) -> pa.Array:
    """nulls: how many, -1 to have them counted when asked for."""
    valid = pa.py_buffer(ok) if ok is not None and nulls else None
    return pa.Array.from_buffers(kind, n, [valid, pa.py_buffer(data)], nulls)


def _repeated(text: str, n: int) -> pa.Array:
    data = text.encode()
    offsets = np.arange(n + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data * n)], 0)
