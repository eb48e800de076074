"""RFC 8259, rule by rule: what is a document, and what each other payload is called.

Each case is read twice: as the value of a declared column, and as that of a field that is skipped.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.decoder import Status

MALFORMED, TRUNCATED, UTF8, TRAILING = Status.MALFORMED, Status.TRUNCATED, Status.INVALID_UTF8, Status.TRAILING_BYTES

#: Documents, with the rule's section. `x` is a declared bigint, `s` a declared string.
SOUND = [
    b"{}",
    b" \t\n\r{ \t\n\r} \t\n\r",  # 2: white space around any structural character
    b'{ "x" : 1 , "s" : "a" }',
    b'{"x":0}',
    b'{"x":-0}',
    b'{"x":10}',  # 6
    b'{"x":1.0}',
    b'{"x":1E2}',
    b'{"x":1e+2}',
    b'{"x":100e-2}',
    b'{"x":null,"s":null}',
    b'{"s":""}',
    b'{"s":"\x7f"}',  # 7: only what is below a space, the quote and the backslash must be escaped
    b'{"s":"\xc2\x80 \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"}',
    b'{"s":"\\"\\\\\\/\\b\\f\\n\\r\\t"}',
    b'{"s":"\\u0000\\u001F\\u007f\\u0080\\u07fF\\u0800\\ud7ff\\uE000\\uFFFF"}',
    b'{"s":"\\ud800\\udc00\\uDBFF\\uDFFF"}',
    b'{"":1,"\\u0078":2,"s\\u0000":3}',
]

#: Bytes in place of a value.
BAD_VALUES = {
    b"": MALFORMED,
    b"nul": MALFORMED,
    b"nulL": MALFORMED,
    b"True": MALFORMED,
    b"truee": MALFORMED,
    b"NaN": MALFORMED,
    b"Infinity": MALFORMED,
    b"-Infinity": MALFORMED,
    b"undefined": MALFORMED,
    b"01": MALFORMED,
    b"-01": MALFORMED,
    b"+1": MALFORMED,
    b".5": MALFORMED,
    b"1.": MALFORMED,
    b"1.e3": MALFORMED,
    b"1e": MALFORMED,
    b"1e+": MALFORMED,
    b"1e1.5": MALFORMED,
    b"-": MALFORMED,
    b"--1": MALFORMED,
    b"- 1": MALFORMED,
    b"0x10": MALFORMED,
    b"1 2": MALFORMED,
    b"1_000": MALFORMED,
    b"1\x00": MALFORMED,
    "１".encode(): MALFORMED,
    b"'a'": MALFORMED,
    b'"a\x00"': MALFORMED,
    b'"a\x1f"': MALFORMED,
    b'"a\n"': MALFORMED,
    b'"\\a"': MALFORMED,
    b'"\\\x00"': MALFORMED,
    b'"\\u12g4"': MALFORMED,
    b'"\\u12"': MALFORMED,
    b'"\\U0041"': MALFORMED,
    b'"\\ud800"': MALFORMED,
    b'"\\udc00"': MALFORMED,
    b'"\\ud800\\ud800"': MALFORMED,
    b'"\\ud800\\n"': MALFORMED,
    b'"\\ud800x"': MALFORMED,
    b'"\\ud800\\u0041"': MALFORMED,
    b'"\x80"': UTF8,
    b'"\xc0\x80"': UTF8,
    b'"\xc1\xbf"': UTF8,
    b'"\xc2"': UTF8,
    b'"\xc2A"': UTF8,
    b'"\xe0\x80\x80"': UTF8,
    b'"\xe0\x9f\xbf"': UTF8,
    b'"\xed\xa0\x80"': UTF8,
    b'"\xed\xbf\xbf"': UTF8,
    b'"\xe2\x82"': UTF8,
    b'"\xf0\x80\x80\x80"': UTF8,
    b'"\xf0\x8f\xbf\xbf"': UTF8,
    b'"\xf4\x90\x80\x80"': UTF8,
    b'"\xf5\x80\x80\x80"': UTF8,
    b'"\xf0\x90\x80"': UTF8,
    b'"\xff"': UTF8,
    b"\xff": MALFORMED,
    b"[1,]": MALFORMED,
    b"[,1]": MALFORMED,
    b"[1 2]": MALFORMED,
    b"[1,,2]": MALFORMED,
    b"[1}": MALFORMED,
    b"]": MALFORMED,
    b'{"a":1,}': MALFORMED,
    b"{,}": MALFORMED,
    b'{"a"}': MALFORMED,
    b'{"a" 1}': MALFORMED,
    b'{"a":}': MALFORMED,
    b'{"a"::1}': MALFORMED,
    b'{"a":1 "b":2}': MALFORMED,
    b"{a:1}": MALFORMED,
    b"{1:1}": MALFORMED,
    b"{'a':1}": MALFORMED,
    b'{"a":1]': MALFORMED,
    b'{"\xff":1}': UTF8,
    b'{"\\ud800":1}': MALFORMED,
    b"/**/1": MALFORMED,
    b"1//": MALFORMED,
    b"\xef\xbb\xbf1": MALFORMED,
    b"\xc2\xa01": MALFORMED,
    b"\x0c1": MALFORMED,
}

BAD_DOCUMENTS = {
    b"": TRUNCATED,
    b"   ": TRUNCATED,
    b"\xef\xbb\xbf{}": MALFORMED,
    b"\x00": MALFORMED,
    b"{}{}": TRAILING,
    b"{} x": TRAILING,
    b"{}\x00": TRAILING,
    b"{}}": TRAILING,
    b'{"x":1}\n{"x":2}': TRAILING,
    b"{},": TRAILING,
    b"}": MALFORMED,
    b"// {}": MALFORMED,
    b'"\\ud83d': TRUNCATED,
    b"12": Status.WRONG_TYPE,
    b"0 1": TRAILING,
    b"null": Status.WRONG_TYPE,
    b"[{}]": Status.WRONG_TYPE,
    b'"{}"': Status.WRONG_TYPE,
    b"true": Status.WRONG_TYPE,
}

COLUMNS = {"x": "bigint", "s": "string"}


@pytest.mark.parametrize("document", SOUND)
def test_a_sound_document_is_read_as_python_reads_it(document: bytes, read: Callable[..., Any]) -> None:
    found = json.loads(document)
    ((status, row),) = read(COLUMNS, document, unknown_fields="ignore")
    assert (status, row) == (Status.DECODED, {"x": found.get("x"), "s": found.get("s")})
    nested = b'{"other":[' + document + b'],"x":7}'
    ((status, row),) = read(COLUMNS, nested, unknown_fields="ignore")
    assert (status, row) == (Status.DECODED, {"x": 7, "s": None})


@pytest.mark.parametrize("value", BAD_VALUES)
def test_a_bad_value_is_refused_wherever_it_is(value: bytes, read: Callable[..., Any]) -> None:
    """Whether its field is declared, as whatever type, or not: the grammar comes before the types."""
    places = [b'{"x":%b}', b'{"s":%b}', b'{"other":%b}', b'{"other":[[%b]]}', b'{"x":"","other":{"y": %b }}']
    places += [b'{"l":[1, %b ,2]}', b'{"m":{"k":%b}}', b'{"t":%b}', b'{"b":%b}', b'{"d":%b}', b'{"f":%b}']
    columns = COLUMNS | {
        "l": "array<double>",
        "m": "map<string,string>",
        "t": "timestamp",
        "b": "binary",
        "d": "decimal(5,2)",
        "f": "float",
    }
    documents = [place.replace(b"%b", value) for place in places]
    if value == b"":
        documents.remove(b'{"other":[[]]}')
    assert [status for status, _ in read(columns, *documents)] == [BAD_VALUES[value]] * len(documents)


@pytest.mark.parametrize("document", BAD_DOCUMENTS)
def test_a_bad_document_is_refused(document: bytes, read: Callable[..., Any]) -> None:
    assert [status for status, _ in read(COLUMNS, document)] == [BAD_DOCUMENTS[document]]


def test_a_document_that_is_cut_off_anywhere_is_truncated(read: Callable[..., Any]) -> None:
    document = (
        b' {"x": -12, "s" : "a\\n\\u00e9\\ud83d\\ude00\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",'
        b'"other":[true, false,null,-1.5e+10, {"y":[ ] ,"z":{ }}, "\\ud83d\\ude00\xf0\x9f\x98\x80"]}'
    )
    cut = [document[:end] for end in range(len(document))]
    assert {status for status, _ in read(COLUMNS, *cut)} == {TRUNCATED}
    assert read(COLUMNS, document)[0][0] == Status.DECODED


def test_a_character_that_is_cut_off_is_truncated_if_it_could_be_one(read: Callable[..., Any]) -> None:
    """Whatever its last bytes are: a surrogate's first two bytes, for example, are wrong before its third."""
    interesting = b"A\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"
    tails = [bytes(tail) for size in (1, 2, 3) for tail in itertools.product(interesting, repeat=size)]
    codes = (code for code in (0x80, 0x7FF, *range(0x800, 0x110000, 64)) if not 0xD800 <= code < 0xE000)
    whole = [chr(code).encode() for code in codes]
    beginnings = {bytes([lead]) for lead in range(0xC2, 0xF5)}
    beginnings |= {character[:size] for character in whole for size in range(1, len(character))}
    for place in (b'{"s":"', b'{"other":"'):
        rows = read(COLUMNS, *(place + tail for tail in tails))
        for tail, (status, _) in zip(tails, rows, strict=True):
            plain = tail.decode(errors="ignore").encode()
            rest = tail[len(plain) :] if tail.startswith(plain) else b"\xff"
            assert status == (TRUNCATED if not rest or rest in beginnings else UTF8), tail


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth_is_bounded_in_declared_and_in_skipped_values(
    opening: bytes, closing: bytes, read: Callable[..., Any]
) -> None:
    def nested(levels: int) -> bytes:
        return b'{"other":' + opening * levels + b"1" + closing * levels + b"}"

    for depth in (2, 64, 65, 128, 200):
        documents = nested(depth - 1), nested(depth)
        for unknown in ("ignore", "rescue"):
            statuses = [status for status, _ in read(COLUMNS, *documents, max_depth=depth, unknown_fields=unknown)]
            assert statuses == [Status.DECODED, Status.TOO_DEEP]
    assert read(COLUMNS, nested(100_000)[:200_000])[0][0] == Status.TOO_DEEP
    assert read({"l": "array<array<int>>"}, '{"l":[[1]]}', '{"l":[[[]]]}', max_depth=3)[1][0] == Status.TOO_DEEP


