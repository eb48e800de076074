"""Types as Spark's DDL writes them -> Arrow types: `bigint`, `decimal(10,2)`, `array<struct<id: bigint>>`.

    type    primitive | decimal[(p[,s])] | array<type> | map<string,type> | struct<[field{,field}]>
    field   name[:] type         a name is letters, digits and _, or anything in backquotes (a backquote is doubled)

All columns, fields, elements and values are nullable. Names keep their case; the words of types have none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from kseg.segment_reader.payload.errors import InvalidSchema

PRIMITIVES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ltz": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
DECIMALS = ("decimal", "dec", "numeric")
MOST_DIGITS = 38
DEEPEST = 100

_TOKEN = re.compile(r"\s*(?:(?P<word>[A-Za-z0-9_]+)|`(?P<quoted>(?:[^`]|``)*)`|(?P<sign>[^\s\w`]))", re.ASCII)


def parse_columns(columns: Mapping[str, str]) -> pa.StructType:
    """The columns of a job file, name -> DDL type. Raises InvalidSchema, which names the column and the position."""
    return pa.struct([pa.field(name, parse_type(text, name)) for name, text in columns.items()])


def parse_type(text: str, column: str = "") -> pa.DataType:
    """One DDL type. column: named in errors. Raises InvalidSchema."""
    return _Parser(text, column).whole()


def quoted(name: str) -> str:
    """A field's name as paths and DDL write it: in backquotes unless it is letters, digits and _."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else "`" + name.replace("`", "``") + "`"


_NAMES = {kind: name for name, kind in reversed(PRIMITIVES.items())}


def type_text(kind: pa.DataType) -> str:
    """A column's type as Spark's DDL writes it: `parse_type` reads it again, but for maps whose keys are no strings.

    Raises ValueError for a type that Spark does not have.
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{quoted(child.name)}: {type_text(child.type)}' for child in kind)}>"
    raise ValueError(f"Spark's DDL has no name for {kind}")


def type_name(kind: pa.DataType) -> str:
    """A type for messages: as `type_text`, or as Arrow calls it, where Spark does not have it."""
    try:
        return type_text(kind)
    except ValueError:
        return str(kind)


class _Parser:
    def __init__(self, text: str, column: str) -> None:
        self._text, self._column = text, column
        self._at = 0  # where the current token begins
        self._next = 0
        self._word = self._sign = ""
        self._name: str | None = None
        self._advance()

    def whole(self) -> pa.DataType:
        result = self._type(1)
        if self._word or self._sign or self._name is not None:
            raise self._error(f"{self._shown()} follows the type")
        return result

    def _advance(self) -> None:
        self._word = self._sign = ""
        self._name = None
        rest = self._text[self._next :]
        self._at = self._next + len(rest) - len(rest.lstrip())
        match = _TOKEN.match(self._text, self._next)
        if match is None:
            self._next = len(self._text)
            if rest.strip():
                raise self._error(
                    "a backquoted name without its end" if rest.lstrip()[0] == "`" else "no type begins here"
                )
            return
        self._next = match.end()
        if match["quoted"] is not None:
            self._name = match["quoted"].replace("``", "`")
        else:
            self._word, self._sign = match["word"] or "", match["sign"] or ""

    def _error(self, reason: str, at: int | None = None) -> InvalidSchema:
        column = f"column {self._column}, " if self._column else ""
        position = (self._at if at is None else at) + 1
        return InvalidSchema(f"{column}character {position} of {self._text!r}", reason)

    def _shown(self) -> str:
        if self._name is not None:
            return f"`{self._name}`"
        return repr(self._word or self._sign) if self._word or self._sign else "the end"

    def _expect(self, sign: str, what: str) -> None:
        if self._sign != sign:
            raise self._error(f"{sign!r} expected {what}, not {self._shown()}")
        self._advance()

    def _type(self, depth: int) -> pa.DataType:
        at, word = self._at, self._word.lower()
        if depth > DEEPEST:
            raise self._error(f"types are nested more than {DEEPEST} deep")
        if not word:
            raise self._error(f"a type expected, not {self._shown()}")
        self._advance()
        if word in PRIMITIVES:
            return PRIMITIVES[word]
        if word in DECIMALS:
            return self._decimal(at)
        if word == "array":
            self._expect("<", "after array")
            element = self._type(depth + 1)
            self._expect(">", "after the element's type")
            return pa.list_(element)
        if word == "map":
            return self._map(depth)
        if word == "struct":
            return self._struct(depth)
        if word in ("varchar", "char"):
            raise self._error(f"{word} is no type of columns here: write string", at)
        known = ", ".join([*PRIMITIVES, "decimal(p,s), array<…>, map<string,…>, struct<…>"])
        raise self._error(f"unknown type {word!r}; known are {known}", at)

    def _decimal(self, at: int) -> pa.DataType:
        if self._sign != "(":
            return pa.decimal128(10, 0)
        self._advance()
        precision, scale = self._number(), 0
        if self._sign == ",":
            self._advance()
            scale = self._number()
        self._expect(")", "after precision and scale")
        if not 1 <= precision <= MOST_DIGITS:
            raise self._error(f"precision {precision} is not in 1 … {MOST_DIGITS}", at)
        if scale > precision:
            raise self._error(f"scale {scale} is larger than precision {precision}", at)
        return pa.decimal128(precision, scale)

    def _number(self) -> int:
        if not self._word.isdecimal() or len(self._word) > 4:
            raise self._error(f"a number expected, not {self._shown()}")
        number = int(self._word)
        self._advance()
        return number

    def _map(self, depth: int) -> pa.DataType:
        self._expect("<", "after map")
        at = self._at
        key = self._type(depth + 1)
        if not pa.types.is_string(key):
            raise self._error("a map's key must be string", at)
        self._expect(",", "after the key's type")
        value = self._type(depth + 1)
        self._expect(">", "after the value's type")
        return pa.map_(key, value)

    def _struct(self, depth: int) -> pa.DataType:
        self._expect("<", "after struct")
        fields: dict[str, pa.DataType] = {}
        while self._sign != ">" or fields:
            at = self._at
            name = self._word if self._name is None else self._name
            if not name:
                raise self._error(f"a field's name expected, not {self._shown()}")
            if name in fields:
                raise self._error(f"field {quoted(name)} is declared twice", at)
            self._advance()
            if self._sign == ":":
                self._advance()
            fields[name] = self._type(depth + 1)
            if self._word.lower() in ("not", "comment", "default"):
                raise self._error("a field is its name and its type; all fields are nullable: leave the rest out")
            if self._sign != ",":
                break
            self._advance()
        self._expect(">", "after the fields")
        return pa.struct([pa.field(name, kind) for name, kind in fields.items()])
