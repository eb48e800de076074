"""The transaction's states: the table alone, and a transaction on a scripted coordinator that walks it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from kseg.client import ClientConfig, Cluster, CommittedOffset, Fenced, KafkaError, TopicPartition, Transaction
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from kseg.client.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kseg.client.transactions.states import TRANSITIONS, IllegalStep, StateMachine, TransactionState, TransactionStep

S, T = TransactionState, TransactionStep

#: Written a second time and otherwise than in the table: by where each step may be taken from, and where it leads.
SOURCES = {
    T.INITIALIZE: {S.UNINITIALIZED, S.INITIALIZING, S.READY, S.COMMITTING, S.ABORTING, S.ABORTABLE_ERROR},
    T.INITIALIZED: {S.INITIALIZING},
    T.BEGIN: {S.READY},
    T.WORK: {S.IN_TRANSACTION},
    T.COMMIT: {S.IN_TRANSACTION, S.COMMITTING},
    T.ABORT: {S.IN_TRANSACTION, S.ABORTABLE_ERROR, S.ABORTING},
    T.ENDED: {S.COMMITTING, S.ABORTING},
    T.FAIL: {S.IN_TRANSACTION, S.COMMITTING, S.ABORTABLE_ERROR, S.ABORTING},
    T.FAIL_FOR_GOOD: set(S),
}
TARGETS = {
    T.INITIALIZE: {S.INITIALIZING},
    T.INITIALIZED: {S.READY},
    T.BEGIN: {S.IN_TRANSACTION},
    T.WORK: {S.IN_TRANSACTION},
    T.COMMIT: {S.COMMITTING},
    T.ABORT: {S.ABORTING},
    T.ENDED: {S.READY},
    T.FAIL: {S.ABORTABLE_ERROR, S.ABORTING},
    T.FAIL_FOR_GOOD: {S.FATAL_ERROR},
}


@pytest.mark.rule(245)
@pytest.mark.parametrize("state", list(S))
@pytest.mark.parametrize("step", list(T))
def test_every_step_from_every_state_is_taken_or_refused(state: TransactionState, step: TransactionStep):
    machine = StateMachine()
    machine.state = state
    if state in SOURCES[step]:
        assert machine.allows(step)
        assert machine.take(step) in TARGETS[step]
        return
    assert not machine.allows(step)
    with pytest.raises(IllegalStep) as caught:
        machine.take(step)
    assert (caught.value.state, caught.value.step) == (state, step)
    assert state.value in str(caught.value)
    assert machine.state == state


def test_every_state_is_reached_and_only_the_fatal_one_is_never_left():
    reached, waiting = {S.UNINITIALIZED}, [S.UNINITIALIZED]
    while waiting:
        state = waiting.pop()
        following = {to for (at, _), to in TRANSITIONS.items() if at == state}
        assert following != {state} or state == S.FATAL_ERROR
        waiting += following - reached
        reached |= following
    assert reached == set(S)


class TableWalk(RuleBasedStateMachine):
    """Any steps in any order: what was committed was begun, and nothing follows a fatal error."""

    #: How many transactions were begun, in all walks.
    begins = 0

    def __init__(self) -> None:
        super().__init__()
        self.machine = StateMachine()
        self.initialized = self.begun = self.ended = 0
        self.fatal = False

    @rule(step=st.sampled_from(list(T)))
    def take(self, step: TransactionStep) -> None:
        before = self.machine.state
        if before not in SOURCES[step]:
            with pytest.raises(IllegalStep):
                self.machine.take(step)
            return
        self.machine.take(step)
        self.initialized += step == T.INITIALIZED
        self.begun += step == T.BEGIN
        TableWalk.begins += step == T.BEGIN
        self.ended += step == T.ENDED
        self.fatal = self.fatal or step == T.FAIL_FOR_GOOD

    @rule(choice=st.integers(0, 99))
    def take_one_of_those_that_are_allowed(self, choice: int) -> None:
        """Of any steps most are refused, so that a walk of them seldom comes as far as a transaction."""
        allowed = [step for step in T if self.machine.state in SOURCES[step] and step != T.FAIL_FOR_GOOD]
        if allowed:
            self.take(allowed[choice % len(allowed)])

    @invariant()
    def transactions_are_counted(self) -> None:
        assert self.begun <= self.ended + self.initialized
        assert self.ended <= self.begun
        assert (self.machine.state == S.FATAL_ERROR) == self.fatal
        if self.machine.state in (S.IN_TRANSACTION, S.COMMITTING):
            assert self.begun > 0


@pytest.mark.rule(245)
def test_a_walk_through_the_table_keeps_its_promises():
    TableWalk.begins = 0
    run_state_machine_as_test(TableWalk, settings=settings(stateful_step_count=40))
    assert TableWalk.begins > 10, "walks without a transaction show nothing"


class Coordinator:
    """What the scripted coordinator holds: the epoch it gave out last, whether a transaction is open, its decisions."""

    def __init__(self, fake: Any) -> None:
        self.epoch = -1
        self.open = False
        self.decided: list[bool] = []
        self.next_error = 0
        fake.on(InitProducerIdRequest, self.init)
        fake.on(AddOffsetsToTxnRequest, self.add)
        fake.on(TxnOffsetCommitRequest, self.offsets)
        fake.on(EndTxnRequest, self.end)

    def refusal(self, seen: Any) -> int:
        code, self.next_error = self.next_error, 0
        if code:
            return code
        return 0 if seen.request.producer_epoch == self.epoch else int(ErrorCode.INVALID_PRODUCER_EPOCH)

    def init(self, seen: Any) -> InitProducerIdResponse:
        code, self.next_error = self.next_error, 0
        if code:
            return InitProducerIdResponse(error_code=code)
        if self.open:
            self.open = False
            self.decided.append(False)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)

    def add(self, seen: Any) -> AddOffsetsToTxnResponse:
        code = self.refusal(seen)
        self.open = self.open or not code
        return AddOffsetsToTxnResponse(error_code=code)

    def offsets(self, seen: Any) -> TxnOffsetCommitResponse:
        code = self.refusal(seen)
        Topic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic  # noqa: N806
        Partition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition  # noqa: N806
        return TxnOffsetCommitResponse(
            topics=[Topic(name="t", partitions=[Partition(partition_index=0, error_code=code)])]
        )

    def end(self, seen: Any) -> EndTxnResponse:
        code = self.refusal(seen)
        if not code and not self.open:
            code = int(ErrorCode.INVALID_TXN_STATE)
        if not code:
            self.open = False
            self.decided.append(bool(seen.request.committed))
        return EndTxnResponse(error_code=code)


CODES = [0, 0, 0, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.PRODUCER_FENCED]


def test_a_transaction_and_its_coordinator_never_disagree(fake: Any):
    """Whatever is called in whatever order: what `commit` returned from is committed, and nothing else ever is."""

    class Walk(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            properties = {"bootstrap.servers": fake.bootstrap_servers, "retry.backoff.ms": "0"}
            self.cluster = Cluster(ClientConfig.from_properties(properties, client_id="walk"))
            self.coordinator = Coordinator(fake)
            self.transaction = Transaction(self.cluster, "tx")
            self.committed = 0

        def teardown(self) -> None:
            self.cluster.close()

        @rule(code=st.sampled_from(CODES))
        def next_answer(self, code: int) -> None:
            self.coordinator.next_error = int(code)

        @rule()
        def begin(self) -> None:
            self.step(self.transaction.begin, T.INITIALIZE)

        @rule()
        def begin_next(self) -> None:
            if self.transaction.state != S.COMMITTING:
                self.step(self.transaction.begin_next, T.BEGIN)
                return
            opened = self.coordinator.open
            if self.step(self.transaction.begin_next, T.COMMIT):
                self.committed += opened

        @rule()
        def commit_offsets(self) -> None:
            offsets = {TopicPartition("t", 0): CommittedOffset(1)}
            self.step(lambda: self.transaction.commit_offsets("g", offsets), T.WORK)

        @rule()
        def commit(self) -> None:
            opened = self.coordinator.open
            if self.step(self.transaction.commit, T.COMMIT):
                self.committed += opened

        @precondition(lambda self: self.transaction.open)
        @rule()
        def abort(self) -> None:
            self.step(self.transaction.abort, T.ABORT)

        @precondition(lambda self: self.transaction.state == S.FATAL_ERROR)
        @rule()
        def a_new_one(self) -> None:
            self.transaction = Transaction(self.cluster, "tx")

        def step(self, call: Any, step: TransactionStep) -> bool:
            before = self.transaction.state
            asked = len(fake.seen)
            try:
                call()
            except IllegalStep:
                assert before not in SOURCES[step]
                assert before not in (S.ABORTABLE_ERROR, S.FATAL_ERROR)
                assert self.transaction.state == before
            except KafkaError as error:
                if before not in SOURCES[step]:  # told once more why
                    assert before in (S.ABORTABLE_ERROR, S.FATAL_ERROR)
                    assert len(fake.seen) == asked
                    assert self.transaction.failure is error  # noqa: PT017
                elif isinstance(error, Fenced):
                    assert self.transaction.state == S.FATAL_ERROR
            else:
                assert before in SOURCES[step]
                return True
            return False

        @invariant()
        def only_what_was_committed_is(self) -> None:
            assert sum(self.coordinator.decided) == self.committed
            if self.transaction.state in (S.READY, S.UNINITIALIZED):
                assert not self.coordinator.open or self.transaction.producer_epoch != self.coordinator.epoch

    run_state_machine_as_test(
        Walk, settings=settings(stateful_step_count=25, suppress_health_check=list(HealthCheck), deadline=None)
    )
