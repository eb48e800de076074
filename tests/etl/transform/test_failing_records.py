"""Steps of the user that raise for a record: it alone is named, or set aside, whatever else is in its batch."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collected_letters import CollectedLetters
from kseg.etl.config.decoding import Decode
from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.errors import TooManyDeadLetters
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.transform.arrow import ArrowStep
from kseg.etl.transform.decode import decode_step
from kseg.etl.transform.step import BatchStep
from kseg.etl.transform.transform import BatchSteps

ROWS = DecodeOptions(addresses=True).schema
FIRST = 100
ADDRESS = {"topic": "orders", "partition": 1, "offset": FIRST}


def batch(ids: list[int | None]) -> pa.RecordBatch:
    """None: a value that cannot be decoded."""
    rows = [
        {
            **{"key": b"k", "value": b"{" if id is None else b'{"id": %d, "offset": 7}' % id},
            **{"topic": "orders", "partition": 1, "offset": FIRST + at, "timestamp": 0, "timestampType": 0},
            **{"_kseg_topic": "orders", "_kseg_partition": 1, "_kseg_offset": FIRST + at},
        }
        for at, id in enumerate(ids)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


def twice_without_thirds(rows: pa.RecordBatch) -> pa.RecordBatch:
    """More rows, and fewer: what the next step gets is not one row a record."""
    kept = rows.filter(pc.not_equal(pc.bit_wise_and(rows.column("id"), 3), 3))
    return pa.concat_batches([kept, kept])


def inverse(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Raises for an id 0."""
    return rows.append_column("inverse", pa.array([60 // id for id in rows.column("id").to_pylist()], pa.int64()))


def no_even_number_of_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    if rows.num_rows and rows.num_rows % 2 == 0:
        raise ValueError("an even number")
    return rows


def breaks_down(rows: pa.RecordBatch) -> pa.RecordBatch:
    if rows.num_rows:
        raise ConnectionError("the service is away")
    return rows


def steps_of(on_error: str, *functions: Any) -> BatchSteps:
    columns = {"id": "bigint", "offset": "int"}
    section = {"value": {"format": "json", "schema": {"columns": columns}}, "on_error": on_error}
    steps: list[BatchStep] = [decode_step(Decode.model_validate(section))]
    steps += [ArrowStep(function, f"transform[{at}].arrow") for at, function in enumerate(functions)]
    return BatchSteps(tuple(steps))


def applied(steps: BatchSteps, records: pa.RecordBatch, bad: BadRecords) -> pa.RecordBatch:
    return steps.apply(records, steps.output_schema(ROWS), ADDRESS, bad)


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=40))
def test_every_record_is_a_row_or_a_dead_letter_and_the_others_are_untouched(ids: list[int | None]) -> None:
    letters = CollectedLetters()
    bad = BadRecords(letters)
    out = applied(steps_of("dead_letter", twice_without_thirds, inverse), batch(ids), bad)
    undecodable = {FIRST + at for at, id in enumerate(ids) if id is None}
    raising = {FIRST + at for at, id in enumerate(ids) if id == 0}
    landed = [FIRST + at for at, id in enumerate(ids) if id and id & 3 != 3]
    assert sorted(out.column("_kseg_offset").to_pylist()) == sorted(landed * 2)
    assert sorted(letter["offset"] for letter in letters.rows) == sorted(undecodable | raising)
    of_step = {letter["offset"]: letter for letter in letters.rows if letter["error"] == "TRANSFORM"}
    assert set(of_step) == raising
    assert {(letter["source"], letter["path"]) for letter in of_step.values()} <= {("row", "transform[1].arrow")}
    assert all("inverse raised ZeroDivisionError" in letter["message"] for letter in of_step.values())
    assert all(letter["value"] == b'{"id": 0, "offset": 7}' for letter in of_step.values())
    assert bad.counts == DecodingCounts(decoded=len(ids) - len(letters.rows), dead=len(letters.rows))


def test_with_fail_the_error_has_the_address_of_the_record() -> None:
    with pytest.raises(ArrowStepError, match="inverse raised ZeroDivisionError") as caught:
        applied(steps_of("fail", inverse), batch([1] * 500 + [0] + [1] * 200 + [0]), BadRecords())
    assert caught.value.address.items() >= {"topic": "orders", "partition": 1, "offset": FIRST + 500}.items()
    without = BatchSteps((ArrowStep(fails_at_b, "transform[0].arrow"),))
    with pytest.raises(ArrowStepError) as caught:
        applied(without, batch([1, 2, 7, 2]), BadRecords())
    assert caught.value.address["offset"] == FIRST + 2


def fails_at_b(rows: pa.RecordBatch) -> pa.RecordBatch:
    if any(b"7," in value for value in rows.column("value").to_pylist()):
        raise ValueError("a seven")
    return rows


def test_what_is_of_no_single_record_is_raised_as_it_is() -> None:
    for function, message in ((no_even_number_of_rows, "an even number"), (breaks_down, "the service is away")):
        letters = CollectedLetters()
        with pytest.raises(ArrowStepError, match=message) as caught:
            applied(steps_of("dead_letter", function), batch([1, 2, 3, 4]), BadRecords(letters))
        assert caught.value.address["offset"] == FIRST
        assert letters.rows == []


def test_the_search_ends_with_more_records_than_may_be_dead_letters() -> None:
    calls = 0

    def all_fail(rows: pa.RecordBatch) -> pa.RecordBatch:
        nonlocal calls
        calls += 1
        return inverse(rows)

    bad = BadRecords(CollectedLetters(), most=5)
    with pytest.raises(TooManyDeadLetters, match=r"transform.0..arrow: TRANSFORM: .*ZeroDivisionError") as caught:
        applied(steps_of("dead_letter", all_fail), batch([0] * 4096), bad)
    assert caught.value.dead == 6
    assert calls < 40


def test_a_counting_alone_applies_the_steps_that_may_set_records_aside() -> None:
    assert steps_of("dead_letter", inverse).decoding.steps == steps_of("dead_letter", inverse).steps
    assert len(steps_of("set_null", inverse).decoding.steps) == 1
