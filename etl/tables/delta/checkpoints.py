"""Checkpoints of a table's log, so that reading a table does not take longer with each run.

A reader gets every log entry since the last checkpoint, twice. Delta on Spark writes a checkpoint every 10 versions;
delta-rs does so every 100, unless the table's property says otherwise, and only in the commit that makes a multiple of
it. So whoever commits here writes the one that is due.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from kseg.etl.tables.delta.table import table_properties
from kseg.etl.tables.parquet.storage import Opened

INTERVAL_PROPERTY: Final = "delta.checkpointInterval"
DEFAULT_INTERVAL: Final = 10
"""Versions from one checkpoint to the next where the table does not say; as Delta on Spark."""

_LAST_CHECKPOINT: Final = "_delta_log/_last_checkpoint"


def write_checkpoint_if_due(table: DeltaTable, store: Opened) -> None:
    """Write a checkpoint of this snapshot if the last one is as many versions older as the table's property says.

    Raises nothing of the store's: a reader without this checkpoint reads more log entries, and the next commit tries
    again.
    """
    with suppress(DeltaError, OSError, pa.ArrowException, ValueError):
        interval = int(table_properties(table).get(INTERVAL_PROPERTY, DEFAULT_INTERVAL))
        if table.version() - _last_checkpoint(store) >= interval:
            table.create_checkpoint()


def _last_checkpoint(store: Opened) -> int:
    """The version of the newest checkpoint, by the log's own pointer; -1 where there is none."""
    try:
        with store.fs.open_input_stream(store.path(_LAST_CHECKPOINT)) as stream:
            return int(json.loads(bytes(stream.read()))["version"])
    except FileNotFoundError:
        return -1
