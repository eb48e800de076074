"""The formats of Kafka's own serializers: bytes, text and numbers."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Final

from kseg.etl.decoding.formats.port import DeclaredPayload
from kseg.segment_reader.payload.decoder import PayloadDecoder

_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WIDTHS: Final = {"short": 2, "int": 4, "float": 4, "long": 8, "double": 8}


def decoder(plan: DeclaredPayload) -> PayloadDecoder:
    """The decoder of the plan's format, which needs no schema."""
    from kseg.segment_reader.payload.primitives import primitive_decoder

    return primitive_decoder(plan.format)


def in_sample(format: str, payloads: Sequence[bytes], text: bool) -> str | None:
    """A note if all payloads of a sample are UUIDs, or numbers of this format; None if they are not. See `InSamples`.

    Kafka's serializers of numbers write no marker: 8 bytes are a double if all payloads are plausible doubles and not
    all are whole numbers below 2^48, otherwise a long (4 bytes likewise: float or int).
    """
    if format == "uuid":
        return "" if text and all(map(_UUID.fullmatch, payloads)) else None
    width = _WIDTHS[format]
    if text or any(len(payload) != width for payload in payloads):
        return None
    if width == 2:
        return "2 bytes each"
    whole, fraction = ("int", "float") if width == 4 else ("long", "double")
    if format != (whole if _are_whole(payloads, width) else fraction):
        return None
    return f"{width} bytes each; {whole} and {fraction} cannot be distinguished reliably"


def _are_whole(payloads: Sequence[bytes], width: int) -> bool:
    """Whether numbers of 4 or 8 bytes are rather whole numbers than others."""
    form, bits, least, most = (">f", 24, 1e-6, 1e12) if width == 4 else (">d", 48, 1e-9, 1e18)
    if all(abs(int.from_bytes(payload, signed=True)) < 2**bits for payload in payloads):
        return True
    numbers = (abs(struct.unpack(form, payload)[0]) for payload in payloads)
    return not all(least < number < most or number == 0 for number in numbers)
