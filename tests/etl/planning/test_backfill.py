"""What a backfill that is asked for again plans."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.load import job_from_document
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.maintenance import summary_of
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.backfill import BackfillPlanner, run_id_of
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
