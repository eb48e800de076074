"""Everything that can go wrong between this client and a cluster.

    KafkaError
    ├── ConfigError             properties that are unknown or have a bad value; all faults at once
    ├── BrokerUnavailable       no connection to be had, or it broke                            retriable
    │   └── RebootstrapRequired the cluster asks its clients to start over from the given list  retriable
    ├── RequestTimedOut         connected, but no answer in time                                retriable
    │   ├── DeliveryTimedOut    a record was not acknowledged within `delivery.timeout.ms`
    │   └── BufferExhausted     a producer's memory stayed full for `max.block.ms`              retriable
    ├── ProtocolFault           the peer's bytes are no answer to what was asked
    ├── SomeBrokersFailed       of a request to every broker: `.errors`, `.answers`               if all of them are
    ├── OutcomeUnknown          the connection was lost before the answer came, and the request may have been done
    ├── RequestTooLarge         larger than a broker takes; not sent
    ├── UnsupportedVersion      no version that both sides speak can carry the request
    ├── AuthenticationFailed    TLS or SASL: one side rejects the other's identity
    ├── AuthorizationFailed     the cluster knows us and says no
    ├── UnknownTopic            topic, topic id or partition does not exist (or not yet)        as its code says
    ├── LeaderNotAvailable      the partition has no leader right now                           retriable
    ├── OffsetOutOfRange        the offset lies outside the partition's log
    ├── MessageCutShort         an old broker sends a message larger than the largest fetch only in part
    ├── LogTruncated            the log has not the record any more that came before the offset, but another one
    ├── TopicExists             a topic of that name is there already
    ├── RecordTooLarge          a record is larger than producer or topic allow
    ├── InvalidRecord           the broker rejects records of a batch: `.record_errors`
    ├── NotEnoughReplicas       too few replicas are in sync for acks=all                       retriable
    ├── SequenceLost            the leader misses records that this producer wrote before
    ├── GroupError              an error of a group's coordinator                       as its code says
    │   └── OffsetCommitFailed  …some partitions of a commit: `.partitions`
    ├── TransactionError        an error of a transaction coordinator                           as its code says
    │   └── Fenced              a newer producer holds the transactional id
    ├── SchemaRegistryError     a schema registry, in `client.registry.errors`
    │   ├── RegistryUnavailable it cannot be reached, or fails                                  retriable
    │   ├── RegistryRejected    it does not know us, or we may not
    │   └── SchemaNotFound      it does not have the id, subject or version
    └── BrokerError             any other error code in an answer                               as its code says

What to do about an error code of which API: `client.protocol.error_policy`; an error made from a code has it as
`reaction`. `retriable` says whether the same operation may succeed when it is simply tried again. An operation of this
client that raises a retriable error has already tried again up to its deadline (`client.cluster.retry`). Every error
carries its address (topic, partition, group, broker …) where it has one, and survives pickling: errors cross worker
processes.

Error codes and which of them are retriable: https://kafka.apache.org/protocol#protocol_error_codes
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kseg.client.protocol.error_codes import ErrorCode, UnknownErrorCode
from kseg.client.protocol.error_policy import Reaction, reaction_by_code
from kseg.client.protocol.lookup import permission_lacking
from kseg.client.protocol.lookup import reaction as reaction_to
from kseg.client.protocol.permissions import Permission
from kseg.client.protocol.printable import printable

if TYPE_CHECKING:
    from kseg.client.protocol.partition import TopicPartition

Code = ErrorCode | UnknownErrorCode


class KafkaError(Exception):
    """Base of all; see the module for the tree.

    Attributes: `retriable`; `code` (the error code in the answer, where there was one) with the `reaction` to it;
    `sent` (the broker may have carried the request out: it was written, and no answer came); `learnt` (what it says of
    the cluster is known by now); and the address: `topic`, `partition`, `group`, `transactional_id`, `broker` (as
    "host:port" or "id (host:port)"), and `resource` for what is none of these ("user alice" …).
    """

    retriable: bool = False
    sent: bool = False
    learnt: bool = False

    def __init__(
        self,
        message: str,
        *,
        code: Code | None = None,
        reaction: Reaction | None = None,
        retriable: bool | None = None,
        topic: str | None = None,
        partition: int | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        broker: str | None = None,
        resource: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reaction = reaction_by_code(code) if reaction is None and code is not None else reaction
        self.topic = topic
        self.partition = partition
        self.group = group
        self.transactional_id = transactional_id
        self.broker = broker
        self.resource = resource
        if retriable is not None:
            self.retriable = retriable

    def __str__(self) -> str:
        names = ("topic", "partition", "group", "transactional_id", "resource", "broker")
        address = ", ".join(f"{name}={value}" for name in names if (value := getattr(self, name)) is not None)
        # A peer's names are in both; lines are ours.
        message = printable(self.message, keep="\n")
        return f"{message} [{printable(address)}]" if address else message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own __reduce__ calls the class with `args` alone, which loses every keyword.
        return _restore, (type(self), self.args, self.__dict__.copy())


def _restore(cls: type[KafkaError], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """One fault of a configuration: which property, what is wrong, what to do."""

    key: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.message} ({self.remedy})"


class ConfigError(KafkaError):
    """Client properties that cannot be used. `faults` has all of them, never a secret's value."""

    def __init__(self, faults: Sequence[ConfigFault]) -> None:
        self.faults = tuple(faults)
        lines = "; ".join(str(fault) for fault in self.faults)
        super().__init__(f"bad client configuration: {lines}")


