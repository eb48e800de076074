"""Payloads of Kafka's own serializers: one value of a fixed form each, without a schema.

| format | serializer | Arrow |
| --- | --- | --- |
| bytes | ByteArraySerializer | binary |
| string | StringSerializer, UTF-8 | string |
| short | ShortSerializer: 2 bytes, big-endian | int16 |
| int, long | IntegerSerializer, LongSerializer: 4, 8 bytes, big-endian | int32, int64 |
| float, double | FloatSerializer, DoubleSerializer: 4, 8 bytes, IEEE 754, big-endian | float, double |
| boolean | BooleanSerializer: one byte, 0 or 1 | bool |
| uuid | UUIDSerializer: the text of a UUID | string |

https://kafka.apache.org/43/javadoc/org/apache/kafka/common/serialization/package-summary.html
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.buffers import byte_buffers, null_mask
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status

_NUMBERS: Final = {
    "short": (pa.int16(), ">i2"),
    "int": (pa.int32(), ">i4"),
    "long": (pa.int64(), ">i8"),
    "float": (pa.float32(), ">f4"),
    "double": (pa.float64(), ">f8"),
    "boolean": (pa.bool_(), ">u1"),
}
FORMATS: Final = ("bytes", "string", "short", "int", "long", "float", "double", "boolean", "uuid")
_END: Final = 2**31 - 1  # without an end, binary_slice of several values fails: their lengths' sum overflows
_UUID: Final = "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"


def primitive_decoder(format_: str) -> PayloadDecoder:
    """The decoder of one of FORMATS."""
    if format_ in _NUMBERS:
        return NumberDecoder(format_)
    if format_ == "bytes":
        return BytesDecoder()
    if format_ in ("string", "uuid"):
        return TextDecoder(uuid=format_ == "uuid")
    raise ValueError(f"{format_!r} is no format of Kafka's own serializers: one of {', '.join(FORMATS)}")


class BytesDecoder:
    """Payloads as they are."""

    @property
    def type(self) -> pa.DataType:
        return pa.binary()

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        null = null_mask(payloads)
        status = np.where(null, np.uint8(Status.NULL), np.uint8(Status.DECODED))
        if skip:
            offsets, _ = byte_buffers(payloads)
            status[~null & (np.diff(offsets) < skip)] = Status.TRUNCATED
            payloads = pc.binary_slice(payloads, skip, _END)
        return DecodedPayloads(_null_where(payloads, status != Status.DECODED), status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return PayloadError(Status.TRUNCATED, "", f"{len(payload)} bytes end before the payload")


class TextDecoder:
    """UTF-8; with `uuid`, the 36 characters of a UUID."""

    def __init__(self, *, uuid: bool) -> None:
        self._uuid = uuid

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        decoded = BytesDecoder().decode(payloads, skip=skip)
        status = decoded.status
        try:
            texts = decoded.rows.cast(pa.string())
        except pa.ArrowInvalid:  # some payload is no UTF-8: find out which
            valid = np.array([one is None or _is_utf8(one) for one in decoded.rows.to_pylist()], np.bool_)
            status[~valid] = Status.INVALID_UTF8
            texts = _null_where(decoded.rows, ~valid).cast(pa.string())
        if self._uuid:
            well = pc.fill_null(pc.match_substring_regex(texts, _UUID), True)
            status[~np.asarray(well)] = Status.MALFORMED
            texts = _null_where(texts, ~np.asarray(well))
        return DecodedPayloads(texts, status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        if len(payload) < skip:
            return BytesDecoder().explain(payload, skip=skip)
        try:
            text = payload[skip:].decode()
        except UnicodeDecodeError as error:
            return PayloadError(Status.INVALID_UTF8, "", f"no UTF-8 at byte {skip + error.start}")
        assert self._uuid
        assert not re.fullmatch(_UUID, text)
        return PayloadError(Status.MALFORMED, "", f"{text[:80]!r} is no UUID")


class NumberDecoder:
    """A number of a fixed width, or a boolean."""

    def __init__(self, format_: str) -> None:
        self._format = format_
        self._type, self._layout = _NUMBERS[format_]
        self._width = np.dtype(self._layout).itemsize

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        offsets, data = byte_buffers(payloads)
        null = null_mask(payloads)
        lengths = np.diff(offsets) - skip
        status = np.zeros(len(payloads), np.uint8)
        status[lengths < self._width] = Status.TRUNCATED
        status[lengths > self._width] = Status.TRAILING_BYTES
        status[null] = Status.NULL
        whole = status == Status.DECODED
        values = np.zeros(len(payloads), self._layout)
        if whole.any():
            at = offsets[:-1][whole, None] + np.arange(skip, skip + self._width)
            values[whole] = np.ascontiguousarray(data[at]).view(self._layout).ravel()
        if self._format == "boolean":
            status[whole & (values > 1)] = Status.MALFORMED
        return DecodedPayloads(self._array(values, status != Status.DECODED), status)

    def _array(self, values: npt.NDArray[np.generic], bad: npt.NDArray[np.bool_]) -> pa.Array:
        native = values.astype(values.dtype.newbyteorder("="))
        return pa.array(native.astype(np.bool_) if self._format == "boolean" else native, self._type, mask=bad)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        length = len(payload) - skip
        said = f"{length} bytes where {self._format} has {self._width}"
        if length < self._width:
            return PayloadError(Status.TRUNCATED, "", said)
        if length > self._width:
            return PayloadError(Status.TRAILING_BYTES, "", said)
        return PayloadError(Status.MALFORMED, "", f"byte {payload[skip]} is neither 0 nor 1")


def _null_where(array: pa.Array, bad: npt.NDArray[np.bool_]) -> pa.Array:
    return pc.if_else(pa.array(bad), pa.scalar(None, array.type), array) if bad.any() else array


def _is_utf8(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True
