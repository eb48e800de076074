"""A job's `decode:` section checked before anything is read: do its schemas compile, and fit a table?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kseg.etl.config.decoding import Decode, sections_of
from kseg.etl.config.job import Job
from kseg.etl.config.sections import CATCH_ALL
from kseg.etl.decoding.columns import typed_columns
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.rules import NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.schemas import lineages_of
from kseg.etl.run.read_options import read_options
from kseg.etl.run.sink_rows import ROUTED, check_batch_rows
from kseg.etl.transform.decode import NO_SCHEMAS, decode_step
from kseg.etl.transform.transform import transform_of


def decode_faults(
    job: Job,
    *,
    strict: bool = True,
    schemas: Mapping[str, FramedSchemas] = NO_SCHEMAS,
    rules: DecodingRules = NEWEST,
) -> tuple[Diagnostic, ...]:
    """Errors of the section that would end a run before it reads a record, found without brokers and without Spark.

    Schemas in a registry are not checked, except those that a plan has pinned: schemas, by lineage. Columns that no
    table can hold are errors unless the job has a transform, which may make others of them. strict: see `DecodeStep`.
    Runs that are planned already, and tables with rows of the first rules of decoding, go on with whatever numbers they
    have.
    """
    if job.decode is None:
        return ()
    found = [
        fault
        for path, section in sections_of(job.decode).items()
        for fault in _of_section(job, section, ".".join(path), strict, schemas, rules)
    ]
    if not found and not job.transform and not any(lineages_of(job)):
        try:
            _tables(job)
        except ConfigurationError as error:
            found += error.faults
    return tuple(dict.fromkeys(found))


def refuse_odd_numbers(job: Job, plan: ev.RunPlan, state: JobState) -> None:
    """Check a plan's expectations before it is written, by the plan's rules: they decode all records of its run.

    state: with the plan's own schemas.

    Raises ConfigurationError: numbers of an expectation are not read as the same ones everywhere, or no value is
    between the ends of one.
    """
    if not _expects(job) or not plan.rules.literals_by_source_text:
        return
    schemas = NO_SCHEMAS
    if plan.schemas:
        # Not above: all formats of a registry, which most jobs do not have.
        from kseg.etl.run.schemas import framed_schemas

        schemas = framed_schemas(job, plan, state)
    if faults := decode_faults(job, schemas=schemas, rules=plan.rules):
        raise ConfigurationError(faults)


def _expects(job: Job) -> bool:
    return job.decode is not None and any(section.expect for section in sections_of(job.decode).values())


def decode_warnings(job: Job) -> tuple[str, ...]:
    """The notes on what was not checked."""
    names = ", ".join(f"decode.{lineage}" for lineage, _ in lineages_of(job))
    return (f"{names}: not checked, the schemas are in a registry, which --connect asks",) if names else ()


def _of_section(
    job: Job, section: Decode, place: str, strict: bool, schemas: Mapping[str, FramedSchemas], rules: DecodingRules
) -> Iterator[Diagnostic]:
    known = section.model_copy(
        update={
            name: None
            for name in ("key", "value")
            if (payload := getattr(section, name)) is not None
            and payload.by_registry
            and f"{place}.{name}".removeprefix("decode.") not in schemas
        }
    )
    step = replace(decode_step(known, place, schemas, rules), strict=strict)
    faults: list[Diagnostic] = []
    for plan in step.payloads:
        try:
            typed_columns(plan)
        except ConfigurationError as error:
            faults += error.faults
    if faults or known != section:
        yield from faults
        return
    try:
        step.output_schema(read_options(job).schema)
    except ConfigurationError as error:
        yield from error.faults


def _tables(job: Job) -> None:
    """Raises ConfigurationError where topics of one table have conflicting columns, or Delta lacks a column's type."""
    transform = transform_of(job)
    tables = {topic: table_of(job, topic) for topic in transform.on_batches.topics or (CATCH_ALL,)}
    check_batch_rows(job, transform.on_batches, tables, merge=job.sink.merge_schema)


def table_of(job: Job, topic: str) -> str:
    """The table of a topic that `decode:` names; of `*`, the table of the route `*`, or `*` where there is none. Topics
    whose rows may go to any table have one name together."""
    if job.sink.routed:
        return ROUTED
    try:
        return str(job.sink.target(topic))
    except ConfigurationError:
        if topic != CATCH_ALL:
            raise
        return CATCH_ALL
