"""The client's functions on brokers that lack what they are made of today: they do what can be done, or say why not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kseg.client import (
    EARLIEST,
    LATEST,
    Cluster,
    CommittedOffset,
    KafkaError,
    MessageCutShort,
    OffsetOutOfRange,
    PartitionReader,
    TopicExists,
    TopicPartition,
    Transaction,
    UnsupportedVersion,
    commit_offsets,
    committed_offsets,
    describe_group,
    end_of_epoch,
    list_groups,
    list_offsets,
)
from kseg.client.admin.configs import describe_topic_configs
from kseg.client.admin.topics import create_topic, delete_topic
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.metadata import MetadataRequest

OLDEST = "0.9.0.1"
RELEASES = [OLDEST, "0.10.2.2", "1.1.1"]


class Here:
    """A release, a client's cluster on it, and a `Peer` to write with."""

    def __init__(self, release: str, peer: Any) -> None:
        self.release, self.peer = release, peer
        self.cluster = Cluster(peer.config)

    def written(self, values: list[bytes], **config: str) -> TopicPartition:
        topic = self.peer.topic(1, {key.replace("_", "."): value for key, value in config.items()})
        for value in values:
            self.peer.write(topic, [value])
        return TopicPartition(topic, 0)


# Of the module's scope, so that pytest runs all tests of one release together.
@pytest.fixture(scope="module", params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def here(release: str, peers: Any) -> Iterator[Here]:
    found = Here(release, peers(release))
    yield found
    found.cluster.close()


def only(*releases: str) -> Any:
    return pytest.mark.parametrize("release", releases, indirect=True, scope="module")


@pytest.mark.rule(43)
def test_metadata_names_brokers_and_leaders_and_never_creates(here: Here):
    tp = here.written([])
    known = here.cluster.metadata([tp.topic, "nobody-made-this"])
    [broker] = known.brokers.values()
    assert f"{broker.host}:{broker.port}" == here.peer.kafka.bootstrap_servers
    assert known.topics[tp.topic].partitions[0].leader_id == broker.node_id
    assert known.topics["nobody-made-this"].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (known.controller_id, known.cluster_id is None) == ((-1, True) if here.release == OLDEST else (1, False))
    assert "nobody-made-this" not in here.cluster.metadata(refresh=True).topics


@pytest.mark.rule(39)
@only(OLDEST)
def test_asking_for_a_topic_by_name_alone_would_have_created_it(here: Here):
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="made-by-asking")])
    here.peer.call(asked, 0)
    here.peer.eventually(lambda: _is_in("made-by-asking", here.cluster.metadata(refresh=True).topics))


def _is_in(name: str, topics: Any) -> None:
    assert name in topics


@pytest.mark.rule(42)
def test_internal_topics_are_told_apart_also_where_the_broker_does_not(here: Here):
    here.peer.await_coordinator("any")
    topics = here.cluster.metadata(refresh=True).topics
    assert topics["__consumer_offsets"].is_internal


@pytest.mark.rule(173, 174)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_both_ends_of_a_log_are_found(here: Here, isolation: Any):
    tp = here.written([b"a", b"b"])
    for mark, offset in ((EARLIEST, 0), (LATEST, 2)):
        assert list_offsets(here.cluster, {tp: mark}, isolation_level=isolation)[tp].offset == offset


@pytest.mark.rule(175)
def test_a_time_is_found_or_refused_with_the_reason(here: Here):
    before = int(time.time() * 1000) - 3_600_000
    tp = here.written([b"a", b"b"])
    if here.release == OLDEST:
        with pytest.raises(UnsupportedVersion, match=r"by time.*before 0\.10\.1.*give offsets") as caught:
            list_offsets(here.cluster, {tp: before}, isolation_level="read_uncommitted")
        assert (caught.value.topic, caught.value.partition) == tp
    else:
        assert list_offsets(here.cluster, {tp: before}, isolation_level="read_uncommitted")[tp].offset == 0


@pytest.mark.rule(176)
@only("0.10.2.2", "1.1.1", "3.9.2-zookeeper")
def test_a_time_in_an_old_message_format_is_refused_with_topic_and_remedy(here: Here):
    tp = here.written([b"a"], message_format_version="0.9.0")
    with pytest.raises(KafkaError, match=r"without times.*message\.format\.version") as caught:
        list_offsets(here.cluster, {tp: 1}, isolation_level="read_uncommitted")
    assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert (caught.value.topic, caught.value.partition) == tp
    assert not caught.value.retriable
    assert list_offsets(here.cluster, {tp: LATEST}, isolation_level="read_uncommitted")[tp].offset == 1


