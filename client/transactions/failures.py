"""The state of a transaction after an error.

    unchanged        retriable: the operation was retried until its deadline, and may be called again
    AbortableError   TRANSACTION_ABORTABLE; a topic or group is not authorized; offsets are rejected
    FatalError       fenced; the transactional id or the cluster is not authorized; the broker is too old; the
                     coordinator's state contradicts ours

During a commit, only TRANSACTION_ABORTABLE leads to AbortableError. After other errors that are not fatal, such as a
failed login, the state is unchanged: an earlier try may have been executed, with its response lost.
"""

from __future__ import annotations

from typing import Final

from kseg.client.errors import AuthorizationFailed, KafkaError, TransactionError, UnsupportedVersion
from kseg.client.protocol.error_codes import ErrorCode

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
