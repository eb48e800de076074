"""The measured shapes of Avro payloads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Final, Literal

from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.defaults import encode_default
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.decoder import PayloadDecoder


@dataclass(frozen=True)
class AvroShape:
    """fields: of an Avro record. value: makes a value, as JSON. reader: the fields that are read; None: all."""

    name: str
    fields: list[dict[str, Any]]
    value: Callable[[Random], Mapping[str, Any]]
    reader: list[dict[str, Any]] | None = None

    @cached_property
    def schema(self) -> str:
        """The writer's schema, as text."""
        return _record(self.fields)

    @cached_property
    def _parsed(self) -> Any:
        return parse_schema(self.schema)

    def make(self, random: Random) -> bytes:
        return encode_default(self.value(random), self._parsed)

    def decoder(self, engine: Literal["fast", "reference"]) -> PayloadDecoder:
        reader = None if self.reader is None else parse_schema(_record(self.reader))
        return avro_decoder(self._parsed, reader, engine=engine)


def _record(fields: list[dict[str, Any]]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def _fields(**kinds: Any) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind} for name, kind in kinds.items()]


def _logical(kind: str, logical: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **more}


_INSTANT = _logical("long", "timestamp-millis")
_FLAT = _fields(
    id="long",
    customer="string",
    amount="double",
    currency=["null", "string"],
    quantity="int",
    paid="boolean",
    created_at=_INSTANT,
    note="string",
)


def _flat(random: Random) -> dict[str, Any]:
    return {
        "id": random.randrange(1 << 40),
        "customer": f"customer-{random.randrange(10**8):08}",
        "amount": random.random() * 1000,
        "currency": None if random.random() < 0.1 else "EUR",
        "quantity": random.randrange(100),
        "paid": random.random() < 0.5,
        "created_at": _instant(random),
        "note": "n" * random.randrange(100, 140),
    }


def _instant(random: Random) -> int:
    return 1_700_000_000_000 + random.randrange(10**9)


def _logicals(random: Random) -> dict[str, Any]:
    cents = random.randrange(-(10**9), 10**9)
    return {
        "id": random.randbytes(16).decode("latin-1"),
        "price": cents.to_bytes(5, "big", signed=True).decode("latin-1"),
        "day": random.randrange(20_000),
        "at": _instant(random),
        "local": _instant(random) * 1000,
        "kind": random.choice(("PLACED", "PAID", "SENT")),
        "hash": random.randbytes(32).decode("latin-1"),
        "rate": random.random(),
    }


def _nested(random: Random) -> dict[str, Any]:
    lines = [
        {"sku": f"sku-{random.randrange(10**6)}", "quantity": random.randrange(9), "price": random.random()}
        for _ in range(5)
    ]
    address = {"street": "Long Street 5", "city": "Somewhere", "zip": None}
    return {
        "id": random.randrange(1 << 40),
        "address": address,
        "lines": lines,
        "tags": {"a": "1", "channel": "web", "campaign": "none"},
    }


def _unions(random: Random) -> dict[str, Any]:
    return {f"u{n}": random.choice((random.randrange(10**6), "text of a few words", None, 0.5)) for n in range(8)}


SHAPES: Final = (
    AvroShape("8 flat fields", _FLAT, _flat),
    AvroShape("8 flat fields, 3 of them read", _FLAT, _flat, [_FLAT[0], _FLAT[4], _FLAT[6]]),
    AvroShape(
        "8 logical types",
        _fields(
            id={**_logical("fixed", "uuid"), "name": "Id", "size": 16},
            price=_logical("bytes", "decimal", precision=12, scale=2),
            day=_logical("int", "date"),
            at=_INSTANT,
            local=_logical("long", "local-timestamp-micros"),
            kind={"type": "enum", "name": "Kind", "symbols": ["PLACED", "PAID", "SENT"]},
            hash={"type": "fixed", "name": "Hash", "size": 32},
            rate="float",
        ),
        _logicals,
    ),
    AvroShape(
        "nested: a record, 5 records in an array, a map of 3",
        _fields(
            id="long",
            address={
                "type": "record",
                "name": "Address",
                "fields": _fields(street="string", city="string", zip=["null", "string"]),
            },
            lines={
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": _fields(sku="string", quantity="int", price="double"),
                },
            },
            tags={"type": "map", "values": "string"},
        ),
        _nested,
    ),
    AvroShape(
        "8 unions of 4 types",
        [{"name": f"u{n}", "type": ["null", "long", "string", "double"]} for n in range(8)],
        _unions,
    ),
    AvroShape(
        "200 nullable numbers",
        [{"name": f"n{n}", "type": ["null", "long"]} for n in range(200)],
        lambda random: {f"n{n}": None if random.random() < 0.2 else random.randrange(10**9) for n in range(200)},
    ),
)
