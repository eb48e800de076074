"""Any type, any document: what is written is read, by all decoders alike; Python agrees to the status of any bytes.

Documents are written here, with white space, orders of names, escapes and numbers as no serializer writes them, and
Python's `json` is the oracle of the grammar.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.payload.decoder import Status

PRIMITIVES = [
    *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary()),
    *(pa.date32(), pa.timestamp("us", tz="UTC"), pa.timestamp("us")),
]
DECIMALS = st.tuples(st.integers(1, 38), st.integers(0, 38)).map(lambda ps: pa.decimal128(max(ps), ps[1]))
NAMES = st.text(max_size=4) | st.sampled_from(["id", "customer", "a name of many words", 'quo"te', "back\\slash"])


def structs(kinds: st.SearchStrategy[pa.DataType], least: int = 0) -> st.SearchStrategy[pa.StructType]:
    fields = st.dictionaries(NAMES, kinds, min_size=least, max_size=5)
    return fields.map(lambda named: pa.struct([pa.field(name, kind) for name, kind in named.items()]))


KINDS = st.recursive(
    st.sampled_from(PRIMITIVES) | DECIMALS,
    lambda kinds: kinds.map(pa.list_) | kinds.map(lambda kind: pa.map_(pa.string(), kind)) | structs(kinds),
    max_leaves=6,
)
ROWS = structs(KINDS, least=1)


class Writer:
    """Random values of a type, and one of the ways to write each."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def _space(self) -> str:
        return self._random.choice(["", "", "", " ", "\n", "\t\r  "])

    def string(self, text: str) -> str:
        parts = []
        for character in text:
            code, how = ord(character), self._random.random()
            short = {
                '"': '\\"',
                "\\": "\\\\",
                "\n": "\\n",
                "\t": "\\t",
                "\b": "\\b",
                "\f": "\\f",
                "\r": "\\r",
                "/": "\\/",
            }
            if character in short and how < 0.5:
                parts.append(short[character])
            elif code < 0x20 or character in '"\\' or how < 0.1:
                units = character.encode("utf-16-be")
                pairs = [units[n : n + 2].hex() for n in range(0, len(units), 2)]
                parts += ["\\u" + (pair.upper() if how < 0.05 else pair) for pair in pairs]
            else:
                parts.append(character)
        return f'"{"".join(parts)}"'

    def text(self) -> str:
        alphabet = 'abcdefghij KLMNO,:{}[]"\\/\n\x00\x1f\x7fé€߿ࠀ퟿\ue000￿😀\U0010ffff'
        size = self._random.choice([0, 1, 3, 7, 8, 9, 20, 100])
        letters = alphabet if self._random.random() < 0.4 else alphabet[:15]
        return "".join(self._random.choices(letters, k=size))

    def number(self, digits: int, exponent: int) -> str:
        """digits · 10^exponent, exactly."""
        sign, text, random = "-" if digits < 0 else "", str(abs(digits)), self._random
        for _ in range(random.choice([0, 0, 0, 3, 25]) if digits else 0):
            text, exponent = text + "0", exponent - 1
        if 0 <= exponent < 5 and random.random() < 0.7:
            text, exponent = text + "0" * exponent if text != "0" else text, 0
        point = random.randint(0, len(text) + 3) if exponent or random.random() < 0.1 else 0
        if exponent < 0 and random.random() < 0.7:
            point = -exponent
        if point:
            text = text.rjust(point + 1, "0")
            text, exponent = f"{text[:-point]}.{text[-point:]}", exponent + point
        if exponent or random.random() < 0.05:
            text += random.choice("eE") + random.choice(["", "+"] if exponent >= 0 else [""]) + str(exponent)
        return sign + text

    def value(self, kind: pa.DataType) -> tuple[Any, str]:
        random = self._random
        if random.random() < 0.15:
            return None, "null"
        if pa.types.is_struct(kind):
            row, text = self.row(kind)
            return row, text
        if pa.types.is_list(kind):
            found = [self.value(kind.value_type) for _ in range(random.choice([0, 1, 2, 5]))]
            inner = ",".join(self._space() + text + self._space() for _, text in found) or self._space()
            return [value for value, _ in found], f"[{inner}]"
        if pa.types.is_map(kind):
            keys = list({self.text() for _ in range(random.choice([0, 1, 2, 12]))})
            entries = [(key, self.value(kind.item_type)) for key in keys]
            return [(key, value) for key, (value, _) in entries], self.members(
                [(key, text) for key, (_, text) in entries]
            )
        return self.scalar(kind)

    def scalar(self, kind: pa.DataType) -> tuple[Any, str]:
        random = self._random
        if pa.types.is_boolean(kind):
            return (True, "true") if random.random() < 0.5 else (False, "false")
        if pa.types.is_integer(kind):
            bits = random.randint(1, kind.bit_width - 1)
            whole = random.choice([random.randint(-(1 << bits), (1 << bits) - 1), -(1 << bits), (1 << bits) - 1])
            return whole, self.number(whole, 0)
        if pa.types.is_decimal(kind):
            unscaled = random.randint(1 - 10**kind.precision, 10**kind.precision - 1) // 10 ** random.randint(0, 38)
            exact = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))
            return exact, self.number(unscaled, -kind.scale)
        if pa.types.is_floating(kind):
            return self.floating(kind)
        if pa.types.is_string(kind):
            text = self.text()
            return text, self.string(text)
        if pa.types.is_binary(kind):
            data = random.randbytes(random.randint(0, 12))
            return data, self.string(base64.b64encode(data).decode())
        if pa.types.is_date(kind):
            day = dt.date.fromordinal(random.randint(1, dt.date.max.toordinal()))
            return day, self.string(day.isoformat())
        micros = dt.timedelta(days=random.randint(1, 3_652_000), microseconds=random.randint(0, 86_399_999_999))
        instant = dt.datetime(1, 1, 1) + micros
        zone = "" if kind.tz is None else random.choice(["Z", "+00:00", "-0000", "+00"])
        return instant.replace(tzinfo=kind.tz and dt.UTC), self.string(instant.isoformat(random.choice("T ")) + zone)

    def floating(self, kind: pa.DataType) -> tuple[Any, str]:
        random = self._random
        if kind == pa.float32():
            bits = np.uint32(random.getrandbits(32))
            exact = bits.view(np.float32)
            value = float(exact) if np.isfinite(exact) else 0.5
            return value, repr(value)
        value = random.choice(
            [random.random(), random.gauss(0, 1e6), float(np.uint64(random.getrandbits(63)).view("f8"))]
        )
        if not math.isfinite(value):
            value = -0.0
        text = repr(value)
        if random.random() < 0.3:
            text = self.number(random.randint(-(10**20), 10**20), random.randint(-330, 280))
        return float(text), text

    def members(self, found: list[tuple[str, str]]) -> str:
        written = [
            f"{self._space()}{self.string(name)}{self._space()}:{self._space()}{text}{self._space()}"
            for name, text in found
        ]
        return f"{{{','.join(written) or self._space()}}}"

    def row(self, kind: pa.StructType) -> tuple[dict[str, Any], str]:
        random = self._random
        fields = [kind.field(number) for number in range(kind.num_fields)]
        row: dict[str, Any] = {each.name: None for each in fields}
        found = []
        if random.random() < 0.4:
            random.shuffle(fields)
        for each in fields:
            if random.random() < 0.9:
                row[each.name], text = self.value(each.type)
                found.append((each.name, text))
            if random.random() < 0.1:
                found.append((f"unknown {each.name}", self.value(random.choice(PRIMITIVES))[1]))
        return row, self.members(found)


