"""Steps that are a query in DuckDB's SQL over each batch, in the worker: no row crosses to the JVM.

A batch is a part of the rows that nobody chose, and another attempt may cut them elsewhere. So a query has to give the
same rows whatever the batches are: each row by itself. That is read from DuckDB's own plan of the query, bound but not
optimized (`json_serialize_plan`), before anything is read: one scan of `__rows__`, and of operators only projections,
filters and UNNEST, which make rows of one row. Functions that DuckDB itself does not call consistent (random, now, …)
are refused. DuckDB is kept from everything but the batch: no files, no network, no extensions, no Python variables,
and its configuration is locked.

Columns that a query passes on as they are, of all rows (`SELECT *, …`), are taken from the batch: DuckDB would copy
their values twice, which costs more than most queries. Of the others it gets those that the query reads.
"""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.etl.rows.names import ROWS_VIEW
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.transform.duckdb_plan import columns_kept, columns_read, inconsistent_functions, objection, read_plan
from kseg.etl.transform.step import Address, BatchStep

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
        try:
            return _prepared(self.query, rows).schema
        except duckdb.Error as error:
            raise ConfigurationError.of(self.place, _first_line(error), _ROW_BY_ROW) from error

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        """Raises ArrowStepError, which says whether a record of the batch is the reason."""
        duckdb = self._module()
        try:
            return _prepared(self.query, batch.schema).run(batch)
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


@dataclass(frozen=True)
class _Prepared:
    """A query for batches of one schema.

    rows: theirs. schema: of its rows. read: the columns that DuckDB needs; it gets nulls for the others. kept: for each
    column of its rows that of the batch, None where DuckDB makes it; empty: it makes all. computed: the query of those
    that it makes; empty: of none.
    """

    rows: pa.Schema
    schema: pa.Schema
    read: frozenset[int]
    kept: tuple[int | None, ...] = ()
    computed: str = ""

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raises duckdb.Error, also where the rows are more than one batch can hold."""
        made = _run(self.computed, self._needed(batch)) if self.computed else None
        if not self.kept:
            assert made is not None
            return made
        columns = iter(made.columns if made is not None else ())
        arrays = [next(columns) if place is None else batch.column(place) for place in self.kept]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _needed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without values that nothing reads: DuckDB would convert them, and may be unable to."""
        rows = batch.num_rows
        columns = [
            column if place in self.read else pa.nulls(rows, column.type) for place, column in enumerate(batch.columns)
        ]
        schema = pa.schema([(field.name, field.type) for field in batch.schema])
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _prepared(query: str, rows: pa.Schema) -> _Prepared:
    """Kept by the thread, for the batches that come. Raises duckdb.Error."""
    known: dict[str, _Prepared] = _local.__dict__.setdefault("prepared", {})
    found = known.get(query)
    if found is None or not found.rows.equals(rows):
        found = known[query] = _prepare(query, rows)
    return found


def _prepare(query: str, rows: pa.Schema) -> _Prepared:
    import duckdb

    empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in rows], schema=rows)
    schema = _run(query, empty).schema
    whole = _Prepared(rows, schema, frozenset(range(len(rows))), computed=query)
    try:
        with closing(_planning(rows)) as connection:
            plans = read_plan(connection, query)["plans"]
        kept = _types_kept(columns_kept(plans), rows, schema)
        computed = [place for place in range(len(schema)) if not kept or kept[place] is None]
        if not any(place is not None for place in kept):
            return replace(whole, read=columns_read(plans, computed))
        numbers = ", ".join(f"#{place + 1}" for place in computed)
        query = f"SELECT {numbers} FROM (\n{query.strip().removesuffix(';')}\n)" if computed else ""
        made = _Prepared(rows, schema, columns_read(plans, computed), kept, query)
        return made if made.run(empty).schema.equals(schema) else whole
    except (duckdb.Error, pa.ArrowInvalid, LookupError, TypeError):  # another release's plan may look otherwise
        return whole


def _types_kept(places: tuple[int | None, ...], rows: pa.Schema, schema: pa.Schema) -> tuple[int | None, ...]:
    """See `columns_kept`; a column that DuckDB gives back with another type is made by it."""
    if len(places) != len(schema):
        return ()
    return tuple(
        place if place is not None and rows.field(place).type.equals(field.type) else None
        for place, field in zip(places, schema, strict=True)
    )


def _run(query: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The query's rows. Raises duckdb.Error, also where the rows are more than one batch can hold."""
    import duckdb

    connection: duckdb.DuckDBPyConnection | None = getattr(_local, "connection", None)
    if connection is None:
        connection = _local.connection = _connection()
    # A table it would read as pyarrow's datasets, which takes twice as long. All rows come at once: those of a stream
    # may fail when they are read, as errors of Arrow, and too large ones end the process.
    connection.register(ROWS_VIEW, _Stream(batch))
    try:
        found = connection.sql(query).to_arrow_table()
    finally:
        connection.unregister(ROWS_VIEW)
    batches = found.combine_chunks().to_batches()
    if len(batches) > 1:
        raise duckdb.OutOfMemoryException(f"the query makes more than 2 GiB of {batch.num_rows} records")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=found.schema)


@dataclass(frozen=True)
class _Stream:
    """A batch as a stream of Arrow's C interface (https://arrow.apache.org/docs/format/CStreamInterface.html), once."""

    batch: pa.RecordBatch

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.batch.schema, [self.batch])
        return reader.__arrow_c_stream__(requested_schema)


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


def _check(query: str, rows: pa.Schema, place: str) -> None:
    """Raises ConfigurationError for a query that is not row by row, with the reason."""
    import duckdb

    try:
        with closing(_planning(rows)) as connection:
            plan = read_plan(connection, query)
            if plan.get("error"):
                raise ConfigurationError.of(place, str(plan["error_message"]).split("\n")[0], _ROW_BY_ROW)
            reason = objection(plan["plans"], inconsistent_functions(connection))
    except duckdb.Error as error:
        raise ConfigurationError.of(place, _first_line(error), _ROW_BY_ROW) from error
    if reason is not None:
        raise ConfigurationError.of(place, reason, _ROW_BY_ROW)


def _planning(rows: pa.Schema) -> duckdb.DuckDBPyConnection:
    """A connection with an empty table of these columns, in which queries are planned and none is run."""
    import duckdb

    connection = _connection()
    try:
        connection.register("columns", rows.empty_table())
        connection.execute(f"CREATE TABLE {ROWS_VIEW} AS SELECT * FROM columns")
        connection.unregister("columns")
    except duckdb.Error:
        connection.close()
        raise
    return connection


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0]
