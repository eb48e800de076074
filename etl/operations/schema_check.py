"""Check a new schema before it is registered: against a subject's newest version, and against a job's tables.

    the job's format             what is compared
    schema: registry             the schema merged into the reader's schema in the ledger, as the next run would do
    avro, protobuf, json_schema  the columns with this schema in place of the file, with those of the file
    with a file

Then the columns are compared with those of existing tables. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from kseg.client.registry.schemas import Resolved
from kseg.etl.config.decoding import Decode, Payload, sections_of
from kseg.etl.config.job import Job
from kseg.etl.decoding.columns import check_names, typed_columns
from kseg.etl.decoding.formats.port import SchemaFormat
from kseg.etl.decoding.formats.registry import FORMATS, in_registry, of_registry_type, registry_type, schema_format
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.registered import differences, registered_type
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.schemas import Lineage, SchemaText
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.growing import grown
from kseg.etl.planning.kinds import kinds_of
from kseg.etl.planning.schemas import kept_schema, without_rows
from kseg.etl.planning.table_rules import next_rules
from kseg.etl.rows.types import delta_type
from kseg.etl.rows.widening import can_widen
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.align import align, type_changes
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.targets import access_at, description_at
from kseg.etl.transform.decode import decode_step
from kseg.segment_reader.payload.ddl import type_text
from kseg.segment_reader.payload.errors import IncompatibleSchemas, PayloadSchemaError
from kseg.segment_reader.payload.rescue import RESCUED

_BEFORE_RUNS: Final = "the job has not run yet: its first run takes the subject's newest version"
_BEFORE_SCHEMAS: Final = "the ledger was rebuilt, and has no schemas: the next run takes the subject's newest version"


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """The effects of a new schema. against: what it was compared with.

    added: columns, as path and DDL type. missing: columns that it lacks, which are null in its rows. refused: why it is
    incompatible; empty if it is compatible. notes: columns that would be widened, and what was not compared.
    """

    against: str
    added: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobPart:
    """Keys or values of a job that are decoded with a subject's schemas. place: its section's path. topics: as far as
    they are known. records, of_kind: for one kind of records with its own columns: the routes to its table, and its
    lineage."""

    place: str
    source: str
    section: Decode
    payload: Payload
    topics: tuple[str, ...]
    records: tuple[str, ...] = ()
    of_kind: str = ""

    @property
    def lineage(self) -> str:
        return f"{self.place}.{self.source}".removeprefix("decode.")


def check_against_version(name: str, newest: Resolved, candidate: Resolved) -> SchemaCheck:
    """Compare the columns of a new schema with those of a registered one: Avro by its promotions, others by type.

    name: the registered schema's, for messages.
    """
    if newest.schema.type != candidate.schema.type:
        return SchemaCheck(name, refused=(f"it is of type {candidate.schema.type}, {name} is {newest.schema.type}",))
    try:
        before = registered_type(newest)
        own, own_format = of_registry_type(candidate.schema.type)
        if own_format.evolution is None:
            return _compared(name, before, registered_type(candidate))
        form = own_format.evolution()
        texts = (kept_schema(own.name, one) for one in (newest, candidate))
        reader, writer = (form.writer(one.text, one.uses) for one in texts)
        check = _compared(name, before, delta_type(form.type(form.merged(reader, writer, add_fields=True))))
        return replace(check, missing=_missing(form, reader, writer))
    except IncompatibleSchemas as error:
        return SchemaCheck(name, refused=(f"{error.place}: {error.reason}",))
    except PayloadSchemaError as error:
        return SchemaCheck(name, refused=(str(error),))


def check_against_job(
    job: Job, state: JobState, part: JobPart, candidate: Resolved, name: str, newest: tuple[str, Resolved] | None = None
) -> SchemaCheck:
    """Compare a new schema with a job's reader schema and tables.

    state: of the job's ledger. name: the schema's, for messages. newest: name and schema of the subject's newest
    version, which records of the job's first run may have.
    """
    against = f"job {job.name}, {part.place}.{part.source}"
    if candidate.schema.type != in_registry(part.payload.format).type:
        return SchemaCheck(
            against, refused=(f"its format is {part.payload.format}, the schema {candidate.schema.type}",)
        )
    kinds = kinds_of(job, part.lineage, state.lineages)
    if kinds is None:
        return _check(job, state, part, candidate, name, newest)
    try:
        numbers = kinds.of_schema(part.payload, kept_schema(part.payload.format, candidate))
    except PayloadSchemaError as error:
        return SchemaCheck(against, refused=(str(error),))
    if not numbers:
        return SchemaCheck(against, notes=("no route of the job takes its records",))
    found = []
    for number in numbers:
        of_kind = replace(part, payload=kinds.payload(number, part.payload), records=kinds.records[number])
        lineage = kinds.lineage_of(number, state.lineages)
        found.append(_check(job, state, replace(of_kind, of_kind=lineage), candidate, name, newest))
    return _together(against, found)


def _together(against: str, found: list[SchemaCheck]) -> SchemaCheck:
    """One check for a schema with messages of several kinds."""
    return SchemaCheck(
        against,
        tuple(one for check in found for one in check.added),
        tuple(one for check in found for one in check.missing),
        tuple(one for check in found for one in check.refused),
        tuple(dict.fromkeys(one for check in found for one in check.notes)),
    )


def _check(
    job: Job, state: JobState, part: JobPart, candidate: Resolved, name: str, newest: tuple[str, Resolved] | None
) -> SchemaCheck:
    against = f"job {job.name}, {part.place}.{part.source}"
    try:
        kept: tuple[str, ...] = ()
        if part.payload.by_registry:
            before, after, missing = _grown(job, state, part, candidate, name, newest)
            kept = _rescued(part, candidate, after)
        else:
            before, after, missing = _plan(part, None), _plan(part, candidate), None
        fields = typed_columns(after)
        check_names([(after, fields)])
        old = _struct(typed_columns(before)) if before is not None else pa.struct([])
        check = _compared(against, old, _struct(fields), widens=job.widens)
        check = check if missing is None else replace(check, missing=missing)
    except Refused as refused:
        return SchemaCheck(against, refused=(refused.message,))
    except ConfigurationError as error:
        return SchemaCheck(against, refused=tuple(fault.message for fault in error.faults))
    except PayloadSchemaError as error:
        return SchemaCheck(against, refused=(str(error),))
    faults, notes = _beside_tables(job, part, fields, first=without_rows(state))
    if before is None:
        notes = (_BEFORE_SCHEMAS if state.lost_ledgers else _BEFORE_RUNS, *notes)
    return replace(check, refused=(*check.refused, *faults), notes=(*check.notes, *notes, *kept))


def parts_of(job: Job, subject: str) -> Iterator[JobPart]:
    """The keys and values of a job that are decoded with this subject's schemas."""
    for path, section in sections_of(job.decode).items() if job.decode is not None else ():
        for source in ("key", "value"):
            payload: Payload | None = getattr(section, source)
            if payload is None or registry_type(payload.format) is None:
                continue
            named = job.source.named_topics
            if named is None:
                fitting = (_topic_of(template, subject) for template in payload.subject_templates(source))
                topic = next((one for one in fitting if one is not None), None)
                found = re.search(job.source.pattern or "", topic) if topic else topic
                fits = found is not None
                known: tuple[str, ...] = (topic,) if fits and topic else ()
            else:
                known = tuple(topic for topic in named if subject in payload.subjects_of(topic, source))
                fits = bool(known)
            mine = tuple(topic for topic in known if _takes(job, path[1:], topic))
            if fits and (mine or not known):
                yield JobPart(".".join(path), source, section, payload, mine)


