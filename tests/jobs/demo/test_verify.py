"""The demo's verification finds every difference between a topic and a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from kseg.jobs.demo.verify import SCHEMA, compare, read_topic

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _rows(count: int) -> list[dict[str, Any]]:
    return [
        {
            "partition": number % 2,
            "offset": number // 2,
            "key": None if number % 3 == 0 else b"k",
            "value": b"" if number % 5 == 0 else b"v%d" % number,
            "headers": None if number % 2 else [{"key": "h", "value": None}, {"key": "h", "value": b"2"}],
            "timestamp": _EPOCH + timedelta(milliseconds=number),
            "timestampType": 0,
        }
        for number in range(count)
    ]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, SCHEMA)


def test_the_same_rows_in_any_order_are_verified() -> None:
    rows = _rows(20)
    comparison = compare(_table(rows), _table(rows[::-1]))
    assert (comparison.verified, comparison.equal) == (20, True)


def test_nothing_is_equal_to_nothing() -> None:
    assert compare(_table([]), _table([])).equal


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("key", b"other"),
        ("key", b""),
        ("value", None),
        ("headers", []),
        ("headers", [{"key": "h", "value": b""}, {"key": "h", "value": b"2"}]),
        ("timestamp", _EPOCH),
        ("timestampType", 1),
    ],
)
def test_one_cell_that_differs_is_told(column: str, value: Any) -> None:
    rows = _rows(20)
    changed = [row | ({column: value} if (row["partition"], row["offset"]) == (0, 3) else {}) for row in rows]
    comparison = compare(_table(rows), _table(changed))
    assert comparison.verified == 19
    assert comparison.faults == (f"1 rows differ in {column}: 0:3",)


def test_missing_rows_are_told() -> None:
    rows = _rows(20)
    assert compare(_table(rows), _table(rows[1:])).faults == ("1 rows are missing in the table: 0:0",)


def test_rows_that_stand_twice_are_told() -> None:
    rows = _rows(20)
    assert "1 rows are in the table twice: 1:9" in compare(_table(rows), _table([*rows, rows[-1]])).faults


def test_rows_that_should_not_be_there_are_told_with_the_first_addresses() -> None:
    rows = _rows(40)
    (fault,) = compare(_table(rows[:10]), _table(rows), shown=2).faults
    assert fault == "30 rows are in the table, and should not: 0:5, 0:6 and 28 more"


@pytest.mark.broker
def test_the_independent_reader_sees_what_was_committed_below_the_ends(kafka: Any) -> None:
    from confluent_kafka import Producer

    topic = kafka.topic(partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)
    for value, commit in ((b"kept", True), (b"dropped", False), (b"kept too", True), (b"beyond", True)):
        producer.begin_transaction()
        producer.produce(topic, value=value, partition=1, headers=[("h", None)], timestamp=1234)
        producer.flush(60)
        producer.commit_transaction(60) if commit else producer.abort_transaction(60)
    rows = read_topic(kafka.bootstrap_servers, topic, {0: 0, 1: 6}).to_pylist()
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == [(1, 0, b"kept"), (1, 4, b"kept too")]
    assert rows[0]["headers"] == [{"key": "h", "value": None}]
    assert rows[0]["timestamp"] == _EPOCH + timedelta(milliseconds=1234)
