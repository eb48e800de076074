"""Errors of this client.

    KafkaError
    ├── ConfigError             unknown or invalid properties; all errors at once
    ├── BrokerUnavailable       the connection failed or broke                                  retriable
    │   └── RebootstrapRequired the client must start again from the bootstrap servers          retriable
    ├── RequestTimedOut         connected, but no response in time                              retriable
    │   ├── DeliveryTimedOut    a record was not acknowledged within `delivery.timeout.ms`
    │   └── BufferExhausted     a producer's memory stayed full for `max.block.ms`              retriable
    ├── ProtocolFault           the peer's bytes are not a valid response to the request
    ├── SomeBrokersFailed       a request to all brokers failed at some: `.errors`, `.answers`  if all errors are
    ├── OutcomeUnknown          the connection was lost before the response; the request may have been executed
    ├── RequestTooLarge         larger than a broker accepts; not sent
    ├── UnsupportedVersion      no version that both sides support has the request's fields
    ├── AuthenticationFailed    TLS or SASL: one side rejects the other's identity
    ├── AuthorizationFailed     the principal is not allowed to do this
    ├── UnknownTopic            topic, topic id or partition does not exist (or not yet)        depends on the code
    ├── LeaderNotAvailable      the partition has no leader at the moment                       retriable
    ├── OffsetOutOfRange        the offset is outside the partition's log
    ├── MessageCutShort         an old broker sends only a part of a message that exceeds the largest fetch
    ├── LogTruncated            the record before the offset was replaced by another record
    ├── TopicExists             a topic of that name already exists
    ├── RecordTooLarge          a record is larger than producer or topic allow
    ├── InvalidRecord           the broker rejects records of a batch: `.record_errors`
    ├── NotEnoughReplicas       too few replicas are in sync for acks=all                       retriable
    ├── SequenceLost            the leader misses records that this producer wrote before
    ├── GroupError              an error of a group's coordinator                               depends on the code
    │   └── OffsetCommitFailed  partitions of an offset commit failed: `.partitions`
    ├── TransactionError        an error of a transaction coordinator                           depends on the code
    │   └── Fenced              a newer producer has the transactional id
    ├── SchemaRegistryError     an error of a schema registry, in `client.registry.errors`
    │   ├── RegistryUnavailable the registry cannot be reached, or fails                        retriable
    │   │   └── VersionPending  AWS Glue is still checking a schema version                     retriable
    │   ├── RegistryRejected    the registry rejects the credentials or the permission
    │   │   └── AwsRejected     AWS does, or there are no credentials
    │   └── SchemaNotFound      the registry does not have the id, subject or version
    └── BrokerError             any other error code in a response                              depends on the code

`client.protocol.error_policy` has the reaction to each error code of each API; an error made from a code has it as
`reaction`. `retriable` shows whether the same operation may succeed if it is repeated. An operation that raises a
retriable error has already been repeated until its deadline (`client.retry`). Errors have their address (topic,
partition, group, broker …) if there is one. They can be pickled, because workers send them to the driver.

Error codes, and which of them are retriable: https://kafka.apache.org/protocol#protocol_error_codes
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
    """Base class of all errors; the module's docstring has the tree.

    Attributes: `retriable`; `code` (the error code in the response, if there was one) with the `reaction` to it;
    `sent` (the request was written without a response, so the broker may have executed it); `learnt` (the metadata
    has already been updated from this error); `setting` (of this client or of the brokers: it has to change, as a
    second fact proves, and no retry can help) with the `remedy`; and the address: `topic`, `partition`, `group`,
    `transactional_id`, `broker` ("host:port" or "id (host:port)"), and `resource` for anything else ("user alice"
    …).
    """

    retriable: bool = False
    sent: bool = False
    learnt: bool = False
    setting: str | None = None
    remedy: str | None = None

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
        # Message and address may contain names from a peer; only our own messages have line breaks.
        message = printable(self.message, keep="\n")
        return f"{message} [{printable(address)}]" if address else message

    def blame(self, setting: str, remedy: str) -> None:
        """Say that this setting has to change: a second fact proves that no retry can help."""
        self.setting, self.remedy, self.retriable = setting, remedy, False

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception.__reduce__ calls the class only with `args`, without the keyword arguments.
        return _restore, (type(self), self.args, self.__dict__.copy())


def _restore(cls: type[KafkaError], args: tuple[Any, ...], state: dict[str, Any]) -> KafkaError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """One error of a configuration: the property, the error, and the remedy.

    option: which option of a login module in `sasl.jaas.config` it is about, from 1; 0 for none. The text has only the
    option's number, because what is taken for a name may be a part of a secret.
    """

    key: str
    message: str
    remedy: str
    option: int = 0

    def __str__(self) -> str:
        return f"{self.key}: {self.message} ({self.remedy})"


class ConfigError(KafkaError):
    """Invalid client properties. `faults` has all errors, and never a secret's value."""

    def __init__(self, faults: Sequence[ConfigFault]) -> None:
        self.faults = tuple(faults)
        lines = "; ".join(str(fault) for fault in self.faults)
        super().__init__(f"bad client configuration: {lines}")


