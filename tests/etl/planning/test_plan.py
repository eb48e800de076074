"""Where a job begins and goes on, when the offsets that it is given are not in the log; and runs asked for again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.backfill import run_id_of
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.planning.group_reconciliation import GroupView, commit_metadata
from kseg.etl.planning.plan import Draft, PlanInputs, plan_incremental
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.resolve import LogBounds

TP = TopicPartition("orders", 0)
JOB = job_from_document(
    {
        "version": 1,
        "name": "job",
        "kafka": {"bootstrap.servers": "localhost:1"},
        "source": {"topics": ["orders"]},
        "sink": {"path": "/lake/orders"},
        "group": "g",
        "ledger": "/lake/ledger",
    }
)
FRESH = JobState("job", "L")


def draft(
    state: JobState = FRESH, *, start: int = 0, end: int = 37, group: int = -1, metadata: str = "", accept: bool = False
) -> Draft:
    topic = TopicMetadata("orders", UUID(int=1), False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
    snapshot = SourceSnapshot("c", {"orders": topic}, {TP: LogBounds(0, end, end)}, {TP: start}, {TP: end})
    view = GroupView("g", {TP: CommittedOffset(group, -1, metadata)}, accept=accept)
    return Draft.unwritten(PlanInputs(JOB, snapshot, {"/lake/orders": None}, view), state)


def planned(*args: Any, **options: Any) -> list[tuple[int, int]]:
    plan = plan_incremental(draft(*args, **options))
    return [(r.start, r.end) for r in plan.ranges] if plan is not None else []


def test_a_configured_start_beyond_the_log_is_bad_configuration() -> None:
    with pytest.raises(ConfigurationError, match=r"orders-0 is to start at offset 100000, and its log ends at 37"):
        planned(start=100_000)
    assert planned(start=37) == []


def test_a_group_offset_beyond_the_log_is_refused() -> None:
    with pytest.raises(Refused, match=r"committed at offset 100000, and the log ends at 37") as refused:
        planned(group=100_000)
    assert refused.value.code == "start-beyond-end"


def test_accepting_a_group_offset_beyond_the_log_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        planned(replace(FRESH, bases={TP: 0}), group=100_000, accept=True)
    assert refused.value.code == "start-beyond-end"


def test_an_accepted_group_offset_leads_out_of_a_start_beyond_the_log() -> None:
    """As a ledger of an earlier release may have it: it began at 100000, and committed that over a log of 37."""
    committed = {"g": {TP: ev.GroupOffset(100_000, commit_metadata("L", "r0"))}}
    stuck = replace(FRESH, bases={TP: 100_000}, committed=committed)
    with pytest.raises(Refused) as refused:
        planned(stuck, group=100_000, metadata=commit_metadata("L", "r0"))
    assert refused.value.code == "start-beyond-end"
    assert "--accept-group-offsets" in str(refused.value.remedy)
    assert planned(stuck, group=5, accept=True) == [(5, 37)]


def request_id(state: JobState, *, mode: str = "missing") -> str:
    return run_id_of(BackfillRequest.parse(["orders:0:10"], ["orders:0:20"], mode=mode, label="x"), state)


@pytest.mark.parametrize("mode", ["missing", "replace"])
def test_a_request_asked_again_is_another_run_only_where_its_offsets_were_reopened(mode: str) -> None:
    before = request_id(FRESH, mode=mode)
    run = _finished(draft(), before)
    asked = replace(FRESH, runs={before: run})
    assert request_id(asked, mode=mode) == before
    assert request_id(replace(asked, reopened={TP: (20,)}), mode=mode) == before
    reopened = replace(asked, reopened={TP: (15,)})
    after = request_id(reopened, mode=mode)
    assert after != before
    again = replace(run, plan=replace(run.plan, run_id=after, generations={TP: 1}))
    assert request_id(replace(reopened, runs={before: run, after: again}), mode=mode) == after
    unfinished = replace(asked, reopened={TP: (15,)}, runs={before: replace(run, finished=False)})
    assert request_id(unfinished, mode=mode) == before


def test_an_append_is_done_once_for_its_label() -> None:
    before = request_id(FRESH, mode="append")
    assert request_id(replace(FRESH, reopened={TP: (15,)}), mode="append") == before


def _finished(made: Draft, run_id: str) -> Any:
    made.check_and_pin(moves_offsets=False)
    made.stamp = lambda event: replace(event, chain=run_id, owner="me", attempt=1)
    made.add(ev.Leased(duration=60.0))
    made.plan(run_id, "backfill-missing", {TP: OffsetSet.single(10, 20)}, commit_offsets=False)
    return replace(made.state.runs[run_id], finished=True)
