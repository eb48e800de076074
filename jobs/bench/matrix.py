"""Kinds of topics and transforms, compared with Spark's tuned connector: rows per second, and CPU seconds per million
rows.

Topics are written by librdkafka (confluent-kafka), like most topics that jobs read. Both sides run in one warm session,
in turn, and write to Delta: ours is a whole `kseg ingest`; the connector reads, runs the same statement and writes. CPU
seconds are those of this process, the JVM and the Python workers, without the broker's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import psutil

from kseg.client.admin.topics import create_topic, delete_topics
from kseg.client.cluster.cluster import Cluster
from kseg.etl.rows.names import ROWS_VIEW
from kseg.etl.telemetry.progress import Progress
from kseg.jobs.bench.contenders import TUNING, Contender, connector_to_delta
from kseg.jobs.bench.figures import OURS, TUNED
from kseg.jobs.bench.session import MASTER
from kseg.jobs.bench.workload import PARTITIONS, BenchTopic, client_config

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DISTINCT: Final = 10_000
PER_TRANSACTION: Final = 2_000
ABORTED: Final = (2, 5, 8)
"""The numbers of the transactions that are aborted, of each ten."""


@dataclass(frozen=True, slots=True)
class MatrixEffort:
    """rows: of each topic. rounds: their median is reported. warm_up: rounds of each workload before these."""

    rows: int
    rounds: int
    warm_up: int


FULL: Final = MatrixEffort(1_000_000, 3, 1)
QUICK: Final = MatrixEffort(100_000, 1, 1)


def _json(random: Random) -> bytes:
    token = f"{random.getrandbits(176):044x}"
    return (
        f'{{"id":{random.randrange(10**8, 10**9)},"customer":"c{random.randrange(10**6):06d}",'
        f'"amount":{random.randrange(10**5, 10**6) / 100:.2f},"currency":"EUR","quantity":{random.randrange(10, 100)},'
        f'"paid":true,"status":"placed","token":"{token}"}}'
    ).encode()


def _random(size: int) -> Callable[[Random], bytes]:
    return lambda random: random.randbytes(size)


@dataclass(frozen=True, slots=True)
class TopicKind:
    """value: makes a record's value. properties: the producer's. aborts: three of ten transactions are aborted."""

    value: Callable[[Random], bytes]
    properties: Mapping[str, Any] = field(default_factory=dict)
    partitions: int = PARTITIONS
    aborts: bool = False


_LZ4: Final = {"compression.type": "lz4"}

TOPICS: Final[Mapping[str, TopicKind]] = {
    "json-lz4": TopicKind(_json, _LZ4),
    "json-zstd": TopicKind(_json, {"compression.type": "zstd"}),
    "random-100": TopicKind(_random(100)),
    "random-1000": TopicKind(_random(1000)),
    "small-batches": TopicKind(_json, {**_LZ4, "batch.num.messages": 10}),
    "aborted": TopicKind(_json, _LZ4, aborts=True),
    "wide": TopicKind(_json, _LZ4, partitions=64),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """statement: the SQL that both sides run on the rows; None: none. step: our job's step instead of the SQL."""

    name: str
    topic: str
    statement: str | None = None
    step: dict[str, str] | None = None

    @property
    def transform(self) -> list[dict[str, str]]:
        """The transform of our job."""
        if self.step is not None:
            return [self.step]
        return [] if self.statement is None else [{"sql": self.statement}]


def with_casts(rows: DataFrame) -> DataFrame:
    """The statement `CASTS` as a DataFrame step."""
    return rows.withColumns({f"{name}_text": rows[name].cast("string") for name in ("value", "key")})


CASTS: Final = f"SELECT *, CAST(value AS STRING) AS value_text, CAST(key AS STRING) AS key_text FROM {ROWS_VIEW}"
FROM_JSON: Final = (
    "SELECT topic, partition, offset, fields.* FROM (SELECT topic, partition, offset, from_json(CAST(value AS STRING), "
    "'id BIGINT, customer STRING, amount DOUBLE, currency STRING, quantity INT, paid BOOLEAN, status STRING, "
    f"token STRING') AS fields FROM {ROWS_VIEW})"
)
IN_DUCKDB: Final = {
    CASTS: f"SELECT *, decode(value) AS value_text, decode(key) AS key_text FROM {ROWS_VIEW}",
    FROM_JSON: (
        'SELECT topic, partition, "offset", unnest(from_json(decode(value), \'{"id": "BIGINT", "customer": "VARCHAR", '
        '"amount": "DOUBLE", "currency": "VARCHAR", "quantity": "INTEGER", "paid": "BOOLEAN", "status": "VARCHAR", '
        f'"token": "VARCHAR"}}\')) FROM {ROWS_VIEW}'
    ),
}

WORKLOADS: Final = (
    Workload("raw, JSON of 170 bytes, lz4", "json-lz4"),
    Workload("SQL step: SELECT *, two casts", "json-lz4", CASTS),
    Workload("DataFrame step: two casts", "json-lz4", CASTS, {"python": f"{__name__}:with_casts"}),
    Workload("SQL step: from_json to 8 columns", "json-lz4", FROM_JSON),
    Workload("DuckDB step: SELECT *, two casts", "json-lz4", CASTS, {"duckdb": IN_DUCKDB[CASTS]}),
    Workload("DuckDB step: from_json to 8 columns", "json-lz4", FROM_JSON, {"duckdb": IN_DUCKDB[FROM_JSON]}),
    Workload("raw, zstd", "json-zstd"),
    Workload("raw, 100 random bytes, uncompressed", "random-100"),
    Workload("raw, 1,000 random bytes", "random-1000"),
    Workload("raw, 10 records a batch", "small-batches"),
    Workload("raw, 30 % of transactions aborted", "aborted"),
    Workload("raw, 64 partitions", "wide"),
)


