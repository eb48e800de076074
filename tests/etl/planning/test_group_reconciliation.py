"""What an offset of the consumer group means: who committed it, and whether a run may go on from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.group_reconciliation import GroupView, Standing, commit_metadata, reconcile, standing_of

TP = TopicPartition("orders", 0)
RUN = incremental_run_id("L", "job", 1)
OURS, FORGOTTEN = commit_metadata("L", RUN), commit_metadata("L", incremental_run_id("L", "job", 9))
RENAMED = commit_metadata("L", incremental_run_id("L", "old name", 7))
OTHER_LEDGER = commit_metadata("K", incremental_run_id("K", "job", 7))

FRESH = JobState("job", "L")
PLAN = ev.RunPlan(RUN, "incremental", ev.INCREMENTAL, "app", 1, "", "{}", None, {}, (), {})
LANDED = replace(
    FRESH,
    bases={TP: 0},
    landed_offsets={TP: OffsetSet.single(0, 20)},
    runs={RUN: RunState(PLAN, datetime.now(UTC))},
    committed={"g": {TP: ev.GroupOffset(12, "of a consumer")}},
)
"""It has read up to offset 20, and took over from a consumer at 12."""


@pytest.mark.parametrize(
    ("state", "offset", "metadata", "standing"),
    [
        (LANDED, -1, "", "as left"),
        (LANDED, 20, "anybody's", "as left"),
        (LANDED, 15, OURS, "as left"),
        (LANDED, 25, OURS, "as left"),  # of a run that was abandoned since
        (LANDED, 25, FORGOTTEN, "ledger older"),
        (LANDED, 12, "of a consumer", "as left"),  # a backfill has moved the frontier, or the run died at its commit
        (LANDED, 12, "", "changed"),
        (LANDED, 15, RENAMED, "changed"),
        (LANDED, 25, RENAMED, "changed"),
        (FRESH, 15, "", "as left"),
        (FRESH, 15, FORGOTTEN, "ledger older"),
        (FRESH, 15, RENAMED, "changed"),
        (FRESH, 15, OTHER_LEDGER, "changed"),
        (FRESH, 15, commit_metadata("L", "0" * 32), "ledger older"),
    ],
    ids=map(str, range(14)),  # run ids, which are random, are no names of tests
)
def test_what_an_offset_means(state: JobState, offset: int, metadata: str, standing: Standing) -> None:
    assert standing_of("g", TP, CommittedOffset(offset, -1, metadata), state) == standing


@pytest.mark.parametrize("state", [FRESH, LANDED])
def test_offsets_of_another_job_are_not_those_of_an_older_ledger(state: JobState) -> None:
    """Of a job that was renamed: the remedy was to restore the ledger, or to make one from tables without its rows."""
    view = GroupView("g", {TP: CommittedOffset(25, -1, RENAMED)})
    with pytest.raises(Refused, match="committed by another job of this ledger") as refused:
        reconcile(view, state, {}, moves_offsets=True)
    assert refused.value.code == "group-offsets-differ"
    assert "set `name` back" in str(refused.value.remedy)
    accepted = reconcile(replace(view, accept=True), state, {}, moves_offsets=True)
    assert accepted[0] == ev.GroupOffsetsAccepted(group="g", offsets={TP: ev.GroupOffset(25, RENAMED)})
