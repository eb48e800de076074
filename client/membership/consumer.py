"""A member of a group of the new protocol (KIP-848): heartbeats in a background thread, reconciliation during `poll`.

    heartbeat thread   heartbeat ─► epoch, target assignment ─► names of its topics (Metadata by id)
    user's thread      poll ─► revoke, assign (listeners) ─► the next heartbeat acknowledges it

The two threads share only the session, guarded by the heartbeat thread's lock. Listeners run without the lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import CoordinatorKey
from kseg.client.cluster.metadata import NO_ID, check_metadata
from kseg.client.errors import KafkaError, OffsetCommitFailed
from kseg.client.groups.offsets import CommittedOffset, Committer, commit_offsets
from kseg.client.membership.background import Background, now
from kseg.client.membership.consumer_session import ConsumerSession
from kseg.client.membership.ownership import AssignmentChange, Ownership
from kseg.client.membership.settings import MemberSettings
from kseg.client.membership.states import ConsumerEvent, ConsumerState
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.partition import TopicPartition
from kseg.client.retry import Deadline

_MAX_WAIT_SECONDS: Final = 1.0
_LEAVING_SECONDS: Final = 5.0
_LEAST_LOOKUP_SECONDS: Final = 1.0


class ConsumerHeartbeatThread(Background):
    """The thread that sends a session's heartbeats."""

    def __init__(self, cluster: Cluster, session: ConsumerSession) -> None:
        super().__init__(cluster, f"heartbeat-{session.group}")
        self.session = session
        self.key: CoordinatorKey = ("group", session.group)
        self._next = 0.0
        self._failures = 0
        self._names_at = 0.0
        self._polled_at = now()
        self._goodbye: tuple[bool, float] | None = None  # whether for good, and when to give up

    # -- the user's thread

    def polled(self) -> None:
        with self.changed:
            self._polled_at = now()

    def heartbeat_soon(self) -> None:
        """Send the next heartbeat at once. Called with `changed` held."""
        self._next = 0.0
        self.changed.notify_all()

    def request_leave(self, *, for_good: bool, seconds: float) -> None:
        """Leave the group, and wait at most `seconds` for the response."""
        with self.changed:
            if self.session.sends_heartbeats:
                self._goodbye = (for_good, now() + seconds)
                self.changed.notify_all()
                self.changed.wait_for(lambda: self._goodbye is None or not self.alive, seconds)
            self.session.left()  # also without a response

    # -- the heartbeat thread

    def due(self) -> float | None:
        if self._goodbye is not None:
            return 0.0
        if not self.session.sends_heartbeats:
            return None
        times = [self._next, self._polled_at + self.session.settings.max_poll_interval_ms / 1000]
        if self.session.unresolved:
            times.append(self._names_at)
        if self.session.heartbeat_due_now and not self._failures:
            times.append(0.0)
        return min(times) - now()

    def work(self, cluster: Cluster) -> None:
        with self.changed:
            goodbye = self._goodbye
            stuck = now() >= self._polled_at + self.session.settings.max_poll_interval_ms / 1000
            beat = self._next <= now() or (self.session.heartbeat_due_now and not self._failures)
            unresolved = self.session.unresolved if self._names_at <= now() else frozenset()
        if goodbye is not None:
            self._leave(cluster, for_good=goodbye[0], seconds=goodbye[1] - now())
            with self.changed:
                self.session.left()  # with the lock held: a heartbeat in between would rejoin
                self._goodbye = None
                self.changed.notify_all()
        elif stuck:
            with self.changed:
                self.session.expired()
                self.changed.notify_all()
            self._leave(cluster, for_good=False, seconds=_LEAVING_SECONDS)
        elif unresolved:
            self._find_names(cluster, unresolved)
        elif beat:
            self._send_heartbeat(cluster)

    def _send_heartbeat(self, cluster: Cluster) -> None:
        deadline = Deadline.after(cluster.config.request_timeout_ms / 1000)
        error: KafkaError | None = None
        try:
            connection = cluster.coordinator(self.key, deadline)
            version = connection.version_of(ConsumerGroupHeartbeatRequest)
            with self.changed:
                if not self.session.sends_heartbeats or self._goodbye is not None:
                    return
                request = self.session.request(version)
            response = connection.call(request, version, deadline=deadline)
        except KafkaError as failure:
            error = failure
            with self.changed:
                self.session.unanswered()
        else:
            with self.changed:
                error = self.session.answered(response)
        if error is not None:
            cluster.learn(error, coordinator=self.key)
        with self.changed:
            self._next = now() + self._pause(error)
            self.changed.notify_all()
            if error is not None and not error.retriable and self.session.state is not ConsumerState.FENCED:
                if self.session.machine.allows(ConsumerEvent.FAILED):
                    self.session.failed()
                raise error

    def _pause(self, error: KafkaError | None) -> float:
        if error is None or not error.retriable:
            self._failures = 0
            return self.session.interval
        self._failures += 1
        return self._config.retry.pause_after(self._failures)

    def _find_names(self, cluster: Cluster, ids: Collection[UUID]) -> None:
        found: dict[UUID, str] = {}
        try:
            # No longer than a heartbeat may wait: brokers that do not respond must not end the membership.
            found = topic_names(cluster, ids, timeout=max(self.session.interval, _LEAST_LOOKUP_SECONDS))
        except KafkaError as error:
            if not error.retriable:
                raise
        with self.changed:
            self.session.learn_names(found)
            # A name is missing if the topic was just created or deleted: brokers learn that one after the other.
            self._names_at = now() + self._config.retry.maximum
            self.changed.notify_all()

    def _leave(self, cluster: Cluster, *, for_good: bool, seconds: float) -> None:
        """Errors are ignored: without a response the session timeout removes the member."""
        with self.changed:
            request = self.session.leave_request(for_good=for_good)

        def attempt(deadline: Deadline) -> None:
            connection = cluster.coordinator(self.key, deadline)
            connection.call(request, connection.version_of(ConsumerGroupHeartbeatRequest), deadline=deadline)

        try:
            cluster.retry(attempt, coordinator=self.key, timeout=max(0.0, seconds))
        except KafkaError:
            return


