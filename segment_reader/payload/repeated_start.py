"""Documents of Connect that begin alike: their schema, the same bytes each time, is compared and not parsed.

{"schema":{…},"payload":{…}}      one document that was decoded, and whose schema was accepted
└── its start ──┘                 others that begin with these bytes are decoded from the comma on, which
             {"payload":{…}}      becomes a brace
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.buffers import byte_buffers
from kseg.segment_reader.payload.json.document import parse
from kseg.segment_reader.payload.plain import BadPayload


@dataclass(frozen=True)
class RepeatedStart:
    """start: a payload's first bytes, a frame too, up to the name of its second member."""

    start: bytes

    @property
    def skip(self) -> int:
        """Where a shortened document begins."""
        return len(self.start) - 1

    def of(self, payloads: pa.BinaryArray) -> npt.NDArray[np.bool_]:
        """Which payloads begin so."""
        found = pc.starts_with(payloads, self.start)
        return np.asarray(found.fill_null(False))

    def shortened(self, payloads: pa.BinaryArray) -> pa.BinaryArray:
        """A copy of payloads that all begin so, in which byte `skip` begins a document without the first member."""
        offsets, data = byte_buffers(payloads)
        first, last = int(offsets[0]), int(offsets[-1])
        copy = data[first:last].copy()
        copy[offsets[:-1] - first + self.skip] = ord("{")
        buffers = [None, pa.py_buffer((offsets - first).astype(np.int32)), pa.py_buffer(copy)]
        return pa.Array.from_buffers(pa.binary(), len(payloads), buffers)


def repeated_start(payload: bytes, skip: int, members: tuple[str, str], max_depth: int) -> RepeatedStart | None:
    """Of a document that begins with these two members."""
    try:
        found = parse(payload, skip, max_depth).members
    except BadPayload:
        return None
    if tuple(member.name for member in found[:2]) != members:
        return None
    return RepeatedStart(payload[: found[1].start])
