"""Refusals of a ledger that is missing, damaged, older or newer, and of making a new one from the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Case, Entry

_NEWER_LEDGER: Final = (
    "use the newest copy of this ledger: this one was restored from an older one. If there is no newer one, move the "
    "ledger's whole folder away, and make a new one from the tables for each of its jobs: `kseg repair JOB "
    "--rebuild-ledger`"
)

LEDGER: Final[Mapping[str, Entry]] = {
    "ledger-damaged": Entry(
        "events are missing or contradict each other",
        "restore the ledger's newest copy; without one, as `ledger-older-than-table`",
    ),
    "ledger-exists": Entry(
        "a ledger was to be rebuilt, and it knows the job",
        "nothing to do; if it is damaged, or older than the tables, move it away first",
    ),
    "ledger-foreign": Entry(
        "the table at the ledger's path is not a ledger, or another one",
        "correct `ledger` in the job file, or restore the directory",
    ),
    "ledger-lost": Entry(
        "a table or the group shows that the job landed with another ledger",
        "correct `ledger` in the job file; if that ledger is lost, `kseg repair JOB --rebuild-ledger`, "
        "or `kseg ingest JOB --accept-group-offsets`, which continues from the group's offsets",
    ),
    "ledger-missing": Entry(
        "there is no ledger, and the command needs one",
        "correct `ledger` in the job file; the first `kseg ingest JOB` makes one",
    ),
    "ledger-newer": Entry(
        "a later release has written to the ledger",
        "use that release",
    ),
    "ledger-older": Entry(
        "the group has offsets that were committed with this ledger, and it does not know them",
        "restore the ledger's newest copy; without one, as `ledger-older-than-table`",
        {
            "end": Case(
                "group {group} was committed up to {offset} by this ledger, which ends at {end}", _NEWER_LEDGER
            ),
            "no offsets": Case(
                "group {group} was committed up to {offset} by this ledger, which has nothing on this partition",
                _NEWER_LEDGER,
            ),
        },
    ),
    "ledger-older-than-table": Entry(
        "a table has runs of this ledger that it does not know, or a new ledger was made from the table",
        "use the new ledger, or restore this one's newest copy; without one, move the whole ledger away,"
        " then `kseg repair JOB --rebuild-ledger` for each of its jobs",
        {
            "run": Case(
                "the table has app transaction {done} of this chain, and the run is number {asked}", _NEWER_LEDGER
            ),
            "plans": Case(
                "the table has app transaction {version} of {chain}, and the ledger has planned {known}", _NEWER_LEDGER
            ),
            "other run": Case(
                "run {other} has landed under the number of run {run}, and this ledger does not know it: there is "
                "another copy of the ledger, which is in use",
                _NEWER_LEDGER,
            ),
            "closed": Case(
                "a new ledger was made from this table in place of the run's own (`kseg repair JOB --rebuild-ledger`), "
                "and counts as not landed what is not there",
                "use the new ledger: it lands what this run has not",
            ),
        },
    ),
    "ledger-unsafe-store": Entry(
        "options of the store let two writers overwrite each other",
        "unset the options that the message names",
    ),
    "nothing-landed": Entry(
        "a ledger was to be rebuilt, and no table has rows of the job",
        "correct `name` and `sink` in the job file; a new job needs no rebuilding",
    ),
    "rows-beyond-log": Entry(
        "a ledger was to be rebuilt, and rows lie beyond the log's end",
        "correct `bootstrap.servers`; if the topic was recreated, `kseg repair JOB --rebuild-ledger --accept-source "
        "TOPIC` ([a lost ledger](../guides/replacing.md#a-lost-ledger))",
    ),
    "rows-of-unknown-run": Entry(
        "a replacement or a rebuilt ledger finds rows of a run that it does not know, in a table that "
        "other jobs write to as well; or a redrive finds a dead letter without a run, or of a run that is unknown",
        "of a replacement: abandon it, then repeat it with `--adopt LEDGER` "
        "([replacing.md](../guides/replacing.md#whose-rows)); of a redrive: delete the dead letter's row, and read its "
        "record again with `kseg backfill JOB --mode replace`; else restore the ledger, or use another table",
    ),
    "several-ledgers": Entry(
        "a ledger was to be rebuilt, and the tables have runs of several",
        "`kseg repair JOB --rebuild-ledger --lost-ledger ID`",
    ),
}
