"""The job file's `decode:` section: which typed columns keys and values become (docs/guides/decoding.md)."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    model_validator,
)

from kseg.etl.config.at_most import AtMost, NumberOrShare, at_most
from kseg.etl.config.continuation import AsPlanned, AtContinuation
from kseg.etl.config.faults import Finding
from kseg.etl.config.marks import DecidesRowsIfGiven, NotHashed
from kseg.etl.config.values import (
    InSchema,
    Loose,
    PlainPath,
    RouteName,
    Section,
    Text,
    absolute,
    exactly_one,
    fault,
    fields_by_key,
    not_empty,
    not_empty_map,
    unique,
)
from kseg.etl.decoding.formats.registry import FORMATS, PayloadFormat
from kseg.etl.decoding.rules import DecodingRules

KafkaColumn = Literal["key", "value", "timestamp", "timestampType", "headers"]
"""Kafka's own columns that `keep` may name; rows have them as `_kseg_…`."""

if TYPE_CHECKING:
    Format = str
else:
    Format = Literal[tuple(FORMATS)]
Subjects = Annotated[
    tuple[Text, ...], Loose, AfterValidator(not_empty), AfterValidator(unique), InSchema(minItems=1, uniqueItems=True)
]
Fields = Annotated[dict[Text, Text], BeforeValidator(not_empty_map)]


class PayloadSchema(Section):
    """What is declared of a payload: exactly one of columns and file is set.

    columns: Spark's DDL types by name, for JSON. file: a schema of the format: an Avro schema (avsc), a Protobuf schema
    (proto) or its descriptors (desc, pb, binpb), a JSON Schema, or a schema of Connect's. `text` is its content (of
    Protobuf its descriptors in base64), which is pinned with the job: a run that is taken up decodes as its first
    attempt did, whatever the file is by then.
    """

    model_config = exactly_one("columns", "file")

    columns: DecidesRowsIfGiven[Fields | None] = None
    file: NotHashed[AsPlanned[PlainPath | None]] = None
    text: DecidesRowsIfGiven[str | None] = Field(default=None, json_schema_extra={"readOnly": True})

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, dict) and isinstance(value.get("file"), str) and value.get("text") is None:
            folder = (info.context or {}).get("folder") or Path.cwd()
            place = absolute(value["file"], info)
            return {**value, "text": _schema_text(Path(place), Path(folder))}
        return value


_DESCRIPTORS = (".desc", ".pb", ".binpb", ".protoset")


def _schema_text(place: Path, folder: Path) -> str:
    """The content of a schema's file; of Protobuf its descriptors in base64."""
    try:
        if place.suffix == ".proto":
            from kseg.segment_reader.payload.errors import PayloadSchemaError
            from kseg.segment_reader.payload.protobuf.compiler import compile_file

            place.read_text("utf-8")
            try:
                return base64.b64encode(compile_file(place, folder)).decode()
            except PayloadSchemaError as error:
                raise fault(f"cannot compile {place}: {error}", "correct the schema") from None
        if place.suffix in _DESCRIPTORS:
            return base64.b64encode(place.read_bytes()).decode()
        return place.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8"
        raise fault(f"cannot read {place}: {reason}", "the path of a schema, beside the job file") from None


def _schema_form(value: Any) -> str:
    return "<name>" if value == "registry" else "<declared>"


def _schema_shape(value: Any) -> Any:
    if isinstance(value, str) and value != "registry":
        raise fault("is no schema", "write `registry`, `{file: orders.avsc}` or `{columns: {id: bigint, …}}`")
    return value


AnySchema = Annotated[
    Annotated[Literal["registry"], Tag("<name>")] | Annotated[PayloadSchema, Tag("<declared>")],
    Discriminator(_schema_form),
    BeforeValidator(_schema_shape),
]
"""`registry`, or a `PayloadSchema`."""


