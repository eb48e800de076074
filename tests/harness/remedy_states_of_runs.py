"""States of runs, of the source, and of the group, that lead to refusals (`remedy_state.py`)."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer
from deltalake import write_deltalake

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.decoding.rules import NEWEST, PROPERTY
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.lease import acquire
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from remedy_state import State, died, first_table, landed, noted, run_of, state

# --- runs


@state
def a_run_whose_account_failed(home: Any, records: Any, folder: Path) -> State:
    made = died(home, records, "land:first:before")
    noted(made, ev.AccountFailed(run_id=made.values["RUN"], equation="rows", reason="for the test"))
    return made


@state
def an_account_that_failed_behind_a_transform(home: Any, records: Any, folder: Path) -> State:
    made = died(home, records, "land:first:after", transform=[{"duckdb": "SELECT * FROM __rows__"}])
    noted(made, ev.AccountFailed(run_id=made.values["RUN"], equation="rows", reason="for the test", final=True))
    return made


@state
def two_unfinished_runs(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic)
    job.die("plan:after", from_=[f"{topic}:0:0"], to=[f"{topic}:0:3"])
    first = run_of(job)
    job.die("plan:after")
    (second,) = {one.run_id for one in job.state.unfinished_runs()} - {first}
    return State(job, records, {"MARK": first.partition("-")[0], "RUN": second, "OTHER": first})


@state
def a_job_file_that_changed_after_landing(home: Any, records: Any, folder: Path) -> State:
    made = died(home, records, "land:first:after")
    made.job.change(sink={"merge_schema": True})
    return made


@state
def offsets_that_are_committed(home: Any, records: Any, folder: Path) -> State:
    return died(home, records, "finish:before")


@state
def an_interrupted_abandonment(home: Any, records: Any, folder: Path) -> State:
    made = died(home, records, "land:first:after")
    noted(made, ev.Abandoning(run_id=made.values["RUN"], reason="for the test"))
    return made


@state
def a_finished_run(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    (run,) = made.job.state.runs
    made.values["RUN"] = str(run)
    return made


@state
def a_run_that_landed_and_lost_its_records(home: Any, records: Any, folder: Path) -> State:
    made = died(home, records, "land:first:after")
    records.delete_records(made.values["TOPIC"], 0, 4)
    return made


@state
def a_backfill_that_died(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 6)
    made.job.die("plan:after", from_=[f"{made.values['TOPIC']}:0:6"], to=[f"{made.values['TOPIC']}:0:9"])
    made.values |= {
        "RUN": run_of(made.job),
        "FROM": f"{made.values['TOPIC']}:0:6",
        "TO": f"{made.values['TOPIC']}:0:12",
        "DIED": f"{made.values['TOPIC']}:0:9",
    }
    return made


@state
def a_replacement_by_newer_rules_that_died(home: Any, records: Any, folder: Path) -> State:
    """The table is of a release whose rules of decoding had no version, and the replacement begins anew."""
    decode = {"value": {"format": "string", "as": "text"}, "on_error": "set_null"}
    made = landed(home, records, decode=decode)
    (entry,) = (first_table(made.job) / "_delta_log").glob("*0.json")
    entry.write_text(entry.read_text().replace(f'"{PROPERTY}":"{NEWEST.version}"', ""))
    shutil.rmtree(made.job.job.ledger)
    rebuild_ledger(made.job.job)
    made.job.die("plan:after", from_=[made.values["FROM"]], to=[made.values["TO"]], mode="replace")
    made.values["RUN"] = run_of(made.job)
    records.write(made.values["TOPIC"], 0, 2)
    return made


@state
def a_table_to_be_accepted_with_a_run_in_it(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    made.job.die("land:first:after")
    made.values["RUN"] = run_of(made.job)
    rows = made.job.table("first").to_pyarrow_table()
    shutil.rmtree(first_table(made.job))
    for part in (rows.slice(0, 4), rows.slice(4)):
        write_deltalake(first_table(made.job), pa.table(part), mode="append")
    return made


# --- the source


@state
def records_that_retention_cut_before_a_run(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 4)
    job = home(topic)
    job.ingest()
    records.write(topic, 0, 6)
    records.delete_records(topic, 0, 8)
    made = State(job, records, {"TOPIC": topic})
    made.expected = lambda: [row[:3] for row in records.rows(topic) if row[2] < 4 or row[2] >= 8]  # type: ignore[method-assign]
    return made


@state
def a_topic_that_was_recreated(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.kafka.make_anew(made.values["TOPIC"], 1)
    records.forget_metadata()
    return made


@state
def a_topic_that_is_gone(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    topic = made.values["TOPIC"]
    other = made.values["OTHER"] = records.topic(1)
    records.admin.delete_topics([topic])[topic].result(60)
    made.person["the topic is taken out of the job file"] = lambda: made.job.change(source={"topics": [other]})
    return made


@state
def an_unfinished_run_of_a_recreated_topic(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    made.job.die("land:first:after")
    made.values["RUN"] = run_of(made.job)
    records.kafka.make_anew(made.values["TOPIC"], 1)
    records.forget_metadata()
    return made


# --- more of the source


@state
def a_planned_run_whose_records_retention_cut(home: Any, records: Any, folder: Path) -> State:
    made = died(home, records, "plan:after")
    records.delete_records(made.values["TOPIC"], 0, 4)
    made.lost = 4
    return made


@state
def a_ledger_that_starts_beyond_its_log(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic)
    job.die("lease:after")
    with acquire(job.ledger, job.document["name"], duration=job.job.run.lease, take_over=True) as lease:
        lease.transition(lambda _: [BasePinned(bases={TopicPartition(topic, 0): 100_000}, reason="configured")])
    made = State(job, records, {"TOPIC": topic})
    made.person["the group's offset is set inside the log"] = lambda: records.set_group_offsets(
        job.group, {(topic, 0): 0}
    )
    return made


@state
def an_interval_that_retention_cut(home: Any, records: Any, folder: Path) -> State:
    begin = datetime.fromisoformat("2026-01-02T00:00:00+00:00")
    topic = records.topic(1, {"retention.ms": "-1"})
    for hour in range(3):
        records.write(topic, 0, 4, timestamp=int((begin + timedelta(hours=hour, minutes=30)).timestamp() * 1000))
    copies = folder / "copy"
    for source in records.kafka.log_dirs:
        shutil.copytree(source / f"{topic}-0", copies / f"{topic}-0", dirs_exist_ok=True)
        shutil.copy(source / "meta.properties", copies)
    records.delete_records(topic, 0, 2)
    job = home(topic)
    values = {"TOPIC": topic, "INTERVAL": "2026-01-02T00:00:00Z/2026-01-02T02:00:00Z", "DIR": str(copies)}
    return State(job, records, values, lost=2)


@state
def a_backfill_of_more_than_the_files_have(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    older, newer = folder / "older", folder / "newer"
    for copied in (older, newer):
        for source in records.kafka.log_dirs:
            shutil.copytree(source / f"{topic}-0", copied / f"{topic}-0", dirs_exist_ok=True)
            shutil.copy(source / "meta.properties", copied)
        records.write(topic, 0, 6)
    job = home(topic)
    values = {"TOPIC": topic, "FROM": f"{topic}:0:0", "TO": f"{topic}:0:10", "LESS": f"{topic}:0:6"}
    return State(job, records, values | {"OLDER": str(older), "NEWER": str(newer)})


# --- the group


@state
def a_group_with_a_member(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    records.write(made.values["TOPIC"], 0, 5)
    consumer = Consumer(records.settings | {"group.id": made.job.group, "enable.auto.commit": False})
    consumer.subscribe([made.values["TOPIC"]])
    while not consumer.assignment():
        consumer.poll(0.2)
    made.person["the consumer is stopped"] = consumer.close  # which may be called again
    made.at_end.append(consumer.close)
    return made


@state
def group_offsets_that_were_moved(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    topic, group = made.values["TOPIC"], made.job.group
    records.set_group_offsets(group, {(topic, 0): 3})
    made.person["the group's offsets are set back"] = lambda: records.set_group_offsets(group, {(topic, 0): 6})
    return made


@state
def a_group_offset_beyond_the_log(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic)
    records.set_group_offsets(job.group, {(topic, 0): 100_000})
    made = State(job, records, {"TOPIC": topic})
    made.person["the group's offset is set inside the log"] = lambda: records.set_group_offsets(
        job.group, {(topic, 0): 0}
    )
    return made


@state
def a_ledger_of_another_cluster(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    known = made.job.state.topics[made.values["TOPIC"]]
    other = {made.values["TOPIC"]: replace(known, cluster_id="another")}
    noted(made, ev.SourceAccepted(topics=other, reopened={}, reason="for the test"))
    mine = {made.values["TOPIC"]: known}
    made.person["bootstrap.servers is corrected"] = lambda: noted(
        made, ev.SourceAccepted(topics=mine, reopened={}, reason="for the test")
    )
    return made


@state
def a_topic_that_is_recreated_while_it_is_read(home: Any, records: Any, folder: Path) -> State:
    made = landed(home, records)
    topic = made.values["TOPIC"]
    records.write(topic, 0, 5)
    made.expected = lambda: [(topic, 0, offset) for offset in range(6)]  # type: ignore[method-assign]

    def recreate() -> None:
        records.kafka.make_anew(topic, 1)
        records.forget_metadata()

    made.during = ("plan:after", recreate)
    made.learn = lambda: made.values.update(RUN=run_of(made.job))
    return made
