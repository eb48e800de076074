"""Partitions and offsets as the brokers tell them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from kseg.client import Cluster, TopicPartition
from kseg.client import offsets as offsets_module
from kseg.client.errors import LeaderNotAvailable, UnknownTopic
from kseg.client.groups.offsets import CommittedOffset, commit_offsets
from kseg.client.offsets import LATEST, EpochEnd, ListedBounds, ListedOffset
from kseg.etl.errors import ConfigurationError
from kseg.etl.source import resolve as resolve_module
from kseg.etl.source.errors import OffsetsLost, TimeNotFoundError
from kseg.etl.source.resolve import (
    AtOffsets,
    AtTime,
    LogBounds,
    OffsetSpec,
    log_bounds,
    offset_spec,
    resolve_offsets,
    resolve_topics,
)

pytestmark = pytest.mark.broker
SECOND = 1_767_225_600_000


@pytest.fixture(scope="module")
def topic(kafka: Any, produce: Callable[..., None]) -> str:
    """Three partitions: ten records a second apart, one record, none."""
    name: str = kafka.topic(partitions=3, prefix="resolve", config={"retention.ms": "-1"})
    produce(name, [(0, b"k", b"v", None, SECOND + 1000 * number) for number in range(10)])
    produce(name, [(1, b"k", b"v", None, SECOND)])
    return name


def parts(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def resolve(cluster: Cluster, topic: str, spec: OffsetSpec, **rest: Any) -> list[int]:
    rest.setdefault("isolation_level", "read_committed")
    found = resolve_offsets(cluster, spec, parts(topic, 0, 1, 2), **rest)
    return [found[partition] for partition in parts(topic, 0, 1, 2)]


def test_topics_by_name(cluster: Cluster, topic: str) -> None:
    found = resolve_topics(cluster, topics=[topic])
    assert list(found) == parts(topic, 0, 1, 2)
    assert {metadata.name for metadata in found.values()} == {topic}
    assert found[TopicPartition(topic, 0)].topic_id is not None


def test_an_assignment(cluster: Cluster, topic: str) -> None:
    assert list(resolve_topics(cluster, assign={topic: [2, 0, 2]})) == parts(topic, 0, 2)


def test_a_pattern_is_found_anywhere_in_the_name(cluster: Cluster, topic: str) -> None:
    assert list(resolve_topics(cluster, pattern=topic[3:-1])) == parts(topic, 0, 1, 2)
    assert list(resolve_topics(cluster, pattern=f"^{topic[3:]}")) == []


def test_a_pattern_finds_no_internal_topic(cluster: Cluster, topic: str) -> None:
    commit_offsets(cluster, f"{topic}-group", {TopicPartition(topic, 0): CommittedOffset(1)})
    assert "__consumer_offsets" in cluster.metadata(None).topics
    assert not any(partition.topic.startswith("__") for partition in resolve_topics(cluster, pattern="."))


@pytest.mark.parametrize("ways", [{"topics": ["no-such-topic"]}, {"assign": {"no-such-topic": [0]}}])
def test_a_named_topic_must_exist(cluster: Cluster, ways: dict[str, Any]) -> None:
    with pytest.raises(UnknownTopic) as caught:
        resolve_topics(cluster, **ways)
    assert caught.value.topic == "no-such-topic"
    assert "no-such-topic" not in cluster.metadata(None).topics


def test_an_assigned_partition_must_exist(cluster: Cluster, topic: str) -> None:
    with pytest.raises(UnknownTopic) as caught:
        resolve_topics(cluster, assign={topic: [0, 7]})
    assert (caught.value.topic, caught.value.partition) == (topic, 7)


@pytest.mark.parametrize("ways", [{}, {"topics": ["a"], "pattern": "b"}, {"pattern": "("}])
def test_partitions_are_named_in_one_way(cluster: Cluster, ways: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        resolve_topics(cluster, **ways)


def test_edges_of_the_log(cluster: Cluster, topic: str) -> None:
    assert resolve(cluster, topic, "earliest") == [0, 0, 0]
    assert resolve(cluster, topic, "latest") == [10, 1, 0]
    assert log_bounds(cluster, parts(topic, 0, 2)) == {
        TopicPartition(topic, 0): LogBounds(0, 10, 10, leader_epoch=0),
        TopicPartition(topic, 2): LogBounds(0, 0, 0, leader_epoch=0),
    }


class MovingLeader:
    """The bounds of a log in these leader epochs, answer by answer; the log grows by ten with each."""

    def __init__(self, *epochs: int) -> None:
        self.epochs, self.asked = list(epochs), 0

    def __call__(self, _: Any, partitions: list[TopicPartition]) -> Any:
        return {tp: ListedBounds(self._listed(False), self._listed(True), self._listed(True)) for tp in partitions}

    def _listed(self, end: bool) -> ListedOffset:
        self.asked += 1
        epoch = self.epochs.pop(0) if len(self.epochs) > 1 else self.epochs[0]
        return ListedOffset(10 * self.asked if end else 0, -1, epoch)


@pytest.mark.parametrize(
    ("epochs", "bounds"),
    [
        ((0, 7, 7), LogBounds(0, 20, 30, leader_epoch=7)),
        ((7, 7, 8, 8, 8), LogBounds(0, 50, 60, leader_epoch=8)),
        ((-1,), LogBounds(0, 20, 30)),  # brokers before 2.1
        ((*range(27), 0, 99, 99), LogBounds(0, 290, 300, leader_epoch=99)),  # the last try
    ],
)
def test_both_ends_of_a_log_and_its_epoch_are_of_one_leader(
    epochs: tuple[int, ...], bounds: LogBounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve_module, "list_bounds", MovingLeader(*epochs))
    assert log_bounds(None, parts("orders", 0)) == {TopicPartition("orders", 0): bounds}  # type: ignore[arg-type]


def test_leaders_that_never_stop_changing_are_a_passing_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve_module, "list_bounds", MovingLeader(*range(50)))
    with pytest.raises(LeaderNotAvailable) as failure:
        log_bounds(None, parts("orders", 0))  # type: ignore[arg-type]
    assert failure.value.retriable


def test_no_partitions_no_questions(cluster: Cluster) -> None:
    assert log_bounds(cluster, []) == {}
    for spec in ("latest", AtTime(5), AtOffsets({})):
        assert resolve_offsets(cluster, spec, [], isolation_level="read_committed") == {}


def test_named_offsets_are_taken_as_they_are(cluster: Cluster, topic: str) -> None:
    spec = AtOffsets(dict(zip(parts(topic, 0, 1, 2), (4, -1, -2), strict=True)))
    assert resolve(cluster, topic, spec) == [4, 1, 0]
    assert resolve(cluster, topic, AtOffsets({TopicPartition(topic, 0): 99}), unnamed="latest") == [99, 1, 0]


@pytest.mark.parametrize("named", [(0, 1), (0, 1, 2, 3)])
def test_named_offsets_must_fit_the_partitions(cluster: Cluster, topic: str, named: tuple[int, ...]) -> None:
    with pytest.raises(ConfigurationError, match="a map of offsets"):
        resolve(cluster, topic, AtOffsets(dict.fromkeys(parts(topic, *named), 0)))


class GrowingLog:
    """Requests for the log of one partition, which becomes visible up to offset 10 behind the first of them.

    It had no visible record at or after the time: its transaction commits, or it is written.
    """

    def __init__(self, end: int) -> None:
        self.end, self.asked = end, 0

    def ask(self, _: Any, partitions: Any, questions: Any) -> Any:
        return {tp: [self._listed(question.wanted[tp]) for question in questions] for tp in partitions}

    def _listed(self, wanted: Any) -> ListedOffset:
        visible, self.asked = 10 if self.asked else self.end, self.asked + 1
        if wanted == LATEST:
            return ListedOffset(visible, -1, 0)
        return ListedOffset(self.end, wanted, 0) if visible > self.end else ListedOffset(-1, -1, -1)


@pytest.mark.parametrize("end", [0, 4])
def test_what_becomes_visible_while_a_time_is_searched_is_after_it(end: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a read from the time would begin above it, and one up to the time would have it."""
    monkeypatch.setattr(offsets_module, "_ask", GrowingLog(end).ask)
    found = resolve_offsets(None, AtTime(SECOND), parts("t", 0), isolation_level="read_committed")  # type: ignore[arg-type]
    assert found == {TopicPartition("t", 0): end}


