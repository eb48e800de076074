"""`kseg init`: a job file from a sample of a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kseg.etl.decoding.formats.registry import in_samples
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import cluster_options, common_options
from kseg.jobs.invocation.result import Result
from kseg.jobs.output.files import writing_to

if TYPE_CHECKING:
    from kseg.jobs.inference.job_text import JobDraft


FORMATS: Final = tuple(name for name, _ in in_samples())


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg init --topic orders --bootstrap localhost:9092
  kseg init --topic orders --bootstrap localhost:9092 --table s3://lake/orders -o jobs/orders.yaml
  kseg init --topic orders --bootstrap localhost:9092 --format json --partition-by customer
  kseg init --topic payments --bootstrap localhost:9092 --registry http://localhost:8081
  kseg init --topic orders --bootstrap localhost:9092 --force
""",
)
@click.option("--topic", required=True, help="The topic to sample.")
@click.option("--table", metavar="PATH", help="The table to write to, a path or URL.  [default: ./lake/TOPIC]")
@click.option("--registry", metavar="URL", help="The schema registry of the topic's producers.")
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    help="The values' format, instead of the recognised one; with json, other values become dead letters.",
)
@click.option(
    "--partition-by", "partition_by", multiple=True, metavar="COLUMN", help="Partition the table by it; repeatable."
)
@click.option("-o", "--output", metavar="FILE", help="The job file to write.  [default: TOPIC.yaml]")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--max-columns",
    type=click.IntRange(1),
    default=500,
    show_default=True,
    help="Declare at most this many fields of JSON documents: the most frequent ones.",
)
@cluster_options
@common_options
def init(
    invocation: Invocation,
    topic: str,
    table: str | None,
    registry: str | None,
    format: str | None,
    partition_by: tuple[str, ...],
    output: str | None,
    force: bool,
    max_columns: int,
    bootstrap_servers: str | None,
    properties: tuple[str, ...],
) -> Result:
    """Write a job file for a topic, from a sample of its records.

    The first and last 1,000 records of each partition are read, with read_committed. Their format is recognised:
    JSON, a registry's schemas, text, or what Kafka's own serializers write; columns of JSON are inferred. If at most
    one value in ten has another format, these values become dead letters. Comments in the file say how many records
    had each field and what is ambiguous: read them before the first run. Secrets given with -X are written as
    references to environment variables; those of --command-config stay there. Properties of the registry's client
    are -X schema.registry.KEY=VALUE.
    """
    from kseg.client.config import ClientConfig
    from kseg.etl.source.logs import open_logs
    from kseg.jobs.api import bad_argument
    from kseg.jobs.api.properties import client_properties
    from kseg.jobs.inference.draft import draft_of, kafka_section
    from kseg.jobs.inference.job_text import job_name
    from kseg.jobs.inference.payloads import has_documents, words_of
    from kseg.jobs.inference.sampling import sample
    from kseg.jobs.records.place import check_cluster, topics_exist
    from kseg.jobs.records.registry_options import of_cluster, registry_properties, without_registry

    place = Path(output or f"{job_name(topic)}.yaml")
    if place.exists() and not force:
        raise bad_argument("-o", f"{place} exists", "give --force to overwrite it, or -o FILE for another file")
    given = without_registry(client_properties(bootstrap_servers, invocation.command_config, properties))
    asked = registry_properties(registry, invocation.command_config, properties)
    check_cluster(given)
    config = ClientConfig.from_properties(given, client_id="kseg-init")
    with topics_exist("--topic"), open_logs(config) as logs:
        sampled = sample(logs, topic)
    if not sampled.records:
        held = "it is empty" if not sampled.offsets else "no record in it is committed"
        raise bad_argument("--topic", f"there is nothing to sample in {topic}: {held}", "write some records first")
    drafted = draft_of(
        topic,
        sampled,
        kafka_section(given, of_cluster(properties)),
        table=table or f"./lake/{topic}",
        registry=asked,
        most_columns=max_columns,
        format=format,
        partition_by=partition_by,
    )
    if format is not None and has_documents(format) and not drafted.draft.value.columns:
        found = f"no sampled value has fields: {words_of(format)} are expected"
        raise bad_argument("--format", found, "leave it out")
    if partition_by:
        _check_partitions(partition_by, drafted.draft)
    with writing_to("-o"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(drafted.text, encoding="utf-8")
    document: dict[str, Any] = {
        "file": str(place),
        "topic": topic,
        "records": sampled.records,
        "key": drafted.draft.key.recognised.format,
        "value": drafted.draft.value.recognised.format,
        "columns": sum(column.type is not None for column in drafted.draft.value.columns),
        "notes": list(drafted.notes),
    }
    headline = f"{place}: {sampled.records:,} records of {topic} sampled; next: kseg plan {place}"
    return Result(document, headline)


def _check_partitions(partition_by: tuple[str, ...], draft: JobDraft) -> None:
    """Raises ConfigurationError for a column that is not declared, or by whose type no table can be partitioned."""
    from kseg.etl.tables.parquet.layout import can_partition_by
    from kseg.jobs.api import bad_argument
    from kseg.segment_reader.payload.ddl import parse_columns

    declared = {column.column: column.type for column in draft.value.columns if column.type is not None}
    if not declared:
        return
    types = parse_columns(declared)
    for name in partition_by:
        if name.startswith("_kseg_"):
            continue
        if name not in declared:
            raise bad_argument("--partition-by", f"{name} is no column", f"one of {', '.join(declared)}")
        if not can_partition_by(types.field(name).type):
            raise bad_argument("--partition-by", f"{name} is {declared[name]}", "name a column without nested values")
