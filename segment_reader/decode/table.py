"""The frame table, the decoder's state and its output columns: the arrays that Python and compiled code share.

A frame table has one row of 64-bit integers a frame. `scan` writes the header's fields, `plan` what is to be done with
it, Python the position of its decompressed bytes, `fill` reads it all.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# what the header says (segment_reader.decode.batch.Frame)
(
    POSITION,
    SIZE,
    MAGIC,
    BASE,
    LAST,
    ATTRIBUTES,
    COUNT,
    BASE_TIME,
    MAX_TIME,
    PRODUCER,
    EPOCH,
    SEQUENCE,
    LEADER,
    CRC,
    MARKER,  # the type of a control record, or one of the constants below
    # what is to be done
    KIND,
    UNPACK,  # 1: compressed, and its records are wanted
    CHECK,  # 1: checksum still to be compared
    COUNTED,  # bytes to count as read for this row
    # where its records are
    START,
    STOP,
    SOURCE,  # 0: the record set, 1: the unpacked bytes
    SHIFT,  # magic 0 and 1: what to add to a message's own offset
    TIME_TYPE,  # magic 1 inside of a wrapper: the wrapper's timestamp type, else -1
    TIME,  # and its timestamp
    WIDTH,
) = range(26)

NO_MARKER, BAD_MARKER, PACKED_MARKER = -1, -2, -3

# KIND
(
    DROP,  # below the range
    COUNT_CONTROL,  # dense, the header has all
    COUNT_ABORTED,
    EMPTY,
    DATA,  # magic 2, to be read
    CONTROL,  # not dense: offsets are read, nothing is landed
    ABORTED,
    MESSAGES,  # magic 0 and 1
) = range(8)

# STATE, as indices of one array
(
    S_UNIT,  # row of the table
    S_RECORD,  # record within it
    S_AT,  # its position; -1: the unit has not been entered
    S_PREVIOUS,  # offset (delta) of the record before
    S_NEXT,  # first offset not yet passed
    S_ROWS,
    S_BYTES,
    S_KEYS,
    S_VALUES,
    S_HEADERS,
    S_HEADER_KEYS,
    S_HEADER_VALUES,
    S_NULL_KEYS,
    S_NULL_VALUES,
    S_NULL_HEADERS,
    S_NULL_HEADER_VALUES,
    S_RAW_HEADERS,  # rows with a header's name that is not UTF-8
    S_NULL_TIMES,
    S_GAPS,
    S_DATA,
    S_CONTROL,
    S_ABORTED,
    S_ABSENT,
    S_BATCHES,
    S_READ,
    S_NEED,  # how large the column that ran out of space must be
    S_OFFSET,  # the record that a fault is about, or -1
    S_ORIGIN,  # where the record set begins in its file, or -1
    S_REFUSED,
    STATE_SIZE,
) = range(30)

# what fill returns; from FAULT on it is FAULT + Fault
(
    UNITS_DONE,
    RANGE_DONE,
    FULL,
    GROW_GAPS,
    GROW_REFUSED,
    GROW_KEYS,
    GROW_VALUES,
    GROW_HEADERS,
    GROW_HEADER_KEYS,
    GROW_HEADER_VALUES,
) = range(10)
FAULT = 100

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]


class Columns(NamedTuple):
    """Arrow buffers under construction. `*_ok` are validity bits; offset columns start with 0."""

    offset: Int64s
    time: Int64s
    time_ok: Bytes
    time_type: npt.NDArray[np.int32]
    key_offsets: npt.NDArray[np.int32]
    keys: Bytes
    key_ok: Bytes
    value_offsets: npt.NDArray[np.int32]
    values: Bytes
    value_ok: Bytes
    # headers: rows point to headers, headers to their keys and values
    header_offsets: npt.NDArray[np.int32]
    header_ok: Bytes
    header_raw: Bytes  # a bit a row: it has a name that is not UTF-8
    header_key_offsets: npt.NDArray[np.int32]
    header_keys: Bytes
    header_value_offsets: npt.NDArray[np.int32]
    header_values: Bytes
    header_value_ok: Bytes
    # provenance
    leader: npt.NDArray[np.int32]
    leader_ok: Bytes
    producer: Int64s
    epoch: npt.NDArray[np.int16]
    producer_ok: Bytes
    sequence: npt.NDArray[np.int32]
    sequence_ok: Bytes
    transactional: Bytes  # a bit a row
    base: Int64s
    batch_ok: Bytes
    position: Int64s  # in the file
    position_ok: Bytes


class Rules(NamedTuple):
    """The range and how its rows look, as plain numbers (segment_reader.decode.engine.Options)."""

    end: int
    check: bool
    headers: bool
    refuse_names: bool
    aside: bool
    provenance: bool
    null_times: bool
    max_rows: int
    max_bytes: int
    row_cost: int


def as_bytes(buffer: Any) -> Bytes:
    """A read-only array over a buffer, without a copy: always of one type, so that one compilation serves."""
    array = np.frombuffer(buffer, np.uint8)
    array.flags.writeable = False
    return array
