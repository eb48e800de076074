"""What operators ask `kseg` for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import DAG

from kseg_airflow.compat import AirflowFailException
from kseg_airflow.operators import KsegBackfillOperator, KsegCommandOperator, KsegIngestOperator
from kseg_airflow.sensors import KsegIntervalClosedSensor


def context(run: str = "scheduled__2026", max_tries: int = 2, clears_of_the_run: int = 0) -> dict[str, Any]:
    ti = SimpleNamespace(run_id=run, max_tries=max_tries)
    return {"ti": ti, "dag_run": SimpleNamespace(run_id=run, clear_number=clears_of_the_run)}


def label(words: list[str]) -> str | None:
    return words[words.index("--label") + 1] if "--label" in words else None


def test_a_replacement_is_another_one_when_it_is_cleared_and_the_same_one_in_a_retry() -> None:
    """Airflow 3 counts clears of other tasks as clears of the run, 2.11 none before the run has ended."""
    task = KsegBackfillOperator(task_id="land", job_file="orders.yaml", mode="replace", emit_assets=False)
    first, retry = label(task.arguments(context())), label(task.arguments(context(clears_of_the_run=1)))
    assert first == retry == "scheduled__2026 2"
    assert label(task.arguments(context(max_tries=3))) == "scheduled__2026 3"
    long = label(task.arguments(context("r" * 250)))
    assert long is not None
    assert len(long) <= 100
    assert long != label(task.arguments(context("r" * 250, 3)))


@pytest.mark.parametrize(("mode", "given", "told"), [("replace", "mended", "mended"), ("missing", None, None)])
def test_a_label_that_is_given_stays_and_none_is_made_up_for_what_is_missing(
    mode: str, given: str | None, told: str | None
) -> None:
    task = KsegBackfillOperator(task_id="land", job_file="orders.yaml", mode=mode, label=given, emit_assets=False)
    assert label(task.arguments(context())) == told


@pytest.mark.parametrize("told", [{}, {"data_interval_start": None, "data_interval_end": None}])
@pytest.mark.parametrize("native", [False, True])
def test_a_run_without_an_interval_fails_for_good_and_says_why(native: bool, told: dict[str, Any]) -> None:
    """The template raised: three retries, and a traceback of Jinja's."""
    with DAG("intervals", schedule=None, render_template_as_native_obj=native):
        land = KsegBackfillOperator(task_id="land", job_file="orders.yaml", emit_assets=False)
        closed = KsegIntervalClosedSensor(task_id="closed", job_file="orders.yaml")
    land.render_template_fields({**context(), **told})
    closed.render_template_fields({**context(), **told})
    with pytest.raises(AirflowFailException, match="--logical-date"):
        land.arguments(context())
    with pytest.raises(AirflowFailException, match="--logical-date"):
        closed.poke({})


def test_a_token_of_spark_connect_is_in_the_drivers_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It was part of `remote`: in the rendered fields, in the log and in the command line."""
    pytest.importorskip("airflow.providers.apache.spark")
    monkeypatch.setenv(
        "AIRFLOW_CONN_LAKEHOUSE", "spark-connect://etl:s3cr3t%2Ftoken@spark.example.com:443?use_ssl=true"
    )
    program = tmp_path / "kseg"
    program.write_text(f'#!/bin/sh\necho "$SPARK_REMOTE" >{tmp_path}/remote; echo "$*" >{tmp_path}/words\n')
    program.chmod(0o755)
    task = KsegIngestOperator(
        task_id="ingest",
        job_file="orders.yaml",
        remote_conn_id="lakehouse",
        kseg=str(program),
        run_dir=str(tmp_path / "runs"),
        poll_interval=0.05,
        emit_assets=False,
        deferrable=False,
    )
    ti = SimpleNamespace(dag_id="orders", task_id="ingest", run_id="r", map_index=-1, xcom_push=lambda **_: None)
    monkeypatch.setattr(task, "job_file", None)  # nothing is looked up in a ledger
    monkeypatch.setattr(task, "arguments", lambda _: ["ingest", "orders.yaml"])
    task.execute({"ti": ti})
    remote = (tmp_path / "remote").read_text().strip()
    assert remote == "sc://spark.example.com:443/;user_id=etl;token=s3cr3t/token;use_ssl=true"
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "remote"]
    assert {"words", "record.json", "driver.log"} <= {path.name for path in files}
    assert [path for path in files if b"s3cr3t" in path.read_bytes()] == []
    assert "s3cr3t" not in "".join(capfd.readouterr())


@pytest.mark.parametrize("arguments", [{"remote": "sc://host/;token=s3cr3t"}, {"remote_conn_id": "kafka"}])
def test_a_token_in_an_address_and_a_connection_of_another_type_are_rejected(
    arguments: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", "kafka://")
    given: dict[str, Any] = {"emit_assets": False, **arguments}
    task = KsegIngestOperator(task_id="ingest", job_file="orders.yaml", **given)
    ask = task.arguments if "remote" in arguments else lambda _: task.secret_environment()
    with pytest.raises(AirflowFailException, match="spark_connect"):
        ask(context())


@pytest.mark.parametrize("native", [False, True])
def test_a_runs_interval_is_what_is_asked_for(native: bool) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with DAG("intervals", schedule=None, render_template_as_native_obj=native):
        task = KsegBackfillOperator(task_id="land", job_file="orders.yaml", emit_assets=False)
    interval = {"data_interval_start": start, "data_interval_end": start + timedelta(hours=1)}
    task.render_template_fields({**context(), **interval})
    words = task.arguments(context())
    assert words[words.index("--interval") + 1] == "2026-01-01T00:00:00+00:00/2026-01-01T01:00:00+00:00"


@pytest.mark.parametrize("drain", [False, True])
def test_a_drain_is_asked_for(drain: bool) -> None:
    task = KsegIngestOperator(task_id="ingest", job_file="orders.yaml", drain=drain, emit_assets=False)
    assert ("--drain" in task.arguments(context())) == drain


def test_connections_are_templates() -> None:
    """A DAG for each environment was needed where only the connections differ."""
    ids: dict[str, Any] = dict.fromkeys(["kafka_conn_id", "spark_conn_id", "remote_conn_id"], "{{ site }}")
    with DAG("sites", schedule=None):
        land = KsegIngestOperator(task_id="land", job_file="orders.yaml", emit_assets=False, **ids)
        closed = KsegIntervalClosedSensor(task_id="closed", job_file="orders.yaml", kafka_conn_id="{{ site }}")
    for task in (land, closed):
        task.render_template_fields({**context(), "site": "east"})
    assert (land.kafka_conn_id, land.spark_conn_id, land.remote_conn_id, closed.kafka_conn_id) == ("east",) * 4


@pytest.mark.parametrize("lose", [False, True])
def test_a_task_that_abandons_a_run_says_that_rows_may_be_lost(lose: bool) -> None:
    """Nobody can be asked in a task."""
    task = KsegCommandOperator(
        task_id="abandon", command="repair", job_file="orders.yaml", options={"abandon": "17-9a"}, lose_rows=lose
    )
    words = ["repair", "orders.yaml", "--abandon", "17-9a"]
    assert task.arguments(context()) == ([*words, "--lose-rows"] if lose else words)


def test_rows_are_lost_by_no_other_command() -> None:
    with pytest.raises(ValueError, match="repair"):
        KsegCommandOperator(task_id="tidy", command="maintain", job_file="orders.yaml", lose_rows=True)
