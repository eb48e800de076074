"""A job's `decode:` section checked before anything is read: do its schemas compile, and fit a table?"""

from __future__ import annotations

from collections.abc import Iterator

from kseg.etl.config.decoding import Decode, sections_of
from kseg.etl.config.job import Job
from kseg.etl.config.sections import CATCH_ALL
from kseg.etl.decoding.columns import typed_columns
from kseg.etl.errors import ConfigurationError, Fault
from kseg.etl.planning.schemas import lineages_of
from kseg.etl.run.read_options import read_options
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.transform.decode import decode_step
from kseg.etl.transform.topics import table_schemas
from kseg.etl.transform.transform import transform_of


def decode_faults(job: Job) -> tuple[Fault, ...]:
    """What would end a run before it reads a record, without brokers and without Spark; not of schemas in a registry.

    Also what no table can hold of the columns, where the job has no transform that makes others.
    """
    if job.decode is None:
        return ()
    found = [
        fault
        for path, section in sections_of(job.decode).items()
        for fault in _of_section(job, section, ".".join(path))
    ]
    if not found and not job.transform and not any(lineages_of(job)):
        try:
            _tables(job)
        except ConfigurationError as error:
            found += error.faults
    return tuple(dict.fromkeys(found))


def decode_warnings(job: Job) -> tuple[str, ...]:
    """What was not checked."""
    names = ", ".join(f"decode.{lineage}" for lineage, _ in lineages_of(job))
    return (f"{names}: not checked, the schemas are in a registry; `kseg plan` reads them",) if names else ()


def _of_section(job: Job, section: Decode, place: str) -> Iterator[Fault]:
    declared = section.model_copy(
        update={
            name: None
            for name in ("key", "value")
            if (payload := getattr(section, name)) is not None and payload.by_registry
        }
    )
    step = decode_step(declared, place)
    faults: list[Fault] = []
    for plan in step.payloads:
        try:
            typed_columns(plan)
        except ConfigurationError as error:
            faults += error.faults
    if faults or declared != section:
        yield from faults
        return
    try:
        step.output_schema(read_options(job).schema)
    except ConfigurationError as error:
        yield from error.faults


def _tables(job: Job) -> None:
    """Raises ConfigurationError where the columns of a table do not go together, or Delta has no such type."""
    transform = transform_of(job)
    tables = {topic: table_of(job, topic) for topic in transform.on_batches.topics or (CATCH_ALL,)}
    schemas = table_schemas(transform.on_batches, read_options(job).schema, tables, merge=job.sink.merge_schema)
    for schema in schemas.values():
        sink_schema(schema, addresses=job.sink.addresses, decoded=True)


def table_of(job: Job, topic: str) -> str:
    """The table of a topic that `decode:` names; of all others together, the route of all others."""
    try:
        return str(job.sink.target(topic))
    except ConfigurationError:
        if topic != CATCH_ALL:
            raise
        return CATCH_ALL