def measure(
    spark: SparkSession,
    servers: str,
    broker: Collection[int],
    folder: Path,
    effort: MatrixEffort,
    progress: Progress,
    workloads: Collection[Workload] = WORKLOADS,
) -> list[dict[str, Any]]:
    """One entry for each workload. broker: the processes whose CPU time is not counted.

    Raises:
        WrongCount: a run landed another number of rows than the topic has.
    """
    found: list[dict[str, Any]] = []
    for kind in dict.fromkeys(workload.topic for workload in workloads):
        progress.phase(f"matrix: {kind}")
        topic = fill(servers, f"matrix-{kind}", TOPICS[kind], effort.rows)
        found += [
            _measure_one(spark, workload, topic, broker, folder, effort)
            for workload in workloads
            if workload.topic == kind
        ]
        with Cluster(client_config(servers)) as cluster:
            delete_topics(cluster, [topic.name])
    return found


def _measure_one(
    spark: SparkSession,
    workload: Workload,
    topic: BenchTopic,
    broker: Collection[int],
    folder: Path,
    effort: MatrixEffort,
) -> dict[str, Any]:
    statement = workload.statement
    committed = {**TUNING, "kafka.isolation.level": "read_committed"}
    sides = (
        Contender(OURS, "delta", lambda place: _ingest(topic, workload.transform, place)),
        Contender(TUNED, "delta", lambda place: connector_to_delta(spark, topic, committed, place, statement)),
    )
    seconds: dict[str, list[float]] = {side.way: [] for side in sides}
    processor: dict[str, list[float]] = {side.way: [] for side in sides}
    for number in range(effort.warm_up + effort.rounds):
        for side in sides:
            before = cpu_seconds(broker)
            run = side.measure(folder, number, topic.rows)
            spent = cpu_seconds(broker) - before
            if number >= effort.warm_up:
                seconds[side.way].append(run.seconds)
                processor[side.way].append(spent)
    return {
        "workload": workload.name,
        "rows": topic.rows,
        "krows_per_second": {way: round(topic.rows / median(all_of) / 1000, 1) for way, all_of in seconds.items()},
        "cpu_seconds_a_million_rows": {
            way: round(median(all_of) / topic.rows * 1e6, 2) for way, all_of in processor.items()
        },
        "ratio": round(median(seconds[TUNED]) / median(seconds[OURS]), 2),
        "cpu_ratio": round(median(processor[TUNED]) / median(processor[OURS]), 2),
    }


def cpu_seconds(besides: Collection[int]) -> float:
    """CPU seconds of this process and of all its descendants so far, except these processes."""
    this = psutil.Process()
    total = 0.0
    for process in (this, *this.children(recursive=True)):
        if process.pid in besides:
            continue
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:  # it has ended: its time is in its parent's
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _ingest(topic: BenchTopic, transform: list[dict[str, str]], folder: Path) -> tuple[int, dict[str, float]]:
    from kseg.etl.config.load import load_job
    from kseg.etl.run.pipeline import run_ingest

    job: dict[str, Any] = {
        "version": 1,
        "name": "bench",
        "kafka": {"bootstrap.servers": topic.servers},
        "group": f"bench-{uuid4().hex[:8]}",
        "source": {"topics": [topic.name]},
        "sink": {"path": str(folder / "table")},
        "ledger": str(folder / "ledger"),
        "spark": {"master": MASTER},
        "transform": transform,
    }
    report = run_ingest(load_job(job))
    return report.rows_out or 0, {phase: round(seconds, 3) for phase, seconds in report.seconds.items()}


def fill(servers: str, name: str, kind: TopicKind, rows: int) -> BenchTopic:
    """A topic with this many committed records, written by librdkafka."""
    from confluent_kafka import Producer

    with Cluster(client_config(servers)) as cluster:
        create_topic(cluster, name, partitions=kind.partitions, replication_factor=1, config={"retention.ms": "-1"})
    properties = {"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 100_000}
    if kind.aborts:
        properties["transactional.id"] = name
    producer = Producer(properties | dict(kind.properties))
    random = Random(name)
    values = [kind.value(random) for _ in range(min(DISTINCT, rows))]

    def send(first: int, count: int) -> None:
        for number in range(first, first + count):
            value, key = values[number % len(values)], b"%010d" % (number % 65_536)
            while True:
                try:
                    producer.produce(name, value, key, partition=number % kind.partitions)
                    break
                except BufferError:
                    producer.poll(0.01)

    if kind.aborts:
        _in_transactions(producer, send, rows)
    else:
        send(0, rows)
    if producer.flush(600):
        raise AssertionError("librdkafka did not deliver everything")
    return BenchTopic(servers, name, rows, kind.partitions)


def _in_transactions(producer: Any, send: Callable[[int, int], None], rows: int) -> None:
    producer.init_transactions(60)
    done = number = 0
    while done < rows:
        count = min(PER_TRANSACTION, rows - done)
        producer.begin_transaction()
        send(done, count)
        if number % 10 in ABORTED:
            # Flushed before the abort: librdkafka would drop records that are only queued.
            producer.flush(60)
            producer.abort_transaction(60)
        else:
            producer.commit_transaction(60)
            done += count
        number += 1