def same(one: Any, other: Any) -> bool:
    """Equal, and zeros of one sign."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(each, other[name]) for name, each in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return type(one) is type(other) and bool(one == other)


@given(declared=ROWS, random=st.randoms(use_true_random=True), unknown=st.sampled_from(["ignore", "rescue"]))
def test_what_is_written_is_read(declared: pa.StructType, random: Random, unknown: str, decode: Any) -> None:
    """Ten documents of a type at a time."""
    writer = Writer(random)
    written = [writer.row(declared) for _ in range(10)]
    payloads = [writer._space() + text + writer._space() for _, text in written]
    decoded = decode(declared, pa.array([each.encode() for each in payloads], pa.binary()), unknown_fields=unknown)
    assert decoded.status.tolist() == [Status.DECODED] * 10
    for (expected, text), found in zip(written, decoded.rows.to_pylist(), strict=True):
        rescued = found.pop("_kseg_rescued", None)
        assert same(expected, found), text
        if unknown == "rescue":
            assert (rescued is not None) == ("unknown " in json.dumps(json.loads(text)))
            if rescued is not None:
                json.loads(rescued)


GRAMMAR = {Status.TRUNCATED, Status.TRAILING_BYTES, Status.MALFORMED, Status.INVALID_UTF8}


def is_json(payload: bytes) -> bool:
    """Whether Python's `json` takes it, less what that takes beyond RFC 8259, and without lone surrogates."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        found = json.loads(
            payload.decode(), parse_constant=refuse, parse_int=str, parse_float=str, object_pairs_hook=list
        )
        repr(found).encode()
        json.dumps(found, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError):
        return False
    return True