class Payload(Section):
    """How keys or values are decoded.

    as: the column of a value that is no record. schema: what JSON, Avro and Protobuf need. frame: whose serializer
    wrote what is before a payload. ids: which of Apicurio's ids are in it; None: those that its API in Confluent's form
    has. envelope: what is around a record, whose columns are then those of the row that it is about. unavailable: of an
    envelope, what values are that the connector did not have; None is by the rules of decoding. into: records become
    columns of the table, or one struct column. rename: fields to other column names. subject, defaults and max_columns:
    of schemas in a registry. unknown_fields: None is `add` with a registry, else `ignore`. message: of Protobuf, which
    message it is. nanoseconds and out_of_range_times: of Protobuf, JSON and Avro, what times are below a microsecond,
    and outside of the years 1 to 9999. The rest is for JSON alone.
    """

    model_config = ConfigDict(populate_by_name=True)

    format: DecidesRowsIfGiven[Format]
    as_: DecidesRowsIfGiven[Text | None] = Field(default=None, alias="as")
    schema_: DecidesRowsIfGiven[AnySchema | None] = Field(default=None, alias="schema")
    frame: DecidesRowsIfGiven[Literal["confluent", "apicurio", "glue"]] = "confluent"
    ids: DecidesRowsIfGiven[Literal["content", "global"] | None] = None
    envelope: DecidesRowsIfGiven[Literal["none", "debezium"]] = "none"
    unavailable: DecidesRowsIfGiven[Literal["null", "text", "mark"] | None] = None
    into: DecidesRowsIfGiven[Literal["columns", "struct"]] = "columns"
    rename: DecidesRowsIfGiven[dict[Text, Text]] = Field(default_factory=dict)
    tombstones: DecidesRowsIfGiven[Literal["keep", "drop"]] = "keep"
    subject: NotHashed[AsPlanned[Text | Subjects | None]] = None
    unknown_fields: DecidesRowsIfGiven[Literal["ignore", "rescue", "add"] | None] = None
    defaults: DecidesRowsIfGiven[Literal["none", "fill"]] = "none"
    max_columns: NotHashed[AtContinuation[Annotated[int, Field(ge=1, le=100_000)]]] = 1000
    message: DecidesRowsIfGiven[Text | None] = None
    nanoseconds: DecidesRowsIfGiven[Literal["fail", "truncate"]] = "fail"
    out_of_range_times: DecidesRowsIfGiven[Literal["fail", "set_null"]] = "fail"
    timestamp_format: DecidesRowsIfGiven[Text | None] = None
    date_format: DecidesRowsIfGiven[Text | None] = None
    formats: DecidesRowsIfGiven[dict[Text, Text]] = Field(default_factory=dict)
    time_zone: DecidesRowsIfGiven[Text | None] = None

    @property
    def form(self) -> PayloadFormat:
        return FORMATS[self.format]

    @property
    def by_registry(self) -> bool:
        """Whether its schemas are in a schema registry."""
        return self.schema_ == "registry"

    @property
    def declared(self) -> PayloadSchema:
        """What the job file itself says of its schema."""
        return self.schema_ if isinstance(self.schema_, PayloadSchema) else PayloadSchema()

    @property
    def unknown(self) -> Literal["ignore", "rescue", "add"]:
        """What becomes of fields that the table does not have."""
        return self.unknown_fields or ("add" if self.by_registry else "ignore")

    def unavailable_by(self, rules: DecodingRules) -> Literal["null", "text", "mark"] | None:
        """What values are that the connector did not have, by these rules; None is as they are written."""
        marks = self.envelope == "debezium" and rules.marks_unavailable
        return self.unavailable or ("mark" if marks else None)

    @property
    def several(self) -> bool:
        """Whether records of several subjects are rows of one table, whatever they are called."""
        return isinstance(self.subject, tuple)

    def subject_templates(self, source: str) -> tuple[str, ...]:
        """Subjects in which `{topic}` is the topic's name: as Confluent's TopicNameStrategy, or AWS' serializers, name
        them if none is given."""
        if isinstance(self.subject, tuple):
            return self.subject
        return (self.subject or ("{topic}" if self.frame == "glue" else f"{{topic}}-{source}"),)

    def subjects_of(self, topic: str, source: str) -> tuple[str, ...]:
        """The registry's subjects that have the schemas of a topic's keys or values."""
        return tuple(one.replace("{topic}", topic) for one in self.subject_templates(source))


