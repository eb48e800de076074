"""Leases: who gets one, how it is kept, and how a holder learns that it is gone."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from kseg.etl.errors import AnotherRunActive, RetriableFailure
from kseg.etl.ledger import events as ev
from kseg.etl.ledger import lease as leases
from kseg.etl.ledger import maintenance
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.lease import acquire, grace, owner_name
from kseg.etl.ledger.store import Ledger

LONG = timedelta(seconds=60)


def kinds(ledger):
    return [entry.event.KIND for entry in ledger.events("orders")]


def until(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def at_time(monkeypatch):
    """Set the wall clock that leases are judged by; the monotonic one runs on."""
    real = leases._Moment.now

    def set_to(wall):
        monkeypatch.setattr(leases._Moment, "now", classmethod(lambda cls: cls(real().monotonic, wall)))

    return set_to


class TestTaking:
    def test_a_free_chain_is_taken_and_given_back(self, ledger):
        with acquire(ledger, "orders", duration=LONG, owner="me") as lease:
            lease.check()
            state = ledger.read("orders")
            assert state.lease().owner == "me"
            assert state.lease().live(datetime.now(UTC))
        assert ledger.read("orders").lease().released
        with pytest.raises(LeaseLost, match="released"):
            lease.check()
        with acquire(ledger, "orders", duration=LONG) as again:
            assert again.attempt == 2
            assert ledger.events("orders")[-1].event.taken_from is None

    def test_a_live_lease_stops_a_newcomer(self, ledger):
        with acquire(ledger, "orders", duration=LONG, owner="first"):
            with pytest.raises(AnotherRunActive) as active:
                acquire(Ledger.open(ledger.path), "orders", duration=LONG)
            assert active.value.owner == "first"
            assert active.value.exit_code == 5
            assert active.value.until > datetime.now(UTC)
        assert kinds(ledger) == ["leased", "released"]

    def test_each_chain_and_each_job_has_its_own(self, ledger):
        with (
            acquire(ledger, "orders", duration=LONG),
            acquire(ledger, "orders", "backfill-1", duration=LONG),
            acquire(ledger, "other", duration=LONG),
        ):
            assert set(ledger.read("orders").leases) == {ev.INCREMENTAL, "backfill-1"}

    def test_take_over_takes_a_live_one_and_the_holder_finds_out(self, ledger):
        first = acquire(ledger, "orders", duration=LONG, owner="first")
        with acquire(Ledger.open(ledger.path), "orders", duration=LONG, take_over=True) as second:
            taken = ledger.events("orders")[-1].event
            assert (taken.taken_from, taken.forced, taken.attempt) == ("first", True, 2)
            with pytest.raises(LeaseLost):
                first.transition(lambda state: [BasePinned(bases={}, reason="group")])
            with pytest.raises(LeaseLost):
                first.check()
            second.check()
        first.release()  # gives nothing back
        assert kinds(ledger) == ["leased", "leased", "released"]

    def test_an_expired_one_is_taken_after_a_grace_for_clocks_that_differ(self, ledger, words, at_time):
        state = ledger.transition("orders", lambda state: [words.lease(owner="dead", duration=60.0)])
        for seconds in (-1, 1, 5):
            at_time(state.lease().until + timedelta(seconds=seconds))
            with pytest.raises(AnotherRunActive):
                acquire(ledger, "orders", duration=LONG)
        at_time(state.lease().until + timedelta(seconds=7))
        with acquire(ledger, "orders", duration=LONG):
            taken = ledger.events("orders")[-1].event
            assert (taken.taken_from, taken.forced) == ("dead", False)

    def test_the_grace_is_a_tenth_and_ten_seconds_at_most(self):
        assert [grace(seconds).total_seconds() for seconds in (1, 60, 100, 3600)] == [0.1, 6.0, 10.0, 10.0]

    def test_of_many_at_once_one_gets_it(self, ledger):
        def take(_):
            try:
                return acquire(Ledger.open(ledger.path), "orders", duration=LONG)
            except AnotherRunActive:
                return None

        with ThreadPoolExecutor(6) as pool:
            held = [lease for lease in pool.map(take, range(6)) if lease is not None]
        assert len(held) == 1
        held[0].release()
        assert kinds(ledger) == ["leased", "released"]

    def test_processes_hold_it_one_after_the_other(self, ledger, worker, scale):
        started = [worker("take", ledger.path, scale(4, 50)) for _ in range(2)]
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        won = sum(int(process.communicate(timeout=120)[0]) for process in started)
        assert won >= 1
        assert kinds(ledger) == ["leased", "released"] * won

    @pytest.mark.parametrize("seconds", [0, -1])
    def test_a_lease_has_a_duration(self, ledger, seconds):
        with pytest.raises(ValueError, match="duration"):
            acquire(ledger, "orders", duration=timedelta(seconds=seconds))


class TestKeeping:
    def test_it_is_renewed_while_its_holder_lives(self, ledger):
        with acquire(ledger, "orders", duration=timedelta(seconds=9)) as lease:
            until(lambda: kinds(ledger).count("renewed") >= 2)
            lease.check()
            with pytest.raises(AnotherRunActive):
                acquire(ledger, "orders", duration=LONG)

    def test_its_own_events_are_signed(self, ledger, words):
        with acquire(ledger, "orders", "b", duration=LONG, owner="me") as lease:
            state = lease.transition(lambda state: [words.plan(state, "b", (0, 9), mode="interval", owner="x")])
            event = ledger.events("orders")[-1].event
            assert (event.chain, event.owner, event.attempt, event.run_id) == ("b", "me", 1, "b")
            assert state.unfinished("b") is not None

    def test_a_store_that_is_away_for_a_while_costs_nothing(self, ledger, monkeypatch):
        real, tries = Ledger.transition, []

        def transition(self, *args, **kwargs):
            tries.append(args)
            if len(tries) <= 2:
                raise RetriableFailure("away")
            return real(self, *args, **kwargs)

        with acquire(ledger, "orders", duration=timedelta(seconds=9)) as lease:
            monkeypatch.setattr(Ledger, "transition", transition)
            until(lambda: "renewed" in kinds(ledger))
            assert len(tries) > 2
            lease.check()

    def test_a_store_that_stays_away_loses_the_lease_at_its_end(self, ledger, monkeypatch):
        def transition(self, *args, **kwargs):
            raise RetriableFailure("away")

        lease = acquire(ledger, "orders", duration=timedelta(seconds=0.6))
        monkeypatch.setattr(Ledger, "transition", transition)

        def has_run_out():
            try:
                lease.check()
            except LeaseLost as lost:
                return "ran out" in str(lost)
            return False

        until(has_run_out)
        lease.release()

    def test_the_keeper_finds_out_by_itself(self, ledger):
        first = acquire(ledger, "orders", duration=timedelta(seconds=6))
        with acquire(Ledger.open(ledger.path), "orders", duration=LONG, take_over=True):
            until(lambda: first._lost is not None)
            with pytest.raises(LeaseLost, match="taken over"):
                first.check()
        first.release()

    def test_a_clock_that_jumps_ahead_ends_it(self, ledger, at_time):
        """A machine that slept: its monotonic clock stood still."""
        with acquire(ledger, "orders", duration=LONG) as lease:
            at_time(datetime.now(UTC) + timedelta(hours=1))
            with pytest.raises(LeaseLost, match="ran out"):
                lease.check()
            at_time(datetime.now(UTC))
            with pytest.raises(LeaseLost):  # once lost it stays lost
                lease.check()

    def test_a_long_run_leaves_few_files(self, ledger, monkeypatch):
        compacted = []
        monkeypatch.setattr(leases, "RENEWALS_A_COMPACTION", 2)
        monkeypatch.setattr(maintenance, "compact", lambda *args: compacted.append(args))
        with acquire(ledger, "orders", duration=timedelta(seconds=6)):
            until(lambda: compacted)
        assert compacted[0] == (ledger, "orders")


class TestSuspended:
    """A process stopped in its tracks, as by a debugger, a container's freezer or a machine that swaps."""

    def ask(self, process, line):
        process.stdin.write(f"{line}\n")
        process.stdin.flush()
        return process.stdout.readline().split()

    @pytest.mark.parametrize("another", [True, False])
    def test_past_its_lease_it_writes_nothing(self, ledger, worker, another):
        holder = worker("hold", ledger.path, 6)
        assert holder.stdout.readline() == "held 1\n"
        assert self.ask(holder, 0) == ["held", "wrote"]
        os.kill(holder.pid, signal.SIGSTOP)
        time.sleep(6)
        if another:
            until(lambda: datetime.now(UTC) > ledger.read("orders").lease().until + grace(6))
            with acquire(ledger, "orders", duration=LONG) as lease:
                lease.transition(lambda state: [ev.TopicSeen(topics={"orders": ev.TopicIdentity()})])
        os.kill(holder.pid, signal.SIGCONT)
        assert self.ask(holder, 1) == ["LeaseLost", "LeaseLost"]
        holder.stdin.close()
        assert holder.wait(timeout=120) == 0
        state = ledger.read("orders")
        assert [tp.partition for tp in state.bases] == [0]
        assert ("orders" in state.topics) == another

    def test_between_decision_and_commit_it_is_fenced_by_the_table(self, ledger, worker):
        """Nothing but the commit itself can stop this one: it checked, it decided, and then it slept."""
        sleeper = worker("write_unchecked", ledger.path, 0.5)
        assert sleeper.stdout.readline() == "held\n"
        assert self.ask(sleeper, "go") == ["decided"]
        time.sleep(0.6)
        with acquire(ledger, "orders", duration=LONG):
            assert self.ask(sleeper, "commit") == ["LeaseLost", "2"]
        assert ledger.read("orders").bases == {}


