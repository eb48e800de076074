"""The offset to fetch next after a record set, without decoding it."""

from __future__ import annotations

from kseg.segment_reader.decode.batch import LENGTH_AT, FrameFault, frames
from kseg.segment_reader.decode.table import as_bytes
from kseg.segment_reader.errors import BatchAddress, Fault


def next_offset(buffer: bytes | memoryview, fetch_offset: int, *, topic: str = "", partition: int = -1) -> int:
    """The offset after the last complete batch of a Fetch response, never below `fetch_offset`: what to fetch next.

    Of the batches before the last one only lengths are read (compiled, some nanoseconds a batch). A response without a
    complete batch gives `fetch_offset`. Raises CorruptRecordBatch where a length or the last header is impossible.
    """
    from kseg.segment_reader.decode.scan import last_frame  # compiled code: loaded when it is needed

    position, fault = last_frame(as_bytes(buffer))
    if fault:
        base = int.from_bytes(buffer[position : position + LENGTH_AT], "big", signed=True)
        raise Fault(fault).error(BatchAddress(topic, partition, base, position))
    if position < 0:
        return fetch_offset
    try:
        frame = next(frames(buffer, position))
    except FrameFault as fault_:
        raise fault_.error(topic, partition) from None
    return max(fetch_offset, frame.next_offset)