@pytest.mark.rule(164)
def test_a_partition_is_read_whatever_the_size_of_its_messages(here: Here):
    tp = here.written([b"small", b"x" * 20_000, b"last"])
    with PartitionReader(here.cluster, tp, isolation_level="read_committed", max_bytes=2000) as reader:
        values: list[bytes] = []
        while len(values) < 3:
            reader.request(len(values))
            fetched = reader.response()
            assert fetched.high_watermark == 3
            first = len(values)
            end = first
            while end < 3 and _complete(here, tp, fetched.records, first, end + 1):
                end += 1
            values += [row["value"] for row in here.peer.rows(tp.topic, fetched.records, first, end)]
    assert values == [b"small", b"x" * 20_000, b"last"]


def _complete(here: Here, tp: TopicPartition, records: Any, start: int, end: int) -> bool:
    try:
        here.peer.rows(tp.topic, records, start, end)
    except ValueError:  # not all of them are in this answer
        return False
    return True


@pytest.mark.rule(152)
@only(OLDEST)
def test_a_message_above_every_limit_is_refused(here: Here):
    tp = here.written([b"x" * 20_000])
    with PartitionReader(
        here.cluster, tp, isolation_level="read_committed", max_bytes=2000, largest_message=10_000
    ) as reader:
        reader.request(0)
        with pytest.raises(MessageCutShort) as caught:
            reader.response()
    assert (caught.value.offset, caught.value.topic) == (0, tp.topic)
    assert caught.value.size > 20_000


def test_an_offset_outside_of_the_log_is_told_with_its_bounds(here: Here):
    tp = here.written([b"a", b"b"])
    with PartitionReader(here.cluster, tp, isolation_level="read_committed") as reader:
        reader.request(9)
        with pytest.raises(OffsetOutOfRange) as caught:
            reader.response()
    assert (caught.value.log_start, caught.value.high_watermark) == (0, 2)


@pytest.mark.rule(201)
def test_offsets_that_a_group_commits_come_back(here: Here):
    tp, group = here.written([b"a"]), here.peer.name("group")
    other = TopicPartition(tp.topic, 7)
    commit_offsets(here.cluster, group, {tp: CommittedOffset(1, metadata="mine")})
    found = committed_offsets(here.cluster, group, [tp, other])
    assert found == {tp: CommittedOffset(1, -1, "mine"), other: CommittedOffset(-1)}
    if here.release == OLDEST:
        with pytest.raises(UnsupportedVersion, match="too old to return all offsets of a group"):
            committed_offsets(here.cluster, group)
    else:
        assert committed_offsets(here.cluster, group) == {tp: CommittedOffset(1, -1, "mine")}
    # Into Kafka, never into ZooKeeper.
    with here.peer.kafka.broker.zookeeper() as zookeeper:
        assert zookeeper.get(f"/consumers/{group}/offsets/{tp.topic}/0") is None


def test_groups_are_described_and_listed(here: Here):
    tp, group = here.written([]), here.peer.name("group")
    assert describe_group(here.cluster, group).state == "Dead"
    commit_offsets(here.cluster, group, {tp: CommittedOffset(0)})
    described = describe_group(here.cluster, group)
    assert (described.members, described.has_members) == ((), False)
    # Before 0.10.1 a group is there only as long as it has members.
    assert described.state == ("Dead" if here.release == OLDEST else "Empty")
    [groups] = list_groups(here.cluster).values()
    listed = {found.group for found in groups}
    assert (group in listed) == (here.release != OLDEST)


def test_topics_are_created_and_deleted_by_the_controller(here: Here):
    name = here.peer.name("topic")
    if here.release == OLDEST:
        with pytest.raises(UnsupportedVersion, match=r"before 0\.10 do not report the controller"):
            create_topic(here.cluster, name)
        return
    create_topic(here.cluster, name, partitions=2, replication_factor=1)
    assert sorted(here.cluster.metadata([name], refresh=True).topics[name].partitions) == [0, 1]
    with pytest.raises(TopicExists):
        create_topic(here.cluster, name, partitions=2, replication_factor=1)
    delete_topic(here.cluster, name)
    here.peer.eventually(lambda: _is_not_in(name, here.cluster.metadata(refresh=True).topics))


def _is_not_in(name: str, topics: Any) -> None:
    assert name not in topics


def test_what_a_broker_has_not_is_refused_at_once_and_clearly(here: Here):
    tp = here.written([b"a"])
    began = time.monotonic()
    if here.release != "1.1.1":
        with pytest.raises(UnsupportedVersion, match=r"too old for transactions.*before 0\.11"):
            Transaction(here.cluster, here.peer.name("id")).begin()
        with pytest.raises(UnsupportedVersion, match=r"DescribeConfigs.*does not offer"):
            describe_topic_configs(here.cluster, [tp.topic])
        with pytest.raises(UnsupportedVersion, match=r"OffsetForLeaderEpoch.*does not offer"):
            end_of_epoch(here.cluster, {tp: 0})
    else:
        assert describe_topic_configs(here.cluster, [tp.topic])[tp.topic]["cleanup.policy"].value == "delete"
        assert end_of_epoch(here.cluster, {tp: 0})[tp].end_offset == 1
    assert time.monotonic() - began < 15
