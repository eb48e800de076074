"""Gives a table that Spark has made, and that never had a row, another shape (`etl.tables.delta.shape`)."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow.fs as pafs

from kseg.etl.tables.delta.log import entry_path
from kseg.etl.tables.delta.shape import Action, change_shape, creating_actions, may_change
from kseg.etl.tables.delta.snapshots import Snapshot
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.parquet.storage import Opened
from kseg.etl.tables.removal import quoted
from kseg.etl.tables.spark.create import NewTable

SCRATCH: Final = "_kseg", "shape-"
"""The folder inside of a table's in which the new shape is made, and how the names there begin."""

SCRATCH_KEPT: Final = timedelta(days=1)
"""Making a shape takes seconds."""


def correct(
    new: NewTable,
    load: Callable[[], tuple[DeltaAccess, Snapshot]],
    create: Callable[[str], None],
    place: str,
    run_id: str,
    before: Iterable[Callable[[], None]],
    *,
    merge: bool,
) -> Snapshot:
    """The table, changed if it was not as it would be made now, and is the job's to change.

    load: the table's newest snapshot. create: runs a statement that creates a table. place: the table's folder, as
    Spark names it. before: called right before each try of the change. merge: as of `FrameTarget.ensure`.

    Raises:
        TableBusy: other writers repeatedly committed first.
        what these functions and `change_shape` raise.
    """

    def attempt() -> Snapshot:
        access, table = load()
        if table.files() or not new.differs(table, access.clustering_columns(), merge=merge):
            return table
        if may_change(access, table, run_id):
            created = _created_beside(access, new, create, place)
            for check in before:
                check()
            change_shape(access, table, created, run_id)
        return load()[1]

    return load()[0].until_deadline(attempt)


def _created_beside(
    access: DeltaAccess, new: NewTable, create: Callable[[str], None], place: str
) -> tuple[Action, ...]:
    """The actions with which Spark creates such a table: of one that it creates inside of this table's folder."""
    store, folder = access.location.open(), f"{'/'.join(SCRATCH)}{uuid.uuid4().hex}"
    scratch = f"{place.rstrip('/')}/{folder}"
    entry = store.path(f"{folder}/{entry_path(0)}")
    try:
        create(new.create(f"delta.{quoted(scratch)}"))
        with store.asked("cannot read a table's log"), store.fs.open_input_stream(entry) as stream:
            return creating_actions(bytes(stream.read()).decode())
    finally:
        with contextlib.suppress(OSError):
            store.fs.delete_dir(store.path(folder))


def delete_old_scratch(store: Opened) -> int:
    """Delete what processes that died while they made a shape have left for a day or longer; returns how many.

    store: opened at the table's folder. Folders that cannot be listed or deleted are skipped.
    """
    parent, prefix = SCRATCH
    deleted = 0
    with contextlib.suppress(OSError):
        for folder in store.fs.get_file_info(pafs.FileSelector(store.path(parent), allow_not_found=True)):
            if folder.type != pafs.FileType.Directory or not folder.base_name.startswith(prefix):
                continue
            files = store.fs.get_file_info(pafs.FileSelector(folder.path, recursive=True))
            written = [info.mtime for info in (folder, *files) if info.mtime is not None]
            if written and max(written) < datetime.now(UTC) - SCRATCH_KEPT:
                store.fs.delete_dir(folder.path)
                deleted += 1
    return deleted
