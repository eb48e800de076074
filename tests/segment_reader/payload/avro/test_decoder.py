"""The rules of decoding, one by one, for both decoders; and the compiled one's buffers."""

from __future__ import annotations

import json
import random
import struct
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from avro_schemas import encode, flat, long
from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.decoder import PayloadDecoder, Status

EMPTY = {"type": "record", "name": "Empty", "fields": []}
TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "n", "type": "long"}, {"name": "children", "type": {"type": "array", "items": "Tree"}}],
}


@pytest.fixture(params=["fast", "reference"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def decoder_of(engine: Any, writer: Any, reader: Any = None) -> PayloadDecoder:
    other = None if reader is None else parse_schema(json.dumps(reader))
    return avro_decoder(parse_schema(json.dumps(writer)), other, engine=engine)


def record(*fields: Any, name: str = "Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{n}", "type": f} for n, f in enumerate(fields)]}


def status_of(engine: Any, schema: Any, payload: bytes, reader: Any = None) -> Status:
    return Status(int(decoder_of(engine, schema, reader).decode(pa.array([payload])).status[0]))


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


# -- errors


@pytest.mark.parametrize(
    ("schema", "payload", "status"),
    [
        ("long", b"", Status.TRUNCATED),
        ("long", b"\x80", Status.TRUNCATED),
        ("long", b"\xff" * 9 + b"\x01", Status.DECODED),
        ("long", b"\xff" * 9 + b"\x02", Status.MALFORMED),
        ("long", b"\x80" * 9 + b"\x80\x00", Status.MALFORMED),
        ("long", b"\x80\x80\x00", Status.DECODED),
        ("long", b"\x02\x00", Status.TRAILING_BYTES),
        ("int", long(1 << 31), Status.OUT_OF_RANGE),
        ("int", long(-(1 << 31)), Status.DECODED),
        ("int", long(-(1 << 31) - 1), Status.OUT_OF_RANGE),
        ("boolean", b"\x02", Status.MALFORMED),
        ("boolean", b"", Status.TRUNCATED),
        ("float", b"123", Status.TRUNCATED),
        ("double", b"1234567", Status.TRUNCATED),
        ("string", long(4) + b"abc", Status.TRUNCATED),
        ("string", long(-1), Status.MALFORMED),
        ("string", long((1 << 63) - 1), Status.TRUNCATED),
        ("string", long(3) + b"abc", Status.DECODED),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc", Status.TRUNCATED),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(1), Status.MALFORMED),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, long(-1), Status.MALFORMED),
        (["null", "int"], long(2), Status.MALFORMED),
        (["null", "int"], long(-1), Status.MALFORMED),
        (["null", "int"], b"\x80\x00", Status.DECODED),
        (["int", "string", "null"], long(3), Status.MALFORMED),
        (array("int"), long(1 << 62), Status.TRUNCATED),
        (array("int"), long(-(1 << 63)) + long(0), Status.MALFORMED),
        (array("int"), long(-1) + long(-1), Status.MALFORMED),
        (array("int"), long(-1) + long(9) + b"\0\0", Status.TRUNCATED),
        (array("int"), long(-1) + long(2) + long(7) + b"\0", Status.MALFORMED),
        (array("int"), long(-1) + long(1) + long(7) + b"\0", Status.DECODED),
        (array("double"), long(2) + bytes(9), Status.TRUNCATED),
        (array("null"), long(1 << 16) + b"\0", Status.DECODED),
        (array("null"), long((1 << 16) + 1) + b"\0", Status.TOO_LARGE),
        (array("null"), long(1 << 15) + long(1 << 15) + long(1) + b"\0", Status.TOO_LARGE),
        (array("null"), long(1 << 62) + b"\0", Status.TOO_LARGE),
        (array(EMPTY), long(1 << 40) + b"\0", Status.TOO_LARGE),
        (array(array("null")), long(2) + (long(1 << 15) + b"\0") * 2 + b"\0", Status.DECODED),
        (array(array("null")), long(3) + (long(1 << 15) + b"\0") * 3 + b"\0", Status.TOO_LARGE),
        ({"type": "map", "values": "null"}, long(2) + b"\x02a" * 2 + b"\0", Status.DUPLICATE_KEY),
        ({"type": "map", "values": "null"}, long(2) + b"\x02a\x02b" + b"\0", Status.DECODED),
        ({"type": "map", "values": "null"}, long(1) + b"\x02\xff" + b"\0", Status.INVALID_UTF8),
    ],
)
def test_what_is_wrong_has_its_status(engine: Any, schema: Any, payload: bytes, status: Status) -> None:
    assert status_of(engine, schema, payload) is status


