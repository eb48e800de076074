"""What becomes of records that have no row: counted, and kept whole with their error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collected_letters import CollectedLetters
from kseg.etl.config.decoding import Decode
from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.errors import TooManyDeadLetters, TooManyNulled
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.rules import FIRST, NEWEST
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.tasks.error_json import error_document, error_of_document
from kseg.etl.transform.decode import DecodeStep, decode_step
from kseg.segment_reader.decode.schema import RAW_HEADER, RAW_HEADERS
from kseg.segment_reader.payload.decoder import Status

ROWS = DecodeOptions(addresses=True).schema
ADDRESS = {"topic": "orders", "partition": 1, "offset": 5}
GOOD, BAD = b'{"id": 1}', b'{"id": "x"}'
HEADERS = [{"key": "trace", "value": b"\x00\xff"}]


def step_of(on_error: str, tombstones: str = "keep", key: str | None = None) -> DecodeStep:
    value = {"format": "json", "schema": {"columns": {"id": "bigint"}}, "tombstones": tombstones}
    keys = {"key": {"format": key, "as": "k"}} if key is not None else {}
    return decode_step(Decode.model_validate({**keys, "value": value, "on_error": on_error}))


def batch(values: list[bytes | None], keys: list[bytes | None] | None = None) -> pa.RecordBatch:
    rows = [
        {
            **{"key": keys[number] if keys else b"k", "value": value, "headers": HEADERS},
            **{"topic": "orders", "partition": 1, "offset": 5 + number, "timestamp": number, "timestampType": 0},
            **{"_kseg_topic": "orders", "_kseg_partition": 1, "_kseg_offset": 5 + number},
        }
        for number, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


def test_a_dead_letter_has_the_record_as_it_was_and_the_error() -> None:
    letters = CollectedLetters()
    bad = BadRecords(letters)
    out = step_of("dead_letter").apply(batch([GOOD, BAD, None]), ADDRESS, bad)
    assert out.column("_kseg_offset").to_pylist() == [5, 7]
    assert bad.counts == DecodingCounts(decoded=2, dead=1)
    (letter,) = letters.rows
    message, when = letter.pop("message"), letter.pop("timestamp")
    assert "string" in message
    assert when is not None
    assert letter == {
        **{"topic": "orders", "partition": 1, "offset": 6, "timestampType": 0},
        **{"key": b"k", "value": BAD, "headers": HEADERS, "rawHeaders": None, "schema_id": None},
        **{"source": "value", "error": "WRONG_TYPE", "path": "id"},
    }
    assert bad.dead_examples == [f"orders-1 offset 6: value at id: WRONG_TYPE: {message}"]


def test_a_record_with_two_errors_is_one_dead_letter() -> None:
    letters = CollectedLetters()
    bad = BadRecords(letters)
    step_of("dead_letter", key="long").apply(batch([BAD, GOOD], keys=[b"short", b"\0" * 8]), ADDRESS, bad)
    assert [(letter["offset"], letter["source"]) for letter in letters.rows] == [(5, "key")]


def test_nulls_stand_in_for_what_cannot_be_decoded() -> None:
    bad = BadRecords()
    out = step_of("set_null").apply(batch([GOOD, BAD, None]), ADDRESS, bad)
    assert out.column("id").to_pylist() == [1, None, None]
    assert out.column("_kseg_offset").to_pylist() == [5, 6, 7]
    assert bad.counts == DecodingCounts(decoded=3, nulled=1, columns={"id": 1})


def test_by_the_first_rules_all_of_the_value_is_null_and_no_column_is_counted() -> None:
    columns = {"id": "bigint", "note": "string"}
    decode = Decode.model_validate(
        {"value": {"format": "json", "schema": {"columns": columns}}, "on_error": "set_null"}
    )
    for rules, note, counted in (FIRST, None, {}), (NEWEST, "n", {"id": 1}):
        bad = BadRecords()
        out = decode_step(decode, rules=rules).apply(batch([b'{"id": "x", "note": "n"}']), ADDRESS, bad)
        assert (out.column("id").to_pylist(), out.column("note").to_pylist()) == ([None], [note])
        assert bad.counts == DecodingCounts(decoded=1, nulled=1, columns=counted)


def test_a_tombstone_that_is_left_out_has_no_nulls_of_its_key() -> None:
    bad = BadRecords(most_nulled=1)
    step = step_of("set_null", tombstones="drop", key="long")
    out = step.apply(batch([None, GOOD, None], keys=[b"short", b"short", b"\0" * 8]), ADDRESS, bad)
    assert (out.column("k").to_pylist(), out.column("id").to_pylist()) == ([None], [1])
    assert bad.counts == DecodingCounts(decoded=1, dropped=2, nulled=1, columns={"*": 1})
    assert len(bad.nulled_examples) == 1
    step.apply(batch([None], keys=[b"short"]), ADDRESS, bad)
    assert bad.counts == DecodingCounts(decoded=1, dropped=3, nulled=1, columns={"*": 1})


def test_more_nulls_than_a_run_may_have_stop_the_task_with_the_first_errors() -> None:
    bad = BadRecords(most_nulled=4)
    step_of("set_null").apply(batch([BAD] * 3), ADDRESS, bad)
    with pytest.raises(TooManyNulled) as caught:
        step_of("set_null").apply(batch([BAD] * 2), ADDRESS, bad)
    error = caught.value
    assert (error.code, error.nulled, error.most, error.retriable) == ("too-many-nulled", 5, 4, False)
    assert [line.partition(":")[0] for line in error.examples] == [f"orders-1 offset {n}" for n in (5, 6, 7)]
    assert str(error_of_document(error_document(error))) == str(error)


def test_a_null_of_any_cause_is_an_example() -> None:
    value = {"format": "json", "schema": {"columns": {"id": "bigint"}}}
    expecting = {"value": value, "keep": ["headers"], "on_error": "set_null", "expect": {"id": "< 5"}}
    step = decode_step(Decode.model_validate(expecting), refuses_names=True)
    records = batch([b'{"id": 7}', GOOD, BAD, GOOD])
    raw = pa.array([None, None, None, [{"key": b"\xff", "value": None}]], pa.list_(RAW_HEADER))
    records = pa.RecordBatch.from_arrays([*records.columns, raw], names=[*records.schema.names, RAW_HEADERS])
    bad = BadRecords()
    step.apply(records, ADDRESS, bad)
    assert bad.counts.nulled == 3
    assert [line.split(": ")[:3] for line in bad.nulled_examples] == [
        ["orders-1 offset 5", "row at id", "EXPECTATION"],
        ["orders-1 offset 7", "value at id", "WRONG_TYPE"],
        ["orders-1 offset 8", "headers at [0]", "HEADER_NAME"],
    ]


def test_nulls_and_dead_letters_are_no_examples_of_each_other() -> None:
    """Topics of one job may differ in `on_error`, and a redrive tries the letters of all."""
    bad = BadRecords(CollectedLetters())
    step_of("set_null").apply(batch([BAD] * 5), ADDRESS, bad)
    assert (len(bad.nulled_examples), bad.dead_examples) == (3, [])
    step_of("dead_letter").apply(batch([GOOD, BAD]), ADDRESS, bad)
    (line,) = bad.dead_examples
    assert line.startswith("orders-1 offset 6: value at id: WRONG_TYPE: ")


def test_more_dead_letters_than_a_run_may_have_stop_the_task_with_the_first_errors() -> None:
    with pytest.raises(TooManyDeadLetters) as caught:
        step_of("dead_letter").apply(batch([BAD] * 5), ADDRESS, BadRecords(CollectedLetters(), most=4))
    error = caught.value
    assert (error.code, error.dead, error.most, error.retriable) == ("too-many-dead-letters", 5, 4, False)
    assert [line.partition(":")[0] for line in error.examples] == [f"orders-1 offset {n}" for n in (5, 6, 7)]
    assert str(error_of_document(error_document(error))) == str(error)


@given(
    st.lists(st.sampled_from([GOOD, BAD, None, b"", b"{"]), min_size=1, max_size=30),
    st.sampled_from(["set_null", "dead_letter"]),
    st.sampled_from(["keep", "drop"]),
)
def test_each_record_is_a_row_or_dead_or_dropped(values: list[bytes | None], on_error: str, tombstones: str) -> None:
    letters = CollectedLetters()
    bad = BadRecords(letters)
    out = step_of(on_error, tombstones).apply(batch(values), ADDRESS, bad)
    dead = {letter["offset"] for letter in letters.rows}
    dropped = {5 + n for n, value in enumerate(values) if value is None and tombstones == "drop"}
    failing = {5 + n for n, value in enumerate(values) if value is not None and value != GOOD}
    assert dead == (failing if on_error == "dead_letter" else set())
    assert out.column("_kseg_offset").to_pylist() == sorted({5 + n for n in range(len(values))} - dead - dropped)
    nulled = len(failing) if on_error == "set_null" else 0
    broken = sum(value in (b"", b"{") for value in values)
    columns = {name: count for name, count in (("*", broken), ("id", nulled - broken)) if nulled and count}
    assert bad.counts == DecodingCounts(out.num_rows, len(dead), len(dropped), nulled, columns=columns)
    assert bad.counts.total == len(values)
    ids = dict(zip(out.column("_kseg_offset").to_pylist(), out.column("id").to_pylist(), strict=True))
    assert ids == {at: 1 if values[at - 5] == GOOD else None for at in ids}
    assert np.all(np.diff(out.column("_kseg_offset")) > 0)


def test_only_as_many_records_are_explained_as_may_be_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why a record has no row is found one by one in Python: not for records of a run that is refused."""
    asked: list[int] = []
    explained = PayloadPlan.explain

    def counted(plan: PayloadPlan, records: pa.RecordBatch, row: int, status: Status) -> Any:
        asked.append(row)
        return explained(plan, records, row, status)

    monkeypatch.setattr(PayloadPlan, "explain", counted)
    many = batch([BAD] * 10_000)
    bad = BadRecords(CollectedLetters(), most=100)
    with pytest.raises(TooManyDeadLetters) as caught:
        step_of("dead_letter").apply(many, ADDRESS, bad)
    assert (caught.value.dead, len(bad.dead_examples), asked) == (10_000, 3, [0, 1, 2])
    asked.clear()
    counting = BadRecords()
    step_of("dead_letter").apply(many, ADDRESS, counting)
    assert (counting.counts.dead, asked) == (10_000, [0, 1, 2]), "letters that are written by nobody"
    asked.clear()
    step_of("dead_letter").apply(batch([GOOD, BAD, BAD]), ADDRESS, BadRecords(CollectedLetters(), most=2))
    assert asked == [1, 2]
