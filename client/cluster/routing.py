"""What each API is, seen from whoever sends it: who is asked, and whether it may be sent again after a lost answer.

When a connection breaks after a request was written, it is open whether the broker has carried it out. Most requests
have the same effect when they are sent twice; for some only the answer to the second differs; a few must not be sent
again before one knows. The page docs/requests.md is made from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from kseg.client.protocol import ErrorCode


class Whom(Enum):
    """Who is asked."""

    ANY = "any broker"
    LEADER = "the partition's leader"
    REPLICA = "the partition's leader, or the replica that it prefers"
    GROUP = "the group's coordinator"
    TRANSACTION = "the transaction's coordinator"
    CONTROLLER = "the controller (KRaft brokers forward)"
    NAMED = "the broker that it is about, else any"
    ALL = "every broker, for its own part"
    SAME = "the broker of this connection"


class Again(Enum):
    """Whether a request may be sent again after its answer was lost."""

    SAME = "yes: same effect, same answer"
    SAME_EFFECT = "yes: same effect, though the answer may differ"
    FIND_OUT = "only after finding out that it was not done"
    TELL = "no: the caller is told that the outcome is unknown"

    @property
    def allowed(self) -> bool:
        """Whether it may simply be sent again."""
        return self in (Again.SAME, Again.SAME_EFFECT)


@dataclass(frozen=True, slots=True)
class Sending:
    """How an API is sent. `done_already`: errors to a second try that the first one's success explains.

    `find_out`: the API that tells whether it was done. `note`: when it is otherwise.
    """

    whom: Whom
    again: Again = Again.SAME
    done_already: tuple[ErrorCode, ...] = ()
    find_out: str = ""
    note: str = ""


def _all(whom: Whom, names: str) -> dict[str, Sending]:
    return dict.fromkeys(names.split(), Sending(whom))


def _effect(whom: Whom, *done_already: ErrorCode) -> Sending:
    return Sending(whom, Again.SAME_EFFECT, done_already)


E: Final = ErrorCode

SENDING: Final[Mapping[str, Sending]] = MappingProxyType(
    _all(Whom.ANY, "Metadata FindCoordinator ApiVersions DescribeCluster DescribeTopicPartitions")
    | _all(Whom.ANY, "DescribeAcls DescribeClientQuotas DescribeUserScramCredentials DescribeDelegationToken")
    | _all(Whom.ANY, "ListConfigResources DescribeQuorum ListPartitionReassignments GetTelemetrySubscriptions")
    | _all(Whom.NAMED, "DescribeConfigs AlterConfigs IncrementalAlterConfigs AlterReplicaLogDirs")
    | _all(Whom.ALL, "ListGroups ListTransactions DescribeLogDirs")
    | _all(Whom.LEADER, "ListOffsets OffsetForLeaderEpoch DescribeProducers")
    | _all(Whom.GROUP, "OffsetCommit OffsetFetch SyncGroup Heartbeat DescribeGroups OffsetDelete TxnOffsetCommit")
    | _all(Whom.GROUP, "ConsumerGroupHeartbeat ConsumerGroupDescribe ShareGroupHeartbeat ShareGroupDescribe")
    | _all(Whom.GROUP, "StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets AlterShareGroupOffsets")
    | _all(Whom.TRANSACTION, "AddPartitionsToTxn AddOffsetsToTxn DescribeTransactions")
    | _all(Whom.CONTROLLER, "CreateAcls AlterPartitionReassignments AlterClientQuotas UpdateFeatures UpdateRaftVoter")
    | _all(Whom.CONTROLLER, "RenewDelegationToken")
    | {
        "Fetch": Sending(Whom.REPLICA),
        # With a producer id the leader drops what it has already; without one it would be there twice.
        "Produce": Sending(Whom.LEADER, Again.TELL, note="yes for batches with a producer id"),
        # Offset -1 is the high watermark of the moment: a second try may remove what came after the first.
        "DeleteRecords": Sending(Whom.LEADER, Again.FIND_OUT, find_out="ListOffsets", note="yes up to a given offset"),
        "JoinGroup": _effect(Whom.GROUP),  # without a member id the first one's stays until its session times out
        "LeaveGroup": _effect(Whom.GROUP, E.UNKNOWN_MEMBER_ID),
        "DeleteGroups": _effect(Whom.GROUP, E.GROUP_ID_NOT_FOUND),
        "DeleteShareGroupOffsets": _effect(Whom.GROUP, E.UNKNOWN_TOPIC_OR_PARTITION),
        # The epoch rises once more, and the one that nobody has heard of is fenced with all older ones.
        "InitProducerId": _effect(Whom.TRANSACTION),
        "EndTxn": Sending(Whom.TRANSACTION, Again.FIND_OUT, find_out="DescribeTransactions"),
        "CreateTopics": Sending(Whom.CONTROLLER, Again.FIND_OUT, find_out="Metadata"),
        # A topic of that name may have been made anew by somebody else meanwhile.
        "DeleteTopics": Sending(Whom.CONTROLLER, Again.FIND_OUT, find_out="Metadata"),
        "CreatePartitions": Sending(Whom.CONTROLLER, Again.FIND_OUT, find_out="Metadata"),
        "DeleteAcls": _effect(Whom.CONTROLLER),  # the second answer lists nothing removed
        "ElectLeaders": _effect(Whom.CONTROLLER, E.ELECTION_NOT_NEEDED),
        "AlterUserScramCredentials": _effect(Whom.CONTROLLER, E.RESOURCE_NOT_FOUND),
        "UnregisterBroker": _effect(Whom.CONTROLLER, E.BROKER_ID_NOT_REGISTERED),
        "AddRaftVoter": _effect(Whom.CONTROLLER, E.DUPLICATE_VOTER),
        "RemoveRaftVoter": _effect(Whom.CONTROLLER, E.VOTER_NOT_FOUND),
        "ExpireDelegationToken": _effect(Whom.CONTROLLER, E.DELEGATION_TOKEN_NOT_FOUND, E.DELEGATION_TOKEN_EXPIRED),
        # There would be two tokens, and nobody to expire the first.
        "CreateDelegationToken": Sending(Whom.CONTROLLER, Again.FIND_OUT, find_out="DescribeDelegationToken"),
        # Records that were handed out with the lost answer are locked until their time is over.
        "ShareFetch": Sending(Whom.LEADER, Again.TELL),
        "ShareAcknowledge": Sending(Whom.LEADER, Again.TELL),
        "PushTelemetry": Sending(Whom.SAME, Again.TELL),
        # An exchange that was broken off begins anew, over a new connection.
        "SaslHandshake": Sending(Whom.SAME, Again.TELL),
        "SaslAuthenticate": Sending(Whom.SAME, Again.TELL),
        # Between brokers; an administrator ends a hanging transaction with it (KIP-664).
        "WriteTxnMarkers": Sending(Whom.LEADER),
    }
)


def again(api: str) -> Again:
    """Whether this API may be sent again after a lost answer; one that is not known here is not."""
    found = SENDING.get(api)
    return Again.TELL if found is None else found.again
