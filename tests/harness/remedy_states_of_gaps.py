"""States of a topic that lacks offsets, though it is not compacted (any more) (`remedy_state.py`)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import ResourceType

from kseg.etl.run import read_options
from remedy_state import State, run_of, state

KEYS, ROUNDS = 4, 5
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1",
    "segment.ms": "10",
    "retention.ms": "-1",
}
_topics: dict[str, tuple[str, list[int]]] = {}


def held(records: Any, topic: str) -> list[int]:
    """Offsets that the broker still has."""
    consumer = Consumer(records.settings | {"group.id": "held", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while (message := consumer.poll(60)) is not None and not message.error():
        found.append(message.offset())
    consumer.close()
    return found


def topic_with_gaps(records: Any) -> tuple[str, list[int]]:
    """The topic, and the offsets that it has; compacted once for all states, since that takes the broker seconds."""
    servers = records.kafka.bootstrap_servers
    if servers not in _topics:
        records.configure(ResourceType.BROKER, "1", log_cleaner_backoff_ms="100")
        topic = str(records.topic(1, COMPACTED))
        now = int(time.time() * 1000)
        for number in range(ROUNDS):  # each round opens a segment: its records are a second younger
            records.write_keys(topic, [b"k%d" % key for key in range(KEYS)], timestamp=now - 1000 * (ROUNDS - number))
        deadline = time.monotonic() + 180
        while len(held(records, topic)) != 2 * KEYS:  # the newest of each key, and the segment that is written to
            assert time.monotonic() < deadline, "the cleaner has not cleaned"
            time.sleep(0.2)
        records.configure(ResourceType.BROKER, "1", log_cleaner_backoff_ms=None)
        records.configure(ResourceType.TOPIC, topic, cleanup_policy="delete")
        _topics[servers] = topic, held(records, topic)
    return _topics[servers]


def job_of(home: Any, records: Any, **changes: Any) -> State:
    topic, offsets = topic_with_gaps(records)
    made = State(home(topic, **changes), records, {"TOPIC": topic})
    made.expected = lambda: [(topic, 0, offset) for offset in offsets]  # type: ignore[method-assign]
    return made


@state
def offsets_that_are_absent(home: Any, records: Any, folder: Path) -> State:
    return job_of(home, records)


@state
def a_replacement_with_too_many_gaps(home: Any, records: Any, folder: Path) -> State:
    made = job_of(home, records, source={"on_gap": "record"})
    made.job.ingest()
    topic, last = made.values["TOPIC"], KEYS * ROUNDS
    made.values |= {"FROM": f"{topic}:0:0", "TO": f"{topic}:0:{last}", "LATER": f"{topic}:0:{last - KEYS}"}
    patch = pytest.MonkeyPatch()
    made.during = ("plan:before", lambda: patch.setattr(read_options, "ALL_GAPS", 0))
    made.at_end.append(patch.undo)
    made.learn = lambda: made.values.update(RUN=run_of(made.job))
    return made
