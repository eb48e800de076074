"""Rows that a job lands in one of its tables: of all columns, those that the table has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from kseg.etl.config.decoding import sections_of
from kseg.etl.config.job import Job
from kseg.etl.config.routing import names_records
from kseg.etl.decoding.kinds import RecordColumns, columns_named, is_of_kinds
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger import events as ev
from kseg.etl.rows.names import LATE_COLUMN
from kseg.etl.run.read_options import read_options
from kseg.etl.tables.parquet.layout import check_layout
from kseg.etl.tables.parquet.schema import OnlyColumns, SinkSchema, sink_schema
from kseg.etl.transform.route import RouteStep
from kseg.etl.transform.topics import table_schemas
from kseg.etl.transform.transform import BatchSteps, derived_columns
from kseg.segment_reader.payload.ddl import quoted, type_name

ROUTED: Final = ""
"""The name that tables have together whose rows may come from any topic."""


def sink_schema_of(
    job: Job, rows: pa.Schema, table: str, *, late: bool = False, records: RecordColumns | None = None
) -> SinkSchema:
    """rows: of what the job's last step gives. late: as of `sink_schema`. records: as `record_columns` gives it, of a
    run that has pinned its schemas.

    Raises ConfigurationError.
    """
    sink = job.sink
    only: OnlyColumns | None = None
    sources: dict[str, str] = {}
    routes = [] if records is None else sink.routes_to.get(table, ())
    if records is not None and records.of_kinds:
        rows, sources = _of_kind(rows, records.of(routes), sink.partition_columns, table)
    if (named := sink.columns_of(table)) is not None:
        route, columns = named
        only = OnlyColumns(f"sink.routes.{route}.columns", columns, sink.partition_columns)
    elif records is not None and not records.of_kinds and all(map(names_records, routes)):
        only = OnlyColumns("sink.routes", tuple(sorted(records.of(routes))), sink.partition_columns)
    made = sink_schema(
        rows,
        addresses=sink.addresses,
        late=late,
        decoded=job.decode is not None,
        derived={column.name: str(column) for column in derived_columns(job)},
        routed=sink.routed,
        only=only,
    )
    renamed = tuple(one for one in sources.items() if one[0] in made.columns.names)
    return replace(made, sources=renamed, declared=_declared(job))


def _declared(job: Job) -> tuple[tuple[str, str], ...]:
    """The keys of the job file that declare columns' types, of rows that no step changes."""
    if job.decode is None or job.transform:
        return ()
    found: dict[str, str] = {}
    for path, section in sections_of(job.decode).items():
        for source, payload in (("key", section.key), ("value", section.value)):
            if payload is None or payload.into != "columns":
                continue
            for name in payload.declared.columns or ():
                place = ".".join((*path, source, "schema", "columns", quoted(name)))
                found.setdefault(payload.rename.get(name, name), place)
    return tuple(found.items())


def record_columns(steps: BatchSteps, topics: Iterable[str]) -> RecordColumns | None:
    """By what schemas call their records, the columns of their rows: of routes that are named after records. None where
    rows have other columns than records have fields.

    Raises ConfigurationError: topics give a column of one table other types.
    """
    first = steps.steps[0] if steps else None
    if not isinstance(first, RouteStep):
        return None
    found: RecordColumns | None = None
    for topic in topics:
        of_topic = first.of_topic(topic).columns_of_records()
        if of_topic is None:
            return None
        found = of_topic if found is None else found.beside(of_topic)
    return found


def topics_of(plan: ev.RunPlan) -> dict[str, str]:
    """Topic -> table, of all topics that a run reads. Topics whose rows may go to any of several tables are together
    as those of one table are: their rows have one schema."""
    if plan.routed:
        return {r.topic: ROUTED for r in plan.ranges}
    return {r.topic: r.table for r in plan.ranges if r.table is not None}


def batch_schemas(job: Job, plan: ev.RunPlan, steps: BatchSteps, tables: Collection[str]) -> dict[str, pa.Schema]:
    """What the steps on batches give for each of these tables of a run.

    Raises ConfigurationError: a step does not work, or topics of one table have conflicting columns.
    """
    topics = {topic: table for topic, table in topics_of(plan).items() if table in tables or plan.routed}
    schemas = table_schemas(steps, read_options(job, plan).schema, topics, merge=job.adds_columns)
    return dict.fromkeys(tables, schemas[ROUTED]) if plan.routed else schemas


def planned_sinks(
    job: Job, plan: ev.RunPlan, steps: BatchSteps, schemas: Mapping[str, pa.Schema]
) -> dict[str, SinkSchema]:
    """What a run lands in each of these tables. steps: on batches, of the run's schemas. schemas: of what the job's
    last step gives, by table.

    Raises ConfigurationError: rows cannot be landed.
    """
    records = None if job.transform else record_columns(steps, topics_of(plan))
    return {
        table: sink_schema_of(job, rows, table, late=plan.marks_late, records=records)
        for table, rows in schemas.items()
    }


def _of_kind(
    rows: pa.Schema, columns: Mapping[str, str], partition_by: Sequence[str], table: str
) -> tuple[pa.Schema, dict[str, str]]:
    """The columns of one table of rows that have those of all kinds of records: under their plain names, in the order
    of its own kind; and what the rows call them. columns: its kind's. partition_by: in all tables, null where the
    kind has no such column.

    Raises ConfigurationError.
    """
    others = [name for name in rows.names if not is_of_kinds(name)]
    sources = dict(columns)
    for name in partition_by:
        if name in sources or name in others:
            continue
        found = columns_named(rows.names, name)
        if len(found) > 1:
            types = " and ".join(type_name(rows.field(column).type) for column in found)
            message = f"other tables have the column {name} as {types}; the table {table} lacks it"
            raise ConfigurationError.of("sink.partition_by", message, "give it one type in the schemas of all kinds")
        sources |= dict.fromkeys([name], found[0]) if found else {}
    of_kind = [rows.field(column).with_name(name) for name, column in sources.items()]
    # Between the columns of keys and Kafka's own, as those of all kinds are.
    before = next((number for number, name in enumerate(rows.names) if is_of_kinds(name)), 0)
    beside = [rows.field(name) for name in others]
    return pa.schema([*beside[:before], *of_kind, *beside[before:]]), sources


def check_batch_rows(job: Job, steps: BatchSteps, tables: Mapping[str, str], *, merge: bool) -> None:
    """The rows of steps on batches. tables: by topic. merge: as of `table_schemas`.

    Raises ConfigurationError: topics of one table have conflicting columns, or rows cannot be landed.
    """
    schemas = table_schemas(steps, read_options(job).schema, tables, merge=merge)
    records = None if job.transform else record_columns(steps, tables)
    for table, schema in schemas.items():
        check_sink_schemas(job, schema, table, records if records is not None and records.of_kinds else None)


def check_sink_schemas(job: Job, rows: pa.Schema, table: str, records: RecordColumns | None = None) -> None:
    """Rows of a table, or where anything but topics decides on it, of every table of the job. records: as of
    `sink_schema_of`.

    Raises ConfigurationError: rows cannot be landed, or a table cannot be partitioned or clustered by their columns.
    """
    for one in job.sink.tables_of(()) if job.sink.routed else (table,):
        columns = sink_schema_of(job, rows, one, records=records).columns
        if job.interval is not None and LATE_COLUMN not in columns.names:
            columns = columns.append(pa.field(LATE_COLUMN, pa.bool_()))  # which a plan's rows have
        check_layout(columns, job.sink.partition_columns, job.sink.cluster_by)
