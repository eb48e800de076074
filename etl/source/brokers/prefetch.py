"""A range's Fetch answers, one after the other, with the next request always in flight before a response is read.

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
    """All answers that `[task.start, task.end)` needs. Blocks while it waits for one.

    Raises:
        OffsetsLost: offsets are gone, unless they are to be recorded.
        TopicRecreated: the topic is another one by now.
        NoProgress: the broker sends nothing for `default.api.timeout.ms`.
        KafkaError: the cluster cannot be asked.
        RecordFormatError: the headers of an answer are no record batches.
    """
    if task.start >= task.end:
        return
    with Cluster(config) as cluster:
        reader = OnePartition(cluster, task, options.isolation_level)
        yield from fetch_chunks_from(reader, task, options, stats, patience=config.default_api_timeout_ms / 1000)


class Reader(Protocol):
    """Fetches one partition: an offset is asked for, then its answer waited for (`client.fetch.partition_reader`).

    request_whole: ask again for more, after an answer without a whole batch. uncommitted_from: one answer under
    read_uncommitted, with no other request under way.
    """

    def request(self, offset: int) -> None: ...
    def request_whole(self, fetched: FetchedRecords) -> None: ...
    def response(self) -> FetchedRecords: ...
    def uncommitted_from(self, offset: int) -> FetchedRecords: ...


class OnePartition(PartitionReader):
    """Reads a task's partition over connections of its own."""

    def __init__(self, cluster: Cluster, task: RangeTask, isolation_level: IsolationLevel) -> None:
        self._task = task
        super().__init__(
            cluster,
            task.partition_address,
            isolation_level=isolation_level,
            topic_id=task.topic_id,
            leader_epoch=task.leader_epoch,
        )

    def uncommitted_from(self, offset: int) -> FetchedRecords:
        """One answer under read_uncommitted. Raises KafkaError."""
        task = self._task
        return read_uncommitted_from(
            self._cluster, self.tp, offset, topic_id=task.topic_id, leader_epoch=task.leader_epoch
        )


def fetch_chunks_from(
    reader: Reader, task: RangeTask, options: FetchOptions, stats: FetchStats, *, patience: float
) -> Generator[RecordChunk, None, None]:
    """The same with a reader that is given. patience: seconds without an answer that leads on, until `NoProgress`."""
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
            continue
        _note(fetched, stats)
        following = next_offset(fetched.records, offset, topic=task.topic, partition=task.partition)
        if following > offset:
            empties.moved_on()
            offset = following
            if offset < task.end:
                reader.request(offset)
            yield RecordChunk(fetched.records, [(a.producer_id, a.first_offset) for a in fetched.aborted], offset)
        elif not fetched.records and (behind := empties.batch_behind(fetched)) is not None:
            # Where its first batch begins shows the decoder that there is none before it.
            yield RecordChunk(behind.records, [], task.end)
            return
        elif empties.overdue:
            raise NoProgress(task.topic, task.partition, offset, task.end, empties.waited)
        else:
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
    """What is gone of a range whose next offset is outside of the log."""
    if log_start > offset:
        return LostRange(offset, min(log_start, task.end), "retention")
    return LostRange(offset, task.end, "truncation")


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
