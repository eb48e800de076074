"""Decoded values as JSON: nothing is rounded, and nothing that a calendar or JSON does not have ends the command."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kseg.jobs.records.typed import plain

MICROS = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (None, pa.int64(), None),
        (2**63 - 1, pa.int64(), 2**63 - 1),
        (Decimal("12345678901234567890.10"), pa.decimal128(38, 2), "12345678901234567890.10"),
        (float("nan"), pa.float64(), "nan"),
        (1.5, pa.float32(), 1.5),
        (b"\xff\0", pa.binary(), "/wA="),
        (datetime(2026, 1, 1, 10, 0, 0, 5, tzinfo=UTC), MICROS, "2026-01-01T10:00:00.000005Z"),
        (datetime(2026, 1, 1), pa.timestamp("us"), "2026-01-01T00:00:00"),
        (date(2026, 1, 1), pa.date32(), "2026-01-01"),
        ([1, None], pa.list_(pa.int32()), [1, None]),
        ([("a", 1)], pa.map_(pa.string(), pa.int32()), {"a": 1}),
        ([(7, "x")], pa.map_(pa.int32(), pa.string()), {"7": "x"}),
        ([(True, "x")], pa.map_(pa.bool_(), pa.string()), {"true": "x"}),
        ({"a": {"b": [b"x"]}}, pa.struct([("a", pa.struct([("b", pa.list_(pa.binary()))]))]), {"a": {"b": ["eA=="]}}),
    ],
)
def test_a_value_as_json(value: Any, kind: pa.DataType, shown: Any) -> None:
    found = plain(pa.array([value], kind)[0])
    assert found == shown
    assert json.loads(json.dumps(found, allow_nan=False)) == shown


@pytest.mark.parametrize(("number", "kind"), [(2**62, MICROS), (-(2**62), pa.timestamp("us")), (2**30, pa.date32())])
def test_a_time_that_no_calendar_has_is_its_number(number: int, kind: pa.DataType) -> None:
    physical = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    assert plain(pa.array([number], physical).view(kind)[0]) == number
