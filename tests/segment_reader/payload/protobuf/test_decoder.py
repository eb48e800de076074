"""The rules of decoding, one by one, for both decoders; and what the kernel leaves to the plain one."""

from __future__ import annotations

import struct
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import cache
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.decoder import PayloadDecoder, Status
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder, registry_decoder
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors
from kseg.segment_reader.payload.protobuf.reference import ReferenceProtobufDecoder
from kseg.segment_reader.payload.protobuf.schema import MessageType

IMPORTS = "".join(f'import "google/protobuf/{name}.proto";' for name in ("duration", "struct", "timestamp", "wrappers"))


@pytest.fixture(params=["fast", "reference"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


@cache
def message_of(body: str, syntax: str = "proto3") -> MessageType:
    kinds = "enum Kind { NONE = 0; PAID = 1; SENT = -7; }"
    text = f'syntax = "{syntax}"; {IMPORTS} {kinds} message M {{ {body} }}'
    return parse_descriptors(compile_text(text)).message("M")


def decoder_of(engine: Any, body: str, syntax: str = "proto3", **options: Any) -> PayloadDecoder:
    return protobuf_decoder(message_of(body, syntax), engine=engine, **options)


def row_of(engine: Any, body: str, payload: bytes, syntax: str = "proto3", **options: Any) -> Any:
    found = decoder_of(engine, body, syntax, **options).decode(pa.array([payload]))
    found.rows.validate(full=True)
    return Status(int(found.status[0])) if found.status[0] else found.rows.to_pylist()[0]


def sized(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


NUMBERS = "int32 a = 1; int64 b = 2; uint32 c = 3; uint64 d = 4; sint32 e = 5; sint64 f = 6; bool g = 7;"


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b"\x08", Status.TRUNCATED),
        (b"\x08\x80", Status.TRUNCATED),
        (b"\x80", Status.TRUNCATED),
        (b"\x10" + b"\xff" * 9 + b"\x02", Status.MALFORMED),
        (b"\x10" + b"\x80" * 10 + b"\x00", Status.MALFORMED),
        (b"\x80\x80\x80\x80\x80\x00", Status.MALFORMED),
        (b"\xff\xff\xff\xff\x7f\x00", Status.MALFORMED),
        (b"\x00\x00", Status.MALFORMED),
        (b"\x0e\x00", Status.MALFORMED),
        (b"\x0c", Status.MALFORMED),
        (b"\x08" + varint(2**31), Status.OUT_OF_RANGE),
        (b"\x08" + varint(-(2**31) - 1), Status.OUT_OF_RANGE),
        (b"\x18" + varint(2**32), Status.OUT_OF_RANGE),
        (b"\x28" + varint(2**32), Status.OUT_OF_RANGE),
        (b"\x7a\xff\xff\xff\xff\x0f", Status.MALFORMED),
        (b"\x7a\xff\xff\xff\xff\x07", Status.TRUNCATED),
        (b"\x7a\x80\x80\x80\x80\x80\x00", Status.MALFORMED),
        (b"\x7a\x01", Status.TRUNCATED),
        (b"\x79" + bytes(7), Status.TRUNCATED),
        (b"\x7d" + bytes(3), Status.TRUNCATED),
        (b"\x7b\x08\x01", Status.TRUNCATED),
        (b"\x7b\x08\x01\x74", Status.MALFORMED),
        (b"\x7b" * 65 + b"\x7c" * 65, Status.TOO_DEEP),
    ],
)
def test_what_is_wrong_has_its_status(engine: Any, payload: bytes, status: Status) -> None:
    assert row_of(engine, NUMBERS, payload) is status


