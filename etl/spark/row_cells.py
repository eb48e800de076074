"""Columns of one batch as one binary column, a cell a row: how columns that a query does not use cross the JVM.

Spark copies a binary value whole, where it takes an array of structs apart into objects and makes it again: measured,
`headers` (all null) cost ten CPU seconds a million rows in each query that only passed it on.

    cell           slots, then the variable parts, in the order of the columns
    slots          of fixed width, one for each column:
      number, time     valid u8, the value as Arrow has it
      string, binary   length i32, -1 for null
      struct           valid u8, the slots of its fields
      list, map        items i32, -1 for null; bytes i32
    part           of a string: its bytes; of a list: the length of each item's cell, u32, then these cells

Nothing is done row by row: slots are one numpy array of records, parts are joined and cut by Arrow's own kernels.
A cell that is null (a row without a partner in an outer join) is null in every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

CELL: Final = pa.binary()

_Ints = npt.NDArray[np.int64]


def can_pack(kind: pa.DataType) -> bool:
    """Whether values of this type have a place in a cell."""
    types = pa.types
    if types.is_struct(kind):
        return kind.num_fields > 0 and all(can_pack(kind.field(i).type) for i in range(kind.num_fields))
    if types.is_map(kind):
        return can_pack(kind.key_type) and can_pack(kind.item_type)
    if types.is_list(kind):
        return can_pack(kind.value_type)
    return _is_text(kind) or _width(kind) is not None


def pack(columns: Sequence[pa.Array], rows: int) -> pa.BinaryArray:
    """A cell for each row. Types: such as `can_pack`."""
    slots: list[tuple[str, Any, Any]] = []
    parts: list[pa.BinaryArray] = []
    for number, column in enumerate(columns):
        _add(column, str(number), slots, parts)
    made = np.empty(rows, np.dtype([(name, kind) for name, kind, _ in slots]))
    for name, _, values in slots:
        made[name] = values
    width = made.dtype.itemsize
    fixed = _binary(rows, np.arange(rows + 1, dtype=np.int32) * width, pa.py_buffer(made))
    if not parts:
        return fixed
    return pc.binary_join_element_wise(
        fixed, *parts, pa.scalar(b"", CELL), null_handling="replace", null_replacement=b""
    )


def unpack(cells: pa.BinaryArray, kinds: Sequence[pa.DataType]) -> list[pa.Array]:
    """The columns again, in types that differ from those packed in the names of nested fields at most."""
    if cells.null_count:
        valid = np.asarray(cells.is_valid())
        places = pa.array(np.cumsum(valid) - 1, mask=~valid)
        return [column.take(places) for column in unpack(cells.drop_null(), kinds)]
    rows = len(cells)
    layout = _Layout()
    for number, kind in enumerate(kinds):
        layout.add(kind, str(number))
    if rows == 0:
        return [pa.nulls(0, kind) for kind in kinds]
    starts = np.frombuffer(cells.buffers()[1], np.int32)[cells.offset : cells.offset + rows + 1].astype(np.int64)
    data = np.frombuffer(cells.buffers()[2], np.uint8)
    slots = _slots(data, starts, np.dtype(layout.slots))
    lengths: list[_Ints] = []
    for name, is_list in layout.parts:
        if is_list:
            items = np.maximum(slots[name + "n"], 0).astype(np.int64)
            lengths += [items * 4, slots[name].astype(np.int64) - items * 4]
        else:
            lengths.append(np.maximum(slots[name], 0).astype(np.int64))
    parts = _parts(data, starts[:-1] + slots.dtype.itemsize, lengths)
    return [_column(kind, str(number), slots, parts) for number, kind in enumerate(kinds)]


# --- into cells


def _add(column: pa.Array, name: str, slots: list[tuple[str, Any, Any]], parts: list[pa.BinaryArray]) -> None:
    kind, rows = column.type, len(column)
    if pa.types.is_struct(kind):
        slots.append((name, np.uint8, _valid(column)))
        for number, child in enumerate(column.flatten()):
            _add(child, f"{name}.{number}", slots, parts)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        items, size, its_parts = _list(column)
        slots += [(name + "n", np.int32, items), (name, np.int32, size)]
        parts += its_parts
    elif _is_text(kind):
        slots.append((name, np.int32, np.asarray(pc.fill_null(pc.binary_length(column), -1))))
        if column.null_count < rows:
            parts.append(column.cast(CELL))
    else:
        slots.append((name, np.uint8, _valid(column)))
        values = column.cast(pa.uint8()) if pa.types.is_boolean(kind) else column
        width = _width(kind)
        buffer = values.buffers()[1]
        if buffer is None:
            slots.append((name + "v", f"V{width}", np.zeros(rows, f"V{width}")))
        else:
            raw = np.frombuffer(buffer, f"V{width}", count=values.offset + rows)
            slots.append((name + "v", f"V{width}", raw[values.offset :]))


def _list(column: pa.ListArray) -> tuple[Any, Any, list[pa.BinaryArray]]:
    """Items of each row (-1: null), bytes of its part, and the two pieces of the part; none where all are empty."""
    rows = len(column)
    if column.null_count == rows:
        return np.int32(-1), np.int32(0), []
    offsets = np.asarray(column.offsets).astype(np.int32)
    first = int(offsets[0])
    values = column.values.slice(first, int(offsets[-1]) - first)
    offsets = offsets - first
    cells = pack([values], len(values))
    ends = np.frombuffer(cells.buffers()[1], np.int32)[cells.offset : cells.offset + len(values) + 1]
    valid = _valid(column).astype(bool)
    lengths = pa.py_buffer(np.ascontiguousarray(np.diff(ends).astype(np.uint32)))
    of_rows = ends[offsets]
    mask = None if valid.all() else _bitmap(valid)
    items = np.where(valid, np.diff(offsets), -1)
    size = np.where(valid, np.diff(offsets) * 4 + np.diff(of_rows), 0)
    pieces = [
        pa.Array.from_buffers(CELL, rows, [mask, pa.py_buffer(offsets * 4), lengths]),
        pa.Array.from_buffers(CELL, rows, [mask, pa.py_buffer(np.ascontiguousarray(of_rows)), cells.buffers()[2]]),
    ]
    return items, size, pieces


def _valid(column: pa.Array) -> npt.NDArray[np.uint8]:
    if not column.null_count:
        return np.ones(len(column), np.uint8)
    return np.asarray(column.is_valid()).astype(np.uint8)


# --- out of cells


@dataclass(slots=True)
class _Layout:
    """slots: a numpy type's fields. parts: the slots that have one, and whether it is a list's."""

    slots: list[tuple[str, Any]] = field(default_factory=list)
    parts: list[tuple[str, bool]] = field(default_factory=list)

    def add(self, kind: pa.DataType, name: str) -> None:
        if pa.types.is_struct(kind):
            self.slots.append((name, np.uint8))
            for number in range(kind.num_fields):
                self.add(kind.field(number).type, f"{name}.{number}")
        elif pa.types.is_list(kind) or pa.types.is_map(kind):
            self.slots += [(name + "n", np.int32), (name, np.int32)]
            self.parts.append((name, True))
        elif _is_text(kind):
            self.slots.append((name, np.int32))
            self.parts.append((name, False))
        else:
            self.slots += [(name, np.uint8), (name + "v", f"V{_width(kind)}")]


def _slots(data: npt.NDArray[np.uint8], starts: _Ints, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    rows, width = len(starts) - 1, kind.itemsize
    if starts[-1] - starts[0] == rows * width:
        return np.frombuffer(data, kind, count=rows, offset=int(starts[0]))
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    return np.ascontiguousarray(windows[starts[:-1]]).view(kind)[:, 0]


def _parts(data: npt.NDArray[np.uint8], begins: _Ints, lengths: list[_Ints]) -> list[pa.BinaryArray]:
    """Each part of all rows as an array. A cell's parts follow one another, so slots and parts cut the data."""
    rows, count = len(begins), len(lengths)
    if not count:
        return []
    if not any(each.any() for each in lengths):
        empty = _binary(rows, np.zeros(rows + 1, np.int32), pa.py_buffer(b""))
        return [empty] * count
    # Pieces of one row: what lies before its first part, then the parts.
    ends = np.empty((rows, count + 1), np.int32)
    ends[:, 0] = begins
    for number, each in enumerate(lengths):
        ends[:, number + 1] = ends[:, number] + each
    cuts = np.concatenate([np.zeros(1, np.int32), ends.ravel()])
    pieces = _binary(rows * (count + 1), cuts, pa.py_buffer(data))
    return [pieces.take(pa.array(np.arange(number, rows * (count + 1), count + 1))) for number in range(1, count + 1)]


