"""The records that benchmarks read, like those of an order system, and a topic filled with them.

Records depend only on their number, so that every run of the benchmark reads the same bytes. To make them in Python
takes longer than to read them, so a topic repeats a quarter of a million of them; neither side benefits from that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kseg.client.admin.topics import create_topic
from kseg.client.cluster.cluster import Cluster
from kseg.client.config import ClientConfig
from kseg.client.producer import produce
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.telemetry.progress import Progress
from kseg.segment_reader.encode.batches import Record, encode_batch

if TYPE_CHECKING:
    from kseg.jobs.broker.process import EmbeddedKafka

PARTITIONS = 4
RECORDS_PER_BATCH = 1000
DISTINCT_BATCHES = 256
FIRST_TIMESTAMP = 1_767_225_600_000

_STATUS = ("placed", "paid", "shipped", "delivered", "returned")
_KEY = 10
_TEXT = 110  # bytes of a value without its padding and its random digits


def records(first: int, count: int, size: int = 170) -> list[Record]:
    """Records number `first` and on; key and value have `size` bytes together."""
    digits = random.Random(first)
    noise_size = size - _KEY - _TEXT
    made = []
    for number in range(first, first + count):
        noise = f"{digits.getrandbits(4 * noise_size):0{noise_size}x}"
        text = (
            f'{{"order":{number:09d},"customer":{number * 7919 % 1_000_003:07d},"status":"{_STATUS[number % 5]}",'
            f'"amount":{number * 31 % 99_991 / 100:.2f},"currency":"EUR","token":"{noise}'
        )
        value = text[: size - _KEY - 2].ljust(size - _KEY - 2) + '"}'
        made.append(Record(f"{number % 65_536:0{_KEY}d}".encode(), value.encode(), (), FIRST_TIMESTAMP + number))
    return made


@dataclass(frozen=True, slots=True)
class BenchTopic:
    """A filled topic and its number of records; each partition has the same number.

    properties: further properties of both sides' clients besides `bootstrap.servers`, by their Java names.
    """

    servers: str
    name: str
    rows: int
    partitions: int
    properties: Mapping[str, str] = field(default_factory=dict)


def client_config(servers: str) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": servers}, client_id="kseg-bench")


def fill_topic(
    kafka: EmbeddedKafka,
    name: str,
    rows: int,
    progress: Progress,
    made: Callable[[int, int], list[Record]] = records,
) -> BenchTopic:
    """Create a topic with at least this many records, in lz4 batches of a thousand.

    made: (first number, count) -> records of about 170 bytes.
    """
    batch = min(RECORDS_PER_BATCH, -(-rows // PARTITIONS))
    rounds = -(-rows // (batch * PARTITIONS))
    progress.total(rounds * batch * PARTITIONS)
    with Cluster(client_config(kafka.bootstrap_servers)) as cluster:
        keep = {"retention.ms": "-1"}  # the records' timestamps are of the past
        create_topic(cluster, name, partitions=PARTITIONS, replication_factor=1, config=keep)
        places = [TopicPartition(name, number) for number in range(PARTITIONS)]
        ready = [
            {
                tp: encode_batch(made((turn * PARTITIONS + tp.partition) * batch, batch), compression="lz4")
                for tp in places
            }
            for turn in range(min(rounds, DISTINCT_BATCHES // PARTITIONS))
        ]
        for turn in range(rounds):
            produce(cluster, ready[turn % len(ready)])
            progress.advance(batch * PARTITIONS)
    return BenchTopic(kafka.bootstrap_servers, name, rounds * batch * PARTITIONS, PARTITIONS)
