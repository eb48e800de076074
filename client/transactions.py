"""A transaction, seen from its producer: fence older producers, commit offsets (and records) in it, end it.

    begin           InitProducerId       epoch + 1: every older producer of this transactional id is fenced from here on
    add_offsets     AddOffsetsToTxn      first protocol only
    add_partitions  AddPartitionsToTxn   first protocol only (at most version 3: later ones are for brokers)
    commit_offsets  TxnOffsetCommit      to the *group's* coordinator, all else to the transaction's
    commit, abort   EndTxn

There are two protocols (KIP-98, KIP-890). In the second, TxnOffsetCommit 5+ and Produce 12+ add their group or
partition by themselves, and EndTxn 5+ bumps the epoch with every transaction and tells the ids for the next one.
Which one holds is the cluster's *finalized* `transaction.version`, read once when a transaction begins, so that an
upgrade in the middle of one does not mix them.

A broker takes a transactional commit with an empty member id also for a group that has live members: who commits has
to look at the group first (`client.groups`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import TracebackType
from typing import Any, Final

from client.cluster import Cluster, CoordinatorKey
from client.errors import Code, Fenced, TransactionError, error_from_code
from client.offsets import CommittedOffset, by_topic, raise_commit_failed
from client.partition import TopicPartition
from client.protocol import ErrorCode
from client.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from client.protocol.versions import TRANSACTION_VERSION
from client.retry import Deadline

_SECOND_PROTOCOL: Final = 2
NO_PRODUCER_ID: Final = -1
#: How long an error on its way out may be held up by aborting what it leaves behind.
_CLEAN_UP_SECONDS: Final = 5.0

#: Codes of a single partition that speak about the transaction, not about the partition.
_TRANSACTION_IS_OVER: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)


class Transaction:
    """One transactional id, one transaction at a time. Leaving it as a context manager on an error aborts it.

    Every method raises Fenced once a newer producer has begun with the same transactional id.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, *, timeout_ms: int | None = None) -> None:
        """`timeout_ms`: after how long the coordinator aborts by itself (`transaction.timeout.ms` if None)."""
        self.transactional_id = transactional_id
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.open = False
        self.finalized_features: dict[str, int] = {}
        self._cluster = cluster
        self._timeout_ms = cluster.config.transaction_timeout_ms if timeout_ms is None else timeout_ms
        self._key: CoordinatorKey = ("transaction", transactional_id)
        self._groups: set[str] = set()
        self._partitions: set[TopicPartition] = set()
        self._at_broker = False

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.open or isinstance(error, Fenced):
            return
        try:
            self._end(committed=False, timeout=_CLEAN_UP_SECONDS)
        except Exception:
            if error is None:
                raise  # else the error that brought us here says more; the coordinator aborts after the timeout

    @property
    def second_protocol(self) -> bool:
        """Whether the transaction runs by KIP-890's protocol."""
        return self.finalized_features.get(TRANSACTION_VERSION, 0) >= _SECOND_PROTOCOL

    def begin(self) -> None:
        """Take the transactional id over (InitProducerId) and open a transaction.

        What an older producer left open is aborted, what it is about to commit is waited for (CONCURRENT_TRANSACTIONS
        is tried again): afterwards the group's committed offsets are decided.
        """

        def attempt(deadline: Deadline) -> InitProducerIdResponse:
            connection = self._cluster.coordinator(self._key, deadline)
            self.finalized_features = dict(connection.versions.finalized_features)
            request = InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
            )
            response = connection.call(request, connection.version_of(InitProducerIdRequest), deadline=deadline)
            self._check(response.error_code, "InitProducerId")
            return response

        response = self._cluster.retry(attempt, coordinator=self._key)
        self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch
        self._open()

    def begin_next(self) -> None:
        """Open another transaction after `commit` or `abort`, with the ids that it left. Fences nobody."""
        if self.open or self.producer_id == NO_PRODUCER_ID:
            raise RuntimeError("begin_next() needs a transaction that has ended")

        def features(deadline: Deadline) -> dict[str, int]:
            return dict(self._cluster.coordinator(self._key, deadline).versions.finalized_features)

        self.finalized_features = self._cluster.retry(features, coordinator=self._key)
        self._open()

    def add_offsets(self, group: str) -> None:
        """Make the group's offsets part of the transaction. `commit_offsets` does it by itself where it is needed."""
        self._require_open()
        if self.second_protocol or group in self._groups:
            return
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            group_id=group,
        )
        self._at_broker = True
        self._cluster.send(
            request, coordinator=self._key, check=lambda response: self._check(response.error_code, "AddOffsetsToTxn")
        )
        self._groups.add(group)

    def add_partitions(self, partitions: Collection[TopicPartition]) -> None:
        """Make partitions part of the transaction, before anything is produced to them."""
        self._require_open()
        self._at_broker = True
        new = [tp for tp in partitions if tp not in self._partitions]
        if self.second_protocol or not new:
            return
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
                    name=topic, partitions=[tp.partition for tp in members]
                )
                for topic, members in by_topic(new).items()
            ],
        )
        self._cluster.send(request, coordinator=self._key, check=self._check_partitions)
        self._partitions.update(new)

    def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit a group's offsets when, and only if, the transaction commits. Raises OffsetCommitFailed, Fenced."""
        self._require_open()
        if not offsets:
            return
        self.add_offsets(group)
        self._at_broker = True
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                            partition_index=tp.partition,
                            committed_offset=offsets[tp].offset,
                            committed_leader_epoch=offsets[tp].leader_epoch,
                            committed_metadata=offsets[tp].metadata,
                        )
                        for tp in members
                    ],
                )
                for topic, members in by_topic(offsets).items()
            ],
        )

        def check(response: TxnOffsetCommitResponse) -> None:
            failed: dict[TopicPartition, Code] = {}
            for topic in response.topics:
                for entry in topic.partitions:
                    if entry.error_code in _TRANSACTION_IS_OVER:
                        self._check(entry.error_code, "TxnOffsetCommit", group=group)
                    if entry.error_code:
                        failed[TopicPartition(topic.name, entry.partition_index)] = ErrorCode.of(entry.error_code)
            raise_commit_failed("TxnOffsetCommit", group, failed)

        self._cluster.send_built(
            TxnOffsetCommitRequest,
            lambda _: request,
            coordinator=("group", group),
            check=check,
            finalized_features=self.finalized_features,
        )

    def commit(self) -> None:
        """Commit. After a retriable error the outcome is open: `begin` waits for it to be decided."""
        self._end(committed=True)

    def abort(self) -> None:
        """Abort; without effect if nothing is open."""
        if self.open:
            self._end(committed=False)

    def _open(self) -> None:
        self._groups.clear()
        self._partitions.clear()
        self._at_broker = False
        self.open = True

    def _end(self, *, committed: bool, timeout: float | None = None) -> None:
        self._require_open()
        if not self._at_broker:
            self.open = False  # the coordinator has never heard of it, and would say that there is none
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )

        def check(response: EndTxnResponse) -> None:
            self._check(response.error_code, "EndTxn")

        try:
            response = self._cluster.send_built(
                EndTxnRequest,
                lambda _: request,
                coordinator=self._key,
                check=check,
                finalized_features=self.finalized_features,
                timeout=timeout,
            )
        except TransactionError as error:
            if committed or error.code != ErrorCode.INVALID_TXN_STATE:
                raise
            # What was to be part of the transaction never arrived, so there is nothing to abort.
            self.open = False
            return
        self.open = False
        if response.producer_id != NO_PRODUCER_ID:  # the second protocol's answer: the next transaction's identity
            self.producer_id, self.producer_epoch = response.producer_id, response.producer_epoch

    def _check_partitions(self, response: AddPartitionsToTxnResponse) -> None:
        for topic in response.results_by_topic_v3_and_below:
            for entry in topic.results_by_partition:
                code = entry.partition_error_code
                if code and code != ErrorCode.OPERATION_NOT_ATTEMPTED:  # that one only follows from another's error
                    self._check(code, "AddPartitionsToTxn", topic=topic.name, partition=entry.partition_index)

    def _check(self, code: int, what: str, **address: Any) -> None:
        if code:
            raise error_from_code(code, what, transactional_id=self.transactional_id, **address)

    def _require_open(self) -> None:
        if not self.open:
            raise RuntimeError("no transaction is open: call begin() first")


def init_producer_id(cluster: Cluster) -> tuple[int, int]:
    """Producer id and epoch for an idempotent producer without transactions; any broker gives them out."""

    def check(response: InitProducerIdResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "InitProducerId")

    response = cluster.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1), check=check)
    return response.producer_id, response.producer_epoch