class ConsumerMember:
    """Implements `client.membership.member.GroupMember` with the new protocol."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: tuple[str, ...],
        regex: str | None,
        server_assignor: str | None,
        settings: MemberSettings,
        ownership: Ownership,
    ) -> None:
        self._cluster = cluster
        self._ownership = ownership
        self.session = ConsumerSession(
            group, settings, topics, regex, server_assignor, cluster.config.client_rack or None
        )
        self._heartbeats = ConsumerHeartbeatThread(cluster, self.session)
        self._heartbeats.start()

    @property
    def state(self) -> str:
        return self.session.state.value

    @property
    def member_id(self) -> str:
        return self.session.member_id

    @property
    def generation(self) -> int:
        return self.session.epoch

    @property
    def committer(self) -> Committer:
        with self._heartbeats.changed:
            return Committer(self.session.epoch, self.session.member_id, self.session.settings.instance_id)

    def poll(self, timeout: float) -> AssignmentChange | None:
        deadline = Deadline.after(timeout)
        while True:
            self._heartbeats.polled()
            self._check()
            self._follow()
            change = self._ownership.take_change()
            if change is not None or deadline.passed:
                return change
            with self._heartbeats.changed:
                if self.session.next_reconciliation() is None and self.session.state not in _WAITS_FOR_USER:
                    slice_ = min(
                        deadline.remaining(), _MAX_WAIT_SECONDS, self.session.settings.max_poll_interval_ms / 3000
                    )
                    self._heartbeats.wait(slice_)

    def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """After STALE_MEMBER_EPOCH, waits for the heartbeat that returns the new epoch, and retries the commit."""
        deadline = Deadline.after(self._cluster.config.default_api_timeout_ms / 1000)
        while True:
            committer = self.committer
            try:
                commit_offsets(self._cluster, self.session.group, offsets, committer=committer)
                return
            except OffsetCommitFailed as error:
                stale = all(code == ErrorCode.STALE_MEMBER_EPOCH for code in error.partitions.values())
                with self._heartbeats.changed:
                    if not stale or not self._await_epoch(committer.generation, deadline):
                        raise

    def close(self, *, leave_group: bool, seconds: float) -> None:
        until = Deadline.after(seconds)
        try:
            if self.session.sends_heartbeats:
                self._ownership.revoke(self._ownership.owned)
            else:
                self._ownership.lose()
        finally:
            self._heartbeats.request_leave(for_good=leave_group, seconds=until.remaining())
            self._heartbeats.stop(max(until.remaining(), 0.5))

    def _check(self) -> None:
        try:
            self._heartbeats.check()
        except BaseException:
            self._ownership.lose()
            raise

    def _follow(self) -> None:
        """Do what the session needs from the user's thread: subscribe, reconcile, or release lost partitions."""
        with self._heartbeats.changed:
            if self.session.state is ConsumerState.UNSUBSCRIBED:
                self.session.subscribe()
                self._heartbeats.heartbeat_soon()
            thrown_out = self.session.state in _WAITS_FOR_USER
            step = self.session.next_reconciliation()
        if thrown_out:
            self._ownership.lose()
            with self._heartbeats.changed:
                self.session.released()
                self._heartbeats.heartbeat_soon()
        elif step is not None:
            self._ownership.revoke(step.revoke)
            self._ownership.gain(step.gain)
            with self._heartbeats.changed:
                self.session.reconciled(step.partitions)
                self._heartbeats.heartbeat_soon()

    def _await_epoch(self, epoch: int, deadline: Deadline) -> bool:
        """Wait for another epoch; returns whether the member has one and is in the group. Called with the heartbeat
        thread's lock held."""
        self._heartbeats.heartbeat_soon()
        while (
            self.session.sends_heartbeats
            and self.session.epoch == epoch
            and self._heartbeats.alive
            and not deadline.passed
        ):
            self._heartbeats.wait(min(deadline.remaining(), _MAX_WAIT_SECONDS))
        return self.session.sends_heartbeats and self.session.epoch != epoch


_WAITS_FOR_USER: Final = frozenset({ConsumerState.FENCED, ConsumerState.STALE})


def topic_names(cluster: Cluster, ids: Collection[UUID], *, timeout: float) -> dict[UUID, str]:
    """The names of these topics, as far as the requested broker knows them, within `timeout` seconds."""

    def attempt(deadline: Deadline) -> dict[UUID, str]:
        connection = cluster.any_connection(deadline)
        version = connection.version_of(MetadataRequest)
        request = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids],
            allow_auto_topic_creation=False,
        )
        response = connection.call(request, version, deadline=deadline)
        check_metadata(response, connection.label)
        return {
            topic.topic_id: topic.name
            for topic in response.topics
            if topic.name and not topic.error_code and topic.topic_id != NO_ID
        }

    return cluster.retry(attempt, timeout=timeout)