def test_numbers_are_exact_at_their_ends(engine: Any) -> None:
    low = (
        b"\x08"
        + varint(-(2**31))
        + b"\x10"
        + varint(-(2**63))
        + b"\x28"
        + varint(2**32 - 1)
        + b"\x30"
        + varint(2**64 - 1)
    )
    assert list(row_of(engine, NUMBERS, low).values()) == [-(2**31), -(2**63), 0, 0, -(2**31), -(2**63), False]
    high = b"\x08" + varint(2**31 - 1) + b"\x18" + varint(2**32 - 1) + b"\x20" + varint(2**64 - 1) + b"\x38\x02"
    found = row_of(engine, NUMBERS, high)
    assert list(found.values()) == [2**31 - 1, 0, 2**32 - 1, Decimal(2**64 - 1), 0, 0, True]
    fixed = "fixed32 a = 1; fixed64 b = 2; sfixed32 c = 3; sfixed64 d = 4; float e = 5; double f = 6;"
    data = b"".join((b"\x0d", b"\xff" * 4, b"\x11", b"\xff" * 8, b"\x1d", b"\xff" * 4, b"\x21", b"\xff" * 8))
    data += b"\x2d" + struct.pack("<f", 0.5) + b"\x31" + struct.pack("<d", 0.1)
    assert list(row_of(engine, fixed, data).values()) == [2**32 - 1, Decimal(2**64 - 1), -1, -1, 0.5, 0.1]


def test_unknown_fields_are_left_out(engine: Any) -> None:
    unknown = b"\x78\x05" + b"\x7a\x02ab" + b"\x79" + bytes(8) + b"\x7d" + bytes(4) + b"\x7b\x7b\x7c\x08\x01\x7c"
    assert row_of(engine, "int32 a = 1;", b"\x08\x05" + unknown) == {"a": 5}
    assert row_of(engine, "int32 a = 1;", b"\x08\x05" + b"\x0a\x01x") == {"a": 5}  # of another wire type


def test_the_last_value_counts_and_messages_are_merged(engine: Any) -> None:
    assert row_of(engine, "string a = 1;", sized(1, b"long one") + sized(1, b"b")) == {"a": "b"}
    inner = "message I { int32 x = 1; repeated int32 y = 2; } I a = 1;"
    data = sized(1, b"\x08\x01\x10\x05") + sized(1, b"\x10\x06")
    assert row_of(engine, inner, data) == {"a": {"x": 1, "y": [5, 6]}}
    assert row_of(engine, inner, sized(1, b"") + sized(1, b"")) == {"a": {"x": 0, "y": []}}


def test_of_a_oneof_the_last_member_is_there(engine: Any) -> None:
    body = "oneof o { int32 a = 1; string b = 2; I c = 3; } message I { int32 x = 1; }"
    assert row_of(engine, body, b"\x08\x00") == {"a": 0, "b": None, "c": None}
    assert row_of(engine, body, b"\x08\x01" + sized(2, b"t")) == {"a": None, "b": "t", "c": None}
    twice = sized(3, b"\x08\x01") + sized(2, b"t") + sized(3, b"")
    assert row_of(engine, body, twice) == {"a": None, "b": None, "c": {"x": 0}}
    assert row_of(engine, body, b"") == {"a": None, "b": None, "c": None}


def test_lists_may_be_packed_or_not_and_both(engine: Any) -> None:
    body = "repeated int32 a = 1; repeated double b = 2; repeated bool c = 3;"
    data = b"\x08\x01" + sized(1, b"\x02\xac\x02") + sized(1, b"") + b"\x08\x03" + sized(3, b"\0\1\2")
    assert row_of(engine, body, data) == {"a": [1, 2, 300, 3], "b": [], "c": [False, True, True]}
    assert row_of(engine, body, sized(1, b"\x01\x80")) is Status.TRUNCATED
    assert row_of(engine, body, sized(2, bytes(9))) is Status.TRUNCATED


def test_maps_have_typed_keys_and_the_last_value_of_each(engine: Any) -> None:
    body = "map<int32, string> a = 1;"
    entries = [sized(1, b"\x08\x05" + sized(2, b"x")), sized(1, b"\x08\x06"), sized(1, sized(2, b"z"))]
    assert row_of(engine, body, b"".join(entries)) == {"a": [(5, "x"), (6, ""), (0, "z")]}
    assert row_of(engine, body, b"".join((*entries, entries[0]))) == {"a": [(5, "x"), (6, ""), (0, "z")]}
    many = b"".join(sized(1, b"\x08" + varint(n) + sized(2, b"v")) for n in range(100))
    assert row_of(engine, body, many) == {"a": [(n, "v") for n in range(100)]}
    again = row_of(engine, body, many + sized(1, b"\x08\x32" + sized(2, b"w")))
    assert again["a"][50] == (50, "w")
    assert len(again["a"]) == 100
    messages = "message I { int32 x = 1; } map<string, I> a = 1;"
    assert row_of(engine, messages, sized(1, sized(1, b"k"))) == {"a": [("k", {"x": 0})]}


