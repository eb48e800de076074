"""The thread that receives ahead: it ends with the reader, whatever ends that."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import closing

import pytest

from kseg.etl.source.brokers.prefetch import prefetch
from kseg.etl.source.record_chunk import RecordChunk


class Source:
    """Gives chunks as slowly as a broker; knows when it was closed."""

    def __init__(self, chunks: int, *, error: Exception | None = None) -> None:
        self.chunks = chunks
        self.error = error
        self.closed = False

    def chunks_of(self) -> Generator[RecordChunk, None, None]:
        try:
            for number in range(self.chunks):
                time.sleep(0.05)
                yield RecordChunk.empty(number)
            if self.error is not None:
                raise self.error
        finally:
            time.sleep(0.1)  # connections are closed here
            self.closed = True


@pytest.fixture(autouse=True)
def threads_before() -> set[threading.Thread]:
    return set(threading.enumerate())


def assert_all_over(source: Source, before: set[threading.Thread]) -> None:
    assert source.closed
    assert set(threading.enumerate()) <= before


def test_after_the_last_chunk_the_thread_is_over(threads_before: set[threading.Thread]):
    source = Source(3)
    assert [chunk.next_offset for chunk in prefetch(source.chunks_of())] == [0, 1, 2]
    assert_all_over(source, threads_before)


def test_after_an_error_of_the_source_the_thread_is_over(threads_before: set[threading.Thread]):
    source = Source(2, error=ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        list(prefetch(source.chunks_of()))
    assert_all_over(source, threads_before)


@pytest.mark.parametrize("read", [1, 2])
def test_a_reader_that_stops_early_leaves_no_thread(threads_before: set[threading.Thread], read: int):
    source = Source(50)
    chunks = prefetch(source.chunks_of())
    for _ in range(read):
        next(chunks)
    chunks.close()
    assert_all_over(source, threads_before)


def test_an_error_of_the_reader_leaves_no_thread(threads_before: set[threading.Thread]):
    source = Source(50)

    def read() -> None:
        with closing(prefetch(source.chunks_of())) as chunks:
            next(chunks)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read()
    assert_all_over(source, threads_before)
