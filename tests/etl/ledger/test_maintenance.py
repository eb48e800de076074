"""A ledger kept small says what it said before."""

import secrets
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger import maintenance, store
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.maintenance import KEEP, compact, maintain, retain, summarise
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet
from kseg.etl.ledger.state import Archive, Summary
from kseg.etl.ledger.store import Ledger

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
        words.step(BasePinned, "", bases={words.tp: 0, TopicPartition("orders", 1): 5}, reason="configured"),
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
    """The state, less what a summary may forget."""
    unfinished = {run.run_id: run for run in state.unfinished_runs()}
    return replace(state, version=0, runs=unfinished, archive=Archive())


def cold(ledger):
    """As a new process reads it."""
    return Ledger.open(ledger.path).read("orders")


def move_clock(monkeypatch, days):
    """Let transitions be written at another time."""
    real = store.datetime

    class Moved(real):
        @classmethod
        def now(cls, tz=None):
            return real.now(tz) + timedelta(days=days)

    monkeypatch.setattr(store, "datetime", Moved)


class TestSummaries:
    def test_a_reader_that_starts_from_one_comes_to_the_same(self, history, words, monkeypatch):
        monkeypatch.setattr(maintenance, "RUNS_KEPT", 0)
        before = history.read("orders")
        assert summarise(history, "orders", after=5)
        after = cold(history)
        assert planner_view(after) == planner_view(before)
        assert history.read("orders") == replace(before, version=after.version)  # who knew it before goes on from there

        assert after.unfinished() == before.unfinished()
        assert after.next_app_transaction() == (f"kseg/{history.id}/orders", 5)
        assert after.frontier(words.tp) == 12
        assert after.landed(words.tp) == OffsetSet.of([(0, 12), (30, 40)])
        assert after.given_up(TopicPartition("orders", 1)) == OffsetSet.single(5, 9)

        # Old runs are sums; a backfill's name stays taken.
        assert list(after.runs) == [BACKFILL, "r4"]
        assert (after.runs[BACKFILL].phase, after.runs[BACKFILL].archived) == ("finished", True)
        assert after.runs[BACKFILL].landed["t"].rows == 10
        # And so is every app transaction of theirs known in a table.
        known = {app: after.planned_app_version(after.job_app + app) for app in ("", f"/{BACKFILL}", "/unknown")}
        assert known == {"": 4, f"/{BACKFILL}": 1, "/unknown": 0}
        assert after.table_records == before.table_records
        assert after.table_records
        assert after.archive == Archive(3, 12, 12, ev.RangeCounts(data=12), {"t": 20})

    def test_the_last_runs_stay_in_full(self, history):
        before = history.read("orders")
        assert summarise(history, "orders", after=5)
        assert cold(history) == replace(before, version=before.version + 1)

    def test_it_is_made_after_so_many_transitions_and_not_before(self, history, words):
        sequence = history.read("orders").sequence
        assert not summarise(history, "orders")
        assert not summarise(history, "orders", after=sequence)
        assert summarise(history, "orders", after=sequence - 1)
        assert not summarise(history, "orders", after=0)
        history.transition("orders", lambda state: [ev.Renewed(owner="me", attempt=1)])
        assert summarise(history, "orders", after=0)

    def test_the_job_goes_on_the_same_for_who_knew_it_and_who_did_not(self, history, words, monkeypatch):
        monkeypatch.setattr(maintenance, "RUNS_KEPT", 0)
        knew = history
        assert summarise(knew, "orders", after=5)
        knew.transition("orders", lambda state: [words.accounted(state.unfinished().plan)])
        did_not = Ledger.open(history.path)
        did_not.transition("orders", lambda state: [words.step(ev.Finished, "r4")])
        assert summarise(did_not, "orders", after=0)
        did_not.transition("orders", lambda state: [words.lease(chain=BACKFILL, attempt=2)])
        knew.transition("orders", lambda state: [words.plan(state, "r5", (20, 30))])
        for ledger in (knew, did_not, Ledger.open(history.path)):
            state = ledger.read("orders")
            assert state.frontier(words.tp) == 20
            assert state.runs["r5"].sequence == 5
            assert planner_view(state) == planner_view(cold(history))

    def test_a_late_reader_skips_what_the_summary_stands_for(self, history, words):
        late = Ledger.open(history.path)
        late.read("orders")
        for number in range(5):
            history.transition(
                "orders", lambda state, n=number: [words.step(ev.BoundaryPinned, "", time_ms=n, offsets={words.tp: n})]
            )
        assert summarise(history, "orders", after=0)
        DeltaTable(history.path).delete("kind = 'boundary_pinned' AND payload LIKE '%\"time_ms\":3%'")
        assert late.read("orders").boundary(words.tp, 3) == 3

    def test_a_lost_summary_is_damage(self, history):
        assert summarise(history, "orders", after=0)
        DeltaTable(history.path).delete("kind = 'summary'")
        with pytest.raises(Refused) as refused:
            cold(history)
        assert refused.value.code == "ledger-damaged"

    def test_it_and_a_transition_exclude_each_other(self, history, words, monkeypatch):
        snapshot = Ledger.snapshot

        def slow(self, job):
            taken = snapshot(self, job)
            monkeypatch.undo()
            history.transition("orders", lambda state: [ev.Renewed(owner="me", attempt=1)])
            return taken

        monkeypatch.setattr(Ledger, "snapshot", slow)
        assert not summarise(history, "orders", after=0)
        assert summarise(history, "orders", after=0)


