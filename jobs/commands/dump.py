"""``kseg dump``: what stands in a broker's files, with no broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final, Literal

import click

from segment_reader.log.dump import Entry, Findings
from segment_reader.log.dump import dump as entries_of
from segment_reader.log.errors import SegmentGone
from segment_reader.log.storage import open_storage

_CORRUPT: Final = 1


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
def dump(
    files: tuple[str, ...],
    deep: bool,
    form: Literal["text", "json", "arrow", "parquet"],
    output: Path | None,
    limit: int | None,
) -> int:
    """Show what a broker's files say: segments, indexes, snapshots, checkpoints.

    FILE is a .log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint, partition.metadata, one of the
    offset checkpoints, or meta.properties; a path, or a URI such as s3://bucket/key. An index is held against the .log
    beside it. What is wrong is told at the end, and makes the exit code 1.

    \b
    Example:
      kseg dump data/orders-0/00000000000000000000.log --deep --limit 20
      kseg dump data/orders-0/*.index data/orders-0/*.timeindex
      kseg dump data/orders-0/00000000000000000000.log --deep --format json | jq -r .value
      kseg dump data/orders-0/00000000000000000000.log --deep --format parquet --output orders.parquet
    """
    table = form in ("arrow", "parquet")
    if table != (output is not None):
        raise click.UsageError("--output goes with --format arrow and parquet, and those with --output")
    findings = Findings()
    if table and output is not None:
        from jobs.dumping import write_table

        kind = "record" if deep else "batch"
        found = (entry for path in files for entry in _entries(path, findings, deep=deep, limit=limit))
        click.echo(f"kseg: {write_table(found, kind, output, form)} rows ({kind}) in {output}", err=True)
    else:
        _print(files, findings, deep=deep, as_lines=form == "json", limit=limit)
    for fault in findings.faults:
        click.echo(f"kseg: {fault}", err=True)
    return _CORRUPT if findings.faults else 0


def _print(files: tuple[str, ...], findings: Findings, *, deep: bool, as_lines: bool, limit: int | None) -> None:
    from jobs.dumping import as_json, as_text

    for path in files:
        if not as_lines:
            click.echo(f"{path}:")
        for entry in _entries(path, findings, deep=deep, limit=limit):
            sys.stdout.write((as_json({"file": path} | entry) if as_lines else as_text(entry)) + "\n")


def _entries(path: str, findings: Findings, *, deep: bool, limit: int | None) -> Iterator[Entry]:
    storage, place = open_storage(path)
    try:
        yield from islice(entries_of(storage, place, findings, deep=deep), limit)
    except SegmentGone as error:
        raise click.BadParameter(f"{path}: {error.reason}", param_hint="FILE") from None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="FILE") from None
