"""The measured shapes of JSON payloads, without white space, as serializers write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions


@dataclass(frozen=True)
class JsonShape:
    """columns: name and DDL type. value: makes a document. options: None: the defaults (rescue unknown fields)."""

    name: str
    columns: Mapping[str, str]
    value: Callable[[Random], Mapping[str, Any]]
    options: JsonOptions | None = None

    def make(self, random: Random) -> bytes:
        return json.dumps(self.value(random), separators=(",", ":"), ensure_ascii=False).encode()

    def decoder(self, engine: Literal["fast", "reference"]) -> PayloadDecoder:
        return json_decoder(parse_columns(self.columns), self.options, engine=engine)


_FLAT: Final = {
    "id": "bigint",
    "customer": "string",
    "amount": "double",
    "currency": "string",
    "quantity": "bigint",
    "paid": "boolean",
    "created_at": "bigint",
    "note": "string",
}
_THREE: Final = {name: _FLAT[name] for name in ("id", "quantity", "note")}


def _flat(random: Random) -> dict[str, Any]:
    return {
        "id": 10**12 + random.randrange(10**9),
        "customer": f"customer-{random.randrange(10**6):06}",
        "amount": random.randrange(10**5) / 100,
        "currency": None if random.random() < 0.1 else "EUR",
        "quantity": random.randrange(100),
        "paid": random.random() < 0.5,
        "created_at": 1_700_000_000_000 + random.randrange(10**9),
        "note": "to the front door, no signature"[: random.randrange(10, 32)],
    }


def _shuffled(random: Random) -> dict[str, Any]:
    pairs = list(_flat(random).items())
    random.shuffle(pairs)
    return dict(pairs)


def _exact(random: Random) -> dict[str, Any]:
    return {
        "price": random.randrange(10**9) / 100,
        "at": f"2024-02-{random.randrange(10, 29)}T12:30:{random.randrange(10, 60)}.{random.randrange(100, 999)}Z",
        "local": f"{random.randrange(10, 29)}.02.2024 12:30",
        "day": f"2024-02-{random.randrange(10, 29)}",
        "rate": random.random(),
        "share": random.random(),
    }


def _nested(random: Random) -> dict[str, Any]:
    lines = [
        {"sku": f"sku-{random.randrange(10**6)}", "quantity": random.randrange(9), "price": random.randrange(999) / 10}
        for _ in range(5)
    ]
    return {
        "id": random.randrange(1 << 40),
        "address": {"street": "Long Street 5", "city": "Somewhere", "zip": None},
        "lines": lines,
        "tags": {"a": "1", "channel": "web", "campaign": "none"},
    }


SHAPES: Final = (
    JsonShape("8 flat fields", _FLAT, _flat),
    JsonShape("8 flat fields, in any order", _FLAT, _shuffled),
    JsonShape("8 flat fields, 3 of them declared, 5 ignored", _THREE, _flat, JsonOptions(unknown_fields="ignore")),
    JsonShape("8 flat fields, 3 of them declared, 5 rescued", _THREE, _flat),
    JsonShape(
        "a decimal, 3 dates and times, 2 doubles of 17 digits",
        {
            "price": "decimal(12,2)",
            "at": "timestamp",
            "local": "timestamp",
            "day": "date",
            "rate": "double",
            "share": "double",
        },
        _exact,
        JsonOptions(formats={"local": "dd.MM.yyyy HH:mm"}, time_zone="Europe/Berlin"),
    ),
    JsonShape(
        "nested: a struct, 5 structs in an array, a map of 3",
        {
            "id": "bigint",
            "address": "struct<street:string,city:string,zip:string>",
            "lines": "array<struct<sku:string,quantity:int,price:double>>",
            "tags": "map<string,string>",
        },
        _nested,
    ),
    JsonShape(
        "text beyond ASCII, with escapes",
        {"text": "string"},
        lambda random: {"text": 'Größe und Maß,\n"für" Käse ' * random.randrange(2, 6)},
    ),
    JsonShape(
        "200 numbers",
        {f"n{n}": "bigint" for n in range(200)},
        lambda random: {f"n{n}": None if random.random() < 0.2 else random.randrange(10**9) for n in range(200)},
    ),
)
