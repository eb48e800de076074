"""The formats of Kafka's own serializers: bytes, text and numbers."""

from __future__ import annotations

from kseg.etl.decoding.formats.port import DeclaredPayload
from kseg.segment_reader.payload.decoder import PayloadDecoder


def decoder(plan: DeclaredPayload) -> PayloadDecoder:
    """The decoder of the plan's format, which needs no schema."""
    from kseg.segment_reader.payload.primitives import primitive_decoder

    return primitive_decoder(plan.format)
