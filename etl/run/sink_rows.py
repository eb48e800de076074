"""What a job lands in one of its tables: of all columns of its rows, those that are the table's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import pyarrow as pa

from kseg.etl.config.job import Job
from kseg.etl.config.sections import CATCH_ALL
from kseg.etl.run.read_options import read_options
from kseg.etl.tables.parquet.schema import OnlyColumns, SinkSchema, sink_schema
from kseg.etl.transform.route import RouteStep
from kseg.etl.transform.topics import table_schemas
from kseg.etl.transform.transform import BatchSteps, Transform, derived_columns

RecordColumns = Mapping[str, frozenset[str]]


def sink_schema_of(
    job: Job, rows: pa.Schema, table: str, *, late: bool = False, records: RecordColumns | None = None
) -> SinkSchema:
    """rows: of what the job's last step gives. late: as of `sink_schema`. records: as `record_columns` gives it, of a
    run that has pinned its schemas.

    Raises ConfigurationError.
    """
    sink = job.sink
    only = None
    if (named := sink.columns_of(table)) is not None:
        route, columns = named
        only = OnlyColumns(f"sink.routes.{route}.columns", columns, sink.partition_columns)
    elif records is not None:
        routes = [route for route, target in sink.targets.items() if str(target) == table]
        if all(map(_is_record, routes)):
            mine = frozenset().union(*(records.get(route, ()) for route in routes))
            only = OnlyColumns("sink.routes", tuple(sorted(mine)), sink.partition_columns)
    return sink_schema(
        rows,
        addresses=sink.addresses,
        late=late,
        decoded=job.decode is not None,
        derived={column.name: str(column) for column in derived_columns(job)},
        routed=sink.routed,
        only=only,
    )


def record_columns(transform: Transform, topics: Iterable[str]) -> RecordColumns | None:
    """By what schemas call their records, the columns of their rows: of routes that are named after records. None where
    rows have other columns than records have fields."""
    first = transform.on_batches.steps[0] if transform.on_batches else None
    if not isinstance(first, RouteStep):
        return None
    found: dict[str, frozenset[str]] = {}
    for topic in topics:
        of_topic = first.of_topic(topic).columns_of_records()
        if of_topic is None:
            return None
        for name, columns in of_topic.items():
            found[name] = found.get(name, frozenset()) | columns
    return found


def _is_record(route: str) -> bool:
    """Whether a route of `route_by: schema` is named after records, and not after one schema or all others."""
    try:
        UUID(route)
    except ValueError:
        return route != CATCH_ALL and not route.lstrip("-").isdigit()
    return False


def check_batch_rows(job: Job, steps: BatchSteps, tables: Mapping[str, str], *, merge: bool) -> None:
    """The rows of steps on batches. tables: by topic. merge: as of `table_schemas`.

    Raises ConfigurationError: topics of one table have conflicting columns, or rows cannot be landed.
    """
    for table, schema in table_schemas(steps, read_options(job).schema, tables, merge=merge).items():
        check_sink_schemas(job, schema, table)


def check_sink_schemas(job: Job, rows: pa.Schema, table: str) -> None:
    """Rows of a table, or where anything but topics decides on it, of every table of the job.

    Raises ConfigurationError.
    """
    for one in job.sink.tables_of(()) if job.sink.routed else (table,):
        sink_schema_of(job, rows, one)
