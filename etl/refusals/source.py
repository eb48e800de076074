"""Refusals of topics, logs and offsets: of the brokers, of log files, of the group, and of a query's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Entry

_ALL_NEW: Final = (
    "all records that the topic has now count as new, and those that have landed before land again; if it has old "
    "records (a mirror), first see [another cluster](../guides/disaster-recovery.md#another-cluster)"
)

SOURCE: Final[Mapping[str, Entry]] = {
    "another-cluster": Entry(
        "the brokers are of another cluster than the ledger's",
        "correct `bootstrap.servers`; if the new cluster replaces the old one, `kseg repair JOB --accept-source "
        f"TOPIC`: {_ALL_NEW}",
    ),
    "boundary-unproved": Entry(
        "retention may have removed records of an interval",
        "[two ways](../guides/intervals.md#where-retention-was-faster): set `source.on_data_loss: "
        "record`, or land the offsets from a copy first, `kseg backfill JOB --segments DIR`",
    ),
    "checkpoint-unfinished": Entry(
        "Spark's own Kafka source has begun a streaming query's last micro-batch",
        'let `format("kafka")` finish it, then continue with `format("kseg")`',
    ),
    "checkpoint-unreadable": Entry(
        "a streaming query's checkpoint is of another source",
        "start the query with a checkpoint of its own",
    ),
    "data-lost": Entry(
        "retention removed records that had not been read",
        "set `source.on_data_loss: record`: the loss is recorded, and the next run continues after it",
    ),
    "group-has-members": Entry(
        "consumers are in the job's group",
        "stop them, or give the job a `group` of its own",
    ),
    "group-offsets-differ": Entry(
        "another client, or another job of the ledger, committed offsets of the job's group",
        "set them back to the ledger's (`kafka-consumer-groups --reset-offsets`); or continue from them, "
        "`kseg ingest JOB --accept-group-offsets`; give each job a group of its own",
    ),
    "log-truncated": Entry(
        "the log ends, or was truncated, below what has landed or what the group has committed (an unclean leader "
        "election)",
        "`kseg repair JOB --accept-source TOPIC:PARTITION` ([below](ledger.md#a-changed-source)); a "
        "query: a new checkpoint, or `failOnDataLoss` `false`; a group's offset, from which a first run or "
        "`--accept-group-offsets` would start: set it with `kafka-consumer-groups --reset-offsets`",
    ),
    "offsets-absent": Entry(
        "offsets are missing in a topic that is not compacted",
        "set `source.on_gap: record` and run again: the gap is recorded; a query: `failOnDataLoss` `false`",
    ),
    "offsets-not-in-files": Entry(
        "log files do not have the offsets that were asked for",
        "ask for fewer offsets, or name more folders with `--segments`",
    ),
    "start-beyond-end": Entry(
        "the group's offset, or the next run's start, lies above the log's end",
        "set the group's offset inside the log and `kseg ingest JOB --accept-group-offsets`; or `kseg "
        "repair JOB --accept-source TOPIC:PARTITION:OFFSET`",
    ),
    "topic-missing": Entry(
        "a topic of the job or query is gone",
        "create it again or remove it from the job file; a query: `failOnDataLoss` `false`",
    ),
    "topic-recreated": Entry(
        "the topic was deleted and created again",
        f"`kseg repair JOB --accept-source TOPIC` ([a changed source](ledger.md#a-changed-source)): {_ALL_NEW}; a "
        "query: a new checkpoint, or `failOnDataLoss` `false`",
    ),
}