def test_a_time_is_the_first_record_at_or_after_it(cluster: Cluster, topic: str) -> None:
    assert resolve(cluster, topic, AtTime(SECOND + 2500)) == [3, 1, 0]
    assert resolve(cluster, topic, AtTime(0)) == [0, 0, 0]
    by_partition = dict(zip(parts(topic, 0, 1, 2), (SECOND + 9000, SECOND, SECOND), strict=True))
    assert resolve(cluster, topic, AtTime(by_partition)) == [9, 0, 0]
    with pytest.raises(ConfigurationError, match="does not fit"):
        resolve(cluster, topic, AtTime({TopicPartition(topic, 0): 1}))


def test_a_time_after_the_last_record_may_be_refused(cluster: Cluster, topic: str) -> None:
    with pytest.raises(TimeNotFoundError) as caught:
        resolve(cluster, topic, AtTime(SECOND + 1, otherwise="error"))
    assert caught.value.address == {"topic": topic, "partition": 1}


def test_committed_offsets_and_the_earliest_where_there_is_none(cluster: Cluster, topic: str) -> None:
    group = f"{topic}-committed"
    commit_offsets(cluster, group, {TopicPartition(topic, 0): CommittedOffset(6)})
    assert resolve(cluster, topic, "committed", group=group) == [6, 0, 0]
    with pytest.raises(ConfigurationError, match="need a group"):
        resolve(cluster, topic, "committed")


