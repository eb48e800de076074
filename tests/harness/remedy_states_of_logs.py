"""States of logs that end below what has been read, and of tables beside a job's own (`remedy_state.py`)."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from deltalake import write_deltalake

from kseg.etl.ledger import maintenance
from kseg.etl.planning import group_reconciliation, plan
from remedy_state import State, landed, put, run_of, state
from remedy_states_of_decoding import undecodable


@state
def a_group_offset_of_a_truncated_log(home: Any, records: Any, folder: Path) -> State:
    """Of a leader epoch that has ended before it, as the leader says after an unclean election."""
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic)
    committed = TopicPartition(topic, 0, 5, metadata="", leader_epoch=0)
    consumer = Consumer(records.settings | {"group.id": job.group, "enable.auto.commit": False})
    consumer.commit(offsets=[committed], asynchronous=False)
    consumer.close()
    made = State(job, records, {"TOPIC": topic})
    patch = pytest.MonkeyPatch()
    patch.setattr(group_reconciliation, "truncated_at", lambda _, __, ___, offset: 3 if offset > 3 else None)
    made.at_end.append(patch.undo)
    made.person["the group's offset is set"] = lambda: records.set_group_offsets(job.group, {(topic, 0): 0})
    return made


@state
def log_files_that_were_cut_off(home: Any, records: Any, folder: Path) -> State:
    topic, copied = records.topic(1), folder / "copy"
    for _ in range(6):
        records.write(topic, 0, 1)
    for source in records.kafka.log_dirs:
        shutil.copytree(source / f"{topic}-0", copied / f"{topic}-0", dirs_exist_ok=True)
        shutil.copy(source / "meta.properties", copied)
    job = home(topic, kafka=None, group=None, source={"segments": str(copied)})
    job.ingest()
    (segment,) = (copied / f"{topic}-0").glob("*.log")
    os.truncate(segment, segment.stat().st_size // 2)
    made = State(job, records, {"TOPIC": topic, "PARTITION": "0"})
    made.expected = lambda: [row[:3] for row in records.rows(topic)]  # type: ignore[method-assign]
    return made


@state
def more_damage_than_a_task_can_list(home: Any, records: Any, folder: Path) -> State:
    """1100 damaged batches of one record each, whose bytes are in quarantine."""
    topic, count = records.topic(1), 1100
    records.write_alone(topic, count)
    (segment,) = (records.kafka.log_dirs[0] / f"{topic}-0").glob("*.log")
    data, at = bytearray(segment.read_bytes()), 0
    while at < len(data):
        size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
        data[at + size - 1] ^= 0x5A
        at += size
    segment.write_bytes(data)
    job = home(topic, source={"on_corruption": "quarantine"}, sink={"quarantine": {"path": "./lake/dead"}})
    job.ingest()
    values = {"TOPIC": topic, "FROM": f"{topic}:0:0", "TO": f"{topic}:0:{count}", "LATER": f"{topic}:0:{count - 9}"}
    made = State(job, records, values)
    made.expected = lambda: []  # type: ignore[method-assign]
    made.learn = lambda: made.values.update(RUN=run_of(job))
    return made


@state
def a_missing_file_of_a_table_that_is_compacted(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    topic = made.values["TOPIC"]
    records.write(topic, 0, 5)
    made.job.ingest()
    made.values["TO"] = f"{topic}:0:11"
    gone = str(pa.table(made.job.table("first").get_add_actions())["path"][0].as_py())
    path = made.job.folder / "lake" / "first" / gone
    shutil.move(path, folder / "away.parquet")
    made.person["the file is put back"] = lambda: shutil.move(folder / "away.parquet", path)
    made.person["DeltaTable.repair()"] = lambda: made.job.table("first").repair()
    return made


# --- dead letters


def with_dead_letters(home: Any, records: Any) -> State:
    made = undecodable(home, records)
    made.job.change(
        decode={"on_error": "dead_letter"}, sink={"dead_letters": {"path": "./lake/dead", "max": "100%"}}
    ).ingest()
    made.person["decode is corrected"]()
    return made


def _letters_of(made: State, run: str | None) -> Callable[[], None]:
    """Writes a dead letter of this run; gives what deletes it."""
    letter = made.job.table("dead").to_pyarrow_table().slice(0, 1)
    column = letter.schema.get_field_index("_kseg_run")
    write_deltalake(made.job.table("dead"), letter.set_column(column, "_kseg_run", pa.array([run])), mode="append")
    return lambda: made.job.table("dead").delete(f"_kseg_run = '{run}'")


@state
def a_dead_letter_of_an_unknown_run(home: Any, records: Any, folder: Path) -> State:
    made = with_dead_letters(home, records)
    topic = made.values["TOPIC"]
    made.values |= {"FROM": f"{topic}:0:0", "TO": f"{topic}:0:1"}
    made.person["its row is deleted from the table"] = _letters_of(made, "0" * 32)
    return made


@state
def dead_letters_without_runs(home: Any, records: Any, folder: Path) -> State:
    made = with_dead_letters(home, records)
    topic, table = made.values["TOPIC"], made.job.folder / "lake" / "dead"
    made.values |= {"FROM": f"{topic}:0:0", "TO": f"{topic}:0:6"}
    shutil.copytree(table, folder / "dead")
    letters = made.job.table("dead").to_pyarrow_table().drop_columns(["_kseg_run"])
    write_deltalake(made.job.table("dead"), letters, mode="overwrite", schema_mode="overwrite")
    made.person["the table is restored"] = put(folder / "dead", table)
    return made


# --- tables of several jobs


@state
def rows_of_two_jobs_and_runs_of_release_0_1_0(home: Any, records: Any, folder: Path) -> State:
    """Run ids as that release gave them, of runs that a summary has dropped: every row is there twice."""
    patch = pytest.MonkeyPatch()
    patch.setattr(plan, "incremental_run_id", lambda *_: uuid.uuid4().hex)
    patch.setattr(maintenance, "RUNS_KEPT", 0)
    made = landed(home, records)
    made.at_end.append(patch.undo)
    second = home(*made.job.topics, sink={"path": made.values["TABLE"]})
    second.ingest()
    maintenance.summarise(made.job.ledger, made.job.document["name"], after=0)
    made.values["LEDGER"] = str(second.folder / "ledger")
    made.learn = lambda: made.values.update(RUN=run_of(made.job))
    return made
