"""A producer's side of a transaction: fence older producers, commit offsets (and records) in it, end it.

    begin           InitProducerId       epoch + 1: every older producer of this transactional id is fenced from here on
    add_offsets     AddOffsetsToTxn      first protocol only
    add_partitions  AddPartitionsToTxn   first protocol only (at most version 3: later ones are for brokers)
    commit_offsets  TxnOffsetCommit      to the *group's* coordinator, all others to the transaction's
    commit, abort   EndTxn

There are two protocols (KIP-98, KIP-890). In the second, TxnOffsetCommit 5+ and Produce 12+ add their group or
partitions implicitly, and EndTxn 5+ bumps the epoch with every transaction and returns the producer id and epoch of the
next one. The cluster's *finalized* `transaction.version` decides which one is used. It is read once, when a transaction
begins, so that an upgrade during a transaction does not mix them.

Which step is possible when: `client.transactions.states`. The state after an error: `client.transactions.outcome`.

A broker accepts a transactional commit by no member even if the group has live members: the caller has to check the
group first (`client.groups.descriptions`), or commit as a member (KIP-447).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, TypeVar

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import CoordinatorKey
from kseg.client.errors import (
    Fenced,
    KafkaError,
    ProtocolFault,
    TransactionError,
    UnsupportedVersion,
    error_from_code,
)
from kseg.client.groups.offsets import NOBODY, CommittedOffset, Committer, in_parts
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse
from kseg.client.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
)
from kseg.client.protocol.partition import TopicPartition, by_topic
from kseg.client.retry import Deadline
from kseg.client.transactions.offset_commit import check_offset_commit, offset_commit_request
from kseg.client.transactions.outcome import is_fatal, shows_no_commit, verify_end
from kseg.client.transactions.producer_identity import TransactionIdentity, by_second_protocol
from kseg.client.transactions.states import StateMachine, TransactionState, TransactionStep

T = TypeVar("T")

_FIRST_WITH_PRODUCER_IDS: Final = 3
NO_PRODUCER_ID: Final = -1
#: How many seconds the abort of an open transaction may delay an exception.
_CLEAN_UP_SECONDS: Final = 5.0

_OPEN: Final = frozenset(
    {
        TransactionState.IN_TRANSACTION,
        TransactionState.COMMITTING,
        TransactionState.ABORTING,
        TransactionState.ABORTABLE_ERROR,
    }
)


class Transaction:
    """One transactional id, one transaction at a time. As a context manager, it aborts what is still open at the end.

    Every method raises Fenced once a newer producer has begun with the same transactional id, and IllegalStep
    (a RuntimeError) for a step that `client.transactions.states` does not allow.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, *, timeout_ms: int | None = None) -> None:
        """`timeout_ms`: when the coordinator aborts an open transaction (None: `transaction.timeout.ms`)."""
        self.transactional_id = transactional_id
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.finalized_features: dict[str, int] = {}
        self.failure: KafkaError | None = None
        self._cluster = cluster
        self._timeout_ms = cluster.config.transaction_timeout_ms if timeout_ms is None else timeout_ms
        self._key: CoordinatorKey = ("transaction", transactional_id)
        self._states = StateMachine()
        self._groups: set[str] = set()
        self._partitions: set[TopicPartition] = set()
        self._at_broker = False
        self._commit_tried = False
        self._sequences_open = False
        self._goes_on = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave(error)

    def leave(self, error: BaseException | None = None, *, timeout: float = _CLEAN_UP_SECONDS) -> None:
        """Abort what is open, within `timeout` seconds; raises an error of the abort unless it follows from `error`.

        A commit whose outcome is unknown is not followed by an abort: the next run's `begin` decides it.
        """
        if self.state not in (
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTABLE_ERROR,
            TransactionState.ABORTING,
        ) or isinstance(error, Fenced):
            return
        try:
            self._end(committed=False, timeout=timeout)
        except Exception:
            if error is None:
                raise  # else the original error says more; the coordinator aborts after the timeout

    @property
    def state(self) -> TransactionState:
        return self._states.state

    @property
    def open(self) -> bool:
        """Whether a transaction has begun and its end is not known."""
        return self.state in _OPEN

    @property
    def identity(self) -> TransactionIdentity:
        """The producer id and epoch for records of the open transaction. Raises IllegalStep if none is open."""
        self.require_open()
        return TransactionIdentity(
            self.transactional_id, self.producer_id, self.producer_epoch, dict(self.finalized_features)
        )

    @property
    def second_protocol(self) -> bool:
        """Whether the transaction uses the second protocol (KIP-890)."""
        return by_second_protocol(self.finalized_features)

    def require_open(self) -> None:
        """Raises the error that has failed the transaction, or IllegalStep if none is open."""
        self._require(TransactionStep.WORK)

    def begin(self) -> None:
        """Take the transactional id over (InitProducerId), which fences older producers, and open a transaction.

        An older producer's open transaction is aborted; one that is being committed is waited for
        (CONCURRENT_TRANSACTIONS is retried). Afterwards none of its offset commits is pending.
        """
        self._initialize(go_on=False)
        self._open()

    def begin_next(self) -> None:
        """Open the next transaction, with the ids that `commit` or `abort` left. Fences no other producer.

        Finishes what these could not: a commit whose outcome is unknown is repeated, so it is committed when this
        returns; an epoch that an abort has requested without a response (KIP-360) is requested again.
        """
        if self.state is TransactionState.COMMITTING:
            self._end(committed=True)
        elif self.state is TransactionState.INITIALIZING and self._goes_on:
            self._initialize(go_on=True)
        self._require(TransactionStep.BEGIN)

        def features(deadline: Deadline) -> dict[str, int]:
            return dict(self._cluster.coordinator(self._key, deadline).versions.finalized_features)

        self.finalized_features = self._cluster.retry(features, coordinator=self._key)
        self._open()

    def add_offsets(self, group: str) -> None:
        """Add the group's offsets to the transaction. `commit_offsets` does it by itself where it is needed."""
        self._require(TransactionStep.WORK)
        if self.second_protocol or group in self._groups:
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group,
        )
        self._at_broker = True
        with self._noting_failures():
            self._cluster.send(
                request,
                coordinator=self._key,
                check=lambda response: self._check(response.error_code, "AddOffsetsToTxn", group=group),
            )
        self._groups.add(group)

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Add partitions to the transaction, before anything is produced to them."""
        self._require(TransactionStep.WORK)
        self._at_broker = True
        new = [tp for tp in partitions if tp not in self._partitions]
        if not new:
            return
        if not self.second_protocol:
            with self._noting_failures():
                self._cluster.send(
                    self._partitions_request(new),
                    coordinator=self._key,
                    check=lambda response: self._check_partitions(response, new),
                )
        self._partitions.update(new)

    def produce_to(self, tp: TopicPartition, append: Callable[[], T]) -> T:
        """Add a partition, and call `append`, which hands over a record for it.

        With the second protocol, the coordinator learns of the partition from the record, so not if `append` raises
        KafkaError: then it would reject the end of a transaction that it does not know.
        """
        known = self._at_broker
        self.add_partitions([tp])
        try:
            return append()
        except KafkaError:
            if self.second_protocol:
                self._at_broker = known
            raise

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], *, committer: Committer = NOBODY
    ) -> None:
        """Commit a group's offsets when, and only if, the transaction commits. Raises OffsetCommitFailed, Fenced.

        committer: the group's member that has read the records (`GroupMember.committer`). If the group has gone on
        without it, the commit fails, and the transaction can only be aborted: other members read the records again.
        Brokers before 2.5 do not check members: UnsupportedVersion.

        Many offsets are sent in several requests (`client.groups.offsets.in_parts`), in the same transaction.
        """
        self._require(TransactionStep.WORK)
        if not offsets:
            return
        self.add_offsets(group)
        self._at_broker = True
        for part in in_parts(group, offsets):
            self._commit_part(group, part, committer)

    def _commit_part(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset], committer: Committer) -> None:
        with self._noting_failures():
            self._cluster.send_built(
                TxnOffsetCommitRequest,
                lambda version: offset_commit_request(version, self.identity, group, offsets, committer),
                coordinator=("group", group),
                check=lambda response: check_offset_commit(response, self.transactional_id, group, offsets),
                finalized_features=self.finalized_features,
            )

    def commit(self) -> None:
        """Commit. Where the state is still Committing after an error, the outcome is unknown: call `commit` again, or
        `begin`, which decides it.
        """
        self._end(committed=True)

    def abort(self) -> None:
        """Abort; without effect if nothing is open. Raises the error that has failed this producer for good, if any."""
        if self.failure is not None and self.state is TransactionState.FATAL_ERROR:
            raise self.failure
        if self.open:
            self._end(committed=False)

    def fail(self, error: KafkaError, *, sequences_open: bool = False) -> None:
        """Records of the open transaction could not be written: from here on it can only be aborted.

        `sequences_open`: the sequence numbers of a partition cannot be continued, so the next transaction needs a
        higher epoch. With the second protocol it has one anyway; with the first, the abort requests it (KIP-360).
        """
        if self.open:
            self._sequences_open = self._sequences_open or sequences_open
            self._take_failure(error, fatal=is_fatal(error) and error.code != ErrorCode.INVALID_PRODUCER_EPOCH)

    def _open(self) -> None:
        self._states.take(TransactionStep.BEGIN)
        self._groups.clear()
        self._partitions.clear()
        self._at_broker = self._commit_tried = False

    def _initialize(self, *, go_on: bool, timeout: float | None = None) -> None:
        """`go_on`: with the current producer id and epoch (KIP-360); fails if another producer has taken over."""
        self._require(TransactionStep.INITIALIZE)
        self._states.take(TransactionStep.INITIALIZE)
        self._goes_on = go_on

        def attempt(deadline: Deadline) -> InitProducerIdResponse:
            connection = self._cluster.coordinator(self._key, deadline)
            self.finalized_features = dict(connection.versions.finalized_features)
            version = connection.version_of(InitProducerIdRequest)
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
            )
            if go_on:
                if version < _FIRST_WITH_PRODUCER_IDS:
                    raise UnsupportedVersion(
                        "the broker is too old to continue after a failed write: create a new producer (KIP-360)",
                        transactional_id=self.transactional_id,
                        broker=connection.label,
                    )
                request.producer_id, request.producer_epoch = self.producer_id, self.producer_epoch
            response = connection.call(request, version, deadline=deadline)
            self._check(response.error_code, "InitProducerId")
            return response

        with self._noting_failures():
            response = self._cluster.retry(attempt, coordinator=self._key, timeout=timeout)
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        self._states.take(TransactionStep.INITIALIZED)
        self.failure = None
        self._sequences_open = False

    def _end(self, *, committed: bool, timeout: float | None = None) -> None:
        step = TransactionStep.COMMIT if committed else TransactionStep.ABORT
        until = None if timeout is None else Deadline.after(timeout)
        self._require(step)
        self._states.take(step)
        if self._at_broker:  # else the coordinator does not know the transaction, and would return an error
            with self._noting_failures():
                self._end_at_broker(committed=committed, timeout=timeout)
        if self._sequences_open and not self.second_protocol and not committed:
            self._initialize(go_on=True, timeout=None if until is None else until.remaining())
        else:
            self._states.take(TransactionStep.ENDED)
        self._sequences_open = False
        self.failure = None

    def _end_at_broker(self, *, committed: bool, timeout: float | None) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        self._commit_tried = self._commit_tried or committed

        def check(response: EndTxnResponse) -> None:
            self._check(response.error_code, "EndTxn")

        def verify(deadline: Deadline) -> EndTxnResponse | None:
            return verify_end(self._cluster, request, second_protocol=self.second_protocol, deadline=deadline)

        try:
            response = self._cluster.send_built(
                EndTxnRequest,
                lambda _: request,
                coordinator=self._key,
                check=check,
                verify=verify,
                finalized_features=self.finalized_features,
                timeout=timeout,
            )
        except TransactionError as error:
            if self._commit_tried or error.code != ErrorCode.INVALID_TXN_STATE:  # it may be committed
                raise
            return  # no partition or group has reached the coordinator: nothing to abort
        if response.producer_id != NO_PRODUCER_ID:  # second protocol: the next transaction's identity
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch

    def _partitions_request(self, partitions: Collection[TopicPartition]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
                    name=topic, partitions=[tp.partition for tp in members]
                )
                for topic, members in by_topic(partitions).items()
            ],
        )

    def _check_partitions(self, response: AddPartitionsToTxnResponse, added: Collection[TopicPartition]) -> None:
        missing = dict.fromkeys(added)
        for topic in response.results_by_topic_v3_and_below:
            for entry in topic.results_by_partition:
                missing.pop(TopicPartition(topic.name, entry.partition_index), None)
                code = entry.partition_error_code
                if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED:  # a consequence of another error
                    self._check(code, "AddPartitionsToTxn", topic=topic.name, partition=entry.partition_index)
        for tp in missing:
            raise ProtocolFault(
                "AddPartitionsToTxn response lacks a requested partition",
                topic=tp.topic,
                partition=tp.partition,
                transactional_id=self.transactional_id,
            )

    def _check(self, code: int, what: str, **address: Any) -> None:
        if code:
            raise error_from_code(code, what, transactional_id=self.transactional_id, **address)

    def _require(self, step: TransactionStep) -> None:
        """If the step is not possible, raises the earlier error that is the reason, or IllegalStep."""
        if self._states.allows(step):
            return
        if self.failure is not None and self.state in (TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR):
            raise self.failure
        self._states.take(step)

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            if not error.retriable and not isinstance(error, ProtocolFault):  # else the outcome is not known
                self._take_failure(error, fatal=is_fatal(error))
            raise

    def _take_failure(self, error: KafkaError, *, fatal: bool) -> None:
        if self.state is TransactionState.COMMITTING and not fatal and not shows_no_commit(error):
            return  # an abort might find it committed
        step = (
            TransactionStep.FAIL
            if not fatal and self._states.allows(TransactionStep.FAIL)
            else TransactionStep.FAIL_FOR_GOOD
        )
        self.failure = error
        self._states.take(step)
