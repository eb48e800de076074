"""A member of a classic group: joins and syncs during `poll`, sends heartbeats in the background, commits.

    poll ─► heartbeat errors ─► changed topics? ─► revoke, join, sync, assign ─► AssignmentChange
                                                   └ JoinGroup waits for all members: over several polls if necessary

Connections: the cluster's for commits and metadata; one for JoinGroup and SyncGroup, because a broker processes one
request per connection at a time and a join may take minutes; and the heartbeat thread's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import GroupError, KafkaError, OffsetCommitFailed, error_from_code
from kseg.client.groups.offsets import CommittedOffset, Committer, commit_offsets
from kseg.client.membership.assignor import Assignor, Racks
from kseg.client.membership.classic_join import ClassicJoin, JoinProgress
from kseg.client.membership.classic_session import ClassicSession, GroupProtocol
from kseg.client.membership.consumer_protocol import ConsumerProtocol
from kseg.client.membership.heartbeat import HeartbeatThread, leave
from kseg.client.membership.ownership import AssignmentChange, Ownership
from kseg.client.membership.settings import MemberSettings
from kseg.client.membership.states import ClassicState
from kseg.client.membership.topics import SubscribedTopics, partition_counts, replica_racks
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.error_policy import Reaction
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline

#: `poll` waits at most this long at a time, so that the heartbeat thread notices that the application polls.
_MAX_WAIT_SECONDS: Final = 1.0


class ClassicMember:
    """Implements `client.membership.member.GroupMember` with the classic protocol."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: SubscribedTopics,
        assignors: Sequence[Assignor],
        settings: MemberSettings,
        ownership: Ownership,
    ) -> None:
        self._cluster = cluster
        self._topics = topics
        self._settings = settings
        self._ownership = ownership
        self._protocol = ConsumerProtocol(assignors, self._lookup, cluster.config.client_rack or None)
        protocol: GroupProtocol = self._protocol
        self.session = ClassicSession(group, settings, protocol)
        self._heartbeats = HeartbeatThread(cluster, group, settings)
        self._join = ClassicJoin(cluster, self.session, self._heartbeats.heartbeat_for)
        self._reason: str | None = "the member is new"
        self._given_up = False
        self._counts: Mapping[str, int] | None = None
        self._fatal: KafkaError | None = None
        self._heartbeats.start()

    @property
    def state(self) -> str:
        return self.session.state.value

    @property
    def member_id(self) -> str:
        return self.session.generation.member_id

    @property
    def generation(self) -> int:
        return self.session.generation.number

    @property
    def committer(self) -> Committer:
        return Committer(self.generation, self.member_id, self._settings.instance_id)

    def poll(self, timeout: float) -> AssignmentChange | None:
        deadline = Deadline.after(timeout)
        while True:
            self._check()
            self._hear()
            self._check_metadata()
            if self._reason is not None:
                self._rebalance(self._reason, deadline.within(_MAX_WAIT_SECONDS))
            if deadline.passed or not self._join.under_way:
                change = self._ownership.take_change()
                if change is not None or deadline.passed:
                    return change
            self._wait(deadline)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        try:
            commit_offsets(self._cluster, self.session.group, offsets, committer=self.committer)
        except OffsetCommitFailed as error:
            self._heed(error)
            raise

    def close(self, *, leave_group: bool, seconds: float) -> None:
        """Revoke all partitions, leave if requested, and stop heartbeats; takes about `seconds` at most."""
        until = Deadline.after(seconds)
        self._join.abandon()
        try:
            self._give_up(())
        finally:
            who = self.session.generation
            self._heartbeats.heartbeat_for(None)
            if leave_group and who.member_id:
                instance_id = self._settings.instance_id
                leave(
                    self._cluster,
                    self.session.group,
                    who,
                    instance_id,
                    "the member closes",
                    seconds=until.remaining(),
                )
            self.session.left()
            self._heartbeats.stop(max(until.remaining(), 0.5))

    # -- what poll does

    def _check(self) -> None:
        self._heartbeats.check()
        if self._fatal is not None:
            raise self._fatal

    def _hear(self) -> None:
        if self._heartbeats.polled():
            self._join.abandon()
            self.session.left()
            self._join_again("the application did not poll within max.poll.interval.ms")
        elif self.session.state is ClassicState.STABLE:
            error = self._heartbeats.take_error(self.session.generation)
            if error is not None:
                self._follow(error)

    def _follow(self, error: KafkaError) -> None:
        """React to the error of a stable member's heartbeat."""
        self.session.heard(error)
        if error.reaction in (Reaction.REJOIN, Reaction.JOIN_AFRESH):
            self._join_again(error.message)
        else:
            self._fail(error)

    def _fail(self, error: KafkaError) -> None:
        """End the member. It must not rejoin: two members with one instance id would fence each other forever."""
        self._fatal = error
        self._heartbeats.heartbeat_for(None)
        self._ownership.lose()
        raise error

    def _check_metadata(self) -> None:
        """Rejoin if topics or partitions have changed, which a classic member has to detect itself."""
        if self._reason is not None or self._topics.due_in > 0:
            return
        try:
            changed = self._topics.changes(self._cluster, self._protocol.topics, self._counts)
        except KafkaError as error:
            if not error.retriable:
                raise
            return  # checked again after a pause; heartbeats detect a lost membership
        if changed is not None:
            self._join_again(changed)

    def _join_again(self, reason: str) -> None:
        self._reason, self._given_up = reason, False

    def _rebalance(self, reason: str, deadline: Deadline) -> None:
        progress = JoinProgress.AGAIN
        while progress is JoinProgress.AGAIN:
            if not self._join.under_way:
                self._give_up_before_join()
            try:
                progress = self._join.advance(reason, deadline, self._describe)
            except GroupError as error:
                if error.code is not None:
                    self._fail(error)
                raise
        if progress is JoinProgress.DONE:
            self._reason = None
            self._take_assignment()

    def _give_up_before_join(self) -> None:
        """Revoke what the member may not keep while it rejoins. Heartbeats continue while the listeners run."""
        if self.generation < 0:
            self._heartbeats.heartbeat_for(None)
            self._ownership.lose()
        elif not self._given_up:
            self._given_up = True
            # In a cooperative group the next assignment decides what is revoked.
            self._give_up(self._ownership.owned if self._protocol.cooperative else ())

    def _give_up(self, but: Collection[TopicPartition]) -> None:
        if self.generation < 0:
            self._ownership.lose()
        else:
            self._ownership.revoke(self._ownership.owned.difference(but))

    def _describe(self) -> None:
        """Update the subscription that JoinGroup sends to the leader."""
        self._protocol.topics = self._topics.current(self._cluster)
        self._protocol.owned = self._ownership.owned
        self._protocol.generation = self.generation

    def _take_assignment(self) -> None:
        given = self._protocol.given
        assert given is not None
        self._counts = given.counts
        self._topics.seen(self._cluster.config.retry, given.counts)
        stray = sorted({tp.topic for tp in given.partitions} - set(self._protocol.topics))
        if stray:
            self._join_again(
                f"the leader has assigned topics that this member does not subscribe to: {', '.join(stray)}"
            )
            return
        going = self._ownership.owned.difference(given.partitions)
        if going:
            # Revoked partitions have no owner in this generation: the next one assigns them (KIP-429).
            self._join_again("partitions were revoked that other members may have now")
            self._ownership.revoke(going)
        self._ownership.gain(given.partitions)

    def _lookup(self, topics: Collection[str]) -> tuple[dict[str, int], Racks]:
        metadata = self._cluster.metadata(topics, refresh=True)
        return partition_counts(metadata, topics), replica_racks(metadata, topics)

    def _wait(self, deadline: Deadline) -> None:
        if self._join.under_way:
            return  # `advance` waits for the response
        pause = min(deadline.remaining(), _MAX_WAIT_SECONDS, self._settings.max_poll_interval_ms / 3000)
        pause = min(pause, self._topics.due_in if self._reason is None else self._join.pause)
        with self._heartbeats.changed:
            self._heartbeats.wait(pause)

    def _heed(self, error: OffsetCommitFailed) -> None:
        """Rejoin if a commit's error concerns the membership."""
        if self.session.state is not ClassicState.STABLE:
            return
        about = [error_from_code(int(code), "OffsetCommit", group=error.group) for code in error.partitions.values()]
        for reaction in (Reaction.JOIN_AFRESH, Reaction.REJOIN):
            for refusal in about:
                if refusal.reaction is reaction and refusal.code != ErrorCode.STALE_MEMBER_EPOCH:
                    self.session.heard(refusal)
                    self._join_again(refusal.message)
                    return
