"""Which offsets of a batch read are outside of the log, and which are not."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.source.resolve import LogBounds
from kseg.etl.spark_format import planning
from kseg.etl.spark_format.options import ReadOptions

TP = TopicPartition("orders", 0)
LOG = LogBounds(100, 250, 300)
"""log start, last stable offset, high watermark"""


class CommittedAt:
    """A log of which a group has committed an offset."""

    def __init__(self, committed: int) -> None:
        self.committed = committed

    def topics(self, **_: Any) -> dict[TopicPartition, TopicMetadata]:
        return {TP: TopicMetadata("orders", None, False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})}

    def bounds(self, partitions: Any) -> dict[TopicPartition, LogBounds]:
        return {TP: LOG}

    def offsets(self, spec: Any, partitions: Any, *, isolation_level: str, **_: Any) -> dict[TopicPartition, int]:
        if spec == "committed":
            return {TP: self.committed}
        return {TP: LOG.last_stable if isolation_level == "read_committed" else LOG.high_watermark}

    def tasks(self, ranges: Any, **_: Any) -> list[tuple[int, int]]:
        return [(one.start, one.end) for one in ranges]


def planned(monkeypatch: pytest.MonkeyPatch, committed: int, **options: str) -> Any:
    monkeypatch.setattr(planning, "open_logs", lambda _: nullcontext(CommittedAt(committed)))
    base = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders", "kafka.group.id": "g"}
    return planning.plan_tasks(ReadOptions.parse(base | {"startingOffsets": "committed"} | options))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_group_s_offset_above_the_log_s_end_is_a_loss(monkeypatch: pytest.MonkeyPatch, isolation: str) -> None:
    options = {"kafka.isolation.level": isolation}
    with pytest.raises(OffsetsLost) as caught:
        planned(monkeypatch, 500, **options)
    assert (caught.value.first, caught.value.last, caught.value.reason) == (300, 500, "truncation")
    ((start, end),) = planned(monkeypatch, 500, failOnDataLoss="false", **options)
    assert start == end, "there is nothing to read"


@pytest.mark.parametrize(
    ("committed", "ends", "expected"),
    [
        (280, {"kafka.isolation.level": "read_committed"}, (250, 250)),  # the group reads uncommitted records
        (300, {}, (300, 300)),
        (200, {"endingOffsets": '{"orders":{"0":-1}}'}, (200, 300)),
    ],
)
def test_a_group_s_offset_inside_of_the_log_is_no_loss(
    monkeypatch: pytest.MonkeyPatch, committed: int, ends: dict[str, str], expected: tuple[int, int]
) -> None:
    assert planned(monkeypatch, committed, **ends) == [expected]
