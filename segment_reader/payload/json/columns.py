"""The buffers that the kernel fills: allocated, enlarged, and returned as Arrow arrays, numbers and texts uncopied."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.errors import TooLargeForOneBatch
from kseg.segment_reader.payload.json.shape import Kind
from kseg.segment_reader.payload.json.strings import SLACK
from kseg.segment_reader.payload.json.table import (
    GROW_TEXT,
    LISTS,
    N_CHILDREN,
    N_COUNT,
    N_DATA,
    N_KIND,
    N_OFFSETS,
    N_ROOM,
    N_SLOTS,
    N_VALID,
    TEXTS,
    WIDTHS,
    Nodes,
)

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]

#: Offsets of Arrow's lists and texts have 32 bits.
MOST: Final = 2**31 - 1
_SMALLEST: Final = 1024
_TRIM_ABOVE: Final = 1 << 16
_SAMPLE: Final = 100  # rows

_DTYPES: Final = {
    Kind.INT8: np.int8,
    Kind.INT16: np.int16,
    Kind.INT32: np.int32,
    Kind.INT64: np.int64,
    Kind.FLOAT: np.float32,
    Kind.DOUBLE: np.float64,
    Kind.DATE: np.int32,
    Kind.TIMESTAMP: np.int64,
    Kind.TIMESTAMP_NTZ: np.int64,
}


class Columns:
    """The buffers of one call. sizes: what the last call's rows needed, by node: bytes of texts, elements of lists.

    n: rows. total: bytes of all payloads, which bound texts and elements.
    """

    def __init__(self, nodes: Nodes, n: int, total: int, sizes: list[int]) -> None:
        self._nodes, self._n, self._total = nodes, n, total
        self.table = nodes.table.copy()
        self._kinds = [Kind(int(number)) for number in self.table[:, N_KIND]]
        self._valid: list[Bytes] = []
        self._data: list[Bytes] = []
        self._offsets: list[Offsets] = []
        for node, kind in enumerate(self._kinds):
            around = nodes.lists[node]
            slots = n if around < 0 else max(16, sizes[around])
            self._valid.append(np.empty(slots, np.uint8))
            room = max(_SMALLEST, sizes[node]) + 2 * SLACK if kind in TEXTS else WIDTHS.get(kind, 0) * slots
            self._data.append(np.empty(room, np.uint8))
            self._offsets.append(_offsets(slots if kind in TEXTS or kind in LISTS else 0))
            self._note(node)

    def _note(self, node: int) -> None:
        row = self.table[node]
        row[N_VALID] = self._valid[node].ctypes.data
        row[N_DATA], row[N_ROOM] = self._data[node].ctypes.data, len(self._data[node])
        row[N_OFFSETS] = self._offsets[node].ctypes.data
        row[N_SLOTS] = len(self._valid[node])

    def grow(self, answer: int, node: int, need: int, row: int) -> None:
        """Enlarges a text's data, or all that a list's elements have. row: the one that needs it.

        Twice as large, or as all rows will need if these are enough to judge by, within what their bytes can give.
        """
        if need > MOST:
            raise TooLargeForOneBatch(self._n)
        expected = need * self._n // (row + 1) * 5 // 4 if row >= _SAMPLE else 0
        if answer == GROW_TEXT:
            size = max(need, 2 * len(self._data[node]), min(expected, self._total)) + 2 * SLACK
            self._data[node] = _larger(self._data[node], size)
            self._note(node)
            return
        old = int(self.table[node + 1, N_SLOTS])
        slots = max(need, 2 * old, min(expected, self._total // 2))
        for below, around in enumerate(self._nodes.lists):
            if around == node:
                kind = self._kinds[below]
                self._valid[below] = _larger(self._valid[below], slots)
                if kind in WIDTHS:
                    self._data[below] = _larger(self._data[below], WIDTHS[kind] * slots)
                if kind in TEXTS or kind in LISTS:
                    offsets = _offsets(slots)
                    offsets[: old + 1] = self._offsets[below]
                    self._offsets[below] = offsets
                self._note(below)

    def put(self, node: int, slot: int, value: Any) -> None:
        """A value that compiled code has left out, of no text. None: it is null."""
        kind = self._kinds[node]
        if value is None:
            self._valid[node][slot] = 0
        elif kind is Kind.DECIMAL:
            sign, digits, _ = value.as_tuple()
            unscaled = int("".join(map(str, digits)))
            number = (-unscaled if sign else unscaled).to_bytes(16, "little", signed=True)
            self._data[node][16 * slot : 16 * slot + 16] = np.frombuffer(number, np.uint8)
        else:
            self._data[node].view(_DTYPES[kind])[slot] = value

    # -- as Arrow

    def used(self) -> list[int]:
        """What all rows needed, and a quarter more: the next call's `sizes`."""
        return [
            int(offsets[slots]) * 5 // 4 if len(offsets) > slots else 0
            for offsets, slots in zip(self._offsets, self._slots(), strict=True)
        ]

    def _slots(self) -> list[int]:
        """How many slots of each node are filled; lists come before what is below them."""
        slots: list[int] = []
        for around in self._nodes.lists:
            slots.append(self._n if around < 0 else int(self._offsets[around][slots[around]]))
        return slots

    def rows(self, kind: pa.StructType) -> pa.StructArray:
        slots = self._slots()
        arrays = [self._array(child, slots) for child in self._children(0)]
        if self._nodes.rescued >= 0:
            arrays.append(self._array(self._nodes.rescued, slots))
        nulls, valid = self._validity(0, self._n)
        return pa.Array.from_buffers(kind, self._n, [valid], nulls, children=arrays)

    def _children(self, node: int) -> list[int]:
        first, count = self.table[node, [N_CHILDREN, N_COUNT]].tolist()
        found: list[int] = self._nodes.children[first : first + count].tolist()
        return found

    def _validity(self, node: int, n: int) -> tuple[int, pa.Buffer | None]:
        flags = self._valid[node][:n]
        nulls = n - int(np.count_nonzero(flags))
        return nulls, pa.py_buffer(np.packbits(flags, bitorder="little")) if nulls else None

    def _array(self, node: int, slots: list[int]) -> pa.Array:
        n, kind, shape = slots[node], self._kinds[node], self._nodes.shapes[node]
        arrow = pa.string() if shape is None else shape.type
        nulls, valid = self._validity(node, n)
        if kind is Kind.STRUCT:
            children = [self._array(child, slots) for child in self._children(node)]
            return pa.Array.from_buffers(arrow, n, [valid], nulls, children=children)
        if kind in LISTS:
            children = [self._array(child, slots) for child in self._children(node)]
            if kind is Kind.MAP:
                entry = pa.struct([arrow.key_field, arrow.item_field])
                children = [pa.Array.from_buffers(entry, len(children[0]), [None], 0, children=children)]
            offsets = pa.py_buffer(_trimmed(self._offsets[node], n + 1))
            return pa.Array.from_buffers(arrow, n, [valid, offsets], nulls, children=children)
        if kind in TEXTS:
            offsets = _trimmed(self._offsets[node], n + 1)
            data = _trimmed(self._data[node], int(offsets[n]))
            return pa.Array.from_buffers(arrow, n, [valid, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)
        data = _trimmed(self._data[node], n * WIDTHS[kind])
        if kind is Kind.BOOLEAN:
            data = np.packbits(data, bitorder="little")
        return pa.Array.from_buffers(arrow, n, [valid, pa.py_buffer(data)], nulls)


def _offsets(slots: int) -> Offsets:
    if not slots:
        return np.zeros(1, np.int32)
    offsets = np.empty(slots + 1, np.int32)
    offsets[0] = 0
    return offsets


def _larger(old: Bytes, size: int) -> Bytes:
    new = np.empty(size, np.uint8)
    new[: len(old)] = old
    return new


def _trimmed(array: Any, used: int) -> Any:
    """The used part; copied where it would keep much more memory than it needs."""
    return array[:used].copy() if len(array) > max(2 * used, _TRIM_ABOVE) else array[:used]