class TestRetention:
    def test_only_what_a_summary_stands_for_is_dropped(self, history):
        events = history.events("orders")
        late = events[-1].at + KEEP + timedelta(days=2)
        assert not retain(history, "orders", now=late)
        assert history.events("orders") == events
        before = history.read("orders")
        assert summarise(history, "orders", after=0)
        history.transition("orders", lambda state: [ev.Renewed(owner="me", attempt=1)])
        assert retain(history, "orders", now=late)
        assert [entry.event.KIND for entry in history.events("orders")] == ["summary", "renewed"]
        assert planner_view(cold(history)).landed_offsets == before.landed_offsets
        assert cold(history) == history.read("orders")
        version = cold(history).version
        assert not retain(history, "orders", now=late + timedelta(days=500))  # the summary itself, however old
        assert cold(history).version == version

    def test_young_events_stay(self, ledger, words, monkeypatch):
        def run(run_id, span):
            for event in words.whole_run(ledger.read("orders"), run_id, span):
                ledger.transition("orders", lambda state, event=event: [event])

        move_clock(monkeypatch, days=-100)
        ledger.transition("orders", lambda state: [words.lease()])
        run("old", (0, 10))
        monkeypatch.undo()
        run("young", (10, 20))
        before = ledger.read("orders")
        young = ledger.events("orders")[-5:]

        assert summarise(ledger, "orders", after=0)
        assert retain(ledger, "orders")
        events = ledger.events("orders")
        assert events[:5] == young
        assert [type(entry.event) for entry in events[5:]] == [Summary]
        assert cold(ledger) == replace(before, version=cold(ledger).version)
        assert set(cold(ledger).runs) == {"old", "young"}

    def test_it_waits_until_there_is_a_day_to_drop(self, history):
        assert summarise(history, "orders", after=0)
        oldest = history.events("orders")[0].at
        assert not retain(history, "orders", now=oldest + KEEP + timedelta(hours=23))
        assert retain(history, "orders", now=oldest + KEEP + timedelta(hours=25))

    def test_a_process_that_slept_through_it_goes_on(self, history, words):
        late = Ledger.open(history.path)
        late.read("orders")
        history.transition("orders", lambda state: [ev.Renewed(owner="me", attempt=1)])
        assert summarise(history, "orders", after=0)
        assert retain(history, "orders", now=history.events("orders")[-1].at + timedelta(days=100))
        state = late.transition("orders", lambda state: [words.accounted(state.unfinished().plan)])
        assert state.frontier(words.tp) == 20
        assert cold(history) == state

    def test_other_jobs_keep_their_events(self, history, words):
        history.transition("other", lambda state: [words.lease()])
        before = history.events("other")
        assert summarise(history, "orders", after=0)
        assert retain(history, "orders", now=before[-1].at + timedelta(days=200))
        assert history.events("other") == before
        assert Ledger.open(history.path).read("other").lease().owner == "me"


def test_runs_of_many_partitions_do_not_make_a_summary_long(ledger, words, monkeypatch):
    """Each process reads all of them: at 1,000 partitions each command took seconds."""
    monkeypatch.setattr(maintenance, "RANGES_KEPT", 100)
    monkeypatch.setattr(maintenance, "RANGES_BETWEEN", 300)
    ledger.transition("orders", lambda _: [words.lease()])
    ledger.transition("orders", lambda _: [words.step(BasePinned, "", bases={words.tp: 0}, reason="earliest")])
    numbers = []
    for number in range(12):
        ranges = [(partition, number, number + 1) for partition in range(40)]
        for event in words.whole_run(ledger.read("orders"), f"r{number}", *ranges):
            ledger.transition("orders", lambda _, event=event: [event])
        maintain(ledger, "orders")
        numbers.append(len(cold(ledger).runs))
    assert max(numbers) <= maintenance.LEAST_KEPT + 300 // 40 + 1
    assert min(numbers[-5:]) >= maintenance.LEAST_KEPT
    assert list(cold(ledger).runs) == [f"r{number}" for number in range(12 - numbers[-1], 12)]
    assert cold(ledger).archive.runs == 12 - numbers[-1]


