"""Refusals of runs: an account that failed, a changed configuration, and what `kseg repair` cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Case, Entry

_UNBALANCED: Final = "the record counts of run {run} do not balance: {reason}"

_FEWER: Final = "`kseg repair JOB --abandon {run}`, and replace fewer offsets at once"

_NOT_ALL_LISTED: Final = Case(
    "the tasks of run {run} cannot list all offsets that they could not read, so it may not remove rows",
    "lower source.max_records_per_task and repeat the command; or " + _FEWER,
)

RUNS: Final[Mapping[str, Entry]] = {
    "account-failed": Entry(
        "offsets or rows of a run do not add up",
        "`kseg repair JOB --finish RUN` reads and counts again; `--abandon RUN` removes its rows, and is"
        " the only way once rows of a transform have landed",
        {
            "run": Case(_UNBALANCED, "`kseg report JOB --run {run}` shows the counts; then {ways_out}"),
            "run again": Case(_UNBALANCED, "{ways_out}"),
            "run again, with gaps alone": Case(_UNBALANCED, "set source.on_gap: record, or {ways_out}"),
            "query": Case("{mismatch}", "read again"),
        },
    ),
    "ambiguous-run": Entry(
        "several runs match the id that was given",
        "give more of it, or the whole id",
        {
            "runs": Case(
                "{count} runs match {run}: {found}", "give more of the part after the first dash, or the whole id"
            ),
            "dead letters": Case(
                "dead letters of {count} runs match {run}: {found}",
                "give more of the part after the first dash, or the whole id",
            ),
        },
    ),
    "configuration-changed": Entry(
        "the job file, or the `--segments` of a backfill, changed after a run had landed in some of its tables",
        "`kseg repair JOB --finish RUN` completes it as planned, `--abandon RUN` removes its rows",
        Case(
            "run {run} has landed in some of its tables, and {changed}",
            "`kseg repair JOB --finish {run}` completes it as planned, `--abandon` removes its rows",
        ),
    ),
    "dead-letters-missing": Entry(
        "a redrive has planned dead letters that are not in their table any more",
        "restore the table, or `kseg repair JOB --abandon RUN`",
        Case(
            "{count} dead letters that the run has planned are not in their table",
            "restore the table, or give the run up: `kseg repair JOB --abandon {run}`",
        ),
    ),
    "no-such-run": Entry(
        "the ledger has no run of this id",
        "`kseg status JOB` lists the ids",
        {
            "id": Case(
                "the ledger has no run {run}", "`kseg status JOB` lists the last runs; unfinished: {unfinished}"
            ),
            "no runs": Case("the ledger knows no run of this job yet", "`kseg ingest` makes the first"),
        },
    ),
    "offsets-committed": Entry(
        "a run whose offsets are committed was to be abandoned",
        "`kseg repair JOB --finish RUN`; then `kseg backfill --mode replace` reads its offsets again",
        Case("the group's offsets of this run are committed: it can only finish", "`kseg repair JOB --finish {run}`"),
    ),
    "offsets-reserved": Entry(
        "another unfinished run has planned the offsets",
        "finish or abandon that run, then repeat the command",
        Case(
            "offsets {taken} are in the plan of run {run}, which is {phase}",
            "`kseg repair JOB --finish {run}` completes it, `--abandon` removes its rows; then repeat the backfill",
        ),
    ),
    "rows-would-be-lost": Entry(
        "a run was to be abandoned, and Kafka (or the files that it was planned from) no longer has the records of "
        "some of its rows, or this cannot be known",
        "`kseg repair JOB --finish RUN` completes the run and keeps the rows, with `source.on_data_loss: record`; to "
        "lose them: `kseg repair JOB --abandon RUN --lose-rows`",
        {
            "some": Case(
                "abandoning the run removes rows that cannot be landed again: {stake}",
                "`kseg repair JOB --finish {run}` completes the run and keeps them, with `source.on_data_loss: "
                "record`; to lose them: `kseg repair JOB --abandon {run} --lose-rows`",
            ),
            "cannot finish": Case(
                "abandoning the run removes rows that cannot be landed again: {stake}",
                "to lose them: `kseg repair JOB --abandon {run} --lose-rows`",
            ),
        },
    ),
    "run-abandoning": Entry(
        "a run that is being abandoned was to be finished",
        "`kseg repair JOB --abandon RUN`, then run the job",
        Case("its rows are being removed", "finish that: `kseg repair JOB --abandon {run}`"),
    ),
    "run-ended": Entry(
        "the run is `finished` or `abandoned`",
        "nothing to repair; `kseg status JOB` shows whether another run has not ended",
        Case(
            "the run is {phase}: there is nothing to repair",
            "`kseg status JOB` shows whether another run has not ended",
        ),
    ),
    "run-unfinished": Entry(
        "a report, `--accept-table` or `--accept-source` needs a run to have ended; or a replacement is about to "
        "change a table's rules of decoding, and another run would decode by the present ones",
        "run the job, which continues the run, or `kseg repair JOB --finish RUN`; before a source or table is "
        "accepted, `kseg repair JOB --abandon RUN`",
        {
            "report": Case("run {run_id} has not ended", "run the job: the run continues"),
            "accepting a table": Case(
                "run {run} has landed in the table and has not ended",
                "abandon it first: `kseg repair JOB --abandon {run}`",
            ),
            "accepting a source": Case(
                "run {run} is {phase}, and has planned offsets that now mean other records",
                "abandon it first: `kseg repair JOB --abandon {run}`, with --lose-rows if it has landed rows",
            ),
            "other rules of decoding": Case(
                "run {run} has not ended, and decodes by version {theirs} of the rules of decoding; this run would "
                "decode by version {ours}",
                "wait until it has ended; or finish or abandon it: `kseg repair JOB --finish {run}`, `--abandon {run}`",
            ),
        },
    ),
    "too-many-gaps": Entry(
        "a replacement finds more gaps than its tasks can list, or than Spark can leave out",
        "lower `source.max_records_per_task` and repeat the command; or `kseg repair JOB --abandon RUN`, then replace "
        "fewer offsets at once",
        {
            "tasks": _NOT_ALL_LISTED,
            "spark": Case(
                "Spark would have to remove the rows of {ranges} separate ranges from this table; the limit is {limit}",
                _FEWER + ", or with --drop-compacted, which leaves fewer ranges",
            ),
        },
    ),
    "too-much-damage": Entry(
        "a replacement finds more damaged batches than its tasks can list",
        "lower `source.max_records_per_task` and repeat the command; or `kseg repair JOB --abandon RUN`, then replace "
        "fewer offsets at once",
        _NOT_ALL_LISTED,
    ),
}
