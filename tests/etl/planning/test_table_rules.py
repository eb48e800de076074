"""By which rules a run decodes: those of the rows that its tables have."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.decoding import Decode
from kseg.etl.config.load import job_from_document, load_job
from kseg.etl.decoding.rules import FIRST, NEWEST, rules_of
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.schemas import Lineage
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import TableRecord, TableState
from kseg.etl.planning.table_rules import (
    beside_unfinished,
    column_rules,
    depends_on_rules,
    has_same_columns,
    next_rules,
    replaces_all,
    rules_of_tables,
)
from kseg.etl.tables.values import TableDescription

UNKNOWN = TableRecord()
TP = TopicPartition("orders", 0)
DOCUMENT = {
    "version": 1,
    "name": "job",
    "kafka": {"bootstrap.servers": "localhost:1"},
    "source": {"topics": ["orders"]},
    "sink": {"path": "/lake/orders"},
    "ledger": "/lake/ledger",
}
JOB = job_from_document(DOCUMENT)


def table(rows: int | None = 5, *, property: int | None = None, id: str = "id") -> TableDescription:
    return TableDescription(TableState(id, 3, rows), decoding_rules=property)


def landed(rules: int, id: str = "id") -> TableRecord:
    return TableRecord(landed=TableState(id, 2, 5), rules=rules)


def accepted(rules: int, id: str = "id") -> TableRecord:
    return TableRecord(examined=TableState(id, 2, 5), rules=rules)


@pytest.mark.parametrize(
    ("record", "now", "rules"),
    [
        (UNKNOWN, TableDescription(), None),  # there is no table
        (UNKNOWN, table(0), None),
        (UNKNOWN, table(5), FIRST),  # landed by an earlier release, or by others
        (UNKNOWN, table(None), FIRST),  # without statistics: it may have rows
        (UNKNOWN, table(5, property=2), NEWEST),  # of a ledger that was lost
        (landed(1), table(5), FIRST),
        (landed(1), table(0), FIRST),  # emptied by an abandonment
        (landed(1), table(5, property=2), FIRST),  # the ledger is believed
        (landed(2), table(5), NEWEST),  # and so it is if the property is gone
        (landed(1, id="before"), table(0), None),  # made again: a full refresh
        (landed(1, id="before"), TableDescription(), None),
        (accepted(2), table(5), NEWEST),  # its rows were compared by them
        (accepted(1), table(5, property=2), NEWEST),  # they were not, or had none to compare
        (accepted(2, id="before"), table(5), FIRST),
    ],
)
def test_rows_keep_their_rules_and_new_tables_get_the_newest(
    record: TableRecord, now: TableDescription, rules: Any
) -> None:
    assert rules_of_tables({"t": (record, now)}) == rules


def test_all_tables_of_a_job_have_the_rules_of_its_rows() -> None:
    old, new = (landed(1), table()), (UNKNOWN, TableDescription())
    assert rules_of_tables({"old": old, "new": new}) == FIRST
    assert rules_of_tables({}) is None
    emptied = (landed(1), table(0))
    assert rules_of_tables({"emptied": emptied, "rows": (landed(2), table())}) == NEWEST


def test_columns_of_a_registry_are_made_as_the_tables_were() -> None:
    replaced = TableDescription(TableState("t", 3, 5), decoding_rules=2, column_rules=1)
    assert column_rules({"t": table(5, property=2), "replaced": replaced}, NEWEST) == NEWEST.with_columns_of(FIRST)
    assert column_rules({"t": table(5, property=2)}, NEWEST) == NEWEST
    assert NEWEST.with_columns_of(FIRST).nulls_fields, "rows are decoded as before"
    with pytest.raises(Refused) as caught:
        column_rules({"t": TableDescription(TableState("t", 3, 5), column_rules=9)}, NEWEST)
    assert caught.value.code == "ledger-newer"


def test_tables_whose_rows_have_different_rules_are_not_one_jobs() -> None:
    """A route to a table of an earlier release moved all of a job's tables to its rules, and times changed units."""
    found = {"old": (UNKNOWN, table(5, property=None)), "new": (landed(2), table())}
    with pytest.raises(ConfigurationError, match=r"the rows of old were decoded by version 1.*new by version 2"):
        rules_of_tables(found)
    assert rules_of_tables(found, may_differ=True) == FIRST


@pytest.mark.parametrize(
    ("decode", "depends"),
    [
        (None, False),
        ({"value": {"format": "string", "as": "text"}}, False),
        ({"value": {"format": "json", "schema": {"columns": {"id": "bigint"}}}}, False),
        ({"value": {"format": "json", "schema": {"columns": {"id": "bigint"}}}, "on_error": "set_null"}, True),
        ({"value": {"format": "avro", "schema": "registry"}}, True),
        ({"value": {"format": "json_schema", "schema": "registry"}}, True),
        ({"value": {"format": "protobuf", "schema": "registry"}}, False),
    ],
)
def test_rows_depend_on_rules_where_they_may_be_others(decode: Any, depends: bool) -> None:
    of_job = None if decode is None else Decode.model_validate(decode)
    assert depends_on_rules(JOB.model_copy(update={"decode": of_job})) == depends


