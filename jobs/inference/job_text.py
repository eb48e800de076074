"""The commented job file for the recognised formats of a sample. It is built as text: half of it is comments."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import yaml

from kseg.etl.decoding.formats.registry import FORMATS, of_registry_type
from kseg.etl.errors import listed
from kseg.jobs.inference.json_types import InferredColumn
from kseg.jobs.inference.payloads import FRAMED, Recognised, plain_format, words_of

_PLAIN: Final = re.compile(r"[A-Za-z_]([A-Za-z0-9._-]*[A-Za-z0-9_])?")
_WORDS_OF_YAML: Final = frozenset(["y", "n", "yes", "no", "true", "false", "on", "off", "null"])
_LIKE_A_JOB_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
_COMMENTS_AT: Final = 44


@dataclass(frozen=True)
class DraftedPayload:
    """Keys or values. schema_type: of framed payloads in the registry: AVRO, PROTOBUF, JSON; None: not known. finer:
    number of framed documents with times that have digits below a microsecond."""

    recognised: Recognised
    columns: Sequence[InferredColumn] = ()
    schema_type: str | None = None
    finer: int = 0

    @property
    def finer_times(self) -> int:
        return self.finer + sum(column.finer for column in self.columns)

    @property
    def others(self) -> int:
        """Number of sampled payloads that the job cannot decode, because they are of another format."""
        decoded = any(column.type is not None for column in self.columns) or self.schema_type is not None
        return self.recognised.others if decoded else 0


@dataclass(frozen=True)
class JobDraft:
    """The content of the job file. kafka, registry: client properties; secrets are references."""

    topic: str
    kafka: Mapping[str, str]
    table: str
    registry: Mapping[str, str] | None
    key: DraftedPayload
    value: DraftedPayload
    records: int
    offsets: int
    partitions: int
    partition_by: tuple[str, ...] = ()


def uses_registry(draft: JobDraft) -> bool:
    """Whether the job decodes with the registry's schemas."""
    return draft.registry is not None and any("schema: registry" in line for line in _decode(draft))


def job_name(topic: str) -> str:
    """A valid job name for a topic."""
    name = _LIKE_A_JOB_NAME.sub("-", topic).lstrip("._-")[:100]
    return name or "job"


def job_text(draft: JobDraft) -> str:
    """The whole file."""
    name = job_name(draft.topic)
    lines = [
        f"# Made by `kseg init` from {draft.records:,} of about {draft.offsets:,} records "
        f"in {draft.partitions} partition(s) of the topic {draft.topic}.",
        "# Counts in comments are of these records. Read it, correct it, then: kseg plan, kseg ingest.",
        "version: 1",
        f"name: {_scalar(name)}",
        "kafka:",
        *(f"  {_scalar(key)}: {_text(value)}" for key, value in draft.kafka.items()),
        "source:",
        f"  topics: [{_text(draft.topic)}]",
    ]
    if uses_registry(draft):
        assert draft.registry is not None
        lines += ["registry:", *(f"  {_scalar(name)}: {_text(value)}" for name, value in draft.registry.items())]
    lines += _decode(draft)
    lines += [
        "sink:",
        f"  path: {_text(draft.table)}",
        *([f"  partition_by: [{', '.join(map(_text, draft.partition_by))}]"] if draft.partition_by else []),
        *_most_dead_letters(draft.value),
        f"group: {_text(name + '-etl')}",
        f"ledger: {_text(_beside(draft.table))}",
        "run:",
        _commented("  engine: auto", "runs with little to read need no Spark"),
    ]
    return "\n".join(lines) + "\n"


def _decode(draft: JobDraft) -> list[str]:
    """The `decode:` section; a comment instead if all keys and values are null."""
    taken = {column.column.lower() for column in draft.value.columns if column.type is not None}
    key = _primitive("key", draft.key, taken)
    value = _value(draft.value, taken)
    if not key and not value:
        return ["# Keys and values land as bytes: all of those in the sample are null.", *_why_value(draft.value)]
    kept = [] if value else _why_value(draft.value)
    return ["decode:", *key, *value, *kept, "  keep: [timestamp]", *_set_aside(draft.value)]


def _set_aside(payload: DraftedPayload) -> list[str]:
    """The lines for values of another format."""
    return [_commented("  on_error: dead_letter", _mixed(payload.recognised))] if payload.others else []


