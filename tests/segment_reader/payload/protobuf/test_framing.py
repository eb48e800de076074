"""Message indexes behind a schema's id, and payloads and schemas of Confluent's serializer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.framing import frames_of
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.decoder import registry_decoder
from kseg.segment_reader.payload.protobuf.framing import message_indexes

FRAME = b"\0\0\0\0\7"


def test_each_payload_names_its_message_and_where_it_begins() -> None:
    payloads = pa.array(
        [
            FRAME + b"\0" + b"first",
            None,
            FRAME + b"\2\2" + b"second",
            FRAME + b"\4\0\6" + b"nested",
            FRAME + b"\2\0" + b"first, at length",
            FRAME,
            FRAME + b"\4\0",
            FRAME + b"\1",
            FRAME + b"\xff\xff\xff\xff\xff\xff",
        ]
    )
    found = message_indexes(payloads, frames_of(payloads).skip)
    assert found.messages == ((0,), (0, 3), (1,))
    assert found.which.tolist() == [0, -1, 2, 1, 0, -1, -1, -1, -1]
    assert found.skip.tolist()[:5] == [6, 0, 7, 8, 7]
    bad = Status.BAD_FRAME
    assert found.status.tolist() == [0, Status.NULL, 0, 0, 0, bad, bad, bad, bad]


def test_a_slice_of_an_array_has_the_same() -> None:
    payloads = pa.array([b"other", FRAME + b"\2\2x", FRAME + b"\0x"]).slice(1)
    found = message_indexes(payloads, np.full(2, 5, np.int32))
    assert [found.messages[n] for n in found.which.tolist()] == [(1,), (0,)]
    assert found.skip.tolist() == [7, 6]


ORDERS = """
    syntax = "proto3"; package shop; import "money.proto"; import "google/protobuf/timestamp.proto";
    message Order { int64 id = 1; common.Money price = 2; message Line { string sku = 1; } }
    message Refund { google.protobuf.Timestamp at = 1; Order.Line line = 2; common.Money price = 3; }
"""
MONEY = 'syntax = "proto3"; package common; message Money { int64 units = 1; }'


@pytest.fixture(scope="module")
def classes() -> Any:
    """Google's classes of the messages, by name."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compile_text(ORDERS, {"money.proto": MONEY})).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def serialized(message: Any) -> tuple[bytes, str, dict[str, str]]:
    """A payload of Confluent's serializer, and the schema and references that it has registered."""
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    serializer = ProtobufSerializer(type(message), client, {"use.deprecated.format": False})
    payload = serializer(message, SerializationContext("orders", MessageField.VALUE))
    assert payload is not None
    schema = client.get_schema(int.from_bytes(payload[1:5], "big"))
    versions = {each.name: client.get_version(each.subject, each.version) for each in schema.references or ()}
    return payload, str(schema.schema_str), {name: str(each.schema.schema_str) for name, each in versions.items()}


@pytest.mark.parametrize(
    ("name", "value", "row"),
    [
        ("shop.Order", {"id": 7, "price": {"units": 5}}, {"id": 7, "price": {"units": 5}}),
        ("shop.Order.Line", {"sku": "s"}, {"sku": "s"}),
        ("shop.Refund", {"line": {"sku": "s"}}, {"at": None, "line": {"sku": "s"}, "price": None}),
    ],
)
def test_what_confluents_serializer_writes_and_registers_is_read(
    classes: Any, name: str, value: dict[str, Any], row: dict[str, Any]
) -> None:
    payload, schema, references = serialized(classes(name)(**value))
    payloads = pa.array([payload])
    frames = frames_of(payloads)
    found = message_indexes(payloads, frames.skip)
    for text, others in ((schema, references), (ORDERS, {"money.proto": MONEY}), (schema, {"money.proto": MONEY})):
        decoder = registry_decoder(text, others, found.messages[0])
        decoded = decoder.decode(payloads, skip=int(found.skip[0]))
        assert decoded.rows.to_pylist() == [row]


def test_a_registered_descriptor_that_is_none_is_refused() -> None:
    for text in ("AAAA", "CgVh", 'GgMi"Q=='):
        with pytest.raises(InvalidSchema):
            registry_decoder(text, {}, (0,))
