"""How a job's rows fit a table that is already there: names, types, partitioning, NOT NULL, columns to add.

Names are matched without case, as Delta resolves them, and files are written with the table's own spelling. A value
may be widened to the table's type (int to bigint, float to double, a decimal with more digits), never narrowed. A table
whose type is narrower than the rows' is widened only where the job says so (`sink.widen`), by Spark's own writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from kseg.etl.rows.names import LATE_COLUMN, AddressColumns
from kseg.etl.rows.types import UnlandableType, delta_type
from kseg.etl.rows.widening import INTEGERS, Fit, Widening, fit, with_nulls_of
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.layout import PARTITIONS
from kseg.etl.tables.parquet.schema import SinkSchema, derived_as, spark_type
from kseg.segment_reader.payload.ddl import type_name

Found = tuple[str, str, str | None]

_BUCKET: Final = re.compile(r"bucket\(\d+, (.*)\)", re.DOTALL)
_HASHED_AS_INT: Final = INTEGERS[:3]
"""Types whose hash is that of 32 bits, as Spark's is."""

BY_SPARK: Final = (
    "convert it in the transform, such as a variant with to_json; or land in a table that Spark writes: a new one with "
    "sink.cluster_by, or one of a catalog"
)


@dataclass(frozen=True, slots=True)
class TableColumns:
    """How a sink's columns are written to one table.

    names: the sink's column for each field of `schema`, as the rows call it. schema: the table's names and types of
    what is written, with the partition columns, in the sink's order. table_schema: all columns of the table, with those
    to be added. partition_by: the table's. required: NOT NULL columns. added: columns that the table does not have yet,
    and structs that lack fields.
    """

    names: tuple[str, ...]
    schema: pa.Schema
    table_schema: pa.Schema
    partition_by: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    added: pa.Schema = field(default_factory=lambda: pa.schema([]))

    @property
    def file_schema(self) -> pa.Schema:
        """The columns inside a data file: those that are not partition columns."""
        return pa.schema([column for column in self.schema if column.name not in self.partition_by])

    def in_table(self, name: str) -> str:
        """The table's spelling of a sink column."""
        return str(self.schema.field(self.names.index(name)).name)

    def address(self, sink: SinkSchema) -> AddressColumns | None:
        """The sink's address columns as the table spells them."""
        if sink.address is None:
            return None
        return AddressColumns(*(self.in_table(name) for name in sink.address))


def new_table(sink: SinkSchema, partition_by: Sequence[str], *, table: str) -> TableColumns:
    """The columns of a table that this sink creates.

    Raises:
        IncompatibleSchema: a partition column is missing, has no type to partition by, or nothing else is left.
    """
    return align(sink, sink.columns, partition_by, table=table, asked_partition_by=partition_by)


