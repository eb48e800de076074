"""Refusals of tables that are not as the ledger left them, or that cannot be written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Case, Entry

ACCEPT_TABLE: Final = (
    "restore the table as the ledger has it; or accept it as it is, which compares its rows with Kafka first: `kseg "
    "repair JOB --accept-table TABLE`"
)
"""What a person can do about a table that is not as the ledger left it."""

IN_ITS_PLACE: Final = "without one, put a new table of the rows that can be read in its place"
NEW_TABLE: Final = (
    f"{IN_ITS_PLACE}, and accept it, which compares its rows with Kafka first: `kseg repair JOB --accept-table TABLE`"
)
"""What a person can do about a table that cannot be read, and of which there is no copy."""

_WITHOUT_VERIFYING: Final = (
    "`kseg repair JOB --accept-table TABLE --no-verify` accepts it without comparing; missing rows are then landed "
    "again so: {again}"
)

_INCIDENT: Final = {
    "found": Case("{what}", ACCEPT_TABLE),
    "while accepting": Case("{what}", "repeat the command"),
}
"""Cases of what other writers have done to a table: `incidents_since` describes it."""

TABLES: Final[Mapping[str, Entry]] = {
    "commit-of-other-ranges": Entry(
        "the run's commit in a table has other ranges than planned: the table has two names",
        "`kseg repair JOB --abandon RUN`, then give the table one name",
        Case(
            "run {run} has landed other ranges there than it planned for {table}: the table has two names",
            "`kseg repair JOB --abandon {run}`; then give the table one name in the job file",
        ),
    ),
    "files-missing": Entry(
        "data files that a run has just committed were deleted from the store",
        "`kseg repair JOB --abandon RUN`, then run the job; VACUUM only with `kseg maintain`",
        {
            "committed": Case(
                "{count} data files that the run has committed were deleted, such as {first}: the table cannot be read",
                "`kseg repair JOB --abandon {run}` removes them from the table; then run the job again. VACUUM only "
                "with `kseg maintain`, or with a retention longer than a run",
            ),
            "while compacting": Case(
                "a data file is missing: {path}",
                "put it back; or take it out of the table's log, with deltalake's `DeltaTable.repair()`, and land its "
                "offsets again, which `kseg verify JOB` then lists",
            ),
        },
    ),
    "no-such-table": Entry(
        "the ledger has no table of this name",
        "`kseg status JOB` lists the names",
        Case("the ledger has no table {table}", "it has {tables}"),
    ),
    "table-append-only": Entry(
        "rows have to be removed from an append-only table",
        "unset `delta.appendOnly` on it, run the command again, set it again",
        Case(
            "rows have to be removed, and the table is append-only",
            "unset delta.appendOnly on the table, run the command again, then set it again",
        ),
    ),
    "table-changed": Entry(
        "columns or partitions changed while rows were written",
        "run the job again",
        Case("the table changed while rows were written for it: {what}", "start the run again"),
    ),
    "table-differs": Entry(
        "a table was to be accepted, and its rows differ from Kafka",
        "`kseg repair JOB --accept-table TABLE --no-verify`, then `kseg backfill --mode replace` where "
        "rows are missing",
        Case(
            "{findings} rows of the table differ from Kafka ({first})",
            f"`kseg verify JOB` lists the differences; {_WITHOUT_VERIFYING}",
        ),
    ),
    "table-lacks-files": Entry(
        "a table was to be accepted, and data files of it are not in the store",
        "restore them; or deltalake's `DeltaTable.repair()`, then `kseg backfill --mode replace` for their offsets",
        Case(
            "{count} data files of the table are not in the store: {first}",
            "put them back; or take them out of the table's log, with deltalake's `DeltaTable.repair()`, and land "
            "their offsets again, which `kseg verify` then lists: {again}",
        ),
    ),
    "table-log-damaged": Entry(
        "an entry or a checkpoint of the table's log is missing that cleaning the log leaves alone",
        "restore the file; or make a new table of the rows that can be read in its place, and `kseg repair JOB "
        "--accept-table TABLE`, after `kseg repair JOB --abandon RUN` where an unfinished run has landed there",
        {
            "entry": Case(
                "the file {entry} of the table's log is missing",
                f"put the file back from a copy of the table; {NEW_TABLE}",
            ),
            "checkpoint": Case(
                "the table's log begins with {oldest}, and the checkpoint of the entries before it is missing",
                "put the checkpoint's files back from a copy of the table (_delta_log/*.checkpoint.*); " + NEW_TABLE,
            ),
            "checkpoint not needed": Case(
                "the checkpoint that {hint} names is missing",
                "put the checkpoint's files back from a copy of the table, or delete {hint}: the first entry is there",
            ),
        },
    ),
    "table-lost-rows": Entry(
        "rows are gone from a table whose log was cleaned",
        "`kseg repair JOB --accept-table TABLE`",
        _INCIDENT,
    ),
    "table-missing": Entry(
        "a table that rows have landed in is gone",
        "restore it; or `kseg repair JOB --accept-table TABLE --no-verify`, then `kseg backfill JOB "
        "--mode replace --from … --to …`; with `sink.route_by` rebuild the ledger, then `kseg backfill JOB --mode "
        "missing --from … --to …`",
        {
            **_INCIDENT,
            "landed": Case(
                "rows have landed in a table that does not exist any more",
                "restore the table; or accept that it is gone, `kseg repair JOB --accept-table {table} --no-verify`, "
                "and land again what Kafka still has, {again}",
            ),
            "routed": Case(
                "rows have landed in a table that does not exist any more",
                "restore the table; or land again what Kafka still has: {again}",
            ),
            "gone before a commit": Case(
                "there is no table to commit to",
                "restore the table and run the same command again; without it the command creates a new table, or "
                "where rows have landed in the old one says how to accept that it is gone",
            ),
            "to be accepted": Case("there is no table to verify", _WITHOUT_VERIFYING),
            "dead letters": Case(
                "there is no dead-letter table",
                "restore the table, or give the run up: `kseg repair JOB --abandon {run}`",
            ),
        },
    ),
    "table-needs-spark-writer": Entry(
        "a feature was added to the table during a run",
        "run the job again: it chooses the writer again",
        Case(
            "only Spark's Delta writer can do this to the table: {reasons}",
            "start the run again: it chooses its writer by the table's features",
        ),
    ),
    "table-older-than-ledger": Entry(
        "an older copy of the table was restored, and others have written to it",
        "restore the newest copy, or `kseg repair JOB --accept-table TABLE`; a run that has landed there and has not "
        "ended is abandoned before, `kseg repair JOB --abandon RUN`",
        Case(
            "the table's last app transaction of {app_id} is {found}, and the ledger has {landed}: the table was "
            "replaced by an older copy",
            ACCEPT_TABLE,
        ),
    ),
    "table-overwritten": Entry(
        "another writer overwrote rows of the table",
        "`kseg repair JOB --accept-table TABLE`",
        _INCIDENT,
    ),
    "table-recreated": Entry(
        "the table was dropped and created again",
        "`kseg repair JOB --accept-table TABLE`",
        _INCIDENT,
    ),
    "table-replaced": Entry(
        "another writer replaced the table",
        "`kseg repair JOB --accept-table TABLE`",
        _INCIDENT,
    ),
    "table-restored": Entry(
        "the table was restored to an older version",
        "`kseg repair JOB --accept-table TABLE`; to undo the RESTORE, first RESTORE the newer version",
        _INCIDENT,
    ),
    "table-truncated": Entry(
        "all rows of the table were removed",
        "`kseg repair JOB --accept-table TABLE`",
        _INCIDENT,
    ),
    "table-went-back": Entry(
        "the table's log is shorter than it was: a copy was restored",
        "restore the newest copy, or `kseg repair JOB --accept-table TABLE`",
        _INCIDENT,
    ),
    "transaction-retention-set": Entry(
        "the table forgets app transactions",
        "unset `delta.setTransactionRetentionDuration` on it",
        Case(
            "{property} is {value}: the table forgets which runs have landed",
            "ALTER TABLE … UNSET TBLPROPERTIES ('{property}')",
        ),
    ),
}
