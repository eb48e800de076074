"""What an option names and the job does not read, in one sentence and with what there is."""

from __future__ import annotations

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.planning.unread_partitions import unread_fault

READ = [TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("odd", 1), TopicPartition("odd", 4)]


@pytest.mark.parametrize(
    ("topic", "partition", "said"),
    [
        ("orders", 1, None),
        ("odd", None, None),
        ("nope", 0, "--from: the job reads no topic nope — it reads: odd, orders"),
        ("order", 0, "--from: the job reads no topic order — did you mean orders?"),
        ("orders", 5, "--from: the job reads no partition 5 of orders — it reads partitions 0 to 1"),
        ("odd", 2, "--from: the job reads no partition 2 of odd — it reads partitions 1, 4"),
    ],
)
def test_it_is_named_with_what_there_is(topic: str, partition: int | None, said: str | None) -> None:
    fault = unread_fault("--from", topic, partition, READ)
    assert (None if fault is None else str(fault)) == said


def test_of_many_topics_some_are_named() -> None:
    read = [TopicPartition(f"t{number:02}", 0) for number in range(12)]
    assert str(unread_fault("--from", "nope", None, read)).endswith("t08, t09 and 2 more")
    assert str(unread_fault("--from", "nope", None, [])).endswith("it reads no topic now")
