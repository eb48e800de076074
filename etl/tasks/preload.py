"""Loads what every task needs into a process from which workers are forked: a worker is ready in some milliseconds then
instead of a second, and workers share the memory."""

from __future__ import annotations

import gc


def preload() -> None:
    """Load what tasks need, and run the decoder once: its machine code is loaded when it is first called.

    Nothing of it starts a thread, so that the process may fork afterwards. All of it stays until the process ends, so
    the garbage collector does not search it.
    """
    gc.disable()
    try:
        _load()
    finally:
        gc.freeze()
        gc.enable()


def _load() -> None:
    import kseg.etl.source.reader
    import kseg.etl.tasks.writing  # noqa: F401
    from kseg.segment_reader.decode.range_decoder import RangeDecoder
    from kseg.segment_reader.encode.batches import Record, encode_batch

    decoder = RangeDecoder("", 0, 0, 1, isolation_level="read_committed")
    for _ in decoder.feed(encode_batch([Record(value=b"")])):
        pass