def align(
    sink: SinkSchema,
    table_schema: pa.Schema,
    table_partition_by: Sequence[str],
    *,
    table: str,
    asked_partition_by: Sequence[str] = (),
    merge_schema: bool = False,
    widen: bool = False,
) -> TableColumns:
    """Fit the sink's columns to a table.

    table_schema, table_partition_by: as the table has them. asked_partition_by: the job's own; empty takes the table's.
    widen: types of the table may become wider.

    Raises:
        IncompatibleSchema: with a fault for every column that does not fit.
    """
    faults: list[Found] = []
    unfit = False
    spelled = {f.name.lower(): f for f in table_schema}
    written: list[pa.Field] = []
    added: list[pa.Field] = []
    wider: dict[str, pa.Field] = {}
    partitions = {name.lower() for name in table_partition_by}
    hashed = _hashed(there for there in table_schema if there.name.lower() in partitions)
    hashed_rows = _hashed(sink.columns)
    for column in sink.columns:
        there = spelled.get(column.name.lower())
        if (of_spark := spark_type(column)) is not None:
            faults.append((column.name, f"only Spark's own writer can write values of the type {of_spark}", BY_SPARK))
            written.append(column if there is None else there)
            continue
        if there is None:
            # `_kseg_late` needs no permission: the job file's section `interval:` asks for it.
            if not merge_schema and column.name != LATE_COLUMN:
                faults.append(
                    (
                        column.name,
                        f"the table has no such column ({type_name(column.type)})",
                        "set sink.merge_schema: true to add it",
                    )
                )
            added.append(column)
            written.append(column)
            continue
        found = fit(column.type, delta_type(there.type), there.name)
        if found is not None and widen and not kept_types(found.widened, table_partition_by, hashed):
            wider[there.name] = there.with_type(with_nulls_of(found.whole, there.type))
        elif found is None or found.widened:
            unfit = True
            faults.append(type_fault(column, there, found, table_partition_by, hashed, sink))
        if found is not None and found.grows:
            # Fields within a struct are added as columns are.
            if not merge_schema:
                message = f"the table has {type_name(there.type)}, the rows have more: {type_name(column.type)}"
                faults.append((column.name, message, "set sink.merge_schema: true to add them"))
            added.append(pa.field(there.name, with_nulls_of(found.whole, there.type), nullable=there.nullable))
        faults += derived_faults(column, there)
        faults += _bucket_faults(column, there, hashed_rows, sink)
        written.append(
            pa.field(there.name, found.written if found is not None else there.type, metadata=there.metadata)
        )
    names = {f.name for f in written}
    faults += [
        (f.name, "the table's column is NOT NULL and the rows do not have it", "add it in the transform")
        for f in table_schema
        if not f.nullable and f.name not in names
    ]
    grown = wider | {f.name: f for f in added if f.name.lower() in spelled}
    full = pa.schema([*(grown.get(f.name, f) for f in table_schema), *(f for f in added if f.name not in grown)])
    partition_by = tuple(table_partition_by)
    faults += _partition_faults(full, names, partition_by, tuple(asked_partition_by))
    if faults:
        raise IncompatibleSchema(table, faults, side_by_side(sink.columns, table_schema) if unfit else "")
    sources = dict(sink.sources)
    return TableColumns(
        names=tuple(sources.get(name, name) for name in sink.columns.names),
        schema=pa.schema(written),
        table_schema=full,
        partition_by=tuple(spelled[name.lower()].name for name in partition_by),
        required=frozenset(f.name for f in table_schema if not f.nullable),
        added=pa.schema(added),
    )


def side_by_side(rows: pa.Schema, table: pa.Schema) -> str:
    """The columns of both, a line each: those of the rows, then those that the table alone has."""
    spelled = {field.name.lower(): field for field in table}
    lines = [("the rows", "the table")]
    lines += [(_shown(column), _shown(spelled.pop(column.name.lower(), None))) for column in rows]
    lines += [(_shown(None), _shown(field)) for field in spelled.values()]
    wide = max(len(left) for left, _ in lines)
    return "\n".join(f"  {left.ljust(wide)}  {right}" for left, right in lines)


def _shown(field: pa.Field | None) -> str:
    return f"{field.name}: {spark_type(field) or type_name(field.type)}" if field is not None else "-"


def _as_in_table(column: pa.Field, there: pa.Field, sink: SinkSchema) -> str:
    """How the rows' column gets the table's type."""
    if (place := dict(sink.declared).get(column.name)) is not None:
        return f"write {place}: {type_name(there.type)}"
    return f"cast it to {type_name(there.type)} in the transform"


def type_fault(
    column: pa.Field,
    there: pa.Field,
    found: Fit | None,
    partition_by: Sequence[str],
    hashed: Mapping[str, pa.Field],
    sink: SinkSchema,
) -> Found:
    """Why a column of the rows does not fit the table's type, and whether `sink.widen` helps. found: as `fit` says.
    hashed: as of `kept_types`. sink: the rows'."""
    cast = _as_in_table(column, there, sink)
    message = f"the rows have {type_name(column.type)}, the table has {type_name(there.type)}"
    if found is None or not found.widened:
        return (column.name, message, f"{cast}; or land in a new table")
    if kept := kept_types(found.widened, partition_by, hashed):
        return (column.name, f"{message}, {kept}", f"{cast}; or land in a new table")
    remedy = (
        "set sink.widen: true to widen the table's column, for good: its rows are then landed by Spark's own writer, "
        f"and delta-rs cannot read them; or {cast}"
    )
    return (column.name, message, remedy)