def _column(kind: pa.DataType, name: str, slots: npt.NDArray[Any], parts: list[pa.BinaryArray]) -> pa.Array:
    """The column of these slots; takes its parts off the front of `parts`."""
    rows = len(slots)
    if pa.types.is_struct(kind):
        children = [
            _column(kind.field(number).type, f"{name}.{number}", slots, parts) for number in range(kind.num_fields)
        ]
        return pa.Array.from_buffers(kind, rows, [_bitmap(slots[name] != 0)], children=children)
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        lengths, data = parts.pop(0), parts.pop(0)
        items = slots[name + "n"]
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(np.maximum(items, 0), dtype=np.int32)])
        of_items = _content(lengths).view(np.uint32)
        ends = np.concatenate([np.zeros(1, np.int32), np.cumsum(of_items, dtype=np.int32)])
        child = kind.value_type if pa.types.is_list(kind) else _entries(kind)
        (values,) = unpack(_binary(len(of_items), ends, pa.py_buffer(_content(data))), [child])
        return pa.Array.from_buffers(kind, rows, [_bitmap(items >= 0), pa.py_buffer(offsets)], children=[values])
    if _is_text(kind):
        part = parts.pop(0)
        valid = _bitmap(slots[name] >= 0)
        return pa.Array.from_buffers(kind, rows, [valid, *part.buffers()[1:]], offset=part.offset)
    values = np.ascontiguousarray(slots[name + "v"])
    valid = _bitmap(slots[name] != 0)
    if pa.types.is_boolean(kind):
        return pa.Array.from_buffers(kind, rows, [valid, _bitmap(values.view(np.uint8) != 0)])
    return pa.Array.from_buffers(kind, rows, [valid, pa.py_buffer(values.view(np.uint8))])


def _content(array: pa.BinaryArray) -> npt.NDArray[np.uint8]:
    """The bytes of all values, one behind the other."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    return np.frombuffer(array.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]].copy()


# --- both


def _binary(rows: int, offsets: npt.NDArray[np.int32], data: pa.Buffer) -> pa.BinaryArray:
    return pa.Array.from_buffers(CELL, rows, [None, pa.py_buffer(offsets), data])


def _bitmap(valid: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _entries(kind: pa.MapType) -> pa.StructType:
    return pa.struct([kind.key_field, kind.item_field])


def _width(kind: pa.DataType) -> int | None:
    """Bytes of a value of fixed width; None for other types."""
    types = pa.types
    if types.is_boolean(kind):
        return 1
    if types.is_decimal128(kind):
        return 16
    if types.is_integer(kind) or types.is_floating(kind) or types.is_date32(kind) or types.is_timestamp(kind):
        return int(kind.bit_width) // 8
    return None
