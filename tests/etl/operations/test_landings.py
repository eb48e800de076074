"""Which run's rows should stand where, by the ledger: histories of a job, and what `kseg verify` makes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.maintenance import summary_of
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.landings import TableLandings, landings, miscounted

TP = TopicPartition("orders", 0)


class History:
    """A job's ledger, in memory: one topic, one partition, rows of every offset."""

    def __init__(self, table: str) -> None:
        self.table = table
        self.state = JobState(job="j", ledger_id="L")
        self._number = 0

    def add(self, chain: str, *events: ev.Event) -> None:
        signed = [replace(event, chain=chain, owner="me", attempt=1) for event in events]
        self.state = fold(self.state, [Entry(event, datetime.now(UTC), self.state.sequence + 1) for event in signed])

    def planned(self, start: int, end: int, mode: Any = "incremental", *, table: str | None = None) -> ev.RunPlan:
        self._number += 1
        run_id = f"run-{self._number}"
        chain = ev.INCREMENTAL if mode == "incremental" else run_id
        if self.state.lease(chain) is None:
            self.add(chain, ev.Leased(duration=60.0))
        app_id, version = self.state.next_app_transaction(chain)
        into = table or self.table
        plan = ev.RunPlan(
            run_id=run_id,
            mode=mode,
            chain=chain,
            app_id=app_id,
            app_version=version,
            config_hash="h",
            pinned_config="{}",
            cluster_id=None,
            topics={},
            ranges=(ev.PlannedRange(TP.topic, TP.partition, start, end, table=into),),
            tables={into: None},
            generations={TP: self.state.generation(TP)} if self.state.generation(TP) else {},
        )
        self.add(chain, ev.Planned(run_id=run_id, plan=plan))
        return plan

    def landed(self, start: int, end: int, mode: Any = "incremental", *, removed: int = 0, table: str | None = None):
        plan = self.planned(start, end, mode, table=table)
        self.commit(plan, removed)
        return plan

    def commit(self, plan: ev.RunPlan, removed: int) -> None:
        (planned,) = plan.ranges
        into = str(planned.table)
        after = ev.TableState(f"id of {into}", plan.app_version, 0)
        commit = ev.TableCommit(1, planned.length, after, removed)
        self.add(plan.chain, ev.Landed(run_id=plan.run_id, table=into, commit=commit))

    def account(self, plan: ev.RunPlan, removed: int = 0) -> None:
        """What a planned run does until it has finished."""
        self.commit(plan, removed)
        (planned,) = plan.ranges
        rows = planned.length
        counts = ev.RangeCounts(data=rows)
        account = ev.RangeAccount(TP.topic, TP.partition, planned.start, planned.end, counts)
        accounted = ev.Accounted(run_id=plan.run_id, ranges=(account,), rows_in=rows, rows_out=rows)
        self.add(plan.chain, accounted, ev.Finished(run_id=plan.run_id))

    def run(
        self, start: int, end: int, mode: Any = "incremental", *, removed: int = 0, table: str | None = None
    ) -> str:
        plan = self.planned(start, end, mode, table=table)
        self.account(plan, removed)
        return plan.run_id

    def abandon(self, plan: ev.RunPlan) -> str:
        events = ev.Abandoning(run_id=plan.run_id), ev.Abandoned(run_id=plan.run_id, landed_in=(self.table,))
        self.add(plan.chain, *events)
        return plan.run_id


@pytest.fixture
def job(tmp_path) -> Job:
    return job_from_document(
        {
            "version": 1,
            "name": "j",
            "kafka": {"bootstrap.servers": "x:1"},
            "source": {"topics": ["orders"]},
            "sink": {"path": str(tmp_path / "table")},
            "ledger": str(tmp_path / "ledger"),
        }
    )


@pytest.fixture
def history(job) -> History:
    return History(str(job.sink.target("orders")))


def of(job: Job, history: History) -> TableLandings:
    return landings(job, history.state)[history.table]


