"""Answers of brokers that do not know the newest leader epoch, all partitions, or all topics yet.

The leader epochs of one topic id only grow, and so does the number of its partitions. A lower epoch than is known, or a
missing partition, comes from a broker that is out of date (a restarted one, or one that is cut off from the
controller), not from another topic: the question is repeated. A topic that a broker does not know may have been created
a moment ago, or not exist: the question is repeated for a few seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from kseg.client.errors import LeaderNotAvailable, UnknownTopic
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import RetriableFailure

T = TypeVar("T")

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 3.0)
"""Seconds between the questions: a broker hears of a new leader within a few."""


_PAUSES_FOR_TOPICS = 5
"""How many of these pauses there are for a topic that is unknown: its name is often wrong, and users wait for this."""


def until_known(ask: Callable[[], T]) -> T:
    """The answer to a question about topics, which is repeated while a broker does not know a topic or its leaders.

    Raises:
        KafkaError: the last answer; every other error at once.
    """
    for pause in PAUSES[:_PAUSES_FOR_TOPICS]:
        try:
            return ask()
        except (UnknownTopic, LeaderNotAvailable) as error:
            if not error.retriable:
                raise
        time.sleep(pause)
    return ask()


def until_current(
    observe: Callable[[], T],
    behind: Callable[[T], TopicPartition | None],
    incomplete: Callable[[T], bool] = lambda _: False,
) -> T:
    """The first observation that is neither behind nor incomplete; the last one may be incomplete.

    behind: a partition in which an observation is behind; None: it is not.
    incomplete: whether an observation lacks something that a broker may not know yet, or that no longer exists.

    Raises:
        RetriableFailure: all observations were behind.
    """
    for pause in PAUSES:
        seen = observe()
        if behind(seen) is None and not incomplete(seen):
            return seen
        time.sleep(pause)
    seen = observe()
    tp = behind(seen)
    if tp is None:
        return seen
    raise RetriableFailure(
        "the brokers return an older leader epoch than before, or lack a partition: their metadata is stale",
        remedy="run the same command again; if it fails again, a broker may be cut off from its cluster",
        topic=tp.topic,
        partition=tp.partition,
    )
