"""Statistics of a field in sampled documents: the kinds of its values, and what decides its column's type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any, Final, Literal

from kseg.etl.decoding.formats.documents import Fraction, Members, Whole
from kseg.segment_reader.payload.json.formats import Format, date_format, days_of, micros_of, timestamp_format

Kind = Literal["null", "boolean", "integer", "fraction", "string", "array", "object"]
#: No column can hold longer numbers.
_MOST_DIGITS: Final = 400


@dataclass
class Numbers:
    """integer_digits, scale: the largest number of digits before and after the point. padded: whether a fraction ends
    with a zero after other digits, as decimals are written, but not doubles. exact: whether doubles represent all
    numbers exactly. finite: whether all are finite as doubles. least, most: of whole numbers."""

    integer_digits: int = 0
    scale: int = 0
    padded: bool = False
    exact: bool = True
    finite: bool = True
    least: int | None = None
    most: int | None = None

    def add(self, text: str) -> None:
        try:
            number = Decimal(text)
        except InvalidOperation:
            self.finite = False
            self.integer_digits = _MOST_DIGITS
            return
        _, digits, exponent = number.as_tuple()
        assert isinstance(exponent, int)
        self.scale = max(self.scale, min(-exponent, _MOST_DIGITS))
        self.integer_digits = max(self.integer_digits, min(len(digits) + exponent, _MOST_DIGITS) if number else 1)
        if isinstance(text, Whole) and len(text) <= _MOST_DIGITS:
            whole = int(text)
            self.least = whole if self.least is None else min(self.least, whole)
            self.most = whole if self.most is None else max(self.most, whole)
        point = text.partition(".")[2]
        self.padded |= point.isdecimal() and len(point) > 1 and point.endswith("0")
        approximate = float(text)
        self.finite &= abs(approximate) != float("inf")
        if self.finite:
            self.exact &= Decimal(repr(approximate)) == number

    def merge(self, other: Numbers) -> None:
        self.integer_digits = max(self.integer_digits, other.integer_digits)
        self.scale = max(self.scale, other.scale)
        self.padded |= other.padded
        self.exact &= other.exact
        self.finite &= other.finite
        self.least = min((x for x in (self.least, other.least) if x is not None), default=None)
        self.most = max((x for x in (self.most, other.most) if x is not None), default=None)


@dataclass
class SeenValues:
    """One field, an array's elements, or the documents themselves.

    kinds: number of values by kind. texts: number of strings by possible type: `instant` (ISO 8601 with a zone),
    `local` (without), `date`; `finer`: those of `instant` that have digits below a microsecond. members: an object's
    fields in the order in which they appeared. twice: names that an object had twice.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    numbers: Numbers = field(default_factory=Numbers)
    texts: Counter[str] = field(default_factory=Counter)
    element: SeenValues | None = None
    members: dict[str, SeenValues] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)

    @property
    def count(self) -> int:
        """Number of values, including null."""
        return sum(self.kinds.values())

    @property
    def nulls(self) -> int:
        return self.kinds["null"]

    @property
    def present(self) -> frozenset[str]:
        """Kinds of values other than null."""
        return frozenset(self.kinds) - {"null"}

    def add(self, value: Any) -> None:
        kind = _kind(value)
        self.kinds[kind] += 1
        if kind in ("integer", "fraction"):
            self.numbers.add(value)
        elif kind == "string":
            self.texts.update(_texts(value))
        elif kind == "array":
            self.element = self.element or SeenValues()
            for each in value:
                self.element.add(each)
        elif kind == "object":
            names = [name for name, _ in value]
            if len(set(names)) < len(names):
                self.twice |= {name for name, count in Counter(names).items() if count > 1}
            for name, each in value:
                if name not in self.members:
                    self.members[name] = SeenValues()
                self.members[name].add(each)

    def merge(self, other: SeenValues) -> None:
        """Add the statistics of another field."""
        self.kinds.update(other.kinds)
        self.numbers.merge(other.numbers)
        self.texts.update(other.texts)
        self.twice |= other.twice
        if other.element is not None:
            self.element = self.element or SeenValues()
            self.element.merge(other.element)
        for name, each in other.members.items():
            if name not in self.members:
                self.members[name] = SeenValues()
            self.members[name].merge(each)


def seen_in(documents: Iterable[Any]) -> SeenValues:
    """The statistics of documents (`etl.decoding.formats.documents`)."""
    seen = SeenValues()
    for document in documents:
        seen.add(document)
    return seen


def _kind(value: Any) -> Kind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case Whole():
            return "integer"
        case Fraction():
            return "fraction"
        case str():
            return "string"
        case Members():
            return "object"
        case _:
            return "array"


@cache
def _formats() -> tuple[Format, Format]:
    return timestamp_format("iso8601", None, ""), date_format("iso8601", "")


def _texts(text: str) -> list[str]:
    """The types other than string that a text could have."""
    if not 10 <= len(text) <= 40 or not text[:1].isdecimal():
        return []
    instant, date = _formats()
    if isinstance(days_of(text, date), int):
        return ["date"]
    micros = micros_of(text, instant, instant=True)
    if isinstance(micros, int):
        return ["instant"]
    if micros == "fraction":
        return ["instant", "finer"]
    return ["local"] if micros == "no zone" else []