def kept_types(widened: Sequence[Widening], partition_by: Sequence[str], hashed: Mapping[str, pa.Field]) -> str | None:
    """Why the types of a table's column have to stay as they are; None where they may be widened.

    hashed: of the table's partition columns, as `_hashed` gives it.
    """
    partitions = {name.lower() for name in partition_by}
    for change in widened:
        name = change.path[0].lower()
        if name in partitions and change.after not in INTEGERS:
            return f"and the table is partitioned by it: its partitions are named as {change.before}"
        made = hashed.get(name)
        if made is not None and change.after not in _HASHED_AS_INT:
            return (
                f"and its partition column {made.name} is made by {derived_as(made)}, which differs between these types"
            )
    return None


def _hashed(columns: Iterable[pa.Field]) -> dict[str, pa.Field]:
    """The columns among these that are hashes of others, by the names of these in lower case."""
    found: dict[str, pa.Field] = {}
    for made in columns:
        bucket = _BUCKET.fullmatch(derived_as(made) or "")
        if bucket is not None:
            found.setdefault(bucket[1].lower(), made)
    return found


def type_changes(
    sink: SinkSchema, table_schema: pa.Schema, partition_by: Sequence[str], *, table: str, widen: bool
) -> tuple[Widening, ...]:
    """What has to become wider in a table for these rows. Columns of which this is not known are left out.

    Raises:
        IncompatibleSchema: something has to, and may not.
    """
    changes: list[Widening] = []
    faults: list[Found] = []
    partitions = {name.lower() for name in partition_by}
    hashed = _hashed(there for there in table_schema if there.name.lower() in partitions)
    for column, there, found in fits(sink, table_schema):
        if found is not None and found.widened:
            changes += found.widened
            if not widen or kept_types(found.widened, partition_by, hashed):
                faults.append(type_fault(column, there, found, partition_by, hashed, sink))
    if faults:
        raise IncompatibleSchema(table, faults, side_by_side(sink.columns, table_schema))
    return tuple(changes)


def fits(sink: SinkSchema, table_schema: pa.Schema) -> Iterator[tuple[pa.Field, pa.Field, Fit | None]]:
    """The sink's columns that a table has, the table's own, and how they fit."""
    spelled = {field.name.lower(): field for field in table_schema}
    for column in sink.columns:
        there = spelled.get(column.name.lower())
        if there is not None:
            with suppress(UnlandableType):  # a type that only Spark knows
                yield column, there, fit(column.type, delta_type(there.type), there.name)


def derived_faults(column: pa.Field, there: pa.Field) -> list[Found]:
    """Values of one partition column that are made in two ways would leave rows where nobody asks for them."""
    asked, made = derived_as(column), derived_as(there)
    if asked is None or made is None or asked == made:
        return []
    message = f"the table's column is made by {made}, the job makes it by {asked}"
    return [(there.name, message, "write it as the table has it, or land in a new table")]


def _bucket_faults(column: pa.Field, there: pa.Field, hashed: Mapping[str, pa.Field], sink: SinkSchema) -> list[Found]:
    """Rows whose bucket is made of a shorter type than the table's: queries compute it from the table's. hashed: of
    the rows' columns."""
    made = hashed.get(there.name.lower())
    if made is None or column.type not in _HASHED_AS_INT or there.type != pa.int64():
        return []
    message = (
        f"the rows have {type_name(column.type)}, the table has {type_name(there.type)}, and {derived_as(made)} "
        "differs between these types"
    )
    return [(column.name, message, _as_in_table(column, there, sink))]


def other_partitions(partition_by: Sequence[str], asked: Sequence[str]) -> list[Found]:
    """Findings if a table's partition columns are not those of the job; none for a job without partition columns."""
    if not asked or [name.lower() for name in asked] == [name.lower() for name in partition_by]:
        return []
    message = f"asked for {', '.join(asked)}, the table is partitioned by {', '.join(partition_by) or 'nothing'}"
    return [("partition_by", message, "leave partition_by out, or land in a new table")]


def _partition_faults(
    columns: pa.Schema, written: set[str], partition_by: tuple[str, ...], asked: tuple[str, ...]
) -> list[Found]:
    if faults := other_partitions(partition_by, asked):
        return faults
    rows = pa.schema([field for field in columns if field.name in written])
    faults = [(partition_by[at], message, remedy) for at, message, remedy in PARTITIONS.faults(rows, partition_by)]
    if len(partition_by) >= len(columns):
        faults.append(("partition_by", "nothing would be left inside the files", "leave a column out of partition_by"))
    return faults
