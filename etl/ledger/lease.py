"""The lease of a chain: its holder, its duration, and how the holder detects that it has lost the lease.

The event `leased` has the holder and the duration. A background thread writes `renewed`, the heartbeat, every third of
the duration. A holder whose lease expires stops by itself. Correctness does not depend on that: every event of a run
has the number of its lease (a fencing token), and a transition with a number that is not the chain's last is rejected.

Two clocks are used. The holder measures from *before* the timestamp of a renewal, with its monotonic clock and its wall
clock (the first one detects a suspended process, the second one a suspended machine). Another process compares the
timestamps in the ledger, which are of the holder's wall clock, with its own clock, and adds a grace period of a tenth
of the duration, at most ten seconds: if the clocks differ by less, the old holder stops first.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Final

from kseg.etl.errors import AnotherRunActive, KsegError, RetriableFailure
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.events import INCREMENTAL, Event, Leased, Released, Renewed
from kseg.etl.ledger.holder_process import process_mark
from kseg.etl.ledger.state import JobState, LeaseState
from kseg.etl.ledger.store import DEADLINE, Decide, Ledger

RENEWALS_A_COMPACTION = 64
RELEASE_DEADLINE: Final = 10.0
"""Seconds for the release of a lease: it lets another driver start sooner, but must not delay the end of a process."""

# container_[e<epoch>_]<of the cluster>_<of the application>_<attempt>_<of the container>
_CONTAINER: Final = re.compile(r"container_(?:e\d+_)?(\d+_\d+)_(\d+)_\d+:")


def owner_name() -> str:
    """A unique name: host, process id, and a random part with the process' mark (`etl.ledger.holder_process`).

    In a YARN container, the container's id replaces the host: it contains the application's id, and ``yarn logs`` finds
    it. A launcher that does not know on which host the process runs sets KSEG_DRIVER: the random part begins with it.
    """
    host = os.environ.get("CONTAINER_ID") or socket.gethostname()
    given = os.environ.get("KSEG_DRIVER")
    return f"{host}:{os.getpid()}:{f'{given}-' if given else ''}{secrets.token_hex(4)}{process_mark()}"


def replaces(name: str, before: str) -> bool:
    """Whether YARN has started this owner as a later attempt of the other's application."""
    ours, theirs = _CONTAINER.match(name), _CONTAINER.match(before)
    return ours is not None and theirs is not None and ours[1] == theirs[1] and int(ours[2]) > int(theirs[2])


def grace(duration: float) -> timedelta:
    """How long another process waits after a lease's end, because clocks differ. duration: seconds."""
    return timedelta(seconds=min(duration / 10, 10.0))


