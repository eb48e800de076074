"""Decoding speed of one core: record batches in memory to Arrow batches, by codec, and with the plain Python decoder.

Decoding runs in one thread, and the time is that thread's CPU time, so that other processes do not distort it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any, Literal

from kseg.jobs.bench.workload import records
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import encode_batch

RECORD_BYTES = 200
RECORDS_PER_BATCH = 5000  # about 1 MB

Engine = Literal["fast", "reference"]


def measure(times: int, batches: int) -> Iterator[dict[str, Any]]:
    """One result for each codec and decoder: rows and gigabytes (of decompressed records) per second on one core.

    times: number of measurements, whose median is reported. batches: number of batches, of about a megabyte each.
    """
    bodies = [records(n * RECORDS_PER_BATCH, RECORDS_PER_BATCH, RECORD_BYTES) for n in range(batches)]
    unpacked = sum(len(encode_batch(body)) for body in bodies)
    for codec in BY_NAME:
        packed = b"".join(
            encode_batch(body, base_offset=n * RECORDS_PER_BATCH, compression=codec) for n, body in enumerate(bodies)
        )
        yield _one(codec, "fast", packed, batches, unpacked, times=times)
    first = encode_batch(bodies[0])
    yield _one("none", "reference", first, 1, unpacked // batches, times=max(1, times // 5))


def _one(codec: str, engine: Engine, packed: bytes, batches: int, unpacked: int, *, times: int) -> dict[str, Any]:
    decode(packed, batches, engine)  # compiles, or loads the compiled code, and warms the caches
    seconds = [decode(packed, batches, engine) for _ in range(times)]
    rows = batches * RECORDS_PER_BATCH

    def rates(taken: float) -> tuple[float, float, float]:
        return round(rows / taken / 1e6, 3), round(unpacked / taken / 1e9, 3), round(taken / rows * 1e9, 1)

    middle, best = rates(median(seconds)), rates(min(seconds))
    return {
        "codec": codec,
        "decoder": engine,
        "million_rows_per_second": middle[0],
        "gigabytes_per_second": middle[1],
        "nanoseconds_per_row": middle[2],
        "best_million_rows_per_second": best[0],
        "packed_share": round(len(packed) / unpacked, 3),
    }


def decode(packed: bytes, batches: int, engine: Engine = "fast") -> float:
    """CPU seconds for one record set that is fed at once, with checksums verified and headers read."""
    end = batches * RECORDS_PER_BATCH
    began = time.thread_time()
    decoder = RangeDecoder("bench", 0, 0, end, isolation_level="read_committed", engine=engine)
    rows = sum(batch.num_rows for batch in decoder.feed(packed))
    rows += sum(batch.num_rows for batch in decoder.finish())
    seconds = time.thread_time() - began
    if rows != end:
        raise AssertionError(f"decoded {rows} rows of {end}")
    return seconds
