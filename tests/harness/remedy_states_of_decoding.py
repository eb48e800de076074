"""States in which records cannot be decoded (`remedy_state.py`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from remedy_state import State, put, run_of, state

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
