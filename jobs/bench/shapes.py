"""The measured log files: a partition for each codec, record size and batch size, written by a real broker.

A partition repeats some megabytes of different records. This does not affect a reader, because each batch is compressed
separately, and the records do not fit into a core's caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

from kseg.client.admin.topics import create_topic
from kseg.client.cluster.cluster import Cluster
from kseg.client.producer import produce
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.telemetry.progress import Progress
from kseg.jobs.bench.workload import client_config, records
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.encode.batches import Record, encode_batch

RECORD_BYTES: Final = (20, 200, 4096)
BATCH_BYTES: Final = (16 * 1024, 1_000_000)
DISTINCT_BYTES: Final = 4 << 20
TOPIC: Final = "bench-files"


@dataclass(frozen=True, slots=True)
class LogShape:
    """The content of a partition.

    record_bytes: key and value of a record together.
    batch_bytes: keys and values of a batch, before compression.
    """

    codec: str
    record_bytes: int
    batch_bytes: int

    @property
    def name(self) -> str:
        return f"{self.codec}, {self.record_bytes} B, {_short(self.batch_bytes)}"

    @property
    def records_per_batch(self) -> int:
        return max(1, self.batch_bytes // self.record_bytes)


ALL: Final = tuple(LogShape(codec, size, batch) for size, batch, codec in product(RECORD_BYTES, BATCH_BYTES, BY_NAME))


def _short(size: int) -> str:
    return f"{size // 1024} KB" if size < 100_000 else f"{size // 1_000_000} MB"


@dataclass(frozen=True, slots=True)
class ShapeSample:
    """An existing partition, whose rows start at offset 0.

    folder: that of its files. row_bytes: bytes of all keys and values.
    """

    shape: LogShape
    servers: str
    tp: TopicPartition
    folder: Path
    rows: int
    row_bytes: int

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    @property
    def file_bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)


def write(
    servers: str, log_dir: Path, shapes: Sequence[LogShape], size: int, progress: Progress, *, topic: str = TOPIC
) -> list[ShapeSample]:
    """Produce a partition for each shape, with at least `size` bytes of keys and values.

    log_dir: the broker's.
    """
    progress.total(size * len(shapes), "bytes")
    config = {"retention.ms": "-1", "max.message.bytes": str(16 << 20)}  # the records' timestamps are of the past
    samples = []
    with Cluster(client_config(servers)) as cluster:
        create_topic(cluster, topic, partitions=len(shapes), replication_factor=1, config=config)
        for number, shape in enumerate(shapes):
            tp = TopicPartition(topic, number)
            made = _batches(shape, min(size, DISTINCT_BYTES))
            turns = -(-size // (shape.records_per_batch * shape.record_bytes))
            for turn in range(turns):
                produce(cluster, {tp: made[turn % len(made)]})
            rows = turns * shape.records_per_batch
            samples.append(ShapeSample(shape, servers, tp, log_dir / str(tp), rows, rows * shape.record_bytes))
            progress.advance(size)
    return samples


def _batches(shape: LogShape, size: int) -> list[bytes]:
    count = -(-size // (shape.records_per_batch * shape.record_bytes))
    each = shape.records_per_batch
    bodies = (_records(turn * each, each, shape.record_bytes) for turn in range(count))
    return [encode_batch(body, compression=shape.codec) for body in bodies]


def _records(first: int, count: int, size: int) -> list[Record]:
    """Orders, as in all benchmarks; a small record has only a number, a large one many orders."""
    if size < 150:
        return [
            Record(b"%06d" % (number % 65_536), b"%0*x" % (size - 6, number * 0x9E3779B97F4A7C15 % 16 ** (size - 6)))
            for number in range(first, first + count)
        ]
    if size < 1000:
        return records(first, count, size)
    in_one = 1 + size // 160
    orders = [record.value or b"" for record in records(first, in_one * count)]
    values = [b"\n".join(orders[start : start + in_one]) for start in range(0, len(orders), in_one)]
    return [
        Record(b"%010d" % number, value[: size - 10].ljust(size - 10))
        for number, value in enumerate(values, start=first)
    ]
