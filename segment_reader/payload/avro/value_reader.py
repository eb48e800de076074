"""A walk over one payload in plain Python: the values that nodes read, and the structure of what is not read.

value     the bytes are read as the writer's schema says, each length checked before it is used
block     of an array or a map: how many items, and where the number is negative how many bytes; 0 is the end.
          More items than the bytes can hold are an error before any is read; so are MAX_EMPTY_ITEMS items that take
          no bytes (nulls, empty records), and a size that is not that of the items
skipped   fields that are not read are checked for their structure (lengths, branches, counts), not for their values
document  likewise, and its bytes are kept: they become text when the whole payload has been read
"""

from __future__ import annotations

import decimal
import struct
import uuid
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kseg.segment_reader.payload.avro.limits import MAX_DEPTH, MAX_EMPTY_ITEMS
from kseg.segment_reader.payload.avro.nodes import (
    Binary,
    Boolean,
    Constant,
    Decimal,
    Duration,
    Floating,
    Integer,
    Items,
    JsonTextNode,
    MapNode,
    Mismatch,
    Node,
    Null,
    ReaderUnionMember,
    Skipped,
    Structure,
    Symbols,
    Text,
    UuidText,
    WriterUnionNode,
)
from kseg.segment_reader.payload.avro.resolution import smallest
from kseg.segment_reader.payload.avro.schema import (
    AvroArray,
    AvroEnum,
    AvroMap,
    AvroRecord,
    Fixed,
    Primitive,
    PrimitiveKind,
    Schema,
    Union,
)
from kseg.segment_reader.payload.avro.types import MAX_PRECISION
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.far_times import TO_NULL
from kseg.segment_reader.payload.plain import BadPayload, nullable, nulls_values, within

