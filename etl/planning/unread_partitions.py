"""Topics and partitions that an option names, and that the job does not read: misspelt ones, mostly."""

from __future__ import annotations

from collections.abc import Collection

from kseg.client.protocol.partition import TopicPartition
from kseg.client.protocol.suggestion import did_you_mean
from kseg.etl.errors import Diagnostic, listed


def unread_fault(option: str, topic: str, partition: int | None, read: Collection[TopicPartition]) -> Diagnostic | None:
    """The fault of an option that names a topic (partition None) or a partition; None if the job reads it.

    read: all partitions of the job.
    """
    of_topic = sorted(tp.partition for tp in read if tp.topic == topic)
    if not of_topic:
        topics = sorted({tp.topic for tp in read})
        there = f"it reads: {listed(topics)}" if topics else "it reads no topic now"
        return Diagnostic(option, f"the job reads no topic {topic}", did_you_mean(topic, topics) or there)
    if partition is None or partition in of_topic:
        return None
    if of_topic == list(range(of_topic[0], of_topic[-1] + 1)):
        there = f"partitions {of_topic[0]} to {of_topic[-1]}" if len(of_topic) > 1 else f"partition {of_topic[0]}"
    else:
        there = f"partitions {', '.join(map(str, of_topic))}"
    return Diagnostic(option, f"the job reads no partition {partition} of {topic}", f"it reads {there}")