def subjects_of(job: Job) -> list[str]:
    """The subjects with whose schemas a job decodes its topics; empty if a pattern selects the topics."""
    found = []
    for path, section in sections_of(job.decode).items() if job.decode is not None else ():
        for source in ("key", "value"):
            payload: Payload | None = getattr(section, source)
            if payload is not None and registry_type(payload.format) is not None:
                topics = [topic for topic in job.source.named_topics or () if _takes(job, path[1:], topic)]
                found += [subject for topic in topics for subject in payload.subjects_of(topic, source)]
    return list(dict.fromkeys(found))


def _takes(job: Job, named: tuple[str, ...], topic: str) -> bool:
    """Whether the part of `decode:` at this path applies to the topic."""
    assert job.decode is not None
    if not named or named == (topic,):
        return True
    return named == ("*",) and ("decode", topic) not in sections_of(job.decode)


def _topic_of(template: str, subject: str) -> str | None:
    """The topic that has this subject; empty if all topics have it, None if no topic has."""
    before, placeholder, after = template.partition("{topic}")
    if not placeholder:
        return "" if template == subject else None
    long_enough = len(subject) > len(before) + len(after)
    fits = long_enough and subject.startswith(before) and subject.endswith(after)
    return subject[len(before) : len(subject) - len(after)] if fits else None


def _grown(
    job: Job, state: JobState, part: JobPart, candidate: Resolved, name: str, newest: tuple[str, Resolved] | None
) -> tuple[PayloadPlan | None, PayloadPlan, tuple[str, ...]]:
    """How the job decodes now (None before its first run), how it would decode, and the fields that would be null."""
    rules = next_rules(job, state, description_at, part.topics)
    own, form = kept_schema(part.payload.format, candidate), schema_format(part.payload, rules)
    known_readers = state.lineages.get(part.of_kind or part.lineage, Lineage("")).readers
    readers = () if without_rows(state) else known_readers
    writers = state.lineages.get(part.lineage, Lineage("")).writers
    if not readers:
        alike = newest is not None and newest[1].schema.type == candidate.schema.type
        before = [(newest[0], kept_schema(part.payload.format, newest[1]))] if newest is not None and alike else []
        before = [(version, older) for version, older in before if _may_be_of(part, form, older)]
        text = grown(part.payload, part.lineage, (), [(name, own)], [older for _, older in before], rules=rules)
        grown(part.payload, part.lineage, (text,), before, rules=rules)
        return None, _framed(part, text, form), ()
    known = [older for hash in writers.values() if _may_be_of(part, form, older := state.schema_texts[hash])]
    text = grown(part.payload, part.lineage, readers, [(name, own)], known, rules=rules, widen=job.widens)
    missing = _missing(form, form.reader(readers[-1]), form.writer(own.text, own.uses))
    return _framed(part, readers[-1], form), _framed(part, text, form), missing