CHOICE = {"oneOf": [{"title": n, "type": "object", "properties": {n: {}}, "required": [n]} for n in ("a", "b")]}


@pytest.mark.parametrize(
    ("schema", "options", "same"),
    [
        ({"type": "object", "properties": {"id": {"type": "integer"}}}, {}, True),
        ({"type": "object", "properties": {"one": CHOICE}}, {}, False),
        ({"type": "object", "properties": {"one": CHOICE}}, {"unknown_fields": "rescue"}, True),
        (CHOICE, {}, False),
    ],
)
def test_a_replacement_of_all_rows_begins_anew_only_where_choices_keep_their_columns(
    schema: Any, options: Any, same: bool, tmp_path: Path
) -> None:
    """Rows of the first rules have choices as JSON text: all rows of such a table could not be replaced."""
    (tmp_path / "v.json").write_text(json.dumps(schema))
    decode = {"value": {"format": "json_schema", "schema": {"file": "v.json"}, **options}}
    (tmp_path / "job.yaml").write_text(json.dumps({**DOCUMENT, "decode": decode}))
    job = load_job(tmp_path / "job.yaml")
    assert has_same_columns(job) == same
    assert depends_on_rules(job) != same


def unfinished(*rules: int, accounted: bool = False) -> Any:
    runs = [
        SimpleNamespace(
            run_id=f"r{number}",
            accounted=object() if accounted else None,
            plan=SimpleNamespace(rules=rules_of(number), decoding_rules=number),
        )
        for number in rules
    ]
    return SimpleNamespace(unfinished_runs=lambda: iter(runs))


def test_a_new_run_decodes_as_those_do_that_have_yet_to_land() -> None:
    """One that was planned before a replacement of all rows, and landed after it, moved the table's rules back."""
    assert beside_unfinished(None, unfinished()) == NEWEST
    assert beside_unfinished(None, unfinished(1)) == FIRST, "the first rows are its"
    assert beside_unfinished(FIRST, unfinished(1)) == FIRST
    for of_tables, others in (FIRST, (2,)), (NEWEST, (1,)), (None, (1, 2)):
        with pytest.raises(Refused, match="decodes by version") as refused:
            beside_unfinished(of_tables, unfinished(*others))
        assert refused.value.code == "run-unfinished"
        assert beside_unfinished(of_tables, unfinished(*others, accounted=True)) == (of_tables or NEWEST)
        beside_unfinished(of_tables, unfinished(*others), may_differ=True)


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


def test_what_the_next_run_decodes_by_is_told_from_the_tables_as_they_are() -> None:
    def rules(state: JobState, **tables: TableDescription) -> Any:
        return next_rules(JOB, state, lambda _: tables.get("now"))

    known, unknown = (
        JobState(job="job", ledger_id="l", table_records=records) for records in ({"/lake/orders": landed(1)}, {})
    )
    assert rules(known) == FIRST, "a table that nobody looks at is as the ledger left it"
    assert rules(known, now=table(5, property=2)) == FIRST, "the ledger is believed"
    assert rules(known, now=table(5, property=2, id="made again")) == NEWEST
    assert rules(known, now=TableDescription()) == NEWEST, "there is none any more"
    assert rules(unknown) == NEWEST
    assert rules(unknown, now=table(5)) == FIRST, "rows of an earlier release, under a ledger that was rebuilt"
    replaced = TableDescription(TableState("t", 3, 5), decoding_rules=2, column_rules=1)
    assert rules(unknown, now=replaced) == NEWEST.with_columns_of(FIRST)
    with_schemas = replace(unknown, lineages={"value": Lineage("http://sr", ("{}",))})
    assert rules(with_schemas, now=replaced) == NEWEST, "the ledger has the columns"
    both = job_from_document(
        DOCUMENT | {"source": {"topics": ["a", "b"]}, "sink": {"path": "/lake/{topic}"}},
    )
    tables = {"/lake/a": table(5), "/lake/b": table(5, property=2)}
    assert next_rules(both, unknown, tables.get) == FIRST, "the run is refused, for another reason"
    of_pattern = job_from_document(DOCUMENT | {"source": {"pattern": "."}})
    assert next_rules(of_pattern, unknown, lambda _: table(5)) == NEWEST, "which tables it has is not known"
    assert next_rules(of_pattern, unknown, lambda _: table(5), ["orders"]) == FIRST


def test_a_topic_without_a_route_by_now_leaves_the_tables_that_the_ledger_knows() -> None:
    def tables_of(topics: Any) -> tuple[str, ...]:
        raise ConfigurationError.of("sink.routes", "there is no route for topic returns")

    job: Any = SimpleNamespace(sink=SimpleNamespace(tables_of=tables_of), source=JOB.source)
    topics: Any = {"returns": None}
    state = JobState(job="job", ledger_id="l", table_records={"before": landed(1)}, topics=topics)
    assert next_rules(job, state, lambda _: None) == FIRST
