"""A compiled decoder that is loaded with its first payload.

The plain decoder knows a schema's columns and its faults. The compiled one needs numba, which takes most of a second to
load: a process that reads no payload (a plan, a run with nothing to read, the driver of tasks) does without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import pyarrow as pa

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError
from kseg.segment_reader.payload.plain import Engine, PlainDecoder, with_engine


def of_engine(plain: PlainDecoder, engine: Engine, compiled: Callable[[], PayloadDecoder]) -> PayloadDecoder:
    """A schema's decoder as this engine: the plain one, or the one that `compiled` makes with the first payload."""
    return LateDecoder(plain, compiled) if engine == "fast" else with_engine(plain, engine)


class LateDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`.

    plain: of the same schema. compiled: makes the decoder that is to be used.
    """

    def __init__(self, plain: PayloadDecoder, compiled: Callable[[], PayloadDecoder]) -> None:
        self._plain, self._make = plain, compiled

    @property
    def type(self) -> pa.DataType:
        return self._plain.type

    @cached_property
    def _compiled(self) -> PayloadDecoder:
        return self._make()

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        return self._compiled.decode(payloads, skip=skip)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        return self._plain.explain(payload, skip=skip)
