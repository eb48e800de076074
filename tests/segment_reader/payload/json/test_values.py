"""What each type takes, exactly: values by type, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from kseg.segment_reader.payload.decoder import Status

DECODED, WRONG_TYPE, OUT_OF_RANGE, INEXACT = Status.DECODED, Status.WRONG_TYPE, Status.OUT_OF_RANGE, Status.INEXACT

#: What each type takes: as it is written, and the value.
VALUES: dict[str, dict[str, Any]] = {
    "boolean": {"true": True, "false": False},
    "tinyint": {"127": 127, "-128": -128, "0": 0, "-0": 0, "1.27e2": 127},
    "smallint": {"32767": 32767, "-32768": -32768},
    "int": {"2147483647": 2**31 - 1, "-2147483648": -(2**31), "2e9": 2_000_000_000},
    "bigint": {
        "9223372036854775807": 2**63 - 1,
        "-9223372036854775808": -(2**63),
        "9007199254740993": 2**53 + 1,
        "1e3": 1000,
        "1E+3": 1000,
        "1.0": 1,
        "12.50e1": 125,
        "1000e-3": 1,
        "9.223372036854775807e18": 2**63 - 1,
        "0e99999999999999999999": 0,
        "-0.000e-5": 0,
        "0.00000000000000000000000000000009223372036854775807e50": 2**63 - 1,
        "1" + "0" * 5000 + "e-5000": 1,
        "0." + "0" * 5000 + "1e5001": 1,
        "5" + "0" * 18: 5 * 10**18,
    },
    "decimal(10,2)": {
        "12345678.90": Decimal("12345678.90"),
        "99999999.99": Decimal("99999999.99"),
        "-99999999.990000000000000000000000": Decimal("-99999999.99"),
        "1e2": Decimal("100.00"),
        "0.1": Decimal("0.10"),
        "1e-2": Decimal("0.01"),
        "-0.0": Decimal("0.00"),
        "0e-99": Decimal("0.00"),
    },
    "decimal(38,0)": {
        "9" * 38: Decimal("9" * 38),
        "-" + "9" * 38: Decimal("-" + "9" * 38),
        "1e37": Decimal(10**37),
        "12345678901234567890": Decimal(12345678901234567890),
        "18446744073709551616": Decimal(2**64),
        "-18446744073709551615": Decimal(1 - 2**64),
    },
    "decimal(38,38)": {"0." + "9" * 38: Decimal("0." + "9" * 38), "1e-38": Decimal("1e-38"), "5e-1": Decimal("0.5")},
    "decimal(38,18)": {
        "12345678901234567890.123456789012345678": Decimal("12345678901234567890.123456789012345678"),
        "1": Decimal(1),
        "-1e19": Decimal(-(10**19)),
    },
    "double": {
        "0": 0.0,
        "1": 1.0,
        "0.1": 0.1,
        "1e23": 1e23,
        "8.41e21": 8.41e21,
        "9007199254740993": 9007199254740992.0,
        "9007199254740993.0000000000000000000000000000001": 9007199254740994.0,
        "1.7976931348623157e308": 1.7976931348623157e308,
        "1.7976931348623158e308": 1.7976931348623157e308,
        "4.9e-324": 5e-324,
        "2.4703282292062328e-324": 5e-324,
        "2.4703282292062327e-324": 0.0,
        "2.2250738585072011e-308": 2.225073858507201e-308,
        "1e-400": 0.0,
        "1e-99999999999999999999": 0.0,
        "0e99999999999999999999": 0.0,
        "123456789012345678901234567890": 123456789012345678901234567890.0,
        "0." + "3" * 3000: 1 / 3,
    },
    "float": {
        "0.1": float(np.float32(0.1)),
        "16777217": 16777216.0,
        "16777217.0000000000000000000001": 16777218.0,
        "16777219": 16777220.0,
        "1.00000017881393432617187499": 1.00000011920928955078125,
        "1.000000178813934326171875": 1.0000002384185791015625,
        "3.4028234663852886e38": 3.4028234663852886e38,
        "340282356779733661637539395458142568447": 3.4028234663852886e38,
        "1e-45": 1.401298464324817e-45,
        "7.006492321624085e-46": 0.0,
        "7.006492321624086e-46": 1.401298464324817e-45,
        "1.1754942e-38": 1.1754942106924411e-38,
        "1e-99": 0.0,
    },
    "string": {'""': "", '"a"': "a", '"\\u00e9\\n"': "é\n", '"null"': "null", f'"{"x" * 5000}"': "x" * 5000},
    "binary": {'""': b"", '"AA=="': b"\0", '"AAE="': b"\0\1", '"AAEC"': b"\0\1\2", '"+\\/+\\u002f"': b"\xfb\xff\xbf"},
    "array<int>": {"[]": [], "[1, null,3 ]": [1, None, 3]},
    "map<string,int>": {"{}": [], '{"a":1,"":null,"\\u0062":2}': [("a", 1), ("", None), ("b", 2)]},
    "struct<a:int,b:string>": {"{}": {"a": None, "b": None}, '{"b":"x"}': {"a": None, "b": "x"}},
    "struct<>": {"{}": {}},
}

#: What does not fit, and why.
UNFIT: dict[str, dict[str, Status]] = {
    "boolean": {"0": WRONG_TYPE, '"true"': WRONG_TYPE, "[]": WRONG_TYPE},
    "tinyint": {"128": OUT_OF_RANGE, "-129": OUT_OF_RANGE, "256": OUT_OF_RANGE, "1.5": INEXACT},
    "smallint": {"32768": OUT_OF_RANGE, "-32769": OUT_OF_RANGE, "65536": OUT_OF_RANGE},
    "int": {"2147483648": OUT_OF_RANGE, "-2147483649": OUT_OF_RANGE, "4294967296": OUT_OF_RANGE},
    "bigint": {
        "9223372036854775808": OUT_OF_RANGE,
        "-9223372036854775809": OUT_OF_RANGE,
        "18446744073709551616": OUT_OF_RANGE,
        "18446744073709551617": OUT_OF_RANGE,
        "1e19": OUT_OF_RANGE,
        "1e99999999999999999999": OUT_OF_RANGE,
        "1" + "0" * 5000: OUT_OF_RANGE,
        "1.5": INEXACT,
        "1e-1": INEXACT,
        "1e-99999999999999999999": INEXACT,
        "99999999999999999999999.5": INEXACT,
        '"1"': WRONG_TYPE,
        "true": WRONG_TYPE,
        "{}": WRONG_TYPE,
    },
    "decimal(10,2)": {
        "100000000": OUT_OF_RANGE,
        "1e8": OUT_OF_RANGE,
        "1e99999999999999999999": OUT_OF_RANGE,
        "0.001": INEXACT,
        "100000000.001": INEXACT,
        "1.0000000000000000000000001": INEXACT,
        '"1.00"': WRONG_TYPE,
    },
    "decimal(38,0)": {"1" + "0" * 38: OUT_OF_RANGE, "12345678901234567890.1": INEXACT},
    "decimal(38,38)": {"1": OUT_OF_RANGE, "1e-39": INEXACT},
    "double": {
        "1e309": OUT_OF_RANGE,
        "-1e309": OUT_OF_RANGE,
        "1.7976931348623159e308": OUT_OF_RANGE,
        "1e99999999999999999999": OUT_OF_RANGE,
        '"NaN"': WRONG_TYPE,
        '"1"': WRONG_TYPE,
        "true": WRONG_TYPE,
    },
    "float": {
        "340282356779733661637539395458142568448": OUT_OF_RANGE,
        "3.4028235677973367e38": OUT_OF_RANGE,
        "1e39": OUT_OF_RANGE,
        "1e400": OUT_OF_RANGE,
    },
    "string": {"1": WRONG_TYPE, "true": WRONG_TYPE, "{}": WRONG_TYPE, "[]": WRONG_TYPE},
    "binary": {
        '"A"': WRONG_TYPE,
        '"AA"': WRONG_TYPE,
        '"AB=="': WRONG_TYPE,
        '"AAF="': WRONG_TYPE,
        '"AA=A"': WRONG_TYPE,
        '"===="': WRONG_TYPE,
        '"AA==AA=="': WRONG_TYPE,
        '"A\\nA="': WRONG_TYPE,
        '"-_-_"': WRONG_TYPE,
        '"éAA"': WRONG_TYPE,
        "1": WRONG_TYPE,
    },
    "array<int>": {"{}": WRONG_TYPE, "1": WRONG_TYPE, "[1,[]]": WRONG_TYPE, "[1.5]": INEXACT},
    "map<string,int>": {"[]": WRONG_TYPE, '{"a":""}': WRONG_TYPE, '{"a":1,"\\u0061":2}': Status.DUPLICATE_KEY},
    "struct<a:int,b:string>": {"[]": WRONG_TYPE, '"a"': WRONG_TYPE, '{"a":1,"a":1}': Status.DUPLICATE_KEY},
}

CASES = [(kind, text) for kind, values in VALUES.items() for text in values]
BAD_CASES = [(kind, text) for kind, values in UNFIT.items() for text in values]


@pytest.mark.parametrize(("kind", "text"), CASES, ids=[f"{kind} {text[:30]}" for kind, text in CASES])
def test_a_value_is_what_was_written(kind: str, text: str, read: Callable[..., Any]) -> None:
    expected = VALUES[kind][text]
    found = read({"x": kind}, f'{{"x":{text}}}', f'{{"x": {text} }}', unknown_fields="ignore")
    assert found == [(DECODED, {"x": expected})] * 2
    below = read({"y": f"array<{kind}>"}, f'{{"y":[{text},null,{text}]}}', unknown_fields="ignore")
    assert below == [(DECODED, {"y": [expected, None, expected]})]


@pytest.mark.parametrize(("kind", "text"), BAD_CASES, ids=[f"{kind} {text[:30]}" for kind, text in BAD_CASES])
def test_a_value_that_does_not_fit_fails_its_row_alone(kind: str, text: str, read: Callable[..., Any]) -> None:
    good = next(iter(VALUES[kind]))
    rows = read({"x": kind, "n": "int"}, *(f'{{"x":{each},"n":1}}' for each in (good, text, good)))
    assert [status for status, _ in rows] == [DECODED, UNFIT[kind][text], DECODED]
    assert rows[0] == rows[2]


@pytest.mark.parametrize("kind", VALUES)
def test_null_and_a_missing_field_are_null(kind: str, read: Callable[..., Any]) -> None:
    columns = {"x": kind, "y": f"array<{kind}>", "m": f"map<string,{kind}>", "s": f"struct<x:{kind}>"}
    documents = "{}", '{"x":null,"y":null,"m":null,"s":null}', '{"y":[null],"m":{"k":null},"s":{"x":null}}'
    nothing = {"x": None, "y": None, "m": None, "s": None}
    something = {"x": None, "y": [None], "m": [("k", None)], "s": {"x": None}}
    assert read(columns, *documents, unknown_fields="ignore") == [
        (DECODED, nothing),
        (DECODED, nothing),
        (DECODED, something),
    ]


@pytest.mark.parametrize("kind", ["double", "float"])
def test_zero_keeps_its_sign(kind: str, read: Callable[..., Any]) -> None:
    for text in ("-0", "-0.0", "-0e5", "-1e-999", "-0." + "0" * 30 + "e-600"):
        ((_, row),) = read({"x": kind}, f'{{"x":{text}}}')
        assert (row["x"], np.signbit(row["x"])) == (0.0, True)


def test_doubles_near_the_middle_of_two_are_rounded_right(read: Callable[..., Any], scale: Callable[..., int]) -> None:
    """At the exact middle, ties go to even; a digit far behind decides."""
    random = np.random.default_rng(7)
    count = scale(300, 5000)
    bits = random.integers(0, 0x7FE << 52, count, dtype=np.int64)
    texts = []
    for low in bits.view(np.float64).tolist():
        middle = (Decimal(low) + Decimal(float(np.nextafter(low, np.inf)))) / 2 if 1e-10 < low < 1e10 else Decimal(low)
        texts += [f"{middle:f}", f"{middle:f}1" if "." in f"{middle:f}" else f"{middle}.000001", repr(low)]
        texts.append(f"{random.integers(1, 10**18)}e{random.integers(-340, 310)}")
    rows = read({"x": "double"}, *(f'{{"x":{text}}}' for text in texts), unknown_fields="ignore")
    for text, (status, row) in zip(texts, rows, strict=True):
        if float(text) == np.inf:
            assert status == OUT_OF_RANGE
        else:
            assert row == {"x": float(text)}, text


def test_floats_are_rounded_once(read: Callable[..., Any], scale: Callable[..., int]) -> None:
    random = np.random.default_rng(8)
    texts = []
    for low in random.integers(1, 0xFE << 23, scale(300, 5000), dtype=np.int32).view(np.float32).tolist():
        middle = (low + float(np.nextafter(np.float32(low), np.float32(np.inf)))) / 2
        texts += [repr(low), repr(middle), f"{Decimal(middle):f}"]
    rows = read({"x": "float"}, *(f'{{"x":{text}}}' for text in texts), unknown_fields="ignore")
    for text, (_, row) in zip(texts, rows, strict=True):
        exact = Decimal(text)
        found = np.float32(row["x"])
        others = [abs(Decimal(float(np.nextafter(found, np.float32(to)))) - exact) for to in (0, 3.4e38)]
        nearest = abs(Decimal(float(found)) - exact)
        assert nearest <= min(others), text
        assert nearest < min(others) or found.view(np.uint32) % 2 == 0, text


ERRORS = {
    ("id bigint", '{"id":1.5}'): "id: 1.5 has more decimals than bigint (byte 6)",
    ("id bigint", '{"id":1e40}'): "id: 1e40 is too large for bigint (byte 6)",
    ("id string", '{"id":12}'): "id: a number is no string (byte 6)",
    ("items array<struct<price: decimal(5,2)>>", '{"items":[{},{},{"price":1.234}]}'): (
        "items[2].price: 1.234 has more decimals than decimal(5,2) (byte 25)"
    ),
    ("tags map<string,int>", '{"tags":{"a b":true}}'): "tags.`a b`: true is no int (byte 15)",
    ("b binary", '{"b":"A"}'): "b: 'A' is no base64 (byte 5)",
    ("s struct<>", '{"s":[]}'): "s: an array is no struct, which is an object (byte 5)",
    ("at timestamp", '{"at":5}'): "at: a number is no timestamp of format iso8601 (byte 6)",
    ("n int", "null"): "a row is an object, not null (byte 0)",
    ("n int", '{"n":1,"n":1}'): "n: the field is written twice (byte 7)",
}


@pytest.mark.parametrize(("column", "document"), ERRORS)
def test_an_error_names_path_value_and_type(column: str, document: str, explain: Callable[..., str]) -> None:
    name, _, kind = column.partition(" ")
    assert explain({name: kind}, document) == ERRORS[column, document]
