"""The compiled decoder alone: what it leaves to the reference, threads, arrays of any kind, room for any payload."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.json import compiled
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions

ORDINARY = {
    "boolean": ["true", "false", "null"],
    "tinyint": ["1", "-128", "1e2", "5.0"],
    "bigint": ["9223372036854775807", "-9223372036854775808", "1.5e3", "9.223372036854775807e18"],
    "decimal(38,10)": ["1.5", "-123456789.0123456789", "1e9", "1234567890123456789", "0.000000000100"],
    "double": ["0", "-0.0", "0.1", "1e22", "1e25", "0.30000000000000004", "123456.78901234567", "1e-300"],
    "float": ["0.1", "3.4e38", "1.5", "16777220", "1e-30"],
    "string": ['"a"', '"\\u00e9\\n"', '"é"'],
    "binary": ['"AAEC"', '"\\/w=="'],
    "date": ['"2024-02-29"'],
    "timestamp": ['"2024-02-29T12:30:00"', '"2024-02-29 12:30:00.123456000+01:00"', '"2024-02-29T12:30Z"'],
    "timestamp_ntz": ['"2024-02-29T12:30:00.5"'],
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which values the reference was asked for."""
    texts: list[str] = []
    own = compiled.scalar

    def scalar(token: Any, text: str, shape: Any) -> Any:
        texts.append(text)
        return own(token, text, shape)

    monkeypatch.setattr(compiled, "scalar", scalar)
    return texts


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_values_are_read_by_compiled_code(kind: str, asked: list[str]) -> None:
    decoder = json_decoder(parse_columns({"x": kind}), JsonOptions(time_zone="Europe/Berlin"))
    documents = [f'{{"x":{text}}}'.encode() for text in ORDINARY[kind]]
    assert decoder.decode(pa.array(documents, pa.binary())).status.tolist() == [Status.DECODED] * len(documents)
    assert asked == []


def test_rare_values_are_read_by_the_reference_each_by_itself(asked: list[str], read: Callable[..., Any]) -> None:
    rare = ["5e-324", "123456789012345678901234567890", "9007199254740993.00000000001", "1.7976931348623157e308"]
    rows = read({"x": "double"}, *(f'{{"x":{text}}}' for text in ["1", *rare, "2"]), unknown_fields="ignore")
    assert [row["x"] for _, row in rows] == [1.0, *map(float, rare), 2.0]
    assert set(asked) <= set(rare)
    assert asked[:2] == rare[:2]


def test_a_value_that_only_the_reference_refuses_fails_its_row_alone(read: Callable[..., Any]) -> None:
    """Rows behind it are decoded again: their lists and texts are where they belong."""
    columns = {"a": "array<string>", "x": "array<double>"}
    good, bad = '{"a":["é","bc"],"x":[1,5e-324]}', '{"a":["long"],"x":[1,5e-324,1.8e308]}'
    both = '{"x":[5e-324,1.8e308],"a":[1]}'
    first = '{"x":[5e-324],"a":[1]}'
    rows = read(columns, *[good, bad, good, both, bad, first, good] * 20, unknown_fields="ignore")
    expected = {"a": ["é", "bc"], "x": [1.0, 5e-324]}
    large, wrong = (Status.OUT_OF_RANGE, None), (Status.WRONG_TYPE, None)
    decoded = (Status.DECODED, expected)
    assert rows == [decoded, large, decoded, large, large, wrong, decoded] * 20


def test_threads_may_share_a_decoder() -> None:
    decoder = json_decoder(parse_columns({"a": "array<string>", "n": "bigint"}))

    def one(number: int) -> bool:
        documents = [{"a": [str(number)] * (n % 7), "n": n * number, "u": n} for n in range(500 + number)]
        found = decoder.decode(pa.array([json.dumps(each).encode() for each in documents], pa.binary()))
        rows = found.rows.to_pylist()
        return [{"a": each["a"], "n": each["n"]} for each in documents] == [
            {"a": row["a"], "n": row["n"]} for row in rows
        ]

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(one, range(40)))


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_arrays_of_small_and_large_binaries(kind: pa.DataType) -> None:
    decoder = json_decoder(parse_columns({"a": "int"}), JsonOptions(unknown_fields="ignore"))
    payloads = pa.array([b"-", b'{"a":1}', None, b'{"a":2}', b"-"], kind).slice(1, 3)
    decoded = decoder.decode(payloads)
    assert decoded.rows.to_pylist() == [{"a": 1}, None, {"a": 2}]
    assert decoded.status.tolist() == [Status.DECODED, Status.NULL, Status.DECODED]


def test_one_large_document_among_small_ones(scale: Callable[..., int]) -> None:
    """Buffers grow for it, and the row is begun again each time."""
    count = scale(20_000, 500_000)
    large = {"s": "x" * count, "l": [{"k": str(n), "m": {str(n): n}} for n in range(count // 10)], "u": ["é"] * count}
    small = {"s": "y", "l": [{"k": "z", "m": {}}], "u": []}
    documents = [small, large, *[small] * 200, large]
    decoder = json_decoder(parse_columns({"s": "string", "l": "array<struct<k:string,m:map<string,int>>>"}))
    payloads = pa.array([json.dumps(each).encode() for each in documents], pa.binary())
    for _ in range(2):
        rows = decoder.decode(payloads).rows
        rows.validate(full=True)
        for document, row in zip(documents, rows.to_pylist(), strict=True):
            assert row["s"] == document["s"]
            assert [(each["k"], dict(each["m"])) for each in row["l"]] == [(e["k"], e["m"]) for e in document["l"]]
            assert json.loads(row["_kseg_rescued"]) == {"u": document["u"]}