def test_unknown_fields_of_a_maps_entry_are_left_out(engine: Any) -> None:
    """The entry stays, as in Java and C++; a key of another wire type is unknown as well."""
    body = "message I { int32 x = 1; } map<string, I> a = 1; map<int32, int32> b = 2; google.protobuf.Struct c = 3;"
    more = b"\x18\x09"
    data = sized(1, sized(1, b"k") + more + sized(2, b"\x08\x05")) + sized(2, b"\x08\x07\x10\x02" + more)
    data += sized(2, sized(1, b"k") + b"\x10\x03")
    data += sized(3, sized(1, sized(1, b"k") + sized(2, b"\x20\x01") + more))
    assert row_of(engine, body, data) == {"a": [("k", {"x": 5})], "b": [(7, 2), (0, 3)], "c": '{"k":true}'}


def test_enums_are_names_and_unknown_numbers_digits(engine: Any) -> None:
    body = "Kind a = 1; repeated Kind b = 2; optional Kind c = 3;"
    data = b"\x08\x01" + sized(2, b"\x00\x63" + varint(-7)) + b"\x18\x7b"
    assert row_of(engine, body, data) == {"a": "PAID", "b": ["NONE", "99", "SENT"], "c": "123"}
    assert row_of(engine, body, b"") == {"a": "NONE", "b": [], "c": None}


def test_numbers_that_a_closed_enum_lacks_are_unknown_fields(engine: Any) -> None:
    body = "optional Kind a = 1; repeated Kind b = 2; map<int32, Kind> c = 3;"
    data = b"\x08\x01\x08\x63" + b"\x10\x01\x10\x63" + sized(3, b"\x08\x01\x10\x63") + sized(3, b"\x08\x02\x10\x01")
    assert row_of(engine, body, data, "proto2") == {"a": "PAID", "b": ["PAID"], "c": [(2, "PAID")]}


def test_required_fields_must_be_there_in_the_end(engine: Any) -> None:
    inner = "message I { required int32 x = 1; optional int32 y = 2 [default = 5]; }"
    body = f"required int32 a = 1; optional I b = 2; {inner}"
    assert row_of(engine, body, b"", "proto2") is Status.MISSING_FIELD
    assert row_of(engine, body, b"\x08\x01", "proto2") == {"a": 1, "b": None}
    assert row_of(engine, body, b"\x08\x01" + sized(2, b"\x10\x01"), "proto2") is Status.MISSING_FIELD
    merged = b"\x08\x01" + sized(2, b"\x10\x01") + sized(2, b"\x08\x02")
    assert row_of(engine, body, merged, "proto2") == {"a": 1, "b": {"x": 2, "y": 1}}
    assert row_of(engine, body, b"\x08\x01" + sized(2, b"\x08\x02"), "proto2") == {"a": 1, "b": {"x": 2, "y": None}}


def test_groups_end_with_their_tag(engine: Any) -> None:
    body = "optional group G = 1 { optional int32 x = 1; } optional int32 a = 2;"
    assert row_of(engine, body, b"\x0b\x08\x05\x0c\x10\x06", "proto2") == {"g": {"x": 5}, "a": 6}
    assert row_of(engine, body, b"\x0b\x08\x05", "proto2") is Status.TRUNCATED
    assert row_of(engine, body, b"\x0b\x08\x05\x14", "proto2") is Status.MALFORMED


def test_text_is_utf_8_in_each_syntax(engine: Any) -> None:
    assert row_of(engine, "string a = 1;", sized(1, "höher".encode())) == {"a": "höher"}
    assert row_of(engine, "string a = 1;", sized(1, b"\xc3")) is Status.INVALID_UTF8
    assert row_of(engine, "optional string a = 1;", sized(1, b"\xed\xa0\x80"), "proto2") is Status.INVALID_UTF8
    assert row_of(engine, "bytes a = 1;", sized(1, b"\xc3")) == {"a": b"\xc3"}