def test_the_first_byte_is_after_the_frame(decode: Callable[..., Any], explain: Callable[..., str]) -> None:
    payloads = pa.array([b"\x00\x00\x00\x00\x07" + b'{"x":1}', b"\x00\x00", None, b"\x00" * 5], pa.binary())
    decoded = decode(pa.struct([pa.field("x", pa.int64())]), payloads, skip=5, unknown_fields="ignore")
    assert decoded.rows.to_pylist() == [{"x": 1}, None, None, None]
    assert decoded.status.tolist() == [Status.DECODED, Status.BAD_FRAME, Status.NULL, TRUNCATED]
    assert explain(COLUMNS, b'#####{"x":""}', skip=5).endswith("(byte 10)")


ERRORS = {
    b'{"x":tru': "x: the payload ends within true (byte 8)",
    b'{"other":[{"a b":tRue}]}': "other[0].`a b`: 'R' within true (byte 18)",
    b'{"x":1}, ': "',' follows the document (byte 7)",
    b"\xef\xbb\xbf{}": "a document does not begin with a byte order mark (byte 0)",
    b'{"s":"\x01"}': "s: byte 0x01 must be escaped within a string (byte 6)",
    b'{"s":"\\ud800 "}': "s: a lone surrogate (byte 6)",
    b'{"s":"a\xff"}': "s: byte 0xff begins no character of UTF-8 (byte 7)",
    b'{"x":07}': "x: a digit follows a leading zero (byte 6)",
    b'{"x" 7}': "x: ':' expected, not '7' (byte 5)",
    b'{"x":7,}': "a name in quotes expected, not '}' (byte 7)",
}


@pytest.mark.parametrize("document", ERRORS)
def test_an_error_names_path_cause_and_byte(document: bytes, explain: Callable[..., str]) -> None:
    assert explain(COLUMNS, document) == ERRORS[document]
