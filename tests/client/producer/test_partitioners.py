"""Which partition a record goes to."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kseg.client.producer.partitioners import Default, RandomOnce, RoundRobin, TopicPartitions, Users, partition_of_key

FOUR = TopicPartitions(4, (0, 1, 2, 3))
#: Partition 2 has no leader now.
THREE_OF_FOUR = TopicPartitions(4, (0, 1, 3))


@pytest.mark.rule(51)
def test_a_key_decides_alone_also_while_its_partition_has_no_leader():
    choose = Default(100)
    for number in range(200):
        key = b"key %d" % number
        assert choose("t", key, b"v", FOUR, 10) == partition_of_key(key, 4)
        assert choose("t", key, b"v", THREE_OF_FOUR, 10) == partition_of_key(key, 4)


def test_an_empty_key_is_a_key_and_ignored_keys_are_none():
    assert {Default(1)("t", b"", b"v", FOUR, 10) for _ in range(50)} == {partition_of_key(b"", 4)}
    assert len({Default(1, ignore_keys=True)("t", b"k", b"v", FOUR, 10) for _ in range(100)}) == 4


def test_without_a_key_one_partition_is_kept_until_a_batch_is_full():
    choose = Default(100, chance=random.Random(1))
    chosen = [choose("t", None, b"v", FOUR, 10) for _ in range(400)]
    runs = [chosen[at : at + 10] for at in range(0, 400, 10)]
    assert all(len(set(run)) == 1 for run in runs)
    assert set(chosen) == {0, 1, 2, 3}


def test_every_topic_has_a_sticky_partition_of_its_own():
    choose = Default(10**6, chance=random.Random(3))
    by_topic = {topic: {choose(topic, None, b"v", FOUR, 10) for _ in range(20)} for topic in map(str, range(30))}
    assert all(len(partitions) == 1 for partitions in by_topic.values())
    assert set().union(*by_topic.values()) == {0, 1, 2, 3}


def test_partitions_without_a_leader_are_not_drawn():
    choose = Default(1, chance=random.Random(2))
    assert {choose("t", None, b"v", THREE_OF_FOUR, 10) for _ in range(200)} == {0, 1, 3}
    nobody = TopicPartitions(2, ())
    assert {choose("u", None, b"v", nobody, 10) for _ in range(200)} == {0, 1}


def test_long_queues_are_drawn_less_often():
    queues = {0: 0, 1: 1, 2: 3, 3: 3}
    choose = Default(1, queue_sizes=lambda _: queues, chance=random.Random(5))
    counts = Counter(choose("t", None, b"v", FOUR, 10) for _ in range(9000))
    # weights 4, 3, 1, 1 of 9
    assert [round(counts[partition] / 1000) for partition in range(4)] == [4, 3, 1, 1]


@pytest.mark.rule(49)
def test_round_robin_takes_every_record_to_the_next_partition():
    choose = RoundRobin()
    assert [choose("t", b"k", b"v", FOUR, 10) for _ in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert [choose("u", None, b"v", THREE_OF_FOUR, 10) for _ in range(4)] == [0, 1, 3, 0]


@pytest.mark.rule(50)
def test_one_random_partition_lasts_for_a_producers_life():
    drawn = set()
    for seed in range(60):
        choose = RandomOnce(random.Random(seed))
        [partition] = {choose("t", b"%d" % n, b"v", THREE_OF_FOUR, 10) for n in range(20)}
        drawn.add(partition)
    assert drawn == {0, 1, 3}


@pytest.mark.rule(52)
def test_a_users_callable_is_asked_with_topic_key_value_and_number():
    seen = []

    def choose(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int:
        seen.append((topic, key, value, partitions))
        return 3

    assert Users(choose)("t", b"k", b"v", FOUR, 10) == 3
    assert seen == [("t", b"k", b"v", 4)]
