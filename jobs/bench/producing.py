"""Throughput of producers: this project's, confluent-kafka's and kafka-python's.

Each sends the same records of 170 bytes to a topic of four partitions (lz4, idempotent, acks=all, batches of 128 KiB);
the time ends when the last record is acknowledged. `records` sends one record for each call; `columns` sends batches of
Arrow columns, as `df.write.format("kseg")` does, without an object for each record. kafka-python is left out if it is
not installed.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from kseg.client.admin.topics import create_topic
from kseg.client.cluster.cluster import Cluster
from kseg.client.offsets import LATEST, list_offsets
from kseg.client.protocol.partition import TopicPartition
from kseg.jobs.bench.workload import PARTITIONS, client_config, records
from kseg.segment_reader.encode.batches import Record

DISTINCT = 10_000
BATCH = 128 * 1024
PROPERTIES = {"compression.type": "lz4", "batch.size": str(BATCH), "linger.ms": "20", "acks": "all"}

Way = Callable[[str, str, Sequence[Record], int], None]


def measure(servers: str, *, rows: int, rounds: int, warm_up: int = 1) -> dict[str, Any]:
    """Thousand rows per second by producer, from median times; and how many times as fast as each other producer
    `records` and `columns` are."""
    made = records(0, DISTINCT)
    ways: dict[str, Way] = {"records": _records, "columns": _columns, "confluent_kafka": _confluent}
    if importlib.util.find_spec("kafka") is not None:
        ways["kafka_python"] = _kafka_python
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + warm_up):
        for way, run in ways.items():
            topic = f"produce-{way}-{number}".replace("_", "-")
            with Cluster(client_config(servers)) as cluster:
                create_topic(cluster, topic, partitions=PARTITIONS, replication_factor=1)
                began = time.perf_counter()
                run(servers, topic, made, rows)
                taken = time.perf_counter() - began
                _hold_to(cluster, topic, rows)
            if number >= warm_up:
                seconds[way].append(taken)
    rates = {way: round(rows / median(times) / 1000, 1) for way, times in seconds.items()}
    peers = [way for way in rates if way not in ("records", "columns")]
    return {
        "rows": rows,
        "krows_per_second": rates,
        "ratios": {
            f"{way}_vs_{peer}": round(rates[way] / rates[peer], 2) for way in ("records", "columns") for peer in peers
        },
    }


def _hold_to(cluster: Cluster, topic: str, rows: int) -> None:
    places = dict.fromkeys((TopicPartition(topic, number) for number in range(PARTITIONS)), LATEST)
    ends = list_offsets(cluster, places, isolation_level="read_committed")
    found = sum(end.offset for end in ends.values())
    if found != rows:
        raise AssertionError(f"{topic} has {found} records, {rows} were produced")


def _records(servers: str, topic: str, made: Sequence[Record], rows: int) -> None:
    from kseg.client.producer import KafkaProducer

    with KafkaProducer({"bootstrap.servers": servers, **PROPERTIES}) as producer:
        for number in range(rows):
            record = made[number % DISTINCT]
            producer.send(topic, record.value, record.key)


def _columns(servers: str, topic: str, made: Sequence[Record], rows: int) -> None:
    import pyarrow as pa

    from kseg.client.producer import KafkaProducer
    from kseg.etl.kafka_writer.columns import RowColumns
    from kseg.etl.kafka_writer.rows import RowWriter

    batch = pa.RecordBatch.from_arrays(
        [pa.array([record.key for record in made]), pa.array([record.value for record in made])], names=["key", "value"]
    )
    columns = RowColumns(value=1, key=0, topic=None, partition=None, headers=None, timestamp=None)
    with KafkaProducer({"bootstrap.servers": servers, **PROPERTIES}) as producer:
        writer = RowWriter(producer, columns, topic)
        writer.write(batch for _ in range(rows // DISTINCT))
        writer.finish()


def _confluent(servers: str, topic: str, made: Sequence[Record], rows: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **PROPERTIES})
    for number in range(rows):
        record = made[number % DISTINCT]
        while True:
            try:
                producer.produce(topic, record.value, record.key)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(600):
        raise AssertionError("confluent-kafka did not deliver everything")


def _kafka_python(servers: str, topic: str, made: Sequence[Record], rows: int) -> None:
    from kafka import KafkaProducer

    producer: Any = KafkaProducer(  # type: ignore[no-untyped-call]
        bootstrap_servers=servers,
        acks="all",
        enable_idempotence=True,
        compression_type="lz4",
        batch_size=BATCH,
        linger_ms=20,
    )
    for number in range(rows):
        record = made[number % DISTINCT]
        producer.send(topic, value=record.value, key=record.key)
    producer.flush()
    producer.close()
