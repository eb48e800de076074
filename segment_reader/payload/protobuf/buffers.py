"""The buffers that the kernel fills: allocated, enlarged, and returned as Arrow arrays.

Validity and booleans are a byte a value until they become Arrow's bits; enums are numbers until they become symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.errors import TooLargeForOneBatch
from kseg.segment_reader.payload.plain import BadPayload
from kseg.segment_reader.payload.protobuf import opcodes as op
from kseg.segment_reader.payload.protobuf.program import WIDTHS, ProtobufProgram, ProtobufSlot
from kseg.segment_reader.payload.protobuf.reference import document_text
from kseg.segment_reader.payload.protobuf.schema import EnumType
from kseg.segment_reader.payload.text import SLACK

Bytes = npt.NDArray[np.uint8]

#: Offsets of Arrow's lists and strings are 32 bits.
MAX_OFFSET: Final = 2**31 - 1 - SLACK

_SMALLEST = 1024  # bytes
_FEWEST = 256  # items of a level


class Buffers:
    """The buffers of one call, of n rows.

    total: bytes of all payloads. sizes, items: how large the last call's were, by slot and by level.
    """

    def __init__(self, program: ProtobufProgram, n: int, total: int, sizes: dict[int, int], items: list[int]) -> None:
        self._program, self._n = program, n
        self.instructions = program.instructions.copy()
        self.inits = program.inits.copy()
        self.checks = program.checks.copy()
        self.levels = np.zeros((len(program.parents), op.LEVEL_WIDTH), np.int64)
        self._valid: dict[int, Bytes] = {}
        self._data: dict[int, Bytes] = {}
        self._offsets: dict[int, npt.NDArray[np.int32]] = {}
        self._documents: dict[int, list[str | None]] = {}
        for level in range(len(program.parents)):
            self.levels[level, op.L_CAPACITY] = n if level == 0 else max(items[level] * 5 // 4, _FEWEST)
        texts = sum(slot.shape == op.BINARY for slot in program.slots)
        share = total // max(1, texts) + _SMALLEST
        for slot in program.slots:
            self._make(slot)
            if slot.shape == op.BINARY:
                last = sizes.get(slot.number)
                size = share if last is None else max(last * 5 // 4, _SMALLEST)
                self._data[slot.number] = np.empty(min(size, MAX_OFFSET) + SLACK, np.uint8)
        self._link()

    def grow(self, wanted: int, number: int, need: int) -> None:
        """number: of the slot (GROW_SLOT) or of the level (GROW_LEVEL)."""
        if need > MAX_OFFSET:
            raise TooLargeForOneBatch(self._n)
        if wanted == op.GROW_SLOT:
            old = self._data[number]
            size = min(max(need, 2 * (len(old) - SLACK)), MAX_OFFSET)
            self._data[number] = _grown(old, np.empty(size + SLACK, np.uint8))
        else:
            level = self.levels[number]
            level[op.L_CAPACITY] = min(max(need, 2 * int(level[op.L_CAPACITY])), MAX_OFFSET)
            for slot in self._program.slots:
                if slot.level == number:
                    self._make(slot)
        self._link()

    def _make(self, slot: ProtobufSlot) -> None:
        """Buffers for the items of the slot's level, with what was in them."""
        number, size = slot.number, int(self.levels[slot.level, op.L_CAPACITY])
        self._valid[number] = _grown(self._valid.get(number), np.ones(size, np.uint8))
        if slot.shape in WIDTHS:
            self._data[number] = _grown(self._data.get(number), np.empty(size * WIDTHS[slot.shape], np.uint8))
        elif slot.shape in (op.BINARY, op.LISTS):
            offsets = np.empty(size + 1, np.int32)
            offsets[0] = 0
            self._offsets[number] = _grown(self._offsets.get(number), offsets)

    def _link(self) -> None:
        """The addresses of the buffers, in the program's tables."""
        count = len(self._program.slots)
        valid, data, offsets, capacity = np.zeros((4, count + 1), np.int64)  # the last: of no slot
        for number, array in self._valid.items():
            valid[number] = array.ctypes.data
        for number, array in self._data.items():
            data[number], capacity[number] = array.ctypes.data, len(array) - SLACK
        for number, starts in self._offsets.items():
            offsets[number] = starts.ctypes.data
        own = self.instructions[:, op.SLOT]
        self.instructions[:, op.VALID] = valid[own]
        self.instructions[:, op.DATA] = data[own]
        self.instructions[:, op.OFFSETS] = offsets[own]
        self.instructions[:, op.CAPACITY] = capacity[own]
        self.instructions[:, op.LIST_OFFSETS] = offsets[self.instructions[:, op.LIST_SLOT]]
        self.instructions[:, op.CASE] = data[self.instructions[:, op.CASE_SLOT]]
        own = self.inits[:, op.I_SLOT]
        self.inits[:, op.I_VALID], self.inits[:, op.I_DATA] = valid[own], data[own]
        self.inits[:, op.I_OFFSETS] = offsets[own]
        own, keys = self.checks[:, op.C_SLOT], self.checks[:, op.C_KEY_SLOT]
        self.checks[:, op.C_VALID], self.checks[:, op.C_OFFSETS] = valid[own], offsets[own]
        self.checks[:, op.C_KEY_DATA], self.checks[:, op.C_KEY_OFFSETS] = data[keys], offsets[keys]

    # -- arrays

    def used(self) -> tuple[dict[int, int], list[int]]:
        sizes = {
            slot.number: int(self._offsets[slot.number][self._count(slot)])
            for slot in self._program.slots
            if slot.shape == op.BINARY
        }
        return sizes, [self._n, *self.levels[1:, op.L_COUNT].tolist()]

    def _count(self, slot: ProtobufSlot) -> int:
        return self._n if slot.level == 0 else int(self.levels[slot.level, op.L_COUNT])

    def write_documents(self) -> Iterator[int]:
        """Makes JSON of the messages' bytes; yields the rows where that fails."""
        for slot in self._program.slots:
            if slot.document is None:
                continue
            n = self._count(slot)
            offsets, data = self._offsets[slot.number][: n + 1].tolist(), self._data[slot.number]
            texts: list[str | None] = [None] * n
            for index in np.flatnonzero(self._valid[slot.number][:n]).tolist():
                try:
                    texts[index] = document_text(data[offsets[index] : offsets[index + 1]].tobytes(), slot.document)
                except BadPayload:
                    yield self._row(slot, index)
            self._documents[slot.number] = texts

    def _row(self, slot: ProtobufSlot, index: int) -> int:
        """The row of an item."""
        parent = self._program.parents[slot.level]
        while parent is not None:
            starts = self._offsets[parent.number][: self._count(parent) + 1]
            index = int(np.searchsorted(starts, index, "right")) - 1
            parent = self._program.parents[parent.level]
        return index

    def rows(self) -> pa.Array:
        return self._array(self._program.root)

    def _array(self, slot: ProtobufSlot) -> pa.Array:
        number, kind, n = slot.number, slot.type, self._count(slot)
        assert kind is not None
        if slot.document is not None:
            return pa.array(self._documents[number], pa.string())
        flags = self._valid[number][:n]
        nulls = n - int(np.count_nonzero(flags))
        valid = pa.py_buffer(np.packbits(flags, bitorder="little")) if nulls else None
        children = [self._array(child) for child in slot.children]
        if slot.shape == op.STRUCT:
            return pa.Array.from_buffers(kind, n, [valid], nulls, children=children)
        if slot.shape == op.LISTS:
            if pa.types.is_map(kind):
                entries = pa.struct([pa.field(kind.key_field.name, kind.key_type, False), kind.item_field])
                children = [pa.Array.from_buffers(entries, len(children[0]), [None], 0, children=children)]
            offsets = pa.py_buffer(_trimmed(self._offsets[number], n + 1))
            return pa.Array.from_buffers(kind, n, [valid, offsets], nulls, children=children)
        if slot.shape == op.BINARY:
            offsets = _trimmed(self._offsets[number], n + 1)
            data = _trimmed(self._data[number], int(offsets[n]))
            return pa.Array.from_buffers(kind, n, [valid, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)
        data = _trimmed(self._data[number], n * WIDTHS[slot.shape])
        if slot.enum is not None:
            return _symbols(data.view(np.int32), flags, slot.enum)
        if slot.shape == op.BYTE:
            data = np.packbits(data, bitorder="little")
        return pa.Array.from_buffers(kind, n, [valid, pa.py_buffer(data)], nulls)


def _symbols(numbers: npt.NDArray[np.int32], flags: Bytes, enum: EnumType) -> pa.Array:
    """The names of an enum's numbers, and in digits those that it does not have."""
    known = np.array(sorted(enum.symbols), np.int32)
    texts = [enum.symbols[number] for number in known.tolist()]
    which = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
    strange = (known[which] != numbers) & (flags != 0)
    if strange.any():
        others, places = np.unique(numbers[strange], return_inverse=True)
        which[strange] = len(texts) + places
        texts += [str(number) for number in others.tolist()]
    indexes = pa.array(which.astype(np.int32), mask=flags == 0)
    return pa.DictionaryArray.from_arrays(indexes, pa.array(texts, pa.string())).dictionary_decode()


def _grown(old: Any, new: Any) -> Any:
    if old is not None:
        new[: len(old)] = old
    return new


def _trimmed(array: Any, used: int) -> Any:
    """The used part; copied where it would keep much more memory alive than it needs."""
    return array[:used].copy() if len(array) > 2 * used + _SMALLEST else array[:used]
