"""A resolved schema: a tree that says how written bytes become the reader's columns. Both decoders work by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from kseg.segment_reader.payload.avro.schema import PrimitiveKind, Schema


@dataclass(frozen=True, slots=True)
class Null:
    """Nothing is written; the column is null."""


@dataclass(frozen=True, slots=True)
class Boolean:
    pass


@dataclass(frozen=True, slots=True)
class Integer:
    """bits: of the written type. column: where it goes. The value is multiplied, then divided without a remainder."""

    bits: int
    column: PrimitiveKind
    multiply: int = 1
    divide: int = 1


@dataclass(frozen=True, slots=True)
class Floating:
    """bits: of the written type. column: FLOAT or DOUBLE."""

    bits: int
    column: PrimitiveKind


@dataclass(frozen=True, slots=True)
class Text:
    """Bytes with a length, checked to be UTF-8."""


@dataclass(frozen=True, slots=True)
class Binary:
    """size: of a fixed type; None: a length is written."""

    size: int | None


@dataclass(frozen=True, slots=True)
class Decimal:
    """size: as in Binary. precision: the column's. shift: by how many digits the column's scale is larger."""

    size: int | None
    precision: int
    scale: int
    shift: int = 0


@dataclass(frozen=True, slots=True)
class UuidText:
    """16 bytes, as text."""


@dataclass(frozen=True, slots=True)
class Duration:
    """Three little-endian unsigned numbers of 32 bits."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """symbols: the reader's, by the number that is written; None where the reader has none. written: the writer's."""

    symbols: tuple[str | None, ...]
    written: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """Written, and not read."""

    schema: Schema


@dataclass(frozen=True, slots=True)
class JsonTextNode:
    """A record where it begins again within itself: JSON text of what is written. schema: the writer's."""

    schema: Schema


@dataclass(frozen=True, slots=True)
class FieldStep:
    """A written field. name: the writer's. column: its number, None where it is skipped."""

    name: str
    node: Node
    column: int | None


@dataclass(frozen=True, slots=True)
class Constant:
    """A default: its bytes, and how they are read."""

    data: bytes
    node: Node


@dataclass(frozen=True, slots=True)
class Structure:
    """steps: in the writer's order. absent: columns that are not written; None is null."""

    columns: tuple[str, ...]
    steps: tuple[FieldStep, ...]
    absent: tuple[tuple[int, Constant | None], ...]


@dataclass(frozen=True, slots=True)
class Items:
    """An array. minimum: the smallest size of an item in bytes."""

    item: Node
    minimum: int


@dataclass(frozen=True, slots=True)
class MapNode:
    """A map; likewise."""

    value: Node
    minimum: int


@dataclass(frozen=True, slots=True)
class WriterUnionNode:
    """The writer's union: a node by the number that is written."""

    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ReaderUnionMember:
    """One member of the reader's union, whose column is a struct of `count` members."""

    number: int
    count: int
    node: Node


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A branch of the writer's union that the reader's schema cannot take: an error where it is written."""

    reason: str
    written: Schema


Node: TypeAlias = (
    Null
    | Boolean
    | Integer
    | Floating
    | Text
    | Binary
    | Decimal
    | UuidText
    | Duration
    | Symbols
    | Skipped
    | JsonTextNode
    | Structure
    | Items
    | MapNode
    | WriterUnionNode
    | ReaderUnionMember
    | Mismatch
)
