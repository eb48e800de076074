"""Where Kafka is and how one logs in, from a connection alone: a real Airflow, and a broker that asks for a password.

The password is looked for wherever somebody could see it: rendered fields, logs, XComs, run files, the ledger, and the
command line and environment of every process that came by meanwhile.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("airflow.sdk")

from landed import once, read_table
from onlooker import Onlooker, content

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

CONNECTION = "orders_kafka"
TASKS = ("closed", "land", "verify", "audit")

# Deferrable ones have the triggerer read the connection, the others a worker.
DAG = """
from airflow.sdk import DAG
from kseg_airflow.audit import KsegAuditOperator
from kseg_airflow.operators import KsegBackfillOperator, KsegVerifyOperator
from kseg_airflow.sensors import KsegIntervalClosedSensor

asked = {{"job_file": {job!r}, "kafka_conn_id": {connection!r}}}

with DAG("connection", schedule=None):
    closed = KsegIntervalClosedSensor(task_id="closed", deferrable=True, **asked)
    land = KsegBackfillOperator(task_id="land", commit_offsets=True, run_dir={runs!r}, deferrable=True, **asked)
    verify = KsegVerifyOperator(task_id="verify", run_dir={runs!r}, deferrable=False, **asked)
    closed >> land >> verify >> KsegAuditOperator(task_id="audit", **asked)
"""


def job_file(lake: Path, topic: str) -> Path:
    """A job that does not know where Kafka is."""
    file = lake / "orders.yaml"
    file.write_text(
        json.dumps(
            {
                "version": 1,
                "name": "connection",
                "kafka": {"bootstrap.servers": "told-by-the-connection.invalid:9092"},
                "source": {"topics": [topic]},
                "interval": {},
                "sink": {"path": "./table"},
                "ledger": "./_ledger",
                "group": "connection",
                "spark": {"master": "local[1]"},
            }
        )
    )
    return file


def test_sensor_and_operators_work_by_a_connection_whose_password_is_seen_nowhere(
    airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, lake: Path
) -> None:
    topic = kafka.topic(prefix="secured")
    # Ends soon: the sensor asks again about an end that lies in the future when that has come.
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=12)
    start = end - timedelta(hours=1)
    kafka.produce(topic, [{"value": f"order {n}", "timestamp": int(start.timestamp() * 1000) + n} for n in range(9)])
    airflow.connection(CONNECTION, "kafka", extra=kafka.connection)
    dag = DAG.format(job=str(job_file(lake, topic)), connection=CONNECTION, runs=str(lake / "runs"))
    airflow.add_dag(dag, "connection.py", expect=["connection"])
    with Onlooker(kafka.password) as onlooker:
        run = airflow.trigger("connection", logical_date=start, interval=(start, end))
        airflow.wait_for_task("connection", run, "closed", "deferred")
        kafka.produce(topic, [{"value": "after", "timestamp": int(end.timestamp() * 1000)}])
        airflow.wait_for_run("connection", run, timeout=500)
    assert read_table(kseg, lake / "table").addresses == once({(topic, 0, n) for n in range(9)})
    assert kafka.group_offsets("connection") == {(topic, 0): 9}

    for command in ("interval", "backfill", "verify", "audit"):  # the onlooker has looked well
        assert any(f" {command} " in line and "--command-config" in line for line in onlooker.seen), command
    assert onlooker.found == set()
    for task in TASKS:
        told = json.dumps(airflow.task("connection", run, task)) + airflow.log("connection", run, task)
        assert task in told
        assert kafka.password not in told
    assert kafka.password not in json.dumps(airflow.xcom("connection", run, "land"))
    written = [path for folder in (lake, airflow.home) for path in folder.rglob("*") if path.is_file()]
    assert {"result.json", "run.json", "driver.log", "triggerer.log"} <= {path.name for path in written}
    assert [path for path in written if kafka.password.encode() in content(path)] == []
    assert [path for path in written if path.name == "kafka.properties"] == []


def test_a_wrong_password_is_told_without_it(airflow: RunningAirflow, kafka: KafkaProcess, lake: Path) -> None:
    topic = kafka.topic(prefix="secured")
    extra = kafka.connection | {"sasl.password": "not-the-password"}
    airflow.connection(CONNECTION, "kafka", extra=extra)
    dag = DAG.format(job=str(job_file(lake, topic)), connection=CONNECTION, runs=str(lake / "runs"))
    airflow.add_dag(
        dag.replace('"connection"', '"connection_wrong"'), "connection_wrong.py", expect=["connection_wrong"]
    )
    day = datetime(2026, 1, 1, tzinfo=UTC)
    run = airflow.trigger("connection_wrong", logical_date=day, interval=(day, day + timedelta(days=1)))
    airflow.wait_for_run("connection_wrong", run, "failed")
    log = airflow.wait_for_log("connection_wrong", run, "closed", "uthentication")
    assert "not-the-password" not in log
