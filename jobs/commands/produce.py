"""`kseg produce`: writes lines of text or JSON to a topic."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import BinaryIO, Literal

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import cluster_options, common_options
from kseg.jobs.invocation.result import Result


def _check(form: str, key_separator: str | None, create: bool, **given: object) -> None:
    if key_separator is not None and form != "lines":
        raise click.UsageError("--key-separator needs --format lines: in JSON the key is the member `key`")
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    if not create and (given["partitions"] is not None or given["replication_factor"] is not None):
        raise click.UsageError("--partitions and --replication-factor need --create")


@click.command(
    cls=KsegCommand,
    check=_check,
    epilog="""\b
Examples:
  echo '{"id": 1, "amount": 9.5}' | kseg produce orders --bootstrap localhost:9092 --create
  kseg produce orders orders.jsonl --bootstrap localhost:9092
  kseg produce orders keyed.txt --key-separator : --header source=import --bootstrap localhost:9092
  echo '{"key": "7", "value": {"id": 7}, "timestamp": "2026-01-01T00:00:00Z"}' | kseg produce orders --format json \\
    --bootstrap localhost:9092
""",
)
@click.argument("topic", metavar="TOPIC")
@click.argument("file", metavar="[FILE|-]", type=click.File("rb"), default="-")
@click.option(
    "--format",
    "form",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="lines: a line is a value, JSON or not. json: a line is an object with key, value, headers, partition, "
    "timestamp.",
)
@click.option("--key-separator", metavar="TEXT", help="The separator of key and value in a line.")
@click.option("--partition", type=click.IntRange(0), help="Send all records to this partition.  [default: by key]")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Add a header to each record; repeatable."
)
@click.option("--create", is_flag=True, help="Create the topic if it is missing.")
@click.option("--partitions", type=click.IntRange(1), help="For --create: how many.  [default: the broker's]")
@click.option("--replication-factor", type=click.IntRange(1), help="For --create.  [default: the broker's]")
@cluster_options
@common_options
def produce(
    invocation: Invocation,
    topic: str,
    file: BinaryIO,
    form: Literal["lines", "json"],
    key_separator: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    create: bool,
    partitions: int | None,
    replication_factor: int | None,
    bootstrap_servers: str | None,
    properties: tuple[str, ...],
) -> Result:
    """Write records to a topic: one for each line of FILE, or of stdin.

    Records are partitioned by key as in Java's producer. -X sets any producer property: compression.type, acks …
    With --format json, a string is sent as UTF-8 and null as null; keyBase64 and valueBase64 contain bytes that are
    not text; headers are an object or a list of [name, value], and headersBase64 the same with values in base64. value
    or valueBase64 is required. `kseg peek --json` prints this format, so its output can be written to another topic.
    """
    from kseg.client.producer.config import ProducerConfig
    from kseg.etl.errors import ConfigurationError
    from kseg.jobs.api import bad_argument
    from kseg.jobs.api.properties import client_properties
    from kseg.jobs.records.lines import BadLine, parsed_headers, records_of
    from kseg.jobs.records.place import check_cluster, topics_exist
    from kseg.jobs.records.producing import Sent, find_or_create
    from kseg.jobs.records.producing import produce as send

    given = client_properties(bootstrap_servers, invocation.command_config, properties)
    check_cluster(given)
    config = ProducerConfig.from_properties(given, client_id="kseg-produce")
    more = parsed_headers(headers, lambda pair: bad_argument("--header", f"{pair!r} is not of the form NAME=VALUE"))
    sent = Sent(topic)
    sent.created = find_or_create(
        config.client, topic, create=create, partitions=partitions or -1, replication_factor=replication_factor or -1
    )
    source = getattr(file, "name", "<stdin>")
    if source == "<stdin>" and sys.stdin.isatty():
        click.echo("One record a line; end with Ctrl-D.", err=True)
    records = (
        replace(one, headers=(*one.headers, *more), partition=partition if one.partition is None else one.partition)
        for one in records_of(file, form, None if key_separator is None else key_separator.encode())
    )
    try:
        with topics_exist(partition="partition"):
            send(config, sent, records)
    except BadLine as error:
        remedy = f"correct it; {sent.records} record(s) before it were sent"
        raise ConfigurationError.of(source, str(error), remedy) from None
    document = sent.to_json()
    made = " (created)" if sent.created else ""
    return Result(document, f"{topic}{made}: {sent.records} record(s) in {len(sent.partitions)} partition(s)")
