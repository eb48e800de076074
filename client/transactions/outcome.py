"""The outcome of a transaction: after a lost response to its EndTxn, and after an error.

If the response to EndTxn was lost, it is unknown whether the transaction was committed. With the second protocol
(KIP-890), EndTxn is sent again: the coordinator recognizes it by the epoch, and returns the producer id and epoch of
the next transaction. With the first one, DescribeTransactions (65, brokers from 3.0 on) returns the state. Only a
commit by this producer id and epoch is trusted: in all other cases EndTxn is sent again, and its response is more
exact. Another id or epoch belongs to another producer with the same transactional id: a newer one may have committed
its own transaction, after ours was aborted.

After an error, the state of a transaction is:

    unchanged        retriable: the operation was retried until its deadline, and may be called again
    AbortableError   TRANSACTION_ABORTABLE; a topic or group is not authorized; offsets are rejected
    FatalError       fenced; the transactional id or the cluster is not authorized; the broker is too old; the
                     coordinator's state contradicts ours

During a commit, only TRANSACTION_ABORTABLE leads to AbortableError. After other errors that are not fatal, such as a
failed login, the state is unchanged: an earlier try may have been executed, with its response lost.
"""

from __future__ import annotations

from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import AuthorizationFailed, KafkaError, TransactionError, UnsupportedVersion, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.lookup import reaction
from kseg.client.protocol.messages.transactions import DescribeTransactionsRequest, EndTxnRequest, EndTxnResponse
from kseg.client.retry import Deadline

_FATAL_CODES: Final = frozenset(
    {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
)


def is_fatal(error: KafkaError) -> bool:
    """Whether not even an abort is possible: the id is not ours (any more), or the coordinator's state differs."""
    if isinstance(error, TransactionError):
        return not error.abortable
    if isinstance(error, AuthorizationFailed):
        return error.code in _FATAL_CODES
    return isinstance(error, UnsupportedVersion)


def shows_no_commit(error: KafkaError) -> bool:
    """Whether nothing was committed if an EndTxn failed with this error, nor by an earlier try of it."""
    return error.code == ErrorCode.TRANSACTION_ABORTABLE


_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})


def verify_end(
    cluster: Cluster, request: EndTxnRequest, *, second_protocol: bool, deadline: Deadline
) -> EndTxnResponse | None:
    """The lost response to `request`, or None: send the request again."""
    # Repeating an abort changes nothing; and an abort in the state may be the previous transaction's.
    if second_protocol or not request.committed:
        return None
    transactional_id, producer = request.transactional_id, (request.producer_id, request.producer_epoch)
    connection = cluster.coordinator(("transaction", transactional_id), deadline)
    if not connection.offers(DescribeTransactionsRequest):
        return None
    question = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    response = connection.call(question, connection.version_of(DescribeTransactionsRequest), deadline=deadline)
    for state in response.transaction_states:
        if state.transactional_id != transactional_id:
            continue
        if state.error_code and reaction("DescribeTransactions", state.error_code).retriable:
            raise error_from_code(state.error_code, "DescribeTransactions", transactional_id=transactional_id)
        ours = (state.producer_id, state.producer_epoch) == producer
        if not state.error_code and ours and state.transaction_state in _COMMITTED:
            return EndTxnResponse()
    return None
