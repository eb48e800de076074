"""The I/O thread: sends due batches from the accumulator to their leaders, and processes the responses.

One thread serves all brokers, and waits for responses of all of them at once. It blocks only to connect, to request
metadata or a producer id, and to write to a socket that is writable.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.metadata import Leader, leader_in
from kseg.client.errors import BrokerUnavailable, DeliveryTimedOut, KafkaError, ProtocolFault, RequestTimedOut
from kseg.client.producer.accumulator import NEVER, Accumulator, PartitionQueue
from kseg.client.producer.batch import NO_OFFSET, ProducerBatch
from kseg.client.producer.config import ProducerConfig
from kseg.client.producer.connections import InFlightRequest, ProduceConnection, lost
from kseg.client.producer.outcomes import BatchDecision, may_be_appended, outcome_of
from kseg.client.producer.requests import PartitionResponse, produce_request, read_response, record_set, typed_error
from kseg.client.producer.sequences import MAX_EPOCH
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline
from kseg.client.transactions.producer_identity import init_producer_id_now
from kseg.client.wire.waiting import Waiter

_CONNECTION_LOST: Final = (BrokerUnavailable, RequestTimedOut, ProtocolFault)


class Sender:
    """`start` it once; `stop` waits until it has ended. Everything else runs in its thread."""

    def __init__(self, config: ProducerConfig, accumulator: Accumulator, waiter: Waiter) -> None:
        self._config = config
        self._accumulator = accumulator
        self._waiter = waiter
        self._cluster = Cluster(config.client)
        self._links: dict[int, ProduceConnection] = {}
        self._rotation = 0
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"{config.client.client_id}-sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End after the current turn. Batches that wait or are in flight are left as they are: flush before."""
        self._stopping = True
        self._waiter.wake()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping:
                until = self.turn(time.monotonic())
                links = [link for link in self._links.values() if link.connection is not None]
                reading = [link.connection for link in links if link.connection and link.in_flight]
                writing = [link.connection for link in links if link.connection and link.blocked]
                timeout = None if until == NEVER else max(0.0, until - time.monotonic())
                self._waiter.wait(timeout, reading, writing)
        except BaseException as error:  # a bug: callers must not wait for ever
            failure = KafkaError(f"the producer's I/O thread has failed: {error!r}")
            failure.__cause__ = error
            self._accumulator.stop(failure)
        finally:
            for link in self._links.values():
                link.close()
            self._cluster.close()

    def turn(self, now: float) -> float:
        """Do all that can be done now; returns the latest time of the next call."""
        self._accumulator.expire(now, self._expired)
        self._receive(now)
        ready, _ = self._accumulator.due(now)
        wake_at, held_up = NEVER, set[TopicPartition]()
        for link, queues, leaders in self._by_link(ready, now):
            again_at, done = self._send_all(link, queues, leaders)
            wake_at = min(wake_at, again_at)
            if not done:
                held_up.update(leaders)
        left, due_at = self._accumulator.due(time.monotonic(), going_to_sleep=True)
        if any(queue.tp not in held_up for queue in left):
            return now  # it has become due meanwhile
        for link in self._links.values():
            if link.connection is not None and link.connection.has_answer:
                return now  # it came during a re-authentication
            if link.in_flight:
                wake_at = min(wake_at, link.in_flight[0].until, now + self._delivery_timeout)
        if left:
            wake_at = min(wake_at, min(q.batches[0].created for q in left if q.batches) + self._delivery_timeout)
        return min(wake_at, due_at)

    # -- out

    def _by_link(
        self, ready: list[PartitionQueue], now: float
    ) -> list[tuple[ProduceConnection, list[PartitionQueue], dict[TopicPartition, Leader]]]:
        """Due queues by their leader; those without a leader are postponed."""
        groups: dict[int, tuple[ProduceConnection, list[PartitionQueue], dict[TopicPartition, Leader]]] = {}
        if not ready:
            return []
        try:
            deadline = Deadline.after(self._config.client.request_timeout_ms / 1000)
            metadata = self._cluster.metadata_now({queue.tp.topic for queue in ready}, deadline)
        except KafkaError as error:
            for queue in ready:
                self._put_off(queue, error, now)
            return []
        # Another partition is first in each turn, else a full request would always leave out the same ones.
        self._rotation += 1
        start = self._rotation % len(ready)
        for queue in ready[start:] + ready[:start]:
            try:
                leader = leader_in(metadata, queue.tp)
            except KafkaError as error:
                self._put_off(queue, error, now)
                continue
            link = self._links.get(leader.broker.node_id)
            if link is None:
                link = self._links[leader.broker.node_id] = ProduceConnection(leader.broker)
            elif link.broker.endpoint != leader.broker.endpoint and not link.in_flight:
                link.close()
                link.broker = leader.broker
            group = groups.setdefault(leader.broker.node_id, (link, [], {}))
            group[1].append(queue)
            group[2][queue.tp] = leader
        return list(groups.values())

    def _send_all(
        self, link: ProduceConnection, queues: list[PartitionQueue], leaders: Mapping[TopicPartition, Leader]
    ) -> tuple[float, bool]:
        """Send as many requests as may be in flight; returns when to try again, and whether all due ones were sent."""
        now = time.monotonic()
        if now < link.not_before:
            return link.not_before, False
        try:
            connection = link.open(self._cluster)
        except KafkaError as error:
            for queue in queues:
                self._put_off(queue, error, now)
            return link.not_before, False
        link.blocked = False
        while link.accepts(self._config.max_in_flight):
            batches = self._accumulator.drain(
                [queue for queue in queues if self._sequences_ready(queue)], time.monotonic()
            )
            if not batches:
                return NEVER, True
            if not self._send(link, batches, {batch.tp: leaders[batch.tp] for batch in batches}):
                return link.not_before, False
        if connection.muted_for:
            return time.monotonic() + connection.muted_for, False
        link.blocked = len(link.in_flight) < self._config.max_in_flight
        return NEVER, False

    def _send(
        self, link: ProduceConnection, batches: list[ProducerBatch], leaders: dict[TopicPartition, Leader]
    ) -> bool:
        """Send one request. Whether the connection is still usable."""
        assert link.connection is not None
        config, identity = self._config, self._accumulator.identity
        features = None if identity is None else identity.finalized_features
        sets: dict[TopicPartition, bytes] = {}
        sending: dict[TopicPartition, ProducerBatch] = {}
        version = 0
        for batch in batches:
            queue = self._accumulator.queues[batch.tp]
            try:
                version = link.connection.version_of(
                    ProduceRequest,
                    topic_ids_known=all(leader.topic_id is not None for leader in leaders.values()),
                    transactional=features is not None,
                    finalized_features=features,
                )
                if config.idempotent:
                    self._accumulator.number(queue, batch)
                sets[batch.tp] = record_set(batch, version, config, transactional=features is not None)
                sending[batch.tp] = batch
            except Exception as error:  # of these records, so it must not end the thread that has all others
                failure = error if isinstance(error, KafkaError) else KafkaError(f"records cannot be encoded: {error}")
                self._fail(queue, batch, failure)
        if not sending:
            return True
        until = time.monotonic() + config.client.request_timeout_ms / 1000
        sent = InFlightRequest(sending, leaders, until)
        request = produce_request(
            version,
            sets,
            leaders,
            acks=config.acks,
            timeout_ms=config.client.request_timeout_ms,
            transactional_id=None if identity is None else identity.transactional_id,
        )
        for batch in sending.values():  # before it is written: whatever happens then, it may be in the log
            batch.doubts += 1
        try:
            link.send(request, version, sent)
        except KafkaError as error:
            if isinstance(error, _CONNECTION_LOST):
                self._lose(link, error, sent)
                return False
            for tp, batch in sending.items():
                batch.doubts -= 1
                self._fail(self._accumulator.queues[tp], batch, error)
            if link.connection.closed:  # a failed re-authentication closes it
                self._lose(link, error)
                return False
            return True
        if not config.acks:
            for tp, batch in sending.items():
                batch.base_offset, batch.log_append_time = NO_OFFSET, -1
                self._accumulator.finish(self._accumulator.queues[tp], batch, None)
        return True

    def _sequences_ready(self, queue: PartitionQueue) -> bool:
        """Whether batches may be sent. If sequences restart: numbers the open ones again once none is in flight."""
        sequences = queue.sequences
        if not queue.restart or sequences is None:
            return True
        if queue.in_flight or time.monotonic() < queue.not_before:
            return False
        ids = sequences.producer_id, sequences.producer_epoch
        if self._accumulator.identity is None:  # a transaction keeps its epoch
            if sequences.producer_epoch < MAX_EPOCH:
                ids = ids[0], ids[1] + 1
            else:
                try:
                    deadline = Deadline.after(self._config.client.request_timeout_ms / 1000)
                    ids = init_producer_id_now(self._cluster, deadline)
                except KafkaError as error:
                    self._put_off(queue, error, time.monotonic())
                    return False
        self._accumulator.restart(queue, *ids)
        return True

    # -- in

    def _receive(self, now: float) -> None:
        for link in self._links.values():
            try:
                for sent, response in link.answers(now):
                    self._take(sent, list(read_response(response, sent.leaders)), now)
                if link.connection is not None and link.connection.closed:
                    raise lost(link)
            except KafkaError as error:
                self._lose(link, error)

    def _take(self, sent: InFlightRequest, answered: list[PartitionResponse], now: float) -> None:
        left = dict(sent.batches)
        for answer in answered:
            batch = left.pop(answer.tp, None)
            if batch is not None:
                self._settle(batch, answer, now)
        for tp, batch in left.items():
            why = ProtocolFault("Produce response lacks a requested partition", topic=tp.topic, partition=tp.partition)
            self._again_or_fail(self._accumulator.queues[tp], batch, why, now)

    def _settle(self, batch: ProducerBatch, answer: PartitionResponse, now: float) -> None:
        queue = self._accumulator.queues[batch.tp]
        if not may_be_appended(answer.error_code):
            batch.doubts -= 1
        if batch.finished.is_set() and answer.error_code:
            # It has expired. Its sequence may be one of an earlier transaction: nothing follows for the present ones.
            error = typed_error(answer, batch)
            self._cluster.learn(error)
            self._fail(queue, batch, error)
            return
        transactional = self._accumulator.identity is not None
        decided = outcome_of(
            answer.error_code,
            batch,
            queue.sequences,
            transactional=transactional,
            log_start_offset=answer.log_start_offset,
            retries=self._config.retries + 1 - batch.attempts,
        )
        if decided is BatchDecision.APPENDED:
            queue.failures, queue.trouble = 0, None
            batch.base_offset, batch.log_append_time = answer.base_offset, answer.log_append_time
            self._accumulator.finish(queue, batch, None)
            return
        error = typed_error(answer, batch)
        queue.trouble = error
        self._cluster.learn(error)
        if decided is BatchDecision.FAILED:
            self._fail(queue, batch, error)
        elif decided is BatchDecision.SPLIT:
            self._accumulator.replace(queue, batch)
        else:
            if decided is BatchDecision.RETRY:
                self._pause(queue, now)
            elif decided in (BatchDecision.RESTART, BatchDecision.RECOUNT):
                queue.restart = True
            self._accumulator.put_back(queue, batch)

    def _lose(self, link: ProduceConnection, error: KafkaError, also: InFlightRequest | None = None) -> None:
        """The connection is lost: its batches in flight are retried, in their old order."""
        self._cluster.learn(error)
        in_flight = link.close()
        if also is not None:
            in_flight.append(also)
        now = time.monotonic()
        link.failed(self._config.client.retry)
        for sent in reversed(in_flight):
            for tp, batch in sent.batches.items():
                self._again_or_fail(self._accumulator.queues[tp], batch, error, now)

    def _again_or_fail(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, now: float) -> None:
        if batch.attempts > self._config.retries:
            self._fail(queue, batch, error)
            return
        queue.trouble = error
        self._pause(queue, now)
        self._accumulator.put_back(queue, batch)

    # -- failing

    def _pause(self, queue: PartitionQueue, now: float) -> None:
        queue.failures += 1
        queue.not_before = now + self._config.client.retry.pause_after(queue.failures)

    def _put_off(self, queue: PartitionQueue, error: KafkaError, now: float) -> None:
        """There is no leader to send to: retry later, or fail the batches if no retry can help."""
        self._cluster.learn(error)
        if error.retriable or isinstance(error, _CONNECTION_LOST):
            self._pause(queue, now)
            queue.trouble = error
            return
        for batch in self._accumulator.drain_all(queue):
            self._fail(queue, batch, error)

    def _fail(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        self._accumulator.finish(queue, batch, error)

    def _expired(self, batch: ProducerBatch) -> KafkaError:
        queue = self._accumulator.queues[batch.tp]
        trouble = f"; the last error: {queue.trouble}" if queue.trouble is not None else ""
        doubt = ", and may have been appended" if batch.in_doubt else ""
        return DeliveryTimedOut(
            f"not acknowledged within {self._config.delivery_timeout_ms} ms (delivery.timeout.ms){doubt}{trouble}",
            sent=batch.in_doubt,
            topic=batch.tp.topic,
            partition=batch.tp.partition,
        )
