"""What Python and compiled code share: the declared type as integers, the kernel's stack and state, and its answers.

A node is a place of the declared type; a map has a node for its keys. Nodes are numbered in pre-order: a struct's
fields, a list's element, a map's key and value follow it. All columns below the same list have as many slots.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kseg.segment_reader.payload.json.formats import EPOCH_DAYS, IN_STRING, ISO, local_offsets
from kseg.segment_reader.payload.json.shape import NUMBERS, Kind, Shape

# -- a node's row of the table

N_KIND: Final = 0
N_WIDTH: Final = 1  # bytes of a value, 0 for what has none of its own
N_END: Final = 2  # the first node that is not below
N_CHILDREN: Final = 3  # where its children are in the list of children
N_COUNT: Final = 4  # how many these are
N_NAME: Final = 5  # where a field's name begins among the names
N_SIZE: Final = 6  # its bytes with the closing quote; 0: it cannot be compared as it is written
N_HASHES: Final = 7  # where a struct's hash table begins
N_MASK: Final = 8  # how large that is, minus one
N_PRECISION: Final = 9
N_SHIFT: Final = 10  # a decimal's scale, an epoch's power of ten
N_FORMAT: Final = 11
N_OFFSET: Final = 12  # seconds east of UTC of texts without a zone
N_VALID: Final = 13  # address: a byte a slot
N_DATA: Final = 14  # address: values, or a text's bytes
N_OFFSETS: Final = 15  # address: 32-bit offsets, one more than slots
N_ROOM: Final = 16  # bytes of a text's data
N_SLOTS: Final = 17
N_FIELD: Final = 18  # its number among its struct's fields
N_STEPS: Final = 19  # where a pattern's steps begin
N_BOUND_HIGH: Final = 20  # 10^precision of a decimal in base64, in two words
N_BOUND_LOW: Final = 21
N_CUT: Final = 22  # 1: a timestamp's digits below a microsecond are left out
N_NULLS_FAR: Final = 23  # 1: times that are not within the years 1 to 9999 are nulls
N_SIZE_OF_ROW: Final = 24

# -- how dates and timestamps are written
TEXT: Final = 0  # ISO 8601
NUMBER: Final = 1
PATTERN: Final = 2

#: A text's format, or a number's, other than the usual one: JSON as it is written, or base64 of a decimal's digits; a
#: number in a string.
AS_WRITTEN: Final = 1
IN_TEXT: Final = 2

NO_OFFSET: Final = 1 << 40  # of texts without a zone: the reference reads them
LOCAL: Final = 1 << 41  # texts have no zone: timestamp_ntz
ZONED: Final = 1 << 42  # see the zone's offsets

# -- a pattern's steps: what, and its least and most digits; a byte, and which
STEP_END: Final = 0
STEP_BYTE: Final = 1
STEP_YEAR: Final = 2
STEP_MONTH: Final = 3
STEP_DAY: Final = 4
STEP_HOUR: Final = 5
STEP_MINUTE: Final = 6
STEP_SECOND: Final = 7
STEP_FRACTION: Final = 8
STEP_ZONE: Final = 9
_UNITS: Final = ("year", "month", "day", "hour", "minute", "second", "fraction", "zone")

# -- a level of the stack: an object or array that is open
L_NODE: Final = 0
L_SLOT: Final = 1
L_NEXT: Final = 2  # a struct: which field is expected; else the next element
L_SERIAL: Final = 3  # a struct's own number, which stamps the fields it has
L_SEEN: Final = 4
L_WRITTEN: Final = 5  # how many members it has in the rescued text
L_KEY: Final = 6  # address of its name in the object around it, and the name's end
L_KEY_END: Final = 7
L_INDEX: Final = 8  # its number in the array around it
L_SIZE: Final = 9

# -- state
S_ROW: Final = 0
S_SERIAL: Final = 1
S_PATCHES: Final = 2
S_NODE: Final = 3  # which node's buffer is too small
S_NEED: Final = 4  # for how much at least
S_SCRATCH: Final = 5  # address and size: a name while it is looked up
S_SCRATCH_SIZE: Final = 6
S_STATE: Final = 7

# -- a value that the reference is asked for
P_ROW: Final = 0
P_NODE: Final = 1
P_SLOT: Final = 2
P_START: Final = 3
P_END: Final = 4
P_SIZE: Final = 5

# -- the kernel's answers, beyond those of Status. As a position, an answer is below zero.
DONE: Final = 0
BAD: Final = 64  # the document breaks the grammar, or its status is the reference's to say
UNSURE: Final = 65
GROW_TEXT: Final = 66
GROW_SLOTS: Final = 67
GROW_PATCHES: Final = 68
GROW_SCRATCH: Final = 69
GROW_SEEN: Final = 70

WIDTHS = {
    Kind.BOOLEAN: 1,
    Kind.INT8: 1,
    Kind.INT16: 2,
    Kind.INT32: 4,
    Kind.INT64: 8,
    Kind.FLOAT: 4,
    Kind.DOUBLE: 8,
    Kind.DECIMAL: 16,
    Kind.DATE: 4,
    Kind.TIMESTAMP: 8,
    Kind.TIMESTAMP_NTZ: 8,
}
TEXTS = (Kind.STRING, Kind.BINARY)
LISTS = (Kind.LIST, Kind.MAP)

_FNV, _PRIME, _WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def hash_of(name: bytes) -> int:
    """FNV-1a, as `strings.hash_at`."""
    value = _FNV
    for byte in name:
        value = ((value ^ byte) * _PRIME) & _WORD
    return value


class Rules(NamedTuple):
    """What is the same for all rows. skip: bytes of a frame; rescued: that node, or -1; seed: of hashes of keys."""

    skip: int
    max_depth: int
    rescued: int
    seed: int


class Nodes:
    """A shape as arrays: table, children, names, hashes, steps of patterns, and the zone's offsets.

    shapes: by node; None for a map's keys and rescued fields.
    """

    def __init__(self, root: Shape, *, rescue: bool) -> None:
        self.shapes: list[Shape | None] = []
        self._rows: list[list[int]] = []
        self._children: list[int] = []
        self._hashes: list[int] = []
        self._names = bytearray()
        self._steps: list[tuple[int, int, int]] = [(STEP_END, 0, 0)]
        self._zone: list[tuple[int, int]] = [(0, NO_OFFSET)]
        #: the list node that a node's slots are elements of; -1: slots are rows
        self.lists: list[int] = []
        self._add(root, -1)
        self.count = len(self._rows)
        self.rescued = -1
        if rescue:
            self.rescued = self._node(None, Kind.STRING, -1)
        self.table = np.array(self._rows, np.int64)
        self.children = np.array([*self._children, 0], np.int64)
        self.hashes = np.array([*self._hashes, 0], np.int64)
        self.steps = np.array(self._steps, np.int64)
        self.zone = np.array(self._zone, np.int64)
        self.names = np.frombuffer(bytes(self._names) + bytes(8), np.uint8).copy()

    def _node(self, shape: Shape | None, kind: Kind, around: int) -> int:
        row = [0] * N_SIZE_OF_ROW
        row[N_KIND], row[N_WIDTH] = int(kind), WIDTHS.get(kind, 0)
        row[N_END] = len(self._rows) + 1
        self._rows.append(row)
        self.shapes.append(shape)
        self.lists.append(around)
        return len(self._rows) - 1

    def _add(self, shape: Shape, around: int) -> int:
        number = self._node(shape, shape.kind, around)
        row = self._rows[number]
        if shape.kind is Kind.DECIMAL:
            row[N_PRECISION], row[N_SHIFT] = shape.type.precision, shape.type.scale
        if shape.format is not None:
            self._format(shape, row)
        below = number if shape.kind in LISTS else around
        children = [self._node(None, Kind.STRING, below)] if shape.kind is Kind.MAP else []
        children += [self._add(child, below) for child in shape.children]
        row[N_CHILDREN], row[N_COUNT], row[N_END] = len(self._children), len(children), len(self._rows)
        self._children += children
        if shape.kind is Kind.STRUCT:
            self._fields(shape, row, children)
        return number

    def _format(self, shape: Shape, row: list[int]) -> None:
        written = shape.format
        assert written is not None
        if shape.kind is Kind.STRING or shape.kind in NUMBERS:
            row[N_FORMAT] = IN_TEXT if written.name == IN_STRING else AS_WRITTEN
            bound = 10 ** row[N_PRECISION]
            low = bound & _WORD
            row[N_BOUND_HIGH], row[N_BOUND_LOW] = bound >> 64, low - (low >> 63 << 64)
            return
        number = written.pattern is None
        row[N_FORMAT] = NUMBER if number else TEXT if written.name == ISO else PATTERN
        row[N_SHIFT] = 0 if written.name == EPOCH_DAYS else written.shift
        row[N_CUT] = int(written.cut)
        row[N_NULLS_FAR] = int(written.nulls_far)
        row[N_STEPS] = len(self._steps)
        for step in written.steps:
            self._steps += [(STEP_BYTE, byte, 0) for byte in step.text]
            if step.unit in _UNITS:
                self._steps.append((STEP_YEAR + _UNITS.index(step.unit), step.least, step.most))
        self._steps.append((STEP_END, 0, 0))
        row[N_OFFSET] = LOCAL if shape.kind is Kind.TIMESTAMP_NTZ else NO_OFFSET
        if shape.kind is Kind.TIMESTAMP and written.zone is not None:
            offset = written.zone.utcoffset(None)
            row[N_OFFSET] = ZONED if offset is None else int(offset.total_seconds())
            if offset is None:
                known = local_offsets(written.zone)
                self._zone = [(since, NO_OFFSET if at is None else at) for since, at in known]

    def _fields(self, shape: Shape, row: list[int], children: list[int]) -> None:
        size = 2
        while size < 2 * len(children):
            size *= 2
        row[N_HASHES], row[N_MASK] = len(self._hashes), size - 1
        table = [0] * size
        for number, (child, text) in enumerate(zip(children, shape.names, strict=True)):
            name = text.encode()
            self._rows[child][N_FIELD] = number
            self._rows[child][N_NAME] = len(self._names)
            written = not any(byte < 0x20 or byte in b'"\\' for byte in name)
            self._rows[child][N_SIZE] = len(name) + 1 if written else -len(name) - 1
            self._names += name + b'"' + bytes(-(len(name) + 1) % 8)
            at = hash_of(name) & (size - 1)
            while table[at]:
                at = (at + 1) & (size - 1)
            table[at] = child
        self._hashes += table
