"""Rows become Parquet files in the tasks: bounded memory, one file a partition and task (more where it grows large).

    batches -> route (by topic, or `_kseg_route`) -> the table's names and types -> cut by partition values
            -> row groups -> WrittenFile

Row groups hold about a million rows or 128 MB of Arrow data. They are collected first and written column by column, so
a task holds `buffered_bytes` of rows and one encoded column. Of many partitions all are collected side by side: a file
is begun when its first row group is written, at the end of the task or when the memory is used up, and only begun files
are limited in number. So a task writes one file a partition where its rows fit into `buffered_bytes`.

snappy is the default: measured on 170-byte rows a core writes 3.2 M rows/s of it against 2.3 M of zstd level 1, whose
files are half as large; `compression` is for those who pay for storage.

This module runs in Spark's workers and imports neither Spark nor delta-rs.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.rows.buffers import integers, texts
from kseg.etl.rows.names import OWN_ADDRESS, ROUTE_COLUMN, RUN_COLUMN
from kseg.etl.tables.errors import AddressChanged, NoRoute, RouteChanged, UnlandableRow
from kseg.etl.tables.file_names import FileOwner, file_name
from kseg.etl.tables.parquet.align import TableColumns
from kseg.etl.tables.parquet.data_file import DataFile, WriterOptions, delete
from kseg.etl.tables.parquet.partition_values import Values, folder, split
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.statistics import StatsCollector, StatsSpec
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.parquet.task_output import ROWS_WRITTEN, TaskOutput, WrittenFile, task_output_batch

_RUN_TYPE = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class TableWrite:
    """One target table, as a task has to know it."""

    location: TableLocation
    columns: TableColumns
    stats: StatsSpec


@dataclass(frozen=True, slots=True)
class LandingPlan:
    """What every task of a run needs to know. It is pickled once for each task.

    owner: of the files that are written.
    routes: the table (its number in `tables`) of each topic; None where all rows go to the first one.
    routed: rows carry their route in `_kseg_route`, and `routes` has those in place of topics; a route to None leads to
        a table that has landed before, of which nothing is written again.
    """

    owner: FileOwner
    sink: SinkSchema
    tables: tuple[TableWrite, ...]
    routes: Mapping[str, int | None] | None = None
    options: WriterOptions = field(default_factory=WriterOptions)
    routed: bool = False

    @property
    def route_column(self) -> str:
        return ROUTE_COLUMN if self.routed else (self.sink.address or OWN_ADDRESS).topic


def land(
    batches: Iterator[pa.RecordBatch],
    plan: LandingPlan,
    *,
    task: int,
    attempt: int,
    make_writer: Callable[..., TaskWriter] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Write all batches, then yield one batch of task output: the files, and how many rows came in.

    A failure deletes what this attempt has written and is raised as it is.

    make_writer: for another writer, with the arguments of `TaskWriter`.
    """
    rows = 0
    with (make_writer or TaskWriter)(plan, task=task, attempt=attempt) as writer:
        for batch in batches:
            rows += batch.num_rows
            writer.write(batch)
        files = writer.close()
    # The files' rows are those of their footers: where the two differ, rows were lost in between.
    handed = TaskOutput(ROWS_WRITTEN, task, attempt, {"rows": rows, "passed": writer.passed})
    yield task_output_batch([*(f.output(task, attempt) for f in files), handed])


