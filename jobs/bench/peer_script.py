"""JSON records to typed columns in Delta, as a script with confluent-kafka and delta-rs would do it.

python -m kseg.jobs.bench.peer_script SERVERS TOPIC FOLDER

It prints the table's folder. Rows and offsets are committed separately: a script that is killed between the two lands
rows twice.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from deltalake import write_deltalake

ROWS_A_COMMIT = 250_000
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "customer": pa.string(),
        "amount": pa.float64(),
        "currency": pa.string(),
        "quantity": pa.int64(),
        "paid": pa.bool_(),
        "created_at": pa.int64(),
        "note": pa.string(),
    }
)


def land(servers: str, topic: str, table: str) -> None:
    """Append all records of the topic to the table, and commit the group's offsets."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"script-{topic}", "enable.auto.commit": False})
    partitions = list(consumer.list_topics(topic).topics[topic].partitions)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, partition)) for partition in partitions]
    consumer.assign(
        [TopicPartition(topic, partition, low) for partition, (low, _) in zip(partitions, ends, strict=True)]
    )
    left = sum(high - low for low, high in ends)
    rows = []
    while left:
        messages = consumer.consume(10_000, timeout=1)
        rows += [json.loads(message.value()) for message in messages]
        left -= len(messages)
        if rows and (len(rows) >= ROWS_A_COMMIT or not left):
            write_deltalake(table, pa.Table.from_pylist(rows, SCHEMA), mode="append")
            consumer.commit(asynchronous=False)
            rows = []
    consumer.close()


if __name__ == "__main__":
    land(sys.argv[1], sys.argv[2], f"{sys.argv[3]}/table")
    print(f"{sys.argv[3]}/table")
