"""The kinds of values that a job file holds: topic names, offsets, durations, column names, functions, paths.

Each is a pydantic type that is strict about YAML's types (a number is not text, `yes` is not a number) and
reports an error in plain words with a remedy. Paths are made absolute against the validation context's `folder` (the
job file's own).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainSerializer,
    ValidationInfo,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from kseg.client.protocol.topic_names import is_topic_name
from kseg.etl.config.paths import TOPIC_PLACEHOLDER, location, normal_path
from kseg.etl.config.times import (
    DURATION_PATTERN,
    DURATION_REMEDY,
    INSTANT_PATTERN,
    INSTANT_REMEDY,
    format_duration,
    format_instant,
    in_utc,
    parse_duration,
    parse_instant,
)
from kseg.etl.config.written_numbers import NOT_DECIMAL, WrittenInt, key_as_read
from kseg.etl.places import WRITE_AS_IT_IS, has_escape, is_file_url, unusable
from kseg.etl.rows.names import ROWS_VIEW

FAULT = "kseg"
ANY_TEXT = r"\S"

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
TOPIC_NAMES: Final = "1 to 249 letters, digits, dots, dashes and underscores"
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_TABLE_PART = r"(?:\w|\{topic\})+"
_TABLE = re.compile(rf"{_TABLE_PART}(\.{_TABLE_PART}){{0,2}}")
_MAX_TRANSACTIONAL_ID = 249
_INT32, _INT64 = 2**31 - 1, 2**63 - 1

T = TypeVar("T")


class Section(BaseModel):
    """A part of the job file: frozen, strict, without unknown keys. A key without a value is a key not given.

    In mappings whose keys the user chooses (routes, columns, properties) a value is missing: an error.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        return {key: part for key, part in value.items() if part is not None} if isinstance(value, dict) else value


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a field's type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """A model's fields by their keys in the file: a key that is a word of Python's has another name here."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


class InSchema:
    """Adds to a type's JSON Schema what its own validators check; validation does not change. None takes a key away."""

    def __init__(self, **more: Any) -> None:
        self._more = more

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = {**handler(core), **self._more}
        return {key: value for key, value in schema.items() if value is not None}


class AlsoWritten:
    """Marks a text that the file may write as a value of another kind as well."""

    def __init__(self, kind: type) -> None:
        self.kind = kind


def exactly_one(*keys: str) -> ConfigDict:
    """A section's JSON Schema where one of these keys is given; `rules.py` checks it."""
    return ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": [key], "properties": {key: {"not": {"type": "null"}}}} for key in keys]
        }
    )


def fault(message: str, remedy: str) -> PydanticCustomError:
    """A validation error in our own words. Both texts are complete sentences' ends, without the value."""
    return PydanticCustomError(FAULT, "{told}", {"told": message, "remedy": remedy})


