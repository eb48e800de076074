"""Requests that are repeated while a broker's responses lack something that the ledger, or the job file, has; and what
of the job file the source does not have."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.errors import BrokerUnavailable, KafkaError, LeaderNotAvailable, UnknownTopic
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import ConfigurationError, Refused, RetriableFailure
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.inputs import InputReader
from kseg.etl.source import lag
from kseg.etl.source.resolve import LogBounds

FRESH = JobState("job", "L")
UNKNOWN = UnknownTopic("the broker does not know it", retriable=True, topic="orders")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "PAUSES", (0.0, 0.0))


class Answers:
    """Logs of which one response after the other lists topics, with their partitions' numbers, or is an error.

    The last one stays. `count`: how many there were.
    """

    origin = None

    def __init__(self, *answers: dict[str, int] | KafkaError) -> None:
        self.answers, self.count = list(answers), 0

    def topics(
        self, *, topics: Any = None, pattern: Any = None, assign: Any = None
    ) -> dict[TopicPartition, TopicMetadata]:
        answer = self.answers[min(self.count, len(self.answers) - 1)]
        self.count += 1
        if isinstance(answer, KafkaError):
            raise answer
        return {
            TopicPartition(name, number): topic(name, partitions)
            for name, partitions in answer.items()
            if pattern is None or re.search(pattern, name)
            for number in range(partitions)
        }

    def bounds(self, partitions: Any) -> dict[TopicPartition, LogBounds]:
        return {tp: LogBounds(0, 10, 10, leader_epoch=0) for tp in partitions}

    def cluster_id(self, topics: Any) -> str:
        return "c"


def topic(name: str, partitions: int) -> TopicMetadata:
    found = {number: PartitionMetadata(number, 1, 0, (1,), (1,)) for number in range(partitions)}
    return TopicMetadata(name, UUID(int=len(name)), False, found)


def inputs(logs: Answers, state: JobState = FRESH, **source: Any) -> InputReader:
    job = job_from_document(
        {
            "version": 1,
            "name": "job",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": source or {"topics": ["orders"]},
            "sink": {"path": "/lake/orders"},
            "ledger": "/lake/ledger",
        }
    )
    return InputReader(job, logs, None, None, lambda: state)  # type: ignore[arg-type]


def planned(**partitions: int) -> JobState:
    """The state after a plan with these topics, with their numbers of partitions."""
    topics = {
        name: ev.TopicIdentity(
            UUID(int=len(name)), "c", {number: ev.PartitionIdentity(0, 10) for number in range(count)}
        )
        for name, count in partitions.items()
    }
    plan = ev.RunPlan(
        run_id="r1",
        mode="incremental",
        chain=ev.INCREMENTAL,
        app_id="a",
        app_version=1,
        config_hash="h",
        pinned_config="{}",
        cluster_id="c",
        topics=topics,
        ranges=(),
        tables={},
    )
    return replace(FRESH, topics=topics, runs={"r1": RunState(plan, datetime.now(UTC), finished=True)})


@pytest.mark.parametrize("error", [UNKNOWN, LeaderNotAvailable("no leader yet", topic="orders")])
def test_a_topic_that_a_broker_does_not_know_yet_is_asked_for_again(error: KafkaError) -> None:
    logs = Answers(error, {"orders": 1})
    assert inputs(logs).snapshot(FRESH).partitions == (TopicPartition("orders", 0),)
    assert logs.count == 2
    assert inputs(Answers(error, {"orders": 1})).bounds(planned(orders=1)).partitions
    assert inputs(Answers(error, {"orders": 1})).partitions()


def test_a_topic_that_stays_unknown_is_missing() -> None:
    with pytest.raises(ConfigurationError, match="there is no topic orders"):
        inputs(Answers(UNKNOWN)).snapshot(FRESH)
    with pytest.raises(Refused) as refused:
        inputs(Answers(UNKNOWN), planned(orders=1)).snapshot(planned(orders=1))
    assert refused.value.code == "topic-missing"


def test_a_response_that_lacks_a_partition_of_the_ledger_is_asked_for_again() -> None:
    logs, state = Answers({"orders": 1}, {"orders": 2}), planned(orders=2)
    assert len(inputs(logs).snapshot(state).partitions) == 2
    with pytest.raises(RetriableFailure, match="lack a partition") as failure:
        inputs(Answers({"orders": 1})).bounds(state)
    assert failure.value.address == {"topic": "orders", "partition": 1}


def test_a_topic_of_the_last_plan_that_its_pattern_does_not_find_is_asked_for_again() -> None:
    logs, state = Answers({"orders": 1}, {"orders": 1, "old-orders": 1}), planned(**{"orders": 1, "old-orders": 1})
    assert len(inputs(logs, pattern="orders").snapshot(state).partitions) == 2


def test_a_topic_of_a_pattern_that_was_deleted_stops_nothing() -> None:
    """The next plan is made without it, and then it is not waited for any more."""
    logs, state = Answers({"orders": 1}), planned(**{"orders": 1, "old-orders": 1})
    assert inputs(logs, pattern="orders").snapshot(state).partitions == (TopicPartition("orders", 0),)
    assert logs.count == 3
    since = replace(state, runs=planned(orders=1).runs)
    logs = Answers({"orders": 1})
    assert inputs(logs, pattern="orders").snapshot(since).partitions
    assert logs.count == 1


# --- what the source does not have


class Topics:
    """Logs of a cluster with some topics."""

    origin = None

    def __init__(self, *there: str, missing: UnknownTopic) -> None:
        self.there, self.missing = there, missing

    def topics(self, *, pattern: str | None = None, **_: Any) -> dict[TopicPartition, None]:
        if pattern is None:
            raise self.missing
        if not self.there:
            raise BrokerUnavailable("none")
        return {TopicPartition(name, 0): None for name in self.there}


@pytest.mark.parametrize(
    ("source", "there", "missing", "said"),
    [
        (
            {"topics": ["rev4-order"]},
            ["rev4-orders", "other"],
            {"topic": "rev4-order"},
            "source.topics: there is no topic rev4-order — did you mean rev4-orders?",
        ),
        (
            {"topics": ["orders"]},
            [],
            {"topic": "orders"},
            "source.topics: there is no topic orders — check the topic's name and the brokers or files: kseg "
            "never creates topics",
        ),
        (
            {"assign": {"orders": [7]}},
            ["orders"],
            {"topic": "orders", "partition": 7},
            "source.assign: the topic orders has no partition 7 — check the topic's name and the "
            "brokers or files: kseg never creates topics",
        ),
    ],
)
def test_a_missing_topic_is_told_once_and_with_the_one_that_is_near(
    source: dict[str, Any], there: list[str], missing: dict[str, Any], said: str
) -> None:
    logs: Any = Topics(*there, missing=UnknownTopic("Metadata: UNKNOWN_TOPIC_OR_PARTITION", **missing))
    reader = inputs(logs, **source)
    with pytest.raises(ConfigurationError) as caught:
        reader.snapshot()
    assert str(caught.value) == said
    assert caught.value.__cause__ is None
