"""Which rows of a table are compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.expected_rows import ExpectedRows
from kseg.etl.operations.landings import TableLandings
from kseg.etl.operations.pruning import boxes
from kseg.etl.operations.spark_comparison import SparkComparison
from kseg.etl.rows.names import OWN_ADDRESS


def test_boxes_are_as_narrow_as_a_hundred_terms_allow() -> None:
    offsets = {TopicPartition("t", number): OffsetSet.of([(0, 5), (10, 15)]) for number in range(5_000)}
    assert len(boxes(offsets)) == 1
    assert [(box.start, box.end) for box in boxes(dict(list(offsets.items())[:10]))] == [(0, 5), (10, 15)] * 10


@pytest.mark.parametrize("count", [3, 5_000], ids=["a predicate", "a join"])
def test_rows_of_other_ranges_are_left_out(count: int, spark: Any) -> None:
    """Thousands of partitions make no deep predicate."""
    offsets = {TopicPartition("t", number): OffsetSet.of([(0, 5), (10, 15)]) for number in range(count)}
    rows = [(topic, n, offset) for topic in "tu" for n in (0, count - 1, count) for offset in (4, 7, 14, 15)]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset long")
    context: Any = SimpleNamespace(
        spark=SimpleNamespace(session=lambda **_: spark), targets=SimpleNamespace(frame=lambda *_, **__: frame)
    )
    expected = ExpectedRows(context, JobState(job="j", ledger_id="L"), TableLandings("t"), offsets, {})
    found = SparkComparison(expected, frozenset(), OWN_ADDRESS)._in_ranges()
    kept = [(0, 4), (0, 14), (count - 1, 4), (count - 1, 14)]
    assert sorted(tuple(row) for row in found.collect()) == [("t", *address) for address in kept]
    assert ("Join" in found._jdf.queryExecution().optimizedPlan().toString()) == (count > 3)