def acquire(
    ledger: Ledger,
    job: str,
    chain: str = INCREMENTAL,
    *,
    owner: str | None = None,
    duration: timedelta = timedelta(minutes=2),
    take_over: bool = False,
    deadline: float = DEADLINE,
    succeeds: Callable[[str], bool] | None = None,
) -> Lease:
    """Take the chain's lease and keep it until it is released. Use the result as a context manager.

    The lease is free if it was never taken, was released or has expired, or if this process is a later YARN attempt of
    the holder's application; with take_over, a live lease is taken, too. A former holder that is still running detects
    this at its next `check` or transition.

    duration: time until the lease expires without a renewal. deadline: seconds for the transition. succeeds: whether
    the holder with this name is known to be dead, or has been fenced, so that its live lease may be taken.

    Raises:
        AnotherRunActive: another process holds the lease.
        ConfigurationError: the ledger's store is not put-if-absent.
        RetriableFailure, Refused: as `Ledger.transition`.
    """
    if duration <= timedelta(0):
        raise ValueError(f"a lease needs a duration, got {duration}")
    # At the start of every run: if this fails, the lease below would exclude nobody.
    ledger.check_store()
    name = owner or owner_name()
    seconds = duration.total_seconds()
    since, attempt = _Moment.now(), 0

    def may_replace(other: str) -> bool:
        return replaces(name, other) or (succeeds is not None and succeeds(other))

    def decide(state: JobState) -> Sequence[Event]:
        nonlocal since, attempt
        since = _Moment.now()
        before, attempt = state.lease(chain), state.next_attempt(chain)
        live = before is not None and before.live(since.wall - grace(before.duration))
        if before is not None and live and not take_over and not may_replace(before.owner):
            raise AnotherRunActive(
                "another run holds the lease", owner=before.owner, until=before.until, job=job, chain=chain
            )
        return [
            Leased(
                chain=chain,
                owner=name,
                attempt=attempt,
                duration=seconds,
                taken_from=None if before is None or before.released else before.owner,
                forced=live,
            )
        ]

    try:
        state = ledger.transition(job, decide, deadline=deadline)
        taken = state.lease(chain)
        if taken is None or (taken.owner, taken.attempt) != (name, attempt):
            # After a lost response this is the current state, and another process may have taken over since.
            other = taken.owner if taken else None
            raise LeaseLost("the lease was taken over at once", owner=other, job=job, chain=chain)
        return Lease(ledger, job, taken, since, taken_over=take_over)
    except Exception:
        raise
    except BaseException:  # of a signal: the lease may have been written, and nobody would release it
        _release_unheld(ledger, job, chain, name)
        raise


def _release_unheld(ledger: Ledger, job: str, chain: str, owner: str) -> None:
    """Release the lease if this owner has taken it. Never raises a KsegError: a lease expires by itself."""

    def decide(state: JobState) -> Sequence[Event]:
        lease = state.lease(chain)
        if lease is None or lease.owner != owner or lease.released:
            return []
        return [Released(chain=chain, owner=owner, attempt=lease.attempt)]

    with suppress(KsegError):
        ledger.transition(job, decide, deadline=RELEASE_DEADLINE)


class _Moment:
    """One point in time on both clocks."""

    __slots__ = ("monotonic", "wall")

    def __init__(self, monotonic: float, wall: datetime) -> None:
        self.monotonic = monotonic
        self.wall = wall

    @classmethod
    def now(cls) -> _Moment:
        return cls(time.monotonic(), datetime.now(UTC))


