"""Job files as a DAG file reads them, held against `kseg check`, which reads the same keys."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kseg_airflow.job_file import (
    _KEYS,
    Execution,
    JobFile,
    JobFileFault,
    JobFileFaults,
    read_document,
    read_job_file,
    read_job_files,
)

if TYPE_CHECKING:
    from kseg_process import Kseg

JOB = """
version: 1
name: {name}
kafka: {{bootstrap.servers: "localhost:9092"}}
source: {{topics: [orders]}}
sink: {{path: ./lake/orders}}
ledger: ./lake/_kseg_ledger
"""

FULL = """
airflow:
  dag_id: all.of-it
  description: Everything
  schedule: "0 6 * * 1-5"
  timezone: Europe/Berlin
  start_date: 2026-01-01T01:00:00+01:00
  end_date: "2026-02-01T00:00:00Z"
  catchup: true
  max_active_runs: 3
  mode: interval
  owner: web
  tags: [a, b]
  retries: 0
  retry_delay: 1h30m
  pool: few
  pool_slots: 2
  priority_weight: -5
  queue: big
  deadline: 1.5h
  execution:
    submit: spark-submit
    deferrable: false
    spark_conn_id: spark_x
    kafka_conn_id: kafka_x
    submit_options: {archives: env.tar.gz, conf: {spark.driver.memory: 2g, spark.executor.instances: 4}}
    poll_interval: 30s
  verify: true
"""


def write(folder: Path, name: str, section: str = "", job: str = JOB) -> Path:
    file = folder / f"{name}.yaml"
    file.write_text(job.format(name=name) + section)
    return file


def as_kseg_tells(value: Any) -> Any:
    """A value in the spelling of `kseg check --json`."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{int(value.total_seconds())}s"
    if isinstance(value, Execution):
        return {part.name: as_kseg_tells(getattr(value, part.name)) for part in fields(value)}
    return list(value) if isinstance(value, tuple) else value


TEXT_THAT_YAML_TAKES_FOR_MORE = "airflow: {tags: [2026-07-01, 12:30], owner: 2026-07-01, dag_id: 2026-07-01}"
PLACES = """
airflow:
  schedule:
    assets: [./x/../a, "s3://b//c/./d", "S3://b/e", "file:///l/a b", "file://localhost/l//c/", "hdfs:///t", "s3://b/../f"]
"""
SOUND = (
    "airflow: {}",
    FULL,
    TEXT_THAT_YAML_TAKES_FOR_MORE,
    "airflow: {schedule: {assets: [./lake/a, 's3://b/c/']}}",
    PLACES,
)

#: A section, and the place of its fault.
FAULTY = [
    ("airflow: []", "airflow"),
    ("airflow: {shedule: '@daily'}", "airflow.shedule"),
    ("airflow: {schedule: sometimes}", "airflow.schedule"),
    ("airflow: {schedule: 15}", "airflow.schedule"),
    ("airflow: {schedule: {asset: [a]}}", "airflow.schedule"),
    ("airflow: {schedule: {assets: ['file://host/a']}}", "airflow.schedule"),
    ("airflow: {schedule: {assets: ['s3://me:secret@b/a']}}", "airflow.schedule"),
    ("airflow: {schedule: {assets: ['s3:b/a']}}", "airflow.schedule"),
    ("airflow: {start_date: 2026-01-01}", "airflow.start_date"),
    ("airflow: {start_date: 2026-01-01T00:00:00}", "airflow.start_date"),
    ("airflow: {retries: '3'}", "airflow.retries"),
    ("airflow: {retries: true}", "airflow.retries"),
    ("airflow: {max_active_runs: 0}", "airflow.max_active_runs"),
    ("airflow: {retry_delay: 5}", "airflow.retry_delay"),
    ("airflow: {deadline: soon}", "airflow.deadline"),
    ("airflow: {mode: both}", "airflow.mode"),
    ("airflow: {mode: interval}", "airflow.schedule"),
    ("airflow: {mode: interval, schedule: '@once'}", "airflow.schedule"),
    ("airflow: {catchup: true}", "airflow.catchup"),
    ("airflow: {tags: web}", "airflow.tags"),
    ("airflow: {dag_id: a b}", "airflow.dag_id"),
    ('airflow: {dag_id: "a\\n"}', "airflow.dag_id"),
    ("airflow: {timezone: ''}", "airflow.timezone"),
    ("airflow: {timezone: Mars/Base}", "airflow.timezone"),
    ("airflow: {execution: {submit: yarn}}", "airflow.execution"),
    ("airflow: {execution: {master: local}}", "airflow.execution"),
    ("airflow: {execution: {submit: livy}}", "airflow.execution"),
    ("airflow: {execution: {submit_options: {file: f}}}", "airflow.execution"),
    ("airflow: {execution: {poll_interval: soon}}", "airflow.execution"),
    ("airflow: {verify: 'yes'}", "airflow.verify"),
    ("airflow: {drain: 1}", "airflow.drain"),
    ("airflow: {drain: true, mode: interval, schedule: '@daily'}", "airflow.drain"),
]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, kseg: Kseg) -> dict[str, tuple[Path, Any]]:
    """What `kseg check` tells of a file with each of the sections; one process looks at all of them."""
    folder = tmp_path_factory.mktemp("checked")
    sections = [*SOUND, *(section for section, _ in FAULTY)]
    files = [write(folder, f"job-{number}", section) for number, section in enumerate(sections)]
    told = kseg.json("check", *files, exit_code=2)["files"]
    return {section: (file, one) for section, file, one in zip(sections, files, told, strict=True)}


