"""Messages that contain themselves: a struct down to where they begin again, and JSON text there, by both decoders."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.segment_reader.payload.decoder import DecodedPayloads, Status
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors
from kseg.segment_reader.payload.protobuf.schema import ProtobufSchema

TREE = """syntax = "proto3";
import "google/protobuf/timestamp.proto"; import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
enum Kind { NONE = 0; PAID = 1; }
message Tree {
  string value = 1; Tree left = 2; repeated Tree children = 3; map<int32, Tree> by_number = 4;
  uint64 big = 5; bytes raw = 6; Kind kind = 7; google.protobuf.Timestamp at = 8; google.protobuf.Struct any = 9;
  optional bool maybe = 10; repeated int32 numbers = 11; Line line = 12; google.protobuf.Int64Value wide = 13;
  oneof one { string text = 14; Tree tree = 15; }
  message Line { double price = 1; Tree of = 2; }
}"""
GROUPS = """syntax = "proto2";
message Node {
  required string value = 1;
  optional group Next = 2 { required string name = 1; optional Node node = 2; optional Next next = 3; }
}"""


@cache
def schema(text: str) -> tuple[ProtobufSchema, Any]:
    """Ours, and Google's class of the first message."""
    compiled = compile_text(text)
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled).file
    for file in files:
        pool.Add(file)
    ours = parse_descriptors(compiled)
    return ours, message_factory.GetMessageClass(pool.FindMessageTypeByName(files[-1].message_type[0].name))


def read(text: str, *payloads: bytes | None, **options: Any) -> DecodedPayloads:
    """By both decoders, which agree."""
    ours, google = schema(text)
    message = ours.message(google.DESCRIPTOR.full_name)
    found = [
        protobuf_decoder(message, engine=engine, **options).decode(pa.array(payloads, pa.binary()))
        for engine in ("reference", "fast")
    ]
    assert found[0].status.tolist() == found[1].status.tolist()
    assert found[0].rows.equals(found[1].rows)
    found[1].rows.validate(full=True)
    return found[1]


def tree(**fields: Any) -> Any:
    return schema(TREE)[1](**fields)


def test_a_message_is_a_struct_down_to_where_it_begins_again() -> None:
    kind = read(TREE).rows.type
    types = {name: str(kind.field(name).type) for name in ("left", "children", "by_number", "line", "tree")}
    assert types == {
        "left": "string",
        "children": "list<item: string>",
        "by_number": "map<int32, string>",
        "line": "struct<price: double, of: string>",
        "tree": "string",
    }


def test_what_is_within_is_the_json_of_what_is_written() -> None:
    inner = tree(value='b "é"', left=tree(value="c"), children=[tree(), tree(value="d")], big=2**64 - 1, raw=b"\xff")
    inner.kind, inner.maybe, inner.line.price, inner.wide.value = 1, False, 0.5, 7
    inner.at.FromJsonString("2024-02-29T12:30:15.25Z")
    inner.any.update({"x": [1, None]})
    inner.numbers.extend([0, 3])
    inner.by_number[7].value = "e"
    inner.line.of.value = "f"
    inner.text = ""
    outer = tree(value="a", left=inner, children=[inner], tree=inner)
    outer.by_number[1].CopyFrom(inner)
    outer.line.of.CopyFrom(inner)
    (row,) = read(TREE, outer.SerializeToString()).rows.to_pylist()
    expected = (
        '{"value":"b \\"é\\"","left":{"value":"c"},"children":[{},{"value":"d"}],"by_number":{"7":{"value":"e"}},'
        '"big":18446744073709551615,"raw":"/w==","kind":"PAID","at":"2024-02-29T12:30:15.250000Z","any":{"x":[1,null]},'
        '"maybe":false,"numbers":[0,3],"line":{"price":0.5,"of":{"value":"f"}},"wide":7,"text":""}'
    )
    assert [row["left"], row["tree"], *row["children"], row["by_number"][0][1], row["line"]["of"]] == [expected] * 5
    assert json.loads(expected)["left"] == {"value": "c"}