def _matching(pattern: re.Pattern[str], message: str, remedy: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise fault(message, remedy)
        return text

    return check


def _topic(name: str) -> str:
    if not is_topic_name(name):
        raise fault("is not a topic name", TOPIC_NAMES)
    return name


def version_one(value: Any) -> Any:
    if isinstance(value, bool) or value != 1:
        raise fault("is not 1", "write `version: 1`, the only version that is supported")
    return value


def _route(name: str) -> str:
    return name if name == "*" else _topic(name)


def _not_blank(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise fault("is empty or not printable", "give it a value, or leave the key out")
    return text


def _pattern(text: str) -> str:
    if not text:
        raise fault("is empty", "a regular expression, found anywhere in a topic's name")
    try:
        re.compile(text)
    except re.error as error:
        raise fault(f"is not a regular expression: {error.msg}", "it is found anywhere in a topic's name") from None
    return text


def _whole_number_key(key: Any) -> Any:
    read = key_as_read(key)
    if isinstance(read, WrittenInt) and not read.is_decimal:
        raise fault(*NOT_DECIMAL)
    return _number_of(key)


def _number_of(key: Any) -> Any:
    """The whole number that a key is, if it is one. JSON has no such keys: a pinned job's partitions are text."""
    key = key_as_read(key)
    if isinstance(key, str) and re.fullmatch(r"\d{1,10}", key):
        return int(key)
    return int(key) if isinstance(key, WrittenInt) else key


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise fault("is a number without a unit", DURATION_REMEDY)
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except ValueError as error:
        raise fault(str(error), DURATION_REMEDY) from None


def at_least(least: timedelta) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if value < least:
            raise fault(f"is shorter than {format_duration(least)}", f"{format_duration(least)} or more")
        return value

    return AfterValidator(check)


def _instant(value: Any) -> Any:
    try:
        if isinstance(value, datetime):
            return in_utc(value)
        if isinstance(value, str):
            return parse_instant(value)
    except ValueError as error:
        raise fault(str(error), INSTANT_REMEDY) from None
    raise fault("is not a time", INSTANT_REMEDY)


def _placeholders(text: str) -> str:
    if any(found != TOPIC_PLACEHOLDER for found in _PLACEHOLDER.findall(text)):
        raise fault("has a placeholder other than {topic}", "only {topic} is supported")
    return text


def absolute(text: str, info: ValidationInfo) -> str:
    """A path as `normal_path` has it, from the job file's folder. Raises a fault."""
    folder = (info.context or {}).get("folder") or Path.cwd()
    try:
        return _allowed(normal_path(text, folder), info)
    except ValueError as error:
        raise fault(str(error), "a local path, or a URL as in s3://bucket/folder") from None


def _unescaped(text: str) -> str:
    """A table's place or the ledger's as it is written: a `file:` URL has nothing encoded."""
    if is_file_url(text.strip()) and has_escape(text):
        raise fault("is a file URL with an escape", WRITE_AS_IT_IS)
    return text


def _openable(place: str, info: ValidationInfo) -> str:
    """A table's place or the ledger's, if there can be a Delta table.

    A run of an earlier release may have pinned a URL with escapes, and is finished by that name. An untrusted job file
    is not: `%2e%2e` leads out of its root.
    """
    context = info.context or {}
    may_escape = bool(context.get("pinned")) and context.get("restrictions") is None
    if (found := unusable(place, may_escape=may_escape)) is not None:
        raise fault(*found)
    return place


def _allowed(place: str, info: ValidationInfo) -> str:
    """The place, where job files are trusted or it is one for untrusted ones (`etl.config.untrusted`)."""
    restrictions = (info.context or {}).get("restrictions")
    if restrictions is not None and not restrictions.allow(place):
        raise fault(f"lies outside of {restrictions.root}", "a path within it (KSEG_UNTRUSTED_ROOT)")
    return place


def _location(text: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder") or Path.cwd()
    try:
        return _allowed(location(text, folder), info)
    except ValueError as error:
        raise fault(str(error), "a folder of log.dirs: a local path, or a URL as in s3://bucket/folder") from None


def _sql(text: str) -> str:
    if ROWS_VIEW not in text.lower():
        raise fault(f"does not read {ROWS_VIEW}", f"the view of the rows is called {ROWS_VIEW}")
    return text


def whole(pattern: re.Pattern[str]) -> str:
    """The pattern as a JSON Schema has it, which searches."""
    return f"^(?:{pattern.pattern})$"


def unique(values: tuple[T, ...]) -> tuple[T, ...]:
    if len(set(values)) != len(values):
        twice = sorted({str(v) for v in values if values.count(v) > 1})
        raise fault(f"names {', '.join(twice)} more than once", "name each once")
    return values


def not_empty_map(value: Any) -> Any:
    if isinstance(value, dict) and not value:
        raise fault("is empty", "name at least one")
    return value


def one_key_a_partition(value: Any) -> Any:
    """`{0: 5, "00": 7}` are two keys to YAML and one partition to Kafka."""
    if isinstance(value, dict) and len({_number_of(key) for key in value}) != len(value):
        raise fault("names a partition more than once", "name each partition once")
    return value


def not_empty(values: tuple[T, ...]) -> tuple[T, ...]:
    if not values:
        raise fault("is empty", "name at least one")
    return values


# A tuple is made of YAML's list although the models are strict; its items stay strict.
Loose = Field(strict=False)
NAMED_ONCE = InSchema(minItems=1, uniqueItems=True)

JobName = Annotated[
    str,
    AfterValidator(
        _matching(
            _JOB_NAME,
            "is not a job name",
            "1 to 100 letters, digits, dots, dashes and underscores, the first a letter or digit",
        )
    ),
    InSchema(pattern=whole(_JOB_NAME)),
]
Text = Annotated[str, AfterValidator(_not_blank), InSchema(pattern=ANY_TEXT)]
TransactionalId = Annotated[str, Field(max_length=_MAX_TRANSACTIONAL_ID), AfterValidator(_not_blank)]
Topic = Annotated[str, AfterValidator(_topic), InSchema(pattern=whole(_TOPIC))]
RouteName = Annotated[str, AfterValidator(_route), InSchema(pattern=rf"{whole(_TOPIC)}|^\*$")]
Topics = Annotated[tuple[Topic, ...], Loose, AfterValidator(not_empty), AfterValidator(unique), NAMED_ONCE]
TopicPattern = Annotated[str, AfterValidator(_pattern), InSchema(minLength=1)]
Partition = Annotated[int, Field(ge=0, le=_INT32)]
PartitionKey = Annotated[
    int,
    BeforeValidator(_whole_number_key),
    Field(ge=0, le=_INT32),
    InSchema(type="string", pattern=r"^\d{1,10}$", ge=None, le=None, minimum=None, maximum=None),
]
Partitions = Annotated[tuple[Partition, ...], Loose, AfterValidator(not_empty), AfterValidator(unique), NAMED_ONCE]
Offset = Annotated[int, Field(ge=0, le=_INT64)]
Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, when_used="json"),
    InSchema(format=None, pattern=DURATION_PATTERN, patternErrorMessage=DURATION_REMEDY, **{"$comment": "Duration"}),
]
Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    PlainSerializer(format_instant, when_used="json"),
    InSchema(format=None, pattern=INSTANT_PATTERN, patternErrorMessage=INSTANT_REMEDY, **{"$comment": "Instant"}),
]
Function = Annotated[
    str,
    AfterValidator(_matching(_FUNCTION, "is not module:function", 'write it as in "my_module:enrich"')),
    InSchema(pattern=whole(_FUNCTION), patternErrorMessage='write it as in "my_module:enrich"'),
]
Sql = Annotated[str, AfterValidator(_sql), InSchema(pattern="__[Rr][Oo][Ww][Ss]__")]
Column = Text
Columns = Annotated[tuple[Column, ...], Loose, AfterValidator(unique), InSchema(uniqueItems=True)]
SomeColumns = Annotated[tuple[Column, ...], Loose, AfterValidator(not_empty), AfterValidator(unique), NAMED_ONCE]
PathTemplate = Annotated[
    Text,
    AfterValidator(_placeholders),
    AfterValidator(_unescaped),
    AfterValidator(absolute),
    AfterValidator(_openable),
]
TableTemplate = Annotated[
    str,
    AfterValidator(_placeholders),
    AfterValidator(_matching(_TABLE, "is not a table name", "catalog.schema.name of letters, digits and underscores")),
    InSchema(pattern=whole(_TABLE)),
]
_WITHOUT_PLACEHOLDER = AfterValidator(
    _matching(re.compile(r"[^{}]*"), "has a placeholder", "write the path without a placeholder")
)
PlainPath = Annotated[Text, _WITHOUT_PLACEHOLDER, AfterValidator(absolute)]
TablePath = Annotated[
    Text, _WITHOUT_PLACEHOLDER, AfterValidator(_unescaped), AfterValidator(absolute), AfterValidator(_openable)
]
Location = Annotated[Text, AfterValidator(_location)]
Locations = Annotated[tuple[Location, ...], Loose, AfterValidator(not_empty), AfterValidator(unique), NAMED_ONCE]
