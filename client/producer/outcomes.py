"""Decides what to do with a batch after the leader's response: Java's rules, as one pure function.

The general rule is the error policy of Produce (`client.protocol.error_policy`), with two exceptions for idempotent
producers:

    OUT_OF_ORDER_SEQUENCE_NUMBER  not the first open batch: a consequence of an earlier one, retry after that one
                                  the first open batch: restart with a higher epoch; transactional: failed
    UNKNOWN_PRODUCER_ID           no log start offset in the response: retry
                                  the leader has no state of the producer: restart with a higher epoch; transactional:
                                  count from 0 again if its earlier records have been deleted, else failed
"""

from __future__ import annotations

from enum import Enum

from kseg.client.producer.batch import ProducerBatch
from kseg.client.producer.sequences import Sequences
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import Reaction
from kseg.client.protocol.lookup import reaction

_UNKNOWN = -1
#: Retriable errors of a leader that has appended nothing. After the others, such as a timeout of the replicas or the
#: loss of the leadership, the batch may be in the log.
_NOTHING_APPENDED = frozenset(
    {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CORRUPT_MESSAGE, ErrorCode.CONCURRENT_TRANSACTIONS}
)


class BatchDecision(Enum):
    """A decision on a batch."""

    APPENDED = "its records are in the log"
    RETRY = "send it again after a pause"
    RETRY_IN_ORDER = "send it again when the batches before it are done"
    RESTART = "count the partition's sequences from 0 under a higher epoch, and send it again"
    RECOUNT = "count the partition's sequences from 0 under the same epoch, and send it again"
    SPLIT = "send its halves"
    FAILED = "fail its deliveries"


def may_be_appended(code: int) -> bool:
    """Whether the batch may be in the log after a response with this code."""
    known = ErrorCode.of(code)
    if not isinstance(known, ErrorCode) or known in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR):
        return True
    kind = reaction("Produce", known)
    return kind is Reaction.DONE or (kind.retriable and known not in _NOTHING_APPENDED)


def outcome_of(
    code: int,
    batch: ProducerBatch,
    sequences: Sequences | None,
    *,
    transactional: bool,
    log_start_offset: int,
    retries: int,
) -> BatchDecision:
    """`sequences`: the partition's, None for a producer that is not idempotent. `retries`: how many are left."""
    kind = reaction("Produce", code) if code else Reaction.DONE
    if kind is Reaction.DONE:
        return BatchDecision.APPENDED
    if kind is Reaction.SPLIT:
        return BatchDecision.SPLIT if batch.count > 1 else BatchDecision.FAILED
    if sequences is not None and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        if not sequences.is_first(batch):
            return BatchDecision.RETRY_IN_ORDER
        return BatchDecision.FAILED if transactional else BatchDecision.RESTART
    if sequences is not None and code == ErrorCode.UNKNOWN_PRODUCER_ID:
        if log_start_offset == _UNKNOWN:
            return BatchDecision.RETRY
        if not transactional:
            return BatchDecision.RESTART if sequences.is_first(batch) else BatchDecision.RETRY_IN_ORDER
        return BatchDecision.RECOUNT if sequences.last_offset < log_start_offset else BatchDecision.FAILED
    return BatchDecision.RETRY if kind.retriable and retries > 0 else BatchDecision.FAILED
