"""A resolved schema as a table of instructions, so that one kernel, compiled once, decodes every schema.

record           its fields' instructions, one after the other
union            CHOICE reads the branch and jumps; each branch ends with a JUMP behind the last one
array, map       LIST … item … BLOCK, which reads block counts and returns to the item
default          CONSTANT … value … CONSTANT_END: read from the constants instead of the payload
document         KEEP … what is skipped … KEEP_END, which copies it: it becomes text when the kernel is done
skipped record   CALL to instructions that all uses share: it may contain itself
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.avro import opcodes as op
from kseg.segment_reader.payload.avro.limits import MAX_DEPTH
from kseg.segment_reader.payload.avro.nodes import (
    Binary,
    Boolean,
    Constant,
    Decimal,
    Duration,
    Floating,
    Integer,
    Items,
    JsonTextNode,
    MapNode,
    Mismatch,
    Node,
    Null,
    ReaderUnionMember,
    Skipped,
    Structure,
    Symbols,
    Text,
    UuidText,
    WriterUnionNode,
)
from kseg.segment_reader.payload.avro.resolution import Resolution, smallest
from kseg.segment_reader.payload.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroMap,
    AvroRecord,
    Fixed,
    Primitive,
    PrimitiveKind,
    Schema,
    Union,
)
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.text import SLACK

Table = npt.NDArray[np.int64]

_MAX = 2**63 - 1
_SIZES = {PrimitiveKind.NULL: 0, PrimitiveKind.BOOLEAN: 1, PrimitiveKind.FLOAT: 4, PrimitiveKind.DOUBLE: 8}


@dataclass(slots=True)
class AvroSlot:
    """One Arrow array. children: the slots of a struct's fields, of a list's item, of a map's key and value."""

    number: int
    type: pa.DataType
    shape: int
    width: int
    level: int
    children: list[AvroSlot] = field(default_factory=list)
    end: int = 0


@dataclass(frozen=True, slots=True)
class AvroProgram:
    """instructions, slots: see `opcodes`; addresses are filled in when buffers are there.

    root: the slot of the rows. symbols: start and size in the constants, size -1 where there is none. documents: the
    schemas of what is kept as bytes; kept: the numbers of the slots that have it.
    """

    root: AvroSlot
    by_number: list[AvroSlot]
    instructions: Table
    slots: Table
    jumps: Table
    symbols: Table
    documents: tuple[Schema, ...]
    kept: frozenset[int]
    constants: npt.NDArray[np.uint8]
    levels: int
    frames: int


def build(resolution: Resolution, *, nearest: bool = False) -> AvroProgram:
    """nearest: see `value_reader.ValueReader`."""
    builder = _Builder(nearest)
    root = builder.slot(resolution.type, 0, 0)
    builder.emit(resolution.node, root)
    builder.add(op.END)
    builder.finish_calls()
    slots = np.zeros((len(builder.slots), op.SLOT_WIDTH), np.int64)
    for slot in builder.slots:
        following = slot.number + 1 if slot.shape == op.STRUCT else slot.end
        slots[slot.number, : op.S_END + 1] = slot.shape, slot.width, slot.level, following, slot.end
    return AvroProgram(
        root=root,
        by_number=builder.slots,
        instructions=np.array(builder.instructions, np.int64),
        slots=slots,
        jumps=np.array(builder.jumps or [0], np.int64),
        symbols=np.array(builder.symbols or [(0, 0)], np.int64),
        documents=tuple(builder.documents),
        kept=frozenset(builder.kept),
        constants=np.frombuffer(bytes(builder.constants) + bytes(SLACK), np.uint8),
        levels=builder.levels,
        frames=builder.nesting + MAX_DEPTH + 1,
    )


