"""The measured shapes of Protobuf payloads, and other decoders for comparison: Google's, and ptars.

They need the extra `protobuf`, because schemas are compiled from text, and Google's library writes the payloads.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Final, Literal

import pyarrow as pa

from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors

#: Decodes an array of payloads with another library.
Peer = Callable[[pa.BinaryArray], object]


@dataclass(frozen=True)
class ProtobufShape:
    """body: of the message `Order`. value: makes one of its values, by field."""

    name: str
    body: str
    value: Callable[[Random], Mapping[str, Any]]

    @cached_property
    def descriptors(self) -> bytes:
        """A FileDescriptorSet, including imported files."""
        imports = 'import "google/protobuf/timestamp.proto";'
        return compile_text(f'syntax = "proto3"; package shop; {imports} message Order {{ {self.body} }}')

    @cached_property
    def _pool(self) -> Any:
        pool = importlib.import_module("google.protobuf.descriptor_pool").DescriptorPool()
        files = importlib.import_module("google.protobuf.descriptor_pb2").FileDescriptorSet()
        files.ParseFromString(self.descriptors)
        for file in files.file:
            pool.Add(file)
        return pool

    @cached_property
    def _class(self) -> Any:
        factory = importlib.import_module("google.protobuf.message_factory")
        return factory.GetMessageClass(self._pool.FindMessageTypeByName("shop.Order"))

    def make(self, random: Random) -> bytes:
        payload: bytes = self._class(**self.value(random)).SerializeToString()
        return payload

    def decoder(self, engine: Literal["fast", "reference"]) -> PayloadDecoder:
        return protobuf_decoder(parse_descriptors(self.descriptors).message("Order"), engine=engine)

    def peers(self) -> Iterator[tuple[str, Peer]]:
        yield "google's protobuf", self._google
        if importlib.util.find_spec("ptars") is not None:
            yield "ptars", self._ptars()

    def _google(self, payloads: pa.BinaryArray) -> object:
        """Messages as Google's library parses them, and each field as a list: one Python object a value."""
        messages = [self._class.FromString(payload) for payload in payloads.to_pylist()]
        return [[getattr(each, field.name) for each in messages] for field in self._class.DESCRIPTOR.fields]

    def _ptars(self) -> Peer:
        handlers = importlib.import_module("ptars").HandlerPool([self._class.DESCRIPTOR.file])
        handler = handlers.get_for_message(self._class.DESCRIPTOR)

        def decode(payloads: pa.BinaryArray) -> object:
            return handler.array_to_record_batch(payloads)

        return decode


def shapes() -> tuple[ProtobufShape, ...]:
    """All shapes; () if the extra `protobuf` is not installed."""
    return SHAPES if importlib.util.find_spec("grpc_tools") is not None else ()


def _flat(random: Random) -> dict[str, Any]:
    currency = {} if random.random() < 0.1 else {"currency": "EUR"}
    return {
        "id": random.randrange(1 << 40),
        "customer": f"customer-{random.randrange(10**8):08}",
        "amount": random.random() * 1000,
        "quantity": random.randrange(100),
        "paid": random.random() < 0.5,
        "created_at": {"seconds": _second(random), "nanos": random.randrange(1000) * 1_000_000},
        "note": "n" * random.randrange(100, 140),
        **currency,
    }


def _second(random: Random) -> int:
    return 1_700_000_000 + random.randrange(10**6)


def _nested(random: Random) -> dict[str, Any]:
    lines = [
        {"sku": f"sku-{random.randrange(10**6)}", "quantity": random.randrange(9), "price": random.random()}
        for _ in range(5)
    ]
    return {
        "id": random.randrange(1 << 40),
        "address": {"street": "Long Street 5", "city": "Somewhere"},
        "lines": lines,
        "tags": {"a": "1", "channel": "web", "campaign": "none"},
    }


SHAPES: Final = (
    ProtobufShape(
        "8 flat fields",
        "int64 id = 1; string customer = 2; double amount = 3; optional string currency = 4; int32 quantity = 5; "
        "bool paid = 6; google.protobuf.Timestamp created_at = 7; string note = 8;",
        _flat,
    ),
    ProtobufShape(
        "nested: a message, 5 messages in a list, a map of 3",
        "message Address { string street = 1; string city = 2; optional string zip = 3; } "
        "message Line { string sku = 1; int32 quantity = 2; double price = 3; } "
        "int64 id = 1; Address address = 2; repeated Line lines = 3; map<string, string> tags = 4;",
        _nested,
    ),
    ProtobufShape(
        "100 numbers in a packed list",
        "repeated int64 numbers = 1;",
        lambda random: {"numbers": [random.randrange(1 << random.randrange(1, 40)) for _ in range(100)]},
    ),
    ProtobufShape(
        "8 members of oneofs and enums",
        "enum Kind { NONE = 0; PLACED = 1; PAID = 2; } Kind k0 = 1; Kind k1 = 2; Kind k2 = 3; Kind k3 = 4; "
        + " ".join(f"oneof o{n} {{ int64 i{n} = {10 + 2 * n}; string s{n} = {11 + 2 * n}; }}" for n in range(4)),
        lambda random: {
            **{f"k{n}": random.randrange(3) for n in range(4)},
            **dict(_member(random, n) for n in range(4)),
        },
    ),
    ProtobufShape(
        "200 optional numbers",
        " ".join(f"optional int64 n{n} = {n + 1};" for n in range(200)),
        lambda random: {f"n{n}": random.randrange(10**9) for n in range(200) if random.random() >= 0.2},
    ),
)


def _member(random: Random, n: int) -> tuple[str, Any]:
    return (f"i{n}", random.randrange(10**6)) if random.random() < 0.5 else (f"s{n}", "a few words")
