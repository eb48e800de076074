"""JSON records to typed columns in Delta with dlt: a resource that reads the topic with confluent-kafka, and a pipeline
to a filesystem with Delta tables.

python -m kseg.jobs.bench.peer_dlt SERVERS TOPIC FOLDER

It prints the table's folder. Columns are declared, so that dlt infers no types.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

COLUMNS = {
    "id": "bigint",
    "customer": "text",
    "amount": "double",
    "currency": "text",
    "quantity": "bigint",
    "paid": "bool",
    "created_at": "bigint",
    "note": "text",
}


def documents(servers: str, topic: str) -> Iterator[list[dict[str, Any]]]:
    """All records of the topic, some thousand at a time."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"dlt-{topic}", "enable.auto.commit": False})
    partitions = list(consumer.list_topics(topic).topics[topic].partitions)
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, partition)) for partition in partitions]
    consumer.assign(
        [TopicPartition(topic, partition, low) for partition, (low, _) in zip(partitions, ends, strict=True)]
    )
    left = sum(high - low for low, high in ends)
    while left:
        messages = consumer.consume(10_000, timeout=1)
        left -= len(messages)
        yield [json.loads(message.value()) for message in messages]
    consumer.close()


def land(servers: str, topic: str, folder: str) -> str:
    """Land all records in a new table. Returns the table's folder."""
    import dlt

    columns = {name: {"data_type": kind} for name, kind in COLUMNS.items()}
    rows = dlt.resource(
        documents(servers, topic), name="orders", write_disposition="append", table_format="delta", columns=columns
    )
    pipeline = dlt.pipeline(
        "kseg_bench",
        pipelines_dir=f"{folder}/pipelines",
        destination=dlt.destinations.filesystem(bucket_url=f"file://{folder}/lake"),
        dataset_name="shop",
    )
    pipeline.run(rows)
    return f"{folder}/lake/shop/orders"


if __name__ == "__main__":
    print(land(sys.argv[1], sys.argv[2], sys.argv[3]))
