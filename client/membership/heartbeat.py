"""The heartbeats of a classic member, in a background thread: also between polls and during a rebalance.

If the application does not poll for `max.poll.interval.ms`, the thread leaves the group, so that other members get the
partitions, and sends no more heartbeats. A static member does not leave: its session times out.
"""

from __future__ import annotations

from typing import Final

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.coordinators import CoordinatorKey
from kseg.client.errors import KafkaError, error_from_code
from kseg.client.membership.background import Background, now
from kseg.client.membership.classic_session import Generation, heartbeat_request, leave_request
from kseg.client.membership.settings import MemberSettings
from kseg.client.protocol.error_policy import Reaction
from kseg.client.protocol.messages.groups import HeartbeatRequest, LeaveGroupRequest
from kseg.client.retry import Deadline

#: After these no heartbeat is sent until the member has joined again.
_SILENCED: Final = frozenset({Reaction.JOIN_AFRESH, Reaction.FAIL})


class HeartbeatThread(Background):
    """Sends heartbeats for the generation that was set last."""

    def __init__(self, cluster: Cluster, group: str, settings: MemberSettings) -> None:
        super().__init__(cluster, f"heartbeat-{group}")
        self._group = group
        self._key: CoordinatorKey = ("group", group)
        self._settings = settings
        self._interval = settings.heartbeat_interval_ms / 1000
        self._for: Generation | None = None
        self._next = 0.0
        self._polled_at = now()
        self._failures = 0
        self._failure: tuple[Generation, KafkaError] | None = None
        self._expired = False

    # -- the user's thread

    def heartbeat_for(self, generation: Generation | None) -> None:
        """Send heartbeats for this generation from now on; None: send none."""
        with self.changed:
            if generation != self._for:
                self._for, self._next = generation, now() + self._interval
                self.changed.notify_all()

    def polled(self) -> bool:
        """Note that the application polls. Returns whether that was too late, so that the thread has left the group."""
        with self.changed:
            self._polled_at = now()
            expired, self._expired = self._expired, False
            return expired

    def take_error(self, generation: Generation) -> KafkaError | None:
        """The error of the last heartbeat for this generation, or None. An error is returned only once."""
        with self.changed:
            about, self._failure = self._failure, None
            return about[1] if about is not None and about[0] == generation else None

    # -- the heartbeat thread

    def due(self) -> float | None:
        if self._for is None:
            return None
        return min(self._next, self._polled_at + self._settings.max_poll_interval_ms / 1000) - now()

    def work(self, cluster: Cluster) -> None:
        with self.changed:
            who = self._for
            stuck = now() >= self._polled_at + self._settings.max_poll_interval_ms / 1000
        if who is None:
            return
        if stuck:
            self._leave(cluster, who)
        else:
            self._send_heartbeat(cluster, who)

    def _send_heartbeat(self, cluster: Cluster, who: Generation) -> None:
        # Half of the session timeout for an attempt leaves time to find a new coordinator.
        deadline = Deadline.after(self._settings.session_timeout_ms / 2000)
        error: KafkaError | None = None
        try:
            connection = cluster.coordinator(self._key, deadline)
            version = connection.version_of(HeartbeatRequest)
            request = heartbeat_request(self._group, who, self._settings.instance_id, version)
            if code := connection.call(request, version, deadline=deadline).error_code:
                error = error_from_code(code, "Heartbeat", group=self._group)
        except KafkaError as failure:
            error = failure
        if error is not None:
            cluster.learn(error, coordinator=self._key)
        with self.changed:
            if error is not None and error.retriable:
                self._failures += 1
                self._next = now() + self._pause()
                return
            self._failures = 0
            self._next = now() + self._interval
            if who != self._for or error is None:
                return
            self._failure = (who, error)
            if error.reaction is None or error.reaction in _SILENCED:
                self._for = None
            self.changed.notify_all()

    def _leave(self, cluster: Cluster, who: Generation) -> None:
        with self.changed:
            self._for, self._expired = None, True
            self.changed.notify_all()
        if self._settings.instance_id is None:
            leave(
                cluster, self._group, who, None, "the application did not poll within max.poll.interval.ms", seconds=5.0
            )

    def _pause(self) -> float:
        return min(self._config.retry.pause_after(self._failures), self._interval)


def leave(
    cluster: Cluster, group: str, who: Generation, instance_id: str | None, reason: str, *, seconds: float
) -> bool:
    """Try to leave the group within `seconds`; returns whether the coordinator has confirmed it.

    Errors are not raised: without a response the session timeout removes the member.
    """
    key: CoordinatorKey = ("group", group)

    def attempt(deadline: Deadline) -> None:
        connection = cluster.coordinator(key, deadline)
        version = connection.version_of(LeaveGroupRequest)
        response = connection.call(leave_request(group, who, instance_id, version, reason), version, deadline=deadline)
        code = response.error_code or next((m.error_code for m in response.members if m.error_code), 0)
        if code:
            raise error_from_code(code, "LeaveGroup", group=group)

    try:
        cluster.retry(attempt, coordinator=key, timeout=seconds)
    except KafkaError:
        return False
    return True
