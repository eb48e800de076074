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

_WRITTEN_LATER: Final = "a later release of kseg has written to this ledger: use that release"

_RESTORE: Final = "restore all of the ledger's directory as it last was; do not edit, RESTORE or VACUUM it by hand"

_PUT_BACK: Final = (
    "restore the ledger's directory as it was, and run the same command again, with --take-over while the lease of "
    "this run lasts"
)
"""What a person can do about a ledger that is replaced or removed while a run uses it."""

_LOST: Final = (
    "set `ledger:` to that ledger; if it is lost, `kseg repair JOB --rebuild-ledger` makes one from the tables"
)
_BEGIN_AT_GROUP: Final = (
    "`kseg ingest JOB --accept-group-offsets` begins a new one at the group's offsets instead: rows that landed after "
    "the last commit of offsets land again"
)

LEDGER: Final[Mapping[str, Entry]] = {
    "ledger-damaged": Entry(
        "events are missing or contradict each other",
        "restore the ledger's newest copy; without one, as `ledger-older-than-table`",
        {
            "event": Case("the ledger's event {kind} cannot be read: {error}", _RESTORE),
            "events": Case("the ledger is not what was written: {what}", _RESTORE),
            "no log": Case(
                "there are a ledger's files but no log to them; a new ledger here would land everything again",
                "restore the _delta_log directory; without a copy, move the ledger's whole folder away, and make a new "
                "one from the tables for each of its jobs: `kseg repair JOB --rebuild-ledger`",
            ),
        },
    ),
    "ledger-exists": Entry(
        "a ledger was to be rebuilt, and it knows the job",
        "nothing to do; if it is damaged, or older than the tables, move it away first",
        Case(
            "the ledger has this job: there is nothing to rebuild",
            "if the ledger is damaged, or older than the tables, move its whole folder away first",
        ),
    ),
    "ledger-foreign": Entry(
        "the table at the ledger's path is not a ledger, or another one",
        "correct `ledger` in the job file, or restore the directory",
        {
            "replaced": Case("another ledger has replaced this one", _PUT_BACK),
            "no ledger": Case(
                "the Delta table at this path is not a ledger", "give the ledger a path of its own, not that of a sink"
            ),
        },
    ),
    "ledger-lost": Entry(
        "a table or the group shows that the job landed with another ledger",
        "correct `ledger` in the job file; if that ledger is lost, `kseg repair JOB --rebuild-ledger`, "
        "or `kseg ingest JOB --accept-group-offsets`, which continues from the group's offsets",
        {
            "group": Case(
                "offsets of group {group} were committed from another ledger ({each})", f"{_LOST}. {_BEGIN_AT_GROUP}"
            ),
            "table": Case("the table has landed runs of this job with another ledger ({other})", _LOST),
            "table, job with a group": Case(
                "the table has landed runs of this job with another ledger ({other})", f"{_LOST}. {_BEGIN_AT_GROUP}"
            ),
        },
    ),
    "ledger-missing": Entry(
        "there is no ledger, and the command needs one",
        "correct `ledger` in the job file; the first `kseg ingest JOB` makes one",
        {
            "opening": Case("there is no ledger", "check `ledger` in the job file; a first run of the job creates it"),
            "gone": Case("the ledger is gone: could not {doing}", _PUT_BACK),
        },
    ),
    "ledger-newer": Entry(
        "a later release has written to the ledger",
        "use that release",
        {
            "kind": Case("the ledger holds an event of the unknown kind {kind}", _WRITTEN_LATER),
            "event": Case("the ledger's event {kind} cannot be read: {error}", _WRITTEN_LATER),
            "format": Case(
                "the ledger has format {written}, this release knows {known}",
                "a later release of kseg has created this ledger: use that release",
            ),
            "rules of decoding": Case(
                "a later release of kseg has decoded the table's rows: {error}", "use that release"
            ),
        },
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
        Case(
            "{option} lets two writers overwrite each other's commit",
            "unset it: commits use conditional PUTs and need no rename",
        ),
    ),
    "nothing-landed": Entry(
        "a ledger was to be rebuilt, and no table has rows of the job",
        "correct `name` and `sink` in the job file; a new job needs no rebuilding",
        Case(
            "no table has rows of a job {name}: there is nothing to rebuild the ledger from",
            "check `name` and `sink` in the job file; for a new job, its first run creates the ledger",
        ),
    ),
    "rows-beyond-log": Entry(
        "a ledger was to be rebuilt, and rows lie beyond the log's end",
        "correct `bootstrap.servers`; if the topic was recreated, `kseg repair JOB --rebuild-ledger --accept-source "
        "TOPIC` ([a lost ledger](../guides/replacing.md#a-lost-ledger))",
        Case(
            "the tables have rows up to offset {end}, and the log ends at {high_watermark}: it is not the log that the "
            "rows came from",
            "check bootstrap.servers; if the topic was recreated: `{command}`, which reads it from its first offset "
            "and keeps the rows that there are",
        ),
    ),
    "rows-of-unknown-run": Entry(
        "a replacement or a rebuilt ledger finds rows of a run that it does not know, in a table that "
        "other jobs write to as well; or a redrive finds a dead letter without a run, or of a run that is unknown",
        "of a replacement: abandon it, then repeat it with `--adopt LEDGER` "
        "([replacing.md](../guides/replacing.md#whose-rows)); of a redrive: delete the dead letter's row, and read its "
        "record again with `kseg backfill JOB --mode replace`; else restore the ledger, or use another table",
        {
            "replacement": Case(
                "rows to be replaced are of run {run}, which neither this job's ledger nor an adopted one knows; they "
                "may be those of {owner}, which has landed rows in this table too",
                "name the run's ledger with --adopt LEDGER (repeatable): rows of its runs are replaced if they are of "
                "the same topic, and stay otherwise",
            ),
            "generation": Case(
                "whether run {run} of the lost ledger has landed its rows before or after a change of the source was "
                "accepted is not known: the tables' histories did not show it when the ledger was rebuilt",
                "abandon this replacement (`kseg status JOB` names it); then repeat it with --drop-older-generations, "
                "which removes rows of before the change, too",
            ),
            "rebuilding": Case(
                "run {run} has rows in the table, and it is unknown whether it was a run of this job or of {job} "
                "(ledger {ledger}), which has landed rows there too",
                "restore the ledger from a copy; or start with a new ledger, another table and another group (`ledger`,"
                " `sink` and `group` in the job file), which reads the source from its start",
            ),
            "dead letters without runs": Case(
                "the dead-letter table has no column {column}, so that it is not known which records its rows have",
                "restore the table. Kafka may still have the records: `kseg backfill JOB --mode replace` with a new "
                "`sink.dead_letters.path` reads them again",
            ),
            "dead letter": Case(
                "a dead letter is of {owner}, so that it is not known which job's it is, nor which record it has",
                "delete its row from the table. Kafka may still have the record: `kseg backfill JOB --mode replace "
                "--from {topic}:{partition}:{offset} --to {topic}:{partition}:{next}` reads it again",
            ),
        },
    ),
    "several-ledgers": Entry(
        "a ledger was to be rebuilt, and the tables have runs of several",
        "`kseg repair JOB --rebuild-ledger --lost-ledger ID`",
        Case(
            "the tables have runs of {count} ledgers with a job {name}: {ledgers}",
            "if each was this job's: `{command}`; else leave out what was another's",
        ),
    ),
}
