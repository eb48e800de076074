"""Read the topic again with an independent client, and compare it with the Delta table row for row.

The reader is librdkafka (confluent-kafka) with ``isolation.level=read_committed``; it shares nothing with what wrote
the table. Both sides become Arrow tables sorted by (partition, offset), and whole columns are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from confluent_kafka import Message

COLUMNS = ("key", "value", "headers", "timestamp", "timestampType")
_ADDRESS = [("partition", "ascending"), ("offset", "ascending")]
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_STALL = 60.0
# How librdkafka and Kafka number the types of timestamps: none, create time, log append time.
_TIMESTAMP_TYPES = {0: -1, 1: 0, 2: 1}

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
    ]
)


@dataclass(frozen=True)
class RowComparison:
    """The result of a comparison. ``verified``: rows equal in every column; ``faults``: the differences, as text."""

    verified: int
    faults: tuple[str, ...] = field(default=())

    @property
    def equal(self) -> bool:
        return not self.faults


def read_topic(
    bootstrap_servers: str, topic: str, ends: Mapping[int, int], advance: Callable[[int], None] = lambda _: None
) -> pa.Table:
    """All committed records of a topic below ``ends`` (partition -> offset, exclusive), as ``SCHEMA``, unsorted.

    Raises TimeoutError when nothing arrives for a minute, confluent_kafka.KafkaException.
    """
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "demo-verify",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "log_level": 3,
        }
    )
    open_partitions = {partition for partition, end in ends.items() if end > 0}
    batches = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in sorted(open_partitions)])
        while open_partitions:
            messages = consumer.consume(20_000, 1.0)
            if not messages and not (messages := consumer.consume(1, _STALL)):
                raise TimeoutError(f"no record of {topic} within {_STALL:.0f} s, still open: {sorted(open_partitions)}")
            rows = []
            for message in messages:
                error, partition, offset = message.error(), _number(message.partition()), _number(message.offset())
                if error is None and offset < ends.get(partition, 0):
                    rows.append(message)
                elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if offset + (error is None) >= ends.get(partition, 0):
                    open_partitions.discard(partition)
            batches.append(_batch(rows))
            advance(len(rows))
    finally:
        consumer.close()
    return pa.Table.from_batches(batches, SCHEMA)


def compare(expected: pa.Table, actual: pa.Table, *, shown: int = 10) -> RowComparison:
    """Compare what the topic holds with what a table holds; both need the columns of ``SCHEMA``.

    Each kind of fault lists at most ``shown`` addresses: missing, twice, too many, and each column that differs.
    """
    expected = expected.select(SCHEMA.names).sort_by(_ADDRESS).combine_chunks()
    actual = actual.select(SCHEMA.names).cast(SCHEMA).sort_by(_ADDRESS).combine_chunks()
    faults = []
    twice = actual.group_by(["partition", "offset"]).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    if twice.num_rows:
        faults.append(_fault_text("are in the table twice", twice, shown))
    if not _same_addresses(expected, actual):
        for fault, kept, other in (
            ("are missing in the table", expected, actual),
            ("are in the table, and should not", actual, expected),
        ):
            only = kept.select(["partition", "offset"]).join(
                other.select(["partition", "offset"]), ["partition", "offset"], join_type="left anti"
            )
            if only.num_rows:
                faults.append(_fault_text(fault, only, shown))
        return RowComparison(0, tuple(faults))
    right = pa.array([True] * expected.num_rows, pa.bool_())
    for column in COLUMNS:
        same = _same(expected[column], actual[column])
        if not pc.all(same, min_count=0).as_py():
            faults.append(_fault_text(f"differ in {column}", expected.filter(pc.invert(same)), shown))
            right = pc.and_(right, same)
    return RowComparison(int(pc.sum(right).as_py() or 0), tuple(faults))


def _batch(messages: Sequence[Message]) -> pa.RecordBatch:
    stamps = [message.timestamp() for message in messages]
    columns: list[Any] = [
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        pa.array([message.key() for message in messages], pa.binary()),
        pa.array([message.value() for message in messages], pa.binary()),
        pa.array([message.headers() for message in messages], _HEADERS),
        pa.array([stamp[1] * 1000 for stamp in stamps], pa.int64()).cast(SCHEMA.field("timestamp").type),
        pa.array([_TIMESTAMP_TYPES[stamp[0]] for stamp in stamps], pa.int32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _same_addresses(expected: pa.Table, actual: pa.Table) -> bool:
    return bool(expected.num_rows == actual.num_rows) and all(
        expected[column].equals(actual[column]) for column in ("partition", "offset")
    )


def _same(expected: pa.ChunkedArray, actual: pa.ChunkedArray) -> pa.Array:
    """Row by row: equal, where two nulls are equal and a null is no value."""
    if expected.equals(actual):
        return pa.array([True] * len(expected), pa.bool_())
    if pa.types.is_list(expected.type):
        pairs = zip(expected.to_pylist(), actual.to_pylist(), strict=True)
        return pa.array([one == other for one, other in pairs], pa.bool_())
    both_null = pc.and_(pc.is_null(expected), pc.is_null(actual))
    equal = pc.fill_null(pc.equal(expected, actual), False)
    same = pc.or_(both_null, equal)
    return same.combine_chunks() if isinstance(same, pa.ChunkedArray) else same


def _fault_text(what: str, rows: pa.Table, shown: int) -> str:
    addresses = rows.select(["partition", "offset"]).sort_by(_ADDRESS).slice(0, shown).to_pylist()
    named = ", ".join(f"{row['partition']}:{row['offset']}" for row in addresses)
    more = f" and {rows.num_rows - shown} more" if rows.num_rows > shown else ""
    return f"{rows.num_rows} rows {what}: {named}{more}"


def _number(value: int | None) -> int:
    """librdkafka's partition and offset: there on every message and every end of partition."""
    assert value is not None
    return value
