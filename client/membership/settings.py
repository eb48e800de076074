"""The settings of a group member, checked."""

from __future__ import annotations

from dataclasses import dataclass

from kseg.client.errors import ConfigError, ConfigFault


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Times in milliseconds; names and defaults are those of Java's consumer (`instance_id`: `group.instance.id`).

    `rebalance_timeout_ms`, which Java's consumer does not have: None means `max_poll_interval_ms`. With the new
    protocol the coordinator sets session timeout and heartbeat interval: the values here are ignored.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rebalance_timeout_ms: int | None = None
    instance_id: str | None = None

    @property
    def rebalance_timeout(self) -> int:
        """The time, in ms, that a rebalance waits for this member to rejoin or to revoke partitions."""
        return self.max_poll_interval_ms if self.rebalance_timeout_ms is None else self.rebalance_timeout_ms

    def check(self, *, classic: bool = True) -> None:
        """Raises ConfigError with all faults. `classic`: with the classic protocol."""
        times = {
            "max.poll.interval.ms": self.max_poll_interval_ms,
            "rebalance.timeout.ms": self.rebalance_timeout,
        }
        if classic:
            times = {
                "session.timeout.ms": self.session_timeout_ms,
                "heartbeat.interval.ms": self.heartbeat_interval_ms,
            } | times
        faults = [
            ConfigFault(name, f"{value} is not a valid duration", "give a whole number of milliseconds above 0")
            for name, value in times.items()
            if value <= 0
        ]
        if classic and self.heartbeat_interval_ms >= self.session_timeout_ms:
            faults.append(
                ConfigFault(
                    "heartbeat.interval.ms",
                    f"{self.heartbeat_interval_ms} is not below session.timeout.ms ({self.session_timeout_ms})",
                    "a third of the session timeout allows for two lost heartbeats",
                )
            )
        if self.instance_id == "":
            faults.append(ConfigFault("group.instance.id", "is empty", "leave it out for a dynamic member"))
        if faults:
            raise ConfigError(faults)
