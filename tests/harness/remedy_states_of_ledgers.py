"""States of ledgers that lead to refusals (`remedy_state.py`)."""

from __future__ import annotations

import copy
import shutil
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.planning import plan
from remedy_state import State, died, first_table, landed, put, state, state_with_s3

UNSAFE = "AWS_S3_ALLOW_UNSAFE_RENAME"

# --- the ledger


@state
def a_ledger_without_its_log(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    ledger = made.job.folder / "ledger"
    shutil.copytree(ledger, folder / "newest")
    shutil.rmtree(ledger / "_delta_log")
    made.person["the ledger's newest copy is restored"] = put(folder / "newest", ledger)
    made.person["the ledger is moved away"] = lambda: shutil.move(ledger, folder / "away")
    return made


@state
def a_ledger_that_knows_the_job(home: Any, records: Any, folder: Path) -> State:
    return landed(home, records)


@state
def a_table_in_the_ledgers_place(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    write_deltalake(made.job.folder / "other", pa.table({"value": [1]}))
    made.job.change(ledger="./other")
    return made


@state
def a_ledger_that_is_lost(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    shutil.copytree(made.job.folder / "ledger", folder / "newest")
    shutil.rmtree(made.job.folder / "ledger")
    made.person["the ledger's newest copy is restored"] = put(folder / "newest", made.job.folder / "ledger")
    return made


@state
def a_ledger_that_is_elsewhere(home: Any, records: Any, folder: Path) -> State:
    made = died(home, records, "land:first:after")
    made.job.change(ledger="./nowhere")
    return made


@state
def a_ledger_of_a_later_release(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    ledger = DeltaTable(made.job.folder / "ledger")
    before = ledger.metadata().configuration["kseg.ledgerFormat"]

    def written_by(release: str) -> None:
        DeltaTable(made.job.folder / "ledger").alter.set_table_properties(
            {"kseg.ledgerFormat": release}, raise_if_not_exists=False
        )

    written_by("99")
    made.person["that release is used"] = lambda: written_by(before)  # its format is the one that is known then
    return made


def with_an_older_ledger(home: Any, records: Any, folder: Path, **changes: Any) -> State:
    made = landed(home, records, **changes)
    ledger = made.job.folder / "ledger"
    shutil.copytree(ledger, folder / "older")
    records.write(made.values["TOPIC"], 0, 5)
    made.job.ingest()
    shutil.copytree(ledger, folder / "newest")
    put(folder / "older", ledger)()
    made.person["the ledger's newest copy is restored"] = put(folder / "newest", ledger)
    made.person["the ledger is moved away"] = lambda: shutil.move(ledger, folder / "away")
    return made


@state
def a_ledger_that_is_older_than_its_table(home: Any, records: Any, folder: Path) -> State:
    return with_an_older_ledger(home, records, folder)


@state
def a_ledger_that_is_older_than_its_group(home: Any, records: Any, folder: Path) -> State:
    made = with_an_older_ledger(home, records, folder)
    made.job.change(sink={"path": "./lake/second"})
    made.person["the table is named as before"] = lambda: made.job.change(sink={"path": "./lake/first"})
    return made


@state
def no_rows_to_rebuild_from(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    name = made.job.document["name"]
    shutil.move(made.job.folder / "ledger", folder / "away")
    made.job.change(name=f"{name}-x")
    made.person["the job's name is corrected"] = lambda: made.job.change(name=name)
    return made


@state
def a_rebuild_beyond_the_log(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    shutil.rmtree(made.job.folder / "ledger")
    records.kafka.make_anew(made.values["TOPIC"], 1)
    records.forget_metadata()
    return made


@state
def two_lost_ledgers(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    first = made.job.state.ledger_id
    shutil.rmtree(made.job.folder / "ledger")
    made.job.ingest(accept_group_offsets=True)
    records.write(made.values["TOPIC"], 0, 5)
    made.job.ingest()
    second = made.job.state.ledger_id
    shutil.rmtree(made.job.folder / "ledger")
    one, two = sorted([first, second])
    made.values |= {"FIRST": one, "SECOND": two}
    return made


@state
def a_ledger_that_is_lost_and_another_table(home: Any, records: Any, folder: Path) -> State:
    """The group tells: its offsets were committed with the lost ledger."""
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    shutil.rmtree(made.job.folder / "ledger")
    made.job.change(sink={"path": "./lake/second"})
    made.person["the table is named as before"] = lambda: made.job.change(sink={"path": "./lake/first"})
    return made


@state
def a_job_that_has_not_run(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    return State(home(topic), records, {"TOPIC": topic})


def _other_copy(made: State, ledger: str) -> Any:
    """The same job with its ledger elsewhere, as another machine may run it."""
    other = copy.copy(made.job)
    other.folder = made.job.folder / "other"
    other.folder.mkdir()
    other.document = {**made.job.document, "ledger": ledger, "sink": {"path": made.values["TABLE"]}}
    return other.change()


@state
def a_table_out_of_which_a_ledger_is_made_during_a_run(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    anew = made.values["LEDGER"] = str(made.job.folder / "anew")
    made.during = ("land:first:before", lambda: rebuild_ledger(_other_copy(made, anew).job))
    return made


@state
def a_ledger_that_a_new_one_was_made_in_place_of(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    anew = made.values["LEDGER"] = str(made.job.folder / "anew")
    rebuild_ledger(_other_copy(made, anew).job)
    return made


@state
def a_table_that_a_copy_of_the_ledger_lands_in_during_a_run(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    ledger = made.job.folder / "ledger"
    shutil.copytree(ledger, folder / "copy")
    records.write(made.values["TOPIC"], 0, 5)
    made.job.change(group=None)

    def land_twice() -> None:
        other = _other_copy(made, str(folder / "copy"))
        other.ingest()
        records.write(made.values["TOPIC"], 0, 2)
        other.ingest()

    made.during = ("land:first:before", land_twice)
    made.person["the ledger's newest copy is restored"] = put(folder / "copy", ledger)
    made.person["the ledger is moved away"] = lambda: shutil.move(ledger, folder / "away")
    return made


@state
def rows_of_two_jobs_and_runs_that_no_log_has(home: Any, records: Any, folder: Path) -> State:
    """Run ids as release 0.1.0 gave them, which name no job, in a table whose log was cleaned since."""
    patch = pytest.MonkeyPatch()
    patch.setattr(plan, "incremental_run_id", lambda *_: uuid.uuid4().hex)
    made = landed(home, records)
    made.at_end.append(patch.undo)
    second = records.topic(1)
    records.write(second, 0, 3)
    home(second, sink={"path": made.values["TABLE"]}).ingest()
    made.job.table("first").create_checkpoint()
    for version in range(made.job.table("first").version()):
        (first_table(made.job) / "_delta_log" / f"{version:020d}.json").unlink()
    ledger = made.job.folder / "ledger"
    shutil.copytree(ledger, folder / "newest")
    shutil.rmtree(ledger)
    there = [row[:3] for row in records.rows(made.values["TOPIC"], second)]
    made.expected = lambda: there  # type: ignore[method-assign]
    made.person["the ledger's newest copy is restored"] = put(folder / "newest", ledger)

    def start_anew() -> None:
        changes = {"ledger": "./anew", "sink": {"path": "./lake/second"}, "group": f"{made.job.group}-anew"}
        made.job.change(**changes)
        again = [row[:3] for row in records.rows(made.values["TOPIC"])]
        made.expected = lambda: sorted(there + again)  # type: ignore[method-assign]

    made.person["a new ledger, another table and another group are named"] = start_anew
    return made


# --- its events


def with_another_row(made: State, **changes: Any) -> None:
    """The ledger with one more row: its last one with these columns changed."""
    path = made.job.folder / "ledger"
    rows = DeltaTable(path).to_pyarrow_table().sort_by([("seq", "ascending"), ("part", "ascending")])
    last = rows.slice(rows.num_rows - 1)
    changes = {"seq": last["seq"][0].as_py() + 1, "transition": "of-the-test", **changes}
    for name, value in changes.items():
        last = last.set_column(
            last.schema.get_field_index(name), last.schema.field(name), pa.array([value], last.schema.field(name).type)
        )
    write_deltalake(path, last, mode="append")


@state
def an_event_of_a_later_release(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    shutil.copytree(made.job.folder / "ledger", folder / "newest")
    with_another_row(made, kind="of_a_later_release")
    made.person["that release is used"] = put(folder / "newest", made.job.folder / "ledger")  # which reads this as that
    return made


@state
def an_event_that_cannot_be_read(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    shutil.copytree(made.job.folder / "ledger", folder / "newest")
    with_another_row(made, payload="{")
    made.person["the ledger's newest copy is restored"] = put(folder / "newest", made.job.folder / "ledger")
    return made


@state
def a_ledger_without_a_data_file(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    ledger = made.job.folder / "ledger"
    shutil.copytree(ledger, folder / "newest")
    min(ledger.rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns).unlink()
    made.person["the ledger's newest copy is restored"] = put(folder / "newest", ledger)
    return made


@state
def a_ledger_that_another_one_replaces_during_a_run(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    ledger = made.job.folder / "ledger"

    def replace() -> None:
        shutil.copytree(ledger, folder / "newest")
        shutil.rmtree(ledger)
        Ledger.open(ledger)

    made.during = ("plan:after", replace)
    made.person["the ledger's newest copy is restored"] = put(folder / "newest", ledger)
    return made


@state_with_s3
def options_that_let_two_writers_overwrite(home: Any, records: Any, folder: Path, s3: Any) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    made = State(home(topic), records, {"TOPIC": topic})
    made.job.change(ledger=f"s3://logs/{made.job.document['name']}/ledger")
    patch = pytest.MonkeyPatch()
    for name, value in {**s3.environment, "AWS_ALLOW_HTTP": "true", UNSAFE: "true"}.items():
        patch.setenv(name, value)
    made.person["it is unset"] = lambda: patch.delenv(UNSAFE)
    made.at_end += [patch.undo, lambda: shutil.rmtree(s3.folder / made.job.document["name"])]
    return made