def test_the_latest_offset_is_the_last_stable_one(cluster: Cluster, transactions: Any) -> None:
    transactions.run(producers=2, steps=6, seed=1, open_at_end=True)
    (partition,) = parts(transactions.topic, 0)
    bounds = log_bounds(cluster, [partition])[partition]
    assert bounds.last_stable < bounds.high_watermark
    for level, end in (("read_committed", bounds.last_stable), ("read_uncommitted", bounds.high_watermark)):
        assert resolve_offsets(cluster, "latest", [partition], isolation_level=level) == {partition: end}  # type: ignore[arg-type]
    far = resolve_offsets(cluster, AtTime(2**42), [partition], isolation_level="read_committed")
    assert far == {partition: bounds.last_stable}


def test_a_group_that_has_read_a_truncated_part_continues_where_the_log_was_truncated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Epoch 5 was cut at 120, and epoch 6 has other records from there on: they would have been skipped."""
    tp, *others = parts("orders", 0, 1, 2, 3)
    committed = {tp: CommittedOffset(150, 5), others[0]: CommittedOffset(80, 5), others[1]: CommittedOffset(150)}
    monkeypatch.setattr(resolve_module, "committed_offsets", lambda *_: committed | {others[2]: CommittedOffset(-1)})
    monkeypatch.setattr(
        resolve_module, "end_of_epoch", lambda _, epochs: {p: EpochEnd(epoch, 120) for p, epoch in epochs.items()}
    )
    monkeypatch.setattr(
        resolve_module, "list_offsets", lambda _, edges, **__: {p: ListedOffset(7, -1, 6) for p in edges}
    )

    def resolved(*, fail_on_data_loss: bool) -> list[int]:
        found = resolve_offsets(
            None,  # type: ignore[arg-type]
            "committed",
            [tp, *others],
            isolation_level="read_committed",
            group="g",
            fail_on_data_loss=fail_on_data_loss,
        )
        return [found[p] for p in (tp, *others)]

    assert resolved(fail_on_data_loss=False) == [120, 80, 150, 7]
    with pytest.raises(OffsetsLost, match="offsets 120 to 149") as lost:
        resolved(fail_on_data_loss=True)
    assert lost.value.reason == "truncation"


@pytest.mark.parametrize(
    ("value", "spec"),
    [
        ("earliest", "earliest"),
        ("committed", "committed"),
        ({"orders": {0: 23, 1: -2}}, AtOffsets({TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2})),
        (datetime(2026, 1, 1, tzinfo=UTC), AtTime(SECOND)),
        ({"timestamp": datetime(2026, 1, 1, tzinfo=UTC)}, AtTime(SECOND)),
        ({"timestamp": {0: 7}}, AtOffsets({TopicPartition("timestamp", 0): 7})),
    ],
)
def test_a_job_files_words(value: Any, spec: OffsetSpec) -> None:
    assert offset_spec(value) == spec


@pytest.mark.parametrize("value", ["newest", 5, {"orders": 5}])
def test_other_words_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not an offset"):
        offset_spec(value)
