"""DAGs from a folder of job files, as a DAG file makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

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
