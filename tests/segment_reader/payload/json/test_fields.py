"""Names: which field is which, unknown ones and their rescue, duplicates, and what is declared unsoundly."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.json.shape import JsonOptions, row_type, shape_of

DECODED, DUPLICATE_KEY = Status.DECODED, Status.DUPLICATE_KEY


def test_names_are_exact(read: Callable[..., Any]) -> None:
    columns = dict.fromkeys(["a", "A", "", "é", 'q"', "b\\", "n\n", "eight888"], "int")
    document = {name: number for number, name in enumerate(columns)}
    for text in (json.dumps(document), json.dumps(document, ensure_ascii=False)):
        assert read(columns, text) == [(DECODED, {**document, "_kseg_rescued": None})]
    escaped = "".join(f"\\u{ord(c):04x}" for c in "eight888")
    assert read(columns, f'{{"{escaped}":5}}', unknown_fields="ignore")[0][1]["eight888"] == 5
    assert read({"a": "int"}, '{"A":1,"aa":2,"a ":3,"":4}', unknown_fields="ignore") == [(DECODED, {"a": None})]


@pytest.mark.parametrize("size", [1, 6, 7, 8, 9, 15, 16, 17, 300])
def test_names_of_any_length_in_any_order(size: int, read: Callable[..., Any]) -> None:
    columns = {f"{number:0{size}x}"[-size:]: "int" for number in range(16)}
    names = list(columns)
    for order in (names, names[::-1], names[::2] + names[1::2]):
        document = {name: number for number, name in enumerate(order)}
        assert read(columns, json.dumps(document), unknown_fields="ignore") == [(DECODED, document)]
        short = dict.fromkeys(order[::3], 0)
        assert read(columns, json.dumps(short), unknown_fields="ignore") == [(DECODED, dict.fromkeys(names) | short)]


def test_a_name_at_the_very_end_of_the_bytes(read: Callable[..., Any]) -> None:
    """Eight bytes are compared at a time: never beyond the payload."""
    for end in ('"', '":', '":1', '":1}'):
        found = read({"a": "int"}, '{"a' + end, '"aaaaaaaa', unknown_fields="ignore")
        assert found[0][0] == (DECODED if end == '":1}' else Status.TRUNCATED)


def test_a_duplicate_is_an_error_where_it_is_declared(read: Callable[..., Any]) -> None:
    columns = {"a": "int", "s": "struct<a:int>", "l": "array<struct<a:int>>", "m": "map<string,int>"}
    documents = {
        '{"a":1,"a":1}': DUPLICATE_KEY,
        '{"a":null,"b":1,"\\u0061":null}': DUPLICATE_KEY,
        '{"s":{"a":1,"a":2}}': DUPLICATE_KEY,
        '{"s":{"a":1},"a":2}': DECODED,
        '{"l":[{"a":1},{"a":2}]}': DECODED,
        '{"l":[{"a":1},{"a":2,"a":2}]}': DUPLICATE_KEY,
        '{"s":{},"s":{}}': DUPLICATE_KEY,
        '{"m":{"x":1,"x":1}}': DUPLICATE_KEY,
        '{"m":{"x":1,"x":""}}': Status.WRONG_TYPE,
        '{"b":1,"b":2,"c":{"a":1,"a":2}}': DECODED,
    }
    assert [status for status, _ in read(columns, *documents)] == list(documents.values())


@pytest.mark.parametrize("count", [2, 8, 9, 100, 1000])
def test_a_key_is_found_twice_in_maps_of_any_size(count: int, read: Callable[..., Any]) -> None:
    keys = [f"key-{number}" for number in range(count)]
    sound = {"m": dict.fromkeys(keys)}
    twice = json.dumps(sound)[:-2] + ', "key-0": null}}'
    late = json.dumps(sound)[:-2] + f', "key-{count - 1}": null}}}}'
    rows = read({"m": "map<string,int>"}, json.dumps(sound), twice, late, json.dumps(sound), unknown_fields="ignore")
    assert [status for status, _ in rows] == [DECODED, DUPLICATE_KEY, DUPLICATE_KEY, DECODED]
    assert rows[0] == rows[3] == (DECODED, {"m": [(key, None) for key in keys]})


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 31])
def test_keys_of_any_length_that_differ_in_one_byte(size: int, read: Callable[..., Any]) -> None:
    keys = {"k" * at + "x" + "k" * (size - at - 1) for at in range(size)} | {"k" * n for n in range(size + 20)}
    sound = json.dumps({"m": dict.fromkeys(keys, 1)})
    statuses = [status for status, _ in read({"m": "map<string,int>"}, sound, sound[:-2] + f', "{"k" * size}": 1}}}}')]
    assert statuses == [DECODED, DUPLICATE_KEY]


RESCUED = {
    '{"a":1}': None,
    '{"x":1}': '{"x":1}',
    '{"a":1, "x" : [ 1 , {"y" :"\\u00e9"} ] ,"z":null}': '{"x" : [ 1 , {"y" :"\\u00e9"} ],"z":null}',
    '{"x":1,"x":2}': '{"x":1,"x":2}',
    '{"A":1}': '{"A":1}',
    '{"s":{"t" : {"u":1,"x": 2}} , "y":3}': '{"s":{"t":{"x": 2}},"y":3}',
    '{"s":null,"l":[],"m":{}}': None,
    '{"l":[{"i":1},null,{"x":1},{}]}': '{"l":[null,null,{"x":1}]}',
    '{"l":[{"x":1},{"i":1},{"y":2,"i":3,"z":4}]}': '{"l":[{"x":1},null,{"y":2,"z":4}]}',
    '{"m":{"k":{"i":1},"\\u0061b" :{"x":1},"c":{"x":2}}}': '{"m":{"\\u0061b":{"x":1},"c":{"x":2}}}',
    '{"ll":[[{"i":1}],[],[{"x":1},{"x":2}]]}': '{"ll":[null,null,[{"x":1},{"x":2}]]}',
    '{"lm":[{"k":[{"x":{}}]}]}': '{"lm":[{"k":[{"x":{}}]}]}',
}
NESTED = {
    "a": "int",
    "s": "struct<t:struct<u:int>>",
    "l": "array<struct<i:int>>",
    "m": "map<string,struct<i:int>>",
    "ll": "array<array<struct<i:int>>>",
    "lm": "array<map<string,array<struct<i:int>>>>",
}


def test_unknown_fields_are_rescued_as_they_are_written_where_they_were(read: Callable[..., Any]) -> None:
    rows = read(NESTED, *RESCUED)
    assert [(status, row["_kseg_rescued"]) for status, row in rows] == [(DECODED, text) for text in RESCUED.values()]
    for text in filter(None, RESCUED.values()):
        json.loads(text)
    ((_, row),) = read({"a": "int"}, '{"b":2}', rescued="rest")
    assert row == {"a": None, "rest": '{"b":2}'}
    assert read(NESTED, '{"l":[{"x":1}],"a":""}')[0] == (Status.WRONG_TYPE, None)


def test_a_rescued_text_grows_with_what_is_unknown(read: Callable[..., Any]) -> None:
    long = ["x" * size for size in (0, 10, 1000, 100_000, 3)]
    documents = [f'{{"a":1,"{text}":"{text}"}}' for text in long]
    rows = read({"a": "int"}, *documents)
    assert [row["_kseg_rescued"] for _, row in rows] == [f'{{"{text}":"{text}"}}' for text in long]


def test_ignored_fields_add_no_column(read: Callable[..., Any]) -> None:
    assert read({"a": "int"}, '{"b":2}', unknown_fields="ignore") == [(DECODED, {"a": None})]


def test_ten_thousand_columns(read: Callable[..., Any]) -> None:
    columns = {f"column_{number}": "bigint" for number in range(10_000)}
    full = {name: number for number, name in enumerate(columns)}
    backwards = dict(reversed(full.items()))
    rows = read(columns, json.dumps(full), "{}", json.dumps(backwards), unknown_fields="ignore")
    assert rows == [(DECODED, full), (DECODED, dict.fromkeys(full)), (DECODED, full)]


def test_long_texts_and_many_elements(read: Callable[..., Any], scale: Callable[..., int]) -> None:
    count = scale(20_000, 1_000_000)
    document = {"s": "é" * count, "l": list(range(count)), "n": [{"t": [str(n)] * (n % 3)} for n in range(count // 10)]}
    columns = {"s": "string", "l": "array<int>", "n": "array<struct<t:array<string>>>"}
    rows = read(columns, "{}", json.dumps(document), '{"s":"a"}', unknown_fields="ignore")
    assert rows[1] == (DECODED, document)
    assert rows[2][1] == {"s": "a", "l": None, "n": None}


def test_a_slice_of_an_array_and_none(decode: Callable[..., Any]) -> None:
    columns = parse_columns({"a": "int"})
    payloads = pa.array([b'{"a":%d}' % n for n in range(10)] + [None, b"{}"], pa.binary())
    for first, size in ((0, 12), (3, 4), (9, 3), (5, 0)):
        found = decode(columns, payloads.slice(first, size), unknown_fields="ignore").rows.to_pylist()
        assert found == [{"a": n} if n < 10 else None if n == 10 else {"a": None} for n in range(first, first + size)]
    assert decode(columns, pa.nulls(3, pa.binary())).status.tolist() == [Status.NULL] * 3
    assert len(decode(columns, pa.array([], pa.binary())).rows) == 0
    assert decode(columns, pa.array([b"", b""], pa.binary())).status.tolist() == [Status.TRUNCATED] * 2


UNSOUND: list[tuple[pa.StructType, dict[str, Any], str]] = [
    (pa.struct([("a", pa.int32()), ("a", pa.int64())]), {}, "field a is declared twice"),
    (pa.struct([pa.field("a", pa.int32(), nullable=False)]), {}, "a: declared as not null"),
    (pa.struct([("a", pa.list_(pa.uint8()))]), {}, "a[]: uint8 is no type that JSON is read to"),
    (pa.struct([("a", pa.timestamp("ns"))]), {}, "a: timestamp[ns] is no type"),
    (pa.struct([("a b", pa.map_(pa.int32(), pa.int32()))]), {}, "`a b`: a map's key must be string"),
    (pa.struct([("_kseg_rescued", pa.int32())]), {}, "_kseg_rescued: a column of this name is declared"),
    (pa.struct([("a", pa.list_(pa.list_(pa.int32())))]), {"max_depth": 2}, "a[]: the type is nested deeper than"),
    (
        pa.struct([("a", pa.bool_())]),
        {"formats": {"a": "iso8601"}},
        "a: formats names no date, timestamp, number or string",
    ),
]


@pytest.mark.parametrize(("declared", "options", "message"), UNSOUND, ids=[message for _, _, message in UNSOUND])
def test_what_is_declared_unsoundly_is_refused(declared: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSchema) as raised:
        shape_of(declared, JsonOptions(**options))
    assert message in str(raised.value)


def test_options_are_checked() -> None:
    with pytest.raises(InvalidSchema, match="unknown_fields: ignore or rescue, not 'add'"):
        JsonOptions(unknown_fields="add")  # type: ignore[arg-type]
    with pytest.raises(InvalidSchema, match="max_depth: 1 to 200, not 0"):
        JsonOptions(max_depth=0)
    declared = parse_columns({"a": "int"})
    assert row_type(declared, JsonOptions()).field(1) == pa.field("_kseg_rescued", pa.string())
    assert row_type(declared, JsonOptions(unknown_fields="ignore")) == declared
