"""Loads or creates a ledger's Delta table, and refuses tables that are not ledgers."""

from __future__ import annotations

import secrets
from pathlib import Path

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from kseg.etl.errors import Refused
from kseg.etl.ledger import codec
from kseg.etl.ledger.table_objects import NAME

FORMAT_KEY = "kseg.ledgerFormat"

CONFIGURATION = {
    FORMAT_KEY: str(codec.FORMAT),
    # Loading the table reads all commits since the last checkpoint several times: on an object store this is most of
    # the time of a short run. A run makes seven or eight commits.
    "delta.checkpointInterval": "10",
    # Payloads are long, and no query skips files by them.
    "delta.dataSkippingStatsColumns": "seq,written_at,chain,run_id,kind",
    # How far back the Delta log can be read. A writer that is suspended between read and commit for longer than this
    # could commit a version that log cleanup has removed; all other decisions depend on events, not on the log.
    "delta.logRetentionDuration": "interval 7 days",
}


def load(location: str, options: dict[str, str]) -> DeltaTable | None:
    """The table; None if there is none. Raises what delta-rs raises."""
    try:
        return DeltaTable(location, storage_options=options or None)
    except TableNotFoundError:
        return None


def create(location: str, options: dict[str, str]) -> DeltaTable:
    """A new ledger, or the one that another process has created meanwhile. Raises DeltaError."""
    try:
        return DeltaTable.create(
            location,
            Schema.from_arrow(codec.SCHEMA),
            mode="error",
            partition_by=["job"],
            name="kseg_ledger",
            description="Append-only events of kafka-segment-etl jobs; written by kseg alone.",
            configuration=CONFIGURATION,
            storage_options=options or None,
            # With retries, the loser of a race for version 0 would commit version 1: the same table with another id.
            commit_properties=CommitProperties(max_commit_retries=0, custom_metadata={NAME: secrets.token_hex(8)}),
            raise_if_key_not_exists=False,
        )
    except DeltaError:
        # Another process has created it at the same moment: version 0 of the log is put-if-absent.
        table = load(location, options)
        if table is None:
            raise
        return table


def refuse_lost(location: str, options: dict[str, str]) -> None:
    """Raises Refused if there are files of a ledger, but no Delta log."""
    if "://" in location or not Path(location).is_dir():
        return
    # Load again: another process may have created the ledger, and written to it, in the meantime.
    if any(Path(location).glob("job=*/*.parquet")) and load(location, options) is None:
        raise Refused.of("ledger-damaged", case="no log", ledger=location)


def unsafe(option: str, location: str) -> Refused:
    """The refusal of a store whose options let two writers overwrite each other."""
    return Refused.of("ledger-unsafe-store", {"option": option}, ledger=location)


def check_is_ledger(table: DeltaTable, location: str) -> None:
    """Raises Refused: the table is not a ledger, or a ledger of a later release."""
    written = table.metadata().configuration.get(FORMAT_KEY)
    if written is None:
        raise Refused.of("ledger-foreign", case="no ledger", ledger=location)
    if int(written) > codec.FORMAT:
        raise Refused.of("ledger-newer", {"written": written, "known": codec.FORMAT}, case="format", ledger=location)
