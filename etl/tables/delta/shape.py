"""Gives an empty table the columns, partitions and clustering that a corrected job file asks for: one log entry.

A run creates its tables before it reads. A first run that fails leaves a table with the columns of a job file that may
be wrong, and no rows. That table is kept: its id, its log and its app transactions stop attempts that were suspended.

    newest version v: made by this job, never a row ──► lease renewed ──► entry v + 1: metaData, protocol, domains

The entry has the actions with which the table's writer creates such a table now, with the table's own id. It is written
put-if-absent, so it is never made on another version than v: an attempt that was suspended after it had read the table
finds the entry of an abandonment, a landing or another change there. Neither writer offers this: delta-rs keeps
the partition columns, and `CREATE OR REPLACE TABLE` of Spark removes the rows that have landed since.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from deltalake import Schema

from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.conditional_put import put_new
from kseg.etl.ledger.run_ids import parse_run_id
from kseg.etl.tables.delta.log import commits_back, entry_path
from kseg.etl.tables.delta.snapshots import Snapshot
from kseg.etl.tables.delta.table import DeltaAccess, LostRace, table_schema
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.align import TableColumns, align, new_table
from kseg.etl.tables.parquet.schema import SinkSchema

Action = Mapping[str, Any]

CREATING: Final = ("protocol", "metaData", "domainMetadata")
"""The actions of a creation that make the table's shape (Delta protocol, "Actions")."""

_BY_OTHERS: Final = frozenset({"catalogManaged", "catalogOwned-preview", "inCommitTimestamp"})
"""Features of tables whose entries only a catalog or Spark may write."""

OPERATION: Final = "REPLACE COLUMNS"


def corrected(
    access: DeltaAccess, table: Snapshot, sink: SinkSchema, partition_by: Sequence[str], *, merge: bool, run_id: str
) -> TableColumns | None:
    """The columns of this table if it were created now; None if it has this shape, or has to keep its own.

    merge: further columns of the table are welcome, as rows of other topics may have them. run_id: of a run of the job.
    """
    if table.files():
        return None
    try:
        new = new_table(sink, partition_by, table=access.name)
    except IncompatibleSchema:
        return None  # no such table can be created; why is said by who creates or extends one
    if not _differs(table, sink, new, merge=merge, name=access.name):
        return None
    return new if may_change(access, table, run_id) else None


def _differs(table: Snapshot, sink: SinkSchema, new: TableColumns, *, merge: bool, name: str) -> bool:
    partition_by = table.metadata().partition_columns
    if tuple(partition_by) != new.partition_by:
        return True
    if not merge:
        return bool(json.loads(table.schema().to_json()) != json.loads(Schema.from_arrow(new.schema).to_json()))
    try:
        align(sink, table_schema(table), partition_by, table=name, merge_schema=True)
    except IncompatibleSchema:
        return True
    return False


def may_change(access: DeltaAccess, table: Snapshot, run_id: str) -> bool:
    """Whether the table's shape is the job's to change: runs of this job and ledger have made it, nobody else has
    changed its metadata, and it never had a row. False if the log no longer proves it.

    Raises:
        RetriableFailure, ConfigurationError: the store cannot be read.
    """
    mine, protocol = parse_run_id(run_id), table.protocol()
    if mine is None or _BY_OTHERS.intersection([*(protocol.writer_features or ()), *(protocol.reader_features or ())]):
        return False
    oldest = None
    for commit in commits_back(access.log, table.version()):
        by = parse_run_id(commit.run or "")
        shaped = commit.table_id is not None or commit.protocol or commit.domains  # a domain: clustering
        if commit.added or (shaped and (by is None or by.mark != mine.mark)):
            return False
        oldest = commit.version
    return oldest == 0


def created_locally(create: Callable[[str], object]) -> tuple[Action, ...]:
    """The actions with which `create` creates a table in the folder that it is given."""
    with TemporaryDirectory(prefix="kseg-shape-") as folder:
        create(folder)
        return creating_actions(Path(folder, entry_path(0)).read_text())


def creating_actions(entry: str) -> tuple[Action, ...]:
    """The actions that make a table's shape, of a log entry's text."""
    actions = [json.loads(line) for line in entry.split("\n") if line.strip()]
    return tuple(action for action in actions if action.keys() & set(CREATING))


def change_shape(access: DeltaAccess, table: Snapshot, created: Sequence[Action], run_id: str) -> None:
    """Commit a shape as the version after this snapshot. created: the actions of a creation.

    Raises:
        LostRace: the table has a newer version.
        ConfigurationError: the store takes no single file; or it rejects settings or credentials.
        RetriableFailure: the store does not respond.
    """
    metadata = table.metadata()
    kept = {"id": str(metadata.id), "createdTime": metadata.created_time}
    actions = [
        {"metaData": {**body, **kept}} if (body := action.get("metaData")) is not None else action for action in created
    ]
    info = {
        "timestamp": time.time_ns() // 1_000_000,
        "operation": OPERATION,
        "operationParameters": {},
        "isBlindAppend": False,
        "engineInfo": "kseg",
        "kseg": {"run": run_id},
    }
    entry = "\n".join(json.dumps(action) for action in ({"commitInfo": info}, *actions))
    written = put_new(
        access.location.uri,
        dict(access.location.options),
        entry_path(table.version() + 1),
        entry.encode(),
        setting="sink",
        table=access.name,
    )
    if written is None:
        raise ConfigurationError.of(
            "sink",
            f"{access.name} was made with other columns or partitions by an earlier run of this job, and this store "
            "does not let kseg change them",
            "delete the table's folder: no row has ever landed in it, and the next run creates it",
        )
    if not written:
        raise LostRace