@pytest.mark.parametrize(
    "data",
    [
        b"\x80",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xc3",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xef\xbf",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xff",
        b"\xe2\x28\xa1",
    ],
)
def test_what_is_not_utf8_is_an_error_wherever_it_is(engine: Any, data: bytes) -> None:
    decoder = decoder_of(engine, "string")
    for before in (0, 1, 5, 8, 40):
        for after in (0, 1, 7, 30):
            text = b"a" * before + data + b"b" * after
            found = decoder.decode(pa.array([long(len(text)) + text, long(1) + b"x"]))
            assert found.status.tolist() == [Status.INVALID_UTF8, Status.DECODED]


def test_every_character_is_utf8(engine: Any) -> None:
    decoder = decoder_of(engine, "string")
    edges = [
        0x7F,
        0x80,
        0x7FF,
        0x800,
        0xFFF,
        0x1000,
        0xD7FF,
        0xE000,
        0xFFFD,
        0xFFFF,
        0x10000,
        0x3FFFF,
        0x40000,
        0x10FFFF,
    ]
    texts = ["x" * n + chr(edge) for edge in edges for n in (0, 3, 7)]
    found = decoder.decode(pa.array([long(len(text.encode())) + text.encode() for text in texts]))
    assert found.rows.to_pylist() == texts


def test_an_error_names_its_path(engine: Any) -> None:
    line = record("long", "string", name="Line")
    decoder = decoder_of(engine, record("int", array(line), {"type": "map", "values": "Line"}))
    items = long(2) + long(1) + long(0) + long(1) + long(5)
    error = decoder.explain(long(7) + items)
    assert (error.status, error.path) == (Status.TRUNCATED, "f1[1].f1")
    assert str(error) == "f1[1].f1: 5 bytes are needed, 0 are left"
    entries = long(1) + long(1) + b"k" + long(1) + long(1) + b"\xff"
    error = decoder.explain(long(7) + b"\0" + entries + b"\0")
    assert (error.status, error.path) == (Status.INVALID_UTF8, 'f2["k"].f1')
    assert decoder.explain(long(7) + b"\0\0z").status is Status.TRAILING_BYTES
    assert decoder.explain(b"\0\0\0", skip=5).status is Status.BAD_FRAME
    with pytest.raises(ValueError, match="no error"):
        decoder.explain(long(7) + b"\0\0")


def test_a_frame_is_skipped(engine: Any) -> None:
    decoder = decoder_of(engine, "int")
    found = decoder.decode(pa.array([b"12345" + long(7), b"12345", b"1234", None]), skip=5)
    assert found.status.tolist() == [Status.DECODED, Status.TRUNCATED, Status.BAD_FRAME, Status.NULL]
    assert found.rows.to_pylist() == [7, None, None, None]


def test_no_payloads_are_no_rows(engine: Any) -> None:
    decoder = decoder_of(engine, record("string", array("int")))
    for payloads in (pa.array([], pa.binary()), pa.array([None, b"\0"], pa.binary()).slice(1, 0)):
        found = decoder.decode(payloads)
        assert (len(found.rows), len(found.status)) == (0, 0)
    nothing = decoder.decode(pa.nulls(2, pa.binary()))
    assert nothing.rows.to_pylist() == [None, None]


# -- values


