"""Refusals (exit code 3) by their code: what was found, and what leads out of it.

The texts are Markdown of a page in `docs/reference`. JOB is the job file; RUN is a run's id, or a unique beginning of
it or of its part after the first dash. `kseg ingest JOB` stands for the run's own command: for a backfill or an
interval, the same `kseg backfill`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.jobs.explanations.explanation import Explanation

_ALL_NEW: Final = (
    "all records that the topic has now count as new, and those that have landed before land again; if it has old "
    "records (a mirror), first see [another cluster](../guides/disaster-recovery.md#another-cluster)"
)

REFUSALS: Final[Mapping[str, Explanation]] = {
    "account-failed": Explanation(
        "offsets or rows of a run do not add up",
        "`kseg repair JOB --finish RUN` reads and counts again; `--abandon RUN` removes its rows, and is"
        " the only way once rows of a transform have landed",
    ),
    "ambiguous-run": Explanation(
        "several runs match the id that was given",
        "give more of it, or the whole id",
    ),
    "another-cluster": Explanation(
        "the brokers are of another cluster than the ledger's",
        "correct `bootstrap.servers`; if the new cluster replaces the old one, `kseg repair JOB --accept-source "
        f"TOPIC`: {_ALL_NEW}",
    ),
    "boundary-unproved": Explanation(
        "retention may have removed records of an interval",
        "[two ways](../guides/intervals.md#where-retention-was-faster): set `source.on_data_loss: "
        "record`, or land the offsets from a copy first, `kseg backfill JOB --segments DIR`",
    ),
    "checkpoint-unfinished": Explanation(
        "Spark's own Kafka source has begun a streaming query's last micro-batch",
        'let `format("kafka")` finish it, then continue with `format("kseg")`',
    ),
    "checkpoint-unreadable": Explanation(
        "a streaming query's checkpoint is of another source",
        "start the query with a checkpoint of its own",
    ),
    "commit-of-other-ranges": Explanation(
        "the run's commit in a table has other ranges than planned: the table has two names",
        "`kseg repair JOB --abandon RUN`, then give the table one name",
    ),
    "configuration-changed": Explanation(
        "the job file, or the `--segments` of a backfill, changed after a run had landed in some of its tables",
        "`kseg repair JOB --finish RUN` completes it as planned, `--abandon RUN` removes its rows",
    ),
    "data-lost": Explanation(
        "retention removed records that had not been read",
        "set `source.on_data_loss: record`: the loss is recorded, and the next run continues after it",
    ),
    "dead-letters-missing": Explanation(
        "a redrive has planned dead letters that are not in their table any more",
        "restore the table, or `kseg repair JOB --abandon RUN`",
    ),
    "expectation-broken": Explanation(
        "a decoded value is not as `decode.expect` says",
        "set `decode.on_error`, or `else: warn` in `decode.expect`, or correct the expectation, and run again",
    ),
    "files-missing": Explanation(
        "data files that a run has just committed were deleted from the store",
        "`kseg repair JOB --abandon RUN`, then run the job; VACUUM only with `kseg maintain`",
    ),
    "group-has-members": Explanation(
        "consumers are in the job's group",
        "stop them, or give the job a `group` of its own",
    ),
    "group-offsets-differ": Explanation(
        "another client, or another job of the ledger, committed offsets of the job's group",
        "set them back to the ledger's (`kafka-consumer-groups --reset-offsets`); or continue from them, "
        "`kseg ingest JOB --accept-group-offsets`; give each job a group of its own",
    ),
    "ledger-damaged": Explanation(
        "events are missing or contradict each other",
        "restore the ledger's newest copy; without one, as `ledger-older-than-table`",
    ),
    "ledger-exists": Explanation(
        "a ledger was to be rebuilt, and it knows the job",
        "nothing to do; if it is damaged, or older than the tables, move it away first",
    ),
    "ledger-foreign": Explanation(
        "the table at the ledger's path is not a ledger, or another one",
        "correct `ledger` in the job file, or restore the directory",
    ),
    "ledger-lost": Explanation(
        "a table or the group shows that the job landed with another ledger",
        "correct `ledger` in the job file; if that ledger is lost, `kseg repair JOB --rebuild-ledger`, "
        "or `kseg ingest JOB --accept-group-offsets`, which continues from the group's offsets",
    ),
    "ledger-missing": Explanation(
        "there is no ledger, and the command needs one",
        "correct `ledger` in the job file; the first `kseg ingest JOB` makes one",
    ),
    "ledger-newer": Explanation(
        "a later release has written to the ledger",
        "use that release",
    ),
    "ledger-older": Explanation(
        "the group has offsets that were committed with this ledger, and it does not know them",
        "restore the ledger's newest copy; without one, as `ledger-older-than-table`",
    ),
    "ledger-older-than-table": Explanation(
        "a table has runs of this ledger that it does not know, or a new ledger was made from the table",
        "use the new ledger, or restore this one's newest copy; without one, move the whole ledger away,"
        " then `kseg repair JOB --rebuild-ledger` for each of its jobs",
    ),
    "ledger-unsafe-store": Explanation(
        "options of the store let two writers overwrite each other",
        "unset the options that the message names",
    ),
    "log-truncated": Explanation(
        "the log ends, or was truncated, below what has landed or what the group has committed (an unclean leader "
        "election)",
        "`kseg repair JOB --accept-source TOPIC:PARTITION` ([below](ledger.md#a-changed-source)); a "
        "query: a new checkpoint, or `failOnDataLoss` `false`; a group's offset, from which a first run or "
        "`--accept-group-offsets` would start: set it with `kafka-consumer-groups --reset-offsets`",
    ),
    "no-such-run": Explanation(
        "the ledger has no run of this id",
        "`kseg status JOB` lists the ids",
    ),
    "no-such-table": Explanation(
        "the ledger has no table of this name",
        "`kseg status JOB` lists the names",
    ),
    "nothing-landed": Explanation(
        "a ledger was to be rebuilt, and no table has rows of the job",
        "correct `name` and `sink` in the job file; a new job needs no rebuilding",
    ),
    "offsets-absent": Explanation(
        "offsets are missing in a topic that is not compacted",
        "set `source.on_gap: record` and run again: the gap is recorded; a query: `failOnDataLoss` `false`",
    ),
    "offsets-committed": Explanation(
        "a run whose offsets are committed was to be abandoned",
        "`kseg repair JOB --finish RUN`; then `kseg backfill --mode replace` reads its offsets again",
    ),
    "offsets-not-in-files": Explanation(
        "log files do not have the offsets that were asked for",
        "ask for fewer offsets, or name more folders with `--segments`",
    ),
    "offsets-reserved": Explanation(
        "another unfinished run has planned the offsets",
        "finish or abandon that run, then repeat the command",
    ),
    "payload-undecodable": Explanation(
        "a key or value does not fit `decode:`",
        "correct `decode:` in the job file and run again (a run that has landed nothing is abandoned by "
        "itself), or set `decode.on_error: dead_letter`",
    ),
    "record-without-route": Explanation(
        'a record has none of the values that `sink.routes` has a table for, and there is no route `"*"`',
        'add the route, or a route `"*"` for all others, and run again (a run that has landed nothing is abandoned by '
        "itself); or set `decode.on_error: dead_letter` ([routing](../guides/routing.md#records-without-a-route))",
    ),
    "registry-changed": Explanation(
        "records of an unfinished run name a schema that its plan does not have, and the job file has "
        "another registry than the plan",
        "set `registry.url` as it was until the run is finished; or `kseg repair JOB --abandon RUN`",
    ),
    "rows-beyond-log": Explanation(
        "a ledger was to be rebuilt, and rows lie beyond the log's end",
        "correct `bootstrap.servers`; if the topic was recreated, `kseg repair JOB --rebuild-ledger --accept-source "
        "TOPIC` ([a lost ledger](../guides/replacing.md#a-lost-ledger))",
    ),
    "rows-of-unknown-run": Explanation(
        "a replacement or a rebuilt ledger finds rows of a run that it does not know, in a table that "
        "other jobs write to as well; or a redrive finds a dead letter without a run, or of a run that is unknown",
        "of a replacement: abandon it, then repeat it with `--adopt LEDGER` "
        "([replacing.md](../guides/replacing.md#whose-rows)); of a redrive: delete the dead letter's row, and read its "
        "record again with `kseg backfill JOB --mode replace`; else restore the ledger, or use another table",
    ),
    "rows-would-be-lost": Explanation(
        "a run was to be abandoned, and Kafka (or the files that it was planned from) no longer has the records of "
        "some of its rows, or this cannot be known",
        "`kseg repair JOB --finish RUN` completes the run and keeps the rows, with `source.on_data_loss: record`; to "
        "lose them: `kseg repair JOB --abandon RUN --lose-rows`",
    ),
    "run-abandoning": Explanation(
        "a run that is being abandoned was to be finished",
        "`kseg repair JOB --abandon RUN`, then run the job",
    ),
    "run-ended": Explanation(
        "the run is `finished` or `abandoned`",
        "nothing to repair",
    ),
    "run-unfinished": Explanation(
        "a report, `--accept-table` or `--accept-source` needs a run to have ended; or a replacement is about to "
        "change a table's rules of decoding, and another run would decode by the present ones",
        "run the job, which continues the run, or `kseg repair JOB --finish RUN`; before a source or table is "
        "accepted, `kseg repair JOB --abandon RUN`",
    ),
    "schema-conflict": Explanation(
        "a schema of the registry would change a column's type",
        "register a schema that keeps the type and run again, or land in another table by another job; kinds of "
        "records that differ in a type need tables of their own (`sink.route_by: schema`)",
    ),
    "schema-unknown": Explanation(
        "a record names a schema that the registry does not know",
        "correct `registry.url`, or register the schema again, and run again; or set `decode.on_error: dead_letter`",
    ),
    "several-ledgers": Explanation(
        "a ledger was to be rebuilt, and the tables have runs of several",
        "`kseg repair JOB --rebuild-ledger --lost-ledger ID`",
    ),
    "start-beyond-end": Explanation(
        "the group's offset, or the next run's start, lies above the log's end",
        "set the group's offset inside the log and `kseg ingest JOB --accept-group-offsets`; or `kseg "
        "repair JOB --accept-source TOPIC:PARTITION:OFFSET`",
    ),
    "table-append-only": Explanation(
        "rows have to be removed from an append-only table",
        "unset `delta.appendOnly` on it, run the command again, set it again",
    ),
    "table-changed": Explanation(
        "columns or partitions changed while rows were written",
        "run the job again",
    ),
    "table-differs": Explanation(
        "a table was to be accepted, and its rows differ from Kafka",
        "`kseg repair JOB --accept-table TABLE --no-verify`, then `kseg backfill --mode replace` where "
        "rows are missing",
    ),
    "table-lacks-files": Explanation(
        "a table was to be accepted, and data files of it are not in the store",
        "restore them; or deltalake's `DeltaTable.repair()`, then `kseg backfill --mode replace` for their offsets",
    ),
    "table-log-damaged": Explanation(
        "an entry or a checkpoint of the table's log is missing that cleaning the log leaves alone",
        "restore the file; or make a new table of the rows that can be read in its place, and `kseg repair JOB "
        "--accept-table TABLE`, after `kseg repair JOB --abandon RUN` where an unfinished run has landed there",
    ),
    "table-lost-rows": Explanation(
        "rows are gone from a table whose log was cleaned",
        "`kseg repair JOB --accept-table TABLE`",
    ),
    "table-missing": Explanation(
        "a table that rows have landed in is gone",
        "restore it; or `kseg repair JOB --accept-table TABLE --no-verify`, then `kseg backfill JOB "
        "--mode replace --from … --to …`; with `sink.route_by` rebuild the ledger, then `kseg backfill JOB --mode "
        "missing --from … --to …`",
    ),
    "table-needs-spark-writer": Explanation(
        "a feature was added to the table during a run",
        "run the job again: it chooses the writer again",
    ),
    "table-older-than-ledger": Explanation(
        "an older copy of the table was restored, and others have written to it",
        "restore the newest copy, or `kseg repair JOB --accept-table TABLE`; a run that has landed there and has not "
        "ended is abandoned before, `kseg repair JOB --abandon RUN`",
    ),
    "table-overwritten": Explanation(
        "another writer overwrote rows of the table",
        "`kseg repair JOB --accept-table TABLE`",
    ),
    "table-recreated": Explanation(
        "the table was dropped and created again",
        "`kseg repair JOB --accept-table TABLE`",
    ),
    "table-replaced": Explanation(
        "another writer replaced the table",
        "`kseg repair JOB --accept-table TABLE`",
    ),
    "table-restored": Explanation(
        "the table was restored to an older version",
        "`kseg repair JOB --accept-table TABLE`; to undo the RESTORE, first RESTORE the newer version",
    ),
    "table-truncated": Explanation(
        "all rows of the table were removed",
        "`kseg repair JOB --accept-table TABLE`",
    ),
    "table-went-back": Explanation(
        "the table's log is shorter than it was: a copy was restored",
        "restore the newest copy, or `kseg repair JOB --accept-table TABLE`",
    ),
    "too-many-columns": Explanation(
        "new fields would lead to more columns than `decode.value.max_columns`",
        "set it higher, or `unknown_fields: ignore`, and run again",
    ),
    "too-many-dead-letters": Explanation(
        "more records of a run cannot be decoded than `sink.dead_letters.max` lets pass; nothing was committed",
        "correct `decode:` in the job file and run again; or, if the records are what is wrong, raise "
        "the limit and run again",
    ),
    "too-many-gaps": Explanation(
        "a replacement finds more gaps than its tasks can list, or than Spark can leave out",
        "lower `source.max_records_per_task` and repeat the command; or `kseg repair JOB --abandon RUN`, then replace "
        "fewer offsets at once",
    ),
    "too-many-nulled": Explanation(
        "more records of a run would have nulls in place of what cannot be decoded (`on_error: set_null`) than "
        "`decode.max_nulled` lets pass; nothing was committed. One column with a wrong type is the usual cause",
        "correct the schema in `decode:` and run again; or, if the records are what is wrong, raise "
        "`decode.max_nulled` and run again",
    ),
    "too-much-damage": Explanation(
        "a replacement finds more damaged batches than its tasks can list",
        "lower `source.max_records_per_task` and repeat the command; or `kseg repair JOB --abandon RUN`, then replace "
        "fewer offsets at once",
    ),
    "topic-missing": Explanation(
        "a topic of the job or query is gone",
        "create it again or remove it from the job file; a query: `failOnDataLoss` `false`",
    ),
    "topic-recreated": Explanation(
        "the topic was deleted and created again",
        f"`kseg repair JOB --accept-source TOPIC` ([a changed source](ledger.md#a-changed-source)): {_ALL_NEW}; a "
        "query: a new checkpoint, or `failOnDataLoss` `false`",
    ),
    "transaction-retention-set": Explanation(
        "the table forgets app transactions",
        "unset `delta.setTransactionRetentionDuration` on it",
    ),
}
