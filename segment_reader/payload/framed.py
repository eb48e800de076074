"""Documents that may have a registry's frame before them: it is checked and skipped.

For formats whose payloads begin with neither byte 0 nor 1, as JSON's do: so what has a frame and what has none is
certain.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from kseg.segment_reader.payload.buffers import byte_buffers
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status, concatenated
from kseg.segment_reader.payload.framing import frames_of


class PlainFramedDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`. plain: decodes the documents themselves."""

    def __init__(self, plain: PayloadDecoder) -> None:
        self._plain = plain

    @property
    def type(self) -> pa.DataType:
        return self._plain.type

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        if skip:
            return self._plain.decode(payloads, skip=skip)
        frames = frames_of(payloads)
        offsets, data = byte_buffers(payloads)
        begins = np.full(len(payloads), 255, np.uint8)
        some = offsets[1:] > offsets[:-1]
        begins[some] = data[offsets[:-1][some]]
        bad = (frames.status == Status.BAD_FRAME) & (begins < 2)
        sizes = np.unique(frames.skip[(frames.status != Status.NULL) & ~bad])
        if len(sizes) < 2:
            decoded = self._plain.decode(payloads, skip=int(sizes[0]) if len(sizes) else 0)
            return _without(decoded, bad)
        parts, places = [], []
        status = np.zeros(len(payloads), np.uint8)
        for size in np.unique(frames.skip).tolist():
            rows = np.flatnonzero(frames.skip == size)
            part = self._plain.decode(payloads.take(pa.array(rows)), skip=size)
            status[rows] = part.status
            parts.append(part.rows)
            places.append(rows)
        whole = concatenated(parts).take(pa.array(np.argsort(np.concatenate(places))))
        return _without(DecodedPayloads(whole, status), bad)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        if not skip and payload[:1] in (b"\0", b"\1"):
            frames = frames_of(pa.array([payload], pa.binary()))
            if frames.status[0] == Status.BAD_FRAME:
                return PayloadError(Status.BAD_FRAME, "", "the payload ends within the frame before the document")
            skip = int(frames.skip[0])
        return self._plain.explain(payload, skip=skip)


def _without(decoded: DecodedPayloads, bad: np.typing.NDArray[np.bool_]) -> DecodedPayloads:
    """These rows are null: they have no frame. Such a payload is no document either, so that it has none already."""
    status = decoded.status.copy()
    status[bad] = Status.BAD_FRAME
    return DecodedPayloads(decoded.rows, status)
