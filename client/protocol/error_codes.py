"""The error codes of Kafka 4.3.1, each with what a client may do about it.

    FATAL    not retriable
    AGAIN    retriable
    MOVED    retriable, after metadata has been refreshed
    LOST     retriable, after the coordinator has been found again

The classification is Java's (the class of the exception behind the code: RetriableException, InvalidMetadataException,
RefreshRetriableException); a test compares it with the Java client. It is the default: an API may differ
(`error_policy`), as Fetch does for OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

from enum import IntEnum

FATAL = (False, False, False)
AGAIN = (True, False, False)
MOVED = (True, True, False)
LOST = (True, False, True)


class UnknownErrorCode(int):
    """A code that this table does not have, kept as the number it is. Not retriable."""

    retriable = False
    refresh_metadata = False
    refresh_coordinator = False

    @property
    def name(self) -> str:
        return f"UNKNOWN_ERROR_CODE_{int(self)}"

    @property
    def message(self) -> str:
        return f"the broker answered with error code {int(self)}, which is newer than this client"

    def __repr__(self) -> str:
        return f"<UnknownErrorCode: {int(self)}>"


class ErrorCode(IntEnum):
    """An error code in a response; equal to its number.

    `retriable`: the same request may succeed later. `refresh_metadata`: fetch metadata first. `refresh_coordinator`:
    find the coordinator first. `message`: what happened, for people.
    """

    retriable: bool
    refresh_metadata: bool
    refresh_coordinator: bool
    message: str

    def __new__(cls, code: int, kind: tuple[bool, bool, bool], message: str) -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable, member.refresh_metadata, member.refresh_coordinator = kind
        member.message = message
        return member

    @classmethod
    def of(cls, code: int) -> ErrorCode | UnknownErrorCode:
        """The member with this number, or an `UnknownErrorCode` that keeps it."""
        member = cls._value2member_map_.get(code)
        return member if isinstance(member, cls) else UnknownErrorCode(code)

    UNKNOWN_SERVER_ERROR = -1, FATAL, "unexpected error in the broker; see its log"
    NONE = 0, FATAL, "no error"
    OFFSET_OUT_OF_RANGE = 1, FATAL, "the offset is out of the log's range"
    CORRUPT_MESSAGE = 2, AGAIN, "a batch is damaged or malformed: checksum, size, or a null key in a compacted topic"
    UNKNOWN_TOPIC_OR_PARTITION = 3, MOVED, "the broker does not have this topic or partition"
    INVALID_FETCH_SIZE = 4, FATAL, "the fetch size is invalid"
    LEADER_NOT_AVAILABLE = 5, MOVED, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, MOVED, "the broker does not lead this partition, or has no replica of it"
    REQUEST_TIMED_OUT = 7, AGAIN, "the request timed out in the broker"
    BROKER_NOT_AVAILABLE = 8, FATAL, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, MOVED, "the broker's replica of this partition is not available"
    MESSAGE_TOO_LARGE = 10, FATAL, "a batch is larger than the broker or topic allows"
    STALE_CONTROLLER_EPOCH = 11, FATAL, "the request is from a controller that has been replaced"
    OFFSET_METADATA_TOO_LARGE = 12, FATAL, "the text committed with an offset is too long"
    NETWORK_EXCEPTION = 13, MOVED, "the connection broke before a response came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, AGAIN, "the coordinator is still loading its state"
    COORDINATOR_NOT_AVAILABLE = 15, LOST, "there is no coordinator at the moment"
    NOT_COORDINATOR = 16, LOST, "the broker is not this key's coordinator"
    INVALID_TOPIC_EXCEPTION = 17, FATAL, "the topic's name is invalid, or the operation is not for this topic"
    RECORD_LIST_TOO_LARGE = 18, FATAL, "a batch is larger than a log segment"
    NOT_ENOUGH_REPLICAS = 19, AGAIN, "fewer replicas are in sync than the topic demands; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, AGAIN, "written, but to fewer replicas than the topic demands"
    INVALID_REQUIRED_ACKS = 21, FATAL, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, FATAL, "the group has moved on to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, FATAL, "the member shares no protocol with the group's other members"
    INVALID_GROUP_ID = 24, FATAL, "the group id is invalid"
    UNKNOWN_MEMBER_ID = 25, FATAL, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, FATAL, "the session timeout is outside of what the broker allows"
    REBALANCE_IN_PROGRESS = 27, FATAL, "the group is rebalancing: the member has to join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, FATAL, "the commit is too large to be stored"
    TOPIC_AUTHORIZATION_FAILED = 29, FATAL, "not authorized for this operation on the topic"
    GROUP_AUTHORIZATION_FAILED = 30, FATAL, "not authorized for this operation on the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, FATAL, "not authorized for this operation on the cluster"
    INVALID_TIMESTAMP = 32, FATAL, "a record's timestamp is outside of what the topic allows"
    UNSUPPORTED_SASL_MECHANISM = 33, FATAL, "the broker does not offer this SASL mechanism"
    ILLEGAL_SASL_STATE = 34, FATAL, "the request does not fit the state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, FATAL, "the broker does not support this version of the API"
    TOPIC_ALREADY_EXISTS = 36, FATAL, "a topic of this name exists already"
    INVALID_PARTITIONS = 37, FATAL, "the number of partitions is invalid"
    INVALID_REPLICATION_FACTOR = 38, FATAL, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, FATAL, "the assignment of replicas is invalid"
    INVALID_CONFIG = 40, FATAL, "a configuration value is invalid"
    NOT_CONTROLLER = 41, AGAIN, "the broker is not the controller"
    INVALID_REQUEST = 42, FATAL, "the request is malformed or contradictory; see the broker's log"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, FATAL, "the topic's message format does not support this"
    POLICY_VIOLATION = 44, FATAL, "the cluster's policy forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, FATAL, "a batch does not follow the producer's last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, FATAL, "the batch has been written before"
    INVALID_PRODUCER_EPOCH = 47, FATAL, "the producer's epoch is an old one"
    INVALID_TXN_STATE = 48, FATAL, "the transaction is not in a state for this"
    INVALID_PRODUCER_ID_MAPPING = 49, FATAL, "the transactional id has another producer id by now"
    INVALID_TRANSACTION_TIMEOUT = 50, FATAL, "the transaction timeout is above the broker's maximum"
    CONCURRENT_TRANSACTIONS = 51, AGAIN, "another operation on this transaction is still under way"
    TRANSACTION_COORDINATOR_FENCED = 52, FATAL, "the transaction coordinator has been replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, FATAL, "not authorized for this transactional id"
    SECURITY_DISABLED = 54, FATAL, "the cluster has no security set up"
    OPERATION_NOT_ATTEMPTED = 55, FATAL, "not tried, because another part of the same request failed"
    KAFKA_STORAGE_ERROR = 56, MOVED, "the broker's disk fails for this partition"
    LOG_DIR_NOT_FOUND = 57, FATAL, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, FATAL, "authentication failed: the credentials were rejected"
    UNKNOWN_PRODUCER_ID = 59, FATAL, "the broker no longer has any state of this producer"
    REASSIGNMENT_IN_PROGRESS = 60, FATAL, "the partition's replicas are being moved already"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, FATAL, "delegation tokens are switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, FATAL, "the broker does not know this delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, FATAL, "the delegation token belongs to another owner"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, FATAL, "delegation tokens cannot be requested over this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, FATAL, "not authorized for this operation on the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, FATAL, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, FATAL, "principals of this type are not supported"
    NON_EMPTY_GROUP = 68, FATAL, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, FATAL, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, AGAIN, "the broker has dropped this fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, AGAIN, "the fetch session is at another epoch"
    LISTENER_NOT_FOUND = 72, MOVED, "the leader has no listener of the name that the request came in on"
    TOPIC_DELETION_DISABLED = 73, FATAL, "the cluster does not delete topics"
    FENCED_LEADER_EPOCH = 74, MOVED, "the partition has had a new leader since the epoch in the request"
    UNKNOWN_LEADER_EPOCH = 75, AGAIN, "the broker does not know the leader epoch in the request yet"
    UNSUPPORTED_COMPRESSION_TYPE = 76, FATAL, "the request's version does not support this compression"
    STALE_BROKER_EPOCH = 77, FATAL, "the broker has registered again since"
    OFFSET_NOT_AVAILABLE = 78, AGAIN, "the new leader's high watermark has not caught up yet"
    MEMBER_ID_REQUIRED = 79, FATAL, "join again with the member id in this response"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, MOVED, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, FATAL, "the group has reached its maximum size"
    FENCED_INSTANCE_ID = 82, FATAL, "another member has registered with this instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, MOVED, "no replica is eligible to be the partition's leader"
    ELECTION_NOT_NEEDED = 84, MOVED, "no election is needed: the partition has its preferred leader"
    NO_REASSIGNMENT_IN_PROGRESS = 85, FATAL, "the partition's replicas are not being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, FATAL, "the group is subscribed to the topic, so its offsets cannot be deleted"
    INVALID_RECORD = 87, FATAL, "the broker rejects a record"
    UNSTABLE_OFFSET_COMMIT = 88, AGAIN, "a transaction that commits this offset is still open"
    THROTTLING_QUOTA_EXCEEDED = 89, AGAIN, "the quota for such changes is exceeded"
    PRODUCER_FENCED = 90, FATAL, "a newer producer has taken over the transactional id"
    RESOURCE_NOT_FOUND = 91, FATAL, "the request names something that does not exist"
    DUPLICATE_RESOURCE = 92, FATAL, "the request names the same thing twice"
    UNACCEPTABLE_CREDENTIAL = 93, FATAL, "the credential does not meet the broker's requirements"
    INCONSISTENT_VOTER_SET = 94, FATAL, "sender or receiver is not among the expected voters"
    INVALID_UPDATE_VERSION = 95, FATAL, "the update carries an invalid version"
    FEATURE_UPDATE_FAILED = 96, FATAL, "the controller failed to change the finalized features"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, FATAL, "a forwarded request's principal cannot be read"
    SNAPSHOT_NOT_FOUND = 98, FATAL, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, FATAL, "the position lies outside of the snapshot"
    UNKNOWN_TOPIC_ID = 100, MOVED, "the broker has no topic with this id"
    DUPLICATE_BROKER_REGISTRATION = 101, FATAL, "the broker id is taken"
    BROKER_ID_NOT_REGISTERED = 102, FATAL, "no broker is registered with this id"
    INCONSISTENT_TOPIC_ID = 103, MOVED, "the log belongs to a topic with another id"
    INCONSISTENT_CLUSTER_ID = 104, FATAL, "the broker belongs to another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, FATAL, "the coordinator does not know this transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, AGAIN, "the fetch session mixes topic names and topic ids"
    INELIGIBLE_REPLICA = 107, FATAL, "a replica in the new ISR is not eligible"
    NEW_LEADER_ELECTED = 108, FATAL, "the change was made, and the partition has a new leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, FATAL, "the offset has moved to tiered storage"
    FENCED_MEMBER_EPOCH = 110, FATAL, "the member's epoch is fenced: it must give up its partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, FATAL, "another member still holds this instance id"
    UNSUPPORTED_ASSIGNOR = 112, FATAL, "the group does not support this assignor"
    STALE_MEMBER_EPOCH = 113, FATAL, "the member's epoch is old: it gets the new one with its next heartbeat"
    MISMATCHED_ENDPOINT_TYPE = (
        114,
        FATAL,
        "the request went to a broker instead of a controller, or the other way round",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, FATAL, "endpoints of this type are not supported"
    UNKNOWN_CONTROLLER_ID = 116, FATAL, "there is no controller with this id"
    UNKNOWN_SUBSCRIPTION_ID = 117, FATAL, "the telemetry subscription is unknown or outdated"
    TELEMETRY_TOO_LARGE = 118, FATAL, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, FATAL, "the controller rejects the broker's registration"
    TRANSACTION_ABORTABLE = 120, FATAL, "the transaction failed; it can continue after an abort"
    INVALID_RECORD_STATE = 121, FATAL, "the record cannot be acknowledged in its state"
    SHARE_SESSION_NOT_FOUND = 122, AGAIN, "the broker has dropped this share session"
    INVALID_SHARE_SESSION_EPOCH = 123, AGAIN, "the share session is at another epoch"
    FENCED_STATE_EPOCH = 124, FATAL, "the share group's state is at another epoch"
    INVALID_VOTER_KEY = 125, FATAL, "the voter's key is not the receiving replica's"
    DUPLICATE_VOTER = 126, FATAL, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, FATAL, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, FATAL, "the regular expression is invalid"
    REBOOTSTRAP_REQUIRED = 129, FATAL, "the client knows an outdated cluster: start again from the bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, FATAL, "the streams topology is invalid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, FATAL, "the streams topology's epoch is invalid"
    STREAMS_TOPOLOGY_FENCED = 132, FATAL, "the streams topology is an outdated one"
    SHARE_SESSION_LIMIT_REACHED = 133, AGAIN, "the broker holds no more share sessions"
