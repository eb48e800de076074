"""`sink.route_by`: what of a record decides into which table of `sink.routes` its row lands."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, get_args
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator

from kseg.etl.config.values import InSchema, Text, fault, not_empty_map
from kseg.etl.config.written_numbers import NOT_DECIMAL, WrittenInt, key_as_read
from kseg.segment_reader.payload.schema_names import without_kind

RouteKind = Literal["topic", "schema", "header", "key", "value"]
"""The part of a record that routes it: its topic, the value's schema, a header, or a field of its key or value."""

BY_TOPIC: Final = "topic"
_ALONE: Final = ("topic", "schema")
_FORMS: Final = "one of topic, schema, header.NAME, key.FIELD and value.FIELD"


class RouteBy(NamedTuple):
    """kind, and of a header, key or value the name of the header or field; else empty."""

    kind: RouteKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}.{self.name}" if self.name else self.kind

    @property
    def of_payload(self) -> bool:
        """Whether keys or values have to be decoded for it."""
        return self.kind in ("key", "value")


def names_records(route: str) -> bool:
    """Whether a route of `route_by: schema` is named after records, and not after one schema or all others."""
    try:
        UUID(route)
    except ValueError:
        return route != "*" and not without_kind(route).lstrip("-").isdigit()
    return False


def parse_route_by(text: str) -> RouteBy:
    """Raises ValueError."""
    kind, dot, name = text.partition(".")
    if text in _ALONE or (dot and name and kind in get_args(RouteKind) and kind not in _ALONE):
        return RouteBy(kind, name)  # type: ignore[arg-type]
    raise ValueError(f"{text[:100]!r} is nothing to route rows by")


def _route_by(text: str) -> str:
    try:
        parse_route_by(text)
    except ValueError as error:
        raise fault(str(error), _FORMS) from None
    return text


def _value_of(key: Any) -> Any:
    """The value that a key names: text, or the digits of a number. A field's values, and ids of schemas, are often
    numbers."""
    read = key_as_read(key)
    if isinstance(read, bool):
        raise fault("is true or false without quotes", 'write "true" or "false" in quotes')
    if isinstance(read, WrittenInt) and not read.is_decimal:
        raise fault(*NOT_DECIMAL)
    return _digits(read)


def _digits(read: Any) -> Any:
    return str(int(read)) if isinstance(read, int) and not isinstance(read, bool) else read


def _one_route_a_value(value: Any) -> Any:
    value = not_empty_map(value)
    if isinstance(value, dict) and len({_digits(key_as_read(key)) for key in value}) != len(value):
        raise fault("has two routes for one value", "a number and the same as text are one value: keep one of them")
    return value


RouteByText = Annotated[
    Text,
    AfterValidator(_route_by),
    InSchema(pattern=r"^(?:topic|schema|(?:header|key|value)\..+)$"),
]
Routed = Annotated[Text, BeforeValidator(_value_of)]
"""A key of `sink.routes`."""

RouteKeys = BeforeValidator(_one_route_a_value)
"""Validates the mapping `sink.routes`."""
