"""Conditions on decoded columns: what they mean, and what is refused before anything is read."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.config.decoding import Decode
from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.errors import ExpectationBroken
from kseg.etl.decoding.expectations import literal, parse_expectation, with_nulls
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.transform.decode import DecodeStep, decode_step

ROWS = DecodeOptions(addresses=True).schema


@pytest.mark.parametrize(
    ("condition", "kind", "values", "broken"),
    [
        (">= 0", pa.decimal128(12, 2), [Decimal("-0.01"), Decimal(0), None], [True, False, False]),
        ("!=3", pa.int32(), [3, 4], [True, False]),
        ("between 1 and 31", pa.int8(), [0, 1, 31, 32], [True, False, False, True]),
        ("not null", pa.string(), ["", None], [False, True]),
        (["placed", "paid"], pa.string(), ["placed", "gone", None], [False, True, False]),
        ([1, 2], pa.int64(), [1, 3], [False, True]),
        ([0, 1], pa.float64(), [-0.0, 1.0, 2.0, None, float("nan")], [False, False, True, False, True]),
        (["-0.0"], pa.float32(), [0.0, -0.0], [False, False]),
        ("< 2026-01-01", pa.date32(), [date(2025, 12, 31), date(2026, 1, 1)], [False, True]),
        ("= 'a b'", pa.string(), ["a b", "a"], [False, True]),
        (">= 0", pa.float64(), [float("nan"), 0.0], [True, False]),
        ("= true", pa.bool_(), [True, False], [False, True]),
    ],
)
def test_a_condition_says_which_values_break_it(condition: Any, kind: Any, values: Any, broken: Any) -> None:
    assert parse_expectation("c", condition).broken(pa.array(values, kind)).tolist() == broken


@given(
    st.lists(st.none() | st.integers(-5, 5), min_size=1), st.integers(-5, 5), st.sampled_from(["<", "<=", ">", ">="])
)
def test_comparisons_are_those_of_python(values: list[int | None], bound: int, operator: str) -> None:
    broken = parse_expectation("c", f"{operator} {bound}").broken(pa.array(values, pa.int64())).tolist()
    assert broken == [v is not None and not eval(f"{v} {operator} {bound}") for v in values]


@pytest.mark.parametrize("condition", ["", "0", ">=", "null", "between 1", [], "like x"])
def test_what_is_no_condition_is_refused(condition: Any) -> None:
    with pytest.raises(ValueError, match=r"condition|empty"):
        parse_expectation("c", condition)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("x", pa.int64()), ("300", pa.int8()), ("1.005", pa.decimal128(4, 2)), ("1", pa.list_(pa.int8()))],
)
def test_a_literal_that_is_not_of_the_column_s_type_is_refused(text: str, kind: Any) -> None:
    with pytest.raises(ValueError, match=r"is no|cannot be compared"):
        literal(text, kind)


def test_nulls_can_be_put_into_any_column() -> None:
    column = pa.array([{"a": [1]}, {"a": [2]}])
    assert with_nulls(column, pa.array([False, True]).to_numpy(zero_copy_only=False)).to_pylist() == [{"a": [1]}, None]


def step_of(on_error: str = "fail", **expect: Any) -> DecodeStep:
    value = {"format": "json", "schema": {"columns": {"id": "bigint", "s": "string"}}}
    return decode_step(Decode.model_validate({"value": value, "on_error": on_error, "expect": expect}))


def batch() -> pa.RecordBatch:
    values = [b'{"id": 1, "s": "a"}', b'{"id": -1, "s": "b"}', b'{"s": "a"}', None]
    address = {"topic": "t", "partition": 0, "_kseg_topic": "t", "_kseg_partition": 0}
    rows = [{"value": value, "offset": at, "_kseg_offset": at, **address} for at, value in enumerate(values)]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


class Letters:
    wants_reasons = True

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def write(self, letters: pa.RecordBatch) -> None:
        self.rows += [(row["offset"], row["source"], row["error"], row["path"]) for row in letters.to_pylist()]


def test_what_breaks_an_expectation_goes_the_way_of_on_error() -> None:
    expect: dict[str, Any] = {"id": "not null", "s": ["a"]}
    with pytest.raises(ExpectationBroken) as caught:
        step_of(**expect).apply(batch(), {})
    assert (caught.value.address["offset"], caught.value.column) == (2, "id")
    letters = Letters()
    bad = BadRecords(letters)
    out = step_of("dead_letter", **expect).apply(batch(), {}, bad)
    assert out.column("_kseg_offset").to_pylist() == [0, 3], "a tombstone breaks nothing"
    assert letters.rows == [(1, "row", "EXPECTATION", "s"), (2, "row", "EXPECTATION", "id")]
    assert bad.counts == DecodingCounts(decoded=2, dead=2)
    bad = BadRecords()
    out = step_of("set_null", id=">= 0").apply(batch(), {}, bad)
    assert out.column("id").to_pylist() == [1, None, None, None]
    assert bad.counts == DecodingCounts(decoded=4, nulled=1, columns={"id": 1})
    bad = BadRecords()
    out = step_of("dead_letter", id=">= 0", **{"else": "warn"}).apply(batch(), {}, bad)
    assert (out.num_rows, bad.counts) == (4, DecodingCounts(decoded=4, warned=1))


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"nope": "not null"}, "decode.expect.nope: is no column of the decoded rows"),
        ({"id": ">= x"}, "decode.expect.id: 'x' is no bigint"),
    ],
)
def test_a_column_or_literal_that_does_not_fit_is_refused_before_anything_is_read(expect: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        step_of(**expect).output_schema(ROWS)
    assert said in str(caught.value)


@pytest.mark.parametrize("expect", [{"id": 5}, {"id": "many"}, {"id": "not null", "else": "drop"}])
def test_a_job_file_with_no_condition_is_refused(expect: Any) -> None:
    with pytest.raises(ValueError, match=r"condition|else"):
        step_of(**expect)
