"""Values that keep the form in which they are written, decimals in base64, and numbers in strings."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.json.shape import JsonOptions, shape_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def test_a_value_of_any_type_is_text_as_it_is_written(read: Callable[..., Any]) -> None:
    texts = ['{"a" : [1.50, {}]}', '"\\u00e9\\n"', "-0.0e+5", "true", "[ ]", '"é"', '{"a":1,"a":2}', "1" * 5000]
    rows = read({"f": "string", "n": "int"}, *(f'{{"f": {text} , "n": 1}}' for text in texts), formats={"f": "json"})
    assert [row["f"] for _, row in rows] == texts
    (row,) = read({"f": "string"}, '{"f": null}', formats={"f": "json"})
    assert row[1]["f"] is None


def test_what_is_no_json_is_an_error_there_too(read: Callable[..., Any]) -> None:
    documents = ['{"f": [1,]}', '{"f": nul}', b'{"f": "\xff"}', '{"f": [1', '{"f": ' + "[" * 200 + "]" * 200 + "}"]
    found = [status for status, _ in read({"f": "string"}, *documents, formats={"f": "json"})]
    assert found == [Status.MALFORMED, Status.MALFORMED, Status.INVALID_UTF8, Status.TRUNCATED, Status.TOO_DEEP]


def test_nothing_of_such_a_value_is_unknown(read: Callable[..., Any]) -> None:
    formats = {"f": "json", "l[].f": "json"}
    columns = {"f": "string", "l": "array<struct<f: string>>"}
    ((_, row),) = read(
        columns, '{"f": {"x": [{}]}, "l": [{"f": [1], "y": 2}]}', formats=formats, unknown_fields="rescue"
    )
    assert (row["f"], row["l"]) == ('{"x": [{}]}', [{"f": "[1]"}])
    assert row["_kseg_rescued"] == '{"l":[{"y": 2}]}'


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, max_size=30))
def test_any_values_are_kept(read: Callable[..., Any], values: list[Any]) -> None:
    documents = [json.dumps({"l": [value], "f": value}) for value in values]
    rows = read({"f": "string", "l": "array<string>"}, *documents, formats={"f": "json", "l[]": "json"})
    expected = [None if value is None else json.dumps(value) for value in values]
    assert [(row["f"], row["l"]) for _, row in rows] == [(text, [text]) for text in expected]


def test_a_decimal_in_base64_may_be_a_number(read: Callable[..., Any]) -> None:
    documents = ['{"d": "AfQ="}', '{"d": 5.5}', '{"d": "/\\u0077=="}', '{"d": true}', '{"d": "5"}']
    rows = read({"d": "decimal(5,2)"}, *documents, formats={"d": "base64"})
    assert [row and row["d"] for _, row in rows] == [Decimal("5.00"), Decimal("5.50"), Decimal("-0.01"), None, None]
    assert [status for status, _ in rows[3:]] == [Status.WRONG_TYPE] * 2
    assert [status for status, _ in read({"d": "decimal(5,2)"}, documents[0])] == [Status.WRONG_TYPE]


NUMBERS = (
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(12,2)",
    "decimal(38,0)",
    "decimal(38,38)",
)
WRITTEN = [
    *("0", "-0", "12.50", "-1", "1e2", "1E+2", "125e-1", "0E-10", "100.000", "127", "128", "-32768", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "0.1", "0.000000000000000000001", "1e400", "1e-400", "5e-324"),
    *("0.333333333333333333333333333333", "99999999999999999999999999999999999999", "8" * 400, "1" + "0" * 60),
    *("1e99999999999999999999", "9007199254740993", "16777217", "1.7976931348623157e308", "3.4028236e38"),
]
NO_NUMBERS = [
    "",
    " 1",
    "1 ",
    "+1",
    "01",
    ".5",
    "1.",
    "1e",
    "-",
    "--1",
    "1_000",
    "1,5",
    "0x10",
    "NaN",
    "Infinity",
    "١",
    "1\0",
]


@pytest.mark.parametrize("ddl", NUMBERS)
def test_a_number_in_a_string_is_what_it_is_without_quotes(read: Callable[..., Any], ddl: str) -> None:
    """To the value, or to the status of what the column does not hold."""
    columns, formats = {"n": ddl, "l": f"array<{ddl}>"}, {"n": "string", "l[]": "string"}
    plain = read(columns, *(f'{{"n": {text}, "l": [{text}]}}' for text in WRITTEN))
    quoted = read(columns, *(f'{{"n": "{text}", "l": ["{text}"]}}' for text in WRITTEN), formats=formats)
    mixed = read(columns, *(f'{{"n": {text}, "l": ["{text}", null]}}' for text in WRITTEN), formats=formats)
    assert quoted == plain
    assert [status for status, _ in mixed] == [status for status, _ in plain]
    assert {status for status, _ in plain} >= {Status.DECODED, Status.OUT_OF_RANGE}
    ((_, escaped), (_, nulls)) = read(
        columns, r'{"n": "\u0030.0e\u0031", "l": ["\u0030"]}', '{"n": null}', formats=formats
    )
    assert (escaped["n"], escaped["l"], nulls["n"]) == (0, [0], None)


@pytest.mark.parametrize("ddl", NUMBERS)
def test_a_string_of_anything_else_is_no_number(
    read: Callable[..., Any], explain: Callable[..., str], ddl: str
) -> None:
    documents = [json.dumps({"n": text}) for text in NO_NUMBERS]
    found = read({"n": ddl}, *documents, '{"n": true}', '{"n": ["1"]}', formats={"n": "string"})
    assert [status for status, _ in found] == [Status.WRONG_TYPE] * (len(NO_NUMBERS) + 2)
    assert f"'1,5' is no number: a {ddl} of format string is expected" in explain(
        {"n": ddl}, '{"n": "1,5"}', formats={"n": "string"}
    )
    assert read({"n": ddl}, '{"n": "0"}') == [(Status.WRONG_TYPE, None)]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.from_regex(r"-?[0-9]{1,45}(\.[0-9]{0,45})?([eE][+-]?[0-9]{0,3})?", fullmatch=True), min_size=1))
def test_any_number_in_a_string_has_one_value_in_both_decoders(read: Callable[..., Any], texts: list[str]) -> None:
    columns = {f"f{number}": ddl for number, ddl in enumerate(NUMBERS)}
    formats = dict.fromkeys(columns, "string")
    for name in columns:
        declared = {name: columns[name]}
        quoted = read(declared, *(f'{{"{name}": "{text}"}}' for text in texts), formats={name: formats[name]})
        plain = read(declared, *(f'{{"{name}": {text}}}' for text in texts))
        for (status, row), (bare, same) in zip(quoted, plain, strict=True):
            assert row == same
            assert status == (bare if bare not in (Status.MALFORMED, Status.TRUNCATED) else Status.WRONG_TYPE)


@pytest.mark.parametrize(
    ("ddl", "format", "said"),
    [
        ("string", "base64", "base64 is no format of a string: json is the only one"),
        ("decimal(5,2)", "json", "json is no format of a decimal: base64 and string are the only ones"),
        ("int", "json", "json is no format of a number: string is the only one"),
        ("boolean", "string", "formats names no date, timestamp, number or string"),
        ("string", "string", "string is no format of a string: json is the only one"),
    ],
)
def test_formats_are_those_of_the_type(ddl: str, format: str, said: str) -> None:
    with pytest.raises(InvalidSchema, match=said):
        shape_of(parse_columns({"f": ddl}), JsonOptions(formats={"f": format}))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(VALUES, st.integers(-(2**130), 2**130), st.randoms(use_true_random=False)), min_size=1))
def test_changed_bytes_have_one_status_in_both_decoders(read: Callable[..., Any], cases: list[Any]) -> None:
    documents: list[bytes] = []
    for value, number, random in cases:
        unscaled = base64.b64encode(number.to_bytes(random.choice([17, 20, 40]), "big", signed=True)).decode()
        document = bytearray(json.dumps({"f": value, "d": unscaled}).encode())
        document[random.randrange(len(document))] = random.randrange(256)
        documents.append(bytes(document[: random.choice([len(document), random.randrange(len(document) + 1)])]))
    for mode in ("ignore", "rescue"):
        formats = {"f": "json", "d": "base64"}
        rows = read({"f": "string", "d": "decimal(38,4)"}, *documents, formats=formats, unknown_fields=mode)
        read({"f": "double", "d": "bigint"}, *documents, formats=dict.fromkeys("fd", "string"), unknown_fields=mode)
        for document, (status, row) in zip(documents, rows, strict=True):
            if status is Status.DECODED and row["f"] is not None:
                assert json.loads(row["f"]) == json.loads(document)["f"]
