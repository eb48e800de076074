"""A ledger's Delta table: found or created, and told from tables that are none."""

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
    # Whoever loads the table reads all commits since the last checkpoint several times: on an object store that is most
    # of what a short run waits for. A run makes seven or eight commits.
    "delta.checkpointInterval": "10",
    # Payloads are long and nothing is pruned by them.
    "delta.dataSkippingStatsColumns": "seq,written_at,chain,run_id,kind",
    # How far back the log itself can be read. A writer suspended between read and commit for longer than this could
    # commit under a version number that was cleaned up; everything else is decided by the events, not by the log.
    "delta.logRetentionDuration": "interval 7 days",
}


def load(location: str, options: dict[str, str]) -> DeltaTable | None:
    """None where there is no table. Raises what delta-rs raises."""
    try:
        return DeltaTable(location, storage_options=options or None)
    except TableNotFoundError:
        return None


def create(location: str, options: dict[str, str]) -> DeltaTable:
    """A new ledger, or the one that another process has made meanwhile. Raises DeltaError."""
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
            # With retries, who loses the race for version 0 commits version 1: the same table with another id.
            commit_properties=CommitProperties(max_commit_retries=0, custom_metadata={NAME: secrets.token_hex(8)}),
            raise_if_key_not_exists=False,
        )
    except DeltaError:
        # Another process made it at the same moment: the log's version 0 is put only if absent.
        table = load(location, options)
        if table is None:
            raise
        return table


def refuse_lost(location: str, options: dict[str, str]) -> None:
    """Raises Refused where the files of a ledger are there and its log is not."""
    if "://" in location or not Path(location).is_dir():
        return
    # Looked for again: another process may have made it, and written to it, since there was none.
    if any(Path(location).glob("job=*/*.parquet")) and load(location, options) is None:
        raise Refused(
            "ledger-damaged",
            "there are a ledger's files but no log to them; a new ledger here would land everything again",
            remedy="restore the _delta_log directory, or give the job another `ledger` path on purpose",
            ledger=location,
        )


def unsafe(message: str, remedy: str, location: str) -> Refused:
    return Refused("ledger-unsafe-store", message, remedy=remedy, ledger=location)


def check_is_ledger(table: DeltaTable, location: str) -> None:
    """Raises Refused: it is another table, or a later release's ledger."""
    written = table.metadata().configuration.get(FORMAT_KEY)
    if written is None:
        raise Refused(
            "ledger-foreign",
            "the Delta table at this path is not a ledger",
            remedy="give the ledger a path of its own, not that of a sink",
            ledger=location,
        )
    if int(written) > codec.FORMAT:
        raise Refused(
            "ledger-newer",
            f"the ledger has format {written}, this release knows {codec.FORMAT}",
            remedy="a later release of kseg has created this ledger: use that release",
            ledger=location,
        )