class BrokerUnavailable(KafkaError):
    """There is no broker at that address, or the connection broke.

    reason: why no connection was made, if all of the host's addresses failed for the same reason.
    advertised: where brokers could not be reached that other brokers list; unknown_hosts: names that do not exist.
    """

    retriable = True
    reason: str | None = None
    advertised: tuple[tuple[str, int], ...] = ()
    unknown_hosts: frozenset[str] = frozenset()


class RebootstrapRequired(BrokerUnavailable):
    """Error code 129: discard all metadata, and start again from `bootstrap.servers` (KIP-1102)."""


class RequestTimedOut(KafkaError):
    """The broker is connected but did not respond in time. It may have executed the request."""

    retriable = True


class ProtocolFault(KafkaError):
    """The peer sent bytes that are not a valid response to the request. The connection is closed."""


class SomeBrokersFailed(KafkaError):
    """A request to all brokers failed at some of them. Both by broker id: `errors`, and `answers` of the others."""

    def __init__(
        self, message: str, *, errors: Mapping[int, KafkaError], answers: Mapping[int, Any], **address: Any
    ) -> None:
        super().__init__(message, **address)
        self.errors = dict(errors)
        self.answers = dict(answers)
        self.retriable = all(error.retriable for error in self.errors.values())


class OutcomeUnknown(KafkaError):
    """The connection was lost after the request was written, and a repetition might execute it twice.

    The caller must find out whether the request was executed, for example whether the topic exists. The original error
    is the cause (`__cause__`).
    """


class RequestTooLarge(KafkaError):
    """The request is larger than a broker accepts. It was not sent."""


class UnsupportedVersion(KafkaError):
    """Broker and client have no common version of an API, or none that has all fields of the request."""


class AuthenticationFailed(KafkaError):
    """TLS or SASL failed: a wrong password, a certificate that is not trusted, no common mechanism …

    Not retriable, unless a login service failed temporarily.
    """


class AuthorizationFailed(KafkaError):
    """The principal lacks a permission. `lacking`: the operation and the resource, if they are known."""

    def __init__(self, message: str, *, lacking: Permission | None = None, **address: Any) -> None:
        super().__init__(message, **address)
        self.lacking = lacking


class UnknownTopic(KafkaError):
    """Topic, topic id or partition is unknown to the cluster."""


class LeaderNotAvailable(KafkaError):
    """The partition has no leader (leader -1), or its leader is not among the listed brokers."""

    retriable = True


class DeliveryTimedOut(RequestTimedOut):
    """A batch was not acknowledged within `delivery.timeout.ms`. `sent`: it may have been written nevertheless."""

    retriable = False

    def __init__(self, message: str, *, sent: bool = False, **address: Any) -> None:
        super().__init__(message, **address)
        self.sent = sent


class BufferExhausted(RequestTimedOut):
    """A producer's `buffer.memory` stayed full for `max.block.ms`: records are added faster than they are sent."""


class RecordTooLarge(KafkaError):
    """A record is larger than `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`."""


class InvalidRecord(KafkaError):
    """The broker rejects a batch because of its records. `record_errors`: reasons by the record's index there."""

    def __init__(self, message: str, *, record_errors: Mapping[int, str] | None = None, **address: Any) -> None:
        super().__init__(message, **address)
        self.record_errors = dict(record_errors or {})


class NotEnoughReplicas(KafkaError):
    """Fewer replicas are in sync than `min.insync.replicas` requires."""


class SequenceLost(KafkaError):
    """The leader does not have the records that this producer wrote before, or not their sequence numbers."""


class OffsetOutOfRange(KafkaError):
    """A fetch offset outside the partition's log: below `log_start` or above `high_watermark` (-1: unknown)."""

    def __init__(self, message: str, *, offset: int, log_start: int, high_watermark: int, **address: Any) -> None:
        super().__init__(message, **address)
        self.offset = offset
        self.log_start = log_start
        self.high_watermark = high_watermark


class MessageCutShort(KafkaError):
    """A broker before 0.10.1 has a message of `size` bytes at `offset`, which exceeds the largest possible fetch."""

    def __init__(self, message: str, *, offset: int, size: int, **address: Any) -> None:
        super().__init__(message, **address)
        self.offset = offset
        self.size = size


class LogTruncated(KafkaError):
    """The last record that was read is no longer in the log: an unclean election, or a lagging leader (KIP-320).

    The log agrees with the reader's records up to `end_offset`, where `epoch` ended; later records are different.
    """

    def __init__(self, message: str, *, offset: int, epoch: int, end_offset: int, **address: Any) -> None:
        super().__init__(message, **address)
        self.offset = offset
        self.epoch = epoch
        self.end_offset = end_offset


class TopicExists(KafkaError):
    """A topic of that name exists already."""


class GroupError(KafkaError):
    """An error of the group's coordinator: the group has members, the generation is old, the group is unknown …"""


class OffsetCommitFailed(GroupError):
    """Some or all partitions of an offset commit failed: `partitions` has their error codes.

    `lacking`: the missing permission, if that was the reason.
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
    """The transaction cannot continue. `abortable`: after an abort, a new transaction can begin."""

    abortable: bool = False


class Fenced(TransactionError):
    """A newer producer has the transactional id, or the coordinator no longer has this producer's id. Not retriable."""


class BrokerError(KafkaError):
    """An error code that has no other class."""


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
    """The error for a response's non-zero code; the table of reactions decides whether it is retriable.

    `what`: the API's name, or a description of the operation; `detail`: the broker's message.
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
