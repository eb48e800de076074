"""What stands in a table, and what stands in a topic, each told by somebody who has no part in the landing: delta-rs,
and librdkafka's consumer."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kseg_process import KafkaProcess, Kseg

#: (topic, partition, offset) of a record.
Address = tuple[str, int, int]

#: One process for all tables: it takes longer to start than to read one. A path a line, answered by a document a line.
_READ = """
import json, sys, traceback
import pyarrow
from deltalake import DeltaTable

def read(path):
    table = DeltaTable(path)
    known = {field.name for field in table.schema().fields}
    wanted = [name for name in ("topic", "partition", "offset", "_kseg_late") if name in known]
    # Not by `to_pyarrow_table`: there Arrow's threads read through a file system in Python. One of them that lets go of
    # a file while the interpreter ends cannot get the interpreter's lock any more, and aborts the process.
    return {"version": table.version(), "rows": pyarrow.table(table.scan(wanted)).to_pylist()}

for line in sys.stdin:
    try:
        answer = read(json.loads(line))
    except Exception:
        answer = {"failed": traceback.format_exc()}
    print(json.dumps(answer), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A Delta table's newest version: how often each address stands in it, and which are marked as late."""

    version: int
    addresses: Counter[Address]
    late: frozenset[Address]


def read_table(kseg: Kseg, path: Path) -> Table:
    """The table at a path, read by delta-rs in kseg's environment."""
    told: dict[str, Any] = kseg.answers(_READ, str(path))
    assert "failed" not in told, told["failed"]
    addresses = [((row["topic"], row["partition"], row["offset"]), row.get("_kseg_late")) for row in told["rows"]]
    late = frozenset(address for address, is_late in addresses if is_late)
    return Table(told["version"], Counter(address for address, _ in addresses), late)


def once(addresses: set[Address]) -> Counter[Address]:
    """Each of them once: what a table's addresses have to be."""
    return Counter(dict.fromkeys(addresses, 1))


def consume(kafka: KafkaProcess, topic: str, isolation_level: str = "read_committed") -> dict[Address, int]:
    """All records of a topic, by a consumer: the timestamp of each, in milliseconds since 1970."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    try:
        partitions = list(consumer.list_topics(topic, timeout=60).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        found: dict[Address, int] = {}
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(60)
            assert message is not None, f"no end of {topic} within a minute"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ended.add(message.partition())
            else:
                found[topic, message.partition(), message.offset()] = message.timestamp()[1]
        return found
    finally:
        consumer.close()