def claims(found: TableLandings) -> dict[str, dict[str, list[tuple[int, int]]]]:
    told: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for claim in found.claims():
        told.setdefault(claim.status, {}).setdefault(claim.run_id, []).append((claim.start, claim.end))
    return told


def copies(found: TableLandings) -> list[tuple[int, int, int]]:
    return [(one.start, one.end, one.copies) for one in found.copies()]


def test_a_row_may_be_there_once_for_each_run_that_landed_it(job, history):
    first, second = history.run(0, 10), history.run(10, 20)
    again = history.run(5, 15, "backfill-append")
    found = of(job, history)
    assert claims(found) == {"standing": {first: [(0, 10)], second: [(10, 20)], again: [(5, 15)]}}
    assert copies(found) == [(5, 10, 2), (10, 15, 2)]
    assert found.compared == {TP: OffsetSet.single(0, 20)}


def test_what_was_replaced_need_not_stand(job, history):
    first, second = history.run(0, 10), history.run(10, 20)
    replacing = history.run(5, 12, "backfill-replace", removed=7)
    found = of(job, history)
    assert claims(found) == {
        "standing": {first: [(0, 5)], second: [(12, 20)], replacing: [(5, 12)]},
        "replaced": {first: [(5, 10)], second: [(10, 12)]},
    }
    assert copies(found) == []
    assert not found.older_replaced, "no run is older than a summary: rows of unknown ones are nobody's"


def test_what_a_replacement_could_not_read_stays(job, history):
    first = history.run(0, 10)
    again = history.planned(0, 10, "backfill-replace")
    history.add(again.chain, ev.Replacing(run_id=again.run_id, kept={TP: OffsetSet.of([(0, 2), (6, 7)])}))
    history.account(again, removed=7)
    found = of(job, history)
    assert claims(found) == {
        "standing": {again.run_id: [(2, 6), (7, 10)]},
        "kept": {first: [(0, 2), (6, 7)]},
        "replaced": {first: [(2, 6), (7, 10)]},
    }
    assert found.compared == {TP: OffsetSet.single(0, 10)}
    last = history.run(0, 3, "backfill-replace", removed=3)
    assert claims(of(job, history))["standing"][last] == [(0, 3)]
    assert claims(of(job, history))["kept"] == {first: [(6, 7)]}


def test_rows_of_runs_without_an_account_are_not_judged(job, history):
    history.run(0, 10)
    history.landed(3, 6, "backfill-append")
    history.planned(10, 20)
    found = of(job, history)
    assert not found.older_replaced
    assert found.compared == {TP: OffsetSet.of([(0, 3), (6, 10)])}
    assert found.open_runs == ["run-2", "run-3"]


def test_what_an_abandoned_replacement_took_along_is_not_due(job, history):
    """It had landed, and died before it noted that: `abandoned` alone says that the first run's rows are gone."""
    first = history.run(0, 10)
    history.abandon(history.planned(5, 10, "backfill-replace"))
    assert of(job, history).compared == {TP: OffsetSet.single(0, 5)}
    later = history.run(5, 10, "backfill-missing")
    found = of(job, history)
    assert claims(found)["standing"] == {first: [(0, 5)], later: [(5, 10)]}
    assert copies(found) == []


def test_runs_that_a_summary_has_dropped_have_a_row_each_of_a_run_that_is_not_known(job, history):
    for start in range(0, 50, 10):
        history.run(start, start + 10)
    history.state = summary_of(history.state, runs_kept=2)
    found = of(job, history)
    assert found.older == {TP: OffsetSet.single(0, 30)}
    assert found.older_once
    assert found.compared == {TP: OffsetSet.single(0, 50)}
    assert claims(found)["standing"] == {"run-4": [(30, 40)], "run-5": [(40, 50)]}
    history.run(20, 35, "backfill-replace")
    found = of(job, history)
    assert found.older == {TP: OffsetSet.single(0, 20)}
    assert found.older_replaced == {TP: OffsetSet.single(20, 35)}


def test_of_dropped_appends_it_is_said_that_rows_are_not_counted(job, history):
    history.run(0, 10)
    history.run(0, 5, "backfill-append")
    history.state = summary_of(history.state, runs_kept=0)
    assert not of(job, history).older_once


