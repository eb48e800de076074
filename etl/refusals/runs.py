"""Refusals of runs: an account that failed, a changed configuration, and what `kseg repair` cannot do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Entry

RUNS: Final[Mapping[str, Entry]] = {
    "account-failed": Entry(
        "offsets or rows of a run do not add up",
        "`kseg repair JOB --finish RUN` reads and counts again; `--abandon RUN` removes its rows, and is"
        " the only way once rows of a transform have landed",
    ),
    "ambiguous-run": Entry(
        "several runs match the id that was given",
        "give more of it, or the whole id",
    ),
    "configuration-changed": Entry(
        "the job file, or the `--segments` of a backfill, changed after a run had landed in some of its tables",
        "`kseg repair JOB --finish RUN` completes it as planned, `--abandon RUN` removes its rows",
    ),
    "dead-letters-missing": Entry(
        "a redrive has planned dead letters that are not in their table any more",
        "restore the table, or `kseg repair JOB --abandon RUN`",
    ),
    "no-such-run": Entry(
        "the ledger has no run of this id",
        "`kseg status JOB` lists the ids",
    ),
    "offsets-committed": Entry(
        "a run whose offsets are committed was to be abandoned",
        "`kseg repair JOB --finish RUN`; then `kseg backfill --mode replace` reads its offsets again",
    ),
    "offsets-reserved": Entry(
        "another unfinished run has planned the offsets",
        "finish or abandon that run, then repeat the command",
    ),
    "rows-would-be-lost": Entry(
        "a run was to be abandoned, and Kafka (or the files that it was planned from) no longer has the records of "
        "some of its rows, or this cannot be known",
        "`kseg repair JOB --finish RUN` completes the run and keeps the rows, with `source.on_data_loss: record`; to "
        "lose them: `kseg repair JOB --abandon RUN --lose-rows`",
    ),
    "run-abandoning": Entry(
        "a run that is being abandoned was to be finished",
        "`kseg repair JOB --abandon RUN`, then run the job",
    ),
    "run-ended": Entry(
        "the run is `finished` or `abandoned`",
        "nothing to repair",
    ),
    "run-unfinished": Entry(
        "a report, `--accept-table` or `--accept-source` needs a run to have ended; or a replacement is about to "
        "change a table's rules of decoding, and another run would decode by the present ones",
        "run the job, which continues the run, or `kseg repair JOB --finish RUN`; before a source or table is "
        "accepted, `kseg repair JOB --abandon RUN`",
    ),
    "too-many-gaps": Entry(
        "a replacement finds more gaps than its tasks can list, or than Spark can leave out",
        "lower `source.max_records_per_task` and repeat the command; or `kseg repair JOB --abandon RUN`, then replace "
        "fewer offsets at once",
    ),
    "too-much-damage": Entry(
        "a replacement finds more damaged batches than its tasks can list",
        "lower `source.max_records_per_task` and repeat the command; or `kseg repair JOB --abandon RUN`, then replace "
        "fewer offsets at once",
    ),
}