def test_fields_that_are_not_written_are_null_or_empty() -> None:
    row, none = read(TREE, tree(value="a").SerializeToString(), None).rows.to_pylist()
    assert (row["left"], row["children"], row["by_number"], row["tree"], none) == (None, [], [], None, None)
    assert read(TREE, tree(left=tree()).SerializeToString()).rows.to_pylist()[0]["left"] == "{}"


def test_messages_that_are_written_twice_are_merged() -> None:
    twice = (
        tree(left=tree(value="a", numbers=[1])).SerializeToString() + tree(left=tree(numbers=[2])).SerializeToString()
    )
    assert read(TREE, twice).rows.to_pylist()[0]["left"] == '{"value":"a","numbers":[1,2]}'


def test_groups_that_contain_themselves() -> None:
    node = schema(GROUPS)[1](value="a")
    node.next.name, node.next.node.value, node.next.next.name = "n", "b", "m"
    kind = read(GROUPS).rows.type
    assert str(kind.field(1).type) == "struct<name: string, node: string, next: string>"
    (row,) = read(GROUPS, node.SerializeToString()).rows.to_pylist()
    assert row[kind.field(1).name] == {"name": "n", "node": '{"value":"b"}', "next": '{"name":"m"}'}
    node.next.node.ClearField("value")
    node.next.node.next.name = "x"
    assert read(GROUPS, node.SerializePartialToString()).status.tolist() == [Status.MISSING_FIELD]


def deep(levels: int) -> bytes:
    data = b""
    for _ in range(levels):
        size, head = len(data), bytearray()
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        data = b"\x12" + bytes([*head, size]) + data
    return data


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (tree(left=tree(value="bcd")).SerializeToString().replace(b"bcd", b"b\xff\xfe"), Status.INVALID_UTF8),
        (tree(children=[tree(left=tree(value="bcd"))]).SerializeToString()[:-2], Status.TRUNCATED),
        (b"\x12\x02\x0a\x05", Status.TRUNCATED),
        (deep(64), None),
        (deep(100), Status.TOO_DEEP),
        (deep(20_000), Status.TOO_DEEP),
    ],
    ids=["text", "end", "inner-end", "deep", "too-deep", "very-deep"],
)
def test_a_wrong_value_within_is_the_error_of_its_payload_alone(payload: bytes, status: Status | None) -> None:
    sound = tree(value="a", left=tree(value="b"), children=[tree(value="c")]).SerializeToString()
    found = read(TREE, sound, payload, None, sound)
    assert found.status.tolist() == [Status.DECODED, status or Status.DECODED, Status.NULL, Status.DECODED]
    rows = found.rows.to_pylist()
    assert (rows[1] is None) == (status is not None)
    assert (rows[0]["left"], rows[0]["children"]) == ('{"value":"b"}', ['{"value":"c"}'])
    assert rows[0] == rows[3]


def test_a_member_of_a_oneof_that_is_replaced_is_gone() -> None:
    """Also if it is none of the message's: only the last member's bytes become text."""
    payloads = [
        b"\x7a\x02\x0a\x05" + tree(text="t").SerializeToString(),
        tree(tree=tree(value="v")).SerializeToString(),
    ]
    rows = read(TREE, *payloads).rows.to_pylist()
    assert [(row["text"], row["tree"]) for row in rows] == [("t", None), (None, '{"value":"v"}')]


def test_nanoseconds_within_are_cut_where_the_job_says_so() -> None:
    inner = tree(value="b")
    inner.at.nanos = 1500
    payload = tree(left=inner).SerializeToString()
    assert read(TREE, payload).status.tolist() == [Status.INEXACT]
    (row,) = read(TREE, payload, nanoseconds="truncate").rows.to_pylist()
    assert row["left"] == '{"value":"b","at":"1970-01-01T00:00:00.000001Z"}'