def test_a_table_that_the_job_had_before_keeps_its_own_rows(job, history):
    history.run(0, 10, table="/lake/before")
    history.run(10, 20)
    found = landings(job, history.state)
    assert list(found) == [history.table, "/lake/before"]
    assert found["/lake/before"].compared == {TP: OffsetSet.single(0, 10)}
    assert found[history.table].compared == {TP: OffsetSet.single(10, 20)}
    history.state = summary_of(history.state, runs_kept=0)
    (dropped,) = landings(job, history.state).values()
    assert (dropped.compared, dropped.unknown) == ({}, {TP: OffsetSet.single(0, 20)}), (
        "the summary does not say which went where"
    )


def test_two_names_with_one_table_id_are_one_table(job, history):
    history.run(0, 10, table="/lake/link")
    history.run(10, 20)
    known = history.state.tables
    known["/lake/link"] = replace(known["/lake/link"], id=known[history.table].id)
    (found,) = landings(job, history.state).values()
    assert found.compared == {TP: OffsetSet.single(0, 20)}


def test_rows_of_an_earlier_generation_stay_and_are_not_compared(job, history):
    first = history.run(0, 20)
    history.add(ev.INCREMENTAL, ev.SourceAccepted(topics={}, reopened={TP: 12}, reason="log-truncated"))
    second = history.run(12, 30)
    found = of(job, history)
    assert claims(found) == {
        "standing": {first: [(0, 12)], second: [(12, 30)]},
        "superseded": {first: [(12, 20)]},
    }
    assert found.compared == {TP: OffsetSet.single(0, 30)}


# --- rows by run


def faults(job: Job, history: History, there: dict[str, int], *, exact: bool = True) -> list[tuple[Any, int, int]]:
    found, _ = miscounted(of(job, history), history.state, there, job=job, exact=exact)
    return [(fault.runs, fault.due, fault.there) for fault in found]


def test_each_run_has_the_rows_that_it_wrote(job, history):
    history.run(0, 10)
    gone = history.abandon(history.landed(10, 20))
    history.run(10, 20)
    assert faults(job, history, {"run-1": 10, "run-3": 10}) == []
    assert faults(job, history, {"run-1": 9, "run-3": 10}) == [(("run-1",), 10, 9)]
    assert faults(job, history, {"run-1": 10, "run-3": 10, gone: 2}) == [((gone,), 0, 2)]


def test_of_replaced_runs_what_stands_is_compared_together(job, history):
    history.run(0, 10)
    history.run(10, 20)
    history.run(5, 12, "backfill-replace", removed=6)
    assert faults(job, history, {"run-1": 6, "run-2": 8, "run-3": 7}) == [], "a filter had kept one row less of them"
    together = ("run-1", "run-2", "run-3")
    assert [(set(runs), *counts) for runs, *counts in faults(job, history, {"run-1": 5, "run-2": 8, "run-3": 7})] == [
        (set(together), 21, 20)
    ]


@pytest.mark.parametrize(("start", "end"), [(0, 30), (20, 35)])
def test_what_a_replacement_has_removed_of_dropped_runs_leaves_counts_open(job, history, start, end):
    for at in range(0, 50, 10):
        history.run(at, at + 10)
    history.state = summary_of(history.state, runs_kept=2)
    history.run(start, end, "backfill-replace", removed=end - start)
    found, notes = miscounted(of(job, history), history.state, {"run-6": end - start}, job=job, exact=True)
    assert [fault for fault in found if "run-6" in fault.runs] == []
    assert any("could not be compared" in note for note in notes)
    assert ("run-6",) in [runs for runs, *_ in faults(job, history, {"run-6": end - start + 1}, exact=False)]


def test_rows_that_cannot_be_read_again_may_be_fewer_and_never_more(job, history):
    history.run(0, 10)
    assert faults(job, history, {"run-1": 3}, exact=False) == []
    assert faults(job, history, {"run-1": 11}, exact=False) == [(("run-1",), 10, 11)]


