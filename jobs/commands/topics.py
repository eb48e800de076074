"""`kseg topics`: the topics of a cluster, or of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import cluster_options, common_options
from kseg.jobs.invocation.result import Result

if TYPE_CHECKING:
    from kseg.client.cluster.cluster import Cluster
    from kseg.jobs.records.place import Place

_MANY = 1000


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg topics --bootstrap localhost:9092
  kseg topics --bootstrap localhost:9092 orders payments
  kseg topics orders.yaml
  kseg topics --bootstrap localhost:9092 --json | jq -r '.topics[] | select(.records == 0) | .topic'
""",
)
@click.argument("names", nargs=-1, metavar="[JOB.yaml] [TOPIC]...")
@click.option("--internal", is_flag=True, help="Also Kafka's own topics, whose names begin with __.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="The rate is measured over this many last minutes.",
)
@cluster_options
@common_options
def topics(
    invocation: Invocation,
    names: tuple[str, ...],
    internal: bool,
    minutes: float,
    bootstrap_servers: str | None,
    properties: tuple[str, ...],
) -> Result:
    """Show topics: partitions, records, size on disk, time of the last record, rate.

    With names, or a job file, also shows each partition. Records are counted by offsets: transaction markers and
    records that compaction has removed count, too. Sizes are those of all replicas, and need the right to describe the
    cluster.
    """
    from kseg.client.cluster.cluster import Cluster
    from kseg.jobs.records.place import place_of, topics_exist
    from kseg.jobs.records.topics import describe_topics

    place = place_of(invocation, names, bootstrap_servers, properties)
    with topics_exist(), Cluster(place.config) as cluster:
        wanted = _wanted(cluster, place)
        found = describe_topics(cluster, wanted, internal=internal, minutes=minutes)
    document: dict[str, Any] = {"topics": [topic.to_json() for topic in found]}
    if wanted is not None or invocation.as_json:
        document["partitions"] = [one.to_json() for topic in found for one in topic.partitions]
    count = sum(len(topic.partitions) for topic in found)
    headline = f"{len(found)} topic(s), {count} partition(s)"
    return Result(document if invocation.as_json else _readable(document), headline, rows=_MANY)


def _wanted(cluster: Cluster, place: Place) -> list[str] | None:
    """The given topics, else the job's; None: all topics."""
    if place.names or place.job is None:
        return sorted(set(place.names)) or None
    from kseg.etl.source.resolve import resolve_topics

    source = place.job.source
    found = resolve_topics(cluster, topics=source.topics, pattern=source.pattern, assign=source.assign)
    return sorted({tp.topic for tp in found})


def _readable(document: dict[str, Any]) -> dict[str, Any]:
    """Bytes and rates in a readable form, without empty columns."""
    from kseg.jobs.output.si_prefixes import scaled

    def cells(row: dict[str, Any]) -> dict[str, Any]:
        shown = {key: value for key, value in row.items() if key != "without_leader" or value}
        size = shown.pop("bytes")
        rate = shown.pop("per_second")
        last = shown.pop("last_record")
        number, prefix = scaled(size or 0)
        shown["size"] = None if size is None else f"{number:.3g} {prefix}B"
        shown["last record"] = last
        shown["per second"] = None if rate is None else f"{rate:.3g}"
        if "cleanup" in shown:
            shown["cleanup"] = shown.pop("cleanup")
        return shown

    return {name: [cells(row) for row in rows] for name, rows in document.items()}
