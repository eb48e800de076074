"""What a job's status shows of its tables and of its group's offsets, without brokers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.problems import group_problem
from kseg.etl.operations.status import _partitions, _table
from kseg.etl.planning.group_reconciliation import GroupView, commit_metadata
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.resolve import LogBounds
from kseg.etl.tables.targets import Targets


def test_a_table_whose_place_is_a_file_is_a_problem(tmp_path: Path) -> None:
    place = tmp_path / "orders"
    place.write_text("")
    job: Any = SimpleNamespace(ledger=str(tmp_path / "ledger"), sink=SimpleNamespace(routed=False))
    targets = Targets(job, lambda: None)  # type: ignore[arg-type, return-value]
    context: Any = SimpleNamespace(targets=targets, inputs=SimpleNamespace(job=job, tables=targets))
    line, problem = _table(context, JobState(job="orders", ledger_id=""), str(place))
    assert problem is not None
    assert (problem.code, problem.remedy) == ("ConfigurationError", "give the path of a folder")
    assert "is a file, not a folder" in str(line.problem)


TP = TopicPartition("orders", 0)
JOB = JobState(
    "job",
    "L",
    bases={TP: 5},
    landed_offsets={TP: OffsetSet.single(5, 20)},
    committed={"g": {TP: ev.GroupOffset(5, "of a consumer")}},
)
"""It took over from a consumer at offset 5."""


def group_at(offset: int, metadata: str) -> GroupView:
    return GroupView("g", {TP: CommittedOffset(offset, -1, metadata)})


@pytest.mark.parametrize(("offset", "agrees"), [(5, True), (7, False)])
def test_group_offsets_that_a_run_continues_from_are_no_problem(offset: int, agrees: bool) -> None:
    """The first run died before it committed: exit code 3."""
    topic = TopicMetadata("orders", None, False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
    snapshot = SourceSnapshot("c", {"orders": topic}, {TP: LogBounds(0, 20, 20)}, {TP: 0}, {TP: 20})
    job = SimpleNamespace(reporting=SimpleNamespace(freshness=None))
    context: Any = SimpleNamespace(inputs=SimpleNamespace(logs=None), job=job)
    view = group_at(offset, "of a consumer")
    ((line,), _) = _partitions(context, JOB, snapshot, view)
    assert line.agrees == agrees
    assert [problem.code for problem in group_problem(view, JOB)] == ["group-offsets-differ"] * (not agrees)


def test_the_problem_of_group_offsets_is_what_the_next_run_would_refuse() -> None:
    """For a ledger that was rolled back it was to accept the offsets, which that run does not do."""
    rolled_back = group_at(30, commit_metadata("L", incremental_run_id("L", "job", 9)))
    [problem] = group_problem(rolled_back, JOB)
    assert problem.code == "ledger-older"
    assert "use the newest copy of this ledger" in (problem.remedy or "")
    assert list(group_problem(None, JOB)) == []
