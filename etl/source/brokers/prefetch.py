"""Fetch a range with pipelining: the next request is sent before the response is decoded.

    request(start)
    ── response ── header scan ── request(next) ── yield ──► decoding
         ▲                            │
         └───── the broker works meanwhile

The offset of the next request follows from the batch headers of a response, so nothing has to be decompressed before
the request is sent. `prefetch` receives in a separate thread: sockets and compiled decoders release the interpreter
lock, so a response arrives while the previous one is decoded. At most two responses are in memory. The thread ends with
the reader, however the reader ends: at the latest when the pending response has arrived or timed out.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Generator
from typing import Protocol

from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.errors import OffsetOutOfRange, UnknownTopic
from kseg.client.fetch.absence import EmptyAnswers, read_uncommitted_from
from kseg.client.fetch.messages import FetchedRecords
from kseg.client.fetch.partition_reader import PartitionReader
from kseg.client.offsets import IsolationLevel
from kseg.client.protocol.error_codes import ErrorCode
from kseg.etl.source.errors import NoProgress, OffsetsLost, TopicRecreated
from kseg.etl.source.range_result import LostRange
from kseg.etl.source.record_chunk import FetchOptions, FetchStats, RecordChunk
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.next_offset import next_offset


def fetch_chunks(
    task: RangeTask, config: ClientConfig, options: FetchOptions, stats: FetchStats
) -> Generator[RecordChunk, None, None]:
    """All chunks of records for `[task.start, task.end)`. Blocks while it waits for a response.

    Raises:
        OffsetsLost: offsets are lost, and `on_data_loss` is `fail`.
        TopicRecreated: the topic was deleted and created again.
        NoProgress: the broker sends no records for `default.api.timeout.ms`.
        KafkaError: a request to the cluster failed.
        RecordFormatError: a response has invalid batch headers.
    """
    if task.start >= task.end:
        return
    with Cluster(config) as cluster:
        reader = OnePartition(cluster, task, options.isolation_level)
        yield from fetch_chunks_from(reader, task, options, stats, patience=config.default_api_timeout_ms / 1000)


class Reader(Protocol):
    """Fetches one partition: `request` sends a request, `response` waits for it (`client.fetch.partition_reader`).

    request_whole: after a response without a whole batch, request more bytes. leave_replica: fetch from the leader if
    the reader fetches from another replica. uncommitted_from: one response under read_uncommitted, while no other
    request is pending.
    """

    def request(self, offset: int) -> None: ...
    def request_whole(self, fetched: FetchedRecords) -> None: ...
    def leave_replica(self) -> None: ...
    def response(self) -> FetchedRecords: ...
    def uncommitted_from(self, offset: int) -> FetchedRecords: ...


class OnePartition(PartitionReader):
    """Reads a task's partition over connections that it does not share."""

    def __init__(self, cluster: Cluster, task: RangeTask, isolation_level: IsolationLevel) -> None:
        self._task = task
        super().__init__(
            cluster,
            task.tp,
            isolation_level=isolation_level,
            topic_id=task.topic_id,
            leader_epoch=task.leader_epoch,
        )

    def uncommitted_from(self, offset: int) -> FetchedRecords:
        """One response under read_uncommitted. Raises KafkaError."""
        task = self._task
        return read_uncommitted_from(
            self._cluster, self.tp, offset, topic_id=task.topic_id, leader_epoch=task.leader_epoch
        )


def fetch_chunks_from(
    reader: Reader, task: RangeTask, options: FetchOptions, stats: FetchStats, *, patience: float
) -> Generator[RecordChunk, None, None]:
    """`fetch_chunks` with the given reader. patience: seconds without progress after which it raises `NoProgress`."""
    try:
        yield from _answers(reader, task, options, stats, patience)
    except UnknownTopic as error:
        if error.retriable or error.code != ErrorCode.INCONSISTENT_TOPIC_ID:
            raise
        raise TopicRecreated(task.topic, task.partition, task.start, error.message) from error


def _answers(
    reader: Reader, task: RangeTask, options: FetchOptions, stats: FetchStats, patience: float
) -> Generator[RecordChunk, None, None]:
    empties = EmptyAnswers(
        task.end,
        committed=options.isolation_level == "read_committed",
        patience=patience,
        look_beyond=reader.uncommitted_from,
    )
    offset = task.start
    reader.request(offset)
    while offset < task.end:
        try:
            fetched = reader.response()
        except OffsetOutOfRange as error:
            lost = _lost_range(error.log_start, task, offset)
            if options.on_data_loss == "fail":
                raise OffsetsLost(task.topic, task.partition, lost.first, lost.last, lost.reason) from error
            stats.lost.append(lost)
            offset = lost.last
            if offset < task.end:
                reader.request(offset)
            yield RecordChunk.empty(offset)
            empties.moved_on()
            continue
        _note(fetched, stats)
        following = next_offset(fetched.records, offset, topic=task.topic, partition=task.partition)
        if following > offset:
            offset = following
            if offset < task.end:
                reader.request(offset)
            yield RecordChunk(fetched.records, [(a.producer_id, a.first_offset) for a in fetched.aborted], offset)
            empties.moved_on()  # only now: the time that the chunk took is not time without records
        elif not fetched.records and (behind := empties.batch_behind(fetched)) is not None:
            # The first batch of this response proves to the decoder that there is none before it.
            yield RecordChunk(behind.records, [], task.end)
            return
        elif empties.overdue:
            raise NoProgress(task.topic, task.partition, offset, task.end, empties.waited)
        else:
            if empties.behind:
                reader.leave_replica()
            time.sleep(empties.pause)
            reader.request_whole(fetched)


def _note(fetched: FetchedRecords, stats: FetchStats) -> None:
    stats.fetches += 1
    stats.bytes += len(fetched.records)
    if fetched.throttle_time_ms:
        before = stats.throttled.get(fetched.broker, 0.0)
        stats.throttled[fetched.broker] = before + fetched.throttle_time_ms / 1000
    stats.high_watermark = fetched.high_watermark
    stats.last_stable_offset = fetched.last_stable_offset
    stats.log_start = fetched.log_start_offset


def _lost_range(log_start: int, task: RangeTask, offset: int) -> LostRange:
    """The lost offsets of a range whose next offset is outside of the log."""
    if log_start > offset:
        return LostRange(offset, min(log_start, task.end), "retention")
    return LostRange(offset, task.end, "truncation")


def prefetch(source: Generator[RecordChunk, None, None]) -> Generator[RecordChunk, None, None]:
    """The same chunks, received by a thread while the caller processes the one before; at most two are in memory."""
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
