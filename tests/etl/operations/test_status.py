"""What a job's status shows of its tables and of its group's offsets, without brokers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.status import _partitions, _table
from kseg.etl.planning.group_reconciliation import GroupView
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


def test_group_offsets_that_a_run_continues_from_are_no_problem() -> None:
    """The job took over from a consumer at offset 5, and its first run died before it committed: exit code 3."""
    tp = TopicPartition("orders", 0)
    state = JobState(
        "job",
        "L",
        bases={tp: 5},
        landed_offsets={tp: OffsetSet.single(5, 20)},
        committed={"g": {tp: ev.GroupOffset(5, "of a consumer")}},
    )
    topic = TopicMetadata("orders", None, False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})
    snapshot = SourceSnapshot("c", {"orders": topic}, {tp: LogBounds(0, 20, 20)}, {tp: 0}, {tp: 20})

    def agrees(offset: int) -> bool:
        view = GroupView("g", {tp: CommittedOffset(offset, -1, "of a consumer")})
        inputs = SimpleNamespace(snapshot=lambda: snapshot, group_view=lambda _: view, logs=None)
        job = SimpleNamespace(reporting=SimpleNamespace(freshness=None))
        context: Any = SimpleNamespace(inputs=inputs, job=job)
        ((line,), _) = _partitions(context, state)
        return line.agrees

    assert agrees(5)
    assert not agrees(7)
