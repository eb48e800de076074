"""Random Avro schemas, values and their bytes; later schemas that can read them; what fastavro says they are.

A schema is JSON, a value is what `encode` writes: of a union `Branch`, of a logical type the underlying value.
"""

from __future__ import annotations

import copy
import datetime
import io
import math
import struct
import uuid
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import fastavro
import pyarrow as pa

Json = Any

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICALS = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "string", "logicalType": "uuid"},
    {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38},
    {"type": "long", "logicalType": "nothing-known"},
]
TEXTS = ["", "a", "zwölf", "日本語", "𝄞", "plain text", "x" * 8, "y" * 40, "long " * 60, "é" * 30]

#: Of types that can be read as others: their group.
PROMOTED = {"int": "number", "long": "number", "float": "number", "double": "number", "string": "text", "bytes": "text"}

DAY = 86_400_000_000
#: Numbers of the underlying type that fastavro can show: years 1 to 9999.
RANGES = {
    "date": (-719_162, 2_932_896),
    "time-millis": (0, DAY // 1000 - 1),
    "time-micros": (0, DAY - 1),
    "timestamp-millis": (-62_135_596_800_000, 253_402_300_799_999),
    "timestamp-micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
    "local-timestamp-millis": (-62_135_596_800_000, 253_402_300_799_999),
    "local-timestamp-micros": (-62_135_596_800_000_000, 253_402_300_799_999_999),
}


@dataclass(frozen=True)
class Branch:
    number: int
    value: Any


class Maker:
    """Random schemas and values. names: defined so far."""

    def __init__(self, random: Random, *, promotions: bool = True, without: tuple[str, ...] = ()) -> None:
        """promotions: a union may have two branches of which one can be read as the other. without: logical types."""
        self.random = random
        self.without = without
        self.promotions = promotions
        self.count = 0
        self.in_union = 0

    def record(self, depth: int = 3) -> Json:
        fields = [
            {"name": f"f{n}", "type": self.schema(depth - 1)} for n in range(self.random.choice((0, 1, 2, 2, 3, 5, 8)))
        ]
        return {"type": "record", "name": self._name("R"), "fields": fields}

    def schema(self, depth: int) -> Json:
        kind = self.random.random()
        if depth <= 0 or kind < 0.4:
            return self.leaf()
        if kind < 0.55:
            return self.record(depth)
        if kind < 0.7:
            return {"type": "array", "items": self.schema(depth - 1)}
        if kind < 0.8:
            return {"type": "map", "values": self.schema(depth - 1)}
        return self.union(depth)

    def union(self, depth: int) -> Json:
        """Of more than one type without those whose meaning only the schema tells: see `oracle`."""
        found: dict[str, Json] = {}
        self.in_union += 1
        for _ in range(self.random.choice((1, 2, 2, 2, 3, 4))):
            branch = "null" if self.random.random() < 0.4 else self.schema(depth - 1)
            if not isinstance(branch, list):
                key = branch_key(branch)
                found.setdefault(key if self.promotions else PROMOTED.get(key, key), branch)
        self.in_union -= 1
        return list(found.values()) or ["null"]

    def leaf(self) -> Json:
        while True:
            leaf = self._leaf()
            logical = leaf.get("logicalType") if isinstance(leaf, dict) else None
            own = logical in ("time-millis", "duration") or (logical == "uuid" and leaf["type"] == "fixed")
            if not (own and self.in_union) and logical not in self.without:
                return leaf

    def _leaf(self) -> Json:
        kind = self.random.random()
        if kind < 0.6:
            return self.random.choice(PRIMITIVES)
        if kind < 0.8:
            return dict(self.random.choice(LOGICALS))
        if kind < 0.9:
            symbols = [f"S{n}" for n in range(self.random.randrange(1, 6))]
            return {"type": "enum", "name": self._name("E"), "symbols": symbols}
        name = self._name("F")
        return self.random.choice(
            [
                {"type": "fixed", "name": name, "size": self.random.choice((0, 1, 5, 8, 20))},
                {"type": "fixed", "name": name, "size": 8, "logicalType": "decimal", "precision": 12, "scale": 3},
                {"type": "fixed", "name": name, "size": 12, "logicalType": "duration"},
                {"type": "fixed", "name": name, "size": 16, "logicalType": "uuid"},
            ]
        )

    def _name(self, letter: str) -> str:
        self.count += 1
        return self.random.choice(("", "a.b.", "c.")) + f"{letter}{self.count}"

    # -- values

    def value(self, schema: Json) -> Any:
        random = self.random
        if isinstance(schema, list):
            number = random.randrange(len(schema))
            return Branch(number, self.value(schema[number]))
        kind = schema if isinstance(schema, str) else schema["type"]
        match kind:
            case "null":
                return None
            case "boolean":
                return random.random() < 0.5
            case "int" | "long":
                return self._integer(kind, {} if isinstance(schema, str) else schema)
            case "float":
                return struct.unpack("<f", struct.pack("<f", self._float(1e30)))[0]
            case "double":
                return self._float(1e300)
            case "string":
                if isinstance(schema, dict) and schema.get("logicalType") == "uuid":
                    return str(uuid.UUID(int=random.getrandbits(128)))
                return random.choice(TEXTS)
            case "bytes":
                digits = decimal_digits(schema)
                if digits:
                    return _decimal_bytes(self._within(digits[0]), random.choice((0, 0, 3, 20)))
                return random.randbytes(random.choice((0, 1, 3, 8, 17, 100)))
            case "fixed":
                digits = decimal_digits(schema)
                if digits:
                    return self._within(digits[0]).to_bytes(schema["size"], "big", signed=True)
                return random.randbytes(schema["size"])
            case "enum":
                return random.choice(schema["symbols"])
            case "array":
                return [self.value(schema["items"]) for _ in range(random.choice((0, 0, 1, 2, 5, 20)))]
            case "map":
                return {f"k{n}": self.value(schema["values"]) for n in range(random.choice((0, 1, 2, 12)))}
        return {field["name"]: self.value(field["type"]) for field in schema["fields"]}

    def _integer(self, kind: str, schema: Json) -> int:
        bits = 32 if kind == "int" else 64
        low, high = RANGES.get(schema.get("logicalType"), (-(1 << bits - 1), (1 << bits - 1) - 1))
        n = self.random.choice((0, 1, -1, 63, 64, -65, 8191, 8192, low, high, self.random.randint(low, high)))
        return min(max(n, low), high)

    def _float(self, most: float) -> float:
        return self.random.choice((0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, self.random.uniform(-most, most)))

    def _within(self, digits: int) -> int:
        most = 10**digits - 1
        return self.random.choice((0, 1, -1, 127, 128, -128, -129, most, -most, self.random.randint(-most, most)))


def decimal_digits(schema: Json) -> tuple[int, int] | None:
    """Of a decimal that is valid."""
    if isinstance(schema, dict) and schema.get("logicalType") == "decimal" and schema["scale"] <= schema["precision"]:
        return schema["precision"], schema["scale"]
    return None


def _decimal_bytes(value: int, more: int) -> bytes:
    """more: how many bytes longer than it has to be."""
    size = (value.bit_length() + 8) // 8 + more
    return value.to_bytes(size, "big", signed=True)


def branch_key(schema: Json) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


# -- bytes


def long(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def encode(schema: Json, value: Any, random: Random) -> bytes:
    """In one block or several, with sizes or without."""
    if isinstance(schema, list):
        return long(value.number) + encode(schema[value.number], value.value, random)
    match schema if isinstance(schema, str) else schema["type"]:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return long(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "bytes":
            return long(len(value)) + bytes(value)
        case "string":
            return long(len(value.encode())) + value.encode()
        case "fixed":
            return bytes(value)
        case "enum":
            return long(schema["symbols"].index(value))
        case "array":
            return _blocks([encode(schema["items"], item, random) for item in value], random)
        case "map":
            parts = [encode("string", key, random) + encode(schema["values"], v, random) for key, v in value.items()]
            return _blocks(parts, random)
    return b"".join(encode(field["type"], value[field["name"]], random) for field in schema["fields"])


def _blocks(items: list[bytes], random: Random) -> bytes:
    out = b""
    while items:
        count = random.choice((1, 2, len(items), len(items)))
        block, items = items[:count], items[count:]
        data = b"".join(block)
        out += long(-len(block)) + long(len(data)) + data if random.random() < 0.4 else long(len(block)) + data
    return out + b"\0"


# -- schemas that can read what was written


class Evolution:
    """A reader's schema made of a writer's, by changes that the specification allows."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def schema(self, writer: Json) -> Json:
        random = self.random
        if isinstance(writer, list):
            branches = [branch if isinstance(branch, str) else self.schema(branch) for branch in writer]
            if "null" not in writer and random.random() < 0.3:
                branches.insert(random.choice((0, len(branches))), "null")
            return branches
        if isinstance(writer, str):
            wider = {"int": ["long", "double"], "float": ["double"], "string": ["bytes"]}.get(writer)
            changed = random.choice(wider) if wider and random.random() < 0.3 else writer
            return ["null", changed] if writer != "null" and random.random() < 0.1 else changed
        changed = copy.deepcopy(writer)
        match writer["type"]:
            case "array":
                changed["items"] = self.schema(writer["items"])
            case "map":
                changed["values"] = self.schema(writer["values"])
            case "enum":
                self._rename(changed)
                changed["symbols"] = [*reversed(writer["symbols"]), "NEW"]
                if random.random() < 0.3:
                    del changed["symbols"][0]
                    changed["default"] = "NEW"
            case "fixed":
                self._rename(changed)
            case "record":
                self._rename(changed)
                changed["fields"] = self._fields(writer["fields"])
        return changed

    def _fields(self, fields: list[Json]) -> list[Json]:
        random = self.random
        changed = []
        for field in fields:
            if random.random() < 0.2:
                continue
            own = {"name": field["name"], "type": self.schema(field["type"])}
            if random.random() < 0.2:
                own = {"name": field["name"] + "_new", "type": own["type"], "aliases": [field["name"]]}
            changed.append(own)
        if random.random() < 0.4:
            self.count += 1
            changed.append(
                random.choice(
                    [
                        {"name": f"g{self.count}", "type": "int", "default": 7},
                        {"name": f"g{self.count}", "type": ["null", "string"], "default": None},
                        {"name": f"g{self.count}", "type": "string", "default": "déjà"},
                        {"name": f"g{self.count}", "type": {"type": "array", "items": "long"}, "default": [1, -2]},
                        {"name": f"g{self.count}", "type": {"type": "map", "values": "int"}, "default": {"a": 1}},
                    ]
                )
            )
        random.shuffle(changed)
        return changed

    def _rename(self, named: Json) -> None:
        if self.random.random() < 0.2:
            named["aliases"] = [named["name"]]
            named["name"] += "_new"


# -- what another reader says, and rows in the same form: maps are dicts, times are numbers, and a struct of a union's
# members is the member that is there


def oracle(data: bytes, writer: Json, reader: Json | None = None) -> Any:
    """The value as fastavro reads it."""
    value = fastavro.schemaless_reader(io.BytesIO(data), copy.deepcopy(writer), copy.deepcopy(reader))
    return _plain(value, reader if reader is not None else writer)


def _plain(value: Any, schema: Json) -> Any:
    if isinstance(schema, list):
        kinds = [branch for branch in schema if branch != "null"]
        schema = kinds[0] if len(kinds) == 1 else None  # which branch it was fastavro does not say: see `Maker.union`
    kind = schema["type"] if isinstance(schema, dict) else None
    match value:
        case dict() if kind == "record":
            return {field["name"]: _plain(value[field["name"]], field["type"]) for field in schema["fields"]}
        case dict():
            return {key: _plain(item, schema and schema["values"]) for key, item in value.items()}
        case list():
            return [_plain(item, schema and schema["items"]) for item in value]
        case bytes() if kind == "fixed" and schema.get("logicalType") == "duration":
            return dict(zip(("months", "days", "millis"), map(_number, struct.unpack("<3I", value)), strict=True))
        case bytes() if kind == "fixed" and schema.get("logicalType") == "uuid":
            return str(uuid.UUID(bytes=value))
        case datetime.datetime():
            epoch = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)
            return _number((value - epoch) // datetime.timedelta(microseconds=1))
        case datetime.date():
            return _number((value - datetime.date(1970, 1, 1)).days)
        case datetime.time():
            micros = ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
            return _number(micros // 1000 if schema and schema.get("logicalType") == "time-millis" else micros)
        case uuid.UUID():
            return str(value)
    return _number(value)


def _number(value: Any) -> Any:
    """NaN equals itself, and zeros have signs."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    return "nan" if math.isnan(value) else (0, math.copysign(1, value)) if value == 0 else value


def flat(array: pa.Array) -> list[Any]:
    """An array's values in that form."""
    kind = array.type
    if pa.types.is_struct(kind):
        children = [flat(array.field(n)) for n in range(kind.num_fields)]
        names = [field.name for field in kind]
        if names and names[0] == "member0":
            values = [next((v for v in row if v is not None), None) for row in zip(*children, strict=True)]
        else:
            values = [dict(zip(names, (child[n] for child in children), strict=True)) for n in range(len(array))]
    elif pa.types.is_map(kind):
        keys, items, offsets = flat(array.keys), flat(array.items), array.offsets.to_pylist()
        values = [dict(zip(keys[a:b], items[a:b], strict=True)) for a, b in pairwise(offsets)]
    elif pa.types.is_list(kind):
        items, offsets = flat(array.values), array.offsets.to_pylist()
        values = [items[a:b] for a, b in pairwise(offsets)]
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        values = array.view(pa.int32() if pa.types.is_date(kind) else pa.int64()).to_pylist()
        values = [_number(value) for value in values]
    else:
        values = [_number(value) for value in array.to_pylist()]
    return [value if valid else None for value, valid in zip(values, array.is_valid().to_pylist(), strict=True)]
