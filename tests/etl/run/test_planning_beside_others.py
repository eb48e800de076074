"""Plans while other chains' runs write to the ledger: made in time, and of what these have reserved and landed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.decoding import Decode
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.lease import acquire
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.planning.freshness import inputs_as_of
from kseg.etl.planning.group_reconciliation import GroupView
from kseg.etl.planning.plan import Draft, PlanInputs, plan_incremental
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.run import pipeline
from kseg.etl.source.resolve import LogBounds
from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.etl.telemetry.stopwatch import Stopwatch

TP = TopicPartition("orders", 0)
TABLE = "/lake/orders"
SIBLING = "5" * 32
LONG = timedelta(minutes=10)
JOB = job_from_document(
    {
        "version": 1,
        "name": "job",
        "kafka": {"bootstrap.servers": "localhost:1"},
        "source": {"topics": ["orders"]},
        "sink": {"path": TABLE},
        "ledger": "/lake/ledger",
    }
)


def inputs_with(end: int, table: ev.TableState | None = None, group: GroupView | None = None) -> PlanInputs:
    metadata = TopicMetadata("orders", UUID(int=7), False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
    bounds = {TP: LogBounds(0, end, end)}
    return PlanInputs(
        JOB, SourceSnapshot("cluster", {"orders": metadata}, bounds, {TP: 0}, {TP: end}), {TABLE: table}, group
    )


class Reads:
    """Stands in for preflight: each read gives these inputs, after something has happened."""

    def __init__(self, happens: Callable[[], Any], *ends: int) -> None:
        self.happens, self.ends, self.count = happens, ends, 0

    def __call__(self, *_: Any, **__: Any) -> PlanInputs:
        found = inputs_with(self.ends[min(self.count, len(self.ends) - 1)])
        self.count += 1
        self.happens()
        return found


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.open(tmp_path / "ledger")


@pytest.fixture
def sibling(ledger: Ledger) -> Any:
    with acquire(ledger, "job", SIBLING, duration=LONG) as lease:
        yield lease


def sibling_plans(lease: Any, start: int, end: int, table: ev.TableState | None = None) -> None:
    def decide(state: JobState) -> list[ev.Event]:
        app_id, version = state.next_app_transaction(SIBLING)
        plan = ev.RunPlan(
            run_id=SIBLING,
            mode="backfill-missing",
            chain=SIBLING,
            app_id=app_id,
            app_version=version,
            config_hash="",
            pinned_config="{}",
            cluster_id="cluster",
            topics={},
            ranges=(ev.PlannedRange("orders", 0, start, end, 0, TABLE),),
            tables={TABLE: table},
        )
        return [ev.Planned(run_id=SIBLING, plan=plan)]

    lease.transition(decide)


def sibling_lands(lease: Any, start: int, end: int) -> None:
    sibling_plans(lease, start, end)
    after = ev.TableState("table", 5, end - start)
    lease.transition(lambda _: [ev.Landed(run_id=SIBLING, table=TABLE, commit=ev.TableCommit(5, end - start, after))])
    account = ev.RangeAccount("orders", 0, start, end, ev.RangeCounts(data=end - start))
    lease.transition(lambda _: [ev.Accounted(run_id=SIBLING, ranges=(account,), rows_in=1, rows_out=1)])


def plan(ledger: Ledger, planner: Callable[[Draft], Any] = plan_incremental) -> ev.RunPlan:
    engine = SimpleNamespace(expect=lambda offsets: None)
    context = SimpleNamespace(inputs=None, observe=lambda step: None, engine=engine)
    with acquire(ledger, "job", duration=LONG) as lease:
        state, _ = pipeline._plan(context, lease, ledger.read("job"), planner, None, False)  # type: ignore[arg-type]
        run = state.unfinished()
        assert run is not None
        return run.plan


def ranges(planned: ev.RunPlan) -> list[tuple[int, int]]:
    return [(r.start, r.end) for r in planned.ranges]


def test_a_plan_reads_its_inputs_once_however_often_others_write(ledger, sibling, monkeypatch):
    reads = Reads(lambda: sibling.transition(lambda _: [ev.Renewed()]), 100)
    monkeypatch.setattr(pipeline, "preflight", reads)
    tries = []

    def planner(draft: Draft) -> Any:
        tries.append(draft)
        if len(tries) < 5:  # this try's commit comes second
            sibling.transition(lambda _: [ev.Renewed()])
        return plan_incremental(draft)

    assert ranges(plan(ledger, planner)) == [(0, 100)]
    assert len(tries) == 5
    assert reads.count == 1


def test_what_others_reserve_while_the_inputs_are_read_is_left_to_them(ledger, sibling, monkeypatch):
    reads = Reads(lambda: sibling_plans(sibling, 20, 40), 100)
    monkeypatch.setattr(pipeline, "preflight", reads)
    assert ranges(plan(ledger)) == [(0, 20), (40, 100)]
    assert reads.count == 1


def test_a_landing_meanwhile_is_the_tables_newest_state(ledger, sibling, monkeypatch):
    reads = Reads(lambda: sibling_lands(sibling, 20, 40), 100)
    monkeypatch.setattr(pipeline, "preflight", reads)
    planned = plan(ledger)
    assert ranges(planned) == [(0, 20), (40, 100)]
    assert planned.tables == {TABLE: ev.TableState("table", 5, 20)}
    assert reads.count == 1


def test_what_lands_beyond_the_offsets_that_were_read_is_no_truncation(ledger, sibling, monkeypatch):
    reads = Reads(lambda: sibling_lands(sibling, 90, 120) if reads.count == 1 else None, 100, 130)
    monkeypatch.setattr(pipeline, "preflight", reads)
    assert ranges(plan(ledger)) == [(0, 90), (120, 130)]
    assert reads.count == 2


def test_what_is_refused_with_inputs_of_now_is_refused(ledger, sibling, monkeypatch):
    reads = Reads(lambda: sibling_lands(sibling, 90, 120) if reads.count == 1 else None, 100)
    monkeypatch.setattr(pipeline, "preflight", reads)
    with pytest.raises(Refused) as refused:
        plan(ledger)
    assert refused.value.code == "log-truncated"
    assert reads.count == 2


class TestInputsOfALaterState:
    before = JobState(job="job", ledger_id="l", sequence=3, tables={TABLE: ev.TableState("table", 4, 1)})

    def later(self, **changes: Any) -> JobState:
        return replace(self.before, sequence=4, **changes)

    def test_offsets_that_others_committed_are_the_groups(self) -> None:
        found = {TP: CommittedOffset(5, -1, "old"), TopicPartition("orders", 1): CommittedOffset(7, -1, "by hand")}
        inputs = inputs_with(100, group=GroupView("group", found))
        state = self.later(committed={"group": {TP: ev.GroupOffset(9, "kseg:l:r", 2)}})
        current = inputs_as_of(inputs, self.before, state)
        assert current is not None
        assert current.group is not None
        assert current.group.offsets == {**found, TP: CommittedOffset(9, 2, "kseg:l:r")}

    def test_a_table_that_was_seen_newer_stays_so(self) -> None:
        inputs = inputs_with(100, ev.TableState("table", 9, 1))
        state = self.later(tables={TABLE: ev.TableState("table", 5, 1)})
        current = inputs_as_of(inputs, self.before, state)
        assert current is not None
        assert current.tables == inputs.tables

    @pytest.mark.parametrize(
        "changes",
        [
            {"tables": {TABLE: ev.TableState("another", 1, 1)}},
            {"tables": {}},
            {"topics": {"orders": ev.TopicIdentity(UUID(int=8), "cluster")}},
            {"reopened": {TP: (4,)}},
        ],
    )
    def test_another_table_or_source_is_read_again(self, changes: dict[str, Any]) -> None:
        inputs = inputs_with(100, ev.TableState("table", 4, 1))
        assert inputs_as_of(inputs, self.before, self.later(**changes)) is None

    @pytest.mark.parametrize("decodes", [True, False])
    def test_rules_of_decoding_that_others_have_landed_by_are_read_again(self, decodes: bool) -> None:
        """A replacement of all rows has moved the table to the newest rules; the next run was planned by the old."""
        inputs = inputs_with(100, ev.TableState("table", 4, 1))
        if decodes:
            decode = Decode.model_validate({"value": {"format": "string", "as": "text"}})
            inputs = replace(inputs, job=JOB.model_copy(update={"decode": decode}))
        landed = ev.TableState("table", 5, 1)
        state = self.later(tables={TABLE: landed}, table_records={TABLE: ev.TableRecord(landed=landed, rules=2)})
        assert (inputs_as_of(inputs, self.before, state) is None) == decodes

    def test_what_has_landed_is_no_matter_of_the_inputs(self) -> None:
        inputs = inputs_with(100)
        state = self.later(landed_offsets={TP: OffsetSet.single(0, 9)})
        current = inputs_as_of(inputs, self.before, state)
        assert current is not None
        assert current.tables == inputs.tables


def test_a_siblings_commit_between_reading_the_group_and_comparing_it_is_no_change_by_others(
    ledger, sibling, monkeypatch
):
    accepted = CommittedOffset(0, -1, "by hand")

    def group_view(*_: Any, **__: Any) -> GroupView:
        state = sibling_lands(sibling, 0, 20) or ledger.read("job")
        assert state.frontier(TP) == 20
        offsets = {TP: ev.GroupOffset(20, f"kseg:{ledger.id}:{SIBLING}")}
        event = ev.OffsetsCommitted(run_id=SIBLING, group="group", how="transactional", offsets=offsets)
        sibling.transition(lambda _: [event])
        return GroupView("group", {TP: accepted})

    class ReachedTheCommit(Exception):
        pass

    def commit(*_: Any) -> Any:
        raise ReachedTheCommit

    monkeypatch.setattr(pipeline, "_commit_frontier", commit)
    inputs = SimpleNamespace(partitions=lambda: (TP,), group_view=group_view)
    context = SimpleNamespace(inputs=inputs, observe=lambda step: None, progress=NULL_PROGRESS, stopwatch=Stopwatch())
    by_hand = ev.GroupOffsetsAccepted(group="group", offsets={TP: ev.GroupOffset(0, "by hand")})
    with acquire(ledger, "job", duration=LONG) as lease:
        lease.transition(lambda _: [BasePinned(bases={TP: 0}, reason="group"), by_hand])
        with pytest.raises(ReachedTheCommit):
            pipeline._commit(context, lease, SimpleNamespace(run_id="r"), False)  # type: ignore[arg-type]
