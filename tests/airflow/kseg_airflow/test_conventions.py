"""What Airflow expects of a provider beside its operators: lineage, links by http, connections that can be tested."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kseg_airflow.compat import AirflowSkipException
from kseg_airflow.exchange import place_of
from kseg_airflow.hooks import KsegHook
from kseg_airflow.lineage import table_names
from kseg_airflow.links import DriverLogLink, RunReportLink
from kseg_airflow.operators import KsegIngestOperator

JOB = """
version: 1
name: orders
kafka: {bootstrap.servers: "broker-1:9092,broker-2:9092"}
source: {topics: [orders]}
sink: {path: s3://lake/orders}
ledger: s3://lake/_ledger
"""
LANDED = {
    "run": "r1",
    "status": "done",
    "ranges": [{"topic": "orders", "partition": 0, "start": 0, "end": 3}],
    "tables": [{"path": "s3://lake/orders", "version": 4, "rows": 3}],
}
NOTHING = {"run": "r1", "status": "nothing-to-do", "ranges": [], "tables": []}


def program(folder: Path, script: str) -> str:
    path = folder / "kseg"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def run(folder: Path, document: dict[str, Any], tries: int = 1, **more: Any) -> tuple[KsegIngestOperator, Any]:
    """An operator whose driver prints the document; and what it returned."""
    job = folder / "orders.yaml"
    job.write_text(JOB)
    (folder / "printed").write_text(json.dumps(document))
    task = KsegIngestOperator(
        task_id="ingest",
        job_file=job,
        kseg=program(folder, f"echo $KSEG_DRIVER >>{folder}/marks; cat {folder}/printed"),
        run_dir=str(folder / "runs"),
        poll_interval=0.05,
        deferrable=False,
        **more,
    )
    ti = SimpleNamespace(
        dag_id="orders", task_id="ingest", run_id="r", map_index=-1, try_number=tries, xcom_push=lambda **_: None
    )
    return task, task.execute({"ti": ti, "outlet_events": Events()})


class Events(dict[Any, Any]):
    def __missing__(self, key: Any) -> Any:
        self[key] = SimpleNamespace(extra=None)
        return self[key]


def test_a_run_that_lands_nothing_may_skip_the_task_and_is_read_by_then(tmp_path: Path) -> None:
    with pytest.raises(AirflowSkipException, match="nothing to land"):
        run(tmp_path, NOTHING, skip_if_nothing=True)
    [record] = tmp_path.glob("runs/*/*/*/record.json")
    assert json.loads(record.read_text())["taken"]
    (tmp_path / "other").mkdir()
    assert run(tmp_path / "other", NOTHING)[1]["status"] == "nothing-to-do"
    (tmp_path / "third").mkdir()
    assert run(tmp_path / "third", LANDED, skip_if_nothing=True)[1]["run"] == "r1"


def test_openlineage_is_told_of_topics_and_tables(tmp_path: Path) -> None:
    """By the provider's own extractor, as its listener calls it."""
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    task, _ = run(tmp_path, LANDED)
    for found in (DefaultExtractor(task).extract(), DefaultExtractor(task).extract_on_complete(None)):
        assert found is not None
        assert [(one.namespace, one.name) for one in found.inputs] == [("kafka://broker-1:9092", "orders")]
        assert [(one.namespace, one.name) for one in found.outputs] == [("s3://lake", "orders")]
    (tmp_path / "nothing").mkdir()
    task, _ = run(tmp_path / "nothing", NOTHING)
    found = DefaultExtractor(task).extract_on_complete(None)
    assert found is not None
    assert (found.inputs, found.outputs) == ([], [])


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/lake/my orders", ("file", "/lake/my orders")),
        ("s3://lake/raw/orders/", ("s3://lake", "raw/orders")),
        ("main.raw.orders", ("x-delta", "main.raw.orders")),
    ],
)
def test_a_table_is_named_as_openlineage_names_it(path: str, names: tuple[str, str]) -> None:
    assert table_names(path) == names


def test_links_lead_to_where_the_run_folder_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All pages are called report.html: by the file's name alone, all runs had one address."""
    monkeypatch.setenv("KSEG_REPORT_URL", "https://reports.example.com/kseg/")
    page = tmp_path / "runs" / "orders" / "r" / "ingest" / "try-1" / "report.html"
    task, _ = run(tmp_path, {**LANDED, "report": str(page)})
    below = "https://reports.example.com/kseg/orders/r/ingest/try-1"
    assert RunReportLink().get_link(task, ti_key=None) == f"{below}/report.html"
    assert DriverLogLink().get_link(task, ti_key=None) == f"{below}/driver.log"


