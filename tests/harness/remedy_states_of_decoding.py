"""States in which records cannot be decoded (`remedy_state.py`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from kseg.etl.decoding.rules import NEWEST, PROPERTY
from kseg.etl.ledger import maintenance
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from remedy_state import State, landed, put, run_of, state

# --- decoding


def undecodable(home: Any, records: Any, **changes: Any) -> State:
    """Six records that are text, for a job that expects JSON."""
    topic = records.topic(1)
    records.write(topic, 0, 6)
    value = {"format": "json", "schema": {"columns": {"at": "string"}}}
    job = home(topic, decode={"value": value}, **changes)

    def correct() -> None:
        job.change(decode={"value": {"format": "string", "as": "at", "schema": None}})

    return State(job, records, {"TOPIC": topic}, {"decode is corrected": correct})


@state
def too_many_nulls(home: Any, records: Any, folder: Path) -> State:
    made = undecodable(home, records)
    made.job.change(decode={"on_error": "set_null"}, sink={"dead_letters": None})
    return made


@state
def records_that_cannot_be_decoded(home: Any, records: Any, folder: Path) -> State:
    made = undecodable(home, records)
    made.job.change(sink={"dead_letters": None})
    return made


@state
def too_many_dead_letters(home: Any, records: Any, folder: Path) -> State:
    made = undecodable(home, records)
    made.job.change(decode={"on_error": "dead_letter"})
    return made


@state
def a_value_that_breaks_an_expectation(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic, decode={"value": {"format": "string", "as": "at"}, "expect": {"at": ["a", "b"]}})
    made = State(job, records, {"TOPIC": topic})

    def corrected() -> None:
        job.document["decode"]["expect"] = {"at": "not null"}
        job.change()

    made.person["the expectation is corrected"] = corrected
    return made


@state
def dead_letters_that_are_gone(home: Any, records: Any, folder: Path) -> State:
    made = undecodable(home, records)
    job = made.job
    job.change(decode={"on_error": "dead_letter"}, sink={"dead_letters": {"path": "./lake/dead", "max": "100%"}})
    job.ingest()
    made.person.pop("decode is corrected")()
    job.die_redriving("plan:after")
    made.values["RUN"] = run_of(job)
    shutil.copytree(job.folder / "lake" / "dead", folder / "dead")
    job.table("dead").delete("offset < 3")
    made.person["the table is restored"] = put(folder / "dead", job.folder / "lake" / "dead")
    return made


# --- more of decoding, and of the ledger


@state
def a_record_that_no_route_takes(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic)
    routes = {"nobody": {"path": "./lake/nobody"}}
    job.change(
        decode={"value": {"format": "string", "as": "at"}},
        sink={"path": None, "route_by": "header.kind", "routes": routes},
    )
    made = State(job, records, {"TOPIC": topic})
    made.person["the route is added"] = lambda: job.change(sink={"routes": {"*": {"path": "./lake/rest"}}})
    return made


@state
def a_job_without_a_run(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic)
    job.die("plan:before")
    return State(job, records, {"TOPIC": topic, "PAGE": str(folder / "page.html")})


@state
def two_runs_with_dead_letters(home: Any, records: Any, folder: Path) -> State:
    made = undecodable(home, records)
    job = made.job
    job.change(decode={"on_error": "dead_letter"}, sink={"dead_letters": {"path": "./lake/dead", "max": "100%"}})
    job.ingest()
    records.write(made.values["TOPIC"], 0, 3)
    job.ingest()
    first, second = job.state.runs
    made.values |= {"MARK": first.partition("-")[0], "RUN": first, "OTHER": second}
    made.person.pop("decode is corrected")()
    return made


@state
def two_runs_with_dead_letters_that_a_summary_dropped(home: Any, records: Any, folder: Path) -> State:
    made = two_runs_with_dead_letters(home, records, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maintenance, "RUNS_KEPT", 0)
        assert maintenance.summarise(made.job.ledger, made.job.document["name"], after=0)
    assert not made.job.state.runs
    return made


@state
def dead_letters_that_go_during_their_redrive(home: Any, records: Any, folder: Path) -> State:
    """When the run has looked for the table, and before it reads it: there it gives the rows' table a column."""
    made = two_runs_with_dead_letters(home, records, folder)
    made.job.change(decode={"value": {"as": "text"}})
    table = made.job.folder / "lake" / "dead"
    made.during = ("shape:first:before", lambda: shutil.move(table, folder / "dead"))
    made.learn = lambda: made.values.update(RUN=run_of(made.job))
    made.person["the table is restored"] = lambda: shutil.move(folder / "dead", table)
    return made


@state
def rows_that_a_later_release_decoded(home: Any, records: Any, folder: Path) -> State:
    """Their ledger was rebuilt: the table alone has the rules that they were decoded by."""
    made = landed(home, records, decode={"value": {"format": "string", "as": "at"}})
    records.write(made.values["TOPIC"], 0, 5)
    shutil.rmtree(made.job.folder / "ledger")
    rebuild_ledger(made.job.job)

    def decoded_by(rules: int) -> None:
        table = DeltaTable(made.job.folder / "lake" / "first")
        table.alter.set_table_properties({PROPERTY: str(rules)}, raise_if_not_exists=False)

    decoded_by(NEWEST.version + 1)
    made.person["that release is used"] = lambda: decoded_by(NEWEST.version)  # its rules are known then
    return made
