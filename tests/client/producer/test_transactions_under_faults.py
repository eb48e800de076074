"""Transactions while requests and responses are lost: what `commit` returned from is there once, all else is not.

The coordinator is a model of Kafka's, in both protocols: the epochs of InitProducerId with and without a present one
(KIP-360), repeated EndTxn, and in the second protocol an epoch for each transaction (KIP-890).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.errors import KafkaError
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from kseg.client.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    EndTxnRequest,
    EndTxnResponse,
)
from kseg.client.transactions.states import IllegalStep, TransactionState

TP = TopicPartition("t", 0)
NO_EPOCH = -1
LOST = ["lost before", "lost after", "silent", ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR]
#: As if the broker had a bug, or a login had failed: such an error says nothing about an earlier try.
LOST_OR_REFUSED = [*LOST, ErrorCode.UNKNOWN_SERVER_ERROR]
#: How often a program may try to get out of a state before it is stuck.
PATIENCE = 200


@dataclass
class Coordinator:
    """`written`: what is in the open transaction."""

    second: bool
    epoch: int = NO_EPOCH
    last: int = NO_EPOCH
    state: str = "Empty"
    written: list[bytes] = field(default_factory=list)
    committed: list[bytes] = field(default_factory=list)

    def initialize(self, present: int) -> tuple[int, int]:
        """(error code, epoch)."""
        if present != NO_EPOCH and present not in (self.epoch, self.last):
            return ErrorCode.PRODUCER_FENCED, NO_EPOCH
        if self.state == "Ongoing":
            self._end(commit=False)
            self.epoch, self.last = self.epoch + 1, NO_EPOCH
            return ErrorCode.CONCURRENT_TRANSACTIONS, NO_EPOCH
        if present == NO_EPOCH:
            self.epoch, self.last = self.epoch + 1, NO_EPOCH
        elif present == self.epoch:
            self.epoch, self.last = self.epoch + 1, self.epoch
        self.state = "Empty"
        return 0, self.epoch

    def add(self, epoch: int) -> int:
        if epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED
        self.state = "Ongoing"
        return 0

    def end(self, epoch: int, *, commit: bool) -> tuple[int, int]:
        """(error code, the next epoch)."""
        done = "CompleteCommit" if commit else "CompleteAbort"
        if self.second and epoch == self.last and self.state == done:
            return 0, self.epoch  # a repetition
        if epoch != self.epoch:
            return ErrorCode.PRODUCER_FENCED, NO_EPOCH
        if self.state != "Ongoing" and (commit or not self.second) and (self.second or self.state != done):
            return ErrorCode.INVALID_TXN_STATE, NO_EPOCH
        self._end(commit=commit)
        if self.second:
            self.epoch, self.last = self.epoch + 1, self.epoch
        return 0, self.epoch

    def _end(self, *, commit: bool) -> None:
        if self.state == "Ongoing" and commit:
            self.committed += self.written
        self.written = []
        self.state = "CompleteCommit" if commit else "CompleteAbort"


class Program:
    """Begins, sends and ends at random, and gets out of every error in the ways that the documentation names."""

    def __init__(self, make: Callable[[], Any], chance: random.Random) -> None:
        self.make, self.chance = make, chance
        self.producer = make()
        self.committed: list[list[bytes]] = []
        self.unknown: list[list[bytes]] = []
        self.new_producers = 0

    def transaction(self, values: list[bytes]) -> None:
        self.begin()
        end = self.producer.commit if self.chance.random() < 0.7 else self.producer.abort
        try:
            for value in values:
                self.producer.send("t", value)
                if self.chance.random() < 0.2:
                    self.producer.flush(30)
            end()
        except KafkaError:
            self.get_out(values)
        else:
            if end == self.producer.commit:
                self.committed.append(values)

    def begin(self) -> None:
        for _ in range(PATIENCE):
            try:
                self.producer.begin()
            except KafkaError:
                if self.producer._transaction.state is TransactionState.FATAL_ERROR:
                    self.replace()
            else:
                return
        raise AssertionError(f"stuck in {self.producer._transaction.state}")

    def get_out(self, values: list[bytes]) -> None:
        transaction = self.producer._transaction
        for _ in range(PATIENCE):
            if transaction.state is TransactionState.FATAL_ERROR:
                self.unknown.append(values)
                self.replace()
                return
            try:
                if transaction.state is not TransactionState.COMMITTING:
                    self.producer.abort()
                    return
                if self.chance.random() < 0.5:
                    self.producer.commit()
                else:  # commits it, and opens one that stays empty
                    self.producer.begin()
                    self.producer.abort()
                self.committed.append(values)
                return
            except KafkaError:
                pass
            except IllegalStep as error:
                raise AssertionError(f"no way out: {error}") from error
        raise AssertionError(f"stuck in {transaction.state}")

    def replace(self) -> None:
        self.new_producers += 1
        self.producer.close(0)
        self.producer = self.make()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_committed_is_there_once_whatever_is_lost(
    fake: Any, fakes: Any, leader: Any, make: Any, scale: Any, version: int, seed: int
):
    chance = random.Random(seed)
    coordinator = Coordinator(second=version == 2)
    fake.features = {"transaction.version": version}
    del fake.ranges[DescribeTransactionsRequest.KEY]
    faulty = True

    def with_faults(
        answer: Callable[[Any], Any], refused: Callable[[int], Any], faults: list[Any] = LOST
    ) -> Callable[[Any], Any]:
        def handle(seen: Any) -> Any:
            fault = chance.choice(faults) if faulty and chance.random() < 0.5 else None
            if isinstance(fault, ErrorCode):
                return refused(int(fault))
            if fault in ("lost before", "silent"):
                return fakes.CLOSE if fault == "lost before" else fakes.SILENT
            response = answer(seen.request)
            return fakes.CLOSE if fault else response

        return handle

    def init(request: Any) -> InitProducerIdResponse:
        code, epoch = coordinator.initialize(request.producer_epoch)
        return InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=epoch)

    def added(code: int) -> AddPartitionsToTxnResponse:
        result = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
            partition_index=0, partition_error_code=code
        )
        topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(name="t", results_by_partition=[result])
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])

    def end(request: Any) -> EndTxnResponse:
        code, epoch = coordinator.end(request.producer_epoch, commit=request.committed)
        identity = {"producer_id": 7, "producer_epoch": epoch} if version == 2 and not code else {}
        return EndTxnResponse(error_code=code, **identity)

    fake.on(InitProducerIdRequest, with_faults(init, lambda code: InitProducerIdResponse(error_code=code)))
    fake.on(EndTxnRequest, with_faults(end, lambda code: EndTxnResponse(error_code=code), LOST_OR_REFUSED))
    fake.on(
        AddPartitionsToTxnRequest,
        with_faults(lambda request: added(coordinator.add(request.v3_and_below_producer_epoch)), added),
    )
    log = leader.logs[TP]
    append = type(log).append

    def append_in_transaction(self: Any, batch: Any) -> tuple[int, int]:
        if batch.epoch != coordinator.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if version == 1 and coordinator.state != "Ongoing":  # leaders ask the coordinator, from Kafka 3.6 on (KIP-890)
            return ErrorCode.INVALID_TXN_STATE, -1
        before = len(self.values)
        code, offset = append(self, batch)
        new = self.values[before:]
        if new and version == 2:
            coordinator.add(batch.epoch)
        coordinator.written += new
        return code, offset

    log.append = lambda batch: append_in_transaction(log, batch)

    def lose(_: Any) -> Any:
        if not faulty or chance.random() < 0.75:
            return None
        return chance.choice(["lost before", "lost after", "silent", ErrorCode.NOT_LEADER_OR_FOLLOWER])

    leader.script = lose
    program = Program(
        lambda: make(
            transactional_id="tx",
            request_timeout_ms=50,
            default_api_timeout_ms=120,
            delivery_timeout_ms=chance.choice([120, 5000]),
            batch_size=chance.choice([0, 100]),
        ),
        chance,
    )
    for number in range(scale(40, 400)):
        program.transaction([b"%d-%d" % (number, n) for n in range(chance.randrange(4))])
    faulty = False
    program.transaction([b"last"])
    certain = [value for values in program.committed for value in values]
    unknown = {value for values in program.unknown for value in values}
    assert [value for value in coordinator.committed if value not in unknown] == certain
    for values in program.unknown:
        found = [value for value in coordinator.committed if value in values]
        assert found in ([], values)
    assert len(program.committed) > 10
