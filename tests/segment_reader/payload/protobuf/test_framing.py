"""Message indexes behind a schema's id."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.framing import frames_of
from kseg.segment_reader.payload.protobuf.framing import message_indexes

FRAME = b"\0\0\0\0\7"


def test_each_payload_names_its_message_and_where_it_begins() -> None:
    payloads = pa.array(
        [
            FRAME + b"\0" + b"first",
            None,
            FRAME + b"\2\2" + b"second",
            FRAME + b"\4\0\6" + b"nested",
            FRAME + b"\2\0" + b"first, at length",
            FRAME,
            FRAME + b"\4\0",
            FRAME + b"\1",
            FRAME + b"\xff\xff\xff\xff\xff\xff",
        ]
    )
    found = message_indexes(payloads, frames_of(payloads).skip)
    assert found.messages == ((0,), (0, 3), (1,))
    assert found.which.tolist() == [0, -1, 2, 1, 0, -1, -1, -1, -1]
    assert found.skip.tolist()[:5] == [6, 0, 7, 8, 7]
    bad = Status.BAD_FRAME
    assert found.status.tolist() == [0, Status.NULL, 0, 0, 0, bad, bad, bad, bad]


def test_a_slice_of_an_array_has_the_same() -> None:
    payloads = pa.array([b"other", FRAME + b"\2\2x", FRAME + b"\0x"]).slice(1)
    found = message_indexes(payloads, np.full(2, 5, np.int32))
    assert [found.messages[n] for n in found.which.tolist()] == [(1,), (0,)]
    assert found.skip.tolist() == [7, 6]
