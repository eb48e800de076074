"""How fast one core decodes payloads: bytes of values in memory to typed Arrow columns, by format and shape, beside the
plain Python decoder.

Decoding is one thread's work, so it is timed by that thread's processor time: others on the machine do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Final, Literal

import pyarrow as pa

from kseg.jobs.bench import avro_payloads, json_payloads
from kseg.segment_reader.payload.decoder import PayloadDecoder

DISTINCT = 2_000  # payloads of a shape that are made; a call decodes PER_CALL of them, again and again
PER_CALL = 10_000

Engine = Literal["fast", "reference"]
ENGINES: Final[tuple[Engine, ...]] = ("fast", "reference")


@dataclass(frozen=True)
class Case:
    """One shape of a format: how a payload is made, and the decoder of them."""

    format: str
    shape: str
    make: Callable[[Random], bytes]
    decoder: Callable[[Engine], PayloadDecoder]


def cases() -> Iterator[Case]:
    for avro in avro_payloads.SHAPES:
        yield Case("avro", avro.name, avro.make, avro.decoder)
    for shape in json_payloads.SHAPES:
        yield Case("json", shape.name, shape.make, shape.decoder)


def measure(times: int) -> Iterator[dict[str, object]]:
    """One result a shape and decoder: rows a second on one core. times: whose median it is."""
    for case in cases():
        random = Random(1)
        payloads = pa.array([case.make(random) for _ in range(DISTINCT)] * (PER_CALL // DISTINCT), pa.binary())
        for engine in ENGINES:
            n = PER_CALL if engine == "fast" else DISTINCT
            yield {
                "format": case.format,
                "shape": case.shape,
                "decoder": engine,
                "bytes_per_row": round(payloads.nbytes / len(payloads)),
                **_rates(case.decoder(engine), payloads.slice(0, n), times if engine == "fast" else 1),
            }


def _rates(decoder: PayloadDecoder, payloads: pa.BinaryArray, times: int) -> dict[str, float]:
    _seconds(decoder, payloads)  # compiles, or loads what was compiled, and learns the buffers' sizes
    seconds = [_seconds(decoder, payloads) for _ in range(times)]
    middle, best = median(seconds), min(seconds)
    return {
        "million_rows_per_second": round(len(payloads) / middle / 1e6, 3),
        "nanoseconds_per_row": round(middle / len(payloads) * 1e9, 1),
        "best_million_rows_per_second": round(len(payloads) / best / 1e6, 3),
    }


def _seconds(decoder: PayloadDecoder, payloads: pa.BinaryArray) -> float:
    began = time.thread_time()
    found = decoder.decode(payloads)
    seconds = time.thread_time() - began
    if found.status.any():
        raise AssertionError("a payload that was made here does not decode")
    return seconds
