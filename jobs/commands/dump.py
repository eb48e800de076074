"""``kseg dump``: the content of a broker's files, without a broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import click

from kseg.client.protocol.embedded.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from kseg.jobs.invocation.execution import execute
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.layout_options import layout_options
from kseg.jobs.invocation.result import Result
from kseg.segment_reader.log.errors import SegmentGone
from kseg.segment_reader.log.files.dump import Entry, Findings
from kseg.segment_reader.log.files.dump import dump as entries_of
from kseg.segment_reader.log.files.locations import open_file
from kseg.segment_reader.log.files.storage import PLAIN

_CORRUPT: Final = 1
#: The default of a broker's `offsets.retention.minutes`: a week.
RETENTION_MINUTES: Final = 7 * 24 * 60
_BY_FOLDER: Final = "by folder"
#: The options of Kafka's own tool, and the topics whose records they decode.
_DECODERS: Final = {
    "offsets-decoder": CONSUMER_OFFSETS,
    "transaction-log-decoder": TRANSACTION_STATE,
    "share-group-state-decoder": SHARE_GROUP_STATE,
    "cluster-metadata-decoder": CLUSTER_METADATA,
    "remote-log-metadata-decoder": REMOTE_LOG_METADATA,
}


@dataclass
class _Wanted:
    """Options for the output, and the findings.

    decoder: an internal topic; `_BY_FOLDER`: by the name of each file's folder; "": records stay undecoded.
    """

    deep: bool
    decoder: str
    secrets: bool
    limit: int | None
    layout: str = PLAIN
    layout_option: Mapping[str, str] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)
    undecoded: int = 0


def _decoder_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, topic in reversed(_DECODERS.items()):
        text = f"Decode the records as those of {topic}, whatever the folder's name; implies --deep."
        command = click.option(f"--{name}", "decoder", flag_value=topic, help=text)(command)
    return click.option("--raw", "decoder", flag_value="", help="Leave the records of internal topics undecoded.")(
        command
    )


def _as_instant(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """An option's callback: a time in ISO 8601 with a time zone, as an aware datetime in UTC."""
    from kseg.etl.config.times import INSTANT_REMEDY, parse_instant

    if value is None:
        return None
    try:
        return parse_instant(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}: {INSTANT_REMEDY}") from None


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--deep", is_flag=True, help="Also show the records of a .log, including control records.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "arrow", "parquet"]),
    default="text",
    show_default=True,
    help="json: one object a line. arrow, parquet: one table of the records (--deep) or batches, into --output.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="The file for arrow and parquet.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this number of entries of each file.")