class Lease:
    """A held lease. A background thread renews it until `release`, or until it is lost."""

    def __init__(self, ledger: Ledger, job: str, taken: LeaseState, since: _Moment, *, taken_over: bool) -> None:
        """Use `acquire`."""
        self.ledger = ledger
        self.job = job
        self.chain = taken.chain
        self.owner = taken.owner
        self.attempt = taken.attempt
        self.duration = taken.duration
        self.taken_over = taken_over  # the user asserts that no other holder is active
        self._since = since
        self._lock = threading.Lock()
        self._lost: LeaseLost | None = None
        self._on_loss: Callable[[], None] | None = None
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"kseg-lease-{job}-{self.chain}", daemon=True)
        self._keeper.start()

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def check(self) -> None:
        """Return if the lease has not expired and is not known to be lost; call it before every visible change.

        Raises:
            LeaseLost: it was taken over or released, or could not be renewed for its duration. Once lost
                it stays lost.
        """
        with self._lock:
            if self._lost is None:
                self._lost = self._expired()
            if self._lost is not None:
                raise self._lost

    def read(self) -> JobState:
        """The job's state, read from the ledger while this lease is the chain's last.

        Raises:
            LeaseLost: also if another process has taken the lease since.
            what `Ledger.read` raises.
        """
        self.check()
        state = self.ledger.read(self.job)
        try:
            self._must_hold(state)
        except LeaseLost as lost:
            self._lose(lost)
            raise
        return state

    @contextmanager
    def on_loss(self, function: Callable[[], None]) -> Iterator[None]:
        """Within this context, the loss of the lease calls the function in the thread that detects it, to stop work."""
        self._on_loss = function
        try:
            yield
        finally:
            self._on_loss = None

    def transition(self, decide: Decide, *, deadline: float = DEADLINE) -> JobState:
        """Does the same as `Ledger.transition`, with the events written under this lease (chain, owner and attempt are
        filled in).

        Raises:
            LeaseLost: also if another process has taken the lease since; nothing was written.
            what `Ledger.transition` raises.
        """
        self.check()

        def under_lease(state: JobState) -> Sequence[Event]:
            self._must_hold(state)
            return [self.sign(event) for event in decide(state)]

        try:
            return self.ledger.transition(self.job, under_lease, deadline=deadline)
        except LeaseLost as lost:
            self._lose(lost)
            raise

    def sign(self, event: Event) -> Event:
        """The event with this lease's chain, owner and attempt."""
        return replace(event, chain=self.chain, owner=self.owner, attempt=self.attempt)

    def release(self) -> None:
        """Stop the renewals and release the lease, if it is still held. Never raises a KsegError: a lease expires by
        itself."""
        if self._stop.is_set():
            return
        self._stop.set()
        try:
            self._release()
        except Exception:
            raise
        except BaseException:  # of a signal, which ends the process: release the lease nevertheless
            self._release()
            raise

    def _release(self) -> None:
        self._keeper.join(timeout=self.duration)
        # Taken over, expired, or the store is not available: the run's own error is the one to report.
        with suppress(KsegError):
            self.transition(lambda state: [Released()], deadline=min(self.duration, RELEASE_DEADLINE))
        self._lose(LeaseLost("the lease was released", job=self.job, chain=self.chain))

    def _keep(self) -> None:
        pause = self.duration / 3
        renewals = 0
        while not self._stop.wait(pause):
            try:
                self.check()
                self._renew()
            except LeaseLost as lost:
                self._lose(lost)
                return
            except RetriableFailure:
                # The store is not available at the moment. There is time for some retries before the lease expires.
                pause = self.duration / 12
                continue
            except KsegError as error:
                failed = LeaseLost(f"the lease could not be renewed: {error}", job=self.job, chain=self.chain)
                failed.__cause__ = error
                self._lose(failed)
                return
            pause = self.duration / 3
            renewals += 1
            if renewals % RENEWALS_A_COMPACTION == 0:
                from kseg.etl.ledger.maintenance import compact

                # Without it a run of many hours would leave a file for each renewal.
                with suppress(KsegError):
                    compact(self.ledger, self.job)

    def _renew(self) -> None:
        moment = self._since

        def decide(state: JobState) -> Sequence[Event]:
            nonlocal moment
            # Before the event gets its timestamp: the lease expires for the holder a little before the ledger's time.
            moment = _Moment.now()
            self._must_hold(state)
            return [self.sign(Renewed())]

        self.ledger.transition(self.job, decide, deadline=self.duration / 4)
        with self._lock:
            self._since = moment

    def _must_hold(self, state: JobState) -> None:
        lease = state.lease(self.chain)
        if lease is None or (lease.owner, lease.attempt) != (self.owner, self.attempt) or lease.released:
            raise LeaseLost(
                "the lease was taken over",
                owner=lease.owner if lease else None,
                until=lease.until if lease else None,
                remedy="run the job again: the unfinished run continues",
                job=self.job,
                chain=self.chain,
            )

    def _expired(self) -> LeaseLost | None:
        now = _Moment.now()
        idle = max(now.monotonic - self._since.monotonic, (now.wall - self._since.wall).total_seconds())
        if idle < self.duration:
            return None
        return LeaseLost(
            f"the lease ran out: not renewed for {idle:.1f} s, its duration is {self.duration:g} s",
            remedy="run the job again: the unfinished run continues. If this machine is slow, set a longer run.lease",
            job=self.job,
            chain=self.chain,
        )

    def _lose(self, lost: LeaseLost) -> None:
        with self._lock:
            if self._lost is None:
                self._lost = lost
        if (stop_work := self._on_loss) is not None:
            stop_work()