def test_a_replacement_that_died_unnoted_leaves_counts_open(job, history):
    history.run(0, 10)
    history.abandon(history.planned(5, 10, "backfill-replace"))
    found, notes = miscounted(of(job, history), history.state, {"run-1": 5}, job=job, exact=True)
    assert found == []
    assert "could not be compared" in notes[0]


# --- rows of a range in several tables


@pytest.fixture
def routed_job(job, tmp_path) -> Job:
    routes = {kind: {"path": str(tmp_path / kind)} for kind in ("a", "b")}
    document = {**job.pinned(), "sink": {"route_by": "header.kind", "routes": {**routes, "c": routes["b"]}}}
    return job_from_document(document)


def run_routed(history: History, job: Job, start: int, end: int, mode: Any = "incremental", **others: str) -> str:
    """A run that has landed rows in the job's tables."""
    plan = history.planned(start, end, mode)
    routes = {route: str(target) for route, target in job.sink.targets.items()} | others
    ranges = tuple(replace(planned, table=None) for planned in plan.ranges)
    run = history.state.runs[plan.run_id]
    run = replace(run, plan=replace(plan, ranges=ranges, routes=routes))
    history.state = replace(history.state, runs={**history.state.runs, plan.run_id: run})
    for number, table in enumerate(dict.fromkeys(routes.values())):
        commit = ev.TableCommit(1, number + 1, ev.TableState(f"id of {table}", plan.app_version, 0))
        history.add(plan.chain, ev.Landed(run_id=plan.run_id, table=table, commit=commit))
    counts = ev.RangeCounts(data=end - start)
    account = ev.RangeAccount(TP.topic, TP.partition, start, end, counts)
    accounted = ev.Accounted(run_id=plan.run_id, ranges=(account,), rows_in=end - start, rows_out=end - start)
    history.add(plan.chain, accounted, ev.Finished(run_id=plan.run_id))
    return plan.run_id


def test_each_table_may_have_a_row_at_every_offset_of_a_routed_run(routed_job, history, tmp_path):
    first, second = run_routed(history, routed_job, 0, 10), run_routed(history, routed_job, 10, 20)
    found = landings(routed_job, history.state)
    assert [*found] == [str(tmp_path / "a"), str(tmp_path / "b")]
    for table, routes in (("a", ("a",)), ("b", ("b", "c"))):
        of_table = found[str(tmp_path / table)]
        assert claims(of_table) == {"standing": {first: [(0, 10)], second: [(10, 20)]}}
        assert of_table.routes == {first: routes, second: routes}
        assert copies(of_table) == []


def test_rows_of_two_runs_are_due_where_both_had_the_same_routes(routed_job, history, tmp_path):
    run_routed(history, routed_job, 0, 10)
    run_routed(history, routed_job, 2, 4, "backfill-append")
    run_routed(history, routed_job, 6, 8, "backfill-append", d=str(tmp_path / "a"))
    found = landings(routed_job, history.state)
    assert copies(found[str(tmp_path / "a")]) == [(2, 4, 2)], "the last one sent other records there"
    assert copies(found[str(tmp_path / "b")]) == [(2, 4, 2), (6, 8, 2)]


def test_a_routed_table_is_counted_by_run(routed_job, history, tmp_path):
    run = run_routed(history, routed_job, 0, 10)
    found = landings(routed_job, history.state)[str(tmp_path / "b")]
    assert miscounted(found, history.state, {run: 2}, job=routed_job, exact=True) == ([], [])
    (fault,) = miscounted(found, history.state, {run: 3}, job=routed_job, exact=True)[0]
    assert (fault.due, fault.there) == (2, 3)


def test_of_older_routed_runs_no_table_is_known(routed_job, history, tmp_path):
    for start in range(0, 50, 10):
        run_routed(history, routed_job, start, start + 10)
    state = summary_of(history.state, runs_kept=2)
    for table in ("a", "b"):
        found = landings(routed_job, state)[str(tmp_path / table)]
        assert (found.unknown, found.compared) == ({TP: OffsetSet.single(0, 30)}, {TP: OffsetSet.single(30, 50)})