def _expect(value: Any) -> Any:
    from kseg.etl.decoding.expectations import FORMS, parse_expectation  # loads Arrow

    if not isinstance(value, Mapping):
        raise fault("is no map of columns to conditions", '{amount: ">= 0", id: not null}')
    conditions: dict[str, str | tuple[str, ...]] = {}
    for column, condition in value.items():
        if column == "else":
            if condition != "warn":
                raise fault(f"says `else: {condition}`", "`else: warn`, or leave it out: `on_error` says what happens")
            conditions["else"] = condition
            continue
        if not isinstance(condition, str | list | tuple):
            raise fault(f"of {column} is no condition", FORMS)
        try:
            parsed = parse_expectation(str(column), condition)
        except ValueError as error:
            raise fault(f"of {column} {error}", FORMS) from None
        conditions[str(column)] = condition if isinstance(condition, str) else parsed.literals
    return conditions


class Decode(Section):
    """Typed columns in place of bytes. keep: Kafka's own columns to land as well, as `_kseg_…`. on_error: what becomes
    of a record that cannot be decoded. max_nulled: how many records of a run may have nulls by `on_error: set_null`.
    expect: conditions on decoded columns, by name; `else: warn` among them counts
    what breaks one, and lands it."""

    key: DecidesRowsIfGiven[Payload | None] = None
    value: DecidesRowsIfGiven[Payload | None] = None
    keep: DecidesRowsIfGiven[Annotated[tuple[KafkaColumn, ...], Loose, AfterValidator(unique)]] = ()
    on_error: DecidesRowsIfGiven[Literal["fail", "set_null", "dead_letter"]] = "fail"
    max_nulled: NotHashed[AtContinuation[NumberOrShare]] = "1%"
    expect: DecidesRowsIfGiven[Annotated[dict[str, str | tuple[str, ...]], BeforeValidator(_expect)]] = Field(
        default_factory=dict
    )
    # Of lists in `expect` whose text in the file is another than YAML's values: never written by users (`literals`).
    expect_texts: DecidesRowsIfGiven[dict[str, Annotated[tuple[str, ...], Loose]]] = Field(
        default_factory=dict, json_schema_extra={"readOnly": True}
    )

    def expectations(self, rules: DecodingRules) -> dict[str, str | tuple[str, ...]]:
        """The conditions by column, with their literals as these rules read them; and `else`."""
        return {**self.expect, **(self.expect_texts if rules.literals_by_source_text else {})}

    @property
    def uses_headers(self) -> bool:
        """Whether rows depend on records' headers: they land, or may name the schema of a payload."""
        return "headers" in self.keep or any(payload.by_registry for payload in self.payloads)

    @property
    def payloads(self) -> tuple[Payload, ...]:
        """Those of keys and values that are decoded."""
        return tuple(payload for payload in (self.key, self.value) if payload is not None)

    @property
    def most_nulled(self) -> AtMost:
        return at_most(self.max_nulled)


def decodes_by_topic(section: Mapping[Any, Any]) -> bool:
    """Whether the section as written has topics as its keys, not words of the plain form, or such words misspelt."""
    known = fields_by_key(Decode).keys()
    return bool(section) and all(
        str(key) not in known and (isinstance(part, Decode) or (isinstance(part, Mapping) and "format" not in part))
        for key, part in section.items()
    )


def _form(value: Any) -> str:
    by_topic = isinstance(value, Mapping) and decodes_by_topic(value)
    return "<topics>" if by_topic else "<plain>"


DecodeByTopic = dict[RouteName, Decode]
AnyDecode = Annotated[
    Annotated[Decode, Tag("<plain>")] | Annotated[DecodeByTopic, Tag("<topics>")],
    Discriminator(_form),
]
"""What the section says of all topics, or of each: `{orders: {value: …}, "*": {value: …}}`."""


