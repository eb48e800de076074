"""What is expected of decoded columns (`decode.expect`), evaluated on whole Arrow columns.

    amount: ">= 0"                 a comparison: = == != <> < <= > >= and a literal
    day: between 1 and 31          both ends included
    status: [placed, paid]         one of a list
    id: not null

Literals of numbers are SQL's and JSON's: neither `01` nor `+1` nor `1_0`, which YAML and Python read in several ways.

A null breaks only `not null`, as in SQL's CHECK. Rows whose key or value is null, or was not decoded, break nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.ddl import type_name

FORMS: Final = "a comparison (>= 0), between 1 and 9, a list of values, or not null"
EXPECTATION: Final = "EXPECTATION"
"""The error class of a dead letter that broke one."""

_COMPARISON: Final = re.compile(r"(==|=|!=|<>|<=|>=|<|>)\s*([^\s=<>].*)")
_BETWEEN: Final = re.compile(r"between\s+(\S.*?)\s+and\s+(\S.*)", re.IGNORECASE)
_NOT_NULL: Final = re.compile(r"not\s+null", re.IGNORECASE)
_COMPARE: Final[dict[str, Callable[..., Any]]] = {
    **{"=": pc.equal, "==": pc.equal, "!=": pc.not_equal, "<>": pc.not_equal},
    **{"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal},
}
_LONGEST_VALUE: Final = 80
_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""Booleans as YAML 1.1 writes them."""

_SPECIAL: Final = (".inf", ".nan")
"""Numbers that YAML writes in another way than other languages."""

_NUMBER: Final = re.compile(
    r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|-?\.?(inf|infinity|nan)", re.IGNORECASE | re.ASCII
)
"""A number that SQL, JSON, YAML and Python read as the same one, or not at all."""


@dataclass(frozen=True)
class Expectation:
    """One of a column. Picklable.

    test: `not null`, `between`, `in`, or an operator of a comparison. literals: as they are written.
    """

    column: str
    test: str
    literals: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        match self.test:
            case "not null":
                return "not null"
            case "between":
                return f"between {self.literals[0]} and {self.literals[1]}"
            case "in":
                return f"one of {', '.join(self.literals)}"
        return f"{self.test} {self.literals[0]}"

    def broken(self, column: pa.Array) -> npt.NDArray[np.bool_]:
        """A mask of the values that break it. Raises ValueError where its literals do not fit the column's type."""
        if self.test == "not null":
            return np.asarray(column.is_null())
        values = [literal(text, column.type) for text in self.literals]
        if self.test == "in":
            sought, among = column, pa.array(values, column.type)
            if pa.types.is_floating(column.type):  # -0.0 equals 0, but is another value of a set; the sum is 0.0
                sought, among = (pc.add(each, pa.scalar(0, column.type)) for each in (sought, among))
            holds = pc.or_kleene(pc.is_in(sought, value_set=among), column.is_null())
        elif self.test == "between":
            low, high = (pa.scalar(value, column.type) for value in values)
            holds = pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high))
        else:
            holds = _COMPARE[self.test](column, pa.scalar(values[0], column.type))
        return ~np.asarray(pc.fill_null(holds, True))

    def check(self, kind: pa.DataType, *, strict: bool = False) -> None:
        """Raises ValueError where the expectation cannot be evaluated on values of this type. strict: also where one of
        its numbers is read in several ways, or where no value is between its ends."""
        try:
            self.broken(pa.nulls(0, kind))
        except pa.ArrowException as error:
            raise ValueError(f"values of type {type_name(kind)} cannot be compared") from error
        if strict and self.test != "not null":
            values = [_one_reading(text, kind) for text in self.literals]
            if self.test == "between" and values[0] > values[1]:
                low, high = self.literals
                raise ValueError(f"no value is between {low} and {high}: write between {high} and {low}")

    def message(self, value: Any) -> str:
        """What is wrong with a value that breaks it."""
        if self.test == "not null":
            return "is null"
        shown = str(value)
        return f"{shown if len(shown) <= _LONGEST_VALUE else shown[:_LONGEST_VALUE] + '…'} is not {self.text}"


def parse_expectation(column: str, condition: str | Sequence[Any]) -> Expectation:
    """An expectation as the job file has it. Raises ValueError."""
    if not isinstance(condition, str):
        if not condition:
            raise ValueError("is an empty list")
        return Expectation(column, "in", tuple(_written(value) for value in condition))
    text = condition.strip()
    if _NOT_NULL.fullmatch(text):
        return Expectation(column, "not null")
    if found := _BETWEEN.fullmatch(text):
        return Expectation(column, "between", (_unquoted(found[1]), _unquoted(found[2])))
    if found := _COMPARISON.fullmatch(text):
        return Expectation(column, found[1], (_unquoted(found[2]),))
    raise ValueError(f"{text!r} is no condition")


def literal(text: str, kind: pa.DataType) -> Any:
    """A literal as a value of this type. Raises ValueError."""
    types = pa.types
    try:
        if types.is_boolean(kind):
            return _BOOLEANS[text.lower()]
        if types.is_integer(kind):
            value = int(text)
            pa.scalar(value, kind)
            return value
        if types.is_floating(kind):
            return float(text.replace(".", "", 1) if text.lower().lstrip("+-") in _SPECIAL else text)
        if types.is_decimal(kind):
            number = Decimal(text)
            pa.scalar(number, kind)
            return number
        if types.is_string(kind) or types.is_large_string(kind):
            return text
        if types.is_date(kind) or types.is_timestamp(kind):
            return pa.scalar(text).cast(kind).as_py()
    except (ValueError, KeyError, OverflowError, InvalidOperation, pa.ArrowException):
        raise ValueError(f"{text!r} is no {type_name(kind)}") from None
    raise ValueError(f"values of type {type_name(kind)} cannot be compared: only not null can be expected of them")


def _one_reading(text: str, kind: pa.DataType) -> Any:
    """The literal's value. Raises ValueError for a number that is not read as the same one everywhere."""
    value = literal(text, kind)
    types = pa.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if number and _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not read as the same number everywhere: write {value}")
    return value


def with_nulls(column: pa.Array, rows: npt.NDArray[np.bool_]) -> pa.Array:
    """The column with nulls in these rows."""
    return column.take(pa.array(np.arange(len(column)), mask=rows))


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _unquoted(text: str) -> str:
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text