class TaskWriter:
    """Writes one task attempt's rows to all its tables. As a context manager it deletes its files unless closed well.

    task: the task's number. attempt: a number that no other attempt of this Spark application has.
    """

    def __init__(self, plan: LandingPlan, *, task: int, attempt: int) -> None:
        self.plan = plan
        self._task, self._attempt = task, attempt
        self._tables: dict[int, TableFiles] = {}
        self.passed = 0
        """Rows of tables that have landed before."""

    def __enter__(self) -> TaskWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.abort()

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch of rows (the schema that the sink's columns were made from).

        Raises:
            AddressChanged, NoRoute, RouteChanged, UnlandableRow: the rows cannot be landed as planned.
        """
        if not batch.num_rows:
            return
        if self.plan.sink.check_address is not None:
            _check_address(batch, self.plan.sink)
        for number, part in self._routed(batch):
            if number is None:
                self.passed += part.num_rows
            else:
                self._table(number).write(part)

    def close(self) -> list[WrittenFile]:
        """Finish all files and return their descriptions."""
        return [file for table in self._tables.values() for file in table.close()]

    def abort(self) -> None:
        """Delete all that was written, as far as the store allows; the clean-up after the commit removes the rest."""
        for table in self._tables.values():
            table.abort()

    def _table(self, number: int) -> TableFiles:
        if number not in self._tables:
            self._tables[number] = TableFiles(
                self.plan.tables[number], self.plan.owner, self.plan.options, self._task, self._attempt
            )
        return self._tables[number]

    def _routed(self, batch: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
        routes = self.plan.routes
        if routes is None:
            yield 0, batch
            return
        topics = batch.column(self.plan.route_column)
        targets: dict[int | None, list[str]] = {}
        for topic in pc.unique(topics).to_pylist():
            if topic not in routes:
                raise RouteChanged(topic) if self.plan.routed else NoRoute(topic)
            targets.setdefault(routes[topic], []).append(topic)
        if len(targets) == 1:
            yield next(iter(targets)), batch
            return
        for number, names in targets.items():
            mine = batch
            if number is not None:  # of rows that have the columns of other tables too, these are not copied
                written = set(self.plan.tables[number].columns.names)
                mine = batch.select([name for name in batch.schema.names if name in written])
            yield number, mine.filter(pc.is_in(topics, value_set=texts(names).cast(topics.type)))


def _check_address(batch: pa.RecordBatch, sink: SinkSchema) -> None:
    assert sink.address is not None and sink.check_address is not None  # noqa: PT018
    for own, copy in zip(sink.address, sink.check_address, strict=True):
        found, expected = batch.column(own), batch.column(copy)
        if found.type != expected.type:
            found = found.cast(expected.type)
        if not found.equals(expected):
            same = pc.fill_null(pc.equal(found, expected), False)
            at = pc.index(same, False).as_py()
            if at >= 0:
                raise AddressChanged(own, found[at].as_py(), expected[at].as_py())


class TableFiles:
    """The files that one task attempt writes to one table: one a partition at a time.

    _open: all that take rows. _begun: those of them that the store has open, the one that was written longest ago
    first, which is the next to be finished.
    """

    def __init__(self, table: TableWrite, owner: FileOwner, options: WriterOptions, task: int, attempt: int) -> None:
        self._columns = table.columns
        self._stats = table.stats
        self._uri = table.location.uri
        self._store = table.location.open_for_writing()
        self._owner, self._options, self._task, self._attempt = owner, options, task, attempt
        self._open: dict[Values, DataFile] = {}
        self._begun: OrderedDict[Values, DataFile] = OrderedDict()
        self._made = 0
        self._done: list[WrittenFile] = []
        self._buffered = 0
        self._schema = pa.schema([_file_field(f) for f in table.columns.file_schema])

    def write(self, rows: pa.RecordBatch) -> None:
        for values, part in split(
            conform(rows, self._columns, self._owner.run_id, self._uri), self._columns.partition_by
        ):
            file = self._file(values)
            self._buffered += file.append(part)
            if file.buffered_rows >= self._options.row_group_rows or file.buffered >= self._options.row_group_bytes:
                self._flush(values, file)
        if self._buffered > self._options.buffered_bytes:
            self._relieve()

    def close(self) -> list[WrittenFile]:
        for values in list(self._open):
            self._finish(values)
        return self._done

    def abort(self) -> None:
        for file in self._open.values():
            file.delete()
        for done in self._done:
            delete(self._store, done.path)

    def _file(self, values: Values) -> DataFile:
        file = self._open.get(values)
        if file is None:
            name = file_name(self._owner, self._made, self._task, self._attempt)
            path = folder(self._columns.partition_by, values) + name
            file = DataFile(self._store, path, self._schema, StatsCollector(self._stats, self._schema), self._options)
            self._open[values] = file
            self._made += 1
        return file

    def _relieve(self) -> None:
        """Write the largest row groups, until a quarter of the memory is free: not for each batch again."""
        for values, file in sorted(self._open.items(), key=lambda item: item[1].buffered, reverse=True):
            if self._buffered <= self._options.buffered_bytes * 3 // 4:
                break
            if self._open.get(values) is file:  # else it was finished to make place for another one
                self._flush(values, file)

    def _flush(self, values: Values, file: DataFile) -> None:
        if values not in self._begun and len(self._begun) >= self._options.open_files:
            self._finish(next(iter(self._begun)))
        self._buffered -= file.flush()
        self._begun[values] = file
        self._begun.move_to_end(values)
        if file.size >= self._options.file_bytes:
            self._finish(values)

    def _finish(self, values: Values) -> None:
        file = self._open[values]
        self._buffered -= file.buffered
        named = dict(zip(self._columns.partition_by, values, strict=True))
        self._done.append(file.close(self._uri, named))
        # Only now: of a file that cannot be closed, the store may have a part. A finished one is not kept, since its
        # writer holds some kilobytes for each column.
        del self._open[values]
        self._begun.pop(values, None)


# --- columns ---------------------------------------------------------------------------------------------------------


def conform(rows: pa.RecordBatch, columns: TableColumns, run_id: str, table: str) -> pa.RecordBatch:
    """Rows with the table's names and types, and `_kseg_run`. Columns that the sink does not land are left out.

    Raises:
        UnlandableRow: a null in a NOT NULL column (in one that the table is partitioned by an empty string is null), or
            a value that the type cannot hold.
    """
    arrays = []
    fields = []
    for name, target in zip(columns.names, columns.schema, strict=True):
        if name == RUN_COLUMN:
            arrays.append(_constant(run_id, rows.num_rows))
            fields.append(pa.field(target.name, _RUN_TYPE))
            continue
        column = rows.column(name)
        if column.type != target.type:
            try:
                column = pc.cast(column, target.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise UnlandableRow(name, f"does not become {target.type}: {error}", table=table) from error
        if target.name in columns.required:
            if column.null_count:
                raise UnlandableRow(name, "holds a null, and the table's column is NOT NULL", table=table)
            if target.name in columns.partition_by and target.type == pa.string() and _has_empty(column):
                message = "holds an empty string, which is null in a partition column, and the table's is NOT NULL"
                raise UnlandableRow(name, message, table=table)
        arrays.append(column)
        fields.append(_file_field(target))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _has_empty(column: pa.StringArray) -> bool:
    (empty,) = texts([""])
    return bool(pc.index(column, empty).as_py() >= 0)


def _file_field(column: pa.Field) -> pa.Field:
    return pa.field(column.name, _RUN_TYPE if column.name == RUN_COLUMN else column.type)


def _constant(value: str, rows: int) -> pa.DictionaryArray:
    # A dictionary of one: written without hashing a string for every row, which would cost as much as the topic.
    return pa.DictionaryArray.from_arrays(_zeros(max(rows, 1 << 16)).slice(0, rows), texts([value]))


@lru_cache(maxsize=4)
def _zeros(rows: int) -> pa.Array:
    return integers(np.zeros(rows, dtype=np.int32), pa.int32())
