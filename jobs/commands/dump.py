"""``kseg dump``: what stands in a broker's files, with no broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal

import click

from client.protocol.embedded.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from segment_reader.log.dump import Entry, Findings
from segment_reader.log.dump import dump as entries_of
from segment_reader.log.errors import SegmentGone
from segment_reader.log.storage import open_storage

_CORRUPT: Final = 1
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
    """How the files are to be told, and what was noticed on the way.

    decoder: an internal topic; `_BY_FOLDER` goes by the name of each file's folder, "" leaves bytes as they are.
    """

    deep: bool
    decoder: str
    secrets: bool
    limit: int | None
    findings: Findings = field(default_factory=Findings)
    undecoded: int = 0


def _decoder_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, topic in reversed(_DECODERS.items()):
        told = f"Decode the records as those of {topic}, whatever the folder's name; implies --deep."
        command = click.option(f"--{name}", "decoder", flag_value=topic, help=told)(command)
    return click.option("--raw", "decoder", flag_value="", help="Leave the records of internal topics undecoded.")(
        command
    )


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--deep", is_flag=True, help="Show the records of a .log too, control records included.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "arrow", "parquet"]),
    default="text",
    show_default=True,
    help="json: one object a line. arrow, parquet: one table of the records (--deep) or batches, into --output.",
)
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="The file for arrow and parquet.")
@click.option("--limit", type=click.IntRange(1), help="Stop after so many entries of each file.")
@_decoder_options
@click.option("--show-secrets", is_flag=True, help="Show SCRAM keys and settings that are passwords or keys too.")
def dump(
    files: tuple[str, ...],
    deep: bool,
    form: Literal["text", "json", "arrow", "parquet"],
    output: Path | None,
    limit: int | None,
    decoder: str | None,
    show_secrets: bool,
) -> int:
    """Show what a broker's files say: segments, indexes, snapshots, checkpoints.

    FILE is a .log, .index, .timeindex, .txnindex, .snapshot, .checkpoint, leader-epoch-checkpoint,
    partition.metadata, quorum-state, one of the offset checkpoints, or meta.properties; a path, or a URI such as
    s3://bucket/key. An index is held against the .log beside it. What is wrong is told at the end, and makes the exit
    code 1.

    With --deep the records of Kafka's own topics are decoded: those of files in a folder that is named after one, and
    those of metadata snapshots. A copy in a folder of another name needs the topic's option.

    \b
    Example:
      kseg dump data/orders-0/00000000000000000000.log --deep --limit 20
      kseg dump data/orders-0/*.index data/orders-0/*.timeindex
      kseg dump data/orders-0/00000000000000000000.log --deep --format json | jq -r .value
      kseg dump data/orders-0/00000000000000000000.log --deep --format parquet --output orders.parquet
      kseg dump data/__consumer_offsets-7/*.log --deep --format json | jq .decodedValue
      kseg dump copy/00000000000000000000.log --offsets-decoder
      kseg dump data/__cluster_metadata-0/*.checkpoint --deep
    """
    table = form in ("arrow", "parquet")
    if table != (output is not None):
        raise click.UsageError("--output goes with --format arrow and parquet, and those with --output")
    wanted = _Wanted(deep or bool(decoder), _BY_FOLDER if decoder is None else decoder, show_secrets, limit)
    if table and output is not None:
        from jobs.dumping import write_table

        kind = "record" if wanted.deep else "batch"
        found = (entry for path in files for entry in _entries(path, wanted))
        click.echo(f"kseg: {write_table(found, kind, output, form)} rows ({kind}) in {output}", err=True)
    else:
        _print(files, wanted, as_lines=form == "json")
    if wanted.undecoded:
        told = "records are of types or versions that this release does not know: their bytes are shown"
        click.echo(f"kseg: {wanted.undecoded} {told}", err=True)
    for fault in wanted.findings.faults:
        click.echo(f"kseg: {fault}", err=True)
    return _CORRUPT if wanted.findings.faults else 0


def _print(files: tuple[str, ...], wanted: _Wanted, *, as_lines: bool) -> None:
    from jobs.dumping import as_json, as_text

    for path in files:
        if not as_lines:
            click.echo(f"{path}:")
        for entry in _entries(path, wanted):
            sys.stdout.write((as_json({"file": path} | entry) if as_lines else as_text(entry)) + "\n")


def _entries(path: str, wanted: _Wanted) -> Iterator[Entry]:
    from etl.internals.decoding import internal_topic_of, with_meaning

    storage, place = open_storage(path)
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