_EXACT = decimal.Context(prec=1000, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_SIZES: Final = {PrimitiveKind.NULL: 0, PrimitiveKind.BOOLEAN: 1, PrimitiveKind.FLOAT: 4, PrimitiveKind.DOUBLE: 8}


@dataclass(frozen=True, slots=True)
class KeptBytes:
    """A document's bytes. schema: the writer's."""

    data: bytes
    schema: Schema


class ValueReader:
    """A walk over one payload. Raises BadPayload. nearest: a time whose microseconds do not fit 64 bits is the nearest
    one that does, at the end of the calendar's years or beyond, instead of an error."""

    def __init__(self, data: bytes, position: int, *, nearest: bool = False) -> None:
        self.data, self.position, self.end, self._nearest = data, position, len(data), nearest
        self.empty_items = MAX_EMPTY_ITEMS
        self.has_documents = False

    # -- bytes

    def take(self, size: int) -> bytes:
        if size > self.end - self.position:
            raise BadPayload(Status.TRUNCATED, f"{size} bytes are needed, {self.end - self.position} are left")
        self.position += size
        return self.data[self.position - size : self.position]

    def long(self) -> int:
        value = 0
        for n in range(10):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * n)
            if byte < 0x80:
                if value >> 64:
                    break
                return (value >> 1) ^ -(value & 1)
        raise BadPayload(Status.MALFORMED, "a number of more than 64 bits")

    def sized(self) -> bytes:
        size = self.long()
        if size < 0:
            raise BadPayload(Status.MALFORMED, f"a length of {size}")
        return self.take(size)

    def text(self) -> str:
        data = self.sized()
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise BadPayload(Status.INVALID_UTF8, f"no UTF-8: {error.reason} at byte {error.start}") from None

    def bytes_or_fixed(self, size: int | None) -> bytes:
        return self.sized() if size is None else self.take(size)

    def branch(self, count: int) -> int:
        branch = self.long()
        if not 0 <= branch < count:
            raise BadPayload(Status.MALFORMED, f"branch {branch} of a union of {count}")
        return branch

    def blocks(self, minimum: int) -> Any:
        """Yields once an item, which the caller then reads: its number."""
        number = 0
        while count := self.long():
            size_end = None
            if count < 0:
                count = -count
                size = self.long()
                if size < 0 or count >= 1 << 63:
                    raise BadPayload(Status.MALFORMED, f"a block of {count} items and {size} bytes")
                if size > self.end - self.position:
                    raise BadPayload(Status.TRUNCATED, f"a block of {size} bytes, {self.end - self.position} are left")
                size_end = self.position + size
            if minimum and count > (self.end - self.position) // minimum:
                raise BadPayload(
                    Status.TRUNCATED,
                    f"{count} items of at least {minimum} bytes, {self.end - self.position} bytes are left",
                )
            if not minimum:
                if count > self.empty_items:
                    raise BadPayload(Status.TOO_LARGE, f"more than {MAX_EMPTY_ITEMS} items that take no bytes")
                self.empty_items -= count
            for _ in range(count):
                yield number
                number += 1
            if size_end is not None and self.position != size_end:
                raise BadPayload(Status.MALFORMED, "a block's size is not that of its items")

    # -- values

    def read(self, node: Node) -> Any:
        return nullable(self._read, node)

    def _read(self, node: Node) -> Any:
        match node:
            case Null():
                return None
            case Boolean():
                byte = self.take(1)[0]
                if byte > 1:
                    raise BadPayload(Status.MALFORMED, f"a boolean of {byte}")
                return bool(byte)
            case Integer():
                return _integer(self.long(), node, self._nearest)
            case Floating(bits):
                return struct.unpack("<f" if bits == 32 else "<d", self.take(bits // 8))[0]
            case Text():
                return self.text()
            case Binary(size):
                return self.bytes_or_fixed(size)
            case Decimal(size):
                return _decimal(self.bytes_or_fixed(size), node)
            case UuidText():
                return str(uuid.UUID(bytes=self.take(16)))
            case Duration():
                return dict(zip(("months", "days", "millis"), struct.unpack("<3I", self.take(12)), strict=True))
            case Symbols():
                return self._symbol(node)
            case Skipped(schema):
                return self._skip(schema, 0)
            case JsonTextNode(schema):
                start, self.has_documents = self.position, True
                self._skip(schema, 0)
                return KeptBytes(self.data[start : self.position], schema)
            case Structure():
                return self._structure(node)
            case Items(item, minimum):
                return [within(f"[{number}]", self.read, item) for number in self.blocks(minimum)]
            case MapNode(value, minimum):
                return self._entries(value, minimum)
            case WriterUnionNode(branches):
                return self.read(branches[self.branch(len(branches))])
            case ReaderUnionMember(number, _, inner):
                return {f"member{number}": self.read(inner)}
            case Mismatch(reason, written):
                if nulls_values():
                    self._skip(written, 0)
                raise BadPayload(Status.INCOMPATIBLE_SCHEMA, reason)

    def _structure(self, node: Structure) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for step in node.steps:
            value = within(f".{step.name}", self.read, step.node)
            if step.column is not None:
                row[node.columns[step.column]] = value
        for column, constant in node.absent:
            row[node.columns[column]] = constant and self._constant(constant)
        return row

    def _constant(self, constant: Constant) -> Any:
        reader = ValueReader(constant.data, 0, nearest=self._nearest)
        value = reader.read(constant.node)
        self.has_documents |= reader.has_documents
        return value

    def _entries(self, value: Node, minimum: int) -> list[tuple[str, Any]] | None:
        entries: list[tuple[str, Any]] = []
        unreadable = False
        for number in self.blocks(minimum):
            key = within(f"[{number}]", self.read, Text())
            unreadable |= key is None
            entries.append((key, within(f'["{key}"]', self.read, value)))
        if len({key for key, _ in entries}) < len(entries):
            raise BadPayload(Status.DUPLICATE_KEY, "a map with the same key twice")
        return None if unreadable else entries

    def _symbol(self, node: Symbols) -> str:
        number = self.long()
        if not 0 <= number < len(node.symbols):
            raise BadPayload(Status.MALFORMED, f"symbol {number} of an enum of {len(node.symbols)}")
        symbol = node.symbols[number]
        if symbol is None:
            raise BadPayload(Status.UNKNOWN_SYMBOL, f"the reader's enum has no symbol {node.written[number]}")
        return symbol

    # -- what is not read

    def _skip(self, schema: Schema, depth: int) -> None:
        """depth: of the arrays, maps and records that are being skipped."""
        match schema:
            case Primitive(kind=kind) if kind in _SIZES:
                self.take(_SIZES[kind])
            case Primitive(kind=PrimitiveKind.INT | PrimitiveKind.LONG) | AvroEnum():
                self.long()
            case Primitive():
                self.sized()
            case Fixed():
                self.take(schema.size)
            case Union():
                self._skip(schema.branches[self.branch(len(schema.branches))], depth)
            case _ if depth >= MAX_DEPTH:
                raise BadPayload(Status.TOO_DEEP, f"values are nested more than {MAX_DEPTH} deep")
            case AvroRecord():
                for field in schema.fields:
                    self._skip(field.schema, depth + 1)
            case AvroArray():
                for _ in self.blocks(smallest(schema.items)):
                    self._skip(schema.items, depth + 1)
            case AvroMap():
                for _ in self.blocks(1 + smallest(schema.values)):
                    self.sized()
                    self._skip(schema.values, depth + 1)


def _integer(value: int, node: Integer, nearest: bool) -> int | float:
    if node.bits == 32 and not -(2**31) <= value < 2**31:
        raise BadPayload(Status.OUT_OF_RANGE, f"{value} is no int of 32 bits")
    if node.column in (PrimitiveKind.FLOAT, PrimitiveKind.DOUBLE):
        number = float(np.float32(value)) if node.column is PrimitiveKind.FLOAT else float(value)
        if int(number) != value:
            raise BadPayload(Status.INEXACT, f"{value} cannot be a {node.column} without rounding")
        return number
    most = (2**63 - 1) // node.multiply
    if nearest and node.multiply > 1:
        value = max(-most, min(value, most))
    value *= node.multiply
    if not -(2**63) <= value < 2**63:
        hint = TO_NULL if node.multiply > 1 else ""
        raise BadPayload(Status.OUT_OF_RANGE, f"{value} does not fit 64 bits{hint}")
    if value % node.divide:
        raise BadPayload(Status.INEXACT, f"{value} nanoseconds are no whole number of the column's unit")
    return value // node.divide


def _decimal(data: bytes, node: Decimal) -> decimal.Decimal:
    if not data:
        raise BadPayload(Status.MALFORMED, "a decimal without bytes")
    value = int.from_bytes(data, "big", signed=True)
    if abs(value) >= 10**MAX_PRECISION:
        raise BadPayload(Status.OUT_OF_RANGE, f"a decimal of more than {MAX_PRECISION} digits")
    if node.shift < 0 and value % 10**-node.shift:
        raise BadPayload(Status.INEXACT, f"{value} has more than {node.scale} digits behind the point")
    value = value * 10**node.shift if node.shift >= 0 else value // 10**-node.shift
    if abs(value) >= 10**node.precision:
        raise BadPayload(Status.OUT_OF_RANGE, f"more than the {node.precision} digits of the column")
    return decimal.Decimal(value).scaleb(-node.scale, _EXACT)
