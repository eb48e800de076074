"""The job file's `decode:` section: which typed columns keys and values become (docs/guides/decoding.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from kseg.etl.config.faults import Finding
from kseg.etl.config.marks import DecidesRowsIfGiven, HowItRuns
from kseg.etl.config.values import Loose, PlainPath, Section, Text, exactly_one, fault, not_empty_map, unique

KafkaColumn = Literal["key", "value", "timestamp", "timestampType", "headers"]
"""Kafka's own columns that `keep` may name; rows have them as `_kseg_…`."""

Format = Literal["bytes", "string", "short", "int", "long", "float", "double", "boolean", "uuid", "json", "avro"]
Fields = Annotated[dict[Text, Text], BeforeValidator(not_empty_map)]


class PayloadSchema(Section):
    """What is declared of a payload: exactly one of columns and file is set.

    columns: Spark's DDL types by name, for JSON. file: an Avro schema (avsc); `text` is its content, which is pinned
    with the job: a run that is taken up decodes as its first attempt did, whatever the file is by then.
    """

    model_config = exactly_one("columns", "file")

    columns: DecidesRowsIfGiven[Fields | None] = None
    file: HowItRuns[PlainPath | None] = None
    text: DecidesRowsIfGiven[str | None] = Field(default=None, json_schema_extra={"readOnly": True})

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, dict) and isinstance(value.get("file"), str) and value.get("text") is None:
            folder = (info.context or {}).get("folder") or Path.cwd()
            place = Path(folder) / value["file"]
            try:
                return {**value, "text": place.read_text("utf-8")}
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "is not UTF-8"
                raise fault(
                    f"cannot read {place}: {reason}", "the path of an Avro schema, beside the job file"
                ) from None
        return value


class Payload(Section):
    """How keys or values are decoded.

    as: the column of a value that is no record. schema: what JSON and Avro need. into: records become columns of the
    table, or one struct column. rename: fields to other column names. The rest is for JSON alone.
    """

    model_config = ConfigDict(populate_by_name=True)

    format: DecidesRowsIfGiven[Format]
    as_: DecidesRowsIfGiven[Text | None] = Field(default=None, alias="as")
    schema_: DecidesRowsIfGiven[PayloadSchema | None] = Field(default=None, alias="schema")
    into: DecidesRowsIfGiven[Literal["columns", "struct"]] = "columns"
    rename: DecidesRowsIfGiven[dict[Text, Text]] = Field(default_factory=dict)
    tombstones: DecidesRowsIfGiven[Literal["keep", "drop"]] = "keep"
    unknown_fields: DecidesRowsIfGiven[Literal["ignore", "rescue"]] = "ignore"
    timestamp_format: DecidesRowsIfGiven[Text] = "iso8601"
    date_format: DecidesRowsIfGiven[Text] = "iso8601"
    formats: DecidesRowsIfGiven[dict[Text, Text]] = Field(default_factory=dict)
    time_zone: DecidesRowsIfGiven[Text | None] = None


class Decode(Section):
    """Typed columns in place of bytes. keep: Kafka's own columns to land as well, as `_kseg_…`."""

    key: DecidesRowsIfGiven[Payload | None] = None
    value: DecidesRowsIfGiven[Payload | None] = None
    keep: DecidesRowsIfGiven[Annotated[tuple[KafkaColumn, ...], Loose, AfterValidator(unique)]] = ()


_OF_JSON = ("unknown_fields", "timestamp_format", "date_format", "formats", "time_zone")


def decode_findings(decode: Decode) -> Iterator[Finding]:
    """What must hold between the keys that are given."""
    if decode.key is None and decode.value is None:
        yield Finding(("decode",), "decodes nothing", "give `key:`, `value:` or both")
    for name in ("key", "value"):
        payload = getattr(decode, name)
        if payload is not None:
            yield from _payload_findings(payload, ("decode", name))


def _payload_findings(payload: Payload, place: tuple[str, ...]) -> Iterator[Finding]:
    schema, records = payload.schema_, payload.format in ("json", "avro")
    if not records:
        yield from _without_meaning(payload, place, ("schema", "into", "rename", *_OF_JSON))
        return
    if schema is None:
        remedy = "{columns: {id: bigint, …}}" if payload.format == "json" else "{file: orders.avsc}"
        yield Finding((*place, "schema"), "is missing", f"write `schema: {remedy}`")
    elif (payload.format == "json") != (schema.columns is not None):
        remedy = "columns" if payload.format == "json" else "file"
        yield Finding((*place, "schema"), f"is none of {payload.format}", f"give `{remedy}`")
    if payload.as_ is not None and payload.into == "columns":
        yield Finding((*place, "as"), "names no column where fields become columns", "write `into: struct`")
    if payload.format != "json":
        yield from _without_meaning(payload, place, _OF_JSON)


def _without_meaning(payload: Payload, place: tuple[str, ...], keys: Sequence[str]) -> Iterator[Finding]:
    for key in keys:
        name = "schema_" if key == "schema" else key
        # A pinned job has all defaults written out.
        if getattr(payload, name) != type(payload).model_fields[name].get_default(call_default_factory=True):
            yield Finding((*place, key), f"has no meaning for {payload.format}", "remove it")
