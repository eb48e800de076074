"""What a finished run takes from its plan and what from today's job file: each field of the job file says which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.continuation import (
    AsPlanned,
    AtContinuation,
    Continuation,
    continuation_of,
    continuations_below,
    continued,
)
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.config.marks import DecidesRows, DecidesRowsIfGiven, Mark, NotHashed, marks_below
from kseg.etl.config.values import Section

DECISIONS = dict(continuations_below(Job))
MARKS = dict(marks_below(Job))


def test_every_field_has_a_decision() -> None:
    assert [place for place, decision in DECISIONS.items() if decision is None] == []
    covered = {place for place in MARKS if any(place.startswith(f"{decided}.") for decided in DECISIONS)}
    sections = {place for place in MARKS if any(other.startswith(place) for other in DECISIONS)}
    assert {
        place.replace("[]", "").replace(".*", "") for place in MARKS.keys() - covered - sections
    } <= DECISIONS.keys()


def test_nothing_that_decides_rows_is_taken_from_todays_job_file() -> None:
    for place, mark in MARKS.items():
        if mark is not Mark.NOT_HASHED:
            assert DECISIONS.get(place) is not Continuation.AT_CONTINUATION, place


def test_what_is_todays() -> None:
    """A field that is added here is a promise: what a refusal tells users to set helps a run that is finished."""
    todays = {place for place, decision in DECISIONS.items() if decision is Continuation.AT_CONTINUATION}
    payload = {f"decode.{part}.max_columns" for part in ("key", "value")}
    assert todays == payload | {
        "decode.max_nulled",
        *("kafka", "registry", "ledger", "run", "airflow", "spark", "reporting"),
        *(f"source.{key}" for key in ("max_records_per_task", "max_batch_bytes", "on_data_loss", "on_gap")),
        *("sink.single_driver", "sink.dead_letters.max", "sink.dead_letters.retention"),
    }


def test_the_page_names_what_is_todays() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "configuration.md").read_text()
    [paragraph] = re.findall(
        r"^`kseg repair --finish` completes a run as it was planned\. (.*?)\n\n?\Z", page, re.M | re.S
    )
    told = re.findall(r"`([\w.]+)`", paragraph.partition(". A refusal")[0])
    todays = {place for place, decision in DECISIONS.items() if decision is Continuation.AT_CONTINUATION}
    in_source = {place.removeprefix("source.") for place in todays}
    assert set(told) - {"source"} == {name for name in in_source if name != "airflow"}


class Decided(Section):
    rows: DecidesRows[int] = 1
    limit: NotHashed[AtContinuation[int]] = 1
    place: NotHashed[AsPlanned[int]] = 1


class Beside(Section):
    path: AsPlanned[str | None] = None
    most: AtContinuation[int] = 7


class Whole(Section):
    inner: DecidesRowsIfGiven[Decided | dict[str, Decided] | None] = None
    beside: NotHashed[Beside | None] = None


class Undecided(Section):
    added: NotHashed[int] = 1
    inside: DecidesRows[Decided] = Decided()


def test_a_field_without_a_decision_is_found() -> None:
    assert dict(continuations_below(Undecided))["added"] is None
    assert dict(continuations_below(Undecided))["inside.limit"] is Continuation.AT_CONTINUATION


def test_a_field_that_decides_rows_cannot_be_todays() -> None:
    class Wrong(Section):
        rows: DecidesRows[AtContinuation[int]] = 1

    with pytest.raises(ValueError, match="contradicting"):
        continuation_of(Wrong.model_fields["rows"])


@pytest.mark.parametrize(
    ("planned", "today", "made"),
    [
        (Decided(rows=2, limit=2, place=2), Decided(rows=3, limit=3, place=3), Decided(rows=2, limit=3, place=2)),
        (Whole(inner=Decided(rows=2)), Whole(inner=Decided(limit=3)), Whole(inner=Decided(rows=2, limit=3))),
        (Whole(inner=Decided(limit=2)), Whole(), Whole(inner=Decided(limit=2))),
        (Whole(), Whole(inner=Decided(limit=3)), Whole()),
        (
            Whole(inner={"a": Decided(rows=2), "b": Decided(rows=4)}),
            Whole(inner={"a": Decided(limit=3), "c": Decided()}),
            Whole(inner={"a": Decided(rows=2, limit=3), "b": Decided(rows=4)}),
        ),
        (Whole(inner={"a": Decided(rows=2)}), Whole(inner=Decided(limit=3)), Whole(inner={"a": Decided(rows=2)})),
        (Whole(), Whole(beside=Beside(path="/now", most=3)), Whole(beside=Beside(most=3))),
        (Whole(beside=Beside(path="/then", most=3)), Whole(), Whole(beside=Beside(path="/then"))),
        (
            Whole(beside=Beside(path="/then", most=3)),
            Whole(beside=Beside(path="/now", most=4)),
            Whole(beside=Beside(path="/then", most=4)),
        ),
    ],
)
def test_sections_are_put_together_field_by_field(planned: Section, today: Section, made: Section) -> None:
    assert continued(planned, today) == made


DOCUMENT: dict[str, Any] = {
    "version": 1,
    "name": "orders",
    "kafka": {"bootstrap.servers": "localhost:9092"},
    "source": {"topics": ["orders"]},
    "decode": {"value": {"format": "json", "schema": {"columns": {"id": "bigint"}}}},
    "sink": {"path": "./lake/orders"},
    "ledger": "./ledger",
}


def test_a_job_put_together_keeps_its_hash() -> None:
    planned = load_job(DOCUMENT)
    source = {"topics": ["others"], "on_gap": "record", "on_data_loss": "record", "untimed": "include"}
    decode = {"value": DOCUMENT["decode"]["value"], "on_error": "dead_letter"}
    sink = {"path": "./elsewhere", "dead_letters": {"max": 5}}
    today = load_job({**DOCUMENT, "source": source, "decode": decode, "sink": sink})
    made = continued(planned, today)
    assert made.config_hash == planned.config_hash != today.config_hash
    assert (made.source.on_gap, made.source.on_data_loss, made.source.untimed) == ("record", "record", "refuse")
    assert (made.source.topics, made.sink.most_dead_letters.number) == (("orders",), 5)
