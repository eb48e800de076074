"""A leader on a scripted broker: it keeps logs as Kafka's do, and loses answers, refuses and moves as it is told."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kseg.client import TopicPartition
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from kseg.segment_reader.decode.batch import RECORD_BATCH, RECORDS_AT
from kseg.segment_reader.encode.bodies import BatchBody, records_of

#: Where most tests write to.
TP = TopicPartition("t", 0)
#: How many of a producer's last batches are known again.
REMEMBERED = 5


@dataclass
class Arrived:
    """A batch that arrived: whose it is, its numbers, its values."""

    tp: TopicPartition
    producer_id: int
    epoch: int
    sequence: int
    values: list[bytes | None]
    connection: int
    attributes: int


def parse(tp: TopicPartition, data: bytes, connection: int) -> Arrived:
    head = RECORD_BATCH.unpack_from(data)
    attributes, base_time, latest, producer_id, epoch, sequence, count = (
        head[5], head[7], head[8], head[9], head[10], head[11], head[12]
    )  # fmt: skip
    body = BatchBody(bytes(data[RECORDS_AT:]), count, base_time, latest)
    return Arrived(tp, producer_id, epoch, sequence, [r.value for r in records_of(body)], connection, attributes)


@dataclass
class Log:
    """One partition as its leader keeps it, with what it knows of producers (KIP-98).

    values: of all records that were ever appended; those before `start` have been deleted.
    refuses_strangers: whether a producer that is not known has to begin with sequence 0, as before Kafka 2.5 (KIP-360).
    """

    values: list[bytes | None] = field(default_factory=list)
    start: int = 0
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)
    refuses_strangers: bool = False

    def delete_all(self) -> None:
        """What retention does to a quiet topic: with the records goes what they told of producers."""
        self.start = len(self.values)
        self.producers.clear()

    def append(self, batch: Arrived) -> tuple[int, int]:
        """(error code, base offset)."""
        if batch.producer_id >= 0:
            epoch, last = self.producers.get(batch.producer_id, (-1, deque(maxlen=REMEMBERED)))
            if epoch < 0 and batch.sequence != 0 and self.refuses_strangers:
                return ErrorCode.UNKNOWN_PRODUCER_ID, -1
            if batch.epoch < epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if batch.epoch > epoch:
                if batch.sequence != 0 and epoch >= 0:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                last = deque(maxlen=REMEMBERED)
            end = (batch.sequence + len(batch.values) - 1) % 2**31
            for first, latest, offset in last:
                if (first, latest) == (batch.sequence, end):
                    return 0, offset
            if last and batch.sequence != (last[-1][1] + 1) % 2**31:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            last.append((batch.sequence, end, len(self.values)))
            self.producers[batch.producer_id] = batch.epoch, last
        offset = len(self.values)
        self.values += batch.values
        return 0, offset


class ScriptedLeader:
    """Answers Produce on a scripted broker. `script` says, request by request, what goes wrong with it."""

    def __init__(self, fake: Any, fakes: Any, partitions: int = 1) -> None:
        self.fake, self.fakes = fake, fakes
        self.logs: dict[TopicPartition, Log] = defaultdict(Log)
        self.arrived: list[Arrived] = []
        self.requests: list[list[TopicPartition]] = []
        self.script: Callable[[list[Arrived]], Any] = lambda _: None
        self.pause = 0.0
        self.ids = iter(range(7, 1000))
        fake.add_topic("t", [1] * partitions)
        fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=next(self.ids), producer_epoch=0))
        fake.on(ProduceRequest, self.answer)

    @property
    def log(self) -> list[bytes | None]:
        return self.logs[TP].values

    def once(self, *faults: Any) -> None:
        """These go wrong, one a request, then nothing."""
        left = iter(faults)
        self.script = lambda _: next(left, None)

    def answer(self, seen: Any) -> Any:
        """`script` gives None (append), "lost before", "lost after", "silent", an error code, (an error code, where the
        log starts), or a map of these by partition."""
        batches = [
            parse(TopicPartition("t", partition.index), partition.records, seen.connection)
            for topic in seen.request.topic_data
            for partition in topic.partition_data
        ]
        self.arrived += batches
        self.requests.append([batch.tp for batch in batches])
        if self.pause:
            time.sleep(self.pause)
        told = self.script(batches)
        if told == "lost before":
            return self.fakes.CLOSE
        if told == "silent":
            return self.fakes.SILENT
        entries = [
            self._take(batch, told.get(batch.tp.partition) if isinstance(told, dict) else told) for batch in batches
        ]
        if told == "lost after" or seen.request.acks == 0:
            return self.fakes.CLOSE if seen.request.acks else self.fakes.SILENT
        topic = seen.request.topic_data[0]
        answer = ProduceResponse.TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=entries
        )
        return ProduceResponse(responses=[answer])

    def _take(self, batch: Arrived, told: Any) -> Any:
        log = self.logs[batch.tp]
        code, log_start = told if isinstance(told, tuple) else (told, log.start)
        offset = -1
        if code is None or isinstance(code, str):
            code, offset = log.append(batch)
        return ProduceResponse.PartitionProduceResponse(
            index=batch.tp.partition, error_code=code, base_offset=offset, log_start_offset=log_start
        )
