"""Reads many partitions, with one connection and one fetch session for each broker, from all brokers in parallel.

    with ManyReader(cluster, isolation_level="read_committed") as reader:
        reader.add(tp, start)                                   # any number
        while reader.partitions:
            for tp, fetched in reader.poll():
                reader.seek(tp, next_offset(fetched.records))   # or reader.remove(tp)

A request has all partitions that the broker leads; those with records in a response come last in the next request. With
a session (`client.fetch.session`), later requests have only partitions whose offset has changed, and the broker itself
serves them in turn. For one large partition `PartitionReader` is faster: its next request is in flight while a response
is processed, which a session does not allow.

If a partition's leader moved, its replica failed or its connection broke, it is fetched again from the new leader or
replica. If there is no response within `default.api.timeout.ms`, `poll` returns the partition with its last error. An
error that is not retriable is returned at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from functools import partial
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import KafkaError, ProtocolFault, RequestTimedOut, error_from_code
from kseg.client.fetch.absence import EmptyAnswers, read_uncommitted_from
from kseg.client.fetch.limit import LARGEST_MESSAGE, FetchLimit
from kseg.client.fetch.messages import NOT_KNOWN, FetchedRecords, PartitionData, PartitionFetch, error_of, records_of
from kseg.client.fetch.positions import BrokerFetcher, FetchPosition
from kseg.client.fetch.replica import ReplicaSelection
from kseg.client.offsets import IsolationLevel, isolation_code
from kseg.client.protocol.error_policy import Reaction
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline
from kseg.client.wire.waiting import Waiter

Polled = tuple[TopicPartition, FetchedRecords | KafkaError]


class ManyReader:
    """Fetches many partitions from their leaders, or from the leaders' preferred replicas. Close it after use."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        isolation_level: IsolationLevel,
        max_bytes: int | None = None,
        partition_max_bytes: int | None = None,
        max_wait_ms: int | None = None,
    ) -> None:
        """`max_bytes`: limit of one response (None: `fetch.max.bytes`). `partition_max_bytes`: limit of one partition
        in it (None: `max.partition.fetch.bytes`). The first batch of a response may exceed both.
        """
        config = cluster.config
        self._cluster = cluster
        self._isolation = isolation_code(isolation_level)
        self._max_bytes = config.fetch_max_bytes if max_bytes is None else max_bytes
        self._partition_max_bytes = (
            config.max_partition_fetch_bytes if partition_max_bytes is None else partition_max_bytes
        )
        self._max_wait_ms = config.fetch_max_wait_ms if max_wait_ms is None else max_wait_ms
        self._positions: dict[TopicPartition, FetchPosition] = {}
        self._known: dict[TopicPartition, FetchPosition] = {}  # with those that were removed
        self._fetchers: dict[int, BrokerFetcher] = {}
        self._failed: list[Polled] = []
        self._waiter = Waiter()
        self._closed = False

    def __enter__(self) -> ManyReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; brokers remove the sessions themselves."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._positions.clear()
        if not self._closed:
            self._closed = True
            self._waiter.close()

    @property
    def partitions(self) -> dict[TopicPartition, int]:
        """The partitions of this reader, and the next offset of each."""
        return {tp: position.offset for tp, position in self._positions.items()}

    def add(
        self, tp: TopicPartition, offset: int, *, topic_id: UUID | None = None, leader_epoch: int | None = None
    ) -> None:
        """Add a partition, which is read from `offset` on. `topic_id`, `leader_epoch`: see `PartitionReader`.

        A partition that was removed and is added again is read from the same topic and replica, with the same limit.
        """
        position = self._known.get(tp)
        if position is None or not position.source.serves(topic_id, leader_epoch):
            source = ReplicaSelection(self._cluster, tp, topic_id=topic_id, leader_epoch=leader_epoch)
            limit = FetchLimit(self._partition_max_bytes, LARGEST_MESSAGE)
            position = self._known[tp] = FetchPosition(tp, source, limit, offset)
        position.restart(offset)
        self._positions[tp] = position

    def raise_limit(self, tp: TopicPartition, fetched: FetchedRecords) -> None:
        """After a response without a complete batch: raise the partition's limit to the size of its first batch.

        Raises ProtocolFault if this size had been requested already, MessageCutShort if it is too large.
        """
        try:
            self._known[tp].limit.raised_to_whole(fetched.records, fetched.fetch_offset, str(fetched.broker))
        except KafkaError as error:
            error.topic, error.partition = tp
            raise

    def leave_replica(self, tp: TopicPartition) -> None:
        """Fetch the partition from its leader, because its replica has fewer records than are wanted.

        The partition may have been removed: this holds when it is added again.
        """
        self._known[tp].source.leave()

    def pause(self, tp: TopicPartition, seconds: float) -> None:
        """Do not fetch this partition for this number of seconds."""
        self._positions[tp].not_before = time.monotonic() + seconds

    def seek(self, tp: TopicPartition, offset: int, *, last_epoch: int = NOT_KNOWN) -> None:
        """Continue at `offset`, and discard a response in flight. `last_epoch`: see `PartitionReader.request`."""
        position = self._positions[tp]
        position.offset, position.last_epoch = offset, last_epoch

    def remove(self, tp: TopicPartition) -> None:
        """Stop reading this partition."""
        del self._positions[tp]

    def poll(self) -> list[Polled]:
        """One broker's response: for each requested partition its records, no records, or its last error.

        A partition with an error is removed. Waits for a response; without partitions, the result is empty.
        """
        while self._positions or self._failed:
            self.send_fetches()
            if self._failed:
                failed, self._failed = self._failed, []
                return failed
            busy = [fetcher for fetcher in self._fetchers.values() if fetcher.requested]
            for fetcher in busy:
                results = self._receive(fetcher)
                if results:
                    return results
            if not self._failed:
                self._wait([fetcher for fetcher in busy if fetcher.requested])
        return []

    def send_fetches(self) -> None:
        """Send a request to every broker that has none in flight, without waiting.

        `poll` does this too. Call it before you process the result of `poll`, so that brokers work meanwhile.
        """
        for node_id, positions in self._due().items():
            fetcher = self._fetchers.setdefault(node_id, BrokerFetcher(node_id))
            if fetcher.requested or fetcher.muted_for:
                continue
            try:
                fetcher.send(self._cluster, positions, self._request, Deadline.after(self._request_timeout))
            except KafkaError as error:
                self._disconnect(fetcher, error, positions)
            else:
                fetcher.patience = self._request_timeout + self._max_wait_ms / 1000

    def _due(self) -> dict[int, list[FetchPosition]]:
        """The partitions to fetch now, by the node to fetch them from. Those whose leader is not found have failed."""
        now = time.monotonic()
        due = [position for position in self._positions.values() if position.not_before <= now]
        # One request for the metadata of all topics, and one deadline: brokers that do not respond hold all of them.
        deadline = Deadline.after(self._request_timeout)
        if topics := {position.tp.topic for position in due if position.leader is None}:
            with suppress(KafkaError):  # each partition fails with it below
                self._cluster.metadata_now(sorted(topics), deadline)
        by_node: dict[int, list[FetchPosition]] = {}
        for position in due:
            try:
                by_node.setdefault(position.node(deadline), []).append(position)
            except KafkaError as error:
                self._fail(position, error)
        return by_node

    def _request(self, fetcher: BrokerFetcher, rack: str) -> FetchRequest:
        part = fetcher.part
        return FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics_data=part.forgotten,
            rack_id=rack,
        )

    # -- responses

    def _receive(self, fetcher: BrokerFetcher) -> list[Polled]:
        assert fetcher.connection is not None
        try:
            response: FetchResponse | None = fetcher.connection.poll()
            if response is None:
                if fetcher.patience > 0:
                    return []
                fetcher.connection.fail()
                raise RequestTimedOut("the broker did not respond in time", broker=fetcher.connection.label)
            if response.error_code:
                raise error_from_code(response.error_code, "Fetch", broker=fetcher.connection.label)
            return self._take(fetcher, response)
        except KafkaError as error:
            if error.reaction is Reaction.NEW_SESSION and fetcher.session_rejected(error):
                return []
            self._disconnect(fetcher, error, [self._positions[tp] for tp in fetcher.requested if tp in self._positions])
            return []

    def _take(self, fetcher: BrokerFetcher, response: FetchResponse) -> list[Polled]:
        label = fetcher.label
        answered = fetcher.partitions_of(response)
        throttled = response.throttle_time_ms > 0
        fetcher.throttled_ms += response.throttle_time_ms
        missing = fetcher.requested.keys() - answered.keys()
        if fetcher.part.full and missing and not throttled:
            raise ProtocolFault(f"Fetch response lacks {len(missing)} requested partitions", broker=label)
        requested, fetcher.requested = fetcher.requested, {}
        fetcher.session.on_response(response.session_id)
        fetcher.refusals = 0
        results: list[Polled] = []
        for tp, fetch in requested.items():
            position = self._positions.get(tp)
            if position is None or position.offset != fetch.offset:
                continue  # not read any more, or from elsewhere
            partition = answered.get(tp)
            if partition is not None:
                try:
                    fetched = self._read(fetcher, position, fetch, response, partition)
                except KafkaError as error:
                    error.broker = label
                    self._fail(position, error)
                    continue
                if fetched is not None:
                    results.append((tp, fetched))
                    if fetched.records:
                        # A broker fills a response in the request's order, so the others come first in the next one.
                        self._positions[tp] = self._positions.pop(tp)
            elif not throttled:
                results.append((tp, position.empty_result()))
        return results

    def _read(
        self,
        fetcher: BrokerFetcher,
        position: FetchPosition,
        fetch: PartitionFetch,
        response: FetchResponse,
        partition: PartitionData,
    ) -> FetchedRecords | None:
        """One partition's part of a response; None: fetch it again, from a replica or with a higher limit."""
        at_leader = position.leader is None or position.leader.broker.node_id == fetcher.node_id
        error = error_of(self._cluster, fetch, response, partition, at_leader=at_leader)
        if error is not None:
            raise error
        position.succeeded()
        if partition.preferred_read_replica >= 0 and at_leader:
            position.source.prefer(partition.preferred_read_replica)
            return None
        fetched = records_of(partition, fetch.offset, fetcher.throttled_ms, fetcher.node_id, fetcher.version)
        if position.limit.raised_for(fetched.records, fetch.offset, fetcher.version, fetcher.label):
            return None
        fetcher.throttled_ms = 0
        position.last = fetched
        return fetched

    def _disconnect(self, fetcher: BrokerFetcher, error: KafkaError, positions: list[FetchPosition]) -> None:
        """Close a broker's connection, and fail its partitions."""
        fetcher.close()
        for position in positions:
            self._fail(position, copy(error))

    def _fail(self, position: FetchPosition, error: KafkaError) -> None:
        """Update the metadata after an error; after the last try, remove the partition and return it with the error."""
        if position.source.replica is not None:
            position.source.back_to_leader()
            error.learnt = error.retriable
        self._cluster.learn(error)
        if not position.failed(error, self._cluster.config):
            del self._positions[position.tp], self._known[position.tp]
            error.topic, error.partition = position.tp
            self._failed.append((position.tp, error))

    # -- waiting

    @property
    def _request_timeout(self) -> float:
        return self._cluster.config.request_timeout_ms / 1000

    def _wait(self, busy: list[BrokerFetcher]) -> None:
        """Wait until a response may have come, or a request can be sent.

        A large response arrives only while it is received, so time that is spent elsewhere does not count for it.
        """
        now = time.monotonic()
        times = [now + fetcher.patience for fetcher in busy]
        for position in self._positions.values():
            fetcher = self._fetchers.get(position.known_node)
            if fetcher is None or not fetcher.requested:
                times.append(max(position.not_before, now + (0.0 if fetcher is None else fetcher.muted_for)))
        pause = max(0.0, min(times, default=now) - now)
        self._waiter.wait(pause, [fetcher.connection for fetcher in busy if fetcher.connection is not None])
        waited = time.monotonic() - now
        for fetcher in busy:
            fetcher.patience -= waited


