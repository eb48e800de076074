"""The compiled decoder: the kernel, the buffers that it fills, and the Arrow arrays that they become.

Each call has buffers of its own, so that threads may share a decoder; they begin as large as the last call's were and
at least double when the kernel asks for more.
"""

from __future__ import annotations

import secrets
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.decode.jit import warn_if_compiling
from kseg.segment_reader.payload.avro import opcodes as op
from kseg.segment_reader.payload.avro.documents import DocumentTexts
from kseg.segment_reader.payload.avro.kernel import run
from kseg.segment_reader.payload.avro.program import AvroProgram, AvroSlot, build
from kseg.segment_reader.payload.avro.reference import ReferenceAvroDecoder
from kseg.segment_reader.payload.avro.resolution import Resolution
from kseg.segment_reader.payload.buffers import kernel_input
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadError, Status
from kseg.segment_reader.payload.errors import TooLargeForOneBatch
from kseg.segment_reader.payload.plain import BadPayload
from kseg.segment_reader.payload.text import SLACK

Bytes = npt.NDArray[np.uint8]

#: Offsets of Arrow's lists and strings are 32 bits.
MAX_OFFSET: Final = 2**31 - 1 - SLACK

_SMALLEST = 1024
_FEWEST = 256  # items of a level
_SCRATCH = 256


class CompiledAvroDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`. nearest: see `ValueReader`."""

    def __init__(self, resolution: Resolution, *, nearest: bool = False) -> None:
        self._reference = ReferenceAvroDecoder(resolution, nearest=nearest)
        self._texts = DocumentTexts()
        self._program = build(resolution, nearest=nearest)
        self._sizes = {slot.number: 0 for slot in self._program.by_number if slot.shape == op.BINARY}
        self._items = [0] * self._program.levels

    @property
    def type(self) -> pa.DataType:
        return self._reference.type

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._reference.explain(payload, skip=skip)

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        try:
            return self._decode(payloads, skip)
        except BadPayload:
            return self._without_bad_documents(payloads, skip)

    def _without_bad_documents(self, payloads: pa.BinaryArray, skip: int) -> DecodedPayloads:
        """The rows of all other payloads. A document's text shows what is wrong, the reference in which."""
        found = self._reference.decode(payloads, skip=skip).status
        rest = self._decode(pc.if_else(pa.array(found == Status.DECODED), payloads, None), skip)
        return DecodedPayloads(rest.rows, found)

    def _decode(self, payloads: pa.BinaryArray, skip: int) -> DecodedPayloads:
        """Raises BadPayload: a document is wrong."""
        n = len(payloads)
        status = np.empty(n, np.uint8)
        source = kernel_input(payloads, skip)
        columns = _Columns(self._program, n, self._sizes, self._items, source.total, self._texts)
        columns.run(source.fields, status)
        self._sizes, self._items = columns.used()
        return DecodedPayloads(columns.rows(), status)


class _Columns:
    """The buffers of one call.

    sizes, items: how large the last call's were, by slot and by level. total: bytes of all payloads.
    """

    def __init__(
        self, program: AvroProgram, n: int, sizes: dict[int, int], items: list[int], total: int, texts: DocumentTexts
    ) -> None:
        self._program, self._texts = program, texts
        self._n = n
        self._instructions = program.instructions.copy()
        self._slots = program.slots.copy()
        self._levels = np.zeros((program.levels, op.LEVEL_WIDTH), np.int64)
        self._stack = np.empty((program.frames, op.FRAME), np.int64)
        self._scratch = np.empty(_SCRATCH, np.int64)
        self._state = np.zeros(op.STATE_SIZE, np.int64)
        self._state[op.SEED] = secrets.randbits(63)
        self._valid: dict[int, Bytes] = {}
        self._data: dict[int, Bytes] = {}
        self._offsets: dict[int, npt.NDArray[np.int32]] = {}
        share = total // max(1, len(sizes)) + _SMALLEST
        for level in range(program.levels):
            self._levels[level, op.L_CAPACITY] = n if level == 0 else max(items[level] * 5 // 4, _FEWEST)
        for slot in program.by_number:
            self._make(slot)
            if slot.shape == op.BINARY:
                self._make_data(slot.number, min(max(sizes[slot.number] * 5 // 4, share), MAX_OFFSET))
        self._link()

    def run(self, source: npt.NDArray[np.int64], status: Bytes) -> None:
        program = self._program
        warn_if_compiling(run)
        while True:
            wanted = run(
                self._instructions.ctypes.data,
                self._slots,
                self._levels,
                program.jumps,
                program.symbols,
                program.constants.ctypes.data,
                self._stack,
                self._scratch,
                source,
                status,
                self._state,
            )
            if not wanted:
                return
            need, number = int(self._state[op.NEED]), int(self._state[op.SLOT_NUMBER])
            if wanted == op.GROW_SCRATCH:
                self._scratch = np.empty(2 * need, np.int64)
            else:
                self._grow(wanted, number, need)
                self._link()

    def _grow(self, wanted: int, number: int, need: int) -> None:
        if need > MAX_OFFSET:
            raise TooLargeForOneBatch(self._n)
        if wanted == op.GROW_SLOT:
            old = self._data[number]
            self._make_data(number, min(max(need, 2 * len(old)), MAX_OFFSET))
            self._data[number][: len(old)] = old
            return
        level = self._levels[number]
        level[op.L_CAPACITY] = min(max(need, 2 * int(level[op.L_CAPACITY])), MAX_OFFSET)
        for slot in self._program.by_number:
            if slot.level == number:
                self._make(slot)

    # -- buffers

    def _make(self, slot: AvroSlot) -> None:
        """Buffers for the items of the slot's level, with what was in them."""
        number, size = slot.number, int(self._levels[slot.level, op.L_CAPACITY])
        if slot.shape == op.NOTHING:
            return
        bits = (size + 7) // 8
        self._valid[number] = _grown(self._valid.get(number), np.full(bits, 0xFF, np.uint8))
        if slot.shape == op.VALUES:
            self._data[number] = _grown(self._data.get(number), np.empty(size * slot.width, np.uint8))
        elif slot.shape == op.BITS:
            self._data[number] = _grown(self._data.get(number), np.zeros(bits, np.uint8))
        elif slot.shape in (op.BINARY, op.LISTS):
            offsets = np.empty(size + 1, np.int32)
            offsets[0] = 0
            self._offsets[number] = _grown(self._offsets.get(number), offsets)

    def _make_data(self, number: int, size: int) -> None:
        self._data[number] = np.empty(size + SLACK, np.uint8)

    def _link(self) -> None:
        """The addresses of the buffers, in slots and instructions."""
        slots, instructions = self._slots, self._instructions
        for number, valid in self._valid.items():
            slots[number, op.S_VALID] = valid.ctypes.data
        for number, data in self._data.items():
            slots[number, [op.S_DATA, op.S_CAPACITY]] = data.ctypes.data, len(data) - SLACK
        for number, offsets in self._offsets.items():
            slots[number, op.S_OFFSETS] = offsets.ctypes.data
        own = slots[instructions[:, op.SLOT]]
        instructions[:, op.DATA] = own[:, op.S_DATA]
        instructions[:, op.OFFSETS] = own[:, op.S_OFFSETS]
        instructions[:, op.CAPACITY] = own[:, op.S_CAPACITY]

    # -- arrays

    def used(self) -> tuple[dict[int, int], list[int]]:
        items = self._levels[:, op.L_COUNT].tolist()
        items[0] = self._n
        sizes = {
            slot.number: int(self._offsets[slot.number][items[slot.level]])
            for slot in self._program.by_number
            if slot.shape == op.BINARY
        }
        return sizes, items

    def rows(self) -> pa.Array:
        return self._array(self._program.root)

    def _array(self, slot: AvroSlot) -> pa.Array:
        number, kind = slot.number, slot.type
        n = self._n if slot.level == 0 else int(self._levels[slot.level, op.L_COUNT])
        if slot.shape == op.NOTHING:
            return pa.nulls(n)
        valid = pa.py_buffer(self._valid[number]) if self._slots[number, op.S_NULLS] else None
        nulls = -1 if valid is not None else 0
        children = [self._array(child) for child in slot.children]
        match slot.shape:
            case op.STRUCT:
                return pa.Array.from_buffers(kind, n, [valid], nulls, children=children)
            case op.LISTS:
                if pa.types.is_map(kind):
                    entries = pa.struct([pa.field(kind.key_field.name, kind.key_type, False), kind.item_field])
                    children = [pa.Array.from_buffers(entries, len(children[0]), [None], 0, children=children)]
                offsets = pa.py_buffer(self._offsets[number])
                return pa.Array.from_buffers(kind, n, [valid, offsets], nulls, children=children)
            case op.BINARY:
                used = int(self._offsets[number][n])
                data = _trimmed(self._data[number], used)
                if number in self._program.kept:
                    buffers = [valid, pa.py_buffer(self._offsets[number]), pa.py_buffer(data)]
                    return self._documents(pa.Array.from_buffers(pa.binary(), n, buffers, nulls))
                return pa.Array.from_buffers(
                    kind, n, [valid, pa.py_buffer(self._offsets[number]), pa.py_buffer(data)], nulls
                )
        return pa.Array.from_buffers(kind, n, [valid, pa.py_buffer(self._data[number])], nulls)

    def _documents(self, kept: pa.BinaryArray) -> pa.StringArray:
        """The texts of what was kept. Raises BadPayload."""
        schemas, texts = self._program.documents, self._texts
        found = [
            None if one is None else texts.of(one[4:], schemas[int.from_bytes(one[:4], "little")])
            for one in kept.to_pylist()
        ]
        made = pa.array(found, pa.string())
        if isinstance(made, pa.ChunkedArray):
            raise TooLargeForOneBatch(self._n)
        return made


def _grown(old: Any, new: Any) -> Any:
    if old is not None:
        new[: len(old)] = old
    return new


def _trimmed(data: Bytes, used: int) -> Bytes:
    """The used part; copied where it would keep much more memory alive than it needs."""
    part = data[:used]
    return part.copy() if len(data) > 2 * used + _SMALLEST else part
