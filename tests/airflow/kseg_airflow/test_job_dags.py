"""DAGs from a folder of job files, as a DAG file makes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.serialization.serialized_objects import DagSerialization

from kseg_airflow.job_dags import job_dags, raise_faults
from kseg_airflow.job_file import JobFileFaults

JOB = """
version: 1
name: {name}
kafka: {{bootstrap.servers: "localhost:9092"}}
source: {{topics: [orders]}}
sink: {sink}
ledger: ./lake/_kseg_ledger
airflow: {airflow}
"""


def write(folder: Path, name: str, *, sink: str = "{path: ./lake/orders}", airflow: str = "{}") -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(JOB.format(name=name, sink=sink, airflow=airflow))
    return file


def test_text_and_keys_that_yaml_takes_for_dates_and_numbers_make_a_dag(tmp_path: Path) -> None:
    """Airflow's checks raised a TypeError, which took away all DAGs of the folder."""
    write(tmp_path, "dated", airflow="{tags: [2026-07-01], owner: 2026-07-01, description: 2026-07-01}")
    write(tmp_path, "routed", sink="{route_by: value.kind, routes: {1: {path: './lake/{topic}'}}}")
    dags = job_dags(tmp_path)
    assert dags["dated"].tags == {"kseg", "2026-07-01"}
    assert dags["dated"].get_task("ingest").owner == "2026-07-01"
    [outlet] = dags["routed"].get_task("ingest").outlets
    assert outlet.uri == f"file://{tmp_path}/lake/1"
    raise_faults(tmp_path)


def test_a_file_that_airflow_refuses_is_told_of_as_a_fault_and_leaves_the_others(tmp_path: Path) -> None:
    """One DAG that is not valid makes an import error of the DAG file, and Airflow then runs none of its DAGs."""
    write(tmp_path, "a")
    write(tmp_path, "b", airflow="{schedule: '99 * * * *'}")
    write(tmp_path, "c", airflow="{retries: many}")
    write(tmp_path, "d")
    assert list(job_dags(tmp_path)) == ["a", "d"]
    with pytest.raises(JobFileFaults) as caught:
        raise_faults(tmp_path)
    assert [fault.file.name for fault in caught.value.faults] == ["b.yaml", "c.yaml"]
    assert "b.yaml: airflow: no DAG can be made: AirflowTimetableInvalid: [99 * * * *] is not" in str(caught.value)


def test_values_of_a_job_file_are_no_templates(tmp_path: Path) -> None:
    """Spark's own placeholder raised, and a job file could ask for the secrets of any connection."""
    conf = {"spark.executor.extraJavaOptions": "-Xlog:gc:/tmp/{{EXECUTOR_ID}}.log", "spark.x": "{{ conn.x.password }}"}
    options = {"archives": "{{ ds }}", "conf": conf}
    execution = {"submit": "spark-submit", "submit_options": options, "kafka_conn_id": "{{ a }}", "spark_conn_id": "b"}
    write(tmp_path, "orders", airflow=json.dumps({"mode": "interval", "schedule": "@daily", "execution": execution}))
    dag = job_dags(tmp_path, env={"DAY": "{{ ds }}"})["orders"]
    land, closed = dag.get_task("land"), dag.get_task("closed")
    DagSerialization.to_dict(dag)
    for task in (land, closed):
        task.render_template_fields({"ds": "2026-01-01", "params": {"mode": "replace"}})
        assert (task.kafka_conn_id, task.env) == ("{{ a }}", {"DAY": "2026-01-01"})
    assert (land.submit_options, land.spark_conn_id, land.mode) == (options, "b", "replace")