@pytest.mark.parametrize("section", SOUND)
def test_each_key_and_default_is_read_as_kseg_reads_it(checked: dict[str, tuple[Path, Any]], section: str) -> None:
    path, told = checked[section]
    assert set(told["airflow"]) == set(_KEYS)
    read = read_job_file(path)
    ours = {key: as_kseg_tells(getattr(read, key)) for key in _KEYS}
    theirs = told["airflow"] | {"dag_id": told["airflow"]["dag_id"] or told["job"]}
    if isinstance(theirs["schedule"], dict):
        theirs["schedule"] = theirs["schedule"]["assets"]
    assert ours == theirs


@pytest.mark.parametrize(("section", "place"), FAULTY)
def test_what_kseg_refuses_is_a_fault_here_too(checked: dict[str, tuple[Path, Any]], section: str, place: str) -> None:
    path, told = checked[section]
    assert told["faults"]
    with pytest.raises(JobFileFault) as caught:
        read_job_file(path)
    assert (caught.value.file, caught.value.place) == (path, place)
    assert str(path) in str(caught.value)


def test_one_broken_file_leaves_the_others(tmp_path: Path) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b", "airflow: {retries: many}")
    (tmp_path / "c.yaml").write_text("version: [1\n")
    (tmp_path / "d.yaml").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "e.yaml").write_text("- 1\n")
    write(tmp_path, "f", "airflow: {dag_id: a}")
    write(tmp_path, "h", "airflow: {start_date: 2026-13-01T00:00:00Z}")
    (tmp_path / "g.txt").write_text("no job")
    files, faults = read_job_files(tmp_path)
    assert [file.dag_id for file in files] == ["a"]
    assert [fault.file.name for fault in faults] == ["b.yaml", "c.yaml", "d.yaml", "e.yaml", "f.yaml", "h.yaml"]
    told = str(JobFileFaults(faults)).splitlines()
    assert len(told) == 7
    assert "c.yaml: is not YAML" in told[2]
    assert "line 2" in told[2]
    assert told[5].endswith("f.yaml: airflow.dag_id: a is the DAG of a.yaml")


def test_a_file_is_parsed_once_and_again_when_it_has_changed(tmp_path: Path) -> None:
    path = write(tmp_path, "a", "airflow: {owner: one}")
    assert read_document(path) is read_document(path)
    write(tmp_path, "a", "airflow: {owner: another}")
    assert read_job_file(path).owner == "another"


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    files, faults = read_job_files(tmp_path / "none")
    assert files == []
    assert [str(fault) for fault in faults] == [f"{tmp_path / 'none'}: is not a folder"]


def test_a_file_without_the_section_is_run_by_hand(tmp_path: Path) -> None:
    read = read_job_file(write(tmp_path, "orders"))
    assert read == JobFile(read.path, "orders", dag_id="orders")
    assert read.start_date is None or read.start_date.tzinfo is UTC
