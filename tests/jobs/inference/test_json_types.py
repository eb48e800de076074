"""The columns of JSON documents: what is inferred decodes what was sampled."""

from __future__ import annotations

import json
import string
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.config.load import load_job
from kseg.etl.decoding.formats.json import sampled_document
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.transform.decode import decode_step
from kseg.jobs.inference.draft import draft_of
from kseg.jobs.inference.json_seen import seen_in
from kseg.jobs.inference.json_types import InferredColumn, columns_of
from kseg.jobs.inference.sampling import Sample
from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json.decoder import json_decoder


def columns(*documents: str, most: int = 500) -> dict[str, InferredColumn]:
    seen = seen_in(sampled_document(document.encode()) for document in documents)
    return {column.name: column for column in columns_of(seen, most)}


def types(*documents: str) -> dict[str, str | None]:
    return {name: column.type for name, column in columns(*documents).items()}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["true", "null"], "boolean"),
        (["1", "-9223372036854775808", "9223372036854775807"], "bigint"),
        (["9223372036854775808"], "decimal(38,0)"),
        (["1" * 39], None),
        (["1", "2.5"], "double"),
        (["1e3"], "double"),
        (["9.50", "10"], "decimal(18,2)"),
        (["0.1000000000000000055511151231257827"], "decimal(38,34)"),
        (["9007199254740993", "1.5"], "decimal(18,1)"),
        (["1e400"], None),
        (['"a"', '"2026-01-01"'], "string"),
        (['"2026-01-01"', "null"], "date"),
        (['"2026-01-01T00:00:00Z"', '"2026-01-01 10:00:00.123+02:00"'], "timestamp"),
        (['"2026-01-01T00:00:00"'], "string"),
        (['"2026-02-30T00:00:00Z"'], "string"),
        (["[1, null]", "[]"], "array<bigint>"),
        (["[]"], None),
        (['[1, "a"]'], None),
        (["1", '"1"'], None),
        (["null"], None),
        (['{"a": 1}', '{"b": "x"}'], "struct<a: bigint, b: string>"),
        (['{"a": 1, "b": [], "c d": 1}'], "struct<a: bigint>"),
        (['{"a": 1, "A": 1}', '{"A": 2}'], "struct<A: bigint>"),
        (['{"a-b": 1}'], "struct<`a-b`: bigint>"),
        (["{}"], None),
    ],
)
def test_the_type_that_holds_all_values(values: list[str], expected: str | None) -> None:
    assert types(*(f'{{"x": {value}}}' for value in values)) == {"x": expected}


def test_names_that_vary_are_a_map_and_those_that_do_not_a_struct() -> None:
    varying = [json.dumps({"tags": {f"k{number}": number}}) for number in range(30)]
    assert types(*varying) == {"tags": "map<string,bigint>"}
    same = json.dumps({"wide": {f"k{number}": number for number in range(30)}})
    assert str(types(same)["wide"]).startswith("struct<k0: bigint, ")


def test_counts_and_what_is_ambiguous_are_said() -> None:
    found = columns(
        '{"id": 1, "at": 1767225600000, "on": "2026-01-01T00:00:00", "amount": 1.25, "odd": 1}',
        '{"id": null, "at": 1767225600001, "on": "2026-01-02T00:00:00", "amount": 2, "odd": "x", "empty": null}',
    )
    assert (found["id"].present, found["id"].nulls) == (2, 1)
    assert "epoch_millis" in found["at"].note
    assert "time_zone" in found["on"].note
    assert "decimal(18,2)" in found["amount"].note
    assert found["odd"].note == "mixed: 1 integer, 1 string"
    assert (found["empty"].present, found["empty"].note) == (1, "always null")


def test_names_that_a_table_cannot_have_get_another() -> None:
    found = columns('{"a b": 1, "A_b": 2, "_kseg_offset": 3, "a_b": 4}')
    names = [column.column for column in found.values()]
    assert names == ["a_b", "A_b_2", "field_kseg_offset", "a_b_3"]


def test_a_field_that_is_written_twice_is_not_declared() -> None:
    assert types('{"a": 1, "a": 2, "b": 1}') == {"a": None, "b": "bigint"}


def test_the_most_frequent_fields_are_declared() -> None:
    found = columns('{"rare": 1, "a": 1, "b": 1}', '{"a": 1, "b": 1}', most=2)
    assert {name: column.type for name, column in found.items()} == {"rare": None, "a": "bigint", "b": "bigint"}


_names = st.sampled_from(["a", "A", "b", "user-id", "c d", "value", "key", "on", "n"]) | st.text(
    st.characters(codec="utf-8"), max_size=5
)
_numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**60), 10**60)
_texts = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00", "2026-13-01", string.ascii_letters]
)
_values = st.recursive(
    st.none() | st.booleans() | _numbers | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=4),
    max_leaves=12,
)
_documents = st.lists(st.dictionaries(_names, _values, max_size=6), min_size=1, max_size=8)


@given(_documents)
def test_inferred_columns_decode_every_sampled_document(documents: list[dict[str, Any]]) -> None:
    payloads = [json.dumps(document).encode() for document in documents]
    found = columns_of(seen_in(map(sampled_document, payloads)), 500)
    declared = parse_columns({column.name: column.type for column in found if column.type is not None})
    decoder = json_decoder(declared)
    status = decoder.decode(pa.array(payloads, pa.binary())).status
    assert [decoder.explain(payloads[row]) for row in np.flatnonzero(status != Status.DECODED)] == []


@given(_documents)
def test_the_job_file_is_valid_and_its_columns_fit_a_table(documents: list[dict[str, Any]]) -> None:
    values: list[bytes | None] = [json.dumps(document).encode() for document in documents]
    sampled = Sample(1, len(values), [b"k"] * len(values), values)
    drafted = draft_of("orders", sampled, {"bootstrap.servers": "localhost:9092"}, table="./lake/orders")
    job = load_job(yaml.safe_load(drafted.text))
    assert job.decode is not None
    assert [line for line in drafted.text.splitlines() if not line.isprintable()] == []
    assert not any("cannot be decoded" in note for note in drafted.notes)
    schema = decode_step(job.decode).output_schema(DecodeOptions(addresses=True).schema)
    assert len({name.lower() for name in schema.names}) == len(schema.names)
