"""The one retry policy: exponential backoff with jitter, and an overall deadline.

    pause n = min(initial * 2**n, maximum) * (1 ± jitter); none that would reach the deadline

The error says whether to try again (`KafkaError.retriable`); `client.cluster.cluster` does what has to come before the
next try (refresh the metadata, forget a coordinator). Defaults and names are those of Java's `retry.backoff.ms` and
`retry.backoff.max.ms` (KIP-580), the deadline is `default.api.timeout.ms` (KIP-266).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from kseg.client.errors import BrokerUnavailable, KafkaError, RequestTimedOut

JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point on the monotonic clock, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds left, 0.0 once it has passed."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at

    def within(self, seconds: float) -> Deadline:
        """The earlier one of this deadline and `seconds` from now."""
        return Deadline(min(self.at, time.monotonic() + seconds))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The pauses between tries, in seconds. `start` gives the state of one operation's tries."""

    initial: float = 0.1
    maximum: float = 1.0

    def pause_after(self, failures: int) -> float:
        """The pause after this many failures in a row (from 1 on), without jitter."""
        # 2**30 times any pause is beyond every maximum.
        return min(self.initial * 2.0 ** min(failures - 1, 30), self.maximum)

    def start(
        self,
        deadline: Deadline,
        *,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> Backoff:
        return Backoff(self, deadline, sleep, uniform)


class Backoff:
    """The tries of one operation.

    while True:
        try:
            return attempt()
        except KafkaError as error:
            backoff.pause(error)
    """

    def __init__(
        self,
        policy: RetryPolicy,
        deadline: Deadline,
        sleep: Callable[[float], None],
        uniform: Callable[[float, float], float],
    ) -> None:
        self.deadline = deadline
        self.failures = 0
        self._policy = policy
        self._sleep = sleep
        self._uniform = uniform
        self._started = time.monotonic()
        self._answered: KafkaError | None = None
        self._at_once = True

    def extend(self, seconds: float) -> None:
        """A broker asks for so much time, which is not to be taken from that of the tries."""
        self.deadline = Deadline(self.deadline.at + seconds)

    def pause(self, error: KafkaError) -> None:
        """Sleep before the next try; raises `error` itself if it is not retriable or no time is left for another.

        Where the deadline cut the last try short, the error that the try before it was answered with is raised.
        """
        self.failures += 1
        if not _without_answer(error):
            self._answered = error
        elif error.retriable and self.deadline.passed and self._answered is not None:
            self._answered.sent |= error.sent  # what was asked for may have been done all the same
            raise self._given_up(self._answered)
        else:
            self._answered = None  # no broker answers any more: that is what is wrong now
        if not error.retriable:
            raise error
        if error.learnt and self._at_once and not self.deadline.passed:
            # The answer itself named the new leader (KIP-951), so there is nothing to wait for; but brokers that name
            # one another would be asked without end.
            self._at_once = False
            return
        pause = self._policy.pause_after(self.failures) * self._uniform(1.0 - JITTER, 1.0 + JITTER)
        # A try that begins at the deadline can only time out, and would hide what was really wrong.
        if pause >= self.deadline.remaining():
            raise self._given_up(error)
        self._sleep(pause)

    def _given_up(self, error: KafkaError) -> KafkaError:
        seconds = time.monotonic() - self._started
        error.add_note(f"gave up at try {self.failures}, after {seconds:.1f} s")
        return error


def _without_answer(error: KafkaError) -> bool:
    return isinstance(error, RequestTimedOut | BrokerUnavailable) and error.code is None