def test_compaction_leaves_one_file_and_every_event(history):
    before = history.events("orders")
    assert not compact(history, "orders", small_files=1000)
    assert compact(history, "orders", small_files=5)
    assert len(DeltaTable(history.path).file_uris()) == 1
    assert history.events("orders") == before
    assert not compact(history, "orders", small_files=5)


def test_small_files_before_a_large_newest_one_stay(history, words, monkeypatch):
    largest = max(history.table().get_add_actions().column("size_bytes").to_pylist())
    history.transition("orders", lambda state: [words.lease(chain="new", owner=secrets.token_hex(2 * largest))])
    monkeypatch.setattr(maintenance, "COMPACTED_BYTES", largest + 1)
    before = history.events("orders")
    assert not compact(history, "orders", small_files=5)
    assert history.events("orders") == before


class TestTwoCompactionsAtOnce:
    """Both removed the same files, and both were committed: every event was there twice, and the job was stuck."""

    def test_one_of_them_is_made(self, history, monkeypatch):
        before = history.events("orders")
        stale = history.table()
        assert compact(history, "orders", small_files=5)
        monkeypatch.setattr(history, "table", lambda: stale)
        assert not compact(history, "orders", small_files=5)
        assert DeltaTable(history.path).to_pyarrow_table().num_rows == len(before)
        assert cold(history).sequence == before[-1].sequence

    def test_one_that_is_older_than_retention_brings_nothing_back(self, history, monkeypatch):
        stale = history.table()
        assert summarise(history, "orders", after=0)
        at = history.read("orders").updated_at
        assert retain(history, "orders", now=at + timedelta(days=200))
        left = history.events("orders")
        monkeypatch.setattr(history, "table", lambda: stale)
        assert not compact(history, "orders", small_files=5)
        monkeypatch.undo()
        assert history.events("orders") == left

    def test_a_summary_made_meanwhile_stays(self, history, monkeypatch):
        stale = history.table()
        assert summarise(history, "orders", after=0)
        monkeypatch.setattr(history, "table", lambda: stale)
        compact(history, "orders", small_files=5)
        monkeypatch.undo()
        assert [type(entry.event) for entry in history.events("orders")].count(Summary) == 1
        assert cold(history).sequence == history.read("orders").sequence


@pytest.fixture
def doubled(history):
    """A ledger of which another program has made two OPTIMIZE at once."""
    summarise(history, "orders", after=0)
    rows = DeltaTable(history.path).to_pyarrow_table()
    write_deltalake(history.path, rows, mode="append")
    return history


class TestDoubledRows:
    def test_each_event_counts_once(self, doubled):
        entries = cold(doubled), Ledger.open(doubled.path).events("orders")
        assert len(set(map(repr, entries[1]))) == len(entries[1])
        assert entries[0] == replace(doubled.read("orders"), version=entries[0].version)
        assert doubled.transition("orders", lambda state: []).sequence == entries[0].sequence

    def test_a_compaction_removes_the_copies(self, doubled):
        entries = doubled.events("orders")
        assert compact(doubled, "orders", small_files=1)
        assert DeltaTable(doubled.path).to_pyarrow_table().num_rows == len(entries)
        assert doubled.events("orders") == entries

    def test_rows_of_one_number_that_differ_are_damage(self, history):
        rows = DeltaTable(history.path).to_pyarrow_table()
        other = rows.set_column(rows.column_names.index("transition"), "transition", pa.array(["x"] * len(rows)))
        write_deltalake(history.path, other, mode="append")
        with pytest.raises(Refused) as caught:
            cold(history)
        assert caught.value.code == "ledger-damaged"


def test_files_that_are_large_are_left_alone(history, words, monkeypatch):
    assert compact(history, "orders", small_files=1)
    large = DeltaTable(history.path).file_uris()
    monkeypatch.setattr(maintenance, "COMPACTED_BYTES", Path(large[0]).stat().st_size)
    for number in range(3):
        pinned = words.step(ev.BoundaryPinned, "", time_ms=number, offsets={words.tp: number})
        history.transition("orders", lambda state, pinned=pinned: [pinned])
    before = history.events("orders")
    assert not compact(history, "orders", small_files=3)
    assert compact(history, "orders", small_files=2)
    after = DeltaTable(history.path).file_uris()
    assert len(after) == 2
    assert large[0] in after
    assert history.events("orders") == before


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
    assert not summarise(ledger, "nothing", after=0)
    assert not retain(ledger, "nothing")
    assert not compact(ledger, "nothing", small_files=0)
    assert ledger.jobs() == []


def test_a_run_that_has_finished_does_not_fail_over_maintenance(history):
    shutil.rmtree(history.path)
    maintain(history, "orders")
    with pytest.raises(Refused):
        compact(history, "orders")