class BrokerUnavailable(KafkaError):
    """No broker at that address, or the connection to it broke. reason: why no connection was made, where all of the
    host's addresses failed alike."""

    retriable = True
    reason: str | None = None


class RebootstrapRequired(BrokerUnavailable):
    """Error code 129: what we know of the cluster is worthless, start over from `bootstrap.servers` (KIP-1102)."""


class RequestTimedOut(KafkaError):
    """The broker is connected but did not answer in time. Whether it did the work is unknown."""

    retriable = True


class ProtocolFault(KafkaError):
    """The peer sent bytes that are no answer to what was asked. The connection they came over is closed."""


class SomeBrokersFailed(KafkaError):
    """A request to every broker: `errors` of those that failed, `answers` of the others, both by broker id."""

    def __init__(
        self, message: str, *, errors: Mapping[int, KafkaError], answers: Mapping[int, Any], **address: Any
    ) -> None:
        super().__init__(message, **address)
        self.errors = dict(errors)
        self.answers = dict(answers)
        self.retriable = all(error.retriable for error in self.errors.values())


class OutcomeUnknown(KafkaError):
    """The connection was lost after the request was written, and sending it again might do it twice.

    Whether it was done is to be found out by asking, for example whether the topic is there. The error before it is
    its cause.
    """


class RequestTooLarge(KafkaError):
    """The request is larger than a broker takes. It was not sent."""


class UnsupportedVersion(KafkaError):
    """Broker and client have no common version of an API, or none that can carry what was asked."""


class AuthenticationFailed(KafkaError):
    """TLS or SASL failed: wrong password, a certificate that is not trusted, no mechanism that both have …

    Not retriable, unless what failed is a login service that may be back soon.
    """


class AuthorizationFailed(KafkaError):
    """The principal may not do this. `lacking`: the operation on the resource that it is about, where that is known."""

    def __init__(self, message: str, *, lacking: Permission | None = None, **address: Any) -> None:
        super().__init__(message, **address)
        self.lacking = lacking


class UnknownTopic(KafkaError):
    """Topic, topic id or partition is unknown to the cluster."""


class LeaderNotAvailable(KafkaError):
    """The partition has no leader (leader -1), or its leader is not among the listed brokers."""

    retriable = True


class DeliveryTimedOut(RequestTimedOut):
    """A batch was not acknowledged within `delivery.timeout.ms`. `sent`: it may have been appended nevertheless."""

    retriable = False

    def __init__(self, message: str, *, sent: bool = False, **address: Any) -> None:
        super().__init__(message, **address)
        self.sent = sent


class BufferExhausted(RequestTimedOut):
    """A producer's `buffer.memory` stayed full for `max.block.ms`: records come in faster than they go out."""


class RecordTooLarge(KafkaError):
    """A record is larger than `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`."""


class InvalidRecord(KafkaError):
    """The broker rejects a batch because of its records. `record_errors`: its reasons by the record's number there."""

    def __init__(self, message: str, *, record_errors: Mapping[int, str] | None = None, **address: Any) -> None:
        super().__init__(message, **address)
        self.record_errors = dict(record_errors or {})


class NotEnoughReplicas(KafkaError):
    """Fewer replicas are in sync than `min.insync.replicas` asks for."""


class SequenceLost(KafkaError):
    """The leader does not have what this producer wrote before, or has it without its sequence numbers."""


class OffsetOutOfRange(KafkaError):
    """A fetch offset outside the partition's log: below `log_start` or above `high_watermark` (-1: not known)."""

    def __init__(self, message: str, *, offset: int, log_start: int, high_watermark: int, **address: Any) -> None:
        super().__init__(message, **address)
        self.offset = offset
        self.log_start = log_start
        self.high_watermark = high_watermark


class MessageCutShort(KafkaError):
    """A broker before 0.10.1 holds a message of `size` bytes, from `offset` on, that no fetch of ours can get whole."""

    def __init__(self, message: str, *, offset: int, size: int, **address: Any) -> None:
        super().__init__(message, **address)
        self.offset = offset
        self.size = size


