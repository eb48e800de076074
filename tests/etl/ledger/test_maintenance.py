"""A ledger kept small says what it said before."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from client.partition import TopicPartition
from etl.ledger import events as ev
from etl.ledger.maintenance import KEEP, compact, maintain, retain
from etl.ledger.state import Archive, Summary
from etl.ledger.store import Ledger
from etl.ranges import OffsetRange, OffsetSet

BACKFILL = "backfill-7"


@pytest.fixture
def history(ledger, words):
    """A job that has seen everything: finished, abandoned and unfinished runs, a backfill, boundaries, losses."""

    def write(*events):
        return ledger.transition("orders", lambda state: list(events))

    def run(run_id, *ranges, **where):
        for event in words.whole_run(ledger.read("orders"), run_id, *ranges, **where):
            write(event)

    write(words.lease(), words.lease(chain=BACKFILL), words.lease(chain="empty"))
    write(
        words.step(ev.BasePinned, "", bases={words.tp: 0, TopicPartition("orders", 1): 5}, reason="configured"),
        words.step(ev.BoundaryPinned, "", time_ms=1000, offsets={words.tp: 4}),
        words.step(ev.OffsetsGivenUp, "", ranges=(OffsetRange("orders", 1, 5, 9),), reason="retention"),
    )
    run("r1", (0, 10))
    write(words.plan(ledger.read("orders"), "r2", (10, 20)))
    write(words.landed("r2"), words.step(ev.Abandoning, "r2"))
    write(words.step(ev.Abandoned, "r2"))
    run(BACKFILL, (30, 40), mode="backfill-missing")
    run("r3", (10, 12))
    write(words.plan(ledger.read("orders"), "r4", (12, 20)))
    write(words.landed("r4", table="u"))
    return ledger


def planner_view(state):
    """The state, less what a retention may forget."""
    return replace(
        state,
        version=0,
        updated_at=None,
        runs={r.run_id: r for r in state.unfinished_runs()},
        archive=Archive(),
        leases={},
    )


def test_retention_changes_nothing_that_a_planner_asks(history, words):
    before = history.read("orders")
    assert retain(history, "orders", now=before.updated_at + KEEP + timedelta(days=2))
    after = Ledger.open(history.path).read("orders")
    assert planner_view(after) == planner_view(before)
    assert history.read("orders") == replace(before, version=after.version)  # a process that knew it goes on

    assert after.unfinished() == before.unfinished()
    assert after.next_app_transaction() == (f"kseg/{history.id}/orders", 5)
    assert after.frontier(words.tp) == 12
    assert after.landed(words.tp) == OffsetSet.of([(0, 12), (30, 40)])
    assert after.given_up(TopicPartition("orders", 1)) == OffsetSet.single(5, 9)
    assert after.lease() == before.lease()

    # Old runs are sums; a backfill's name stays taken.
    assert list(after.runs) == [BACKFILL, "r4"]
    assert (after.runs[BACKFILL].phase, after.runs[BACKFILL].archived) == ("finished", True)
    assert after.next_app_transaction(BACKFILL)[1] == 2
    assert after.archive == Archive(runs=3, rows_in=12, rows_out=12, counts=ev.RangeCounts(data=12))


def test_the_job_goes_on_after_retention(history, words):
    now = history.read("orders").updated_at + timedelta(days=200)
    assert retain(history, "orders", now=now)
    for ledger in (history, Ledger.open(history.path)):
        state = ledger.read("orders")
        account = words.accounted(state.unfinished().plan) if state.unfinished().accounted is None else None
        if account:
            ledger.transition("orders", lambda state, account=account: [account])
    state = history.transition("orders", lambda state: [words.step(ev.Finished, "r4")])
    assert state.frontier(words.tp) == 20
    state = history.transition("orders", lambda state: [words.plan(state, "r5", (20, 30))])
    assert state.runs["r5"].sequence == 5
    # And again, over the summary of before.
    assert retain(history, "orders", now=now + timedelta(days=200))
    again = Ledger.open(history.path).read("orders")
    assert planner_view(again) == planner_view(state)
    assert [type(entry.event) for entry in history.events("orders")] == [Summary]


def test_young_events_stay_as_they_are(history):
    before = history.events("orders")
    assert not retain(history, "orders")
    assert history.events("orders") == before

    # Old enough, but not a day over it: a run that ends each minute does not rewrite each minute.
    assert not retain(history, "orders", now=before[-1].at + KEEP)
    assert retain(history, "orders", now=before[-1].at + KEEP + timedelta(days=1, seconds=1))


def test_retention_keeps_what_is_younger_than_it(ledger, words, monkeypatch):
    """Half of the events are made to be old."""
    import etl.ledger.store as store

    real = store.datetime

    class Past(real):
        @classmethod
        def now(cls, tz=None):
            return real.now(tz) - timedelta(days=100)

    def run(run_id, span):
        for event in words.whole_run(ledger.read("orders"), run_id, span):
            ledger.transition("orders", lambda state, event=event: [event])

    monkeypatch.setattr(store, "datetime", Past)
    ledger.transition("orders", lambda state: [words.lease()])
    ledger.transition("orders", lambda state: [words.step(ev.BasePinned, "", bases={words.tp: 0}, reason="group")])
    run("older", (0, 5))
    run("old", (5, 10))
    monkeypatch.undo()
    run("young", (10, 20))
    before = ledger.read("orders")
    young = ledger.events("orders")[-5:]

    maintain(ledger, "orders")
    after = Ledger.open(ledger.path).read("orders")
    assert planner_view(after) == planner_view(before)
    assert after.runs["young"] == before.runs["young"]
    assert list(after.runs) == ["old", "young"]
    assert after.archive.runs == 1
    events = ledger.events("orders")
    assert isinstance(events[0].event, Summary)
    assert (events[0].sequence, events[1:]) == (12, young)
    assert not retain(ledger, "orders")


def test_the_last_incremental_run_is_never_folded_away(ledger, words):
    ledger.transition("orders", lambda state: [words.lease()])
    for number in range(3):
        for event in words.whole_run(ledger.read("orders"), f"r{number}", (number, number + 1)):
            ledger.transition("orders", lambda state, event=event: [event])
    now = ledger.read("orders").updated_at + timedelta(days=1000)
    assert retain(ledger, "orders", now=now)
    state = Ledger.open(ledger.path).read("orders")
    assert list(state.runs) == ["r2"]
    assert state.runs["r2"].plan.pinned_config == "{}"


def test_other_jobs_keep_their_events(history, words):
    history.transition("other", lambda state: [words.lease()])
    before = history.events("other")
    assert retain(history, "orders", now=history.read("orders").updated_at + timedelta(days=200))
    assert history.events("other") == before
    assert Ledger.open(history.path).read("other").lease().owner == "me"


def test_compaction_leaves_one_file_and_every_event(history):
    before = history.events("orders")
    assert not compact(history, "orders", small_files=1000)
    assert compact(history, "orders", small_files=5)
    assert len(DeltaTable(history.path).file_uris()) == 1
    assert history.events("orders") == before
    assert not compact(history, "orders", small_files=5)


def test_a_run_that_ends_keeps_its_ledger_small(ledger, words):
    ledger.transition("orders", lambda state: [words.lease()])
    for number in range(52):
        ledger.transition(
            "orders",
            lambda state, number=number: [
                words.step(ev.BoundaryPinned, "", time_ms=number, offsets={words.tp: number})
            ],
        )
        maintain(ledger, "orders")
        assert len(DeltaTable(ledger.path).file_uris()) <= 40
    log = Path(ledger.path) / "_delta_log"
    assert list(log.glob("*.checkpoint.parquet"))
    assert Ledger.open(ledger.path).read("orders").sequence == 53


def test_maintenance_of_a_job_that_is_not_there(ledger):
    maintain(ledger, "nothing")
    assert ledger.jobs() == []
