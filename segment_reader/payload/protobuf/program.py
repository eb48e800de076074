"""A message's columns as tables, so that one kernel, compiled once, decodes every schema.

instructions   a field and one of its tags: what is done with the value. A list of numbers has two, packed and not
messages       a message at one place: its tags, what is written when it begins and checked when it ends
inits          the slots of a message's level that are in it: null, or a default, or an empty list
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.protobuf import opcodes as op
from kseg.segment_reader.payload.protobuf.columns import (
    FieldColumn,
    JsonTextColumn,
    MessageColumns,
    Node,
    Presence,
    Scalar,
    Time,
    Wrapper,
    wire_type,
)
from kseg.segment_reader.payload.protobuf.schema import EnumType, FieldKind
from kseg.segment_reader.payload.protobuf.wire import DELIMITED, GROUP

Table = npt.NDArray[np.int64]

#: Tags below this have a place of their own in `jumps`: fields up to number 511.
_DENSE: Final = 4096

_OPS: Final = {
    FieldKind.DOUBLE: op.WORD64,
    FieldKind.FLOAT: op.WORD32,
    FieldKind.INT64: op.INT64,
    FieldKind.UINT64: op.UINT64,
    FieldKind.INT32: op.INT32,
    FieldKind.FIXED64: op.FIXED64,
    FieldKind.FIXED32: op.FIXED32,
    FieldKind.BOOL: op.BOOL,
    FieldKind.STRING: op.TEXT,
    FieldKind.BYTES: op.BYTES,
    FieldKind.UINT32: op.UINT32,
    FieldKind.ENUM: op.ENUM,
    FieldKind.SFIXED32: op.WORD32,
    FieldKind.SFIXED64: op.WORD64,
    FieldKind.SINT32: op.SINT32,
    FieldKind.SINT64: op.SINT64,
}

WIDTHS: Final = {op.BYTE: 1, op.WORD: 4, op.DOUBLE_WORD: 8, op.QUAD_WORD: 16}


@dataclass(slots=True)
class ProtobufSlot:
    """One Arrow array. children: of a struct's fields, a list's items, a map's keys and values. type: None is hidden.

    enum: its values are numbers of it. document: its values are bytes of this message.
    """

    number: int
    type: pa.DataType | None
    shape: int
    level: int
    children: list[ProtobufSlot] = field(default_factory=list)
    enum: EnumType | None = None
    document: JsonTextColumn | None = None


@dataclass(frozen=True, slots=True)
class ProtobufProgram:
    """Tables: see `opcodes`; addresses are filled in when buffers are there.

    root: the slot of the rows. parents: of each level its list's slot. nulls: rows of `inits` for a row that is null.
    """

    root: ProtobufSlot
    slots: list[ProtobufSlot]
    instructions: Table
    messages: Table
    inits: Table
    checks: Table
    jumps: Table
    tags: Table
    closed: Table
    parents: list[ProtobufSlot | None]
    nulls: tuple[int, int]
    frames: int


def build(struct: MessageColumns) -> ProtobufProgram:
    builder = _Builder()
    root = builder.slot(struct.type, op.STRUCT, 0)
    builder.message(struct, root, 0)
    nulls = builder.add_inits([(slot, 0, 0) for slot in builder.slots if slot.level == 0])
    return ProtobufProgram(
        root=root,
        slots=builder.slots,
        instructions=_table(builder.instructions, op.WIDTH),
        messages=_table(builder.messages, op.MESSAGE_WIDTH),
        inits=_table(builder.inits, op.INIT_WIDTH),
        checks=_table(builder.checks, op.CHECK_WIDTH),
        jumps=np.array(builder.jumps or [-1], np.int64),
        tags=_table(builder.tags, 2),
        closed=np.array(builder.closed or [0], np.int64),
        parents=builder.parents,
        nulls=nulls,
        frames=builder.depth + 2,
    )


def _table(rows: list[list[int]], width: int) -> Table:
    return np.array(rows, np.int64).reshape(-1, width) if rows else np.zeros((1, width), np.int64)


Init = tuple[ProtobufSlot, int, int]  # slot, whether it is valid, its default


class _Builder:
    def __init__(self) -> None:
        self.slots: list[ProtobufSlot] = []
        self.parents: list[ProtobufSlot | None] = [None]
        self.instructions: list[list[int]] = []
        self.messages: list[list[int]] = []
        self.inits: list[list[int]] = []
        self.checks: list[list[int]] = []
        self.jumps: list[int] = []
        self.tags: list[list[int]] = []
        self.closed: list[int] = []
        self.depth = 0

    # -- slots

    def slot(self, kind: pa.DataType | None, shape: int, level: int) -> ProtobufSlot:
        slot = ProtobufSlot(len(self.slots), kind, shape, level)
        self.slots.append(slot)
        return slot

    def _node_slot(self, node: Node, kind: pa.DataType, level: int) -> ProtobufSlot:
        """The slot of one value; a struct's fields get theirs with the message."""
        slot = self.slot(kind, _shape(node), level)
        if isinstance(node, Scalar):
            slot.enum = node.enum
        elif isinstance(node, JsonTextColumn):
            slot.document = node
        return slot

    # -- messages

    def message(self, struct: MessageColumns, slot: ProtobufSlot, depth: int) -> tuple[int, list[Init]]:
        """The message's table, and what is written for its fields when it begins."""
        self.depth = max(self.depth, depth)
        number = self._reserve()
        cases = {
            oneof: self.slot(None, op.WORD, slot.level)
            for oneof in sorted({c.field.oneof for c in struct.columns if c.field.oneof is not None})
        }
        inits: list[Init] = [(case, 1, 0) for case in cases.values()]
        tags: dict[int, int] = {}
        checks: list[list[int]] = []
        for column in struct.columns:
            case = None if column.field.oneof is None else cases[column.field.oneof]
            own = self._column(column, slot, case, depth, tags, checks)
            slot.children.append(own[0][0])
            inits += own
        self._finish(number, tags, inits, checks)
        return number, inits

    def _column(
        self,
        column: FieldColumn,
        around: ProtobufSlot,
        case: ProtobufSlot | None,
        depth: int,
        tags: dict[int, int],
        checks: list[list[int]],
    ) -> list[Init]:
        """The inits of a field, its own slot's first."""
        node, own = column.node, column.field
        if column.key is not None:
            return [(self._map(column, around.level, depth, tags, checks), 1, 0)]
        if own.repeated:
            array = self.slot(column.type, op.LISTS, around.level)
            level = self._level(array)
            item = self._node_slot(node, column.type.value_type, level)
            array.children = [item]
            self._value(column, node, item, own.number, tags, depth, array=array)
            return [(array, 1, 0)]
        slot = self._node_slot(node, column.type, around.level)
        below = self._value(column, node, slot, own.number, tags, depth, case=case)
        if own.required:
            checks.append(self._check(op.REQUIRED, slot))
        implicit = isinstance(node, Scalar) and not own.presence
        default = node.default if isinstance(node, Scalar) and implicit else 0
        return [(slot, int(implicit), default), *((inner, 0, 0) for inner, _, _ in below)]

    def _map(
        self, column: FieldColumn, level: int, depth: int, tags: dict[int, int], checks: list[list[int]]
    ) -> ProtobufSlot:
        assert column.key is not None
        entries = self.slot(column.type, op.LISTS, level)
        below = self._level(entries)
        key = self._node_slot(column.key, column.type.key_type, below)
        value = self._node_slot(column.node, column.type.item_type, below)
        entries.children = [key, value]
        checks.append(self._check(op.UNIQUE, entries, key))
        table = self._reserve()
        # An entry is a message of two fields, whose own slot is that of its key: nothing is null there.
        self._instruction(op.MESSAGE, key, a=table, array=entries, tag=own_tag(column.field.number), tags=tags)
        inner: dict[int, int] = {}
        inner_checks: list[list[int]] = []
        self._value(column, column.key, key, 1, inner, depth + 1)
        inits: list[Init] = [(key, 1, 0)]
        under = self._value(column, column.node, value, 2, inner, depth + 1)
        if isinstance(column.node, Scalar):
            inits.append((value, 1, column.node.default))
        else:
            inits += [(value, 0, 0), *((slot, 0, 0) for slot, _, _ in under)]
            inner_checks.append(self._check(op.WRITTEN, value))
        self._finish(table, inner, inits, inner_checks)
        return entries

    def _value(
        self,
        column: FieldColumn,
        node: Node,
        slot: ProtobufSlot,
        number: int,
        tags: dict[int, int],
        depth: int,
        *,
        array: ProtobufSlot | None = None,
        case: ProtobufSlot | None = None,
    ) -> list[Init]:
        """The instructions of a value; returns the inits of what is below its slot on its level."""
        tag = own_tag(number)
        group = _is_group(column, number)
        if group and not isinstance(node, MessageColumns):
            self._instruction(op.LEAVE, slot, 0, 0, number << 3 | GROUP, tags, array=array, case=case)
            return []
        match node:
            case Scalar(kind, enum):
                first, count = self._closed(enum)
                self._instruction(
                    _OPS[kind], slot, first, count, number << 3 | wire_type(kind), tags, array=array, case=case
                )
                if array is not None and wire_type(kind) != DELIMITED:
                    self._instruction(_OPS[kind] + op.PACKED, slot, first, count, tag, tags, array=array)
            case Wrapper(Scalar(kind)):
                self._instruction(
                    _OPS[kind] + op.WRAPPED, slot, 0, 8 | wire_type(kind), tag, tags, array=array, case=case
                )
            case Time(instant, options):
                truncate = options.nanoseconds == "truncate"
                self._instruction(op.TIME, slot, int(instant), int(truncate), tag, tags, array=array, case=case)
            case JsonTextColumn():
                self._instruction(op.DOCUMENT, slot, 0, 0, tag, tags, array=array, case=case)
            case Presence():
                self._instruction(op.PRESENCE, slot, 0, 0, tag, tags, array=array, case=case)
            case MessageColumns():
                table, inits = self.message(node, slot, depth + 1)
                code, tag = (op.GROUP, number << 3 | GROUP) if group else (op.MESSAGE, tag)
                self._instruction(code, slot, table, 0, tag, tags, array=array, case=case)
                return inits
        return []

    # -- rows of the tables

    def _reserve(self) -> int:
        self.messages.append([0] * op.MESSAGE_WIDTH)
        return len(self.messages) - 1

    def _level(self, array: ProtobufSlot) -> int:
        self.parents.append(array)
        return len(self.parents) - 1

    def _closed(self, enum: EnumType | None) -> tuple[int, int]:
        if enum is None or not enum.closed:
            return 0, 0
        first = len(self.closed)
        self.closed += sorted(enum.symbols)
        return first, len(enum.symbols)

    def _instruction(
        self,
        code: int,
        slot: ProtobufSlot,
        a: int = 0,
        b: int = 0,
        tag: int = 0,
        tags: dict[int, int] | None = None,
        *,
        array: ProtobufSlot | None = None,
        case: ProtobufSlot | None = None,
    ) -> None:
        row = [0] * op.WIDTH
        row[op.OP], row[op.SLOT], row[op.A], row[op.B], row[op.NUMBER] = code, slot.number, a, b, tag >> 3
        row[op.LEVEL] = -1 if array is None else slot.level
        row[op.LIST_SLOT] = -1 if array is None else array.number
        row[op.CASE_SLOT] = -1 if case is None else case.number
        assert tags is not None
        tags[tag] = len(self.instructions)
        self.instructions.append(row)

    def _check(self, kind: int, slot: ProtobufSlot, key: ProtobufSlot | None = None) -> list[int]:
        row = [0] * op.CHECK_WIDTH
        row[op.C_KIND], row[op.C_SLOT], row[op.C_KEY_SLOT] = kind, slot.number, slot.number
        if key is not None:
            row[op.C_KEY_SLOT], row[op.C_KEY_WIDTH] = key.number, WIDTHS.get(key.shape, 0)
        return row

    def add_inits(self, inits: list[Init]) -> tuple[int, int]:
        first = len(self.inits)
        for slot, valid, default in inits:
            row = [0] * op.INIT_WIDTH
            row[op.I_SLOT], row[op.I_SHAPE] = slot.number, slot.shape
            row[op.I_VALID_VALUE], row[op.I_DEFAULT] = valid, default
            self.inits.append(row)
        return first, len(self.inits)

    def _finish(self, number: int, tags: dict[int, int], inits: list[Init], checks: list[list[int]]) -> None:
        row = self.messages[number]
        few = {tag: at for tag, at in tags.items() if tag < _DENSE}
        many = sorted((tag, at) for tag, at in tags.items() if tag >= _DENSE)
        row[op.M_DENSE], row[op.M_LIMIT] = len(self.jumps), max(few, default=-1) + 1
        self.jumps += [few.get(tag, -1) for tag in range(row[op.M_LIMIT])]
        row[op.M_SORTED], row[op.M_COUNT] = len(self.tags), len(many)
        self.tags += [[tag, at] for tag, at in many]
        row[op.M_INIT], row[op.M_INIT_END] = self.add_inits(inits)
        row[op.M_CHECK], row[op.M_CHECK_END] = len(self.checks), len(self.checks) + len(checks)
        self.checks += checks


