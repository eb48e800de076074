"""Which dead letters are older than their retention, by the ends of their runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import Letter
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.ledger.state import JobState, LeaseState, RunState
from kseg.etl.operations.expire_letters import _event

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TP = TopicPartition("orders", 0)
DROPPED = incremental_run_id("L", "orders", 1)


def run(run_id: str, mode: ev.Mode, ended: datetime) -> RunState:
    chain = ev.INCREMENTAL if mode == "incremental" else run_id
    plan = ev.RunPlan(run_id, mode, chain, "app", 1, "", "{}", None, {}, (), {}, dead_letters="dead")
    return RunState(plan, ended - timedelta(minutes=1), finished=True, ended_at=ended)


def state(*runs: RunState) -> JobState:
    lease = LeaseState(ev.INCREMENTAL, "me", 900, NOW - timedelta(hours=3), NOW - timedelta(hours=3), 60.0, True)
    return JobState(
        "orders",
        "L",
        runs={one.run_id: one for one in runs},
        leases={ev.INCREMENTAL: lease},
        landed_offsets={TP: OffsetSet.single(0, 100)},
    )


def expired(of: JobState, now: datetime = NOW) -> set[str]:
    """With a retention of a week."""
    return set(_event(of, "dead", [Letter(*TP, 5, DROPPED)], now - timedelta(days=7)).runs)


OLD = run("redrive", "redrive", NOW - timedelta(days=60))
"""A summary never drops the runs of other chains."""


@pytest.mark.parametrize("later", [run("r2", "incremental", NOW - timedelta(hours=4)), None])
def test_letters_of_a_run_that_a_summary_has_dropped_stay_for_their_retention(later: RunState | None) -> None:
    """A job that runs every minute has dropped a run after four hours."""
    known = state(OLD, *([later] if later is not None else []))
    assert expired(known) == set()
    assert expired(known, NOW + timedelta(days=8)) == {DROPPED}


def test_letters_of_a_lost_ledger_expire_by_the_runs_since_it_was_rebuilt() -> None:
    """They were `unknown` for ever: no run of this ledger shows when theirs ended."""
    of_lost, of_another = (incremental_run_id(*of, 1) for of in (("lost", "orders"), ("lost", "invoices")))
    letters = [Letter(*TP, 5, run_id) for run_id in (of_lost, of_another)]
    for age, gone in ((8, {of_lost}), (6, set())):
        known = replace(state(run("r2", "incremental", NOW - timedelta(days=age))), lost_ledgers=("lost",))
        event = _event(known, "dead", letters, NOW - timedelta(days=7))
        assert (set(event.runs), event.counts) == (gone, {"unknown": 1} if gone else {})


def test_letters_of_a_dropped_run_expire_by_the_incremental_run_after_it() -> None:
    following = run("r2", "incremental", NOW - timedelta(days=8))
    assert expired(state(OLD, following)) == {DROPPED}
    assert expired(replace(state(OLD, following), leases={})) == {DROPPED}