PIECES = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"0",
    b"-",
    b".",
    b"e",
    b" ",
    b"\x00",
    b"\x80",
    b"\xc3",
    b"\xff",
]
PIECES += [
    b"null",
    b"\\u",
    b"\\ud83d",
    b"\\ude00",
    b"1e400",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b'"":',
]


def mutated(payload: bytes, random: Random) -> bytes:
    data = bytearray(payload)
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        at, end = sorted((random.randint(0, len(data)), random.randint(0, len(data))))
        how = random.random()
        if how < 0.3:
            data[at : at + random.randint(0, 2)] = random.choice(PIECES)
        elif how < 0.5 and data:
            data[min(at, len(data) - 1)] = random.randint(0, 255)
        elif how < 0.7:
            del data[at : at + random.randint(1, 4)]
        elif how < 0.8:
            del data[at:]
        elif how < 0.9:
            data[at:at] = data[at:end]
        else:
            data[at:end] = b""
    return bytes(data)


@given(declared=ROWS, random=st.randoms(use_true_random=True), unknown=st.sampled_from(["ignore", "rescue"]))
def test_mutated_bytes_have_the_status_that_python_agrees_to(
    declared: pa.StructType, random: Random, unknown: str, decode: Any
) -> None:
    """All decoders agree on each row, and the sound documents between them are not touched."""
    writer = Writer(random)
    payloads, sound = [], []
    for _ in range(10):
        row, text = writer.row(declared)
        payloads += [mutated(text.encode(), random), text.encode()]
        sound.append(row)
    decoded = decode(declared, pa.array(payloads, pa.binary()), unknown_fields=unknown)
    for payload, status in zip(payloads, decoded.status.tolist(), strict=True):
        assert is_json(payload) == (status not in GRAMMAR), (payload, Status(status))
    for expected, found in zip(sound, decoded.rows.to_pylist()[1::2], strict=True):
        found.pop("_kseg_rescued", None)
        assert same(expected, found)


@given(
    payload=st.binary(max_size=60) | st.text(alphabet='{}[]",:\\u0123456789.eE+- ntrfalse', max_size=40).map(str.encode)
)
def test_any_bytes_have_a_status(payload: bytes, decode: Any) -> None:
    declared = pa.struct([("a", pa.int64()), ("", pa.list_(pa.float64()))])
    decoded = decode(declared, pa.array([b'{"a":1}', payload, b'{"a":2}'], pa.binary()), unknown_fields="ignore")
    assert [row and row["a"] for row in decoded.rows.to_pylist()][::2] == [1, 2]
    assert is_json(payload) == (decoded.status[1] not in GRAMMAR)
