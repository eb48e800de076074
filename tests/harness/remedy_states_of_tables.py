"""States of tables that lead to refusals (`remedy_state.py`)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.errors import Refused
from remedy_state import State, died, first_table, landed, put, run_of, state, state_with_spark

# --- tables


def with_two_runs(home: Any, records: Any, **changes: Any) -> State:
    made = landed(home, records, **changes)
    topic = made.values["TOPIC"]
    records.write(topic, 0, 5)
    made.job.ingest()
    made.values["TO"] = f"{topic}:0:11"
    return made


@state
def a_table_that_was_restored(home: Any, records: Any, folder: Path) -> State:
    made = with_two_runs(home, records)
    version = made.job.table("first").version()
    made.job.table("first").restore(version - 1)
    made.person["the newer version is restored"] = lambda: made.job.table("first").restore(version)
    return made


@state
def a_table_that_was_overwritten(home: Any, records: Any, folder: Path) -> State:
    made = with_two_runs(home, records)
    rows = pa.table(made.job.table("first").to_pyarrow_table())
    write_deltalake(made.job.table("first"), rows, mode="overwrite")
    return made


@state
def a_table_that_was_made_anew(home: Any, records: Any, folder: Path) -> State:
    made = with_two_runs(home, records)
    rows = made.job.table("first").to_pyarrow_table()
    shutil.rmtree(first_table(made.job))
    for part in (rows.slice(0, 4), rows.slice(4, 4), rows.slice(8)):
        write_deltalake(first_table(made.job), pa.table(part), mode="append")
    return made


@state
def an_older_copy_of_a_table(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    topic, table = made.values["TOPIC"], first_table(made.job)
    shutil.copytree(table, folder / "older")
    records.write(topic, 0, 5)
    made.job.ingest()
    shutil.copytree(table, folder / "newest")
    put(folder / "older", table)()
    made.values["TO"] = f"{topic}:0:11"
    made.person["the newest copy is restored"] = put(folder / "newest", table)
    return made


@state
def an_older_copy_of_a_table_that_others_wrote_to(home: Any, records: Any, folder: Path) -> State:
    made = an_older_copy_of_a_table(home, records, folder)
    for _ in range(3):
        write_deltalake(
            made.job.table("first"), pa.table(made.job.table("first").to_pyarrow_table()).slice(0, 0), mode="append"
        )
    return made


@state
def a_table_that_is_gone(home: Any, records: Any, folder: Path) -> State:
    made = with_two_runs(home, records)
    table = first_table(made.job)
    shutil.move(table, folder / "away")
    made.person["the table is restored"] = put(folder / "away", table)
    return made


@state
def a_table_that_goes_while_it_is_accepted(home: Any, records: Any, folder: Path) -> State:
    made = a_table_that_was_made_anew(home, records, folder)
    table = first_table(made.job)
    made.during = ("lease:after", lambda: shutil.move(table, folder / "away"))
    made.person["the table is restored"] = lambda: shutil.move(folder / "away", table)
    return made


@state
def a_table_that_differs(home: Any, records: Any, folder: Path) -> State:
    made = a_table_that_was_made_anew(home, records, folder)
    made.job.table("first").delete("offset = 3")
    return made


@state
def a_table_without_a_file(home: Any, records: Any, folder: Path) -> State:
    made = with_two_runs(home, records)
    gone = str(pa.table(made.job.table("first").get_add_actions())["path"][0].as_py())
    path = first_table(made.job) / gone
    shutil.move(path, folder / "away.parquet")
    made.person["the file is put back"] = lambda: shutil.move(folder / "away.parquet", path)
    made.person["DeltaTable.repair()"] = lambda: made.job.table("first").repair()
    return made


@state
def a_table_without_an_entry_of_its_log(home: Any, records: Any, folder: Path) -> State:
    made = with_two_runs(home, records)
    table = first_table(made.job)
    rows = pa.table(made.job.table("first").to_pyarrow_table())
    entry = table / "_delta_log" / f"{1:020d}.json"
    shutil.move(entry, folder / "entry.json")
    made.person["the file is put back"] = lambda: shutil.move(folder / "entry.json", entry)

    def a_new_table() -> None:
        shutil.rmtree(table)
        write_deltalake(table, rows)

    made.person["a new table of the rows is put in its place"] = a_new_table
    return made


@state
def rows_in_an_append_only_table(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    made.job.die("land:first:after")
    made.values["RUN"] = run_of(made.job)

    def append_only(value: str) -> None:
        made.job.table("first").alter.set_table_properties({"delta.appendOnly": value})

    append_only("true")
    made.person["delta.appendOnly is unset"] = lambda: append_only("false")
    return made


@state
def a_table_that_forgets_transactions(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    name = "delta.setTransactionRetentionDuration"
    made.job.table("first").alter.set_table_properties({name: "interval 7 days"})

    def unset() -> None:
        log = first_table(made.job) / "_delta_log"
        last = max(log.glob("*.json"))
        last.write_text(last.read_text().replace(f'"{name}":"interval 7 days"', '"x":"y"'))

    made.person["the property is unset"] = unset
    return made


@state
def a_table_that_the_ledger_does_not_have(home: Any, records: Any, folder: Path) -> State:
    return landed(home, records)


# --- more of tables


@state
def a_table_whose_committed_files_are_gone(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)

    def delete(step: str) -> None:
        if step.startswith("land:") and step.endswith(":before"):
            for path in made.job.orphans():
                (made.job.folder / "lake" / path).unlink()

    with pytest.raises(Refused):
        made.job.ingest(observe=delete)
    made.values["RUN"] = run_of(made.job)
    return made


@state
def a_table_that_was_replaced(home: Any, records: Any, folder: Path) -> State:
    made = with_two_runs(home, records)
    table = made.job.table("first")
    rows = pa.table(table.to_pyarrow_table())
    DeltaTable.create(first_table(made.job), schema=table.schema(), mode="overwrite")
    write_deltalake(first_table(made.job), rows, mode="append")
    return made


@state
def a_table_that_was_truncated(home: Any, records: Any, folder: Path) -> State:
    """As `TRUNCATE TABLE` of Spark writes it: delta-rs has none."""
    made = with_two_runs(home, records)
    table = made.job.table("first")
    files = pa.table(table.get_add_actions())["path"].to_pylist()
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1, "operation": "TRUNCATE", "operationParameters": {}}}
    ]
    actions += [{"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}} for path in files]
    entry = first_table(made.job) / "_delta_log" / f"{table.version() + 1:020d}.json"
    entry.write_text("\n".join(map(json.dumps, actions)))
    return made


@state
def a_table_that_lost_rows_and_its_log(home: Any, records: Any, folder: Path) -> State:
    made = with_two_runs(home, records)
    made.job.table("first").delete("offset < 3")
    rows = pa.table(made.job.table("first").to_pyarrow_table())
    write_deltalake(made.job.table("first"), rows.slice(0, 0), mode="append")
    made.job.table("first").create_checkpoint()
    for version in range(made.job.table("first").version()):
        (first_table(made.job) / "_delta_log" / f"{version:020d}.json").unlink(missing_ok=True)
    return made


@state
def a_commit_with_other_ranges(home: Any, records: Any, folder: Path) -> State:
    """As of a table with two names, which the job file and the plan do not show."""
    made = died(home, records, "land:first:committed")
    log = first_table(made.job) / "_delta_log"
    entry = max(log.glob("*.json"))
    topic = made.values["TOPIC"]
    text = entry.read_text()
    changed = re.sub(r"(" + re.escape(topic) + r'\\*", ?0, ?)0(, ?)6', r"\g<1>1\g<2>6", text)
    assert changed != text
    entry.write_text(changed)
    return made


@state_with_spark
def a_table_that_needs_another_writer_by_now(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records, sink={"single_driver": True})
    records.write(made.values["TOPIC"], 0, 5)

    def constrain() -> None:
        made.job.table("first").alter.add_constraint({"not_negative": "offset >= 0"})

    made.during = ("land:first:before", constrain)
    return made


@state
def a_table_whose_columns_change_meanwhile(home: Any, records: Any, folder: Path) -> State:
    """As `ALTER TABLE … ALTER COLUMN offset SET NOT NULL` of Spark writes it."""
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    log = first_table(made.job) / "_delta_log"

    def set_not_null() -> None:
        lines = [json.loads(line) for entry in sorted(log.glob("*.json")) for line in entry.read_text().splitlines()]
        metadata = [line["metaData"] for line in lines if "metaData" in line][-1]
        columns = json.loads(metadata["schemaString"])
        for column in columns["fields"]:
            column["nullable"] = column["nullable"] and column["name"] != "offset"
        metadata["schemaString"] = json.dumps(columns)
        info = {"timestamp": 1, "operation": "CHANGE COLUMN", "operationParameters": {}}
        entry = log / f"{made.job.table('first').version() + 1:020d}.json"
        entry.write_text("\n".join(map(json.dumps, [{"commitInfo": info}, {"metaData": metadata}])))

    made.during = ("land:first:before", set_not_null)
    return made