def test_durations_and_uuids(engine: Any) -> None:
    kinds = [
        {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
    ]
    given = uuid.UUID("00ff9abc-1234-5678-9def-0123456789ab")
    payload = struct.pack("<3I", 1, 2, 2**32 - 1) + given.bytes
    found = decoder_of(engine, record(*kinds)).decode(pa.array([payload, payload[:-1]]))
    duration = {"months": 1, "days": 2, "millis": 2**32 - 1}
    assert found.rows.to_pylist() == [{"f0": duration, "f1": str(given)}, None]


def test_floats_are_copied_bit_by_bit(engine: Any) -> None:
    payload = b"\x01\x00\xc0\x7f" + b"\x00\x00\x00\x80" + b"\x01" + bytes(6) + b"\x80"
    found = decoder_of(engine, record("float", "float", "double")).decode(pa.array([payload]))
    values = [found.rows.field(n).to_numpy()[0] for n in range(3)]
    assert np.isnan(values[0])
    assert [float(v) for v in values[1:]] == [-0.0, -5e-324]
    assert np.signbit(values[1])


@pytest.mark.parametrize("keys", [2, 8, 9, 100, 3000])
def test_a_key_may_be_in_a_map_once(engine: Any, keys: int) -> None:
    schema = record({"type": "map", "values": "int"}, "string")
    decoder = decoder_of(engine, schema)

    def payload(names: list[str]) -> bytes:
        entries = b"".join(long(len(name)) + name.encode() + long(n) for n, name in enumerate(names))
        return long(len(names)) + entries + b"\0" + long(1) + b"z"

    names = [f"key-{n}" for n in range(keys)]
    good, bad = payload(names), payload([*names[:-1], names[0]])
    found = decoder.decode(pa.array([good, bad, good]))
    assert found.status.tolist() == [Status.DECODED, Status.DUPLICATE_KEY, Status.DECODED]
    expected = {"f0": {name: n if n else (0, 1.0) for n, name in enumerate(names)}, "f1": "z"}
    assert flat(found.rows) == [expected, None, expected]


# -- what is not read


def test_recursive_records_can_be_left_out(engine: Any) -> None:
    writer = record(TREE, "string")
    reader = {"type": "record", "name": "Order", "fields": [{"name": "f1", "type": "string"}]}

    def nested(depth: int) -> bytes:
        """Records in arrays: two levels each."""
        return long(5) + (long(1) + nested(depth - 1) if depth else b"") + b"\0"

    payloads = [nested(depth) + long(2) + b"ok" for depth in (0, 1, 31)]
    found = decoder_of(engine, writer, reader).decode(pa.array(payloads))
    assert found.rows.to_pylist() == [{"f1": "ok"}] * 3
    assert status_of(engine, writer, nested(32) + long(2) + b"ok", reader) is Status.TOO_DEEP
    assert status_of(engine, writer, nested(500) + long(2) + b"ok", reader) is Status.TOO_DEEP


def test_a_linked_list_is_left_out(engine: Any) -> None:
    linked = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
    reader = {"type": "record", "name": "Order", "fields": [{"name": "f1", "type": "int"}]}
    for length, status in (
        (0, Status.DECODED),
        (63, Status.DECODED),
        (64, Status.TOO_DEEP),
        (100_000, Status.TOO_DEEP),
    ):
        payload = long(1) * length + long(0) + long(9)
        assert status_of(engine, record(linked, "int"), payload, reader) is status


def test_what_is_left_out_is_checked_for_its_structure_alone(engine: Any) -> None:
    writer = record("boolean", "string", "int", array({"type": "map", "values": "null"}), "long")
    reader = {"type": "record", "name": "Order", "fields": [{"name": "f4", "type": "long"}]}
    odd = b"\x07" + long(1) + b"\xff" + long(1 << 40) + long(1) + (long(2) + b"\x02a" * 2 + b"\0") + b"\0" + long(4)
    assert status_of(engine, writer, odd, reader) is Status.DECODED
    assert status_of(engine, writer, odd[:-1], reader) is Status.TRUNCATED
    assert status_of(engine, record(array("null"), "long"), long(1 << 50) + b"\0\0", reader) is Status.TOO_LARGE
    branches = record(["null", "int", "string"], "long", "long", "long", "long")
    assert status_of(engine, branches, long(3) + bytes(4), reader) is Status.MALFORMED


# -- the compiled decoder's buffers


def agree(schema: Any, payloads: list[bytes | None], times: int = 1) -> None:
    """Both decoders, which keep what they learned of sizes, say the same of the payloads, again and again."""
    fast, plain = decoder_of("fast", schema), decoder_of("reference", schema)
    given = pa.array(payloads, pa.binary())
    expected = plain.decode(given)
    for _ in range(times):
        found = fast.decode(given)
        found.rows.validate(full=True)
        assert found.status.tolist() == expected.status.tolist()
        assert flat(found.rows) == flat(expected.rows)


def test_buffers_grow() -> None:
    schema = record("string", array(array("string")), {"type": "map", "values": ["null", "bytes"]})
    made = random.Random(1)
    payloads: list[bytes | None] = []
    for n in range(300):
        value = {
            "f0": "x" * (n * 7 % 900),
            "f1": [["y" * made.randrange(60) for _ in range(n % 7)] for _ in range(n % 23)],
            "f2": {},
        }
        good = encode(schema, value, made)
        payloads += [good, good[: len(good) // 2], None] if n % 5 == 0 else [good]
    agree(schema, payloads, times=3)


def test_one_large_payload_among_small_ones() -> None:
    schema = record("string", array("long"))
    small = encode(schema, {"f0": "a", "f1": [1]}, random.Random(1))
    large = encode(schema, {"f0": "b" * 300_000, "f1": list(range(50_000))}, random.Random(1))
    agree(schema, [small] * 100 + [large] + [small] * 100, times=2)
    agree(schema, [large[:-1], small, large, None, large[:-5]])


def test_items_of_a_payload_that_fails_are_taken_back() -> None:
    """Its nulls, which have cleared validity bits, its items, and its texts."""
    schema = record(array(["null", record("string", ["null", "int"], name="In")]), "long")
    made = random.Random(1)
    good = long(3) + long(0) + long(1) + long(1) + b"a" + long(0) + long(0) + b"\0" + long(1)
    for cut in range(1, len(good)):
        agree(schema, [good[:cut], good, good[:cut], good[:cut] + made.randbytes(5), good])


def test_every_cut_is_an_error() -> None:
    kinds = ["long", "string", "double", ["null", "string"], array("int"), {"type": "map", "values": "float"}]
    schema = record(*kinds)
    value = {"f0": 1 << 40, "f1": "zwölf", "f2": 1.5, "f3": None, "f4": [1, 2], "f5": {"a": 1.0}}
    from avro_schemas import Branch

    payload = encode(schema, value | {"f3": Branch(1, "EUR")}, random.Random(3))
    agree(schema, [payload[:n] for n in range(len(payload) + 1)])
    found = decoder_of("fast", schema).decode(pa.array([payload[:n] for n in range(len(payload))]))
    assert found.status.all()


def test_nothing_is_read_beyond_the_payloads() -> None:
    """The last text ends with the buffer, which has no padding: an address after it may not be ours to read."""
    for size in (0, 1, 7, 8, 9, 30):
        data = long(size) + b"q" * size
        offsets = np.array([0, len(data)], np.int32)
        given = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        for kind in ("string", "bytes"):
            found = decoder_of("fast", kind).decode(given)
            assert found.rows.cast(pa.string()).to_pylist() == ["q" * size]


def test_threads_may_share_a_decoder() -> None:
    schema = record("string", array("string"))
    payloads = [encode(schema, {"f0": "x" * n, "f1": ["y"] * (n % 9)}, random.Random(n)) for n in range(500)]
    decoder = decoder_of("fast", schema)
    given = pa.array(payloads)
    expected = decoder.decode(given).rows
    with ThreadPoolExecutor(4) as pool:
        assert all(found.rows.equals(expected) for found in pool.map(decoder.decode, [given] * 16))


def test_many_columns_and_many_schemas_compile_nothing() -> None:
    from kseg.segment_reader.payload.avro.kernel import run

    agree("int", [long(1)])
    before = len(run.signatures)
    agree(record(*["long", ["null", "string"]] * 1000), [bytes(3000), b"\x02" * 10])
    agree(record(array(array(array("int")))), [bytes(1), long(1) + bytes(2)])
    assert len(run.signatures) == before == 1
