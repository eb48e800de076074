"""Brokers and log files give the same answers to the same questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.etl.source.errors import TimeNotFoundError
from kseg.etl.source.logs import Logs, open_logs
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.resolve import AtTime
from kseg.segment_reader.encode.batches import Record
from sending import send_to

pytestmark = pytest.mark.broker

SECOND = 1_767_225_600_000
BEFORE_1970 = [-1, -2, -3, -4, -5, -6, -3_600_000, -(2**62)]
"""The first six are special timestamps of ListOffsets."""


@pytest.fixture(scope="module")
def topic(kafka: Any, client_config: ClientConfig) -> str:
    """Partitions of records without and with timestamps, with timestamps, none, without timestamps."""
    name: str = kafka.topic(partitions=4, prefix="logs", config={"retention.ms": "-1"})
    first, second, _, last = (TopicPartition(name, number) for number in range(4))
    untimed, timed = Record(value=b"untimed"), Record(value=b"timed", timestamp=SECOND)
    with Cluster(client_config) as cluster:
        send_to(cluster, {first: [untimed] * 3, last: [untimed] * 2})
        send_to(cluster, {first: [timed] * 2, second: [timed]})
    return name


@pytest.fixture(params=["brokers", "files"])
def logs(request: pytest.FixtureRequest, kafka: Any, client_config: ClientConfig) -> Iterator[Logs]:
    files = LogFiles(tuple(map(str, kafka.log_dirs)))
    with open_logs(client_config if request.param == "brokers" else files) as logs:
        yield logs


def by_number(found: Mapping[TopicPartition, Any]) -> list[Any]:
    return [found[tp] for tp in sorted(found)]


@pytest.mark.parametrize("millis", BEFORE_1970)
def test_a_range_that_starts_before_1970_starts_with_the_log(logs: Logs, topic: str, millis: int) -> None:
    partitions = logs.topics(topics=[topic])
    earliest = logs.offsets("earliest", partitions, isolation_level="read_committed")
    assert logs.offsets(AtTime(millis), partitions, isolation_level="read_committed") == earliest
    assert by_number(earliest) == [0, 0, 0, 0]
    first = by_number(logs.first_at(millis, partitions))
    assert [one and one.offset for one in first] == [0, 0, None, 0]


@pytest.mark.parametrize("millis", [*BEFORE_1970, 0])
def test_a_range_that_ends_before_1970_ends_at_the_first_record_with_a_timestamp(
    logs: Logs, topic: str, millis: int
) -> None:
    partitions = logs.topics(topics=[topic])
    ends = logs.offsets(AtTime(millis, ends=True), partitions, isolation_level="read_committed")
    assert by_number(ends) == [3, 0, 0, 2]
    first = by_number(logs.first_at(millis, partitions, ends=True))
    assert [one and one.offset for one in first] == [3, 0, None, None]


@pytest.mark.parametrize("millis", BEFORE_1970)
def test_an_empty_log_has_no_record_after_any_time(logs: Logs, topic: str, millis: int) -> None:
    partitions = logs.topics(topics=[topic])
    with pytest.raises(TimeNotFoundError) as caught:
        logs.offsets(AtTime(millis, otherwise="error"), partitions, isolation_level="read_committed")
    assert caught.value.address == {"topic": topic, "partition": 2}
