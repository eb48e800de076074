"""By which rules a run decodes: those of the rows that its tables have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.decoding.rules import FIRST, NEWEST
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import TableRecord, TableState
from kseg.etl.planning.table_rules import replaces_all, rules_in_ledger, rules_of_tables
from kseg.etl.tables.values import TableDescription

UNKNOWN = TableRecord()
TP = TopicPartition("orders", 0)


def table(rows: int | None = 5, *, property: int | None = None, id: str = "id") -> TableDescription:
    return TableDescription(TableState(id, 3, rows), decoding_rules=property)


def landed(rules: int, id: str = "id") -> TableRecord:
    return TableRecord(landed=TableState(id, 2, 5), rules=rules)


@pytest.mark.parametrize(
    ("record", "now", "rules"),
    [
        (UNKNOWN, TableDescription(), NEWEST),  # there is no table
        (UNKNOWN, table(0), NEWEST),
        (UNKNOWN, table(5), FIRST),  # landed by an earlier release, or by others
        (UNKNOWN, table(None), FIRST),  # without statistics: it may have rows
        (UNKNOWN, table(5, property=2), NEWEST),  # of a ledger that was lost
        (landed(1), table(5), FIRST),
        (landed(1), table(0), FIRST),  # emptied by an abandonment
        (landed(1), table(5, property=2), FIRST),  # the ledger is believed
        (landed(2), table(5), NEWEST),  # and so it is if the property is gone
        (landed(1, id="before"), table(0), NEWEST),  # made again: a full refresh
        (landed(1, id="before"), TableDescription(), NEWEST),
    ],
)
def test_rows_keep_their_rules_and_new_tables_get_the_newest(
    record: TableRecord, now: TableDescription, rules: Any
) -> None:
    assert rules_of_tables({"t": (record, now)}) == rules


def test_all_tables_of_a_job_have_the_oldest_rules_of_its_rows() -> None:
    old, new = (landed(1), table()), (UNKNOWN, TableDescription())
    assert rules_of_tables({"old": old, "new": new}) == FIRST
    assert rules_of_tables({}) == NEWEST


def test_rows_of_a_later_release_are_refused() -> None:
    with pytest.raises(Refused, match="decoding rules 9 are unknown") as caught:
        rules_of_tables({"t": (UNKNOWN, table(5, property=9))})
    assert caught.value.code == "ledger-newer"
    assert caught.value.address["table"] == "t"


def test_a_replacement_of_all_that_has_landed_is_told_from_one_of_a_part() -> None:
    state = JobState(job="job", ledger_id="l", landed_offsets={TP: OffsetSet.single(0, 10)})
    assert replaces_all(state, {TP: OffsetSet.single(0, 12)})
    assert not replaces_all(state, {TP: OffsetSet.single(1, 12)})
    assert not replaces_all(state, {})
    assert replaces_all(JobState(job="job", ledger_id="l"), {})


def test_without_a_look_at_tables_the_ledger_says_what_it_knows() -> None:
    def tables_of(topics: Any) -> tuple[str, ...]:
        if "returns" in topics:
            raise ConfigurationError.of("sink.routes", "there is no route for topic returns")
        return ("now",)

    job: Any = SimpleNamespace(sink=SimpleNamespace(tables_of=tables_of))
    before = JobState(job="job", ledger_id="l", table_records={"before": landed(1)})
    assert rules_in_ledger(job, before) == NEWEST, "the job's rows land in another table by now"
    assert rules_in_ledger(job, JobState(job="job", ledger_id="l", table_records={"now": landed(1)})) == FIRST
    of_old_route = JobState(job="job", ledger_id="l", table_records={"before": landed(1)}, topics={"returns": Any})
    assert rules_in_ledger(job, of_old_route) == FIRST
