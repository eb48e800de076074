"""A range's Fetch answers, one after the other, with the next request always under way before an answer is looked into.

    request(start)
    ── answer ── header scan ── request(next) ── hand over ──► decoding
         ▲                          │
         └───── the broker works meanwhile

The next fetch starts where an answer's batch headers end, so nothing is decompressed before the next request is sent.
`prefetch` moves the receiving into a thread of its own: sockets and compiled decoders release the interpreter lock,
so an answer arrives while the one before it is decoded. No more than two answers are in memory then. The thread ends
with the reader, whatever ends that: at the latest when the answer under way has come, or is given up.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator
from typing import Protocol

from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.errors import OffsetOutOfRange
from kseg.client.fetch.messages import FetchedRecords
from kseg.client.fetch.partition_reader import PartitionReader
from kseg.client.offsets import IsolationLevel
from kseg.etl.source.errors import NoProgress, OffsetsLost
from kseg.etl.source.range_result import LostRange
from kseg.etl.source.record_chunk import FetchOptions, FetchStats, RecordChunk
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.next_offset import next_offset

# An empty answer below the high watermark may come from a broker that has just changed its role. So many in a row, not
# throttled, from a broker whose log goes on beyond the range mean that compaction left nothing to send.
EMPTY_ANSWERS_OF_AN_EMPTY_LOG = 3


def fetch_chunks(
    task: RangeTask, config: ClientConfig, options: FetchOptions, stats: FetchStats
) -> Generator[RecordChunk, None, None]:
    """All answers that `[task.start, task.end)` needs. Blocks while it waits for one.

    Raises:
        OffsetsLost: offsets are gone, unless they are to be recorded.
        NoProgress: the broker sends nothing for `default.api.timeout.ms`.
        KafkaError: the cluster cannot be asked.
        RecordFormatError: the headers of an answer are no record batches.
    """
    if task.start >= task.end:
        return
    with Cluster(config) as cluster:
        reader = PartitionReader(
            cluster,
            task.partition_address,
            isolation_level=options.isolation_level,
            topic_id=task.topic_id,
            leader_epoch=task.leader_epoch,
        )
        yield from fetch_chunks_from(reader, task, options, stats, patience=config.default_api_timeout_ms / 1000)


class Reader(Protocol):
    """Fetches one partition: an offset is asked for, then its answer waited for (`client.fetch.partition_reader`)."""

    def request(self, offset: int) -> None: ...
    def response(self) -> FetchedRecords: ...


def fetch_chunks_from(
    reader: Reader, task: RangeTask, options: FetchOptions, stats: FetchStats, *, patience: float
) -> Generator[RecordChunk, None, None]:
    """The same with a reader that is given. patience: seconds without an answer that leads on, until `NoProgress`."""
    progress = _Progress(task, patience)
    offset = task.start
    reader.request(offset)
    while offset < task.end:
        try:
            fetched = reader.response()
        except OffsetOutOfRange as error:
            offset = _behind_the_loss(error, task, offset, options, stats)
            if offset < task.end:
                reader.request(offset)
            yield RecordChunk.empty(offset)
            continue
        _note(fetched, stats)
        following = next_offset(fetched.records, offset, topic=task.topic, partition=task.partition)
        if following == offset:
            if progress.log_is_empty_from(offset, fetched, options.isolation_level):
                yield RecordChunk.empty(task.end)
                return
            reader.request(offset)
            continue
        progress.made()
        offset = following
        if offset < task.end:
            reader.request(offset)
        yield RecordChunk(fetched.records, [(a.producer_id, a.first_offset) for a in fetched.aborted], offset)


def _note(fetched: FetchedRecords, stats: FetchStats) -> None:
    stats.fetches += 1
    stats.bytes += len(fetched.records)
    if fetched.throttle_time_ms:
        before = stats.throttled.get(fetched.broker, 0.0)
        stats.throttled[fetched.broker] = before + fetched.throttle_time_ms / 1000
    stats.high_watermark = fetched.high_watermark
    stats.last_stable_offset = fetched.last_stable_offset
    stats.log_start = fetched.log_start_offset


def _behind_the_loss(
    error: OffsetOutOfRange, task: RangeTask, offset: int, options: FetchOptions, stats: FetchStats
) -> int:
    """Where to go on after offsets that are gone."""
    if error.log_start > offset:
        lost = LostRange(offset, min(error.log_start, task.end), "retention")
    else:
        lost = LostRange(offset, task.end, "truncation")
    if options.on_data_loss == "fail":
        raise OffsetsLost(task.topic, task.partition, lost.first, lost.last, lost.reason) from error
    stats.lost.append(lost)
    return lost.last


class _Progress:
    """Distinguishes a slow broker from a log that has no more records to send."""

    def __init__(self, task: RangeTask, patience: float) -> None:
        self._task = task
        self._patience = patience
        self.made()

    def made(self) -> None:
        self._since = time.monotonic()
        self._empty = 0

    def log_is_empty_from(self, offset: int, fetched: FetchedRecords, isolation_level: IsolationLevel) -> bool:
        """After an empty answer: whether compaction left no batch from `offset` to the range's end.

        Raises NoProgress when that is not so and patience is at its end.
        """
        visible = fetched.last_stable_offset if isolation_level == "read_committed" else fetched.high_watermark
        if not fetched.throttle_time_ms and visible >= self._task.end:
            self._empty += 1
            if self._empty >= EMPTY_ANSWERS_OF_AN_EMPTY_LOG:
                return True
        waited = time.monotonic() - self._since
        if waited >= self._patience:
            raise NoProgress(self._task.topic, self._task.partition, offset, self._task.end, waited)
        return False


def prefetch(source: Generator[RecordChunk, None, None]) -> Generator[RecordChunk, None, None]:
    """The same answers, received by a thread while the one before is worked on; at most two are in memory."""
    handed: queue.SimpleQueue[RecordChunk | BaseException | None] = queue.SimpleQueue()
    places = threading.Semaphore(2)
    stop = threading.Event()

    def receive() -> None:
        try:
            while places.acquire() and not stop.is_set():
                answer = next(source, None)
                handed.put(answer)
                if answer is None:
                    return
                del answer
        except BaseException as error:
            handed.put(error)
        finally:
            source.close()

    thread = threading.Thread(target=receive, name="kseg-fetch", daemon=True)
    thread.start()
    try:
        while (received := handed.get()) is not None:
            if isinstance(received, BaseException):
                raise received
            yield received
            del received
            places.release()
    finally:
        stop.set()
        places.release()
        if thread is not threading.current_thread():  # the garbage collector may close a generator in any thread
            thread.join()
