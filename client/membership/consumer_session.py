"""A member's side of the new group protocol (KIP-848), without I/O: builds heartbeats, processes responses.

Responses carry the member's target assignment. The member revokes partitions that are not in it, takes new ones, and
acknowledges with a heartbeat that lists what it owns. Only then are the revoked partitions assigned to other members.
Fields that have not changed since the last heartbeat are not sent; after a lost response, all are.

    member epoch  0 joins · above 0: set by the coordinator · -1 leaves · -2 leaves temporarily (static members)

Partitions are identified by topic id here: a topic that was deleted and created again is another one.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from kseg.client.errors import KafkaError, UnsupportedVersion, error_from_code
from kseg.client.membership.settings import MemberSettings
from kseg.client.membership.states import CONSUMER, ConsumerEvent, ConsumerState, Machine
from kseg.client.protocol.error_policy import Reaction
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kseg.client.protocol.partition import TopicPartition

JOIN_EPOCH: Final = 0
_LEAVE_EPOCH: Final = -1
_DEFAULT_INTERVAL: Final = 5.0  # seconds, the brokers' default: for a response with 0, which would mean no pause
_BACK_SOON_EPOCH: Final = -2
_FIRST_WITH_REGEX: Final = 1

TopicIdPartition = tuple[UUID, int]
_IN_GROUP: Final = frozenset(
    {ConsumerState.JOINING, ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE}
)


class Reconciliation(NamedTuple):
    """The partitions to revoke and to assign, so that `partitions` are owned afterwards."""

    revoke: frozenset[TopicPartition]
    gain: frozenset[TopicPartition]
    partitions: frozenset[TopicIdPartition]


@dataclass(slots=True)
class ConsumerSession:
    """One member of one group of the new protocol."""

    group: str
    settings: MemberSettings
    topics: tuple[str, ...] = ()
    regex: str | None = None
    server_assignor: str | None = None
    rack: str | None = None
    member_id: str = field(default_factory=lambda: base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode())
    epoch: int = JOIN_EPOCH
    interval: float = 0.0
    machine: Machine[ConsumerState, ConsumerEvent] = field(
        default_factory=lambda: Machine(CONSUMER, ConsumerState.UNSUBSCRIBED)
    )
    owned: frozenset[TopicIdPartition] = frozenset()
    names: dict[UUID, str] = field(default_factory=dict)
    target: frozenset[TopicIdPartition] = frozenset()
    _known: bool = False  # whether the coordinator certainly has the subscription
    _reconciled: int = 0  # how often the member has reconciled …
    _sent: int = 0  # … had, when the last heartbeat was sent …
    _acknowledged: int = 0  # … and the coordinator has acknowledged

    @property
    def state(self) -> ConsumerState:
        return self.machine.state

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the member is in the group, or joins it."""
        return self.state in _IN_GROUP

    @property
    def heartbeat_due_now(self) -> bool:
        """Whether the next heartbeat has to be sent at once."""
        return self.state is ConsumerState.JOINING or (
            self.state is ConsumerState.ACKNOWLEDGING and self._acknowledged != self._reconciled
        )

    @property
    def unresolved(self) -> frozenset[UUID]:
        """Topics of the target assignment whose names are not known yet."""
        return frozenset(topic_id for topic_id, _ in self.target if topic_id not in self.names)

    # -- heartbeats

    def request(self, version: int) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat."""
        if self.regex is not None and version < _FIRST_WITH_REGEX:
            raise UnsupportedVersion("the broker is too old for patterns in the new protocol", group=self.group)
        joining = self.state is ConsumerState.JOINING
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            # In version 0 the coordinator assigns the id; in later ones the member generates it (KIP-1082).
            member_id="" if joining and version < _FIRST_WITH_REGEX else self.member_id,
            member_epoch=JOIN_EPOCH if joining else self.epoch,
            instance_id=self.settings.instance_id,
        )
        self._sent = self._reconciled
        everything = joining or not self._known
        if everything:
            request.rack_id = self.rack
            request.rebalance_timeout_ms = self.settings.rebalance_timeout
            request.subscribed_topic_names = list(self.topics)
            if self.regex is not None:
                request.subscribed_topic_regex = self.regex
            request.server_assignor = self.server_assignor
        if everything or self._acknowledged != self._reconciled:
            request.topic_partitions = _by_topic(self.owned)
        return request

    def leave_request(self, *, for_good: bool) -> ConsumerGroupHeartbeatRequest:
        """The last heartbeat. Not `for_good`: a static member keeps its partitions until its session times out."""
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=_LEAVE_EPOCH if for_good or self.settings.instance_id is None else _BACK_SOON_EPOCH,
            instance_id=self.settings.instance_id,
        )

    def answered(self, response: ConsumerGroupHeartbeatResponse) -> KafkaError | None:
        """Process the response to `request`; returns its error, which has been applied to the state, or None."""
        if response.error_code:
            error = error_from_code(
                response.error_code, "ConsumerGroupHeartbeat", detail=response.error_message, group=self.group
            )
            self._known = False
            if error.reaction is Reaction.JOIN_AFRESH and self.sends_heartbeats:
                self.machine.step(ConsumerEvent.FENCED)
                self.epoch, self.target = JOIN_EPOCH, frozenset()
            elif not error.retriable and self.machine.allows(ConsumerEvent.FAILED):
                self.failed()
            return error
        interval_ms = response.heartbeat_interval_ms
        self.interval = interval_ms / 1000 if interval_ms > 0 else _DEFAULT_INTERVAL
        if not self.sends_heartbeats:
            return None  # since the request, the member was not polled in time, or has begun to leave
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        self._known, self._acknowledged = True, self._sent
        if response.assignment is not None:
            self.target = frozenset(
                (topic.topic_id, number)
                for topic in response.assignment.topic_partitions
                for number in topic.partitions
            )
            self.machine.step(ConsumerEvent.ASSIGNED)
            if self.target == self.owned:
                self.reconciled(self.owned)
        elif self.state is ConsumerState.JOINING:
            self.machine.step(ConsumerEvent.WELCOMED)
        elif self.state is ConsumerState.ACKNOWLEDGING and self._acknowledged == self._reconciled:
            self.machine.step(ConsumerEvent.ACKNOWLEDGED)
            if self.target != self.owned:
                self.machine.step(ConsumerEvent.ASSIGNED)  # topics whose names were not known yet
        return None

    def unanswered(self) -> None:
        """No response came: it is unknown whether the coordinator has the request."""
        self._known = False

    def failed(self) -> None:
        """A fatal error, which rejoining would not solve."""
        self.machine.step(ConsumerEvent.FAILED)
        self.target = frozenset()

    # -- the user's side

    def subscribe(self) -> None:
        self.machine.step(ConsumerEvent.SUBSCRIBE)

    def learn_names(self, names: Mapping[UUID, str]) -> None:
        self.names.update(names)

    def next_reconciliation(self) -> Reconciliation | None:
        """The next step towards the target assignment; None: nothing to do now."""
        if self.state is not ConsumerState.RECONCILING:
            return None
        reachable = frozenset(partition for partition in self.target if partition[0] in self.names)
        if reachable == self.owned:
            return None
        return Reconciliation(
            self._partitions(self.owned - reachable), self._partitions(reachable - self.owned), reachable
        )

    def reconciled(self, partitions: frozenset[TopicIdPartition]) -> None:
        """The member owns these now; the listeners were called."""
        if self.state is ConsumerState.RECONCILING:
            self.owned = partitions
            self._reconciled += 1
            self.machine.step(ConsumerEvent.RECONCILED)

    def released(self) -> None:
        """The listeners were called for the lost partitions; the member joins again."""
        self.machine.step(ConsumerEvent.RELEASED if self.state is ConsumerState.FENCED else ConsumerEvent.POLLED)
        self._forget()

    def expired(self) -> None:
        """The application did not poll in time. The caller sends the leaving heartbeat."""
        self.machine.step(ConsumerEvent.EXPIRED)

    def left(self) -> None:
        """The member has left, or the response is not awaited."""
        if self.sends_heartbeats:
            self.machine.step(ConsumerEvent.LEAVE)
        if self.machine.allows(ConsumerEvent.LEFT):
            self.machine.step(ConsumerEvent.LEFT)
        self._forget()

    def _forget(self) -> None:
        self.epoch, self._known = JOIN_EPOCH, False
        self.owned = self.target = frozenset()

    def _partitions(self, partitions: frozenset[TopicIdPartition]) -> frozenset[TopicPartition]:
        return frozenset(TopicPartition(self.names[topic_id], number) for topic_id, number in partitions)


def _by_topic(partitions: frozenset[TopicIdPartition]) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in topics.items()
    ]
