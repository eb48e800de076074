"""Entries of maps in texts of a registry, and the places of messages that frames name."""

from __future__ import annotations

import base64

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2

from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors
from kseg.segment_reader.payload.protobuf.registered import registered_descriptors
from kseg.segment_reader.payload.protobuf.schema import ProtobufSchema

PLAIN = """syntax = "proto3";
message Outer {
  map<string, int32> m = 1;
  message A { map<int32, A> a = 1; message In {} }
  message B { string y = 1; }
}
"""

# As Confluent's serializer for Java registers a class whose file has `map<string, string> attrs`.
OF_JAVA = """syntax = "proto3";
package shop;
import "item.proto";

message Order {
  repeated Item items = 1;
  repeated AttrsEntry attrs = 2;
  message First {}
  message AttrsEntry {
    option map_entry = true;
    string key = 1;
    string value = 2;
  }
  message Second {}
}
"""
ITEM = """syntax = "proto2";
package shop;
message Item {
  repeated NEntry n = 1;
  message NEntry { option map_entry=true; optional int32 key = 1; optional Item value = 2; }
}
"""


def schema_of(text: str, **references: str) -> ProtobufSchema:
    return parse_descriptors(registered_descriptors(text, {f"{name}.proto": own for name, own in references.items()}))


def test_indexes_count_the_messages_of_a_text() -> None:
    """Not those that protoc makes for its maps, as Confluent's clients for Java count."""
    schema = schema_of(PLAIN)
    names = {(0,): "Outer", (0, 0): "Outer.A", (0, 1): "Outer.B", (0, 0, 0): "Outer.A.In"}
    assert {indexes: schema.message_at(indexes).name for indexes in names} == names
    for none in ((0, 2), (0, 0, 1)):
        with pytest.raises(InvalidSchema, match=r"Entry are the entries of a map"):
            schema.message_at(none)
    with pytest.raises(InvalidSchema, match="no such message"):
        schema.message_at((0, 3))


def test_indexes_count_all_messages_of_a_descriptor() -> None:
    """What Confluent's client for Python registers; its indexes are places in the descriptor."""
    file = descriptor_pb2.FileDescriptorSet.FromString(registered_descriptors(PLAIN, {})).file[0]
    nested = file.message_type[0].nested_type
    entry = nested.pop()
    nested.insert(0, entry)
    schema = schema_of(base64.b64encode(file.SerializeToString()).decode())
    assert [schema.message_at((0, place)).name for place in (1, 2)] == ["Outer.A", "Outer.B"]
    with pytest.raises(InvalidSchema, match="entries of a map"):
        schema.message_at((0, 0))


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_maps_that_are_written_as_messages_are_maps(engine: str) -> None:
    """In references too; these messages count where they are."""
    schema = schema_of(OF_JAVA, item=ITEM)
    assert [schema.message_at((0, place)).name for place in (0, 2)] == ["shop.Order.First", "shop.Order.Second"]
    with pytest.raises(InvalidSchema, match=r"shop\.Order\.AttrsEntry are the entries of a map"):
        schema.message_at((0, 1))
    item = schema.message("shop.Item").fields[0].message
    assert item is not None
    assert item.map_entry
    text = OF_JAVA.replace('import "item.proto";', "").replace("repeated Item items = 1;", "")
    order = schema_of(text).message("shop.Order")
    rows = protobuf_decoder(order, engine=engine).decode(pa.array([b"\x12\x06\x0a\x01k\x12\x01v"])).rows  # type: ignore[arg-type]
    assert rows.to_pylist() == [{"attrs": [("k", "v")]}]


def test_descriptors_keep_all_else() -> None:
    file = descriptor_pb2.FileDescriptorSet.FromString(registered_descriptors(OF_JAVA, {"item.proto": ITEM})).file[-1]
    plain = OF_JAVA.replace("option map_entry = true;", "")
    expected = descriptor_pb2.FileDescriptorSet.FromString(registered_descriptors(plain, {"item.proto": ITEM})).file[-1]
    expected.message_type[0].nested_type[1].options.map_entry = True
    assert file == expected