def test_wrappers_are_nullable_values(engine: Any) -> None:
    g = "google.protobuf"
    body = f"{g}.Int32Value a = 1; {g}.StringValue b = 2; repeated {g}.Int32Value c = 3;"
    assert row_of(engine, body, b"") == {"a": None, "b": None, "c": []}
    data = sized(1, b"") + sized(2, sized(1, b"t")) + sized(3, b"") + sized(3, b"\x08\x05")
    assert row_of(engine, body, data) == {"a": 0, "b": "t", "c": [0, 5]}
    assert row_of(engine, body, sized(1, b"\x08\x01\x10\x01") + sized(2, b"")) == {"a": 1, "b": "", "c": []}
    assert row_of(engine, body, sized(1, b"\x08")) is Status.TRUNCATED


def micros(engine: Any, kind: str, seconds: int, nanos: int, **options: Any) -> Any:
    data = sized(1, b"\x08" + varint(seconds) + b"\x10" + varint(nanos))
    found = decoder_of(engine, f"google.protobuf.{kind} a = 1;", **options).decode(pa.array([data]))
    return Status(int(found.status[0])) if found.status[0] else found.rows.field(0).cast(pa.int64()).to_pylist()[0]


def test_times_are_microseconds_or_errors(engine: Any) -> None:
    assert micros(engine, "Timestamp", 1, 5000) == 1_000_005
    assert micros(engine, "Timestamp", -1, 999_999_000) == -1
    assert micros(engine, "Timestamp", 1, 5001) is Status.INEXACT
    assert micros(engine, "Timestamp", 1, 5999, nanoseconds="truncate") == 1_000_005
    assert micros(engine, "Timestamp", 1, -1000) is Status.OUT_OF_RANGE
    assert micros(engine, "Timestamp", 253_402_300_800, 0) is Status.OUT_OF_RANGE
    assert micros(engine, "Duration", -1, -5000) == -1_000_005
    assert micros(engine, "Duration", -1, -5999, nanoseconds="truncate") == -1_000_005
    assert micros(engine, "Duration", -1, 5000) is Status.OUT_OF_RANGE


def test_structs_are_json(engine: Any) -> None:
    body = "repeated google.protobuf.Value a = 1; int32 b = 2;"
    number = b"\x11" + struct.pack("<d", 2.0)
    data = sized(1, number) + sized(1, sized(3, '"é'.encode())) + sized(1, b"\x20\x01") + sized(1, b"\x08\x00")
    assert row_of(engine, body, data) == {"a": ["2", '"\\"é"', "true", "null"], "b": 0}
    nan = b"\x11" + struct.pack("<d", float("nan"))
    assert row_of(engine, body, sized(1, number) + sized(1, nan)) is Status.OUT_OF_RANGE


def test_work_grows_with_the_payload_alone(engine: Any) -> None:
    """A megabyte that is merged piece by piece: copied or parsed again with each piece, it took hours."""
    body = "google.protobuf.Struct a = 1; oneof o { google.protobuf.Value b = 2; string c = 3; }"
    entry = sized(1, sized(1, b"k") + sized(2, sized(5, sized(1, sized(1, b"x")))))
    member = sized(2, sized(5, sized(1, sized(1, b"x"))))
    pieces = 20_000
    assert row_of(engine, body, sized(1, entry) * pieces) == {"a": '{"k":{"x":null}}', "b": None, "c": None}
    assert row_of(engine, body, member * pieces) == {"a": None, "b": '{"x":null}', "c": None}
    assert row_of(engine, body, (member + sized(3, b"t")) * pieces) == {"a": None, "b": None, "c": "t"}


def test_json_that_is_replaced_or_dropped_must_be_sound(engine: Any) -> None:
    """Google's library refuses these payloads; damaged bytes in what does not count were taken."""
    body = "oneof o { google.protobuf.Value a = 1; string b = 2; } map<int32, google.protobuf.Value> c = 3;"
    bad = b"\x32\x04\x0a\x02"
    assert row_of(engine, body, sized(1, bad) + sized(2, b"t")) is Status.TRUNCATED
    entry = b"\x08\x05" + sized(2, bad)
    assert row_of(engine, body, sized(3, entry + b"\x20\x00")) is Status.TRUNCATED
    assert row_of(engine, body, sized(3, entry) + sized(3, b"\x08\x05" + sized(2, b""))) is Status.TRUNCATED
    assert row_of(engine, body, sized(1, bad) + b"\x00") is Status.TRUNCATED


