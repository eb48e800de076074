"""Payloads of AWS Glue's serializers: a header before each, and compression.

    byte 0 = 3   byte 1 = 0 (as it is) or 5 (zlib)   16 bytes UUID of the schema's version   then the payload

`GlueDecoder` decodes all by one schema, which comes from elsewhere, and ignores the UUIDs; `framing.frames_of` reads
those of payloads whose schemas are in the registry.
https://github.com/awslabs/aws-glue-schema-registry: common, AWSSchemaRegistryConstants
"""

from __future__ import annotations

import zlib
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.segment_reader.payload.buffers import byte_buffers, null_mask
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status, concatenated
from kseg.segment_reader.payload.errors import TooLargeForOneBatch
from kseg.segment_reader.payload.framing import GLUE_FRAME, GLUE_VERSION

_AS_IT_IS, _ZLIB = 0, 5
#: Of one payload, decompressed, and of all that are decoded together; a batch of Kafka has a few megabytes. A stream of
#: a kilobyte can become a megabyte.
_MOST_BYTES: Final = 256 * 1024 * 1024


def has_glue_frame(payload: bytes) -> bool:
    """Whether a payload begins with such a header."""
    return len(payload) >= GLUE_FRAME and payload[0] == GLUE_VERSION and payload[1] in (_AS_IT_IS, _ZLIB)


class GlueDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`. plain: decodes the payloads behind the headers."""

    def __init__(self, plain: PayloadDecoder) -> None:
        self._plain = plain

    @property
    def type(self) -> pa.DataType:
        return self._plain.type

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        """Payloads without the header, or whose compressed bytes are damaged, are BAD_FRAME."""
        assert skip == 0
        plain, packed = _forms(payloads)
        if plain.all():
            return self._plain.decode(payloads, skip=GLUE_FRAME)
        inflated = _all_inflated(payloads, np.flatnonzero(packed).tolist())
        whole, bodies = list(inflated), list(inflated.values())
        rest = np.setdiff1d(np.flatnonzero(~plain), whole)
        parts = [
            (np.flatnonzero(plain), self._plain.decode(payloads.filter(pa.array(plain)), skip=GLUE_FRAME)),
            (np.array(whole, np.int64), self._plain.decode(pa.array(bodies, pa.binary()))),
            (rest, DecodedPayloads(pa.nulls(len(rest), self.type), np.full(len(rest), Status.BAD_FRAME, np.uint8))),
        ]
        order = np.argsort(np.concatenate([rows for rows, _ in parts]))
        rows = concatenated([part.rows for _, part in parts]).take(pa.array(order))
        return DecodedPayloads(rows, np.concatenate([part.status for _, part in parts])[order])

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        assert skip == 0
        if (damage := glue_damage(payload)) is not None:
            return PayloadError(Status.BAD_FRAME, "", damage)
        if payload[1] == _AS_IT_IS:
            return self._plain.explain(payload, skip=GLUE_FRAME)
        body = _inflated(payload)
        assert body is not None  # or it were damaged
        return self._plain.explain(body)


def glue_damage(payload: bytes) -> str | None:
    """The fault of a payload's header or of its compressed bytes; None if it has none."""
    if not has_glue_frame(payload):
        return "it does not begin with Glue's header: bytes 3 and 0 or 5, and a schema version's UUID"
    if payload[1] == _ZLIB and _inflated(payload) is None:
        return f"what follows Glue's header is no whole zlib stream of at most {_MOST_BYTES:,} bytes"
    return None


def unpacked(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """These payloads with the bodies of compressed ones as they were before, behind a header that says so.

    Damaged ones stay as they are. Raises TooLargeForOneBatch.
    """
    _, packed = _forms(payloads)
    if not packed.any():
        return payloads
    inflated = _all_inflated(payloads, np.flatnonzero(packed).tolist())
    plain = bytes([GLUE_VERSION, _AS_IT_IS])
    framed = [plain + payloads[row].as_py()[2:GLUE_FRAME] + body for row, body in inflated.items()]
    made = pa.array(framed, pa.binary())
    places = np.arange(len(payloads))
    places[list(inflated)] = len(payloads) + np.arange(len(made))
    return concatenated([payloads, made]).take(pa.array(places))


def _forms(payloads: pa.BinaryArray) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Masks of the payloads that are plain or null, and of those that are compressed."""
    offsets, data = byte_buffers(payloads)
    null = null_mask(payloads)
    some = ~null & (offsets[1:] - offsets[:-1] >= GLUE_FRAME)
    framed = np.zeros(len(payloads), np.bool_)
    form = np.full(len(payloads), 255, np.uint8)
    framed[some] = data[offsets[:-1][some]] == GLUE_VERSION
    form[some] = data[offsets[:-1][some] + 1]
    return null | framed & (form == _AS_IT_IS), framed & (form == _ZLIB)


def _all_inflated(payloads: pa.BinaryArray, rows: list[int]) -> dict[int, bytes]:
    """The bodies of those of these rows that are whole streams. Raises TooLargeForOneBatch."""
    found: dict[int, bytes] = {}
    total = 0
    for row in rows:
        if (body := _inflated(payloads[row].as_py())) is None:
            continue
        total += len(body)
        if total > _MOST_BYTES and found:
            raise TooLargeForOneBatch(len(payloads))
        found[row] = body
    return found


def _inflated(payload: bytes) -> bytes | None:
    """A compressed payload's body; None if it is damaged, or too large."""
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(payload[GLUE_FRAME:], _MOST_BYTES)
    except zlib.error:
        return None
    return body if stream.eof and not stream.unused_data else None