def fetch_many(
    cluster: Cluster,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    next_offset: Callable[[memoryview, int], int],
    *,
    isolation_level: IsolationLevel,
    max_bytes: int | None = None,
    partition_max_bytes: int | None = None,
) -> Iterator[tuple[TopicPartition, FetchedRecords]]:
    """Read `[start, end)` of many partitions; responses in any order, those of one partition in order.

    `next_offset(records, offset)` returns the offset after a response's complete batches, like
    `segment_reader.decode.next_offset`. The next request is sent before a response is returned. If the rest of a range
    is absent, the response that proves this is returned too: its first batch is after the range.

    Raises the error of the first partition that fails; RequestTimedOut if a partition has no records for
    `default.api.timeout.ms`, and no other partition has any.
    """
    committed = isolation_level == "read_committed"
    with ManyReader(
        cluster, isolation_level=isolation_level, max_bytes=max_bytes, partition_max_bytes=partition_max_bytes
    ) as reader:
        empties: dict[TopicPartition, EmptyAnswers] = {}
        for tp, (start, end) in ranges.items():
            if start < end:
                reader.add(tp, start)
                empties[tp] = EmptyAnswers(
                    end,
                    committed=committed,
                    patience=cluster.config.default_api_timeout_ms / 1000,
                    look_beyond=partial(read_uncommitted_from, cluster, tp, topic_id=None, leader_epoch=None),
                )
        while reader.partitions:
            answers: list[tuple[TopicPartition, FetchedRecords]] = []
            results = reader.poll()
            # A partition may be left out because others have filled the answer: only an empty response shows that it
            # had nothing to send.
            nothing = not any(isinstance(fetched, FetchedRecords) and fetched.records for _, fetched in results)
            for tp, fetched in results:
                if isinstance(fetched, KafkaError):
                    raise fetched
                start, end = fetched.fetch_offset, ranges[tp][1]
                following = next_offset(fetched.records, start)
                proof = None
                if following > start:
                    empties[tp].moved_on()
                    answers.append((tp, fetched))
                elif fetched.records:
                    reader.raise_limit(tp, fetched)
                elif nothing and (proof := empties[tp].batch_behind(fetched)) is not None:
                    answers.append((tp, proof))
                if following >= end or proof is not None:
                    reader.remove(tp)
                    continue
                if empties[tp].behind:
                    reader.leave_replica(tp)
                if nothing:
                    _give_up_if_overdue(empties[tp], tp, start, end)
                reader.seek(tp, following)
                if empties[tp].pause:
                    reader.pause(tp, empties[tp].pause)
            reader.send_fetches()
            if answers:
                yield from answers
                # Neither the caller's time nor that in which others filled the responses is time without records.
                for one in empties.values():
                    one.restart()


def _give_up_if_overdue(empties: EmptyAnswers, tp: TopicPartition, offset: int, end: int) -> None:
    if empties.overdue:
        raise RequestTimedOut(
            f"no records for {empties.waited:.0f} s at offset {offset}, the range ends at {end}",
            topic=tp.topic,
            partition=tp.partition,
        )