class _Builder:
    def __init__(self, nearest: bool) -> None:
        self._nearest = nearest
        self.instructions: list[list[int]] = []
        self.slots: list[AvroSlot] = []
        self.jumps: list[int] = []
        self.symbols: list[tuple[int, int]] = []
        self.documents: list[Schema] = []
        self.kept: set[int] = set()
        self.constants = bytearray()
        self.levels = 1
        self.nesting = 0
        self._calls: list[tuple[int, AvroRecord]] = []  # instructions whose target is not known yet

    def add(self, code: int, slot: AvroSlot | None = None, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Returns the instruction's number."""
        row = [0] * op.WIDTH
        row[op.OP], row[op.A], row[op.B], row[op.C] = code, a, b, c
        row[op.SLOT] = slot.number if slot else 0
        self.instructions.append(row)
        return len(self.instructions) - 1

    def _patch(self, number: int, column: int) -> None:
        """The instruction continues at the one that comes next."""
        self.instructions[number][column] = len(self.instructions)

    # -- slots

    def slot(self, kind: pa.DataType, level: int, nesting: int) -> AvroSlot:
        shape, width = _shape(kind)
        slot = AvroSlot(len(self.slots), kind, shape, width, level)
        self.slots.append(slot)
        self.nesting = max(self.nesting, nesting)
        if shape == op.STRUCT:
            slot.children = [self.slot(kind.field(n).type, level, nesting) for n in range(kind.num_fields)]
        elif shape == op.LISTS:
            below, self.levels = self.levels, self.levels + 1
            parts = [kind.key_type, kind.item_type] if pa.types.is_map(kind) else [kind.value_type]
            slot.children = [self.slot(part, below, nesting + 1) for part in parts]
        slot.end = len(self.slots)
        return slot

    # -- values

    def emit(self, node: Node, slot: AvroSlot) -> None:
        match node:
            case Null():
                self.add(op.NULL, slot)
            case Boolean():
                self.add(op.BOOLEAN, slot)
            case Integer():
                self._integer(node, slot)
            case Floating(bits, column):
                wide = op.DOUBLE if bits == 64 else op.FLOAT_DOUBLE
                self.add(op.FLOAT if column is PrimitiveKind.FLOAT else wide, slot)
            case Text():
                self.add(op.TEXT, slot)
            case Binary(None):
                self.add(op.BYTES, slot)
            case Binary(size):
                self.add(op.FIXED, slot, size or 0)
            case Decimal():
                code = op.DECIMAL if node.size is None else op.DECIMAL_FIXED
                self.add(code, slot, node.size or 0, node.precision, node.shift)
            case UuidText():
                self.add(op.UUID, slot)
            case Duration():
                for child in slot.children:
                    self.add(op.UINT32, child)
            case Symbols():
                self._symbols(node, slot)
            case Skipped(schema):
                self._skip(schema)
            case JsonTextNode(schema):
                self.add(op.KEEP)
                self._skip(schema)
                self.add(op.KEEP_END, slot, len(self.documents))
                self.documents.append(schema)
                self.kept.add(slot.number)
            case Structure():
                self._structure(node, slot)
            case Items(item, minimum):
                self._list(op.BLOCK, [(item, slot.children[0])], minimum, slot)
            case MapNode(value, minimum):
                key, own = slot.children
                self._list(op.MAP_BLOCK, [(Text(), key), (value, own)], minimum, slot)
            case WriterUnionNode():
                self._choice(node, slot)
            case ReaderUnionMember():
                for number, child in enumerate(slot.children):
                    if number != node.number:
                        self.add(op.NULL, child)
                self.emit(node.node, slot.children[node.number])
            case Mismatch():
                self.add(op.FAIL, a=Status.INCOMPATIBLE_SCHEMA)

    def _integer(self, node: Integer, slot: AvroSlot) -> None:
        if node.column is PrimitiveKind.FLOAT or node.column is PrimitiveKind.DOUBLE:
            self.add(op.INT_FLOAT if node.column is PrimitiveKind.FLOAT else op.INT_DOUBLE, slot, node.bits)
        elif node.column is PrimitiveKind.INT:
            self.add(op.INT, slot)
        elif node.divide > 1:
            self.add(op.LONG_DIVIDED, slot, node.bits, node.divide)
        elif node.multiply > 1 or node.bits == 32:
            bits = op.NEAREST if self._nearest and node.multiply > 1 and node.bits == 64 else node.bits
            self.add(op.LONG_SCALED, slot, bits, node.multiply, _MAX // node.multiply)
        else:
            self.add(op.LONG, slot)

    def _symbols(self, node: Symbols, slot: AvroSlot) -> None:
        first = len(self.symbols)
        for symbol in node.symbols:
            data = (symbol or "").encode()
            self.symbols.append((len(self.constants), -1 if symbol is None else len(data)))
            self.constants += data
        self.add(op.SYMBOL, slot, first, len(node.symbols))

    def _structure(self, node: Structure, slot: AvroSlot) -> None:
        for step in node.steps:
            self.emit(step.node, slot if step.column is None else slot.children[step.column])
        for column, constant in node.absent:
            self._absent(constant, slot.children[column])

    def _absent(self, constant: Constant | None, slot: AvroSlot) -> None:
        if constant is None:
            self.add(op.NULL, slot)
            return
        self.add(op.CONSTANT, None, len(self.constants), len(constant.data))
        self.constants += constant.data
        self.emit(constant.node, slot)
        self.add(op.CONSTANT_END)

    def _list(self, block: int, parts: list[tuple[Node, AvroSlot]], minimum: int, slot: AvroSlot) -> None:
        level = slot.children[0].level
        start = self.add(op.LIST, slot, level)
        for node, child in parts:
            self.emit(node, child)
        self._patch(start, op.B)
        self.add(block, slot, level, minimum, start + 1)

    def _choice(self, node: WriterUnionNode, slot: AvroSlot) -> None:
        nulls = [n for n, branch in enumerate(node.branches) if isinstance(branch, Null)]
        if len(node.branches) == 2 and len(nulls) == 1:
            start = self.add(op.NULLABLE, slot, nulls[0])
            self.emit(node.branches[1 - nulls[0]], slot)
            self._patch(start, op.C)
            return
        self._branches(len(node.branches), lambda n: self.emit(node.branches[n], slot))

    def _branches(self, count: int, emit: Any) -> None:
        first = len(self.jumps)
        self.jumps += [0] * count
        self.add(op.CHOICE, None, first, count)
        ends = []
        for n in range(count):
            self.jumps[first + n] = len(self.instructions)
            emit(n)
            ends.append(self.add(op.JUMP))
        for end in ends:
            self._patch(end, op.A)

    # -- what is not read

    def _skip(self, schema: Schema) -> None:
        match schema:
            case Primitive(kind=kind) if kind in _SIZES:
                if _SIZES[kind]:
                    self.add(op.SKIP_FIXED, a=_SIZES[kind])
            case Primitive(kind=PrimitiveKind.INT | PrimitiveKind.LONG) | AvroEnum():
                self.add(op.SKIP_LONG)
            case Primitive():
                self.add(op.SKIP_BYTES)
            case Fixed():
                self.add(op.SKIP_FIXED, a=schema.size)
            case Union():
                self._branches(len(schema.branches), lambda n: self._skip(schema.branches[n]))
            case AvroRecord():
                self._calls.append((self.add(op.CALL), schema))
            case AvroArray():
                self._skip_list([schema.items], smallest(schema.items))
            case AvroMap():
                self._skip_list([Primitive(PrimitiveKind.BYTES), schema.values], 1 + smallest(schema.values))

    def _skip_list(self, parts: list[Schema], minimum: int) -> None:
        start = self.add(op.SKIP_LIST)
        for part in parts:
            self._skip(part)
        self._patch(start, op.B)
        self.add(op.SKIP_BLOCK, None, 0, minimum, start + 1)

    def finish_calls(self) -> None:
        """The instructions of skipped records, which may call others."""
        known: dict[int, int] = {}
        while self._calls:
            number, record = self._calls.pop()
            if id(record) not in known:
                known[id(record)] = len(self.instructions)
                for own in record.fields:
                    self._skip(own.schema)
                self.add(op.RETURN)
            self.instructions[number][op.A] = known[id(record)]


def _shape(kind: pa.DataType) -> tuple[int, int]:
    """A type's shape and the width of its values in bytes."""
    if pa.types.is_struct(kind):
        return op.STRUCT, 0
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return op.LISTS, 0
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return op.BINARY, 0
    if pa.types.is_boolean(kind):
        return op.BITS, 0
    if pa.types.is_null(kind):
        return op.NOTHING, 0
    return op.VALUES, kind.bit_width // 8
