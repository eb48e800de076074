"""`sink.route_by`: what of a record decides into which table of `sink.routes` its row lands."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple, get_args
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator

from kseg.etl.config.values import InSchema, Text, fault, not_empty_map
from kseg.segment_reader.payload.schema_names import without_kind

RouteKind = Literal["topic", "schema", "header", "key", "value"]
"""Of what of a record: its topic, the value's schema, a header, or a field of its decoded key or value."""

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


def _text_keys(value: Any) -> Any:
    """Numbers as text: a field's values, and the ids of schemas, are often numbers."""
    value = not_empty_map(value)
    if not isinstance(value, dict):
        return value
    named = [str(key) if isinstance(key, int) and not isinstance(key, bool) else key for key in value]
    if any(isinstance(key, bool) for key in named):
        raise fault("has a route for true or false without quotes", 'write "true" or "false" in quotes')
    if len(set(named)) != len(named):
        raise fault("has two routes for one value", "a number and the same as text are one value: keep one of them")
    return dict(zip(named, value.values(), strict=True))


RouteByText = Annotated[
    Text,
    AfterValidator(_route_by),
    InSchema(pattern=r"^(?:topic|schema|(?:header|key|value)\..+)$"),
]
RouteKeys = BeforeValidator(_text_keys)
"""Validates the mapping `sink.routes`."""
