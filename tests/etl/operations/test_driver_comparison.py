"""Rows of small tables are compared in the driver: what the ledger says of a row, and the limit of their memory."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.driver_comparison import Intervals, RowClaims, TooLarge, within_budget
from kseg.etl.operations.landings import TableLandings
from kseg.etl.operations.verdicts import FOREIGN, KEPT, NOT_COMPARED, OLDER, REPLACED, STANDING

P0 = TopicPartition("t", 0)


def test_ranges_are_found_by_their_offsets() -> None:
    known = Intervals([("t", 0, 10, 20, 2), ("t", 0, 0, 5, 1), ("t", 1, 0, 5, 3)])
    found = [known.at(("t", 0, offset)) for offset in (0, 4, 5, 9, 10, 19, 20)]
    assert found == [1, 1, None, None, 2, 2, None]
    assert [known.at(("t", 1, 4)), known.at(("u", 0, 4))] == [3, None]


def test_a_row_has_the_claim_of_its_run_at_its_offset() -> None:
    state = JobState(job="j", ledger_id="L", lost_ledgers=("lost",))
    first, second, archived, before, other = (
        incremental_run_id(ledger, job, number)
        for number, (ledger, job) in enumerate([("L", "j"), ("L", "j"), ("L", "j"), ("lost", "j"), ("L", "another")], 1)
    )

    def of(start: int, end: int) -> dict[TopicPartition, OffsetSet]:
        return {P0: OffsetSet.single(start, end)}

    landed = TableLandings(
        "table",
        standing={second: of(0, 10)},
        kept={first: of(0, 2)},
        replaced={first: of(2, 4)},
        superseded={first: of(4, 6)},
        older=of(20, 30),
        older_replaced=of(30, 40),
    )
    claims = RowClaims(landed, state, frozenset({other.partition("-")[0]}))

    def claimed(run: str | None, *offsets: int) -> list[int]:
        return [claims.of(("t", 0, offset), run) for offset in offsets]

    assert claimed(first, 0, 2, 4, 6) == [KEPT, REPLACED, NOT_COMPARED, FOREIGN]
    assert claimed(second, 0, 9, 10) == [STANDING, STANDING, FOREIGN]
    assert claimed(archived, 19, 20, 30, 40) == [FOREIGN, OLDER, REPLACED, FOREIGN]
    assert claimed(before, 20) == [OLDER]
    assert claimed("of an early release", 20) == [OLDER]
    assert claimed(None, 0, 20) == [FOREIGN, OLDER]
    assert claimed(other, 0, 20) == [NOT_COMPARED, NOT_COMPARED]


def test_rows_beyond_the_memory_for_them_are_left_to_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch([pa.array([b"x" * 100])], names=["value"])
    monkeypatch.setattr("kseg.etl.operations.driver_comparison.MOST_ROW_BYTES", 2 * batch.nbytes)
    batches = within_budget([batch] * 3)
    assert [next(batches), next(batches)] == [batch, batch]
    with pytest.raises(TooLarge):
        next(batches)


def test_pyspark_is_loaded_where_spark_compares_alone() -> None:
    script = "import sys, kseg.etl.operations.verify; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=300, check=False).returncode == 0
