"""What a backfill that is asked for again plans."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.maintenance import summary_of
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.backfill import BackfillPlanner, readable_end, run_id_of
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.planning.plan import Draft, PlanInputs
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.resolve import AtTime, LogBounds

TP = TopicPartition("orders", 0)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = job_from_document(
    {
        "version": 1,
        "name": "job",
        "kafka": {"bootstrap.servers": "localhost:1"},
        "source": {"topics": ["orders"]},
        "sink": {"path": "/lake/orders"},
        "ledger": "/lake/ledger",
    }
)
BY_OFFSETS = BackfillRequest.parse(from_=["orders:0:10"], to=["orders:0:20"], mode="replace")
BY_TIMES = BackfillRequest.parse(from_=["2026-01-01T00:00:00Z"], to=["2026-01-02T00:00:00Z"], mode="replace")
EMPTY_STATE = JobState(job="job", ledger_id="l", bases={TP: 0})


class Logs:
    """Answers for times."""

    def offsets(self, spec: AtTime, *_: Any, **__: Any) -> dict[TopicPartition, int]:
        return {TP: 8 if spec.ends else 3}


def planned(request: BackfillRequest, state: JobState) -> list[tuple[int, int]]:
    metadata = TopicMetadata("orders", UUID(int=7), False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
    snapshot = SourceSnapshot("cluster", {"orders": metadata}, {TP: LogBounds(0, 100, 100)}, {TP: 0}, {TP: 100})
    planner = BackfillPlanner(JOB, Logs(), request, run_id_of(request, state))  # type: ignore[arg-type]
    draft = Draft.unwritten(PlanInputs(JOB, snapshot, {"/lake/orders": None}, None), state, planner.run_id)
    plan = planner.decide(draft)
    return [] if plan is None else [(r.start, r.end) for r in plan.ranges]


def copied(state: JobState, *, leader_epoch: int, to: int | None = None) -> list[tuple[int, int]]:
    """The plan of all offsets, or of those up to one, in a copy of the log with the offsets [0, 80)."""
    metadata = TopicMetadata("orders", UUID(int=7), False, {0: PartitionMetadata(0, 1, leader_epoch, (1,), (1,))})
    bounds = {TP: LogBounds(0, 80, 80, confirmed=80, leader_epoch=leader_epoch)}
    snapshot = SourceSnapshot("cluster", {"orders": metadata}, bounds, {TP: 0}, {TP: 80}, copy=True)
    inputs = PlanInputs(JOB, snapshot, {"/lake/orders": None}, None)
    request = BackfillRequest.parse(["orders:0:0"], [f"orders:0:{to or 80}"], segments=["/copy"])
    planner = BackfillPlanner(JOB, Logs(), request, run_id_of(request, state))  # type: ignore[arg-type]
    draft = Draft.unwritten(inputs, state, planner.run_id)
    if to is None:
        return [(0, readable_end(draft, TP))]
    plan = planner.decide(draft)
    return [] if plan is None else [(r.start, r.end) for r in plan.ranges]


def accepted(*changes: tuple[int, int], known: bool = True) -> JobState:
    """Truncations that were accepted: offset and leader epoch of each. known: whether the ledger has the epochs."""
    lease = ev.Leased(owner="me", attempt=1, duration=60.0)
    state = replace(EMPTY_STATE, landed_offsets={TP: OffsetSet.single(0, 80)})
    events: list[ev.Event] = [lease]
    for first, epoch in changes:
        seen = {"orders": ev.TopicIdentity(UUID(int=7), "cluster", {0: ev.PartitionIdentity(epoch, first)})}
        reopened = ev.SourceAccepted(owner="me", attempt=1, topics=seen, reopened={TP: first}, reason="log-truncated")
        events.append(reopened)
    state = fold(state, [Entry(event, NOW, number) for number, event in enumerate(events, 1)])
    return state if known else replace(state, reopened_in={})


@pytest.mark.parametrize(("leader_epoch", "end"), [(3, 30), (4, 50), (6, 50), (7, 80), (9, 80)])
def test_of_a_copy_from_before_a_truncation_only_the_offsets_below_it_count(leader_epoch: int, end: int) -> None:
    """Its records above are those that were lost; today's would count as landed, and never be read."""
    state = accepted((30, 4), (50, 7))
    assert copied(state, leader_epoch=leader_epoch) == [(0, end)]
    assert copied(summary_of(state), leader_epoch=leader_epoch) == [(0, end)]


