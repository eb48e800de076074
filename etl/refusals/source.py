"""Refusals of topics, logs and offsets: of the brokers, of log files, of the group, and of a query's checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Case, Entry

_ALL_NEW: Final = (
    "all records that the topic has now count as new, and those that have landed before land again; if it has old "
    "records (a mirror), first see [another cluster](../guides/disaster-recovery.md#another-cluster)"
)

_NEW_SOURCE: Final = (
    "to continue with the new source, `kseg repair JOB --accept-source {topic}` reads it from its first record; old "
    "rows stay"
)

_NEW_CHECKPOINT: Final = (
    "start a new query with a new checkpoint; or set failOnDataLoss to false to continue with the topic as it is"
)

_UNREADABLE: Final = "offsets {first} to {last} cannot be read any more: "
_RECORD_THE_LOSS: Final = (
    "to record the loss and continue without them, set source.on_data_loss: record (failOnDataLoss=false in Spark)"
)

SOURCE: Final[Mapping[str, Entry]] = {
    "another-cluster": Entry(
        "the brokers are of another cluster than the ledger's",
        "correct `bootstrap.servers`; if the new cluster replaces the old one, `kseg repair JOB --accept-source "
        f"TOPIC`: {_ALL_NEW}",
        {
            "job": Case(
                "the ledger's offsets are of cluster {known}, and the brokers are of {found}",
                "check bootstrap.servers; " + _NEW_SOURCE,
            ),
            "query": Case(
                "the checkpoint's offsets are those of cluster {known}, and this is {found}",
                "check kafka.bootstrap.servers; another cluster needs another checkpoint",
            ),
        },
    ),
    "boundary-unproved": Entry(
        "retention may have removed records of an interval",
        "[two ways](../guides/intervals.md#where-retention-was-faster): set `source.on_data_loss: "
        "record`, or land the offsets from a copy first, `kseg backfill JOB --segments DIR`",
        Case(
            "records at or after {boundary} are possibly lost: the log no longer holds {ranges}, and no older record "
            "after these offsets shows that they belong before it",
            "set source.on_data_loss: record to land what is left and record the possible loss; or land these offsets "
            "from a copy of the log first (`kseg backfill JOB --segments DIR`)",
        ),
    ),
    "checkpoint-unfinished": Entry(
        "Spark's own Kafka source has begun a streaming query's last micro-batch",
        'let `format("kafka")` finish it, then continue with `format("kseg")`',
        Case(
            "Spark's own Kafka source has begun a micro-batch that is the first with {first}, and its checkpoint does "
            "not contain the start offset of this partition",
            "finish it with format('kafka') (Trigger.AvailableNow), then continue with this query",
        ),
    ),
    "checkpoint-unreadable": Entry(
        "a streaming query's checkpoint is of another source",
        "start the query with a checkpoint of its own",
        Case(
            "the query's checkpoint holds offsets in a form that this source does not know: {document!r:.300}",
            "only checkpoints of format('kseg') and of Spark's own format('kafka') are supported",
        ),
    ),
    "data-lost": Entry(
        "retention removed records that had not been read",
        "set `source.on_data_loss: record`: the loss is recorded, and the next run continues after it",
        {
            "plan": Case(
                "the log no longer has {lost}: retention removed them before they were read",
                "to continue from the log's start and record the loss, set source.on_data_loss: record",
            ),
            "retention": Case(_UNREADABLE + "the log starts above them now", _RECORD_THE_LOSS),
            "truncation": Case(_UNREADABLE + "the log was truncated, or ends below them", _RECORD_THE_LOSS),
        },
    ),
    "group-has-members": Entry(
        "consumers are in the job's group",
        "stop them, or give the job a `group` of its own",
        Case(
            "group {group} has live members ({members})",
            "stop those consumers, or give the job a group of its own (`group:`)",
        ),
    ),
    "group-offsets-differ": Entry(
        "another client, or another job of the ledger, committed offsets of the job's group",
        "set them back to the ledger's (`kafka-consumer-groups --reset-offsets`); or continue from them, "
        "`kseg ingest JOB --accept-group-offsets`; give each job a group of its own",
        {
            "another job": Case(
                "offsets of group {group} were committed by another job of this ledger ({each})",
                "give each job a `group` of its own; if this job was renamed, set `name` back, since its rows and "
                "offsets are those of the old name; or continue from these offsets, `kseg ingest JOB "
                "--accept-group-offsets`",
            ),
            "another client": Case(
                "offsets of group {group} were changed by another client ({each})",
                "set them back; or continue from them, `kseg ingest JOB --accept-group-offsets`: offsets that are "
                "skipped are recorded as given up, and offsets that have landed do not land again",
            ),
        },
    ),
    "log-truncated": Entry(
        "the log ends, or was truncated, below what has landed or what the group has committed (an unclean leader "
        "election)",
        "`kseg repair JOB --accept-source TOPIC:PARTITION` ([below](ledger.md#a-changed-source)); a "
        "query: a new checkpoint, or `failOnDataLoss` `false`; a group's offset, from which a first run or "
        "`--accept-group-offsets` would start: set it with `kafka-consumer-groups --reset-offsets`",
        {
            "group": Case(
                "group {group} is committed at offset {committed} of leader epoch {epoch}, which ended at {offset}: "
                "the log was truncated (an unclean leader election), and has other records there now",
                "set the group's offset (kafka-consumer-groups --reset-offsets --to-offset) and run again: {offset} "
                "reads what was written since, {committed} skips it",
            ),
            "job": Case(
                "offsets up to {last} have landed or are planned, and the log ends at {offset}: it was truncated (an "
                "unclean leader election), or this is another topic",
                "find out what was lost; then `kseg repair JOB --accept-source {topic}:{partition}` reads on from "
                "offset {offset}; rows above it stay",
            ),
            "query": Case(
                "the query has read up to offset {read}, and the log that it read ends at {offset}: records were lost "
                "in the cluster (an unclean leader election), or the topic is another one",
                _NEW_CHECKPOINT,
            ),
        },
    ),
    "offsets-absent": Entry(
        "offsets are missing in a topic that is not compacted",
        "set `source.on_gap: record` and run again: the gap is recorded; a query: `failOnDataLoss` `false`",
        {
            "run": Case(
                "the record counts of run {run} do not balance: {reason}",
                "to record the gap and continue, set source.on_gap: record and run again",
            ),
            "query": Case(
                "offsets {first} to {last} are absent, and no compaction explains it",
                "to continue without them, set failOnDataLoss=false; if the topic is compacted, allow DescribeConfigs "
                "on it",
            ),
        },
    ),
    "offsets-not-in-files": Entry(
        "log files do not have the offsets that were asked for",
        "ask for fewer offsets, or name more folders with `--segments`",
        Case(
            "{what}",
            "start later or end earlier, add folders with --segments, or leave out --from and --to: then all that the "
            "files have lands",
        ),
    ),
    "start-beyond-end": Entry(
        "the group's offset, or the next run's start, lies above the log's end",
        "set the group's offset inside the log and `kseg ingest JOB --accept-group-offsets`; or `kseg "
        "repair JOB --accept-source TOPIC:PARTITION:OFFSET`",
        {
            "group": Case(
                "group {group} is committed at offset {offset}, and the log ends at {end}",
                "set the group's offset inside the log (kafka-consumer-groups --reset-offsets) and run again",
            ),
            "next run": Case(
                "the next run starts at offset {offset}, and the log ends at {end}",
                "set the group's offset inside the log and run `kseg ingest JOB --accept-group-offsets`; or `kseg "
                "repair JOB --accept-source {topic}:{partition}:OFFSET` starts at OFFSET (by default at the log's end)",
            ),
        },
    ),
    "topic-missing": Entry(
        "a topic of the job or query is gone",
        "create it again or remove it from the job file; a query: `failOnDataLoss` `false`",
        {
            "job": Case(
                "the topic that this ledger belongs to no longer exists: {error}",
                "check bootstrap.servers, or source.segments; if the topic was deleted, take it out of the job file: "
                "its rows and its ledger stay",
            ),
            "query": Case(
                "the query has read {first}, which no longer exists or is no longer subscribed to",
                "to continue without it, set failOnDataLoss to false",
            ),
        },
    ),
    "topic-recreated": Entry(
        "the topic was deleted and created again",
        f"`kseg repair JOB --accept-source TOPIC` ([a changed source](ledger.md#a-changed-source)): {_ALL_NEW}; a "
        "query: a new checkpoint, or `failOnDataLoss` `false`",
        {
            "job, by id": Case(
                "the topic was recreated: its id was {was} and is now {now}",
                "check bootstrap.servers and the topic's name; " + _NEW_SOURCE,
            ),
            "job, by epoch": Case(
                "the topic was recreated: its leader epoch was {was} and is now {now}",
                "check bootstrap.servers and the topic's name; " + _NEW_SOURCE,
            ),
            "query, by id": Case(
                "the topic was deleted and created again: its id was {was} and is {now}", _NEW_CHECKPOINT
            ),
            "query, by epoch": Case(
                "the topic was deleted and created again: its leader epoch was {was} and is {now}", _NEW_CHECKPOINT
            ),
            "while it is read": Case(
                "{found}; what was planned of the old topic and not read is gone",
                "run the same command again: it says how to continue with the new topic",
            ),
        },
    ),
}