def sections_of(decode: Decode | Mapping[str, Decode]) -> Mapping[tuple[str, ...], Decode]:
    """The section's parts by their paths in the job file."""
    if isinstance(decode, Mapping):
        return {("decode", topic): section for topic, section in decode.items()}
    return {("decode",): decode}


_OF_TEXT = ("timestamp_format", "date_format", "formats", "time_zone")
_OF_DECLARED = ("formats",)
_OF_SOME = ("message", "nanoseconds", "out_of_range_times")
_EXAMPLES = {"columns": "{columns: {id: bigint, …}}", "registry": "registry"}
_OF_REGISTRIES = ("subject", "defaults", "max_columns")


def decode_findings(decode: Decode | Mapping[str, Decode], *, registry: str) -> Iterator[Finding]:
    """What must hold between the keys that are given. registry: the type of the job file's registry; empty: none."""
    for place, section in sections_of(decode).items():
        if section.key is None and section.value is None:
            yield Finding(place, "decodes nothing", "give `key:`, `value:` or both")
        if section.on_error != "set_null":
            yield from _without_meaning(section, place, ("max_nulled",), f"on_error: {section.on_error}")
        if section.on_error == "set_null" and "else" not in section.expect:
            yield from _without_effect(section, place)
        for name in ("key", "value"):
            payload = getattr(section, name)
            if payload is None:
                continue
            yield from _payload_findings(payload, (*place, name), registry)
            if payload.by_registry and payload.form.in_registry is not None and not registry:
                remedy = f"add `registry: {{{'type: glue' if payload.frame == 'glue' else 'url: https://host:8081'}}}`"
                yield Finding((*place, name, "schema"), "needs a schema registry", remedy)


def _without_effect(section: Decode, place: tuple[str, ...]) -> Iterator[Finding]:
    """Expectations that `on_error: set_null` would answer with the null that breaks them."""
    from kseg.etl.decoding.expectations import parse_expectation  # loads Arrow

    for column, condition in section.expect.items():
        if parse_expectation(column, condition).test == "not null":
            why = "not null has no effect with on_error: set_null, which puts a null in place of what breaks it"
            yield Finding((*place, "expect", column), why, "set on_error to fail or dead_letter, or add `else: warn`")


def _example(schema: str, form: PayloadFormat) -> str:
    """How a form of `schema` is written for a format."""
    return _EXAMPLES.get(schema) or f"{{file: orders{form.suffix or '.json'}}}"


def _frame_findings(payload: Payload, place: tuple[str, ...], registry: str) -> Iterator[Finding]:
    if payload.frame != "confluent" and payload.form.indexed:
        names = {"apicurio": "Apicurio writes the message's name", "glue": "AWS Glue writes the message's number"}
        yield Finding(place, f"is not possible for Protobuf: {names[payload.frame]} in its own form", "remove it")
    elif payload.frame == "apicurio" and not payload.by_registry and payload.schema_ is not None:
        yield Finding(place, "is apicurio, whose ids are those of a registry", "write `schema: registry`")
    elif payload.frame == "glue" and payload.by_registry and registry not in ("", "glue"):
        remedy = "write `registry: {type: glue}`, or give the schema as `schema: {file: …}`"
        yield Finding(place, "is glue, and `registry:` is another one", remedy)
    elif payload.frame != "glue" and payload.by_registry and registry == "glue":
        yield Finding(place, f"is {payload.frame}, and `registry:` is AWS Glue's", "write `frame: glue`")


