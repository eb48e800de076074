"""Whether a transaction has ended, when the answer to its EndTxn was lost.

Under the second protocol (KIP-890) the repeated request is itself the question: its coordinator knows it by the epoch,
and answers with the ids for the next transaction. Under the first one DescribeTransactions (65, brokers from 3.0 on)
has the state. Only the wanted end, of a transaction of this producer id and epoch, is trusted: the repeated request
reports everything else more exactly. Another id or epoch is another producer's transaction under the same transactional
id: a newer one may have committed its own, after it had ours aborted.
"""

from __future__ import annotations

from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.retry import Deadline
from kseg.client.errors import error_from_code
from kseg.client.protocol.lookup import reaction
from kseg.client.protocol.messages.transactions import DescribeTransactionsRequest, EndTxnRequest, EndTxnResponse

_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})


def verify_end(
    cluster: Cluster, request: EndTxnRequest, *, second_protocol: bool, deadline: Deadline
) -> EndTxnResponse | None:
    """The answer to `request` that was lost, or None: the end may be, and is to be, asked for again."""
    # An abort that is repeated changes nothing; and the last transaction may have been aborted too.
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