def own_tag(number: int) -> int:
    """The tag of a length-delimited field."""
    return number << 3 | DELIMITED


def _is_group(column: FieldColumn, number: int) -> bool:
    return column.key is None and column.field.kind is FieldKind.GROUP and column.field.number == number


def _shape(node: Node) -> int:
    match node:
        case MessageColumns():
            return op.STRUCT
        case JsonTextColumn():
            return op.BINARY
        case Presence():
            return op.BYTE
        case Time():
            return op.DOUBLE_WORD
        case Scalar(kind) | Wrapper(Scalar(kind)):
            return _SHAPES[kind]


_SHAPES: Final = {
    FieldKind.DOUBLE: op.DOUBLE_WORD,
    FieldKind.FLOAT: op.WORD,
    FieldKind.INT64: op.DOUBLE_WORD,
    FieldKind.UINT64: op.QUAD_WORD,
    FieldKind.INT32: op.WORD,
    FieldKind.FIXED64: op.QUAD_WORD,
    FieldKind.FIXED32: op.DOUBLE_WORD,
    FieldKind.BOOL: op.BYTE,
    FieldKind.STRING: op.BINARY,
    FieldKind.BYTES: op.BINARY,
    FieldKind.UINT32: op.DOUBLE_WORD,
    FieldKind.ENUM: op.WORD,
    FieldKind.SFIXED32: op.WORD,
    FieldKind.SFIXED64: op.DOUBLE_WORD,
    FieldKind.SINT32: op.WORD,
    FieldKind.SINT64: op.DOUBLE_WORD,
}