def test_a_copy_is_asked_for_no_offsets_that_mean_other_records_since() -> None:
    with pytest.raises(Refused, match="only below 50") as refused:
        copied(accepted((50, 7)), leader_epoch=6, to=60)
    assert refused.value.code == "offsets-not-in-files"
    assert copied(accepted((50, 7)), leader_epoch=7, to=60) == [(50, 60)]


@pytest.mark.parametrize(("leader_epoch", "end"), [(6, 30), (7, 80)])
def test_where_the_ledger_lacks_the_epochs_a_copy_must_be_as_new_as_what_it_has_seen(
    leader_epoch: int, end: int
) -> None:
    assert copied(accepted((30, 4), (50, 7), known=False), leader_epoch=leader_epoch) == [(0, end)]


def abandoned(request: BackfillRequest, run_id: str) -> JobState:
    """A run that was planned for offsets 10 to 20, whatever was asked."""
    plan = ev.RunPlan(
        run_id=run_id,
        mode="backfill-replace",
        chain=run_id,
        app_id=f"kseg/l/job/{run_id}",
        app_version=1,
        config_hash="",
        pinned_config="{}",
        cluster_id="cluster",
        topics={},
        ranges=(ev.PlannedRange("orders", 0, 10, 20, 0, "/lake/orders"),),
        tables={"/lake/orders": None},
    )
    run = RunState(plan, NOW, abandoned=True, ended_at=NOW)
    return replace(EMPTY_STATE, runs={run_id: run})


def test_an_abandoned_one_means_the_same_offsets_as_before() -> None:
    assert planned(BY_TIMES, abandoned(BY_TIMES, run_id_of(BY_TIMES, EMPTY_STATE))) == [(10, 20)]


def test_offsets_that_were_asked_for_by_name_are_asked_for_again() -> None:
    """Others of them had landed when the abandoned run was planned, and were abandoned since."""
    request = BackfillRequest.parse(from_=["orders:0:5"], to=["orders:0:30"])
    state = abandoned(request, run_id_of(request, EMPTY_STATE))
    assert planned(request, state) == [(5, 30)]
    assert planned(request, replace(state, landed_offsets={TP: OffsetSet.single(0, 15)})) == [(15, 30)]


@pytest.mark.parametrize(("request_", "ranges"), [(BY_OFFSETS, (10, 20)), (BY_TIMES, (3, 8))])
def test_one_that_was_abandoned_so_long_ago_that_its_ranges_are_forgotten_is_planned_anew(
    request_: BackfillRequest, ranges: tuple[int, int]
) -> None:
    state = summary_of(abandoned(request_, run_id_of(request_, EMPTY_STATE)), runs_kept=0)
    assert next(iter(state.runs.values())).archived
    assert planned(request_, state) == [ranges]


def test_times_mean_other_offsets_once_these_were_reopened() -> None:
    state = abandoned(BY_TIMES, BY_TIMES.digest("job"))
    assert planned(BY_TIMES, state) == [(10, 20)]
    assert planned(BY_TIMES, replace(state, reopened={TP: (5,)})) == [(3, 8)]


def test_an_unfinished_replacement_is_taken_up_under_any_label() -> None:
    """No run of another label can plan its offsets: it stayed in their way until `kseg repair`."""
    first, again = replace(BY_OFFSETS, label="run 0"), replace(BY_OFFSETS, label="run 1")
    chain = run_id_of(first, EMPTY_STATE)
    run = abandoned(first, chain).runs[chain]
    plan = replace(run.plan, asked=json.dumps(first.identity(), sort_keys=True))
    left = replace(EMPTY_STATE, runs={chain: replace(run, plan=plan, abandoned=False, ended_at=None)})
    done = replace(left, runs={chain: replace(left.runs[chain], finished=True)})
    assert run_id_of(again, left) == chain == run_id_of(first, left)
    assert run_id_of(again, done) == run_id_of(again, EMPTY_STATE) != chain
    for other in (replace(again, drop_compacted=True), replace(again, mode="append"), replace(again, mode="missing")):
        assert run_id_of(other, left) == run_id_of(other, EMPTY_STATE)
