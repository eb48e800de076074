"""Rows become addresses and digests: which rows count as equal, and which rows of a task are returned."""

from __future__ import annotations

import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.rows.names import KSEG_ADDRESS, ROUTE_COLUMN
from kseg.etl.source.tasks import RangeTask
from kseg.etl.tasks.digests import DigestWrite, digests
from kseg.etl.tasks.packs import TaskAttempt


def digest(value: Any, kind: pa.DataType) -> bytes:
    (one,) = digests(pa.record_batch([pa.array([value], kind)], names=["c"]), ["c"])
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
    one, other = digests(batch, ["one", "TWO"])
    assert one != other
    assert digests(batch, []) == [b"", b""]


def test_a_column_that_rows_lack_is_null() -> None:
    table = pa.record_batch([pa.array([1, 1]), pa.array([None, 2])], names=["a", "added"])
    record = pa.record_batch([pa.array([1])], names=["a"])
    one, other = digests(table, ["a", "added"])
    assert digests(record, ["a", "added"]) == [one]
    assert one != other


ROWS = pa.table(
    {
        "_kseg_topic": ["t", "t", "t", "u"],
        "_kseg_partition": pa.array([0, 0, 1, 0], pa.int32()),
        "_kseg_offset": pa.array([5, 6, 5, 5], pa.int64()),
        "value": [b"a", b"b", b"a", None],
        ROUTE_COLUMN: ["orders", "rest", None, "orders"],
    }
)
OFFSETS = {TopicPartition("t", 0): OffsetSet.single(6, 9), TopicPartition("u", 0): OffsetSet.single(0, 9)}


@pytest.mark.parametrize(
    ("kept", "due"),
    [
        ({}, [0, 1, 2, 3]),
        ({"routes": ("orders",)}, [0, 3]),
        ({"routes": ("orders", "rest")}, [0, 1, 3]),
        ({"offsets": OFFSETS}, [1, 3]),
        ({"routes": ("orders",), "offsets": OFFSETS}, [3]),
        ({"routes": ("none",)}, []),
    ],
    ids=["all", "a route", "two routes", "offsets", "both", "no row"],
)
def test_a_task_returns_addresses_and_digests_of_the_rows_that_are_wanted(kept: dict[str, Any], due: list[int]) -> None:
    write = pickle.loads(pickle.dumps(DigestWrite(KSEG_ADDRESS, ["value"], **kept)))
    attempt = TaskAttempt((RangeTask("t", 0, 5, 7),), 0, 0, ROWS.schema)
    found = [row for batch in write(iter(ROWS.to_batches(max_chunksize=3)), attempt) for row in batch.to_pylist()]
    rows, made = ROWS.to_pylist(), [d for batch in ROWS.to_batches() for d in digests(batch, ["value"])]
    assert found == [
        {
            "topic": rows[at]["_kseg_topic"],
            "partition": rows[at]["_kseg_partition"],
            "offset": rows[at]["_kseg_offset"],
            "digest": made[at],
        }
        for at in due
    ]
    assert made[0] == made[2]