@_decoder_options
@click.option("--show-secrets", is_flag=True, help="Also show SCRAM keys, and settings that are passwords or keys.")
@click.option("--group", help="Show this group's latest state; FILE is then one or more folders of log.dirs.")
@click.option("--transactional-id", help="Show this transactional id's latest state, as with --group.")
@click.option(
    "--partitions",
    type=click.IntRange(1),
    help="How many partitions __consumer_offsets or __transaction_state has, if folders are missing.",
)
@click.option(
    "--retention-minutes",
    type=click.FloatRange(0),
    help="The broker's offsets.retention.minutes, by which a group's offsets expire.  [default: 10080]",
)
@click.option("--at", callback=_as_instant, help="The time at which expiry is evaluated, in ISO 8601.  [default: now]")
@click.option("--json", "as_json", is_flag=True, help="With --group and --transactional-id: print one JSON object.")
@layout_options
def dump(
    files: tuple[str, ...],
    deep: bool,
    form: Literal["text", "json", "arrow", "parquet"],
    output: Path | None,
    limit: int | None,
    decoder: str | None,
    show_secrets: bool,
    group: str | None,
    transactional_id: str | None,
    partitions: int | None,
    retention_minutes: float | None,
    at: datetime | None,
    as_json: bool,
    layout: str,
    layout_option: dict[str, str],
) -> int:
    """Show the content of a broker's files: segments, indexes, snapshots, checkpoints.

    FILE is a .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint, leader-epoch-checkpoint,
    partition.metadata, quorum-state, one of the offset checkpoints, or meta.properties, as a path or a URI such as
    s3://bucket/key. With --layout, give files of tiered storage the names that they would have on a broker. An index is
    compared with the .log beside it. Errors are listed at the end, with exit code 1.

    With --deep, the records of Kafka's internal topics are decoded, if a file is in a folder that is named after such a
    topic, and those of metadata snapshots. For a copy in a folder of another name, give the topic's decoder option.

    \b
    Example:
      kseg dump data/orders-0/00000000000000000000.log --deep --limit 20
      kseg dump data/orders-0/*.index data/orders-0/*.timeindex
      kseg dump data/orders-0/00000000000000000000.log --deep --format json | jq -r .value
      kseg dump data/orders-0/00000000000000000000.log --deep --format parquet --output orders.parquet
      kseg dump data/__consumer_offsets-7/*.log --deep --format json | jq .decodedValue
      kseg dump copy/00000000000000000000.log --offsets-decoder
      kseg dump data/__cluster_metadata-0/*.checkpoint --deep
      kseg dump s3://tiered/orders-0/00000000000000000000.log --layout aiven --deep
      kseg dump data --group billing
      kseg dump disk-1 disk-2 --transactional-id kseg-orders --json | jq .state

    With --group or --transactional-id, the partition of the internal topic to which the id belongs is read, from the
    directory whose copy has the highest end offset. The coordinator's state is shown, without deleted offsets; offsets
    of open transactions and expired offsets are listed separately.
    """
    if group is not None or transactional_id is not None:
        if group is not None and transactional_id is not None:
            raise click.UsageError("--group and --transactional-id cannot be combined")
        if deep or output is not None or decoder is not None or limit is not None or form in ("arrow", "parquet"):
            raise click.UsageError(
                "--group and --transactional-id can only be combined with --json, not with options for files"
            )
        if transactional_id is not None and (retention_minutes is not None or at is not None):
            raise click.UsageError("--retention-minutes and --at need --group")
        query = _StateQuery(group, transactional_id or "", partitions, retention_minutes, at)
        if layout != PLAIN:
            raise click.UsageError("internal topics are compacted, and compacted topics are never in tiered storage")
        return execute(
            Invocation(command="dump", as_json=as_json or form == "json"), lambda _: _coordinator_state(files, query)
        )
    if partitions is not None or retention_minutes is not None or at is not None or as_json:
        raise click.UsageError("--partitions, --retention-minutes, --at and --json need --group")
    table = form in ("arrow", "parquet")
    if table != (output is not None):
        raise click.UsageError("--output needs --format arrow or parquet, and these formats need --output")
    wanted = _Wanted(
        deep or bool(decoder), _BY_FOLDER if decoder is None else decoder, show_secrets, limit, layout, layout_option
    )
    if table and output is not None:
        from kseg.jobs.output.dump import write_table

        kind = "record" if wanted.deep else "batch"
        found = (entry for path in files for entry in _entries(path, wanted))
        click.echo(f"kseg: {write_table(found, kind, output, form)} rows ({kind}) in {output}", err=True)
    else:
        _print(files, wanted, as_lines=form == "json")
    if wanted.undecoded:
        note = "records are of types or versions that this release does not support: their bytes are shown"
        click.echo(f"kseg: {wanted.undecoded} {note}", err=True)
    for fault in wanted.findings.faults:
        click.echo(f"kseg: {fault}", err=True)
    return _CORRUPT if wanted.findings.faults else 0


@dataclass(frozen=True, slots=True)
class _StateQuery:
    """A query of the coordinators' topics: a group, or if group is None a transactional id."""

    group: str | None
    transactional_id: str
    partitions: int | None
    retention_minutes: float | None
    at: datetime | None


def _coordinator_state(folders: tuple[str, ...], query: _StateQuery) -> Result:
    from kseg.etl.internal_topics.locations import LogDirs
    from kseg.jobs.output.dump_state import group_document, transactional_id_document

    log_dirs = LogDirs(folders)
    if query.group is None:
        return Result(*transactional_id_document(log_dirs, query.transactional_id, partitions=query.partitions))
    minutes = RETENTION_MINUTES if query.retention_minutes is None else query.retention_minutes
    return Result(
        *group_document(log_dirs, query.group, partitions=query.partitions, retention_minutes=minutes, at=query.at)
    )


def _print(files: tuple[str, ...], wanted: _Wanted, *, as_lines: bool) -> None:
    from kseg.jobs.output.dump import as_json, as_text

    for path in files:
        if not as_lines:
            click.echo(f"{path}:")
        for entry in _entries(path, wanted):
            sys.stdout.write((as_json({"file": path} | entry) if as_lines else as_text(entry)) + "\n")


def _entries(path: str, wanted: _Wanted) -> Iterator[Entry]:
    from kseg.etl.internal_topics.decoding import internal_topic_of, with_meaning

    try:
        storage, place = open_file(path, wanted.layout, wanted.layout_option)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="FILE") from None
    topic = internal_topic_of(place) if wanted.decoder == _BY_FOLDER else wanted.decoder or None
    try:
        found = islice(entries_of(storage, place, wanted.findings, deep=wanted.deep), wanted.limit)
        for entry in with_meaning(found, place, topic, wanted.findings, secrets=wanted.secrets):
            wanted.undecoded += entry.get("undecoded") is not None
            yield entry
    except SegmentGone as error:
        raise click.BadParameter(f"{path}: {error.reason}", param_hint="FILE") from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="FILE") from None