@pytest.mark.parametrize(
    ("file", "url", "place"),
    [
        ("/runs/a b/report.html", "https://r", "https://r/a%20b/report.html"),
        ("/lake/pages/r1.html", "https://r", "https://r/r1.html"),
        ("https://lake/pages/r1.html", "https://r", "https://lake/pages/r1.html"),
        ("/runs/a/report.html", None, "file:///runs/a/report.html"),
        (None, "https://r", None),
    ],
)
def test_the_place_of_a_page(file: str | None, url: str | None, place: str | None) -> None:
    assert place_of(file, url, "/runs") == place


def test_a_connection_is_tested_by_listing_the_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "b:9092", "sasl.password": "hunter2"}
    monkeypatch.setenv("AIRFLOW_CONN_BROKERS", json.dumps({"conn_type": "kafka", "extra": extra}))
    asked = f'echo "$*" >{tmp_path}/words; grep -q hunter2 "$4" || exit 9'
    answers = program(tmp_path, f"{asked}; echo '{{\"topics\": [1, 2]}}'")
    assert KsegHook(kseg=answers, kafka_conn_id="brokers").test_connection() == (True, "2 topics are visible")
    assert (tmp_path / "words").read_text().startswith("topics --json --command-config /dev/fd/")
    (tmp_path / "away").mkdir()
    error = {"error": {"message": "no answer from b:9092"}, "exit_code": 4}
    away = program(tmp_path / "away", f"echo '{json.dumps(error)}'; exit 4")
    works, said = KsegHook(kseg=away, kafka_conn_id="brokers").test_connection()
    assert (works, "no answer from b:9092" in said, "hunter2" in said) == (False, True, False)
    monkeypatch.setenv("AIRFLOW_CONN_BROKERS", json.dumps({"conn_type": "http"}))
    works, said = KsegHook(kseg=away, kafka_conn_id="brokers").test_connection()
    assert (works, "make it one of type kafka" in said) == (False, True)
    assert KsegHook(kseg=away).test_connection()[0] is False


def test_a_retry_that_finds_nothing_delivers_what_the_ledger_says_its_earlier_tries_have_landed(tmp_path: Path) -> None:
    """The first worker died while its driver worked, and has a run folder of its own: green, and no event."""
    (tmp_path / "worker-a").mkdir()
    run(tmp_path / "worker-a", LANDED)
    [mark] = (tmp_path / "worker-a" / "marks").read_text().split()
    folder = tmp_path / "worker-b"
    folder.mkdir()
    runs = [{"run_id": "r1", "ended_at": "2026-01-01", "owner": f"host-a:7:{mark}-0f12"}]
    (folder / "runs.json").write_text(json.dumps({"runs": runs, "leases": []}))
    (folder / "r1.json").write_text(json.dumps(LANDED))
    job = folder / "orders.yaml"
    job.write_text(JOB)
    script = f"""
case "$*" in
*"--runs"*) cat {folder}/runs.json ;;
*"--run r1"*) cat {folder}/r1.json ;;
*) echo '{json.dumps({**LANDED, "status": "nothing-to-do"})}' ;;
esac"""
    task = KsegIngestOperator(
        task_id="ingest",
        job_file=job,
        kseg=program(folder, script),
        run_dir=str(folder / "its-own"),
        poll_interval=0.05,
        deferrable=False,
    )
    ti = SimpleNamespace(
        dag_id="orders", task_id="ingest", run_id="r", map_index=-1, try_number=2, xcom_push=lambda **_: None
    )
    events = Events()
    assert task.execute({"ti": ti, "outlet_events": events})["run"] == "r1"
    [event] = [told.extra["kseg"] for told in events.values()]
    assert (event["run"], "earlier" in event) == ("r1", False)
    # A clear is another task's work: what it finds is what it says.
    ti.max_tries = 3
    cleared = {"ti": ti, "outlet_events": Events(), "dag_run": SimpleNamespace(run_id="r", clear_number=0)}
    assert task.execute(cleared)["status"] == "nothing-to-do"
    assert cleared["outlet_events"] == {}
