"""Steps that are a query in DuckDB's SQL over each batch, in the worker: no row crosses to the JVM.

A batch is a part of the rows that nobody chose, and another attempt may cut them elsewhere. So a query has to give the
same rows whatever the batches are: each row by itself. That is read from DuckDB's own plan of the query, bound but not
optimized (`json_serialize_plan`), before anything is read: one scan of `__rows__`, and of operators only projections,
filters and UNNEST, which make rows of one row. Functions that DuckDB itself does not call consistent (random, now, …)
are refused. DuckDB is kept from everything but the batch: no files, no network, no extensions, no Python variables,
and its configuration is locked.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.transform.step import ROWS_VIEW, Address, BatchStep

if TYPE_CHECKING:
    import duckdb

    from kseg.etl.decoding.bad_records import BadRecords

SETTINGS: Final = (
    "enable_external_access = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "threads = 1",  # a task has one core
    "TimeZone = 'UTC'",
    "lock_configuration = true",
)

ROW_WISE: Final = frozenset(
    {
        "LOGICAL_GET",
        "LOGICAL_PROJECTION",
        "LOGICAL_FILTER",
        "LOGICAL_UNNEST",
        "LOGICAL_MATERIALIZED_CTE",
        "LOGICAL_CTE_REF",
    }
)
"""Operators that make rows of one row. A CTE without joins and unions is its query."""

_NAMES: Final = {
    "LOGICAL_AGGREGATE_AND_GROUP_BY": "an aggregate",
    "LOGICAL_ORDER_BY": "ORDER BY",
    "LOGICAL_LIMIT": "LIMIT",
    "LOGICAL_DISTINCT": "DISTINCT",
    "LOGICAL_WINDOW": "a window function",
    "LOGICAL_SAMPLE": "a sample",
    "LOGICAL_UNION": "UNION",
    "LOGICAL_EXCEPT": "EXCEPT",
    "LOGICAL_INTERSECT": "INTERSECT",
    "LOGICAL_CROSS_PRODUCT": "a join or a subquery",
    "LOGICAL_COMPARISON_JOIN": "a join or a subquery",
    "LOGICAL_DELIM_JOIN": "a join or a subquery",
    "LOGICAL_ANY_JOIN": "a join",
    "LOGICAL_DUMMY_SCAN": "a SELECT without FROM",
    "LOGICAL_EXPRESSION_GET": "VALUES",
}

_ROW_BY_ROW: Final = (
    "the step runs over each batch by itself: SELECT expressions FROM __rows__, with WHERE and unnest(); "
    "for the rest there are `sql` steps"
)
_NOT_HERE: Final = (
    "install the extra in the environments of driver and workers: pip install 'kafka-segment-etl[duckdb]'"
)

_local = threading.local()


@dataclass(frozen=True)
class DuckdbStep(BatchStep):
    """query: one SELECT over `__rows__`."""

    query: str
    place: str

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """By DuckDB's types, from a batch without rows."""
        duckdb = self._module()
        _check(self.query, rows, self.place)
        empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in rows], schema=rows)
        try:
            return _run(self.query, empty).schema
        except duckdb.Error as error:
            raise ConfigurationError.of(self.place, _first_line(error), _ROW_BY_ROW) from error

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        """Raises ArrowStepError, which says whether a record of the batch is the reason."""
        duckdb = self._module()
        try:
            return _run(self.query, batch)
        except duckdb.Error as error:
            remedy = "fix the query, or let it accept such records: try_cast, try(…), WHERE"
            message = _first_line(error)
            failed = ArrowStepError(f"{self.place}: {message}", remedy=remedy, **address, step=self.place)
            if not isinstance(error, _of_the_machine()):
                failed.step, failed.raised = self.place, message
            raise failed from error

    def _module(self) -> Any:
        try:
            import duckdb
        except ImportError as error:
            raise ConfigurationError.of(self.place, "duckdb is not installed", _NOT_HERE) from error
        return duckdb


def _run(query: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The query's rows. Raises duckdb.Error, also where they are more than one batch can hold."""
    import duckdb

    connection: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if connection is None:
        connection = _local.connection = _connection()
    connection.register(ROWS_VIEW, pa.Table.from_batches([batch]))
    try:
        found = connection.execute(query).fetch_arrow_table()
    finally:
        connection.unregister(ROWS_VIEW)
    batches = found.combine_chunks().to_batches()
    if len(batches) > 1:
        raise duckdb.OutOfMemoryException(f"the query makes more than 2 GiB of {batch.num_rows} records")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=found.schema)


def _connection() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(":memory:")
    for setting in SETTINGS:
        connection.execute(f"SET {setting}")
    return connection


def _of_the_machine() -> tuple[type[Exception], ...]:
    """Errors that no record is the reason for."""
    import duckdb

    return duckdb.IOException, duckdb.OutOfMemoryException, duckdb.InternalException, duckdb.FatalException


# --- is each row made of one row?


def _check(query: str, rows: pa.Schema, place: str) -> None:
    """Raises ConfigurationError for a query that is not row by row, with the reason."""
    import duckdb

    connection = duckdb.connect(":memory:")
    try:
        connection.register("columns", rows.empty_table())
        connection.execute(f"CREATE TABLE {ROWS_VIEW} AS SELECT * FROM columns")
        connection.unregister("columns")
        for setting in SETTINGS:
            connection.execute(f"SET {setting}")
        plan = _plan(connection, query)
        if plan.get("error"):
            raise ConfigurationError.of(place, str(plan["error_message"]).split("\n")[0], _ROW_BY_ROW)
        reason = _objection(plan["plans"], _inconsistent(connection))
    except duckdb.Error as error:
        raise ConfigurationError.of(place, _first_line(error), _ROW_BY_ROW) from error
    finally:
        connection.close()
    if reason is not None:
        raise ConfigurationError.of(place, reason, _ROW_BY_ROW)


def _plan(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    row = connection.execute("SELECT json_serialize_plan($1, optimize := false)", [query]).fetchone()
    assert row is not None
    found: dict[str, Any] = json.loads(row[0])
    return found


def _inconsistent(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Functions that may give something else for the same arguments. `error` gives nothing at all."""
    rows = connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
    ).fetchall()
    return frozenset(name for (name,) in rows) - {"error"}


def _objection(plans: list[dict[str, Any]], inconsistent: frozenset[str]) -> str | None:
    if len(plans) != 1:
        return f"is {len(plans)} statements, not one"
    nodes = list(_nodes(plans[0]))
    operators = [node for node in nodes if str(node.get("type")).startswith("LOGICAL_")]
    for operator in operators:
        kind = operator["type"]
        if kind not in ROW_WISE:
            return f"has {_NAMES.get(kind, kind.removeprefix('LOGICAL_'))}, which takes more than one row"
    scans = [operator for operator in operators if operator["type"] == "LOGICAL_GET"]
    foreign = [scan for scan in scans if (scan.get("function_data") or {}).get("table") != ROWS_VIEW]
    if foreign:
        return f"reads {foreign[0].get('name')}, not {ROWS_VIEW} alone"
    if len(scans) != 1:
        return f"reads {ROWS_VIEW} {len(scans)} times, not once"
    for node in nodes:
        if node.get("expression_class") != "BOUND_FUNCTION":
            continue
        name = node["name"]
        if name in inconsistent or (name == "age" and len(node["children"]) == 1):
            return f"calls {name}, which gives something else each time"
    return None


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _nodes(inner)


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]
