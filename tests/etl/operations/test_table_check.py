"""Which rows of a table are compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.landings import TableLandings
from kseg.etl.operations.pruning import boxes
from kseg.etl.operations.table_check import TableCheck
from kseg.etl.tables.parquet.schema import OWN_ADDRESS


def test_thousands_of_partitions_make_no_deep_predicate(spark: Any) -> None:
    count = 5_000
    offsets = {TopicPartition("t", number): OffsetSet.of([(0, 5), (10, 15)]) for number in range(count)}
    assert len(boxes(offsets)) == 1
    assert [(box.start, box.end) for box in boxes(dict(list(offsets.items())[:10]))] == [(0, 5), (10, 15)] * 10
    context: Any = SimpleNamespace(spark=SimpleNamespace(session=lambda **_: spark))
    check = TableCheck(context, JobState(job="j", ledger_id="L"), TableLandings("t"), offsets)
    rows = [("t", number, offset) for number in (0, count - 1, count) for offset in (4, 7, 14, 15)]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset long")
    found = check._in_ranges(frame, OWN_ADDRESS).collect()
    assert sorted((row[1], row[2]) for row in found) == [(0, 4), (0, 14), (count - 1, 4), (count - 1, 14)]