def test_errors_of_json_hit_their_own_rows(engine: Any) -> None:
    decoder = decoder_of(engine, "repeated I a = 1; message I { repeated google.protobuf.Value v = 1; }")
    good, bad = sized(1, sized(1, b"\x20\x01")), sized(1, sized(1, b"\x20"))
    found = decoder.decode(pa.array([good, b"", good + bad, None, good + good, bad]))
    assert found.status.tolist() == [0, 0, Status.TRUNCATED, Status.NULL, 0, Status.TRUNCATED]
    assert found.rows.to_pylist()[4] == {"a": [{"v": ["true"]}, {"v": ["true"]}]}


def test_an_error_names_its_path(engine: Any) -> None:
    decoder = decoder_of(engine, "message I { string x = 1; map<string, int32> y = 2; } repeated I a = 1;")
    error = decoder.explain(sized(1, b"") + sized(1, sized(1, b"\xff")))
    assert (error.status, error.path) == (Status.INVALID_UTF8, "a[1].x")
    error = decoder.explain(sized(1, sized(2, sized(1, b"k") + b"\x10" + varint(2**40))))
    assert str(error) == f'a[0].y["k"]: {2**40} is no int32'
    with pytest.raises(ValueError, match="no error"):
        decoder.explain(b"")


def test_what_comes_before_the_message_is_skipped(engine: Any) -> None:
    decoder = decoder_of(engine, "int32 a = 1;")
    found = decoder.decode(pa.array([b"\0\0\0\0\7\0\x08\x05", b"\0", None]), skip=6)
    assert found.status.tolist() == [0, Status.BAD_FRAME, Status.NULL]
    assert found.rows.to_pylist() == [{"a": 5}, None, None]


def test_no_payloads_are_no_rows(engine: Any) -> None:
    decoder = decoder_of(engine, "repeated string a = 1; Kind b = 2; google.protobuf.Struct c = 3;")
    assert decoder.decode(pa.array([], pa.binary())).rows.to_pylist() == []
    assert decoder.decode(pa.array([None, None], pa.binary())).rows.to_pylist() == [None, None]


def test_the_kernel_itself_decodes_what_serializers_write() -> None:
    """The plain decoder is asked for nothing here: else the kernel would be slow, and nobody would notice."""
    body = (
        "int32 a = 1; optional string b = 2; repeated I c = 3; map<string, I> d = 4; oneof o { I e = 5; bool f = 6; } "
        "google.protobuf.Timestamp g = 7; google.protobuf.Int32Value h = 8; Kind i = 9; google.protobuf.Struct j = 10; "
        "message I { repeated double x = 1; map<int32, int32> y = 2; }"
    )
    inner = sized(1, bytes(16)) + sized(2, b"\x08\x01\x10\x02") + sized(2, b"\x08\x02\x10\x02")
    payload = (
        b"\x08\x01" + sized(2, b"t") + sized(3, inner) + sized(4, sized(1, b"k") + sized(2, inner)) + sized(5, b"")
    )
    payload += sized(7, b"\x08\x01") + sized(8, b"\x08\x01") + b"\x48\x05" + sized(10, sized(1, sized(1, b"k")))
    decoder = decoder_of("fast", body)
    with patch.object(ReferenceProtobufDecoder, "decode", side_effect=AssertionError("left to the plain decoder")):
        assert not decoder.decode(pa.array([payload, b"", None, payload + b"\x7d\0\0\0\0"])).status[[0, 1, 3]].any()


def test_threads_may_share_a_decoder() -> None:
    decoder = decoder_of("fast", "repeated string a = 1;")
    arrays = [pa.array([sized(1, bytes([65 + n]) * 50) * (n + 1)] * 2000) for n in range(8)]
    with ThreadPoolExecutor(4) as pool:
        for n, found in enumerate(pool.map(decoder.decode, arrays)):
            assert found.rows[1999].as_py() == {"a": [chr(65 + n) * 50] * (n + 1)}


def test_a_registrys_text_and_indexes_make_a_decoder(engine: Any) -> None:
    text = 'syntax = "proto3"; import "m.proto"; message A { int32 a = 1; } message B { message C { x.M m = 1; } }'
    reference = 'syntax = "proto3"; package x; message M { string s = 1; }'
    decoder = registry_decoder(text, {"m.proto": reference}, (1, 0), engine=engine)
    assert decoder.decode(pa.array([sized(1, sized(1, b"t"))])).rows.to_pylist() == [{"m": {"s": "t"}}]