def _most_dead_letters(payload: DraftedPayload) -> list[str]:
    """The limit of dead letters in a run: twice their share in the sample."""
    if not payload.others:
        return []
    share = min(100, -(-200 * payload.others // payload.recognised.count))
    return [_commented(f"  dead_letters: {{max: {share}%}}", "a run with more of them is refused")]


def _why_value(payload: DraftedPayload) -> list[str]:
    found = payload.recognised
    if found.format == FRAMED:
        return ["# Values are framed by a schema registry: `kseg init --registry URL` decodes them."]
    if found.mixed and not payload.others:
        return [f"# Values are of several formats: {_mixed(found)}."]
    return []


def _mixed(found: Recognised) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in found.mixed)


def _value(payload: DraftedPayload, taken: set[str]) -> list[str]:
    if any(column.type is not None for column in payload.columns):
        return _documents(payload)
    return _primitive("value", payload, taken)


def _primitive(source: str, payload: DraftedPayload, taken: set[str]) -> list[str]:
    """The lines for a key or value that is not a document; none if all are null."""
    found = payload.recognised
    if found.format == "none":
        return []
    if found.format == FRAMED and payload.schema_type is not None:
        ids = listed(found.schemas, most=5)
        return [
            _commented(f"  {source}:", f"{found.count - found.others:,} framed by the registry, schemas {ids}"),
            f"    format: {of_registry_type(payload.schema_type)[0].name}",
            "    schema: registry",
            *([] if source == "value" else ["    into: struct"]),
            *_finer(payload),
        ]
    form = plain_format(found.format)
    column = next(name for name in _names(source) if name not in taken)
    said = f"{found.count:,} {source}s" + (f", {found.nulls:,} null" if found.nulls else "")
    said += f"; {found.note}" if found.note else ""
    said += f"; {_mixed(found)}" if found.mixed else ""
    if found.format == FRAMED:
        said += "; framed by a registry" + (f" ({payload.schema_type})" if payload.schema_type else "")
    return [_commented(f"  {source}: {{format: {form}, as: {column}}}", said)]


def _names(source: str) -> list[str]:
    return [source, f"record_{source}", f"kafka_{source}", *(f"{source}_{number}" for number in range(2, 10_000))]


def _documents(payload: DraftedPayload) -> list[str]:
    """The lines for values whose columns are inferred."""
    found = payload.recognised
    said = f"{found.count - found.others:,} values are {words_of(found.format)}" + (
        f", {found.nulls:,} are null" if found.nulls else ""
    )
    lines = ["  value:", _commented(f"    format: {found.format}", said), "    schema:", "      columns:"]
    left = [column for column in payload.columns if column.type is None]
    lines += [
        _commented(f"        {_scalar(column.name)}: {_text(column.type)}", _counts(column, found.count - found.others))
        for column in payload.columns
        if column.type is not None
    ]
    renamed = [column for column in payload.columns if column.type is not None and column.column != column.name]
    if renamed:
        lines.append(_commented("    rename:", "names that a table cannot have"))
        lines += [f"      {_scalar(column.name)}: {_text(column.column)}" for column in renamed]
    if "nanoseconds" in FORMATS[found.format].options:
        lines += _finer(payload)
    if rescues(found.format):
        lines.append(_commented("    unknown_fields: rescue", "fields that are not declared, as JSON in _kseg_rescued"))
    if left:
        lines.append("    # Not declared:")
        lines += [
            f"    #   {shown(column.name)}: {_counts(column, found.count - found.others)}"
            for column in left[:_MOST_LEFT]
        ]
    if len(left) > _MOST_LEFT:
        lines.append(f"    #   and {len(left) - _MOST_LEFT:,} more")
    return lines


def rescues(format: str) -> bool:
    """Whether fields that are not declared land in a column of their own."""
    return "rescue" in FORMATS[format].unknown_fields


def _finer(payload: DraftedPayload) -> list[str]:
    """The line for times that no column of the table can hold exactly; none if there are none in the sample."""
    if not payload.finer_times:
        return []
    counted = f"{payload.finer_times:,} time(s) have digits below a microsecond, which are cut off; without it, errors"
    return [_commented("    nanoseconds: truncate", counted)]


_MOST_LEFT: Final = 100


def _counts(column: InferredColumn, of: int) -> str:
    said = "in all" if column.present == of else f"in {column.present:,} of {of:,}"
    said += f", null in {column.nulls:,}" if column.nulls else ""
    return said + (f"; {column.note}" if column.note else "")


def _commented(line: str, comment: str) -> str:
    return f"{line.ljust(_COMMENTS_AT)}  # {comment}"


def _beside(table: str) -> str:
    """The path of the ledger, beside the table."""
    folder, slash, _ = table.rstrip("/").rpartition("/")
    return f"{folder}{slash}_kseg_ledger"


def shown(name: str) -> str:
    """A field's name for messages: in quotes and escaped unless it is plain."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name)


def _scalar(text: str) -> str:
    """This text as a YAML key, on one line."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS_OF_YAML:
        return text
    return _quoted(text)


def _text(text: str) -> str:
    """This text as a YAML value: without quotes if YAML parses it as the same string."""
    if "\n" not in text and "#" not in text and not set(text) & set("[]{},&*!|>'\"%@`"):
        try:
            if yaml.safe_load(text) == text:
                return text
        except yaml.YAMLError:
            pass
    return _quoted(text)


def _quoted(text: str) -> str:
    return str(yaml.safe_dump(text, default_style='"', allow_unicode=True, width=float("inf"))).strip()
