"""The suite finds what it is there for: each kind of wrong row, a group that is ahead, a record that Kafka has lost."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from fault_suite.journal import digest
from fault_suite.oracle import Findings, Former, Removed, TopicReader, ahead_of, compare

TP = ("orders", 0)
RECORDS = {offset: (digest(b"k", b"%d" % offset), 1000 + offset, ()) for offset in (0, 1, 3)}
ACKNOWLEDGED = {(*TP, offset): content[0] for offset, content in RECORDS.items()}


def rows(**changes: Any) -> dict[Any, Any]:
    return {(*TP, offset): [content] for offset, content in RECORDS.items()} | changes.get("to", {})


def found(rows_found: Any, again: Any = (), acknowledged: Any = None, **gone: Any) -> dict[str, int]:
    findings = Findings()
    compare(findings, acknowledged or ACKNOWLEDGED, {TP: RECORDS}, rows_found, Counter(again), **gone)
    counts = {name: getattr(findings, name) for name in ("gaps", "duplicates", "mismatches", "lost")}
    assert findings.sound == (not any(counts.values()))
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(
    ("rows_found", "counts"),
    [
        (rows(), {}),
        (rows(to={(*TP, 1): []}), {"gaps": 1}),
        (rows(to={(*TP, 1): [RECORDS[1], RECORDS[1]]}), {"duplicates": 1}),
        (rows(to={(*TP, 2): [RECORDS[1]]}), {"duplicates": 1}),  # of an aborted transaction, or of nothing
        (rows(to={(*TP, 1): [(RECORDS[1][0], 7, ())]}), {"mismatches": 1}),
        (rows(to={(*TP, 1): [RECORDS[3]]}), {"mismatches": 1}),
    ],
)
def test_each_kind_of_wrong_row_is_found(rows_found: Any, counts: dict[str, int]) -> None:
    assert found(rows_found) == counts


def test_rows_that_were_asked_for_again_are_wanted() -> None:
    again = {(*TP, 1): [RECORDS[1], RECORDS[1]]}
    assert found(rows(to=again), again=[(*TP, 1)]) == {}
    assert found(rows(), again=[(*TP, 1)]) == {"gaps": 1}


def test_what_was_acknowledged_and_is_not_in_the_topic_was_lost_by_kafka() -> None:
    assert found(rows(), acknowledged=ACKNOWLEDGED | {(*TP, 2): b"?"}) == {"lost": 1}
    assert found(rows(), acknowledged=ACKNOWLEDGED | {(*TP, 1): b"?"}) == {"lost": 1}


FORMER = (digest(b"k", b"before"), 900, ())


@pytest.mark.parametrize(
    ("least", "rows_found", "counts"),
    [
        (1, [RECORDS[1], FORMER], {}),
        (1, [RECORDS[1]], {"gaps": 1}),  # it had landed
        (0, [RECORDS[1]], {}),
        (0, [FORMER], {"gaps": 1}),  # the record that is there now
        (1, [RECORDS[1], FORMER, FORMER], {"duplicates": 1, "mismatches": 1}),
        (0, [RECORDS[1], RECORDS[1]], {"duplicates": 1}),
    ],
)
def test_rows_of_a_record_whose_offset_another_one_has(least: int, rows_found: Any, counts: dict[str, int]) -> None:
    former = {(*TP, 1): [Former(FORMER, least, 1)]}
    assert found(rows(to={(*TP, 1): rows_found}), former=former) == counts


def test_a_former_record_has_no_other_offset() -> None:
    assert found(rows(to={(*TP, 7): [FORMER]})) == {"duplicates": 1}
    assert found(rows(to={(*TP, 7): [FORMER]}), former={(*TP, 7): [Former(FORMER, 0, 1)]}) == {}
    assert found(rows(), former={(*TP, 7): [Former(FORMER, 1, 1)]}) == {"gaps": 1}


def test_of_compacted_records_those_that_had_landed_keep_their_rows() -> None:
    missing = rows(to={(*TP, 1): []})
    assert found(missing, removed={TP: Removed(compacted=frozenset([1]), unlanded=frozenset([1]))}) == {}
    assert found(missing, removed={TP: Removed(compacted=frozenset([1]))}) == {"gaps": 1}
    assert found(missing, removed={TP: Removed(compacted=frozenset([0]), unlanded=frozenset([0]))}) == {"gaps": 1}


def test_a_group_ahead_of_the_table_is_found() -> None:
    landed = {TP: Counter([0, 1])}
    assert ahead_of({TP: 3}, {TP: RECORDS}, landed) == {}
    assert ahead_of({TP: 4}, {TP: RECORDS}, landed) == {TP: [3]}
    assert ahead_of({TP: 1}, {TP: RECORDS}, {}) == {TP: [0]}


def test_digests_tell_none_from_empty_and_key_from_value() -> None:
    contents = [(None, None), (b"", None), (None, b""), (b"", b""), (b"a", b"b"), (b"ab", b""), (b"", b"ab")]
    assert len({digest(*content) for content in contents}) == len(contents)


def test_a_reader_goes_on_behind_records_that_were_deleted(kafka: Any) -> None:
    topic = kafka.topic(1)
    at = topic, 0
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(10):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0
    with closing(TopicReader(kafka.bootstrap_servers, {topic: 1})) as reader:
        reader.read_to({at: 10})
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        (deleted,) = admin.delete_records([TopicPartition(*at, 5)]).values()
        assert deleted.result(60).low_watermark == 5
        reader.renew({at: 0})
        reader.read_to({at: 10})
        assert sorted(reader.records[at]) == [5, 6, 7, 8, 9]
