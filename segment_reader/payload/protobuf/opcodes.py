"""The numbers that programs and their kernel share: operations, and the columns of their tables.

A slot is one Arrow array under construction, numbered in the order of the type, parents first; hidden ones keep which
member of a oneof is written. A level is what has one index: the rows are level 0, the items of each list or map
another level. A table of a message says what its tags mean there.
"""

from __future__ import annotations

from typing import Final

# -- columns of an instruction, 64 bits each
OP: Final = 0
SLOT: Final = 1
VALID: Final = 2  # addresses of the slot's, and its capacity
DATA: Final = 3
OFFSETS: Final = 4
CAPACITY: Final = 5
LEVEL: Final = 6  # of a repeated field's items, else -1
LIST_SLOT: Final = 7
LIST_OFFSETS: Final = 8  # address
CASE: Final = 9  # address of the numbers of a oneof's members, or 0
CASE_SLOT: Final = 10  # -1: of no oneof
NUMBER: Final = 11
A: Final = 12
B: Final = 13
WIDTH: Final = 14

# -- operations; up to LAST_VARINT the value is a varint
INT64: Final = 1
INT32: Final = 2
ENUM: Final = 3  # A: first of a closed enum's numbers, B: how many; 0 for an open one
UINT32: Final = 4
UINT64: Final = 5
SINT32: Final = 6
SINT64: Final = 7
BOOL: Final = 8
LAST_VARINT: Final = 8
TEXT: Final = 9  # from here to LAST_DELIMITED the value begins with its length
BYTES: Final = 10
DOCUMENT: Final = 11
MESSAGE: Final = 12  # A: its table
TIME: Final = 13  # A: 1 for an instant, B: 1 to truncate
PRESENCE: Final = 14
LAST_DELIMITED: Final = 14
WORD64: Final = 15
FIXED64: Final = 16
WORD32: Final = 17
FIXED32: Final = 18
GROUP: Final = 19  # A: its table
LEAVE: Final = 20  # to the plain decoder
PACKED: Final = 32  # added to an operation: items one behind the other, without tags
WRAPPED: Final = 64  # added to an operation: a message with the value in field 1, whose tag is B

# -- columns of a message's table
M_DENSE: Final = 0  # where in `jumps` its tags below M_LIMIT are
M_LIMIT: Final = 1
M_SORTED: Final = 2  # where in `tags` the others are, ascending
M_COUNT: Final = 3
M_INIT: Final = 4  # what is written when it begins: rows of `inits`
M_INIT_END: Final = 5
M_CHECK: Final = 6  # what is checked when it ends: rows of `checks`
M_CHECK_END: Final = 7
MESSAGE_WIDTH: Final = 8

# -- columns of `inits`: one slot each
I_SLOT: Final = 0
I_SHAPE: Final = 1
I_VALID_VALUE: Final = 2
I_DEFAULT: Final = 3
I_VALID: Final = 4  # addresses
I_DATA: Final = 5
I_OFFSETS: Final = 6
INIT_WIDTH: Final = 7

# -- columns of `checks`
C_KIND: Final = 0
C_SLOT: Final = 1
C_VALID: Final = 2  # addresses
C_OFFSETS: Final = 3  # of the map
C_KEY_SLOT: Final = 4
C_KEY_DATA: Final = 5
C_KEY_OFFSETS: Final = 6  # 0: keys of one width
C_KEY_WIDTH: Final = 7
CHECK_WIDTH: Final = 8

# -- kinds of checks
REQUIRED: Final = 1
WRITTEN: Final = 2  # a map's value that is a message
UNIQUE: Final = 3  # a map's keys

# -- shapes
STRUCT: Final = 1
BYTE: Final = 2  # widths of values
WORD: Final = 3
DOUBLE_WORD: Final = 4
QUAD_WORD: Final = 5
BINARY: Final = 6
LISTS: Final = 7

# -- columns of a level
L_COUNT: Final = 0
L_SAVED: Final = 1  # when the payload began
L_CAPACITY: Final = 2
LEVEL_WIDTH: Final = 3

# -- the state between calls: the next row, and what must grow
ROW: Final = 0
GROW_SLOT: Final = 1
GROW_LEVEL: Final = 2
GROW_SCRATCH: Final = 3
NEED: Final = 4
NUMBER_OF: Final = 5  # the slot or level
SEED: Final = 6  # of the hashes of maps' keys
STATE_SIZE: Final = 7

FRAME: Final = 4  # columns of the stack: table, index, end, group

#: The status of a payload that is left to the plain decoder.
LEFT: Final = 255