class LogTruncated(KafkaError):
    """What was read last is not in the leader's log any more: an unclean election, or a lagging leader (KIP-320).

    The log is the reader's up to `end_offset`, where the leader's `epoch` ended; from there on it is another one.
    """

    def __init__(self, message: str, *, offset: int, epoch: int, end_offset: int, **address: Any) -> None:
        super().__init__(message, **address)
        self.offset = offset
        self.epoch = epoch
        self.end_offset = end_offset


class TopicExists(KafkaError):
    """A topic of that name exists already."""


class GroupError(KafkaError):
    """An error of the group's coordinator: members are live, the generation is old, the group is unknown …"""


class OffsetCommitFailed(GroupError):
    """Some or all partitions of an offset commit failed: `partitions` maps each to its error code.

    `lacking`: what the principal may not do, where that was the reason.
    """

    def __init__(
        self,
        message: str,
        *,
        partitions: Mapping[TopicPartition, Code],
        lacking: Permission | None = None,
        **address: Any,
    ) -> None:
        super().__init__(message, **address)
        self.partitions = dict(partitions)
        self.lacking = lacking


class TransactionError(KafkaError):
    """The transaction cannot go on. `abortable`: abort it, then a new one may be begun."""

    abortable: bool = False


class Fenced(TransactionError):
    """A newer producer holds the transactional id (or the coordinator has forgotten ours). Trying again is useless."""


class BrokerError(KafkaError):
    """An error code without a class of its own."""


_CLASSES: dict[int, type[KafkaError]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: UnknownTopic,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopic,
    ErrorCode.INCONSISTENT_TOPIC_ID: UnknownTopic,
    ErrorCode.LEADER_NOT_AVAILABLE: LeaderNotAvailable,
    ErrorCode.REQUEST_TIMED_OUT: RequestTimedOut,
    ErrorCode.UNSUPPORTED_VERSION: UnsupportedVersion,
    ErrorCode.REBOOTSTRAP_REQUIRED: RebootstrapRequired,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationFailed,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationFailed,
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationFailed,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicExists,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLarge,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLarge,
    ErrorCode.INVALID_TIMESTAMP: InvalidRecord,
    ErrorCode.INVALID_RECORD: InvalidRecord,
    ErrorCode.NOT_ENOUGH_REPLICAS: NotEnoughReplicas,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: NotEnoughReplicas,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: SequenceLost,
    ErrorCode.UNKNOWN_PRODUCER_ID: SequenceLost,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.ILLEGAL_GENERATION: GroupError,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: GroupError,
    ErrorCode.INVALID_SESSION_TIMEOUT: GroupError,
    ErrorCode.MEMBER_ID_REQUIRED: GroupError,
    ErrorCode.GROUP_MAX_SIZE_REACHED: GroupError,
    ErrorCode.UNRELEASED_INSTANCE_ID: GroupError,
    ErrorCode.UNSUPPORTED_ASSIGNOR: GroupError,
    ErrorCode.INVALID_REGULAR_EXPRESSION: GroupError,
    ErrorCode.UNKNOWN_MEMBER_ID: GroupError,
    ErrorCode.REBALANCE_IN_PROGRESS: GroupError,
    ErrorCode.INVALID_GROUP_ID: GroupError,
    ErrorCode.NON_EMPTY_GROUP: GroupError,
    ErrorCode.GROUP_ID_NOT_FOUND: GroupError,
    ErrorCode.FENCED_INSTANCE_ID: GroupError,
    ErrorCode.FENCED_MEMBER_EPOCH: GroupError,
    ErrorCode.STALE_MEMBER_EPOCH: GroupError,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: GroupError,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: GroupError,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: GroupError,
    ErrorCode.INVALID_PRODUCER_EPOCH: Fenced,
    ErrorCode.PRODUCER_FENCED: Fenced,
    # The id's mapping expired or was taken over: like a fence, only a new InitProducerId helps.
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Fenced,
    ErrorCode.INVALID_TXN_STATE: TransactionError,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: TransactionError,
    ErrorCode.CONCURRENT_TRANSACTIONS: TransactionError,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: TransactionError,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionError,
}


def error_from_code(code: int, what: str, *, detail: str | None = None, **address: Any) -> KafkaError:
    """The error for an answer's non-zero code, retriable as the table of reactions says.

    `what`: the API's name, or other words for what was being done; `detail`: the broker's own words.
    """
    known = ErrorCode.of(code)
    cls = _CLASSES.get(int(code), BrokerError)
    words = detail or known.message
    lacking = permission_lacking(
        code, what, **{name: address.get(name) for name in ("topic", "group", "transactional_id")}
    )
    if lacking is not None:
        words += f"; lacking: {lacking} ({lacking.remedy})"
        address["lacking"] = lacking
    kind = reaction_to(what, known)
    error = cls(
        f"{what}: {known.name} ({int(code)}): {words}", code=known, reaction=kind, retriable=kind.retriable, **address
    )
    if isinstance(error, TransactionError):
        error.abortable = code == ErrorCode.TRANSACTION_ABORTABLE
    return error
