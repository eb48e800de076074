"""States of ledgers that lead to refusals (`remedy_state.py`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.ledger.store import Ledger
from remedy_state import State, died, landed, put, state, state_with_s3

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