def test_in_a_container_of_yarns_a_holder_is_named_after_it(monkeypatch):
    assert owner_name().startswith(f"{socket.gethostname()}:{os.getpid()}:")
    monkeypatch.setenv("CONTAINER_ID", "container_1767225600000_0042_01_000001")
    assert owner_name().startswith(f"container_1767225600000_0042_01_000001:{os.getpid()}:")
    assert owner_name() != owner_name()


def test_a_holder_that_was_given_a_name_by_its_starter_bears_it(monkeypatch):
    monkeypatch.setenv("KSEG_DRIVER", "4f1c2d")
    assert owner_name().startswith(f"{socket.gethostname()}:{os.getpid()}:4f1c2d-")
    assert owner_name() != owner_name()


def test_a_later_attempt_of_a_yarn_application_takes_the_lease_of_the_one_before_and_nobody_elses(ledger):
    def owner(container):
        return f"container_{container}:4711:ab12"

    first = owner("e17_1767225600000_0042_01_000001")
    held = acquire(ledger, "orders", duration=LONG, owner=first)
    for other in ("e17_1767225600000_0043_02_000001", "e17_1767225600000_0042_01_000002"):
        with pytest.raises(AnotherRunActive):
            acquire(ledger, "orders", duration=LONG, owner=owner(other))
    second = acquire(ledger, "orders", duration=LONG, owner=owner("e18_1767225600000_0042_02_000001"))
    taken = [entry.event for entry in ledger.events("orders") if isinstance(entry.event, ev.Leased)]
    assert [event.taken_from for event in taken] == [None, first]
    with pytest.raises(LeaseLost):
        held.transition(lambda state: [])
    second.release()


class Signalled(BaseException):
    """What the handler of a signal raises in the midst of a step."""


@pytest.mark.parametrize("when", ["before", "after"])
class TestASignal:
    """It ends the process in order: no lease is left for others to wait for."""

    @pytest.fixture
    def interrupted(self, ledger, monkeypatch, when):
        """The next transition raises, before or after its commit."""
        whole, left = ledger.transition, [1]

        def transition(*args, **kwargs):
            first = bool(left) and left.pop()
            if first and when == "before":
                raise Signalled
            state = whole(*args, **kwargs)
            if first:
                raise Signalled
            return state

        return lambda: monkeypatch.setattr(ledger, "transition", transition)

    def test_while_a_lease_is_taken(self, ledger, interrupted, when):
        interrupted()
        with pytest.raises(Signalled):
            acquire(ledger, "orders", duration=LONG)
        assert kinds(ledger) == ([] if when == "before" else ["leased", "released"])

    def test_while_a_lease_is_released(self, ledger, interrupted, when):
        lease = acquire(ledger, "orders", duration=LONG)
        interrupted()
        with pytest.raises(Signalled):
            lease.release()
        assert kinds(ledger) == ["leased", "released"]
