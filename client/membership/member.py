"""A member of a consumer group.

    with GroupMember(config, "group", topics=["orders"]) as member:
        while True:
            change = member.poll(1.0)
            if change:
                stop_reading(change.revoked | change.lost)
                start_reading(change.assigned)
            ...
            member.commit({TopicPartition("orders", 0): CommittedOffset(17)})

Call `poll` often: a member that is not polled for `max_poll_interval_ms` leaves the group, so that other members get
its partitions (a static member keeps them until its session times out). Heartbeats are sent in the background. The
assignment changes, and listeners are called, only inside `poll` and `close`. A member is not thread-safe and cannot be
pickled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.errors import ConfigError, ConfigFault, GroupError
from kseg.client.groups.offsets import CommittedOffset, Committer, committed_offsets
from kseg.client.membership.assignor import Assignor
from kseg.client.membership.classic import ClassicMember
from kseg.client.membership.consumer import ConsumerMember
from kseg.client.membership.ownership import AssignmentChange, Listener, Ownership
from kseg.client.membership.settings import MemberSettings
from kseg.client.membership.simple_assignors import RangeAssignor
from kseg.client.membership.sticky import CooperativeStickyAssignor
from kseg.client.membership.topics import SubscribedTopics
from kseg.client.protocol.partition import TopicPartition


class GroupMember:
    """A member of a consumer group. Other members may use other clients.

    It subscribes to `topics` by name, or to all topics whose whole name matches the regular expression `pattern`
    (Python's syntax with the classic protocol; RE2's with the new one, where the coordinator evaluates it).

    `protocol` "classic": the group's leader assigns the partitions, with the first of the `assignors` that all members
    have; by default range, and cooperative-sticky for groups that migrate to it. "consumer" (KIP-848, brokers from 4.0
    on): the coordinator assigns them, with `server_assignor` ("uniform", "range"; None: its own default). Rack-aware
    assignors use `client.rack`.

    Raises ConfigError at once. Nothing is sent before the first `poll`.
    """

    def __init__(
        self,
        config: ClientConfig,
        group: str,
        *,
        topics: Collection[str] = (),
        pattern: str | None = None,
        protocol: Literal["classic", "consumer"] = "classic",
        assignors: Sequence[Assignor] | None = None,
        server_assignor: str | None = None,
        settings: MemberSettings | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        settings = settings or MemberSettings()
        settings.check(classic=protocol != "consumer")
        if not group:
            raise ConfigError([ConfigFault("group.id", "is empty", "give the group's name")])
        if isinstance(topics, str) or bool(topics) == (pattern is not None):
            raise ValueError("give either topics (several names) or a pattern")
        self.group = group
        self._ownership = Ownership(on_assigned, on_revoked, on_lost)
        self._static = settings.instance_id is not None
        self._closing = self._closed = False
        self._cluster = Cluster(config)
        self._member: ClassicMember | ConsumerMember
        if protocol == "classic":
            if server_assignor is not None:
                raise ValueError("server_assignor is for the new protocol; give assignors")
            chosen = [RangeAssignor(), CooperativeStickyAssignor()] if assignors is None else list(assignors)
            if not chosen or len({assignor.name for assignor in chosen}) < len(chosen):
                raise ValueError("give at least one assignor, and each once")
            wanted = SubscribedTopics(topics, pattern, config.metadata_max_age_ms / 1000)
            self._member = ClassicMember(self._cluster, group, wanted, chosen, settings, self._ownership)
        elif protocol == "consumer":
            if assignors is not None:
                raise ValueError("with the new protocol the coordinator assigns partitions; give server_assignor")
            self._member = ConsumerMember(
                self._cluster, group, tuple(topics), pattern, server_assignor, settings, self._ownership
            )
        else:
            raise ValueError(f"protocol {protocol!r} is neither classic nor consumer")

    def __enter__(self) -> GroupMember:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that this member owns now, and may read."""
        return self._ownership.owned

    @property
    def state(self) -> str:
        """The member's state: a value of `ClassicState` or `ConsumerState` (`client.membership.states`)."""
        return self._member.state

    @property
    def member_id(self) -> str:
        """The member id; "" if there is none yet."""
        return self._member.member_id

    @property
    def generation(self) -> int:
        """The generation, or the member epoch with the new protocol; -1, or 0, while the member is in none."""
        return self._member.generation

    @property
    def committer(self) -> Committer:
        """The committer for `KafkaProducer.commit_offsets`, as of now, so do not keep it across a poll."""
        return self._member.committer

    def poll(self, timeout: float = 0.0) -> AssignmentChange | None:
        """Take part in the group for at most `timeout` seconds; returns a change as soon as there is one, else None.

        Joins the group, and rejoins when it rebalances. May take longer by the timeout of one request if a broker does
        not respond. Raises errors that the member cannot recover from, again at each later call: AuthorizationFailed,
        GroupError (another member uses its instance id, no assignor is common to all …), UnsupportedVersion. Also
        raises what a listener raises.
        """
        if self._closing:
            raise RuntimeError("the member is closed")
        return self._member.poll(timeout)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Commit offsets with member id and generation: the coordinator rejects members that were removed or fenced.

        Raises OffsetCommitFailed with each failed partition's code. After REBALANCE_IN_PROGRESS, poll and commit for
        the partitions that are still owned. After ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID all partitions are lost, as
        the next poll reports. Raises GroupError, and sends nothing, for partitions that are not owned.
        """
        self._require_open()
        strange = sorted(offsets.keys() - self._ownership.owned)
        if strange:
            names = ", ".join(map(str, strange))
            raise GroupError(f"not committed: the member does not own {names}", group=self.group)
        self._member.commit(offsets)

    def committed(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, CommittedOffset]:
        """The group's committed offsets of these partitions (None: the owned ones). Offset -1: none committed."""
        self._require_open()
        wanted = self._ownership.owned if partitions is None else partitions
        return committed_offsets(self._cluster, self.group, wanted) if wanted else {}

    def close(self, *, leave: bool | None = None, timeout: float = 5.0) -> None:
        """Revoke all partitions (calls `on_revoked`), leave the group and close all connections.

        `leave` None: a dynamic member leaves; a static one stays until its session times out (with the new protocol it
        leaves temporarily). Takes about `timeout` seconds at most, even if no broker responds.
        """
        if self._closing:
            return
        self._closing = True
        try:
            self._member.close(leave_group=not self._static if leave is None else leave, seconds=timeout)
        finally:
            self._closed = True
            self._cluster.close()

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("the member is closed")
