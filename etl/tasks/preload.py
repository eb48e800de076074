"""Loads what every task needs into a process from which workers are forked: a worker is ready in some milliseconds then
instead of a second, and workers share the memory."""

from __future__ import annotations

import gc


def preload(*, files: bool = True) -> None:
    """Load what tasks need, and call each compiled function once: its machine code is loaded when it is first called.

    files: tasks may read log files.

    Nothing of it starts a thread, so that the process may fork afterwards. All of it stays until the process ends, so
    the garbage collector does not search it.
    """
    gc.disable()
    try:
        _load()
        if files:
            import kseg.etl.source.files.chunks  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()


def _load() -> None:
    import kseg.etl.source.reader
    import kseg.etl.tasks.writing  # noqa: F401

    _load_machine_code()
    _generate_protocol_code()


def _load_machine_code() -> None:
    from kseg.segment_reader.decode.absent_offsets import AbsentOffsets
    from kseg.segment_reader.decode.next_offset import next_offset
    from kseg.segment_reader.decode.range_decoder import RangeDecoder
    from kseg.segment_reader.encode.batches import Record, encode_batch

    batch = encode_batch([Record(value=b"")])
    next_offset(batch, 0)
    AbsentOffsets(0, 1).feed(batch)
    decoder = RangeDecoder("", 0, 0, 1, isolation_level="read_committed")
    for _ in decoder.feed(batch):
        pass


def _generate_protocol_code() -> None:
    """What a task asks a broker of the newest release that is known: with an older one it generates its own."""
    from kseg.client.protocol.api import api_of
    from kseg.client.protocol.codec import prepare
    from kseg.client.protocol.messages.connection import ApiVersionsRequest, RequestHeader, ResponseHeader
    from kseg.client.protocol.messages.fetch import FetchRequest
    from kseg.client.protocol.messages.metadata import MetadataRequest

    for request in (ApiVersionsRequest, MetadataRequest, FetchRequest):
        api = api_of(request)
        newest = api.versions.highest
        prepare(RequestHeader, api.request_header_version(newest))
        prepare(ResponseHeader, api.response_header_version(newest))
        prepare(api.request, newest)
        prepare(api.response, newest)