def _payload_findings(payload: Payload, place: tuple[str, ...], registry: str) -> Iterator[Finding]:
    schema, form = payload.schema_, payload.form
    yield from _without_meaning(payload, place, [key for key in _OF_SOME if key not in form.options])
    if not form.schemas:
        yield from _without_meaning(
            payload,
            place,
            ("schema", "frame", "ids", "envelope", "unavailable", "into", "rename", "unknown_fields", *_OF_TEXT),
        )
        yield from _without_meaning(payload, place, _OF_REGISTRIES)
        return
    if schema is None:
        yield Finding((*place, "schema"), "is missing", f"write `schema: {_example(form.schemas[0], form)}`")
    elif not payload.by_registry and (payload.declared.columns is None) == (payload.declared.file is None):
        yield Finding((*place, "schema"), "is not exactly one of columns and file", "keep one of them")
    elif _schema_given(payload) not in form.schemas:
        remedy = " or ".join(f"`schema: {_example(one, form)}`" for one in form.schemas)
        yield Finding((*place, "schema"), f"is none of {payload.format}", f"write {remedy}")
    yield from _frame_findings(payload, (*place, "frame"), registry)
    if payload.envelope != "none" and place[-1] == "key":
        yield Finding((*place, "envelope"), "is around values", "remove it")
    if payload.envelope == "none":
        yield from _without_meaning(payload, place, ("unavailable",), "records without an envelope")
    if not payload.by_registry:
        yield from _without_meaning(payload, place, ("ids", *_OF_REGISTRIES), "a schema that is in no registry")
    else:
        if payload.frame == "glue":
            yield from _without_meaning(payload, place, ("ids",), "frame: glue")
        if form.in_registry is None or not form.in_registry.fills:
            yield from _without_meaning(payload, place, ("defaults",), f"{payload.format} of a registry")
        declared = [key for key in _OF_DECLARED if key in form.options]
        yield from _without_meaning(payload, place, declared, f"{payload.format} of a registry")
    if payload.several and form.indexed:
        yield from _messages_findings(payload, place)
    if payload.several and payload.defaults == "fill":
        message = "is not possible with several subjects: a record lacks the fields of all other kinds"
        yield Finding((*place, "defaults"), message, "remove it, or give `subject` one name, as text")
    if payload.unknown_fields is not None and payload.unknown_fields not in (allowed := _unknown_fields(payload)):
        remedy = f"write {' or '.join(allowed)}" if allowed else "remove it: all fields of the schema become columns"
        yield Finding((*place, "unknown_fields"), f"{payload.unknown_fields} is not possible here", remedy)
    if payload.as_ is not None and payload.into == "columns":
        yield Finding((*place, "as"), "names no column where fields become columns", "write `into: struct`")
    yield from _without_meaning(payload, place, [key for key in _OF_TEXT if key not in form.options])


def _messages_findings(payload: Payload, place: tuple[str, ...]) -> Iterator[Finding]:
    """Faults of topics with several kinds of messages, which differ by message name and need a table each."""
    if place[-1] == "key":
        message = "has several subjects, and keys of several messages have no columns in common"
        yield Finding((*place, "subject"), message, "give keys one subject")
        return
    if payload.message is not None:
        message = "names one message, and with several subjects the routes name the messages"
        yield Finding((*place, "message"), message, "remove it, or give `subject` one name, as text")
    for name, usual in (("into", "columns"), ("envelope", "none")):
        if getattr(payload, name) != usual:
            message = "is not possible with messages of several subjects, each of which has columns of its own"
            yield Finding((*place, name), message, "remove it, or give `subject` one name, as text")


def _unknown_fields(payload: Payload) -> tuple[str, ...]:
    """What `unknown_fields` may say."""
    if not payload.by_registry:
        return payload.form.unknown_fields
    return ("add", "ignore", "rescue")


def _schema_given(payload: Payload) -> str:
    if payload.by_registry:
        return "registry"
    return "columns" if payload.declared.columns is not None else "file"


def _without_meaning(
    payload: Section, place: tuple[str, ...], keys: Sequence[str], of: str | None = None
) -> Iterator[Finding]:
    for key in keys:
        name = "schema_" if key == "schema" else key
        # A pinned job has all defaults written out.
        if getattr(payload, name) != type(payload).model_fields[name].get_default(call_default_factory=True):
            meant = of or getattr(payload, "format", None)
            yield Finding((*place, key), f"has no meaning for {meant}", "remove it")
