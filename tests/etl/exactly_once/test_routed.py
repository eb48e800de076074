"""Rows that are routed to tables by something else than their topic (`sink.route_by`): each table has its records once,
whichever tables had landed when a run died, and what has no route is a dead letter that a redrive lands."""

from __future__ import annotations

import json
import random
import re
import shutil
from copy import deepcopy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ResourceType
from deltalake import DeltaTable, write_deltalake

from kseg.etl.decoding.errors import NoRouteForRecord
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify as verify_in_driver
from run_steps import steps_of
from skips import IN_FULL
from verified import verify_both_ways

DECODE = {
    "value": {"format": "json", "schema": {"columns": {"kind": "string", "id": "bigint"}}},
    "on_error": "dead_letter",
}
SINK = {
    "path": None,
    "route_by": "value.kind",
    "routes": {kind: {"path": f"./lake/{kind}s"} for kind in ("order", "payment", "refund")},
    "dead_letters": {"path": "./lake/dead", "max": "50%"},
}
COUNT = 40
TABLES = ("orders", "payments", "refunds")
STEPS = steps_of("dead", "orders", "payments")


def kind_of(number: int) -> str:
    """No record is a refund, and every tenth has no route."""
    return "odd" if number % 10 == 3 else ("order", "payment", "order")[number % 3]


NUMBERS = {kind: [n for n in range(COUNT) if kind_of(n) == kind] for kind in ("order", "payment", "odd")}


def write(records: Any, topic: str, values: dict[int, bytes | None]) -> None:
    producer = Producer(records.settings)
    for number, value in values.items():
        headers = [("kind", b"first"), ("kind", kind_of(number).encode())]
        producer.produce(topic, value=value, partition=number % 2, headers=headers)
    assert producer.flush(60) == 0


@pytest.fixture(scope="module")
def topic(records: Any) -> str:
    """Record n is in partition n % 2, at offset n // 2."""
    name = str(records.topic(2))
    write(records, name, {n: json.dumps({"kind": kind_of(n), "id": n}).encode() for n in range(COUNT)})
    return name


@pytest.fixture
def job(topic: str, local_home: Any) -> Any:
    """Its runs need no Spark session: which engine writes the files, the ledger and the tables do not ask."""
    return local_home(topic, decode=deepcopy(DECODE), sink=deepcopy(SINK))


@pytest.fixture
def spark_job(topic: str, home: Any) -> Any:
    return home(topic, decode=deepcopy(DECODE), sink=deepcopy(SINK))


@pytest.fixture
def verify(request: pytest.FixtureRequest, scale: Any) -> Any:
    """The report of `kseg verify`, in the full scale by both ways of comparing."""
    if scale(False, True):
        request.getfixturevalue("spark")
    return scale(verify_in_driver, verify_both_ways)


def files_of(job: Any, folder: Path) -> Path:
    """A copy of the topic's folders: those of other tests, which the shared broker has as well, need not be read."""
    (data,), (topic,) = job.records.kafka.log_dirs, job.topics
    for partition in (0, 1):
        shutil.copytree(data / f"{topic}-{partition}", folder / f"{topic}-{partition}")
    shutil.copy(data / "meta.properties", folder)
    return folder


def numbers(job: Any, table: str, prefix: str = "_kseg_") -> list[int]:
    rows = job.table(table).to_pyarrow_table().to_pylist()
    return sorted(row[f"{prefix}offset"] * 2 + row[f"{prefix}partition"] for row in rows)


