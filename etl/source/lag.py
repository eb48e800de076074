"""Answers of brokers that do not know the newest leader epoch, or all partitions, yet.

The leader epochs of one topic id only grow. A lower one than is known comes from a broker that is out of date (a
restarted one, or one that is cut off from the controller), not from another topic: the question is repeated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import RetriableFailure

T = TypeVar("T")

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 3.0)
"""Seconds between the questions: a broker hears of a new leader within a few."""


def until_current(
    observe: Callable[[], T],
    behind: Callable[[T], TopicPartition | None],
    incomplete: Callable[[T], bool] = lambda _: False,
) -> T:
    """The first observation that is neither behind nor incomplete; the last one may be incomplete.

    behind: a partition in which an observation is behind; None: it is not.
    incomplete: whether an observation lacks something that a broker may not know yet, or that no longer exists.

    Raises:
        RetriableFailure: the brokers kept answering with an older epoch.
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
        "the brokers return an older leader epoch than before: their metadata is stale",
        remedy="run the same command again; if it fails again, a broker may be cut off from its cluster",
        topic=tp.topic,
        partition=tp.partition,
    )
