"""Decoding speed of payloads on one core: bytes of values in memory to typed Arrow columns, by format and shape, also
with the plain Python decoder, and for Protobuf with other libraries.

Decoding runs in one thread, and the time is that thread's CPU time, so that other processes do not distort it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import Final, Literal

import pyarrow as pa

from kseg.jobs.bench import avro_payloads, json_payloads, protobuf_payloads
from kseg.jobs.bench.protobuf_payloads import Peer
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder

DISTINCT = 2_000  # different payloads of a shape; a call decodes PER_CALL of them, with repetitions
PER_CALL = 10_000

Engine = Literal["fast", "reference"]
ENGINES: Final[tuple[Engine, ...]] = ("fast", "reference")


@dataclass(frozen=True)
class PayloadCase:
    """One shape of a format. make: makes a payload. decoder: ours, by engine. peers: other libraries' by name."""

    format: str
    shape: str
    make: Callable[[Random], bytes]
    decoder: Callable[[Engine], PayloadDecoder]
    peers: Callable[[], Iterator[tuple[str, Peer]]] = lambda: iter(())


def cases() -> Iterator[PayloadCase]:
    for avro in avro_payloads.SHAPES:
        yield PayloadCase("avro", avro.name, avro.make, avro.decoder)
    for shape in json_payloads.SHAPES:
        yield PayloadCase("json", shape.name, shape.make, shape.decoder)
    for proto in protobuf_payloads.shapes():
        yield PayloadCase("protobuf", proto.name, proto.make, proto.decoder, proto.peers)


def measure(times: int) -> Iterator[dict[str, object]]:
    """One result for each shape and decoder: rows per second on one core, the median of `times` measurements."""
    for case in cases():
        random = Random(1)
        payloads = pa.array([case.make(random) for _ in range(DISTINCT)] * (PER_CALL // DISTINCT), pa.binary())
        size = round(payloads.nbytes / len(payloads))
        for engine in ENGINES:
            n, repeated = (PER_CALL, times) if engine == "fast" else (DISTINCT, 1)
            rates = _rates(_checked(case.decoder(engine)), payloads.slice(0, n), repeated)
            yield {"format": case.format, "shape": case.shape, "decoder": engine, "bytes_per_row": size, **rates}
        for name, peer in case.peers():
            rates = _rates(peer, payloads, times)
            yield {"format": case.format, "shape": case.shape, "decoder": name, "bytes_per_row": size, **rates}


def _checked(decoder: PayloadDecoder) -> Peer:
    def decode(payloads: pa.BinaryArray) -> DecodedPayloads:
        found = decoder.decode(payloads)
        if found.status.any():
            raise AssertionError("a payload that was made here does not decode")
        return found

    return decode


def _rates(decode: Peer, payloads: pa.BinaryArray, times: int) -> dict[str, float]:
    _seconds(decode, payloads)  # compiles, or loads the compiled code, and learns the buffers' sizes
    seconds = [_seconds(decode, payloads) for _ in range(times)]
    middle, best = median(seconds), min(seconds)
    return {
        "million_rows_per_second": round(len(payloads) / middle / 1e6, 6),
        "nanoseconds_per_row": round(middle / len(payloads) * 1e9, 1),
        "best_million_rows_per_second": round(len(payloads) / best / 1e6, 6),
    }


def _seconds(decode: Peer, payloads: pa.BinaryArray) -> float:
    began = time.thread_time()
    decode(payloads)
    return time.thread_time() - began
