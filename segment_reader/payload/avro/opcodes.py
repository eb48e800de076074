"""The numbers that programs and their kernel share: operations, the columns of instructions and of slots, the state.

A program is a table of instructions, made of a resolved schema (`segment_reader.payload.avro.program`). A slot is one
Arrow array under construction; slots are numbered in the order of the type, parents first. A level is what has one
index: the rows are level 0, the items of each list or map another level.
"""

from __future__ import annotations

from typing import Final

# -- columns of an instruction, 64 bits each; the last three are its slot's addresses and capacity
OP: Final = 0
A: Final = 1
B: Final = 2
C: Final = 3
SLOT: Final = 4
DATA: Final = 5
OFFSETS: Final = 6
CAPACITY: Final = 7
WIDTH: Final = 8

NEAREST: Final = 1  # of LONG_SCALED: a number that is too large becomes the nearest one that may be multiplied

# -- operations; those up to LAST_NUMBER begin with a number, which is read before they are told apart
INT: Final = 1  # int -> 32 bits
LONG: Final = 2  # long -> 64 bits
LONG_SCALED: Final = 3  # A: written bits or NEAREST, B: times, C: the largest number that may be multiplied
LONG_DIVIDED: Final = 4  # A: written bits, B: by
INT_FLOAT: Final = 5  # A: written bits
INT_DOUBLE: Final = 6
SYMBOL: Final = 7  # A: first of the symbols, B: how many
NULLABLE: Final = 8  # A: the branch that is null, C: where to go then; the slot as in NULL
CHOICE: Final = 9  # A: first of the jumps, B: how many
SKIP_LONG: Final = 10
TEXT: Final = 11  # from here to LAST_NUMBER: the number is a length
BYTES: Final = 12
DECIMAL: Final = 13  # B: precision, C: digits that the scale grows by
SKIP_BYTES: Final = 14
LAST_NUMBER: Final = 14
END: Final = 15  # of a payload
DOUBLE: Final = 16
BOOLEAN: Final = 17
FLOAT: Final = 18  # from here to UINT32: four bytes
FLOAT_DOUBLE: Final = 19
UINT32: Final = 20  # of a duration
FIXED: Final = 21  # A: size
DECIMAL_FIXED: Final = 22  # A: size, B and C as in DECIMAL
UUID: Final = 23
NULL: Final = 24  # the slot and those below it
JUMP: Final = 25  # A: where
FAIL: Final = 26  # A: status
LIST: Final = 27  # A: level, B: the instruction BLOCK at the end of the item
SKIP_LIST: Final = 28
BLOCK: Final = 29  # A: level, B: smallest size of an item, C: first instruction of the item
MAP_BLOCK: Final = 30
SKIP_BLOCK: Final = 31
CONSTANT: Final = 32  # A: where it begins in the constants, B: its size
CONSTANT_END: Final = 33
SKIP_FIXED: Final = 34  # A: size
CALL: Final = 35  # A: where the skipped record's instructions are
RETURN: Final = 36
KEEP: Final = 37  # what is skipped from here on is kept
KEEP_END: Final = 38  # it becomes bytes of the slot, behind four of A: which of the program's documents it is

# -- columns of a slot
S_SHAPE: Final = 0
S_WIDTH: Final = 1  # of a value in bytes
S_LEVEL: Final = 2
S_NEXT: Final = 3  # the next slot of the same level, in or behind this one
S_END: Final = 4  # the first slot that is not in this one
S_VALID: Final = 5  # addresses
S_DATA: Final = 6
S_OFFSETS: Final = 7
S_CAPACITY: Final = 8  # bytes of a BINARY's data
S_NULLS: Final = 9  # whether it has had a null
SLOT_WIDTH: Final = 10

# -- shapes
NOTHING: Final = 0  # pa.null()
STRUCT: Final = 1
BITS: Final = 2
VALUES: Final = 3
BINARY: Final = 4
LISTS: Final = 5

# -- columns of a level
L_COUNT: Final = 0  # items so far
L_SAVED: Final = 1  # when the payload began
L_HIGH: Final = 2  # beyond the last item that the payload may have written
L_CAPACITY: Final = 3
LEVEL_WIDTH: Final = 4

# -- the state between calls: the next row, and why the call returned before the last one
ROW: Final = 0
GROW_SLOT: Final = 1  # a slot's data is too small
GROW_LEVEL: Final = 2  # a level has too few items
GROW_SCRATCH: Final = 3  # the table of a map's keys is too small
NEED: Final = 4  # the size that is needed
SLOT_NUMBER: Final = 5  # or the level's
SEED: Final = 6  # of the hashes of maps' keys
STATE_SIZE: Final = 7

FRAME: Final = 3  # columns of the stack: index, items left in the block, end of the block