def assert_exact(job: Any, *, odd: str | None = None) -> None:
    """Each table has its records once, and so has the ledger. odd: where those without a route have landed since."""
    assert numbers(job, "orders") == NUMBERS["order"]
    assert numbers(job, "payments") == NUMBERS["payment"]
    assert numbers(job, "refunds") == []
    assert numbers(job, "dead", "") == NUMBERS["odd"]
    if odd is not None:
        assert numbers(job, odd) == NUMBERS["odd"]
    assert "_kseg_route" not in job.table("orders").schema().to_json()
    assert set(job.group_offsets().values()) == {COUNT // 2}
    assert set(job.frontiers().values()) == {COUNT // 2}
    run = next(run for run in job.state.runs.values() if run.finished)
    counts, lake = run.accounted.counts, job.folder / "lake"
    assert counts.routed == {str(lake / f"{kind}s"): len(NUMBERS[kind]) for kind in ("order", "payment")}
    assert (counts.decoding.decoded, counts.decoding.dead) == (COUNT - len(NUMBERS["odd"]), len(NUMBERS["odd"]))
    assert run.without_rows == (str(lake / "refunds"),)
    assert job.table("refunds").transaction_version(run.plan.app_id) is None, "it is noted without a commit"


@pytest.mark.parametrize("engine", ["job", "spark_job"])
def test_rows_land_in_the_tables_of_their_routes(engine: str, request: pytest.FixtureRequest) -> None:
    job = request.getfixturevalue(engine)
    report = job.ingest()
    assert_exact(job)
    assert {table.path.rpartition("/")[2]: table.rows for table in report.tables} == {
        "orders": len(NUMBERS["order"]),
        "payments": len(NUMBERS["payment"]),
    }
    assert [note for note in report.notes if "no row was routed" in note] == [
        f"no row was routed to {job.folder}/lake/refunds: there is no commit of this run"
    ]
    letters = job.table("dead").to_pyarrow_table().to_pylist()
    assert {(row["source"], row["error"], row["path"]) for row in letters} == {("row", "ROUTE", "value.kind")}
    assert letters[0]["message"] == "it is 'odd', and sink.routes has neither that nor \"*\""
    assert job.ingest().status == "nothing-to-do"
    found = verify_both_ways(job.job) if engine == "spark_job" else verify_in_driver(job.job)
    assert found.ok, found
    assert {result.path.rpartition("/")[2]: result.rows for result in found.tables} == {
        "orders": len(NUMBERS["order"]),
        "payments": len(NUMBERS["payment"]),
        "refunds": 0,
    }
    shown = {line.path.rpartition("/")[2]: line for line in status(job.job).tables}
    assert {name: (line.rows, line.problem) for name, line in shown.items()} == {
        "orders": (len(NUMBERS["order"]), None),
        "payments": (len(NUMBERS["payment"]), None),
        "refunds": (0, None),
        "dead": (len(NUMBERS["odd"]), None),
    }


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_run_is_taken_up(step: str, spark_job: Any, children: Any, scale: Any) -> None:
    choice = random.Random("routed")
    landing = [step for step in STEPS if step.startswith("land:")]
    if step not in scale(("land:payments:before", choice.choice(landing)), STEPS):
        pytest.skip(IN_FULL)
    job = spark_job
    children.run(job, at=step, signal="SIGKILL").killed()
    before = {name: job.table(name).version() for name in TABLES if STEPS.index(step) > 5}
    had = {name for name in ("orders", "payments") if STEPS.index(step) >= STEPS.index(f"land:{name}:committed")}
    report = job.ingest(take_over=True)
    assert report.status == ("nothing-to-do" if step == "finish:after" else "done")
    assert_exact(job)
    assert {name: job.table(name).version() for name in had} == {name: before[name] for name in had}
    assert job.orphans() == set()
    assert job.ingest().status == "nothing-to-do"
    assert_exact(job)


@pytest.mark.parametrize("step", ["land:orders:committed", "land:orders:after"])
def test_a_retry_with_one_table_left_lands_its_rows_alone(step: str, job: Any, scale: Any) -> None:
    """Rows of the tables that had landed come along, since a range has rows of all: they go nowhere."""
    if step not in scale(("land:orders:committed",), ("land:orders:committed", "land:orders:after")):
        pytest.skip(IN_FULL)
    job.change(
        decode={"on_error": "fail"},
        sink={"dead_letters": None, "routes": {"refund": None, "odd": {"path": "./lake/payments"}}},
    )
    job.die(step)
    version = job.table("orders").version()
    job.ingest(take_over=True)
    assert numbers(job, "orders") == NUMBERS["order"]
    assert numbers(job, "payments") == sorted(NUMBERS["payment"] + NUMBERS["odd"])
    assert job.table("orders").version() == version


def test_a_record_without_a_route_ends_the_run_with_its_address(job: Any) -> None:
    job.change(decode={"on_error": "fail"}, sink={"dead_letters": None})
    with pytest.raises(NoRouteForRecord, match="it is 'odd'") as caught:
        job.ingest()
    assert caught.value.address["partition"] * 1 + caught.value.address["offset"] * 2 in NUMBERS["odd"]
    assert not any(run.landed for run in job.state.runs.values())
    job.change(sink={"routes": {"*": {"path": "./lake/rest"}}})
    job.ingest()
    assert numbers(job, "rest") == NUMBERS["odd"]
    assert numbers(job, "orders") == NUMBERS["order"]


REDRIVING = (None, "land:rest:before", "land:rest:committed", "account:before")


@pytest.mark.parametrize("step", REDRIVING)
def test_a_redrive_lands_what_has_a_route_by_now(step: str | None, job: Any, scale: Any, verify: Any) -> None:
    if step not in scale(("land:rest:committed",), REDRIVING):
        pytest.skip(IN_FULL)
    job.ingest()
    assert job.redrive().status == "nothing-to-do", "it still has none"
    job.change(sink={"routes": {"odd": {"path": "./lake/rest"}}})
    if step is not None:
        job.die_redriving(step)
    report = job.redrive(take_over=True)
    assert report.status == "done"
    assert_exact(job, odd="rest")
    assert job.redrive().status == "nothing-to-do"
    found = verify(job.job)
    assert found.ok, found.findings
    assert job.ingest().status == "nothing-to-do"


def test_verify_finds_a_row_in_the_wrong_table_of_compacted_topics_too(records: Any, home: Any) -> None:
    """Of those, rows without a record are excused: the record of this one is there, and has another route."""
    topic = str(records.topic(2))
    write(records, topic, {n: json.dumps({"kind": kind_of(n), "id": n}).encode() for n in range(COUNT)})
    job = home(topic, decode=deepcopy(DECODE), sink=deepcopy(SINK))
    job.ingest()
    orders, payments = job.table("orders"), job.table("payments")
    number = NUMBERS["order"][4]
    where = f"_kseg_partition = {number % 2} AND _kseg_offset = {number // 2}"
    row = orders.to_pyarrow_table().filter(pa.compute.field("_kseg_offset") == number // 2)
    row = row.filter(pa.compute.field("_kseg_partition") == number % 2)
    assert row.num_rows == 1
    write_deltalake(payments, row, mode="append")
    orders.delete(where)
    records.configure(ResourceType.TOPIC, topic, cleanup_policy="compact,delete")
    found = verify_both_ways(job.job)
    kinds = {(finding.table.rpartition("/")[2], finding.kind, finding.offset) for finding in found.findings}
    assert kinds == {("orders", "gap", number // 2), ("payments", "stranger", number // 2)}
    (stranger,) = (finding for finding in found.findings if finding.kind == "stranger")
    assert "no record that is routed there" in stranger.message
    assert not any("compaction" in note for note in found.notes)


def test_an_abandoned_run_is_gone_from_every_table(job: Any) -> None:
    job.die("land:payments:committed")
    (run,) = job.state.runs
    job.abandon(run)
    assert [numbers(job, name) for name in TABLES] == [[], [], []]
    assert numbers(job, "dead", "") == []
    job.ingest()
    assert numbers(job, "orders") == NUMBERS["order"]
    assert numbers(job, "payments") == NUMBERS["payment"]


def test_a_run_is_finished_as_it_was_planned(job: Any) -> None:
    """Its routes are pinned: those of the job file of today are for later runs."""
    job.die("land:orders:committed")
    (run,) = job.state.runs
    job.change(sink={"routes": {"odd": {"path": "./lake/rest"}}})
    with pytest.raises(Refused, match="the job file has changed"):
        job.ingest(take_over=True)
    job.finish(run, take_over=True)
    assert_exact(job)
    job.redrive()
    assert_exact(job, odd="rest")


def test_a_ledger_is_rebuilt_of_tables_that_had_not_all_landed(job: Any, verify: Any) -> None:
    """Of a range whose rows are in one table, those of the others may be missing."""
    job.die("land:payments:before")
    (job.folder / "ledger").rename(job.folder / "lost")
    rebuild_ledger(job.job)
    job.change(sink={"dead_letters": {"path": "./lake/dead-2", "max": "100%"}})
    job.ingest()
    assert numbers(job, "orders") == NUMBERS["order"]
    assert numbers(job, "payments") == NUMBERS["payment"]
    report = verify(job.job)
    assert "that were compared agree" in report.headline
    assert {table.unknown for table in report.tables} == {report.not_compared}, "of each table the same offsets"
    assert report.headline.endswith(f"; {report.not_compared} offsets were not compared")


def test_rows_of_a_table_that_is_gone_land_again_as_the_refusal_says(job: Any, topic: str) -> None:
    """`replace`, which other jobs are told to use, is refused of routed rows."""
    job.ingest()
    shutil.rmtree(job.folder / "lake" / "payments")
    with pytest.raises(Refused, match="does not exist any more") as refused:
        job.ingest()
    assert "--mode replace" not in str(refused.value.remedy)
    assert re.search("--rebuild-ledger.*--mode missing", str(refused.value.remedy))
    (job.folder / "ledger").rename(job.folder / "lost")
    rebuild_ledger(job.job)
    job.change(sink={"dead_letters": {"path": "./lake/dead-2", "max": "100%"}})
    end = COUNT // 2
    job.backfill(mode="missing", from_=[f"{topic}:0:0", f"{topic}:1:0"], to=[f"{topic}:0:{end}", f"{topic}:1:{end}"])
    assert numbers(job, "orders") == NUMBERS["order"]
    assert numbers(job, "payments") == NUMBERS["payment"]
    assert job.ingest().status == "nothing-to-do"


def test_replace_is_refused_before_anything_is_planned(job: Any) -> None:
    job.ingest()
    with pytest.raises(ConfigurationError, match=r"they are in several"):
        job.backfill(mode="replace", from_=[f"{job.topics[0]}:0:0"], to=[f"{job.topics[0]}:0:5"])
    assert len(job.state.runs) == 1


def test_missing_offsets_and_appended_ones_are_routed_too(job: Any, topic: str, verify: Any) -> None:
    job.change(source={"starting_offsets": {topic: {"0": 4, "1": 4}}})
    job.ingest()
    job.backfill(mode="missing", from_=[f"{topic}:0:0", f"{topic}:1:0"], to=[f"{topic}:0:4", f"{topic}:1:4"])
    assert numbers(job, "orders") == NUMBERS["order"]
    job.backfill(mode="append", label="again", from_=[f"{topic}:0:0"], to=[f"{topic}:0:4"])
    twice = [n for n in NUMBERS["order"] if n % 2 == 0 and n < 8]
    assert numbers(job, "orders") == sorted(NUMBERS["order"] + twice)
    found = verify(job.job)
    assert found.ok, found.findings


def test_a_table_that_needs_sparks_writer_is_refused_before_planning(job: Any) -> None:
    DeltaTable.create(
        job.folder / "lake" / "orders",
        pa.schema([pa.field("id", pa.int64())]),
        configuration={
            "delta.enableChangeDataFeed": "false",
            "delta.columnMapping.mode": "name",
            "delta.minReaderVersion": "2",
            "delta.minWriterVersion": "5",
        },
    )
    with pytest.raises(ConfigurationError, match="only Spark's own writer"):
        job.ingest()
    assert not job.state.runs


# --- what decides


def test_a_header_routes_records_that_are_not_decoded_also_from_files(job: Any, tmp_path: Path, verify: Any) -> None:
    """By the last header of the name. What the broker's files do not show yet is read from the broker."""
    routes = {"*": {"path": "./lake/rest"}}
    job.change(decode=None, sink={"route_by": "header.kind", "dead_letters": None, "routes": routes})
    job.backfill(segments=[str(files_of(job, tmp_path / "files"))])
    job.ingest()
    assert numbers(job, "orders", "") == NUMBERS["order"]
    assert numbers(job, "rest", "") == NUMBERS["odd"]
    assert set(job.table("orders").schema().to_arrow().names) >= {"key", "value", "headers"}
    found = verify(job.job)
    assert found.ok, found.findings
    assert found.headline == f"all rows agree ({COUNT} rows)"


def test_a_query_keeps_the_route(spark_job: Any, verify: Any) -> None:
    job = spark_job
    query = "SELECT id + 1 AS next, _kseg_topic, _kseg_partition, _kseg_offset FROM __rows__ WHERE id <> 0"
    job.change(transform=[{"sql": query}])
    with pytest.raises(ConfigurationError, match="have lost _kseg_route"):
        job.ingest()
    job.change(transform=[{"sql": query.replace("_kseg_topic", "_kseg_route, _kseg_topic")}])
    job.die("land:orders:committed")
    job.ingest(take_over=True)
    assert numbers(job, "orders") == [n for n in NUMBERS["order"] if n]
    assert numbers(job, "payments") == NUMBERS["payment"]
    assert sorted(job.table("payments").to_pyarrow_table()["next"].to_pylist()) == [n + 1 for n in NUMBERS["payment"]]
    (run,) = (run for run in job.state.runs.values() if run.finished)
    assert job.table("refunds").transaction_version(run.plan.app_id) == run.sequence, (
        "behind a transform a commit says so"
    )
    assert verify(job.job).ok


def test_partitions_and_columns_are_each_tables_own(job: Any, topic: str, verify: Any) -> None:
    """Columns are added to the tables that rows are routed to now, and partitions are made of decoded columns."""
    job.change(sink={"partition_by": [{"bucket": [4, "id"]}], "merge_schema": True})
    DeltaTable.create(
        job.folder / "lake" / "orders",
        pa.schema(
            [
                pa.field("old", pa.string()),
                pa.field("id_bucket", pa.int32()),
                *(
                    pa.field(f"_kseg_{name}", kind)
                    for name, kind in (("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()))
                ),
                pa.field("_kseg_run", pa.string()),
            ]
        ),
        partition_by=["id_bucket"],
    )
    job.ingest()
    assert numbers(job, "orders") == NUMBERS["order"]
    assert numbers(job, "payments") == NUMBERS["payment"]
    names = {table: set(job.table(table).schema().to_arrow().names) for table in ("orders", "payments")}
    assert names["orders"] - names["payments"] == {"old"}
    assert job.table("payments").metadata().partition_columns == ["id_bucket"]
    found = verify(job.job)
    assert found.ok, found.findings
