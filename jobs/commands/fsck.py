"""``kseg fsck``: is a log directory intact?"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import click

from kseg.jobs.invocation.layout_options import layout_options
from kseg.jobs.output.standard_streams import while_read
from kseg.jobs.output.tables import show
from kseg.jobs.progress import progress_for
from kseg.segment_reader.log.damage.check import PartitionCheck, check_partition
from kseg.segment_reader.log.errors import SegmentGone
from kseg.segment_reader.log.files.locations import open_storage
from kseg.segment_reader.log.files.names import PartitionFolder, partition_folder
from kseg.segment_reader.log.files.segments import partition_folders
from kseg.segment_reader.log.files.storage import Storage

_CORRUPT: Final = 1


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@click.option("--topic", "topics", multiple=True, help="Check only this topic; repeatable.")
@click.option("--deep", is_flag=True, help="Decompress and read every record too.")
@click.option("--threads", type=click.IntRange(1), default=min(8, os.cpu_count() or 1), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@layout_options
def fsck(
    folders: tuple[str, ...],
    topics: tuple[str, ...],
    deep: bool,
    threads: int,
    as_json: bool,
    layout: str,
    layout_option: dict[str, str],
) -> int:
    """Check a broker's log directories, or copies of them, without changing anything.

    DIR is a folder of log.dirs, or the folder of one partition; a path, or a URI such as s3://bucket/key. Checksums,
    the order of offsets, indexes, aborted transactions, producer snapshots and leader epochs are compared with each
    other. A running broker may write to its files meanwhile: check a copy, or stop the broker first.

    Exit code 1: something is damaged. A batch that an unclean shutdown cut off at the end of a log is reported, but
    does not count as damage. `kseg recover` lands what can still be read of a damaged directory.

    \b
    Example:
      kseg fsck /var/lib/kafka/data
      kseg fsck /backup/orders-0 /backup/orders-1 --deep
      kseg fsck s3://backups/broker-1 --topic orders --json | jq .faults
      kseg fsck s3://tiered --layout aiven --layout-option local=/var/lib/kafka/data
    """
    places = [place for folder in folders for place in _partitions(folder, layout, layout_option)]
    found = [place for place in places if not topics or place[2].topic in topics]
    if not found:
        raise click.BadParameter(f"no folder of a partition in {', '.join(folders)}", param_hint="DIR")
    with progress_for() as progress, ThreadPoolExecutor(threads) as pool:
        progress.phase("check")
        progress.total(len(found), "partitions")
        checks = []
        for check in pool.map(lambda place: _check(*place, deep=deep), found):
            checks.append(check)
            progress.advance()
    document = _document(checks)
    with while_read(sys.stdout):
        if as_json:
            click.echo(json.dumps(document, indent=2))
        else:
            faults = len(document["faults"])
            headline = (
                f"{len(checks)} partitions are intact" if not faults else f"{faults} errors in {len(checks)} partitions"
            )
            show(document, headline, stream=sys.stdout)
    return _CORRUPT if document["faults"] else 0


def _partitions(location: str, layout: str, options: dict[str, str]) -> Iterator[tuple[Storage, str, PartitionFolder]]:
    try:
        storage, path = open_storage(location, layout, options)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="DIR") from None
    own = partition_folder(path.rsplit("/", 1)[-1])
    try:
        inner = partition_folders(storage, path)
    except SegmentGone as error:
        raise click.BadParameter(f"{location}: {error.reason}", param_hint="DIR") from None
    if own is not None and not inner:
        yield storage, path, own
    for folder, found in inner.items():
        if found.replica != "delete":
            yield storage, folder, found


def _check(storage: Storage, folder: str, found: PartitionFolder, *, deep: bool) -> PartitionCheck:
    return check_partition(storage, folder, found.topic, found.partition, deep=deep)


def _document(checks: list[PartitionCheck]) -> dict[str, Any]:
    partitions = [
        {
            "partition": f"{check.topic}-{check.partition}",
            "folder": check.folder,
            "segments": check.segments,
            "bytes": check.bytes,
            "batches": check.batches,
            "records": check.records,
            "log_start_offset": check.log_start_offset,
            "log_end_offset": check.log_end_offset,
            "open_transactions": len(check.open_transactions),
            "faults": len(check.faults),
        }
        for check in checks
    ]
    faults = [
        {
            "file": fault.file,
            "position": fault.position,
            "length": getattr(fault, "length", None),
            "first_offset": getattr(fault, "first", None),
            "last_offset": getattr(fault, "last", None),
            "fault": type(fault).__name__,
            "reason": fault.reason,
        }
        for check in checks
        for fault in check.faults
    ]
    notes = [note for check in checks for note in check.notes]
    return {
        "bytes": sum(check.bytes for check in checks),
        "records": sum(check.records for check in checks),
        "partitions": partitions,
        "faults": faults,
        "notes": notes,
    }