def _may_be_of(part: JobPart, form: SchemaFormat, text: SchemaText) -> bool:
    """Whether a schema has the kind of records that the part decodes."""
    if not part.records or not FORMATS[part.payload.format].indexed:
        return True
    if text.unusable:
        return False
    return part.records[0] in form.records(form.writer(text.text, text.uses))


def _rescued(part: JobPart, candidate: Resolved, after: PayloadPlan) -> tuple[str, ...]:
    """A note on the schema's fields without a column, if the job keeps such fields as text."""
    if part.payload.unknown != "rescue":
        return ()
    assert after.framed is not None
    form, own = after.framed.format, kept_schema(part.payload.format, candidate)
    names = ", ".join(form.unknown(form.writer(own.text, own.uses), form.reader(after.framed.reader)))
    return (f"without a column, and kept as text in {RESCUED}: {names}",) if names else ()


def _missing(form: SchemaFormat, reader: Any, writer: Any) -> tuple[str, ...]:
    """Fields of a reader's schema that a writer's schema has under none of their names."""
    own = form.type(form.first(writer))
    try:
        return tuple(path for path, _ in differences(own, form.type(form.with_lacking(writer, reader))).added)
    except PayloadSchemaError:  # a type that only the reader's may be promoted to
        return differences(form.type(reader), own).missing


def _plan(part: JobPart, schema: Resolved | None) -> PayloadPlan:
    """How the part is decoded. schema: used in place of the job's own."""
    (plan,) = (plan for plan in decode_step(part.section, part.place).payloads if plan.source == part.source)
    if schema is None:
        return plan
    return replace(plan, schema_text=kept_schema(part.payload.format, schema).text)


def _framed(part: JobPart, reader: str, form: SchemaFormat) -> PayloadPlan:
    return replace(_plan(part, None), framed=FramedSchemas(reader, format=form))


def _compared(against: str, before: pa.DataType, after: pa.DataType, *, widens: bool = False) -> SchemaCheck:
    """widens: columns may become wider."""
    found = differences(before, after)
    wider = [one for one in found.changed if widens and can_widen(*one[1:])]
    refused = [one for one in found.changed if one not in wider]
    return SchemaCheck(
        against,
        tuple((path, type_text(kind)) for path, kind in found.added),
        found.missing,
        tuple(f"{path or 'it'} is {type_text(old)}, and would be {type_text(new)}" for path, old, new in refused),
        tuple(f"{path} is {type_text(old)}, and would be widened to {type_text(new)}" for path, old, new in wider),
    )


def _struct(fields: list[pa.Field]) -> pa.StructType:
    return delta_type(pa.struct(fields)) if fields else pa.struct([])


def _beside_tables(
    job: Job, part: JobPart, fields: list[pa.Field], *, first: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Why existing tables cannot take these columns; and notes on what was not compared. first: no row of the job has
    landed, so that tables that its runs have made can get other columns."""
    if job.transform:
        return (), ("the job has a transform, which makes the tables' columns: they were not compared",)
    landed = list(_struct(fields))
    faults: list[str] = []
    notes: list[str] = [] if part.topics else ["which topics have this subject is not known: no table was compared"]
    tables = job.sink.tables_of(part.topics) if part.topics else ()
    if part.records:
        tables = tuple(dict.fromkeys(str(job.sink.targets[record]) for record in part.records))
    for table in tables:
        access = access_at(table)
        if access is None:
            notes.append(f"table {table} is in a catalog: it was not compared")
            continue
        found = access.schema()
        if found is None:
            continue
        if first and (now := access.state()) is not None and now.rows == 0:
            notes.append(f"table {table} has no rows: it gets these columns, if runs of this job have made it")
            continue
        named = job.sink.columns_of(table)
        columns = SinkSchema(pa.schema([one for one in landed if named is None or one.name in named[1]]), None)
        beside = pa.schema([column.with_nullable(True) for column in found])
        try:
            if job.widens:
                type_changes(columns, beside, access.partition_columns(), table=table, widen=True)
            align(columns, beside, (), table=table, merge_schema=job.adds_columns, widen=job.widens)
        except IncompatibleSchema as error:
            unfit = zip(error.columns, error.faults, strict=True)
            faults += [f"table {table}: {column}: {fault.message}" for column, fault in unfit]
    return tuple(faults), tuple(notes)
