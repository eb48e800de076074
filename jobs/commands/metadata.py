"""``kseg metadata``: shows or writes the cluster's metadata, read from files, as tables."""

from __future__ import annotations

from typing import Literal

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.result import Result

NAMES = (
    "cluster",
    "topics",
    "partitions",
    "brokers",
    "controllers",
    "voters",
    "features",
    "configs",
    "acls",
    "quotas",
    "scram",
    "delegation_tokens",
    "producer_ids",
)


@click.command(cls=KsegCommand)
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@click.option("--at", type=click.IntRange(0), metavar="OFFSET", help="Use records below this offset.  [default: all]")
@click.option("--table", "tables", multiple=True, type=click.Choice(NAMES), help="Show only this table; repeatable.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["arrow", "parquet", "delta"]),
    help="Write each table below --output: NAME.arrow, NAME.parquet, or a Delta table NAME that is replaced.",
)
@click.option("--output", metavar="DIR", help="The folder of the tables; for delta also a URI such as s3://bucket/key.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: a list of rows for each table.")
def metadata(
    invocation: Invocation,
    folders: tuple[str, ...],
    at: int | None,
    tables: tuple[str, ...],
    form: Literal["arrow", "parquet", "delta"] | None,
    output: str | None,
) -> Result:
    """Show the content of the cluster's metadata log: topics, partitions, brokers, settings, ACLs, quotas …

    DIR is the folder of metadata.log.dir (log.dirs, if that is not set) of a controller or a broker, its
    __cluster_metadata-0 alone, or a copy; a path, or a URI such as s3://bucket/key. The newest snapshot at or below
    the offset is read, and the log after it. Passwords, keys and tokens are not shown.

    \b
    Example:
      kseg metadata /var/lib/kafka/data --table partitions
      kseg metadata controller-1 controller-2 --json | jq '.partitions[] | select(.offline_replicas != [])'
      kseg metadata backup --at 120000 --table acls
      kseg metadata backup --format delta --output tables
    """
    if (form is None) != (output is None):
        raise click.UsageError("--format and --output have to be given together")

    from kseg.etl.internal_topics.locations import LogDirs
    from kseg.jobs.output.metadata import document, write

    selected, headline = document(LogDirs(folders), at, tables or NAMES)
    if form is not None and output is not None:
        written = write(selected, form, output)
        return Result({"output": output, "rows": written}, f"{headline}, {len(written)} tables in {output}")
    return Result(selected.rows(brief=not invocation.as_json), headline, rows=200)
