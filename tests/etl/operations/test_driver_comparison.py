"""Rows of small tables are compared in the driver: which rows count as equal, and what the ledger says of a row."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.driver_comparison import Intervals, RowClaims, TooLarge, _Budget, _digests
from kseg.etl.operations.landings import TableLandings
from kseg.etl.operations.verdicts import FOREIGN, KEPT, NOT_COMPARED, OLDER, REPLACED, STANDING

P0 = TopicPartition("t", 0)


def digest(value: Any, kind: pa.DataType) -> bytes:
    (one,) = _digests(pa.record_batch([pa.array([value], kind)], names=["c"]), ["c"])
    return one


MOMENT = pa.timestamp("us", tz="UTC")
STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("value", "other", "kind"),
    [
        (1, 2, pa.int64()),
        (None, 0, pa.int32()),
        (None, "", pa.string()),
        ("1", "2", pa.string_view()),
        (b"\x00", b"\x01", pa.binary_view()),
        (1.5, float("nan"), pa.float64()),
        (True, False, pa.bool_()),
        (Decimal("1.50"), Decimal("1.51"), pa.decimal128(5, 2)),
        (9_000_000_000_000_000_000, 9_000_000_000_000_000_001, MOMENT),
        (-719_163 - 400, -719_163 - 401, pa.date32()),
        ([1, None], [1], pa.list_(pa.int32())),
        ([[1], [2]], [[1, 2], []], pa.list_(pa.list_(pa.int32()))),
        ({"a": 1, "b": None}, {"a": None, "b": "1"}, STRUCT),
        ({"a": None, "b": None}, None, STRUCT),
        ([("k", 1)], [("k", None)], pa.map_(pa.string(), pa.int32())),
        ([], None, pa.map_(pa.string(), pa.int32())),
        ([{"m": [("k", 1)]}], [{"m": [("k", 2)]}], pa.list_(pa.struct([("m", pa.map_(pa.string(), MOMENT))]))),
    ],
    ids=lambda one: str(one)[:30],
)
def test_rows_differ_where_a_value_does(value: Any, other: Any, kind: pa.DataType) -> None:
    assert digest(value, kind) == digest(value, kind)
    assert digest(other, kind) == digest(other, kind)
    assert digest(value, kind) != digest(other, kind)


@pytest.mark.parametrize(
    ("value", "kind", "other", "other_kind"),
    [
        ("x", pa.string(), "x", pa.string_view()),
        ("x", pa.string(), "x", pa.dictionary(pa.int32(), pa.string())),
        (b"x", pa.binary(), b"x", pa.large_binary()),
        (["x"], pa.list_(pa.string()), ["x"], pa.large_list(pa.large_string())),
        ({"a": 1}, pa.struct([("a", pa.int32())]), {"A": 1}, pa.struct([("A", pa.int32())])),
        (
            [("a", 1), ("b", 2)],
            pa.map_(pa.string(), pa.int32()),
            [("b", 2), ("a", 1)],
            pa.map_(pa.string(), pa.int32()),
        ),
        (float("nan"), pa.float64(), float("nan"), pa.float64()),
    ],
    ids=["view", "dictionary", "large", "list", "field names", "map order", "nan"],
)
def test_rows_are_equal_however_their_values_are_held(
    value: Any, kind: pa.DataType, other: Any, other_kind: pa.DataType
) -> None:
    assert digest(value, kind) == digest(other, other_kind)


def test_values_belong_to_their_columns() -> None:
    batch = pa.record_batch([pa.array(["a", None]), pa.array([None, "a"])], names=["One", "two"])
    one, other = _digests(batch, ["one", "TWO"])
    assert one != other
    assert _digests(batch, []) == [b"", b""]


def test_a_column_that_rows_lack_is_null() -> None:
    table = pa.record_batch([pa.array([1, 1]), pa.array([None, 2])], names=["a", "added"])
    record = pa.record_batch([pa.array([1])], names=["a"])
    one, other = _digests(table, ["a", "added"])
    assert _digests(record, ["a", "added"]) == [one]
    assert one != other


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
    batches = _Budget().spent_on([batch] * 3)
    assert [next(batches), next(batches)] == [batch, batch]
    with pytest.raises(TooLarge):
        next(batches)


def test_pyspark_is_loaded_where_spark_compares_alone() -> None:
    script = "import sys, kseg.etl.operations.verify; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], timeout=300, check=False).returncode == 0
