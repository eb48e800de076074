"""Creates a Delta table for a sink's rows, corrects one that never had a row, or adds columns that it lacks: each in a
commit of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

import pyarrow as pa
from deltalake import Schema
from deltalake.exceptions import DeltaError

from kseg.etl.tables.delta.features import refuse_retention
from kseg.etl.tables.delta.shape import change_shape, corrected, created_locally
from kseg.etl.tables.delta.snapshots import Snapshot
from kseg.etl.tables.delta.table import DeltaAccess, commit_properties, table_properties, table_schema
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.align import TableColumns, align, new_table
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.parquet.statistics import StatsSpec, properties_for
from kseg.etl.tables.parquet.writer import TableWrite
from kseg.etl.tables.protocol import NO_PROPERTIES
from kseg.etl.tables.values import ReadyTable

NTZ_FEATURE: Final = "timestampNtz"
"""The table feature of timestamps without a zone (Delta protocol, "Timestamp without timezone")."""


class CheckStore(Protocol):
    """Raises ConfigurationError where the table's store is not put-if-absent. making: the table is to be created."""

    def __call__(self, *, making: bool) -> None: ...


def ensure(
    access: DeltaAccess,
    sink: SinkSchema,
    partition_by: Sequence[str],
    check_store: CheckStore,
    *,
    merge_schema: bool,
    run_id: str | None,
    properties: Mapping[str, str] = NO_PROPERTIES,
    reshape: Callable[[], None] | None,
) -> ReadyTable:
    """See `etl.tables.protocol.FileTarget.ensure`."""

    def attempt() -> ReadyTable:
        table = access.look()
        check_store(making=table is None)
        if table is not None and run_id is not None and reshape is not None:
            new = corrected(access, table, sink, partition_by, merge=merge_schema, run_id=run_id)
            if new is not None:
                reshape()
                make = partial(create, sink=sink, columns=new, run_id=run_id, properties=properties)
                created = created_locally(make)
                change_shape(access, table, created, run_id)
                table = access.look()
        columns = _fit(access.name, table, sink, partition_by, merge_schema)
        _refuse_unreadable(access.name, table, columns)
        if table is None:
            table = access.made(lambda: _create(access, sink, columns, run_id, properties))
        elif len(columns.added):
            table = _add_columns(access, table, columns.added, run_id)
        if not properties.items() <= table_properties(table).items() and table.state().rows == 0:
            set_properties(access, table, properties, run_id)
        stats = StatsSpec.of(columns.table_schema, columns.partition_by, table_properties(table))
        return ReadyTable(TableWrite(access.location, columns, stats), table.state())

    return access.until_deadline(attempt)


def _fit(
    name: str, table: Snapshot | None, sink: SinkSchema, partition_by: Sequence[str], merge_schema: bool
) -> TableColumns:
    if table is None:
        return new_table(sink, partition_by, table=name)
    refuse_retention(name, table_properties(table))
    return align(
        sink,
        table_schema(table),
        table.metadata().partition_columns,
        table=name,
        asked_partition_by=partition_by,
        merge_schema=merge_schema,
    )


def _refuse_unreadable(name: str, table: Snapshot | None, columns: TableColumns) -> None:
    """Refuse what would make the table unreadable: timestamps without a zone and without the table feature for them.

    delta-rs (1.6.6) adds the feature with columns, structs and lists of this type. It does not look into maps, commits
    all the same, and then nobody can load the table.

    Raises:
        IncompatibleSchema: the type is inside maps alone, and the table lacks the feature.
    """
    if table is not None and NTZ_FEATURE in (table.protocol().reader_features or ()):
        return
    in_maps = {column.name: set(_ntz(column.type)) for column in (columns.schema if table is None else columns.added)}
    if any(False in places for places in in_maps.values()):
        return
    message = "a timestamp_ntz inside a map needs the table feature timestampNtz, which delta-rs does not add for it"
    remedy = (
        "cast it to timestamp in the transform; or have the table made by Spark, or the feature added by it: ALTER "
        f"TABLE … SET TBLPROPERTIES ('delta.feature.{NTZ_FEATURE}' = 'supported')"
    )
    if faults := [(column, message, remedy) for column, places in in_maps.items() if places]:
        raise IncompatibleSchema(name, faults)


def _ntz(kind: pa.DataType, inside_map: bool = False) -> Iterator[bool]:
    """For each timestamp without a zone in a type whether it is inside a map."""
    if pa.types.is_timestamp(kind) and kind.tz is None:
        yield inside_map
    for number in range(kind.num_fields):
        yield from _ntz(kind.field(number).type, inside_map or pa.types.is_map(kind))


def _create(
    access: DeltaAccess, sink: SinkSchema, columns: TableColumns, run_id: str | None, properties: Mapping[str, str]
) -> Snapshot:
    uri, options = access.location.uri, access.location.storage_options
    try:
        return create(uri, sink=sink, columns=columns, run_id=run_id, properties=properties, storage_options=options)
    except (DeltaError, OSError) as error:
        raise access.race_or(error, None) from error


def create(
    uri: str,
    *,
    sink: SinkSchema,
    columns: TableColumns,
    run_id: str | None,
    properties: Mapping[str, str],
    storage_options: dict[str, str] | None = None,
) -> Snapshot:
    """Create a table for these columns. Raises DeltaError, OSError."""
    # With retries of its own, delta-rs lets the loser of a race commit its metadata as version 1: the table
    # would change its id under the winner.
    made = Snapshot.create(
        uri,
        Schema.from_arrow(columns.schema),
        mode="error",
        partition_by=list(columns.partition_by),
        configuration={**properties_for(columns.schema, columns.partition_by, sink.address or ()), **properties},
        storage_options=storage_options,
        raise_if_key_not_exists=False,  # of properties that are not Delta's own
        commit_properties=commit_properties({"run": run_id}),
    )
    assert isinstance(made, Snapshot)
    return made


def _add_columns(access: DeltaAccess, table: Snapshot, added: pa.Schema, run_id: str | None) -> Snapshot:
    version = table.version()
    fields = list(Schema.from_arrow(added).fields)
    try:
        table.alter.add_columns(fields, commit_properties=commit_properties({"run": run_id}))
    except (DeltaError, OSError) as error:
        raise access.race_or(error, version) from error
    return table


def set_properties(access: DeltaAccess, table: Snapshot, properties: Mapping[str, str], run_id: str | None) -> None:
    """Set properties as the version after this snapshot. Raises LostRace: the table has a newer one."""
    version = table.version()
    try:
        # As in `_create`: not all of them are Delta's own.
        table.alter.set_table_properties(
            dict(properties), raise_if_not_exists=False, commit_properties=commit_properties({"run": run_id})
        )
    except (DeltaError, OSError) as error:
        raise access.race_or(error, version) from error
