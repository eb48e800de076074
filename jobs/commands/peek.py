"""`kseg peek`: shows a topic's records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Literal

import click

from kseg.jobs.invocation.execution import tracing
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import cluster_options, debug_option, trace_option

if TYPE_CHECKING:
    from kseg.client.protocol.partition import TopicPartition
    from kseg.etl.config.job import Job
    from kseg.jobs.records.decoded import RecordDecoder
    from kseg.jobs.records.place import Place


def _offset(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value in ("earliest", "latest"):
        return value
    try:
        return int(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is none of N, -N, earliest and latest") from None


@click.command(
    epilog="""\b
Examples:
  kseg peek orders --bootstrap localhost:9092
  kseg peek orders --bootstrap localhost:9092 --offset earliest --count 5
  kseg peek orders.yaml --follow
  kseg peek orders --bootstrap localhost:9092 --registry http://localhost:8081
  kseg peek orders --registry https://sr:8081 --command-config client.properties
  kseg peek orders --log-dir /backup/kafka/data --offset 1200 --partition 3
  kseg peek orders --bootstrap localhost:9092 --json | jq -r .value
"""
)
@click.argument("names", nargs=-1, required=True, metavar="JOB.yaml|TOPIC...")
@click.option(
    "--offset",
    callback=_offset,
    metavar="N|-N|earliest|latest",
    help="From this offset, or the last N records of each partition.  [default: the last --count]",
)
@click.option(
    "--partition", "partitions", type=click.IntRange(0), multiple=True, help="Show only this partition; repeatable."
)
@click.option(
    "-n", "--count", type=click.IntRange(1), help="How many records to show.  [default: 10; all if --offset is given]"
)
@click.option("--follow", is_flag=True, help="Continue with new records as they arrive, until Ctrl-C.")
@click.option(
    "--isolation-level",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="Whether records of aborted and open transactions are shown.",
)
@click.option(
    "--registry", metavar="URL", help="Decode payloads with the schemas of this registry.  [default: the job's]"
)
@click.option("--raw", is_flag=True, help="Show keys and values as they are, although the job decodes them.")
@click.option("--full", is_flag=True, help="Do not cut keys and values at 2,000 characters.")
@click.option("--log-dir", "log_dirs", multiple=True, metavar="DIR", help="Read a broker's log files; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line, for `kseg produce --format json`.")
@cluster_options
@trace_option
@debug_option
def peek(
    names: tuple[str, ...],
    offset: int | str | None,
    partitions: tuple[int, ...],
    count: int | None,
    follow: bool,
    isolation_level: Literal["read_committed", "read_uncommitted"],
    registry: str | None,
    raw: bool,
    full: bool,
    log_dirs: tuple[str, ...],
    as_json: bool,
    bootstrap_servers: str | None,
    command_config: str | None,
    properties: tuple[str, ...],
    trace: bool,
    debug: bool,
) -> int:
    """Show records: address, timestamp, headers, key, value. Records of several partitions are sorted by timestamp.

    Unprintable bytes are escaped. If a schema registry's serializer wrote a payload, the id of its schema is shown.
    With a job that has `decode:`, or with --registry, payloads are decoded and shown as JSON. If a payload cannot be
    decoded, the error and the bytes are shown. A missing payload is shown as <null>, with --json as null.

    Set properties of the registry's client with -X schema.registry.KEY=VALUE, or in the file of --command-config.
    """
    from kseg.etl.source.logs import open_logs
    from kseg.etl.source.origin import LogFiles, Origin
    from kseg.jobs.records.peeking import Wanted
    from kseg.jobs.records.peeking import peek as found_by
    from kseg.jobs.records.place import place_of, topics_exist
    from kseg.jobs.records.registry_options import of_cluster, registry_properties
    from kseg.jobs.records.shown import NOTHING_DECODED, as_line, as_object, to_json

    if offset is None:
        offset, count = ("latest" if follow and count is None else -(count or 10)), count or 10
    if follow and log_dirs:
        raise click.UsageError("--follow needs brokers: files are read as they are")
    invocation = Invocation(command="peek", command_config=command_config, as_json=as_json, debug=debug)
    if raw and registry is not None:
        raise click.UsageError("--raw and --registry exclude each other")
    origin: Origin = LogFiles(log_dirs)
    topics, job = names, None
    if not log_dirs:
        place = place_of(invocation, names, bootstrap_servers, of_cluster(properties))
        origin, topics, job = place.config, place.names or _of_job(place), place.job
    asked = None if raw else registry_properties(registry, command_config, properties, job)
    wanted = Wanted(offset, count, partitions, isolation_level)
    known = nullcontext() if log_dirs else topics_exist()
    with (
        tracing(trace),
        suppress(KeyboardInterrupt),
        known,
        open_logs(origin) as logs,
        _decoder(None if raw else job, asked) as decoder,
    ):
        for row in found_by(logs, topics, wanted, follow=follow, beyond=_beyond):
            decoded = decoder.decode(row) if decoder is not None else NOTHING_DECODED
            click.echo(to_json(as_object(row, decoded)) if as_json else as_line(row, whole=full, decoded=decoded))
    return 0


def _decoder(job: Job | None, registry: Mapping[str, str] | None) -> AbstractContextManager[RecordDecoder | None]:
    if job is None and registry is None:
        return nullcontext()
    from kseg.jobs.records.decoded import decoder_of  # imports the decoders

    return decoder_of(job, registry)


def _beyond(place: TopicPartition, end: int) -> None:
    click.echo(f"{place}: no records from --offset on: the log ends at offset {end}", err=True)


def _of_job(place: Place) -> tuple[str, ...]:
    from kseg.etl.errors import ConfigurationError

    assert place.job is not None
    named = place.job.source.named_topics
    if named is None:
        raise ConfigurationError.of("source.pattern", "names no topic to show", "give topics and --bootstrap-servers")
    return named
